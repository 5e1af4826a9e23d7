"""Arithmetic written down instead of done: numbers that remember how they were made, and the lines that make them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class Symbol:
    """A number that is not known yet. Sums, differences, products and quotients of symbols are symbols.

    Args:
        tape: where it is written down.
        index: its place there.

    >>> tape = Tape()
    >>> a, b = tape.given("a"), tape.given("b")
    >>> tape.lines([a * b + a * b, a * b - b])
    (['t2 = a * b'], ['t2 + t2', 't2 - b'])
    """

    __slots__ = ("index", "tape")

    def __init__(self, tape: Tape, index: int) -> None:
        self.tape, self.index = tape, index

    def __add__(self, other: Symbol) -> Symbol:
        return self.tape.made("+", self, other)

    def __sub__(self, other: Symbol) -> Symbol:
        return self.tape.made("-", self, other)

    def __mul__(self, other: Symbol) -> Symbol:
        return self.tape.made("*", self, other)

    def __truediv__(self, other: Symbol) -> Symbol:
        return self.tape.made("/", self, other)

    def sqrt(self) -> Symbol:
        """The square root."""
        return self.tape.made("sqrt", self, self)


class Tape:
    """What was done with symbols, in order; what is written twice is kept once. For an example see `Symbol`."""

    def __init__(self) -> None:
        self._entries: list[tuple[str, int, int] | str] = []
        self._known: dict[tuple[str, int, int] | str, int] = {}

    def _symbol(self, entry: tuple[str, int, int] | str) -> Symbol:
        if entry not in self._known:
            self._known[entry] = len(self._entries)
            self._entries.append(entry)
        return Symbol(self, self._known[entry])

    def given(self, expression: str) -> Symbol:
        """A number that is there before: the expression that reads it."""
        return self._symbol(expression)

    def made(self, operation: str, left: Symbol, right: Symbol) -> Symbol:
        """The result of an operation."""
        return self._symbol((operation, left.index, right.index))

    def operations(self, results: Iterable[Symbol]) -> int:
        """How many operations these results take."""
        return sum(isinstance(self._entries[index], tuple) for index in self._needed(results))

    def _needed(self, results: Iterable[Symbol]) -> list[int]:
        waiting, seen = [symbol.index for symbol in results], set()
        while waiting:
            index = waiting.pop()
            if index not in seen:
                seen.add(index)
                entry = self._entries[index]
                waiting += entry[1:] if isinstance(entry, tuple) else ()
        return sorted(seen)

    def lines(self, results: Sequence[Symbol]) -> tuple[list[str], list[str]]:
        """Python lines that make the results.

        Args:
            results: what is wanted.

        Returns:
            The lines, one for every number that is used more than once, and an expression for each result.
        """
        needed = self._needed(results)
        uses = dict.fromkeys(needed, 0)
        for index in needed:
            entry = self._entries[index]
            if isinstance(entry, tuple):
                uses[entry[1]] += 1
                uses[entry[2]] += entry[0] != "sqrt"  # of one number
        texts: dict[int, tuple[str, str]] = {}  # index → operation and expression
        lines = []
        for index in needed:
            entry = self._entries[index]
            if isinstance(entry, str):
                texts[index] = ("", entry)
                if uses[index] > 1 and not entry.isidentifier():
                    lines.append(f"t{index} = {entry}")
                    texts[index] = ("", f"t{index}")
                continue
            operation, left, right = entry
            if operation == "sqrt":
                texts[index] = ("", f"math.sqrt({texts[left][1]})")
                continue
            first, second = _term(operation, texts[left], False), _term(operation, texts[right], True)
            texts[index] = (operation, f"{first} {operation} {second}")
            if uses[index] > 1:
                lines.append(f"t{index} = {texts[index][1]}")
                texts[index] = ("", f"t{index}")
        return lines, [texts[symbol.index][1] for symbol in results]


def _term(operation: str, operand: tuple[str, str], second: bool) -> str:
    """An operand, in brackets where they are needed."""
    inner, text = operand
    weak = inner in ("+", "-")
    needed = (weak and (operation in "*/" or second)) or (second and inner in ("*", "/") and operation in "*/")
    return f"({text})" if needed else text
