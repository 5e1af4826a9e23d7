"""Predictors of function classes: what turns one into another, what leaves them alone, and brute force."""

import importlib.util
import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.stats import multivariate_normal

import iclearn as icl
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.models.predictors import (
    ArcCosine,
    Averaging,
    ConjugateGradients,
    GradientDescent,
    GreedyTree,
    Huber,
    Lasso,
    LeastAbsolute,
    LeastSquares,
    Logistic,
    MixedNoise,
    NearestNeighbors,
    NetworkDescent,
    NewtonFilter,
    OnlineDescent,
    Ridge,
)
from iclearn.models.predictors.penalized_fits import lasso_gap, lasso_solution, robust_solution
from iclearn.papers.verifying import every_prefix

DIM, TOKENS = 3, 9


def ask(model, x, y) -> np.ndarray:
    """The answers to all prefixes of many sequences."""
    return np.asarray(every_prefix(model, jnp.asarray(x, float), jnp.asarray(y, float)))


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6, TOKENS, DIM))
    y = np.einsum("ptd,pd->pt", x, rng.normal(size=(6, DIM))) + 0.3 * rng.normal(size=(6, TOKENS))
    return x, y


EVERY = [
    Averaging(), OnlineDescent(0.02, "full", 0.1), ConjugateGradients(DIM), NearestNeighbors(3, "distance"),
    MixedNoise([0.01, 1.0]), Lasso(0.1), Huber(0.5), LeastAbsolute(), ArcCosine(), NetworkDescent(hidden=4, steps=5),
    GreedyTree(3), Logistic(),
]  # fmt: skip


def name_of(model) -> str:
    return repr(model).replace("weak_type=True", "")[:40]


@pytest.mark.parametrize("model", EVERY, ids=name_of)
def test_the_empty_prefix_answers_0_and_later_pairs_change_nothing(model, data):
    x, y = data
    whole = ask(model, x, y)
    assert (whole[:, 0] == 0).all()
    assert np.isfinite(whole).all()
    spoiled, far = y.copy(), x.copy()
    spoiled[:, 5:], far[:, 6:] = 1e3, -1e3
    np.testing.assert_allclose(ask(model, far, spoiled)[:, :6], whole[:, :6], rtol=1e-9, atol=1e-12)


def test_one_pass_answers_what_each_prompt_does(data):
    """OnlineDescent has a form of its own for all prefixes; pairs that are masked out are stepped over."""
    x, y = (jnp.asarray(part[0]) for part in data)
    model = OnlineDescent(0.02, "full", 0.1)
    hole = jnp.asarray([1, 1, 0, 1, 1, 0, 0, 0], bool)
    kept = jnp.asarray([0, 1, 3, 4, 8])
    answer = eqx.filter_jit(lambda p: model.predict(p))(Prompt(x[:-1], y[:-1, None], x[8], hole))
    np.testing.assert_allclose(answer, model.predict_prefixes(x[kept], y[kept, None])[-1], rtol=1e-12)


def test_least_squares_is_the_end_of_many_roads(data):
    x, y = data
    left, _, right = np.linalg.svd(x, full_matrices=False)
    x = (left * np.random.default_rng(1).uniform(1.0, 2.0, (6, 1, DIM))) @ right  # so that descent ends soon
    ols, known = ask(LeastSquares(), x, y), np.arange(TOKENS) >= DIM + 2  # where a prefix is well conditioned too
    np.testing.assert_allclose(ask(ConjugateGradients(DIM), x, y), ols, atol=1e-8)
    np.testing.assert_allclose(ask(Ridge(0.0), x, y), ols, atol=1e-12)
    np.testing.assert_allclose(ask(NewtonFilter(25), x, y)[:, known], ols[:, known], atol=1e-8)
    descended = ask(GradientDescent(np.zeros(DIM), 0.2, 2000, normalize="none"), x, y)
    np.testing.assert_allclose(descended[:, known], ols[:, known], atol=1e-8)
    np.testing.assert_allclose(ask(Huber(1e4), x, y), ols, atol=1e-9)
    np.testing.assert_allclose(ask(Lasso(1e-12), x, y)[:, known], ols[:, known], atol=1e-8)


