"""dMMSE, smoothed dMMSE, ridge and the oracle: every prefix in one pass, and the identities between them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iclearn as icl
from iclearn.core.prompt import Prompt
from iclearn.models.predictors import Bayes, DiscreteMMSE, Oracle, Ridge, SmoothedMMSE
from iclearn.models.predictors.shrinkage import ridge_prefixes
from iclearn.tasks import Covariance, PooledRegression
from iclearn.theory.diversity import bayes_error

DIM, TOKENS, NOISE = 3, 6, 0.25
RNG = np.random.default_rng(0)
POOL = RNG.normal(size=(7, DIM))
FACTOR = RNG.normal(size=(DIM, 2))
EVERY = [
    Ridge(NOISE),
    Ridge(0.0),
    Bayes(np.array([0.1, -0.2, 0.3]), np.diag([1.0, 0.2, 3.0]), NOISE),
    Bayes(np.zeros(DIM), FACTOR @ FACTOR.T, NOISE),
    DiscreteMMSE(POOL, NOISE),
    SmoothedMMSE(POOL, NOISE, 0.3),
    Oracle(POOL[0]),
]
answers = eqx.filter_jit(lambda model, x, y: jax.vmap(model.predict_prefixes)(x, y))
one_answer = eqx.filter_jit(lambda model, x, y: model.predict_prefixes(x, y))


def sequence(seed: int = 0, w: np.ndarray | None = None, noise: float = NOISE, tokens: int = TOKENS):
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(tokens, DIM)), rng.normal(size=DIM) if w is None else w
    return jnp.asarray(x), jnp.asarray(x @ w + noise**0.5 * rng.normal(size=tokens))[:, None]


def naive_dmmse(pool: np.ndarray, noise: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """One prefix and one task after another, in extended precision."""
    found = []
    for n in range(len(x)):
        exponents = np.array([-np.sum((y[:n, 0] - x[:n] @ w) ** 2) / (2 * noise) for w in pool], np.longdouble)
        weights = np.exp(exponents - exponents.max())
        found.append(float(x[n] @ (weights @ pool) / weights.sum()))
    return np.array(found)


@pytest.mark.parametrize("model", EVERY, ids=lambda m: type(m).__name__)
def test_prefixes_are_the_prompts_cut_there(model):
    x, y = sequence()
    found = np.asarray(one_answer(model, x, y))[:, 0]
    masks = jnp.arange(TOKENS - 1) < jnp.arange(TOKENS)[:, None]
    cut = jax.vmap(lambda query, mask: model.predict(Prompt(x[:-1], y[:-1], query, mask)))(x, masks)
    np.testing.assert_allclose(found, cut[:, 0], rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found, one_answer(model, x, y.at[-1].set(9.0))[:, 0])
    assert model.weights() == {}


@given(st.integers(0, 10**6), st.integers(1, 9), st.integers(1, 10), st.floats(0.01, 4.0))
@settings(max_examples=8, deadline=None)
def test_dmmse_is_the_naive_one_for_every_pool_and_block(seed, count, block, noise):
    pool = np.random.default_rng(seed).normal(size=(count, DIM))
    x, y = sequence(seed + 1)
    found = DiscreteMMSE(pool, noise, block=block).predict_prefixes(x, y)[:, 0]
    np.testing.assert_allclose(found, naive_dmmse(pool, noise, np.asarray(x), np.asarray(y)), rtol=1e-9, atol=1e-11)
    assert found[0] == pytest.approx(float(x[0] @ pool.mean(0)), abs=1e-12), "the mean of the pool"


def test_a_pool_of_one_task_is_answered_by_it():
    x, y = sequence()
    for block in (1, 1024):
        found = DiscreteMMSE(POOL[:1], NOISE, block=block).predict_prefixes(x, y)
        np.testing.assert_allclose(found[:, 0], x @ POOL[0], rtol=1e-13)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_exponents_of_a_million_do_no_harm(dtype):
    pool = np.array([[30.0, 0, 0], [-30.0, 0, 0], [30.001, 0, 0]])
    x, y = (part.astype(dtype) for part in sequence(w=pool[0], noise=1e-9))
    found = np.asarray(DiscreteMMSE(pool, 1e-3).predict_prefixes(x, y))[:, 0]
    assert found.dtype == dtype
    np.testing.assert_allclose(found[1:], naive_dmmse(pool, 1e-3, np.asarray(x, float), np.asarray(y, float))[1:], 2e-7)


@given(st.integers(0, 10**6), st.floats(1e-3, 10.0))
@settings(max_examples=15, deadline=None)
def test_smoothed_dmmse_contains_dmmse_and_bayes(seed, spread):
    x, y = sequence(seed)
    exact = one_answer(DiscreteMMSE(POOL, NOISE), x, y)
    np.testing.assert_allclose(one_answer(SmoothedMMSE(POOL, NOISE, 0.0), x, y), exact, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(one_answer(SmoothedMMSE(POOL, NOISE, 1e-9), x, y), exact, atol=1e-5)
    single = one_answer(SmoothedMMSE(POOL[:1], NOISE, spread), x, y)
    bayes = one_answer(Bayes(POOL[0], spread * np.eye(DIM), NOISE), x, y)
    np.testing.assert_allclose(single, bayes, rtol=1e-8, atol=1e-10)
    around_zero = SmoothedMMSE(np.zeros((4, DIM)), NOISE, spread).predict_prefixes(x, y)
    np.testing.assert_allclose(around_zero, one_answer(Ridge(NOISE / spread), x, y), rtol=1e-8, atol=1e-10)


def test_smoothed_dmmse_is_dmmse_over_tasks_drawn_around_the_pool():
    rng, spread = np.random.default_rng(3), 0.2
    many = np.repeat(POOL, 20_000, 0) + spread**0.5 * rng.normal(size=(len(POOL) * 20_000, DIM))
    x, y = sequence(4)
    drawn = one_answer(DiscreteMMSE(many, NOISE), x, y)
    np.testing.assert_allclose(one_answer(SmoothedMMSE(POOL, NOISE, spread), x, y), drawn, atol=0.03)
    assert np.abs(np.asarray(one_answer(DiscreteMMSE(POOL, NOISE), x, y) - drawn)).max() > 0.1


def test_a_million_tasks_are_streamed_and_are_ridge():
    """At 2²⁰ tasks of a Gaussian pool dMMSE is ridge; all exponents at once would be 2²⁰ × 6 × 2 numbers."""
    pool = PooledRegression(dim=2, num_tasks=2**20).pool(0)
    drawn = PooledRegression(dim=2, context_len=TOKENS - 1, num_prompts=2).source(0, "float64").sequences()
    compiled = answers.lower(DiscreteMMSE(pool, NOISE), drawn.x, drawn.y).compile()
    memory = compiled.compiled.memory_analysis()
    assert memory.temp_size_in_bytes < 4e6 + pool.nbytes, "one copy of the pool, and a block of exponents"
    ridge = answers(Ridge(NOISE), drawn.x, drawn.y)
    np.testing.assert_allclose(compiled(DiscreteMMSE(pool, NOISE), drawn.x, drawn.y), ridge, atol=0.02)


@pytest.mark.parametrize("outputs", [1, 2])
def test_several_outputs_share_one_posterior(outputs):
    rng = np.random.default_rng(5)
    pool, x = rng.normal(size=(6, DIM, outputs)), rng.normal(size=(TOKENS, DIM))
    y = x @ pool[2] + 0.3 * rng.normal(size=(TOKENS, outputs))
    energy = np.cumsum(((y - np.einsum("td,kdo->kto", x, pool)) ** 2).sum(-1), 1)[:, -2] / (2 * NOISE)
    weights = np.exp(energy.min() - energy)
    wanted = x[-1] @ np.einsum("k,kdo->do", weights / weights.sum(), pool)
    for model in (DiscreteMMSE(pool, NOISE), SmoothedMMSE(pool, NOISE, 0.0)):
        np.testing.assert_allclose(model.predict_prefixes(jnp.asarray(x), jnp.asarray(y))[-1], wanted, rtol=1e-8)


def test_ridge_is_solved_in_double_precision():
    """The public ridge is solved in float32 whatever the precision of its inputs; little noise makes that worse."""
    for penalty, most in [(0.25, 1e-12), (1e-6, 1e-7)]:
        x, y = (np.asarray(part) for part in sequence(7, tokens=12))
        wide = np.concatenate([x, 0.3 * x[:, ::-1] ** 2], 1)
        found = np.asarray(ridge_prefixes(jnp.asarray(wide), jnp.asarray(y), jnp.asarray(penalty)))
        single = []
        for n in range(12):
            rows = np.concatenate([wide[:n], penalty**0.5 * np.eye(6)])
            exact = np.linalg.lstsq(rows, np.concatenate([y[:n], np.zeros((6, 1))]), rcond=None)[0]
            np.testing.assert_allclose(found[n], exact, atol=most * max(1, np.abs(exact).max()))
            half = wide[:n].astype(np.float32)
            solved = np.linalg.solve(half.T @ half + np.float32(penalty) * np.eye(6, dtype=np.float32), half.T @ y[:n])
            single.append(np.abs(solved - exact).max() / max(1, np.abs(exact).max()))
        assert max(single) > 1e3 * most if penalty < 0.1 else max(single) > 1e-8
    x, y = (part.astype(jnp.float32) for part in sequence(7))
    both = [np.asarray(Ridge(1e-6).predict_prefixes(*(part.astype(t) for part in (x, y)))) for t in ("f4", "f8")]
    assert both[0].dtype == np.float32
    np.testing.assert_array_equal(both[0], both[1].astype(np.float32))


def test_golden_ridge_has_the_digits_that_the_public_one_lacks(golden):
    arrays = golden("diversity/predictors")
    x, y = arrays["m16_latent_x"], arrays["m16_latent_y"][..., None]
    found = np.asarray(answers(Ridge(0.25), jnp.asarray(x), jnp.asarray(y)))[..., 0]
    np.testing.assert_allclose(found, arrays["m16_latent_ridge_own"], atol=1e-10)
    public = np.abs(found - arrays["m16_latent_ridge_public_f32"]).max()
    assert 1e-7 < public < 5e-5


# -- identities of the mean squared errors ---------------------------------------------------------------------------


def drawn_errors(count: int, seeds: int, prompts: int, dim: int = 8, tokens: int = 16):
    """Squared errors against noise-free labels, and Δ, over d: (seed, prompt) means over prefixes on pool and new."""
    task = PooledRegression(dim=dim, context_len=tokens - 1, num_tasks=count, test_prompts=prompts, noise=NOISE)
    found: dict[str, list[np.ndarray]] = {}
    for seed in range(seeds):
        mixture, ridge = DiscreteMMSE(task.pool(seed), NOISE), Ridge(NOISE)
        for which in ("pool", "new"):
            drawn = task.source(seed, "float64", which).sequences()
            made = {"dmmse": answers(mixture, drawn.x, drawn.y), "ridge": answers(ridge, drawn.x, drawn.y)}
            pairs = {
                "dmmse": made["dmmse"] - drawn.truth, "ridge": made["ridge"] - drawn.truth,
                "delta": made["dmmse"] - made["ridge"],
            }  # fmt: skip
            for name, gap in pairs.items():
                found.setdefault(f"{name} {which}", []).append(np.asarray(gap[..., 0] ** 2) / dim)
    return {name: np.stack(parts) for name, parts in found.items()}


@pytest.mark.parametrize("count", [1, 8, 64])
def test_errors_add_up_for_the_posterior_mean_of_each_law(count):
    errors = drawn_errors(count, seeds=2, prompts=1200, dim=4, tokens=8)
    mean = {name: values.mean(-1) for name, values in errors.items()}
    on_new = mean["dmmse new"] - mean["ridge new"] - mean["delta new"]
    on_pool = mean["ridge pool"] - mean["dmmse pool"] - mean["delta pool"]
    for gap, scale in ((on_new, mean["dmmse new"]), (on_pool, mean["ridge pool"])):
        deviation = gap.std() / gap.size**0.5
        assert abs(gap.mean()) <= 4 * deviation
        assert 4 * deviation < 0.06 * scale.mean(), "sharp enough to fail"
    wrong = mean["ridge new"] - mean["dmmse new"] - mean["delta new"]
    assert abs(wrong.mean()) > 20 * wrong.std() / wrong.size**0.5, "the other way round it does not hold"
    if count == 1:
        assert errors["dmmse pool"].max() < 1e-25


def test_errors_are_those_of_the_specification():
    """d=8, 16 prefixes, σ²=.25: ridge .3449, and by prefix; dMMSE with 32 tasks .134 on its pool, .989 on new tasks."""
    errors = drawn_errors(32, seeds=8, prompts=200)
    ridge = errors["ridge new"].mean((0, 1))
    wanted = [
        1,
        0.880,
        0.762,
        0.646,
        0.534,
        0.428,
        0.331,
        0.248,
        0.182,
        0.134,
        0.101,
        0.078,
        0.063,
        0.052,
        0.044,
        0.038,
    ]
    np.testing.assert_allclose(ridge, wanted, rtol=0.1)
    assert ridge.mean() == pytest.approx(0.3449, rel=0.03)
    assert errors["dmmse pool"].mean() == pytest.approx(0.134, rel=0.1)
    assert errors["dmmse new"].mean() == pytest.approx(0.989, rel=0.06)
    assert errors["delta new"].mean() == pytest.approx(0.636, rel=0.08)


def test_ridge_reaches_the_bayes_limit_of_gaussian_tasks():
    """Lu units, at d=40 within 1/d."""
    alpha, rho, dim = 1.0, 0.25, 40
    task = PooledRegression.at(dim, alpha=alpha, tau=0.05, noise=rho, covariance=Covariance.white())
    drawn = task.source(0, "float64").sequences()
    estimate = jax.jit(jax.vmap(lambda x, y: ridge_prefixes(x, y, jnp.asarray(rho))[-1, :, 0]))(drawn.x, drawn.y)
    error = rho + float(jnp.mean(jnp.sum((estimate - drawn.w) ** 2, -1))) / dim
    assert error == pytest.approx(float(bayes_error(alpha, rho)), rel=0.04)


def test_what_cannot_be_is_refused():
    for make, words in [
        (lambda: DiscreteMMSE(POOL, 0.0), "is not > 0"),
        (lambda: DiscreteMMSE(np.zeros((0, 3)), 1.0), "at least one task"),
        (lambda: DiscreteMMSE(np.zeros(3), 1.0), r"must have shape \(task, dim\)"),
        (lambda: SmoothedMMSE(POOL, 1.0, -1.0), "must not be negative"),
        (lambda: SmoothedMMSE(POOL, 1.0, 1.0, block=0), "must be at least 1"),
    ]:
        with pytest.raises(icl.IclearnError, match=words):
            make()
    assert icl.predictors.DiscreteMMSE is DiscreteMMSE
