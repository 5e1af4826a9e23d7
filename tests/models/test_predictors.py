"""In-context algorithms: known answers, limits that turn one into another, masks and several outputs."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iclearn.core.errors import IclearnError
from iclearn.core.model import AbstractModel
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.models.predictors import PCR, Bayes, EmpiricalPCR, GradientDescent, LeastSquares, Ridge

DIM, CONTEXT, OUTPUTS = 3, 7, 2
COV = np.diag([0.6, 0.3, 0.1])


def draw(seed: int, context: int = CONTEXT, dim: int = DIM, outputs: int = OUTPUTS, noise: float = 0.3) -> Prompt:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(context, dim)), rng.normal(size=(dim, outputs))
    y = x @ w + noise * rng.normal(size=(context, outputs))
    return full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(rng.normal(size=dim)))


answer = eqx.filter_jit(lambda model, prompt: model.predict(prompt))
seeds = st.integers(0, 10**6)

EVERY: list[AbstractModel] = [
    LeastSquares(),
    Ridge(0.7),
    PCR(COV, 2, CONTEXT),
    EmpiricalPCR(2),
    Bayes(np.array([0.1, -0.2, 0.3]), COV, 0.2),
    Bayes(np.zeros((DIM, OUTPUTS)), COV),
    GradientDescent(np.array([0.1, -0.2, 0.3]), 0.1, 4),
]
named = pytest.mark.parametrize("model", EVERY, ids=lambda m: type(m).__name__)


@named
def test_absent_pairs_change_nothing(model):
    prompt = draw(0)
    mask = jnp.arange(CONTEXT) < 4
    cut = Prompt(prompt.x[:4], prompt.y[:4], prompt.query, mask[:4])
    masked = Prompt(prompt.x.at[4:].set(1e3), prompt.y.at[4:].set(-1e3), prompt.query, mask)
    np.testing.assert_allclose(answer(model, masked), answer(model, cut), rtol=1e-10)


@named
def test_outputs_are_answered_each_on_its_own_and_linearly_in_the_query(model):
    prompt = draw(1)
    both = answer(model, prompt)
    assert both.shape == (OUTPUTS,)
    if getattr(model, "mean", jnp.zeros((1, 1))).shape[1] == 1:
        alone = [
            answer(model, Prompt(prompt.x, prompt.y[:, i : i + 1], prompt.query, prompt.mask))[0]
            for i in range(OUTPUTS)
        ]
        np.testing.assert_allclose(both, jnp.stack(alone), rtol=1e-10)
    doubled = eqx.tree_at(lambda p: p.query, prompt, 2 * prompt.query)
    np.testing.assert_allclose(answer(model, doubled), 2 * both, rtol=1e-10)


@named
def test_batches_are_vmapped_and_empty_contexts_answer(model):
    prompts = jax.tree.map(lambda *a: jnp.stack(a), *[draw(s) for s in range(3)])
    together = jax.vmap(model.predict)(prompts)
    np.testing.assert_allclose(together[2], answer(model, draw(2)), rtol=1e-10)
    empty = eqx.tree_at(lambda p: p.mask, draw(0), jnp.zeros(CONTEXT, bool))
    prior = getattr(model, "mean", getattr(model, "initial", jnp.zeros((DIM, 1))))
    np.testing.assert_allclose(answer(model, empty), jnp.broadcast_to(empty.query @ prior, (OUTPUTS,)), atol=1e-12)
    assert model.weights() == {}


@given(seeds)
@settings(max_examples=15, deadline=None)
def test_least_squares_is_numpys_and_fits_what_can_be_fitted(seed):
    prompt = draw(seed)
    expected = np.asarray(prompt.query) @ np.linalg.lstsq(np.asarray(prompt.x), np.asarray(prompt.y))[0]
    np.testing.assert_allclose(answer(LeastSquares(), prompt), expected, rtol=1e-9)
    short = Prompt(prompt.x, prompt.y, prompt.x[0], jnp.arange(CONTEXT) < 2)
    np.testing.assert_allclose(answer(LeastSquares(), short), prompt.y[0], rtol=1e-9)


@given(seeds, st.floats(1e-3, 1e3))
@settings(max_examples=15, deadline=None)
def test_ridge_solves_its_normal_equations(seed, penalty):
    prompt = draw(seed)
    x, y = np.asarray(prompt.x), np.asarray(prompt.y)
    expected = np.asarray(prompt.query) @ np.linalg.solve(x.T @ x + penalty * np.eye(DIM), x.T @ y)
    np.testing.assert_allclose(answer(Ridge(penalty), prompt), expected, rtol=1e-9, atol=1e-13)


@given(seeds, st.floats(0.1, 5), st.floats(0.01, 5))
@settings(max_examples=15, deadline=None)
def test_bayes_with_an_isotropic_prior_is_ridge(seed, scale, noise):
    prompt = draw(seed)
    bayes = Bayes(np.zeros(DIM), scale * np.eye(DIM), noise)
    np.testing.assert_allclose(answer(bayes, prompt), answer(Ridge(noise / scale), prompt), rtol=1e-9, atol=1e-13)


@given(seeds, st.floats(0.01, 5))
@settings(max_examples=15, deadline=None)
def test_bayes_is_the_conditional_mean_of_the_joint_gaussian(seed, noise):
    prompt, rng = draw(seed), np.random.default_rng(seed)
    factor, mean = rng.normal(size=(DIM, DIM)), rng.normal(size=(DIM, OUTPUTS))
    cov = factor @ factor.T
    x, y, query = (np.asarray(a) for a in (prompt.x, prompt.y, prompt.query))
    weights = np.linalg.solve(x @ cov @ x.T + noise * np.eye(CONTEXT), y - x @ mean)
    np.testing.assert_allclose(
        answer(Bayes(mean, cov, noise), prompt), query @ mean + query @ cov @ x.T @ weights, rtol=1e-8, atol=1e-10
    )


def test_bayes_minimizes_the_error_over_tasks_of_its_prior():
    rng = np.random.default_rng(0)
    mean, root, noise, num = np.array([0.5, -1.0, 0.2]), np.diag([1.0, 0.3, 0.1]), 0.25, 4000
    x = rng.normal(size=(num, 5, DIM))
    w = mean + rng.normal(size=(num, DIM)) @ root
    y = np.einsum("pnd,pd->pn", x, w) + noise**0.5 * rng.normal(size=(num, 5))
    query = rng.normal(size=(num, DIM))
    prompts = full_prompt(jnp.asarray(x), jnp.asarray(y[..., None]), jnp.asarray(query))
    target = np.einsum("pd,pd->p", query, w)

    def errors(model: AbstractModel) -> np.ndarray:
        return (np.asarray(jax.jit(jax.vmap(model.predict))(prompts))[:, 0] - target) ** 2

    best = errors(Bayes(mean, root**2, noise))
    for other in (LeastSquares(), Ridge(noise), Bayes(mean, root**2, 0.0), Bayes(np.zeros(DIM), root**2, noise)):
        gap = errors(other) - best
        assert gap.mean() > 5 * gap.std() / num**0.5


def test_bayes_without_noise_fits_the_context_and_keeps_to_its_support():
    prompt = draw(3, noise=0.0)
    full = Bayes(np.ones(DIM), COV)
    np.testing.assert_allclose(answer(full, prompt), answer(LeastSquares(), prompt), rtol=1e-9)
    near = Bayes(np.ones(DIM), COV, 1e-10)
    short = eqx.tree_at(lambda p: p.mask, prompt, jnp.arange(CONTEXT) < 2)
    np.testing.assert_allclose(answer(full, short), answer(near, short), rtol=1e-6)
    flat = Bayes(np.ones(DIM), np.diag([1.0, 0.0, 0.0]), 0.5)
    along = eqx.tree_at(lambda p: p.query, prompt, jnp.array([0.0, 1.0, 0.0]))
    np.testing.assert_allclose(answer(flat, along), 1.0, rtol=1e-12)


@given(seeds, st.floats(0.01, 1))
@settings(max_examples=15, deadline=None)
def test_one_gradient_step_is_its_formula(seed, lr):
    prompt, w = draw(seed), np.random.default_rng(seed).normal(size=(DIM, OUTPUTS))
    x, y, query = (np.asarray(a) for a in (prompt.x, prompt.y, prompt.query))
    expected = query @ w + lr / CONTEXT * sum((y[i] - x[i] @ w) * (x[i] @ query) for i in range(CONTEXT))
    np.testing.assert_allclose(answer(GradientDescent(w, lr), prompt), expected, rtol=1e-10)
    np.testing.assert_allclose(answer(GradientDescent(w, lr, 0), prompt), query @ w, rtol=1e-12)


@given(seeds, st.sampled_from([2, CONTEXT]))
@settings(max_examples=10, deadline=None)
def test_many_gradient_steps_are_least_squares(seed, present):
    prompt, rng = draw(seed), np.random.default_rng(seed)
    left, _, right = np.linalg.svd(np.asarray(prompt.x)[:present], full_matrices=False)
    sizes = rng.uniform(1, 3, len(left[0]))  # a context whose least squares problem is well conditioned
    x = jnp.asarray(prompt.x).at[:present].set((left * sizes) @ right)
    prompt = Prompt(x, prompt.y, prompt.query, jnp.arange(CONTEXT) < present)
    descended = answer(GradientDescent(np.zeros(DIM), present / 9, 300), prompt)
    np.testing.assert_allclose(descended, answer(LeastSquares(), prompt), rtol=1e-9, atol=1e-11)


@given(seeds, st.integers(0, DIM))
@settings(max_examples=15, deadline=None)
def test_pcr_is_shrunk_regression_on_known_components(seed, components):
    prompt, rng = draw(seed), np.random.default_rng(seed)
    basis = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0]
    values, context_len = np.array([0.6, 0.3, 0.1]), 31
    x, y, query = (np.asarray(a) for a in (prompt.x, prompt.y, prompt.query))
    beta = x.T @ y / CONTEXT
    expected = sum(
        (query @ basis[:, d]) * (basis[:, d] @ beta) / (values[d] * (1 + (1 + values.sum() / values[d]) / context_len))
        for d in range(components)
    ) + np.zeros(OUTPUTS)
    found = answer(PCR(basis * values @ basis.T, components, context_len), prompt)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_pcr_of_a_long_context_recovers_the_learned_part_of_the_task():
    prompt = draw(5, context=200_000, outputs=1, noise=0.0)
    cov = np.diag([2.0, 1.0, 0.5])
    scaled = full_prompt(prompt.x * jnp.sqrt(jnp.diag(jnp.asarray(cov))), prompt.y, prompt.query)
    task = np.linalg.lstsq(np.asarray(scaled.x), np.asarray(scaled.y))[0][:, 0]
    found = answer(PCR(cov, 2, np.inf), scaled)
    assert float(found[0]) == pytest.approx(float(np.asarray(prompt.query)[:2] @ task[:2]), rel=2e-2)


@given(seeds)
@settings(max_examples=10, deadline=None)
def test_empirical_pcr_goes_from_nothing_to_least_squares(seed):
    prompt = draw(seed)
    counts = jnp.arange(DIM + 2)
    answers = jax.vmap(lambda m: EmpiricalPCR(m).predict(prompt))(counts)
    np.testing.assert_allclose(answers[0], 0, atol=1e-14)
    np.testing.assert_allclose(answers[DIM], answer(LeastSquares(), prompt), rtol=1e-9)
    np.testing.assert_allclose(answers[DIM + 1], answers[DIM], rtol=1e-12)
    x, y, query = (np.asarray(a) for a in (prompt.x, prompt.y, prompt.query))
    first = np.linalg.eigh(x.T @ x)[1][:, -1]
    score = x @ first
    np.testing.assert_allclose(answers[1], (query @ first) * (score @ y) / (score @ score), rtol=1e-8)


def test_requests_that_make_no_sense_are_refused():
    with pytest.raises(IclearnError, match="ridge penalty must not be negative"):
        Ridge(-1.0)
    with pytest.raises(IclearnError, match="noise variance must not be negative"):
        Bayes(np.zeros(2), np.eye(2), -0.1)
    with pytest.raises(IclearnError, match=r"needs a \(2, 2\) covariance"):
        Bayes(np.zeros(2), np.eye(3))
    with pytest.raises(IclearnError, match="eigenvalues of the prior covariance"):
        Bayes(np.zeros(2), -np.eye(2))
    with pytest.raises(IclearnError, match="components must be between 0 and dim = 3"):
        PCR(COV, 4, 31)
    with pytest.raises(IclearnError, match="gradient steps must not be negative"):
        GradientDescent(np.zeros(2), 0.1, -1)
