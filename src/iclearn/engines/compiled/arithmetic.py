"""Arithmetic of generated programs in LLVM: numbers of two precisions and whole numbers, with the types of Numba."""

from __future__ import annotations

import ast
import importlib
from typing import Any

ir: Any = importlib.import_module("llvmlite.ir")  # it says nothing of types
INT, BOOL = ir.IntType(64), ir.IntType(1)
REALS = {"float64": ir.DoubleType(), "float32": ir.FloatType()}
_FAST = ("contract",)


class Arithmetic:
    """Writes operations on numbers at the end of a block.

    Args:
        module: the module of LLVM.
        code: its builder.
    """

    def __init__(self, module: Any, code: Any) -> None:
        self.module, self.code = module, code

    def larger(self, left: Any, right: Any) -> Any:
        return self._second_if(">", left, right)

    def smaller(self, left: Any, right: Any) -> Any:
        return self._second_if("<", left, right)

    def _second_if(self, order: str, first: Any, second: Any) -> Any:
        """The second number where it is so compared with the first, as `max` and `min` of Python; else the first."""
        kind = self.common(first, second)
        first, second = self.cast(first, kind), self.cast(second, kind)
        return self.code.select(self.code.fcmp_ordered(order, second, first), second, first)

    def intrinsic(self, name: str, *values: Any) -> Any:
        reals = [self.cast(v, REALS["float64"]) if v.type == INT else v for v in values]
        return self.code.call(self.module.declare_intrinsic(f"llvm.{name}", [reals[0].type]), reals)

    def operation(self, op: ast.operator, left: Any, right: Any) -> Any:
        if left.type == right.type == INT and not isinstance(op, ast.Div | ast.Pow):
            whole = {
                ast.Add: self.code.add, ast.Sub: self.code.sub, ast.Mult: self.code.mul, ast.FloorDiv: self.code.sdiv,
                ast.Mod: self.code.srem,
            }  # of numbers that are not negative # fmt: skip
            return whole[type(op)](left, right)
        kind = self.common(left, right)
        left, right = self.cast(left, kind), self.cast(right, kind)
        if isinstance(op, ast.Pow):
            return self.intrinsic("pow", left, right)
        real = {ast.Add: self.code.fadd, ast.Sub: self.code.fsub, ast.Mult: self.code.fmul, ast.Div: self.code.fdiv}
        return real[type(op)](left, right, flags=_FAST)

    def common(self, *values: Any) -> Any:
        """The precision of a result: single only where all are."""
        single = all(value.type == REALS["float32"] for value in values)
        return REALS["float32" if single else "float64"]

    def cast(self, value: Any, kind: Any) -> Any:
        if value.type == kind:
            return value
        if value.type == INT:
            return self.code.sitofp(value, kind)
        return self.code.fptrunc(value, kind) if kind == REALS["float32"] else self.code.fpext(value, kind)
