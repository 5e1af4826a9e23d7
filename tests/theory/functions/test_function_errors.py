"""Closed forms of in-context errors against samples, and the tables that have no closed form."""

import numpy as np
import pytest

from iclearn.core.errors import MissingClosedForm
from iclearn.models.predictors import Bayes, LeastSquares, Ridge
from iclearn.probes import linear_errors
from iclearn.tasks import FunctionClass, LinearFunctions, Shift, TreeFunctions, garg_shifts
from iclearn.theory import functions as fn

ROUNDING = 6e-5  # tables have four digits


def near(found: fn.Estimate, value: float, tolerance: float = ROUNDING) -> bool:
    """Within four standard errors; tables have an uncertainty of their own."""
    return abs(found.mean - value) <= 4 * found.error + tolerance


BAYES = {
    (5, 0.5): "1 .8144 .6370 .4739 .3337 .2277 .1568 .1123 .0839 .0659 .0533",
    (8, 0.5): "1 .8799 .7615 .6455 .5335 .4276 .3306 .2476 .1818 .1337 .1007 .0782 .0626 .0515 .0436 .0376 .0329",
}


@pytest.mark.parametrize(("dim", "std"), BAYES)
def test_bayes_ridge_tables(dim, std):
    for i, value in enumerate(map(float, BAYES[dim, std].split())):
        found = fn.ridge_error(i, dim, penalty=std**2, noise=std**2, draws=1000)
        assert near(found, value, 2e-4), (i, found, value)


@pytest.mark.parametrize(
    ("dim", "context", "value"),
    [(20, 5, 0.7662), (20, 20, 0.2089), (20, 40, 0.0475), (8, 4, 0.5969), (8, 8, 0.3148), (8, 16, 0.1098)],
)
def test_bayes_ridge_at_unit_noise(dim, context, value):
    assert near(fn.ridge_error(context, dim, penalty=1.0, noise=1.0, draws=1000), value, 2e-4)


@pytest.mark.parametrize(
    ("std", "values"),
    [(0.1, (0.7535, 0.1049, 0.0103)), (0.25, (0.7699, 0.2296, 0.0580)), (1.0, (0.8842, 0.6219, 0.4178))],
)
def test_tables_of_the_normalized_task(std, values):
    """w ~ N(0, I/d), d = 20, not divided by d; the penalty is dσ²."""
    for i, value in zip((5, 20, 40), values, strict=True):
        found = fn.ridge_error(i, 20, penalty=20 * std**2, noise=std**2, prior=np.eye(20) / 20, draws=600)
        assert near(fn.Estimate(20 * found.mean, 20 * found.error), value, 2e-4), (i, value)


@pytest.mark.parametrize(("penalty", "std", "value"), [(0.2, 0.5, 1.446), (5.0, 0.1, 0.267)])
def test_a_wrong_penalty_costs_what_the_table_says(penalty, std, value):
    """With the noise of the target added, at i = d = 20."""
    found = fn.ridge_error(20, 20, penalty=penalty, noise=std**2, prior=np.eye(20) / 20, draws=4000)
    assert near(fn.Estimate(20 * found.mean + std**2, 20 * found.error), value, 5e-4)


def skewed(dim):
    deviations = Shift("skewed").deviations(dim)
    return {"query": np.diag(deviations**2), "inputs": lambda g, shape: g.standard_normal(shape) * deviations}


@pytest.mark.parametrize(
    ("dim", "table"),
    [
        (5, {0: 1, 1: 0.5985, 2: 0.3467, 3: 0.1869, 4: 0.0783, 5: 0}),
        (8, {1: 0.6347, 4: 0.1820, 7: 0.0303, 8: 0}),
        (20, {1: 0.671, 5: 0.211, 10: 0.079, 19: 0.005}),
    ],
)
def test_least_squares_on_skewed_inputs(dim, table):
    for i, value in table.items():
        found = fn.ridge_error(i, dim, penalty=0.0, draws=2000, **skewed(dim))
        assert near(found, value, 5e-4), (i, found, value)


