"""Function classes: their laws in samples, positions, pools, curricula and how they train."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.engines import prepare
from iclearn.models.predictors import LeastSquares, Ridge
from iclearn.tasks import (
    BooleanFunctions,
    Curriculum,
    FunctionClass,
    LinearFunctions,
    QuadraticFunctions,
    ReluFunctions,
    Shift,
    SignFunctions,
    SinusoidFunctions,
    SparseFunctions,
    TreeFunctions,
)

COUNT = 2000


def function_values(law, dim, points=3, count=COUNT):
    """Values of many functions at inputs of their own."""

    def one(key):
        first, second = jax.random.split(key)
        drawn = law.draw(first, dim, "float64")
        x = law.inputs(second, drawn, points, dim, "float64")
        return x, law.labels(drawn, x), drawn

    return jax.vmap(one)(jax.random.split(jax.random.key(0), count))  # not compiled: laws have most steps in common


@pytest.mark.parametrize(
    ("law", "dim"),
    [
        (LinearFunctions(), 4), (LinearFunctions(normalized=True), 4), (SparseFunctions(2), 4),
        (SparseFunctions(2, normalized=True), 4), (QuadraticFunctions(), 4), (ReluFunctions(20), 4),
        (TreeFunctions(3), 4),
    ],
)  # fmt: skip
def test_answering_zero_scores_one(law, dim):
    """E y² is the normalizer of the class, within four standard errors over functions."""
    _, y, _ = function_values(law, dim)
    each = np.asarray(y**2).mean(1) / law.normalizer(dim)
    assert abs(each.mean() - 1) < 4 * each.std() / np.sqrt(len(each))


def test_sinusoids_are_tied_on_request_only():
    for tied in (False, True):
        x, y, drawn = function_values(SinusoidFunctions(tied=tied), 1)
        a, phase = np.asarray(drawn["amplitude"]), np.asarray(drawn["phase"])
        np.testing.assert_allclose(y, a[:, None] * np.sin(x[..., 0] + phase[:, None]), atol=1e-12)
        assert a.min() >= 0.1
        assert a.max() <= 0.5
        assert phase.max() <= np.pi
        assert np.abs(x).max() <= 5
        assert np.allclose(a, 0.1 + 0.4 * phase / np.pi) == tied


@pytest.mark.parametrize(
    ("rule", "mean"),
    [  # P(y = 1) for n = 4: literals .3, points placed with probability .3, and so on
        ("conjunction", 0.3 + 0.7 * (0.7 + 0.15) ** 4), ("disjunction", 1 - (0.3 + 0.7 * (0.7 + 0.15) ** 4)),
        ("parity", 0.5 * (1 - 1 / 16)), ("sparse_parity", 0.5),
    ],
)  # fmt: skip
def test_boolean_classes_have_their_shares_of_positive_labels(rule, mean):
    x, y, _ = function_values(BooleanFunctions(rule), 4)
    assert set(np.unique(x)) == {-1, 1}
    assert set(np.unique(y)) <= {-1, 1}
    each = (np.asarray(y) > 0).mean(1)
    assert abs(each.mean() - mean) < 4 * each.std() / np.sqrt(len(each))


def test_cnf_is_dnf_upside_down():
    """CNF(w, x) = −DNF(w, −x)."""
    x, y, drawn = function_values(BooleanFunctions("cnf"), 4)
    other = jax.vmap(BooleanFunctions("dnf").labels)(drawn, -x)
    np.testing.assert_array_equal(y, -other)


def test_sampled_signs_have_the_logistic_probability():
    law = SignFunctions(sampled=True)
    x = jnp.full((50_000, 1), 0.7)
    drawn = law.shown(jax.random.key(1), {"w": jnp.ones(1)}, x, jnp.ones(50_000))
    assert float((drawn > 0).mean()) == pytest.approx(1 / (1 + np.exp(-0.7)), abs=0.01)
    task = FunctionClass(dim=2, functions=law, num_prompts=100)
    found = task.source(0, "float64").sequences_of(0)
    assert 0.55 < float((found.y == found.truth).mean()) < 0.9


def test_sparse_functions_keep_to_the_first_coordinates():
    _, _, drawn = function_values(SparseFunctions(2, valid=3), 5)
    kept = np.asarray(drawn["w"]) != 0
    assert (kept.sum(1) == 2).all()
    assert not kept[:, 3:].any()
    np.testing.assert_allclose(kept[:, :3].mean(0), 2 / 3, atol=0.05)


def test_every_position_is_a_prompt_and_the_whole_is_one_recipe():
    task = FunctionClass(dim=3, context_len=4, noise=0.25, num_prompts=7, test_prompts=3)
    source = task.source(0, "float64")
    batch = source.everything(task.context_lengths())
    points = jax.tree.map(lambda a: a[:7], source.sequences_of(0))
    assert batch.target.shape == (7 * 5, 1)
    assert float(batch.weight.sum()) == pytest.approx(1)
    np.testing.assert_array_equal(batch.prompt.mask.sum(-1).reshape(5, 7)[:, 0], range(5))
    answers = jax.vmap(Ridge(0.25).predict)(batch.prompt)[:, 0].reshape(5, 7).T
    np.testing.assert_allclose(answers, points.answers(Ridge(0.25)), atol=1e-10)
    np.testing.assert_array_equal(batch.target.reshape(5, 7).T, points.y[..., 0])
    one = source.prefix_block(0, 2)
    np.testing.assert_array_equal(one.target[:7], batch.target[14:21])
    assert icl.AbstractTask.from_json(task.to_json()) == task
    assert task.hash != task.replace(test_shifts=(Shift("skewed"),)).hash


def test_both_scorings():
    shown = FunctionClass(dim=2, context_len=3, noise=1.0, num_prompts=2048)
    a, b = (t.source(0, "float64").prefix_block(0, 3) for t in (shown, shown.replace(target="clean")))
    assert np.var(np.asarray(a.target - b.target)) == pytest.approx(1, rel=0.15)
    np.testing.assert_array_equal(a.prompt.y, b.prompt.y)


def test_a_pool_gives_distinct_functions_and_test_sets_new_ones():
    task = FunctionClass(dim=2, context_len=1, num_tasks=20, num_prompts=16, test_prompts=16)
    pool = np.asarray(task.pool(0)["w"])
    for which, inside in (("train", True), ("pool", True), ("test", False)):
        w = np.asarray(task.source(0, "float64", which).parameters_of(0)["w"])
        assert len(np.unique(w, axis=0)) == 16
        assert all((abs(pool - v).sum(1) < 1e-12).any() == inside for v in w)
    many = task.replace(num_prompts=64).source(0, "float64").parameters_of(0)["w"]
    assert np.unique(many, axis=0, return_counts=True)[1].max() == 4
    with pytest.raises(icl.IclearnError, match="infinitely many"):
        FunctionClass().pool(0)


def test_curriculum_of_garg():
    plan = Curriculum(dims_start=2, dims_end=4, dims_interval=3, points_start=2, points_end=6, points_interval=2)
    assert [tuple(map(int, plan.at(t))) for t in (0, 1, 2, 3, 4, 6, 99)] == [
        (2, 2), (2, 2), (2, 4), (3, 4), (3, 6), (4, 6), (4, 6),
    ]  # fmt: skip
    task = FunctionClass(dim=4, context_len=5, functions=SparseFunctions(2), curriculum=plan)
    batch = task.at_step(jnp.asarray(0)).fresh(0, jax.random.key(3), 16, "float64")
    assert not np.any(batch.prompt.x[..., 2:])
    assert not np.any(batch.prompt.query[..., 2:])
    weight = np.asarray(batch.weight).reshape(6, 16).sum(1)
    np.testing.assert_allclose(weight, [0.5, 0.5, 0, 0, 0, 0], atol=1e-12)
    with pytest.raises(icl.IclearnError, match="ends at"):
        task.replace(dim=5)


def test_training_follows_the_curriculum():
    """The loss of the first steps is that of two dimensions, and after the last interval that of the whole task."""
    plan = Curriculum(dims_start=1, dims_end=4, dims_increment=3, dims_interval=2, points_start=3, points_end=3)
    task = FunctionClass(dim=4, context_len=2, curriculum=plan)
    recipe = icl.Recipe(
        task=task, model=icl.Attention(softmax=True), init=icl.Init(1e-6), steps=4,
        optimizer=icl.Optimizer("sgd", lr=1e-9, batch_size=512), engine="samples",
    )  # fmt: skip
    trace = icl.simulate(recipe)
    np.testing.assert_allclose(trace.loss[:2], 1, rtol=0.3)
    np.testing.assert_allclose(trace.loss[2:4], 4, rtol=0.3)
    loss = icl.TrainingLoss(recipe)
    assert float(loss(trace.model(0), draw=1)) == pytest.approx(float(trace.loss[1]), rel=1e-6)


@pytest.mark.slow
def test_noise_levels_share_a_program_and_fresh_prompts_have_their_noise():
    task = FunctionClass(dim=2, context_len=2, noise=4.0)
    recipe = icl.Recipe(
        task=task, model=icl.Attention(softmax=True), init=icl.Init(1e-6), steps=1,
        optimizer=icl.Optimizer("sgd", batch_size=4096), engine="samples",
    )  # fmt: skip
    engines = [prepare(recipe.replace(task__noise=v)).engine for v in (4.0, 0.5)]
    assert engines[0].task == engines[1].task
    losses = [float(e.loss(prepare(recipe).model, jax.random.key(0))) for e in engines]
    np.testing.assert_allclose(losses, [6, 2.5], rtol=0.15)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"functions": SinusoidFunctions()}, "one dimension"),
        ({"functions": SignFunctions(), "noise": 0.1}, "±1"),
        ({"functions": TreeFunctions(), "shift": Shift("prior_scale", 2.0)}, "no weights"),
        ({"functions": BooleanFunctions(), "test_shifts": (Shift("skewed"),)}, "not N"),
        ({"shift": Shift("noise_tails", 3.0)}, "there is none"),
        ({"functions": SparseFunctions(9)}, "as many dimensions"),
        ({"curriculum": Curriculum(), "num_prompts": 5}, "fresh"),
        ({"test_shifts": (Shift("skewed"), Shift("skewed"))}, "differ"),
    ],
)
def test_what_does_not_fit_is_refused(fields, word):
    with pytest.raises(icl.IclearnError, match=word):
        FunctionClass(**fields)


def test_least_squares_on_a_rank_deficient_law():
    """The family works with any predictor of the tree."""
    points = FunctionClass(dim=4, context_len=5).evaluation(Shift("half_subspace"), num_prompts=50)
    errors = np.asarray(points.squared_errors(LeastSquares())).mean(0)
    assert errors[1] > 0.1
    assert (errors[2:] < 1e-9).all()
