"""The update rules of `engines.optimizers`, optax's formulas, as arithmetic on symbols.

Gradient descent has its learning rate in the form already, so it takes the gradient as it is. Rules with a memory read
lr, momentum and weight decay (`HYPER`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .record import Symbol, Tape

MEMORY = {"gd": 0, "sgd": 0, "momentum": 1, "adam": 2, "adamw": 2}  # numbers kept for every weight
HYPER = ("lr", "momentum", "weight_decay")
_CONSTANTS = {"FIRST": "0.9", "FIRST_REST": "1 - 0.9", "SECOND": "0.999", "SECOND_REST": "1 - 0.999", "EPSILON": "1e-8"}
UNBIAS = ("unbias_first", "unbias_second")  # of Adam's moments at a step


def moved(
    rule: str, tape: Tape, weight: Symbol, gradient: Symbol, memory: Sequence[Symbol], hyper: Mapping[str, Symbol]
) -> list[Symbol]:
    """A weight after one update, and what is remembered of it.

    Args:
        rule: name of the rule.
        tape: where the arithmetic is written down.
        weight: before the update.
        gradient: of the loss by it (of gradient descent: times lr).
        memory: what is remembered before, as many numbers as MEMORY says.
        hyper: the numbers of the rule by name.

    Returns:
        The weight, and then the memory.
    """
    if rule in ("gd", "sgd"):
        return [weight - gradient]
    if rule == "momentum":
        trace = gradient + hyper["momentum"] * memory[0]
        return [weight - hyper["lr"] * trace, trace]
    constant = {name: tape.given(name) for name in (*_CONSTANTS, *UNBIAS)}
    first = constant["FIRST_REST"] * gradient + constant["FIRST"] * memory[0]
    second = constant["SECOND_REST"] * gradient * gradient + constant["SECOND"] * memory[1]
    size = (second * constant["unbias_second"]).sqrt() + constant["EPSILON"]
    move = first * constant["unbias_first"] / size
    if rule == "adamw":
        move = move + hyper["weight_decay"] * weight
    return [weight - hyper["lr"] * move, first, second]


def update_source(count: int | str, rule: str) -> str:
    """The function ``update(weights, gradient, memory, hyper, step)`` of one run, which changes weights and memory.

    Args:
        count: how many weights there are, or the expression that says so.
        rule: name of the rule.

    Returns:
        Its source without a decorator.
    """
    tape = Tape()
    starts = [slot * count if isinstance(count, int) else f"{slot} * {count}" for slot in range(MEMORY[rule])]
    places = ["weights[n]", *(f"memory[{start} + n]" for start in starts)]
    weight, *memory = (tape.given(place) for place in places)
    hyper = {name: tape.given(f"hyper[{i}]") for i, name in enumerate(HYPER)}
    lines, results = tape.lines(moved(rule, tape, weight, tape.given("gradient[n]"), memory, hyper))
    made = [f"r{i} = {text}" for i, text in enumerate(results)]
    stores = [f"{place} = r{i}" for i, place in enumerate(places)]
    body = [f"        {line}" for line in (*lines, *made, *stores)]
    head = "def update(weights, gradient, memory, hyper, step):"
    return "".join(f"{line}\n" for line in (head, *unbias_lines(rule), f"    for n in range({count}):", *body))


def unbias_lines(rule: str) -> list[str]:
    """Lines that make UNBIAS at step number ``step``; none for rules that do not need them."""
    if rule not in ("adam", "adamw"):
        return []
    rates = (_CONSTANTS["FIRST"], _CONSTANTS["SECOND"])
    return [f"    {n} = REAL(1.0 / (1.0 - {r} ** (step + 1.0)))" for n, r in zip(UNBIAS, rates, strict=True)]


def constants_source(dtype: str) -> str:
    """The precision of the run, and the constants of Adam in it."""
    return f"REAL = np.{dtype}\n" + "".join(f"{name} = REAL({value})\n" for name, value in _CONSTANTS.items())
