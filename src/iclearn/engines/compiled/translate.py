"""Generated programs as LLVM: a translator for the few words of Python that they are written in.

Numba translates them too, but takes seconds for a program of a few hundred lines, most of it to find out which types
there are. Here they are known: numbers of two precisions, whole numbers, truth values, and arrays that do not overlap.
Arithmetic has the types that Numba gives it, and a multiplication and an addition may be fused (``contract``).
"""

from __future__ import annotations

import ast
import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arithmetic import BOOL, INT, REALS, Arithmetic
from .signatures import read_signature

ir: Any = importlib.import_module("llvmlite.ir")  # it says nothing of types
_ALIGN = 64  # bytes: whole lines of a cache
_ORDERS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


@dataclass(frozen=True)
class Span:
    """An array inside a program.

    Args:
        start: pointer to its first number.
        lengths: of its axes, as far as they are known; None where nothing asks for them.
    """

    start: Any
    lengths: tuple[Any, ...] = (None,)


def translated(source: str, name: str, *, apart: bool = False) -> Any:
    """A generated program as a module of LLVM.

    Args:
        source: of `programs`: constants, functions, and at the end the entry, whose decorator holds its signature.
        name: of the module.
        apart: whether functions that others call must stay functions.

    Returns:
        The module, whose function of the entry's name takes for every array a pointer and the lengths of its axes.
    """
    tree = ast.parse(source)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    constants: dict[str, Any] = {"np": np, "math": math}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            exec(compile(ast.Module([node], []), name, "exec"), constants)
    program = _Program(ir.Module(name), constants, functions, apart)
    entry, parameters = read_signature(source)
    program.compile(entry, [(REALS.get(kind, INT), axes) for kind, axes in parameters], outside=True)
    return program.module


class _Program:
    """The functions of one program, translated when they are first called."""

    def __init__(
        self, module: Any, constants: dict[str, Any], functions: dict[str, ast.FunctionDef], apart: bool
    ) -> None:
        self.module, self.constants, self.functions, self.apart = module, constants, functions, apart
        self.real = REALS[np.dtype(constants["REAL"]).name]
        self._made: dict[str, Any] = {}
        self._tables: dict[str, Span] = {}

    def compile(self, name: str, kinds: Sequence[tuple[Any, int]], *, outside: bool = False) -> Any:
        if name in self._made:
            return self._made[name]
        node = self.functions[name]
        types: list[Any] = []
        for kind, axes in kinds:
            types += [kind.as_pointer(), *[INT] * (axes if outside else 0)] if axes else [kind]
        returns = any(isinstance(part, ast.Return) and part.value is not None for part in ast.walk(node))
        function = ir.Function(self.module, ir.FunctionType(self.real if returns else ir.VoidType(), types), name)
        if not outside:
            function.linkage = "internal"
            if self.apart:
                function.attributes.add("noinline")
        self._made[name] = function
        arguments, given = iter(function.args), []
        for _, axes in kinds:
            argument = next(arguments)
            if axes:
                argument.add_attribute("noalias")
                given.append(Span(argument, tuple(next(arguments) if outside else None for _ in range(axes))))
            else:
                given.append(argument)
        _Body(self, function, dict(zip([a.arg for a in node.args.args], given, strict=True))).write(node.body)
        return function

    def table(self, name: str) -> Span:
        """An array of constants."""
        if name not in self._tables:
            values = np.asarray(self.constants[name], np.float64)
            kind = ir.ArrayType(REALS["float64"], values.size)
            held = ir.GlobalVariable(self.module, kind, f"table_{name}")
            held.global_constant, held.linkage = True, "internal"
            held.initializer = ir.Constant(kind, values.ravel().tolist())
            start = held.gep([ir.Constant(INT, 0), ir.Constant(INT, 0)])
            self._tables[name] = Span(start, tuple(ir.Constant(INT, length) for length in values.shape))
        return self._tables[name]


