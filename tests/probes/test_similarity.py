"""Distances between models: by prompts against closed forms, and closed forms against each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from saddle_runs import linear_spectrum, saddle_levels

from iclearn.core.errors import IclearnError
from iclearn.core.prompt import Batch, full_prompt
from iclearn.models import MergedAttention, ReducedMerged, ReducedSeparate
from iclearn.models.predictors.softmax_descent import SoftmaxDescent
from iclearn.probes.predictors_match import nearest_predictor
from iclearn.probes.similarity import (
    beta_moment,
    compare,
    model_matrix,
    population_distance,
    population_sensitivity,
)
from iclearn.tasks.softmax_regression import SoftmaxRegression

DIM, CONTEXT = 3, 7
EIGENVALUES = np.array([0.6, 0.3, 0.1])


def prompts(count: int, seed: int, noise: float = 0.0) -> Batch:
    """Prompts drawn here with numpy: x ~ N(0, Λ), w ~ N(0, I), y = w·x + noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, CONTEXT + 1, DIM)) * np.sqrt(EIGENVALUES)
    w = rng.normal(size=(count, DIM))
    truth = np.einsum("pni,pi->pn", x, w)
    y = truth + noise**0.5 * rng.normal(size=truth.shape)
    prompt = full_prompt(jnp.asarray(x[:, :-1]), jnp.asarray(y[:, :-1, None]), jnp.asarray(x[:, -1]))
    return Batch(prompt, jnp.asarray(truth[:, -1:]), jnp.full(count, 1 / count))


def linear_model(matrix: np.ndarray, normalize: str = "context") -> ReducedMerged:
    """ŷ = β̂ᵀ W x_q in the chosen normalization."""
    gain = {"context": 1.0, "none": float(CONTEXT), "tokens": CONTEXT / (CONTEXT + 1)}[normalize]
    return ReducedMerged(jnp.ones((1, 1, 1)), jnp.asarray(matrix.T[None] / gain), normalize)  # type: ignore[arg-type]


def random_matrices(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(DIM, DIM)), rng.normal(size=(DIM, DIM))


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_prompts_agree_with_the_closed_form(noise):
    """20,000 prompts: within four standard errors, which are themselves small."""
    a, b = random_matrices(0)
    found = compare(linear_model(a), linear_model(b), prompts(20_000, 1, noise))
    cov = np.diag(EIGENVALUES)
    exact = population_distance(a, b, cov, CONTEXT, noise=noise) ** 0.5
    assert found.prediction_error < 0.03 * exact
    assert abs(found.prediction - exact) < 4 * found.prediction_error
    sensitivity, _ = population_sensitivity(a, b, cov, CONTEXT, noise=noise)
    assert found.sensitivity_error < 0.03 * sensitivity**0.5
    assert abs(found.sensitivity - sensitivity**0.5) < 4 * found.sensitivity_error
    assert found.num_prompts == 20_000


def test_standard_errors_are_those_of_repetitions():
    a, b = (linear_model(m) for m in random_matrices(2))
    found = [compare(a, b, prompts(400, seed)) for seed in range(200)]
    for name in ("prediction", "sensitivity", "cosine"):
        values = np.array([getattr(f, name) for f in found])
        errors = np.array([getattr(f, f"{name}_error") for f in found])
        assert errors.mean() == pytest.approx(values.std(), rel=0.25)


def test_standard_errors_of_few_prompts_are_those_of_a_sample():
    """Variances with n − 1; that of a root by its derivative."""
    a, b = (linear_model(m) for m in random_matrices(2))
    batch = prompts(4, 0)
    ones = [compare(a, b, jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], batch)) for i in range(4)]
    found = compare(a, b, batch)
    cosines, squares = np.array([one.cosine for one in ones]), np.array([one.prediction**2 for one in ones])
    assert found.cosine_error == pytest.approx(cosines.std(ddof=1) / 2, rel=1e-9)
    expected = squares.std(ddof=1) / 2 / (2 * squares.mean() ** 0.5)
    assert found.prediction_error == pytest.approx(expected, rel=1e-9)


def test_beta_moment_by_sampling():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(200_000, CONTEXT, DIM)) * np.sqrt(EIGENVALUES)
    y = np.einsum("pni,pi->pn", x, rng.normal(size=(200_000, DIM))) + 0.5**0.5 * rng.normal(size=x.shape[:2])
    beta = np.einsum("pni,pn->pi", x, y) / CONTEXT
    outer = np.einsum("pi,pj->pij", beta, beta)
    errors = outer.std(0) / 200_000**0.5
    exact = beta_moment(np.diag(EIGENVALUES), CONTEXT, noise=0.5)
    assert (np.abs(outer.mean(0) - exact) < 4.5 * errors).all()


def test_same_function_in_different_clothes():
    """Equal predictions give distance 0 and cosine 1, whatever the family and normalization."""
    matrix, _ = random_matrices(3)
    batch = prompts(50, 0)
    left, singular, right = np.linalg.svd(matrix)
    separate = ReducedSeparate(
        jnp.ones((1, 1, 1)), jnp.asarray((left * singular).T[None]), jnp.asarray(right[None]), "context"
    )
    kq = np.concatenate([matrix.T / CONTEXT, np.zeros((DIM, 1))], 1)[None]
    full = MergedAttention(jnp.asarray([[[0.0, 0.0, 0.0, 1.0]]]), jnp.asarray(kq))
    for other in (separate, full, linear_model(matrix, "none"), linear_model(matrix, "tokens")):
        assert model_matrix(other, CONTEXT) == pytest.approx(matrix)
        found = compare(linear_model(matrix), other, batch)
        assert found.prediction < 1e-12
        assert found.sensitivity < 1e-12
        assert found.cosine == pytest.approx(1)


