"""Every (model, engine, rule) there is. Adding a row buys every test of the conformance suite.

A selection that covers each model with each engine, and each rule, runs every time; the rest is marked slow.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from engine_cases import recipe

from iclearn.core.recipe import Recipe

FAMILIES = ("merged", "separate", "merged_reduced", "separate_reduced", "mlp", "conv")
RULES = ("gd", "sgd", "momentum", "adam", "adamw", "flow")
ENGINES = ("population", "moments", "samples")
LR = {"gd": 0.005, "sgd": 0.005, "momentum": 0.001, "adam": 0.01, "adamw": 0.01, "flow": 0.005}


@dataclass(frozen=True)
class Variant:
    family: str
    engine: str
    rule: str
    softmax: bool = False
    batch_size: int | None = None
    fresh: bool = False
    dtype: str = "float64"

    def __str__(self) -> str:
        extra = [name for name in ("softmax", "fresh") if getattr(self, name)]
        extra += [f"batch{self.batch_size}"] * (self.batch_size is not None) + [self.dtype] * (self.dtype != "float64")
        return "-".join([self.family, self.engine, self.rule, *extra])

    @property
    def stochastic(self) -> bool:
        return self.batch_size is not None

    def recipe(self, **changes) -> Recipe:
        lr = LR[self.rule] * (10 if self.softmax else 1)
        options = {"data": None} if self.engine == "population" or self.fresh else {}
        return recipe(
            self.family,
            self.rule,
            engine=self.engine,
            softmax=self.softmax,
            batch_size=self.batch_size,
            **({"lr": lr, "seed": 3, "dtype": self.dtype} | options | changes),
        )


def catalog() -> list[Variant]:
    found = [Variant(f, e, r) for f in FAMILIES for e in ENGINES for r in RULES]
    found += [Variant(f, "samples", r, softmax=True) for f in ("merged", "separate") for r in RULES]
    stochastic = [r for r in RULES if r not in ("gd", "flow")]
    found += [Variant(f, "samples", r, batch_size=8) for f in FAMILIES for r in stochastic]
    found += [Variant(f, "samples", r, softmax=True, batch_size=8) for f in ("merged", "separate") for r in stochastic]
    found += [Variant(f, "samples", r, batch_size=16, fresh=True) for f in FAMILIES for r in stochastic]
    found += [Variant(f, e, "gd", dtype="float32") for f in FAMILIES for e in ENGINES]
    found += [Variant("merged", "moments", "flow", dtype="float32")]
    return found


def quick(v: Variant) -> bool:
    if v.dtype == "float32":
        return v.family == "separate"
    if v.fresh:
        return (v.family, v.rule) == ("merged", "sgd")
    if v.stochastic:
        return (v.family, v.rule, v.softmax) in {("separate", "adam", True), ("mlp", "momentum", False)}
    if v.rule == "gd":
        return True
    if v.rule == "flow":
        return (v.family, v.engine, v.softmax) == ("merged", "moments", False)
    return (v.family, v.engine) == ("merged", "moments")


def parameters(*, every: bool = True) -> list:
    """The catalog as pytest parameters; the slow ones only where `every`."""
    rows = [(v, quick(v)) for v in catalog()]
    return [
        pytest.param(v, id=str(v), marks=[] if is_quick else [pytest.mark.slow])
        for v, is_quick in rows
        if is_quick or every
    ]