def test_relatives_agree(data):
    x, y = data
    np.testing.assert_allclose(ask(MixedNoise([0.5], scale=2.0), x, y), ask(Ridge(0.25), x, y), atol=1e-12)
    np.testing.assert_allclose(ask(GradientDescent(np.zeros(DIM), 1.0), x, y), ask(Averaging(), x, y), atol=1e-13)
    np.testing.assert_allclose(ask(Huber(1e-9), x, y), ask(LeastAbsolute(), x, y), atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        LeastSquares(),
        Ridge(0.3),
        NearestNeighbors(20),
        ArcCosine(),
        Huber(0.4),
        MixedNoise([0.1, 1.0]),
    ],
    ids=name_of,
)
def test_rotations_change_nothing(model, data):
    x, y = data
    rotation = np.linalg.qr(np.random.default_rng(2).normal(size=(DIM, DIM)))[0]
    np.testing.assert_allclose(ask(model, x @ rotation, y), ask(model, x, y), atol=1e-9)


@pytest.mark.parametrize("model", [LeastSquares(), LeastAbsolute(), Huber(0.4)], ids=name_of)
def test_invertible_maps_change_nothing_once_there_are_enough_pairs(model, data):
    x, y = data
    bent = x @ (np.random.default_rng(3).normal(size=(DIM, DIM)) + 2 * np.eye(DIM))
    found, same = ask(model, bent, y), ask(model, x, y)
    np.testing.assert_allclose(found[:, DIM:], same[:, DIM:], atol=1e-8)
    assert np.abs(found - same)[:, 1:DIM].max() > 1e-3


def test_a_context_in_a_subspace_is_fitted_inside_it(data):
    """Rank deficiency up to rounding (half_subspace of garg2022): nothing is left after two pairs."""
    rng = np.random.default_rng(4)
    basis = np.linalg.qr(rng.normal(size=(DIM, DIM)))[0][:, :2]
    x = data[0] @ (basis @ basis.T)
    y = np.einsum("ptd,pd->pt", x, rng.normal(size=(6, DIM)))
    for model in (LeastSquares(), LeastAbsolute(), Huber(1.0), ConjugateGradients(DIM)):
        np.testing.assert_allclose(ask(model, x, y)[:, 2:], y[:, 2:], atol=1e-6)
    np.testing.assert_allclose(ask(MixedNoise([0.0, 1.0]), x, y)[:, 3:], y[:, 3:], atol=1e-6)


posterior = eqx.filter_jit(lambda model, prompt: model.posterior(prompt))


def test_mixed_noise_is_the_posterior_mean(data):
    x, y = data[0][0], data[1][0]
    noise, chances, scale = np.array([0.1, 1.0]), np.array([0.3, 0.7]), 1.5
    model = MixedNoise(noise, chances, scale)
    found = ask(model, *data)[0]
    for length in (1, DIM, TOKENS - 1):
        a, b, query = x[:length], y[:length], x[length]
        evidence = chances * [
            multivariate_normal(np.zeros(length), scale * a @ a.T + v * np.eye(length)).pdf(b) for v in noise
        ]
        evidence /= evidence.sum()
        ridges = [query @ np.linalg.solve(a.T @ a + v / scale * np.eye(DIM), a.T @ b) for v in noise]
        np.testing.assert_allclose(found[length], evidence @ ridges, rtol=1e-9)
        there = jnp.arange(TOKENS) < length
        prompt = Prompt(jnp.asarray(x), jnp.asarray(y[:, None]), jnp.asarray(query), there)
        np.testing.assert_allclose(posterior(model, prompt), evidence, rtol=1e-9)
    nothing = eqx.tree_at(lambda p: p.mask, prompt, jnp.zeros(TOKENS, bool))
    np.testing.assert_allclose(posterior(model, nothing), chances)