def test_least_squares_in_opposite_quadrants():
    for i, value in ((2, 0.385), (5, 0.164)):
        found = fn.ridge_error(
            i, 8, penalty=0.0, query=fn.opposite_query_moment(8), draws=4000,
            inputs=lambda g, shape: np.abs(g.standard_normal(shape)),
        )  # fmt: skip
        assert near(found, value, 5e-4), (i, found)


def test_least_squares_with_noise_and_without():
    assert fn.ridge_error(3, 5, penalty=0.0, draws=50).error < 1e-12
    for i in (1, 2, 3, 9, 12):
        found = fn.ridge_error(i, 6, penalty=0.0, noise=0.5, draws=20_000)
        assert near(found, float(fn.least_squares_error(i, 6, 0.5))), i
    assert np.isinf(fn.least_squares_error([5, 6, 7], 6, 0.5)).all()


def test_one_dimension_has_tricomis_function():
    for i in (1, 2, 5):
        found = fn.ridge_error(i, 1, penalty=0.3, noise=0.3, draws=20_000)
        assert near(found, float(fn.bayes_error_one_dimension(i, 0.3))), i


@pytest.mark.parametrize("model", [LeastSquares(), Ridge(0.5)])
def test_the_error_is_the_one_read_off_the_predictor(model):
    penalty = 0.0 if isinstance(model, LeastSquares) else 0.5
    law = {"noise": 0.3, "prior": np.diag([1.0, 2.0, 0.5]), "query": np.diag([3.0, 1.0, 1.0])}
    drawn = np.random.default_rng(3).standard_normal((7, 3, 3))  # the probe reads all tokens but the last
    read = linear_errors(model, drawn, **law)
    for pairs in (0, 1, 2):
        one = fn.ridge_error(pairs, 3, penalty=penalty, inputs=lambda *_, n=pairs: drawn[:, :n], draws=7, **law)
        assert one.mean == pytest.approx(float(read.mean[pairs]), rel=1e-9)
        assert one.error == pytest.approx(float(read.stderr[pairs]), rel=1e-7, abs=1e-12)


def test_rao_blackwell_agrees_with_samples_and_is_quieter():
    task = FunctionClass(dim=3, context_len=4, noise=0.25)
    each = np.asarray(task.evaluation(num_prompts=2000).squared_errors(Ridge(0.25), clean=True))[:, 4] / 3
    sampled, exact = fn.Estimate.of(each), fn.ridge_error(4, 3, penalty=0.25, noise=0.25, draws=2000)
    assert abs(sampled.mean - exact.mean) < 4 * np.hypot(sampled.error, exact.error)
    assert exact.error < sampled.error / 3


def averaging(x, y, q):
    """(draw) q·(1/i)Σ y x."""
    return np.einsum("nd,nid,ni->n", q, x, y) / x.shape[1]


@pytest.mark.parametrize(("scale", "noise"), [(1.0, 0.0), (1.0, 0.5), (0.5, 0.5), (2.0, 0.0)])
def test_averaging(scale, noise):
    g, (n, i, d) = np.random.default_rng(0), (40_000, 4, 3)
    x, q, w = scale * g.standard_normal((n, i, d)), scale * g.standard_normal((n, d)), g.standard_normal((n, d))
    clean = np.einsum("nid,nd->ni", x, w)
    y = clean + noise**0.5 * g.standard_normal((n, i))
    each = (averaging(x, y, q) - np.einsum("nd,nd->n", q, w)) ** 2 / d
    assert near(fn.Estimate.of(each), float(fn.averaging_error(i, d, noise, scale)))
    if scale == 1 and not noise:
        each = (averaging(x, y, x[:, 1]) - clean[:, 1]) ** 2 / d
        assert near(fn.Estimate.of(each), float(fn.averaging_error_in_context(i, d)))


