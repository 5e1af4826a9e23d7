"""Distances of steps from preconditioned gradient descent: by hand, along a run, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import iclearn as icl
from iclearn.core.errors import IclearnError
from iclearn.probes import identity_distance, preconditioner_distance
from iclearn.tasks.varied_regression import VariedRegression

TASK = VariedRegression(
    dim=2, context_len=8, num_prompts=None, inverse_prior=True,
    covariance=icl.Covariance.eigenvalues([1.0, 0.1], rotate=True),
)  # fmt: skip


def trained(model: icl.LinearTransformer, **more) -> icl.Trace:
    recipe = icl.Recipe(
        task=TASK, model=model, init=icl.Init(0.05), optimizer=icl.Optimizer("adam", lr=0.2, halve_every=150), steps=900
    )
    return icl.simulate(recipe.replace(**more))


def test_the_distance_is_that_of_the_formula_and_does_not_know_scale_or_rotation():
    rng = np.random.default_rng(0)
    m, turn = rng.normal(size=(4, 4)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    by_hand = np.sqrt(((m - m.trace() / 4 * np.eye(4)) ** 2).sum() / (m**2).sum())
    assert identity_distance(m) == pytest.approx(by_hand)
    assert identity_distance(-7 * turn @ m @ turn.T) == pytest.approx(by_hand)
    assert identity_distance(np.array([[0.0, 1.0], [-1.0, 0.0]])) == 1
    assert np.isnan(identity_distance(np.zeros((3, 2, 2)))).all()


def test_training_leads_to_a_preconditioner_that_is_the_inverse_covariance():
    trace = trained(icl.LinearTransformer(layers=1, blocks="gd"))
    found = preconditioner_distance(trace)
    assert set(found) == {"a"}
    assert found["record"].values.tolist() == trace.data["record"].values.tolist()
    assert found["a"].dims == ("record", "layer", "head")
    assert float(found["a"][0].min()) > 0.1
    assert float(found["a"][-1].max()) < 1e-3
    other = preconditioner_distance(trace, np.eye(2))
    assert float(other["a"][-1].max()) > 0.5, "beside plain gradient descent"


WHITE = icl.LinearRegression(
    dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.white(trace=None)
)  # fmt: skip


def test_the_last_change_of_the_inputs_counts_only_where_it_is_used():
    a, b = np.random.default_rng(1).normal(size=(2, 2, 1, 2, 2))
    given = preconditioner_distance(a, np.eye(2), b=b)
    assert given["b"].values == pytest.approx(identity_distance(b[None, :1]))
    both = preconditioner_distance(a, np.eye(2), b=b, tied=True)
    assert both["b"].values == pytest.approx(identity_distance(b[None]))


@pytest.mark.parametrize(("tied", "counted"), [(False, 2), (True, 1)])
def test_scalar_weights_are_multiples_of_the_identity(tied, counted):
    trace = trained(icl.LinearTransformer(layers=3, scalar=True, tied=tied), steps=2, task=WHITE)
    found = preconditioner_distance(trace)
    assert found["b"].sizes["curved_layer"] == counted
    assert float(found["a"].max()) == float(found["b"].max()) == 0.0
    stretched = preconditioner_distance(trace, np.diag([3.0, 1.0]))
    assert stretched["a"].values == pytest.approx(float(identity_distance(np.diag([3.0, 1.0]))))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ((np.zeros((2, 2)),), "needs the covariance"),
        ((np.zeros((2, 2)), np.eye(2)), r"\(\[record,\] layer, head, 2, 2\)"),
        ((np.full((1, 1, 2, 2), np.nan), np.eye(2)), "NaN"),
    ],
)
def test_what_cannot_be_read_is_refused(given, words):
    with pytest.raises(IclearnError, match=words):
        preconditioner_distance(*given)


def test_models_without_steps_and_matrices_that_are_not_square_are_refused():
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    with pytest.raises(IclearnError, match="has no steps A_l; its weights are kq, value"):
        preconditioner_distance(icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged"), steps=2)))
    with pytest.raises(IclearnError, match="has the shape of A"):
        preconditioner_distance(np.zeros((2, 1, 2, 2)), np.eye(2), b=np.zeros((1, 1, 2, 2)))
    with pytest.raises(IclearnError, match=r"\(…, dim, dim\)"):
        identity_distance(np.zeros((2, 3)))