def test_a_level_without_noise_is_told_by_an_exact_fit():
    rng = np.random.default_rng(6)
    x, there = rng.normal(size=(TOKENS, DIM)), jnp.arange(TOKENS) < DIM + 2
    exact = x @ [1.0, 2.0, 3.0]
    for labels, last in ((exact, [1.0, 0.0]), (exact + 1e-3 * rng.normal(size=TOKENS), [0.0, 1.0])):
        prompt = Prompt(jnp.asarray(x), jnp.asarray(labels[:, None]), jnp.ones(DIM), there)
        np.testing.assert_allclose(posterior(MixedNoise([0.0, 0.01]), prompt), last, atol=1e-6)


def test_penalized_fits_are_minimizers():
    """Against a duality gap, a linear program and a search; also where columns of signs are equal."""
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=(5, 8, 4)), rng.standard_t(2, size=(5, 8))
    x[0, 3:], y[0, 3:] = 0, 0  # fewer pairs than dimensions
    signs = np.sign(x[:, :, [0, 0, 1, 2]])
    for inputs in (x, signs):
        for penalty in (1.0, 0.1, 1e-3):
            w, gap = lassos(jnp.asarray(inputs), jnp.asarray(y), penalty)
            assert (np.asarray(gap) <= 1e-12 * (y**2).sum(1)).all()
            assert penalty < 1 or (np.asarray(w) == 0).any()
    least, huber = (np.asarray(robust(jnp.asarray(x), jnp.asarray(y), threshold)) for threshold in (0.0, 0.5))
    program = np.c_[np.eye(8), -np.eye(8)]
    for a, b, lad, hub in zip(x, y, least, huber, strict=True):
        free = [(None, None)] * 4 + [(0, None)] * 16
        best = linprog(np.r_[np.zeros(4), np.ones(16)], A_eq=np.c_[a, program], b_eq=b, bounds=free).fun
        assert np.abs(b - a @ lad).sum() == pytest.approx(best, rel=1e-9, abs=1e-12)

        def value(w, a=a, b=b):
            r = np.abs(b - a @ w)
            return np.where(r <= 0.5, r**2 / 2, 0.5 * r - 0.125).sum()

        assert value(hub) <= minimize(value, hub, method="Nelder-Mead").fun + 1e-12


@jax.jit
def lassos(x, y, penalty):
    w = jax.vmap(lambda a, b: lasso_solution(a, b, penalty, 1e-12))(x, y)
    return w, jax.vmap(lambda a, b, v: lasso_gap(a, b, v, penalty))(x, y, w)


@jax.jit
def robust(x, y, threshold):
    return jax.vmap(lambda a, b: robust_solution(a, b, threshold))(x, y)


def brute_tree(x: np.ndarray, y: np.ndarray, query: np.ndarray, depth: int) -> float:
    """The whole tree by recursion over all splits, none of which tie."""
    values = [np.unique(column) for column in x.T]
    splits = [(c, (a + b) / 2) for c, v in enumerate(values) for a, b in itertools.pairwise(v)]
    if depth == 0 or len(y) == 1 or not splits:
        return y.mean()

    def error(split) -> float:
        low = x[:, split[0]] <= split[1]
        return sum(((part - part.mean()) ** 2).sum() for part in (y[low], y[~low]))

    coordinate, threshold = min(splits, key=error)
    side = (x[:, coordinate] <= threshold) == (query[coordinate] <= threshold)
    return brute_tree(x[side], y[side], query, depth - 1)


def test_trees_are_those_of_a_search_over_all_splits(data):
    """One coordinate has no ties; with more of them small nodes can be split alike along several."""
    (x, y), depth = data, 3
    for inputs, alike in ((x * [1, 0, 0], 1.0), (x, 0.7)):
        found = ask(GreedyTree(depth), inputs, y)[:, 1:]
        wanted = [
            [brute_tree(a[:n], b[:n], a[n], depth) for n in range(1, TOKENS)] for a, b in zip(inputs, y, strict=True)
        ]
        assert np.isclose(found, wanted, atol=1e-12).mean() >= alike


