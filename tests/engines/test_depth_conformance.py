"""What every deep linear transformer owes its user, whatever blocks and engine: the suite of `test_conformance`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from engine_cases import DATA, DIM, run

from iclearn.core.jax_settings import compile_meter
from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.core.status import Status
from iclearn.models import LinearTransformer
from iclearn.tasks import Covariance, GivenData, LinearRegression

FRESH = LinearRegression(dim=DIM, context_len=8, covariance=Covariance.white(trace=None), num_prompts=None)


class Depth(NamedTuple):
    """A row: blocks, engine and rule."""

    blocks: str
    engine: str
    rule: str
    scalar: bool = False
    batch_size: int | None = None
    tied: bool = False
    dtype: str = "float64"

    def __str__(self) -> str:
        return "-".join(str(v) for v in self if v)

    def recipe(self, **changes) -> Recipe:
        fresh = self.engine in ("population", "gram") or (self.engine == "samples" and self.batch_size is not None)
        model = LinearTransformer(layers=2, blocks=self.blocks, scalar=self.scalar, tied=self.tied)  # type: ignore[arg-type]
        lr = changes.pop("lr", 0.02)
        return Recipe(
            task=FRESH if fresh else GivenData.of(DATA), model=model, init=Init(0.3), engine=self.engine,  # type: ignore[arg-type]
            optimizer=Optimizer(self.rule, lr, batch_size=self.batch_size),  # type: ignore[arg-type]
            dtype=self.dtype, **({"steps": 60, "seed": 3} | changes),  # type: ignore[arg-type]
        )  # fmt: skip


QUICK = [
    Depth("gd", "population", "gd"),
    Depth("sparse", "population", "adam", scalar=True, tied=True),
    Depth("gd", "moments", "momentum"),
    Depth("sparse", "gram", "adam", batch_size=64),
    Depth("full", "samples", "adam"),
    Depth("diag", "samples", "adam", batch_size=64, dtype="float32"),
]
SLOW = [
    Depth("gd", "population", "adam", scalar=True),
    Depth("gd", "gram", "sgd", batch_size=64),
    Depth("sparse", "samples", "gd"),
    Depth("full", "samples", "sgd", batch_size=64),
    Depth("diag", "samples", "gd", tied=True),
    Depth("gd", "moments", "gd", dtype="float32"),
]
ROWS = [pytest.param(row, id=str(row)) for row in QUICK]
ROWS += [pytest.param(row, id=str(row), marks=pytest.mark.slow) for row in SLOW]


@pytest.mark.parametrize("row", ROWS)
def test_conformance(row: Depth):
    made = row.recipe()
    trace = run(made)
    loss = trace.loss.values
    assert trace.status in (Status.FINISHED, Status.CONVERGED)
    assert trace.provenance["engine"] == row.engine
    assert len(loss) == made.steps
    assert np.isfinite(loss).all()
    assert loss.dtype == row.dtype

    axes = trace.model().axes
    assert set(axes) == set(made.model.shapes(DIM))  # type: ignore[attr-defined]
    for name, dims in axes.items():
        weights = trace.data[f"weight_{name}"]
        assert weights.dims == ("record", *dims)
        assert weights.dtype == row.dtype
        moved = np.abs(trace.weights(-1)[name] - trace.weights(0)[name])
        assert moved.max() > 0, "every weight is trained"
        if name == "b" and not row.tied:
            assert moved[-1].max() == 0, "but the last B reaches no prediction"
    stochastic = row.batch_size is not None
    early, late = (loss[:15].mean(), loss[-15:].mean()) if stochastic else (loss[0], loss[-1])
    assert late < 0.95 * early, "training lowers the loss"

    assert run(made).equals(trace), "the same recipe gives the same numbers"
    with compile_meter() as spent:
        other = run(row.recipe(seed=4, lr=0.01, steps=67))
    assert spent.programs == 0, "another seed, learning rate and length need no new program"
    assert np.abs(other.loss.values[:60] - loss).max() > 1e-6