def test_opposite_zero_and_weighted():
    matrix, _ = random_matrices(4)
    batch = prompts(60, 0)
    model, nothing = linear_model(matrix), linear_model(0 * matrix)
    opposite = compare(model, linear_model(-matrix), batch)
    assert opposite.cosine == pytest.approx(-1)
    assert opposite.prediction == pytest.approx(2 * compare(model, nothing, batch).prediction)
    assert np.isnan(compare(model, nothing, batch).cosine)
    half = jnp.where(jnp.arange(60) < 30, 1 / 30, 0.0)
    weighted = compare(model, nothing, Batch(batch.prompt, batch.target, half))
    first = jax.tree.map(lambda a: a[:30], batch)
    cut = compare(model, nothing, Batch(first.prompt, first.target, jnp.full(30, 1 / 30)))
    assert weighted.prediction == pytest.approx(cut.prediction)
    assert weighted.prediction_error == pytest.approx(cut.prediction_error)
    assert weighted.num_prompts == 30


def test_softmax_sensitivity_by_finite_differences():
    """The derivative of a model that is not linear in the query."""
    rng = np.random.default_rng(6)
    softmax = MergedAttention(jnp.asarray(rng.normal(size=(1, 1, 4))), jnp.asarray(rng.normal(size=(1, 3, 4))), True)
    nothing = linear_model(np.zeros((3, 3)))
    batch = prompts(1, 9)
    prompt = jax.tree.map(lambda a: a[0], batch.prompt)
    step = 1e-6
    slopes = []
    for i in range(3):
        ends = [
            softmax.predict(full_prompt(prompt.x, prompt.y, prompt.query.at[i].add(sign * step)))[0] for sign in (1, -1)
        ]
        slopes.append(float(ends[0] - ends[1]) / (2 * step))
    assert compare(softmax, nothing, batch).sensitivity == pytest.approx(np.linalg.norm(slopes), rel=1e-6)
    with pytest.raises(IclearnError, match="softmax"):
        model_matrix(softmax, CONTEXT)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 1000), scale=st.floats(0.1, 10))
def test_population_distance_is_a_squared_metric(seed, scale):
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, DIM, DIM))
    root = rng.normal(size=(DIM, DIM))
    cov = root @ root.T + 0.1 * np.eye(DIM)

    def distance(left: np.ndarray, right: np.ndarray) -> float:
        return float(population_distance(left, right, cov, CONTEXT)) ** 0.5

    assert distance(a, a) == 0
    assert distance(a, b) == pytest.approx(distance(b, a))
    assert distance(a, c) <= distance(a, b) + distance(b, c) + 1e-9
    assert distance(scale * a, scale * b) == pytest.approx(scale * distance(a, b))
    _, cosine = population_sensitivity(a, scale * a, cov, CONTEXT)
    assert cosine == pytest.approx(1)
    stacked = population_distance(np.stack([a, b]), c, cov, CONTEXT)
    assert stacked**0.5 == pytest.approx([distance(a, c), distance(b, c)])


def test_distance_to_the_optimum_is_the_excess_loss():
    """The loss is quadratic: L(W) − L(W*) = E(ŷ_W − ŷ_{W*})², so saddle levels are distances to the last map."""
    eigenvalues = linear_spectrum(4)
    full = 1 / (eigenvalues + (eigenvalues + eigenvalues.sum()) / 31)
    maps = np.stack([np.diag(np.where(np.arange(4) < m, full, 0.0)) for m in range(5)])
    levels = saddle_levels(eigenvalues, 31)
    found = population_distance(maps, maps[-1], np.diag(eigenvalues), 31)
    assert found == pytest.approx(levels - levels[-1], abs=1e-12)


def test_nearest_predictor():
    eigenvalues = linear_spectrum(4)
    cov = np.diag(eigenvalues)
    full = 1 / (eigenvalues + (eigenvalues + eigenvalues.sum()) / 31)
    maps = np.stack([np.diag(np.where(np.arange(4) < m, full, 0.0)) for m in range(5)])
    rng = np.random.default_rng(0)
    path = maps[[0, 0, 1, 2, 3, 4]] + 0.02 * rng.normal(size=(6, 4, 4))
    found = nearest_predictor(path / 31, maps, 31, cov, gain=31.0)
    assert found.nearest.tolist() == [0, 0, 1, 2, 3, 4]
    direct = [[population_distance(p, m, cov, 31) ** 0.5 for m in maps] for p in path]
    assert found.distance == pytest.approx(np.array(direct))
    with pytest.raises(IclearnError, match="matrices of the model's shape"):
        nearest_predictor(path, maps[:, :3, :3], 31, cov)


def test_documents_are_compared_by_the_same_function():
    task = SoftmaxRegression(context_len=6, dim=3, num_prompts=4)
    batch = task.source(0, "float64").everything()
    step, twice = SoftmaxDescent(jnp.asarray(0.5)), SoftmaxDescent(jnp.asarray(1.0))
    found = compare(step, twice, batch)
    # One gradient step from zero gives the weights x = lr g, and the sensitivity of every word is x itself.
    lengths = jax.vmap(lambda document: jnp.linalg.norm(step.estimate(document)))(batch.prompt)
    words = step.sensitivity(jax.tree.map(lambda leaf: leaf[0], batch.prompt)).shape[0]
    assert found.cosine == pytest.approx(1.0)
    assert found.sensitivity == pytest.approx(float(jnp.sqrt(words * jnp.mean(lengths**2))))
    assert found.prediction > 0