def test_logistic_regression_has_no_slope_left_and_knows_one_class():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(30, 2))
    y = np.sign(x @ [1.0, -1.0] + rng.logistic(size=30))
    prompt = full_prompt(jnp.asarray(x), jnp.asarray(y[:, None]), jnp.asarray([0.3, 0.4]))
    best = minimize(lambda w: np.logaddexp(0, -y * (x @ w)).sum(), np.zeros(2), tol=1e-12).x
    answer = eqx.filter_jit(lambda model, prompt: model.predict(prompt)[0])
    assert float(answer(Logistic(1e-9), prompt)) == pytest.approx(np.tanh(best @ [0.3, 0.4] / 2), abs=1e-6)
    for label in (1.0, -1.0):
        alone = full_prompt(jnp.asarray(x), jnp.full((30, 1), label), jnp.ones(2))
        assert float(answer(Logistic(), alone)) == label


def test_networks_of_other_seeds_and_prompts_are_others(data):
    x, y = data
    first, other = (ask(NetworkDescent(hidden=4, steps=5, seed=seed), x, y) for seed in (0, 1))
    assert np.abs(first - other)[:, 1:].min() > 0
    same = ask(NetworkDescent(hidden=4, steps=5), np.ones_like(x) * x[:, :1], y * 0 + 1.0)
    assert len(np.unique(same[:, 1])) == len(x), "equal but for the query, and networks of their own"


def test_neighbors_take_what_is_there_and_an_exact_hit_takes_all():
    x = np.zeros((6, TOKENS, DIM))
    x[:, :4, 0] = [0.0, 1.0, 5.0, 1.0]
    y = x[..., 0] + 1
    assert (ask(NearestNeighbors(20), x, y)[:, 3] == 3.0).all()
    assert (ask(NearestNeighbors(3, "distance"), x, y)[:, 3] == 2.0).all()


def test_refusals_and_the_missing_extra():
    for make, words in [
        (lambda: NearestNeighbors(0), "neighbors must be at least 1"),
        (lambda: Lasso(-1.0), "must not be negative"),
        (lambda: MixedNoise([1.0], [0.5, 0.5]), "2 chances for 1 noise levels"),
        (lambda: GreedyTree(-1), "depth of a tree"),
        (lambda: Logistic(0.0), "penalty above 0"),
    ]:
        with pytest.raises(icl.IclearnError, match=words):
            make()
    if importlib.util.find_spec("xgboost") is None:
        with pytest.raises(icl.IclearnError, match=r"iclearn\[boost\]"):
            icl.predictors.BoostedTrees()


def test_boosted_trees_fit_the_context(data):
    pytest.importorskip("xgboost", reason="boosted trees are an extra: pip install 'iclearn[boost]'")
    x, y = data
    found = ask(icl.predictors.BoostedTrees(rounds=50), x[:1], y[:1])
    assert found[0, 0] == 0
    assert found[0, 1] == pytest.approx(y[0, 0], rel=1e-4)


def test_scikit_learn_agrees(data):
    tree = pytest.importorskip("sklearn.tree", reason="scikit-learn is not installed (pip install scikit-learn)")
    linear = pytest.importorskip("sklearn.linear_model")
    x, y = data
    lasso, logistic = ask(Lasso(0.1), x, y), ask(Logistic(1e-3), x, y)
    stumps = ask(GreedyTree(3), x * [1, 0, 0], y)
    for p, n in itertools.product(range(6), (5, 8)):
        a, b, query = x[p, :n], y[p, :n], x[p, n : n + 1]
        grown = tree.DecisionTreeRegressor(max_depth=3).fit(a[:, :1], b)
        assert grown.predict(query[:, :1])[0] == pytest.approx(stumps[p, n])
        fitted = linear.Lasso(0.1, fit_intercept=False, tol=1e-12, max_iter=10**6).fit(a, b)
        assert fitted.predict(query)[0] == pytest.approx(lasso[p, n], abs=1e-6)
        if len(set(np.sign(b))) == 2:
            fit = linear.LogisticRegression(C=1e3, fit_intercept=False, tol=1e-10, max_iter=10**5).fit(a, np.sign(b))
            assert 2 * fit.predict_proba(query)[0, 1] - 1 == pytest.approx(logistic[p, n], abs=1e-4)
