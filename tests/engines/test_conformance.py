"""What every variant owes its user, whatever model, engine and rule: one suite over the whole catalog."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import POPULATION, run
from engine_variants import FAMILIES, Variant, catalog, parameters, quick

from iclearn.core.jax_settings import compile_meter
from iclearn.core.recipe import Init
from iclearn.core.status import Status
from iclearn.models.attention import _CLASSES


def exact_loss(variant: Variant, weights: dict[str, np.ndarray]) -> float:
    """The loss of these weights over all prompts (of fresh ones: over 4096): the first of a run that starts there."""
    whole = Variant(variant.family, "moments" if variant.fresh else "samples", "gd", softmax=variant.softmax)
    many = {"task": POPULATION.replace(num_prompts=4096)} if variant.fresh else {}
    return run(whole.recipe(init=Init.given(weights), steps=1, **many), weights=weights).final_loss


@pytest.mark.parametrize("variant", parameters())
def test_conformance(variant: Variant):
    made = variant.recipe()
    trace = run(made)
    loss = trace.loss.values

    assert trace.status in (Status.FINISHED, Status.CONVERGED)
    assert trace.provenance["engine"] == variant.engine
    assert len(loss) == made.steps
    assert np.isfinite(loss).all()
    assert loss.dtype == variant.dtype

    axes = _CLASSES[variant.family].axes
    for name, dims in axes.items():
        weights = trace.data[f"weight_{name}"]
        assert weights.dims == ("record", *dims)
        assert weights.dtype == variant.dtype
        assert np.isfinite(weights).all()
    records = trace.data["record"].values
    assert (records[0], records[-1]) == (0, made.steps)
    moved = [np.abs(trace.weights(-1)[name] - trace.weights(0)[name]).max() for name in axes]
    assert min(moved) > 0, "every weight is trained"

    if variant.stochastic:
        assert exact_loss(variant, trace.weights(-1)) < exact_loss(variant, trace.weights(0))
    else:
        assert loss[-1] < 0.95 * loss[0], "training lowers the loss"
        if variant.rule in ("gd", "sgd", "flow"):
            assert (np.diff(loss) < 1e-6 * loss[0]).all(), "and never raises it"

    assert run(made).equals(trace), "the same recipe gives the same numbers"
    with compile_meter() as spent:
        other = run(variant.recipe(seed=4, lr=0.5 * made.optimizer.lr, steps=made.steps + 7))
    assert spent.programs == 0, "another seed, learning rate and length need no new program"
    assert len(other.loss) == made.steps + 7
    assert np.abs(other.loss.values[:60] - loss).max() > 1e-6


FLOAT32 = [p for p in parameters() if p.values[0].dtype == "float32"]


@pytest.mark.parametrize("variant", FLOAT32)
def test_float32_follows_float64(variant: Variant):
    """Single precision: 60 steps with rounding of 6e-8 relative each leave the curves together to 1e-4."""
    narrow = run(variant.recipe())
    wide = run(variant.recipe(dtype="float64"))
    np.testing.assert_allclose(narrow.loss, wide.loss, rtol=1e-4)
    assert np.abs(narrow.loss.values - wide.loss.values).max() > 0, "it is not double precision in disguise"


def test_the_catalog_is_complete():
    """Every family is there with every engine and rule; and the quick part covers each pair and each rule."""
    found = catalog()
    assert len(set(found)) == len(found)
    assert set(FAMILIES) == set(_CLASSES)
    quick_ones = [v for v in found if quick(v)]
    assert {(v.family, v.engine) for v in found} == {(v.family, v.engine) for v in quick_ones}
    assert {v.rule for v in found} == {v.rule for v in quick_ones}