@pytest.mark.parametrize(
    ("dim", "context", "value", "spread"), [(5, 3, 1.39, 0.09), (5, 10, 0.56, 0.05), (8, 8, 0.85, 0.05)]
)
def test_three_nearest_neighbors(dim, context, value, spread):
    g, n = np.random.default_rng(0), 4000
    x, q, w = g.standard_normal((n, context, dim)), g.standard_normal((n, dim)), g.standard_normal((n, dim))
    near_ones = np.argsort(((x - q[:, None]) ** 2).sum(-1), 1)[:, :3]
    answers = np.take_along_axis(np.einsum("nid,nd->ni", x, w), near_ones, 1).mean(1)
    found = fn.Estimate.of((answers - np.einsum("nd,nd->n", q, w)) ** 2 / dim)
    assert near(found, value, spread)


def test_the_best_linear_answers_to_other_functions():
    """relu: half of the variance; quadratic: none, and a third with an intercept."""
    g = np.random.default_rng(0).standard_normal(400_000)
    relu, square = np.maximum(g, 0), g**2 / np.sqrt(3)
    assert 1 - np.mean(relu * g) ** 2 / np.mean(relu**2) == pytest.approx(fn.linear_limit("relu"), abs=0.01)
    assert 1 - np.mean(square * g) ** 2 == pytest.approx(fn.linear_limit("quadratic"), abs=0.01)
    rest = 1 - np.mean(square) ** 2 / np.mean(square**2)
    assert rest == pytest.approx(fn.linear_limit("quadratic_with_intercept"), abs=0.01)


SHIFTS = (*garg_shifts(), Shift("prior_mean", 1.0), Shift("prior_scale", 2.0), Shift("orthogonal_line"))


@pytest.mark.parametrize("shift", [s for s in SHIFTS if s.amount not in (0.333, 0.5)], ids=lambda s: s.label)
def test_least_squares_and_zero_under_shifts(shift):
    """Sampled prompts of every shift against the closed forms."""
    task = FunctionClass(dim=3, context_len=2, shift=shift, test_prompts=2048)
    dim, points = 3, task.source(0, "float64", "test").sequences_of(0)  # not compiled: shifts have most steps in common
    found = np.asarray(points.targets()[..., 0]) ** 2 / dim
    for i in range(3):
        if shift.name != "noisyLR":  # its labels are scaled together
            assert near(fn.Estimate.of(found[:, i]), fn.zero_error(shift, dim)), i
    assert shift.name != "noisyLR" or found.mean() == pytest.approx(1, abs=0.01)
    try:
        wanted = fn.least_squares_under(shift, np.arange(3), dim)
    except MissingClosedForm:
        assert shift.name in ("skewed", "opposite_quadrants")
        return
    errors = np.asarray(points.squared_errors(LeastSquares())) / dim
    for i in range(3):
        assert np.isinf(wanted[i]) or near(fn.Estimate.of(errors[:, i]), wanted[i]), (i, wanted[i], errors[:, i].mean())


def test_the_law_that_bayes_must_know():
    task = FunctionClass(dim=3, context_len=3, noise=0.5, target="clean")
    assert fn.linear_law(task, Shift("scale_y", 0.5)).noise == 0.125
    for shift in (Shift("prior_mean", 2.0), Shift("noise", 0.2)):
        law = fn.linear_law(task, shift)
        points = task.evaluation(shift, num_prompts=1500)
        knows = np.asarray(points.squared_errors(Bayes(law.mean, law.covariance, law.noise), clean=True))[:, 3]
        does_not = np.asarray(points.squared_errors(Bayes(np.zeros(3), np.eye(3), 0.5), clean=True))[:, 3]
        assert knows.mean() < does_not.mean(), shift.label
    law = fn.linear_law(FunctionClass(dim=4, functions=LinearFunctions(normalized=True)))
    np.testing.assert_allclose(law.second_moment, np.eye(4) / 4)
    with pytest.raises(MissingClosedForm, match="not linear"):
        fn.linear_law(FunctionClass(functions=TreeFunctions()))