class _Body(Arithmetic):
    """One function while it is written."""

    def __init__(self, program: _Program, function: Any, arguments: dict[str, Any]) -> None:
        self.head = ir.IRBuilder(function.append_basic_block("head"))  # where room is made
        super().__init__(program.module, ir.IRBuilder(function.append_basic_block("body")))
        self.program, self.function = program, function
        self.spans = {name: value for name, value in arguments.items() if isinstance(value, Span)}
        self.places: dict[str, Any] = {}
        self.ends: list[Any] = []  # where ``break`` leads to
        for name, value in arguments.items():
            if not isinstance(value, Span):
                self.assign(name, value)

    def write(self, lines: Sequence[ast.stmt]) -> None:
        self.statements(lines)
        if not self.code.block.is_terminated:
            self.code.ret_void()
        self.head.branch(self.function.blocks[1])

    def statements(self, lines: Sequence[ast.stmt]) -> None:
        for line in lines:
            getattr(self, f"write_{type(line).__name__}")(line)

    # statements

    def write_Assign(self, line: ast.Assign) -> None:
        target, value = line.targets[0], line.value
        pairs = [(target, value)]
        if isinstance(target, ast.Tuple):
            assert isinstance(value, ast.Tuple)
            pairs = list(zip(target.elts, value.elts, strict=True))
        for (place, _), made in zip(pairs, [self.value(part) for _, part in pairs], strict=True):
            self.store(place, made)

    def write_AugAssign(self, line: ast.AugAssign) -> None:
        now = self.value(line.target)
        self.store(line.target, self.operation(line.op, now, self.value(line.value)))

    def write_Expr(self, line: ast.Expr) -> None:
        self.value(line.value)

    def write_Return(self, line: ast.Return) -> None:
        assert line.value is not None
        self.code.ret(self.cast(self.value(line.value), self.program.real))

    def write_Break(self, _: ast.Break) -> None:
        self.code.branch(self.ends[-1])
        self.code.position_at_end(self.function.append_basic_block("unreached"))

    def write_If(self, line: ast.If) -> None:
        with self.code.if_else(self.value(line.test)) as (then, otherwise):
            with then:
                self.statements(line.body)
            with otherwise:
                self.statements(line.orelse)

    def write_While(self, line: ast.While) -> None:
        check, body, end = (self.function.append_basic_block(word) for word in ("check", "loop", "end"))
        self.code.branch(check)
        self.code.position_at_end(check)
        self.code.cbranch(self.value(line.test), body, end)
        self.code.position_at_end(body)
        self.ends.append(end)
        self.statements(line.body)
        self.ends.pop()
        self.code.branch(check)
        self.code.position_at_end(end)

    def write_For(self, line: ast.For) -> None:
        assert isinstance(line.iter, ast.Call)
        assert isinstance(line.target, ast.Name)
        bounds = [self.value(part) for part in line.iter.args]
        start = bounds[0] if len(bounds) > 1 else ir.Constant(INT, 0)
        stop, stride = bounds[1 if len(bounds) > 1 else 0], bounds[2] if len(bounds) > 2 else ir.Constant(INT, 1)
        check, body, end = (self.function.append_basic_block(word) for word in ("check", "loop", "end"))
        before = self.code.block
        self.code.branch(check)
        self.code.position_at_end(check)
        index = self.code.phi(INT)
        index.add_incoming(start, before)
        self.code.cbranch(self.code.icmp_signed("<", index, stop), body, end)
        self.code.position_at_end(body)
        self.assign(line.target.id, index)
        self.ends.append(end)
        self.statements(line.body)
        self.ends.pop()
        index.add_incoming(self.code.add(index, stride, flags=("nsw",)), self.code.block)
        self.code.branch(check)
        self.code.position_at_end(end)

    # places

    def store(self, place: ast.expr, value: Any) -> None:
        if isinstance(place, ast.Name):
            self.assign(place.id, value)
            return
        assert isinstance(place, ast.Subscript)
        pointer = self.pointer(place)
        self.code.store(self.cast(value, pointer.type.pointee), pointer)

    def assign(self, name: str, value: Any) -> None:
        if isinstance(value, Span):
            self.spans[name] = value
            return
        if name not in self.places:
            self.places[name] = self.head.alloca(value.type, name=name)
        if self.places[name].type.pointee != value.type:
            raise TypeError(f"{name} is a number of two kinds")
        self.code.store(value, self.places[name])

    def pointer(self, place: ast.Subscript) -> Any:
        span = self.value(place.value)
        parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
        at = self.value(parts[0])
        for part, length in zip(parts[1:], span.lengths[1:], strict=True):
            at = self.code.add(self.code.mul(at, length), self.value(part))
        return self.code.gep(span.start, [at], inbounds=True)

    def room(self, node: ast.Call, *, zero: bool) -> Span:
        """A new array, whose lengths are constants."""
        shape = node.args[0].elts if isinstance(node.args[0], ast.Tuple) else [node.args[0]]
        lengths = [int(eval(ast.unparse(part), dict(self.program.constants))) for part in shape]
        count = math.prod(lengths)
        held = self.head.alloca(self.program.real, size=ir.Constant(INT, max(1, count)))
        held.align = _ALIGN
        if zero:
            size = count * (8 if self.program.real == REALS["float64"] else 4)
            fill = self.program.module.declare_intrinsic("llvm.memset", [held.type, INT])
            self.code.call(fill, [held, ir.Constant(ir.IntType(8), 0), ir.Constant(INT, size), ir.Constant(BOOL, 0)])
        return Span(held, tuple(ir.Constant(INT, length) for length in lengths))

    # values

    def value(self, node: ast.expr) -> Any:
        return getattr(self, f"value_{type(node).__name__}")(node)

    def value_Constant(self, node: ast.Constant) -> Any:
        return ir.Constant(INT if isinstance(node.value, int) else REALS["float64"], node.value)

    def value_Name(self, node: ast.Name) -> Any:
        if node.id in self.spans:
            return self.spans[node.id]
        if node.id in self.places:
            return self.code.load(self.places[node.id])
        constant = self.program.constants[node.id]
        if np.ndim(constant):
            return self.program.table(node.id)
        if isinstance(constant, int):
            return ir.Constant(INT, constant)
        kind = constant.dtype.name if isinstance(constant, np.floating) else "float64"
        return ir.Constant(REALS[kind], float(constant))

    def value_Attribute(self, node: ast.Attribute) -> Any:
        if isinstance(node.value, ast.Name) and node.value.id == "np":  # np.inf, np.nan
            return ir.Constant(REALS["float64"], float(getattr(np, node.attr)))
        assert node.attr == "size"
        return self.value(node.value).lengths[0]

    def value_Subscript(self, node: ast.Subscript) -> Any:
        if not isinstance(node.slice, ast.Slice):
            return self.code.load(self.pointer(node))
        span, first = self.value(node.value), node.slice.lower
        return span if first is None else Span(self.code.gep(span.start, [self.value(first)], inbounds=True))

    def value_BinOp(self, node: ast.BinOp) -> Any:
        return self.operation(node.op, self.value(node.left), self.value(node.right))

    def value_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return self.code.not_(self.value(node.operand))
        value = self.value(node.operand)
        return self.code.neg(value) if value.type == INT else self.code.fneg(value)

    def value_BoolOp(self, node: ast.BoolOp) -> Any:  # both sides have no effects, so both are computed
        join = self.code.or_ if isinstance(node.op, ast.Or) else self.code.and_
        first, *rest = (self.value(part) for part in node.values)
        for other in rest:
            first = join(first, other)
        return first

    def value_Compare(self, node: ast.Compare) -> Any:
        left, right, order = self.value(node.left), self.value(node.comparators[0]), _ORDERS[type(node.ops[0])]
        if left.type == right.type == INT:
            return self.code.icmp_signed(order, left, right)
        kind = self.common(left, right)
        compare = self.code.fcmp_unordered if order == "!=" else self.code.fcmp_ordered
        return compare(order, self.cast(left, kind), self.cast(right, kind))

    def value_IfExp(self, node: ast.IfExp) -> Any:
        condition, left, right = self.value(node.test), self.value(node.body), self.value(node.orelse)
        kind = left.type if left.type == right.type else self.common(left, right)
        return self.code.select(condition, self.cast(left, kind), self.cast(right, kind))

    def value_Call(self, node: ast.Call) -> Any:
        name = ast.unparse(node.func)
        if name in ("np.zeros", "np.empty"):
            return self.room(node, zero=name == "np.zeros")
        given = [self.value(part) for part in node.args]
        if name in self.program.functions:
            kinds = [(g.start.type.pointee, len(g.lengths)) if isinstance(g, Span) else (g.type, 0) for g in given]
            called = self.program.compile(name, kinds)
            return self.code.call(called, [g.start if isinstance(g, Span) else g for g in given])
        known: dict[str, Callable[..., Any]] = {
            "REAL": lambda x: self.cast(x, self.program.real), "abs": lambda x: self.intrinsic("fabs", x),
            "math.sqrt": lambda x: self.intrinsic("sqrt", x), "max": self.larger, "min": self.smaller,
        }  # fmt: skip
        return known[name](*given)
