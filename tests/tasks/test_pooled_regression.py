"""Pools of tasks: what is drawn, how often, and what the public codes get wrong about it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import iclearn as icl
from iclearn.core.rng import stream
from iclearn.engines import prepare
from iclearn.tasks import Covariance, PooledRegression, TaskCovariance

LU = Covariance.white()  # N(0, I/d)


def small(**fields) -> PooledRegression:
    return PooledRegression(**({"dim": 3, "context_len": 4, "num_tasks": 5, "num_prompts": 2000} | fields))


def numbers(task: PooledRegression, which: str = "train", seed: int = 0) -> np.ndarray:
    """Which task of the pool each prompt has, found from its task vector."""
    w, pool = np.asarray(task.source(seed, "float64", which).sequences().w), np.asarray(task.pool(seed))
    distance = np.abs(w[:, None] - pool).max(-1)
    assert (distance.min(1) == 0).all(), "every task is one of the pool's"
    return distance.argmin(1)


def test_pools_are_nested_and_any_part_can_be_drawn_by_itself():
    large = np.asarray(small(num_tasks=50).pool(3))
    np.testing.assert_array_equal(small(num_tasks=7).pool(3), large[:7])
    np.testing.assert_array_equal(small(num_tasks=50).pool(3, first=20, count=5), large[20:25])
    assert len(np.unique(large[:, 0])) == 50
    assert not np.allclose(small(num_tasks=50).pool(4), large)
    with pytest.raises(icl.IclearnError, match="infinitely many tasks"):
        small(num_tasks=None).pool(0)


def test_gaussian_tasks_have_their_covariance_and_those_on_the_sphere_their_norm():
    law = TaskCovariance.eigenvalues([0.0, 4.0, 1.0])
    w = np.asarray(small(num_tasks=20_000, task_covariance=law).pool(0))
    assert (w[:, 0] == 0).all()
    np.testing.assert_allclose(w.T @ w / len(w), np.diag([0.0, 4.0, 1.0]), atol=0.1)
    sphere = np.asarray(small(num_tasks=20_000, on_sphere=True).pool(0))
    np.testing.assert_allclose((sphere**2).sum(1), 3.0, rtol=1e-12)
    np.testing.assert_allclose(sphere.T @ sphere / len(w), np.eye(3), atol=0.03)


def test_tasks_are_chosen_by_chance_or_in_turn_and_the_number_of_prompts_stays():
    chance = np.bincount(numbers(small()), minlength=5)
    assert chance.sum() == 2000
    assert 3 < np.abs(chance - 400).max() < 75, "binomial, with standard deviation 18"
    turn = np.bincount(numbers(small(num_prompts=2003, balanced=True)), minlength=5)
    assert sorted(turn.tolist()) == [400, 400, 401, 401, 401]


def test_balanced_tasks_do_not_change_n():
    """d=100, κ=50, τ=1.2 runs n = 2·5000 in the public code: τ = 1, on the peak."""
    task = PooledRegression.at(100, alpha=0.01, kappa=50, tau=1.2, balanced=True)
    assert task.ratios() == {"alpha": 0.01, "kappa": 50.0, "tau": 1.2}
    source = task.source(0, "float32")
    chosen = np.concatenate([np.asarray(source.chosen(i)) for i in range(source.num_blocks)])[: source.num_prompts]
    assert len(chosen) == 12_000
    assert set(np.bincount(chosen, minlength=5000)) == {2, 3}
    few = [
        np.asarray(small(num_tasks=50, num_prompts=20, balanced=True).source(s, "f8").chosen(0))[:20] for s in range(6)
    ]
    assert len(set(few[0].tolist())) == 20, "no task twice where there are more tasks than prompts"
    starts = {int(chosen[0]) for chosen in few}
    assert len(starts) > 2, "and not always the first ones"


@pytest.mark.parametrize(("ratio", "dim", "size"), [(0.57, 100, 57), (1.15, 100, 115), (9.62, 100, 962)])
def test_sizes_are_rounded_and_not_truncated(ratio, dim, size):
    assert int(ratio * dim) == size - 1, "truncation is one short"
    task = PooledRegression.at(dim, alpha=ratio, kappa=ratio, tau=ratio)
    assert (task.context_len, task.num_tasks, task.num_prompts) == (size, size, round(ratio * dim * dim))
    assert task.ratios()["alpha"] == size / dim
    assert PooledRegression.at(dim, alpha=1.0).ratios() == {"alpha": 1.0, "kappa": None, "tau": None}


def test_a_pool_of_one_task_is_that_task():
    task = small(num_tasks=1, test_prompts=2000)
    pool = np.asarray(task.pool(0))
    assert pool.shape == (1, 3)
    for which in ("train", "pool"):
        w = np.asarray(task.source(0, "float64", which).sequences().w)
        np.testing.assert_array_equal(w, np.repeat(pool, 2000, 0))
    assert not np.asarray(task.replace(balanced=True).source(0, "float64").chosen(0)).any()


@pytest.mark.parametrize("noisy", [True, False])
def test_the_target_has_the_noise_of_the_context_or_none(noisy):
    source = small(noise=0.5, target_noise=noisy).source(0, "float64")
    drawn, batch = source.sequences(), source.everything()
    np.testing.assert_array_equal(batch.prompt.y, drawn.y[:, :-1])
    np.testing.assert_allclose(drawn.truth[..., 0], np.einsum("bti,bi->bt", drawn.x, drawn.w), rtol=1e-12)
    assert float(jnp.var(drawn.y[:, :-1] - drawn.truth[:, :-1])) == pytest.approx(0.5, rel=0.06)
    error = np.asarray(batch.target - drawn.truth[:, -1])
    assert error.var() == pytest.approx(0.5 if noisy else 0.0, rel=0.12)


def test_the_two_test_laws():
    law = TaskCovariance.spike(-1)
    task = small(test_prompts=2000, test_covariance=law, test_context_len=9, covariance=LU)
    assert task.tests == ("pool", "new")
    assert np.bincount(numbers(task, "pool"), minlength=5).min() > 300
    pool, new = (task.source(0, "float64", which).sequences() for which in ("pool", "new"))
    assert pool.x.shape == new.x.shape == (2000, 10, 3)
    assert not np.isin(pool.x[:10, :4, 0], task.source(0, "float64").sequences().x[..., 0]).any(), "new inputs"
    w = np.asarray(new.w)
    assert (w[:, :2] == 0).all()
    assert w[:, 2].var() == pytest.approx(3.0, rel=0.1), "the trace of the spike is d"
    assert float(jnp.mean(new.x**2)) == pytest.approx(1 / 3, rel=0.03)
    assert small(num_tasks=None, test_prompts=3).tests == ("new",)
    own = np.asarray(small(num_tasks=None).source(0, "float64").sequences().w)
    assert len(np.unique(own[:, 0])) == 2000, "every prompt has its own"


def test_single_precision_sees_the_same_prompts():
    task = small(num_tasks=4)
    one, two = (task.source(0, dtype).sequences() for dtype in ("float32", "float64"))
    assert one.y.dtype == jnp.float32
    np.testing.assert_allclose(one.y, two.y, atol=1e-5)


def test_the_loss_over_prefixes_counts_the_empty_one():
    """Engines agree with the answers to every prefix of every sequence, the answer to none included."""
    task = small(prefixes=True)
    drawn = task.source(0, "float64").sequences()
    recipe = icl.Recipe(task=task, model=icl.Attention("merged", num_heads=1), init=icl.Init(0.3), seed=0)
    key = stream(0, "steps")
    for engine in ("moments", "samples"):
        setup = prepare(recipe.replace(engine=engine))
        answers = jax.jit(jax.vmap(setup.model.predict_prefixes))(drawn.x, drawn.y)
        assert float(setup.engine.loss(setup.model, key)) == pytest.approx(
            float(jnp.mean((answers - drawn.y) ** 2)), rel=1e-10
        )
    whole, without = task.context_lengths(), task.replace(empty_prefix=False).context_lengths()
    assert (list(whole), list(without)) == ([0, 1, 2, 3, 4], [1, 2, 3, 4])
    fresh = task.replace(num_prompts=None).fresh(0, key, 8, "float64")
    assert fresh.target.shape == (8 * 5, 1)
    assert float(fresh.weight.sum()) == pytest.approx(1.0)


def test_fresh_prompts_take_tasks_of_the_pool():
    task = small(num_prompts=None, noise=0.0, target_noise=False)
    batch = task.fresh(0, stream(5, "steps"), 8, "float64")
    solved = np.linalg.lstsq(np.asarray(batch.prompt.x[0]), np.asarray(batch.prompt.y[0]), rcond=None)[0][:, 0]
    assert np.abs(np.asarray(task.pool(0)) - solved).max(1).min() < 1e-10


def test_pools_of_all_sizes_share_the_program_of_fresh_prompts():
    task, key = small(num_prompts=None, noise=0.0), stream(5, "steps")
    sizes = jnp.array([1.0, 2.0, 5.0])
    many = jax.vmap(lambda k: task.unchecked(num_tasks=k).fresh(0, key, 8, "float64").target)(sizes)
    for index, size in enumerate(sizes):
        alone = task.replace(num_tasks=int(size)).fresh(0, key, 8, "float64").target
        np.testing.assert_allclose(many[index], alone, rtol=1e-12)
    assert task.fresh_parameters() == {"noise": 0.0, "num_tasks": 5}


def test_the_least_population_loss_of_a_pool_is_lus():
    """Γ = R[(1+1/ℓ)R + (tr R/d+ρ)/α I]⁻¹ is the optimum over the pool, so the loss is (tr R − tr R B⁻¹ R)/d."""
    task = small(dim=4, context_len=8, num_tasks=3, noise=0.1, target_noise=False, covariance=LU, num_prompts=None)
    engine = prepare(icl.Recipe(task=task, model=icl.Attention("merged_reduced", num_heads=1), seed=0)).engine
    w = np.asarray(task.pool(0))
    moment = w.T @ w / 3
    features = (1 + 1 / 8) * moment + (np.trace(moment) / 4 + 0.1) / 2 * np.eye(4)
    wanted = np.trace(moment - moment @ np.linalg.solve(features, moment)) / 4
    assert float(engine.minimum()) == pytest.approx(wanted, rel=1e-10)


@pytest.mark.parametrize(
    ("law", "values"),
    [
        (TaskCovariance.isotropic(), [1, 1, 1, 1]),
        (TaskCovariance.isotropic(mean=0.25), [0.25] * 4),
        (TaskCovariance.power(1.0), np.array([12, 6, 4, 3]) * 4 / 25),
        (TaskCovariance.linear(), [1.6, 1.2, 0.8, 0.4]),
        (TaskCovariance.flat(2), [2, 2, 0, 0]),
        (TaskCovariance.spike(1), [0, 4, 0, 0]),
        (TaskCovariance.spike(-1, 0.5), [0.5, 0.5, 0.5, 2.5]),
        (TaskCovariance.eigenvalues([0, 3, 1, 2]), [0, 3, 1, 2]),
        (TaskCovariance.eigenvalues([0, 3, 1, 4], mean=1.0), [0, 1.5, 0.5, 2]),
    ],
    ids=repr,
)
def test_spectra_keep_their_order_and_their_zeros(law, values):
    np.testing.assert_allclose(law.values(4), values)
    assert TaskCovariance.from_json(law.to_json()) == law


@given(st.integers(1, 30), st.integers(-30, 29), st.floats(0, 1), st.floats(0.1, 10))
@settings(max_examples=30, deadline=None)
def test_a_spike_has_the_trace_that_was_asked_for(dim, index, floor, mean):
    if not -dim <= index < dim:
        with pytest.raises(icl.IclearnError, match="a spike needs an eigenvector"):
            TaskCovariance.spike(index, floor).values(dim)
        return
    values = TaskCovariance.spike(index, floor, mean=mean).values(dim)
    assert values.sum() == pytest.approx(mean * dim)
    assert np.argmax(values) == index % dim or np.ptp(values) < 1e-9 * mean


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"num_tasks": 0}, "num_tasks must be at least 1"),
        ({"noise": -1.0}, "must be finite and not negative"),
        ({"task_covariance": TaskCovariance.flat(9)}, "between 1 and 3 eigenvectors, not 9"),
        ({"task_covariance": TaskCovariance.eigenvalues([1, -1, 0])}, "must not be negative"),
        ({"task_covariance": TaskCovariance.eigenvalues([0, 0, 0])}, "not all 0"),
        ({"task_covariance": TaskCovariance.linear(), "on_sphere": True}, "need isotropic"),
        ({"test_covariance": TaskCovariance.spike(0), "on_sphere": True}, "need isotropic"),
        ({"num_tasks": None, "balanced": True}, "balanced tasks need a pool"),
    ],
)
def test_what_cannot_be_is_refused(fields, words):
    with pytest.raises(icl.IclearnError, match=words):
        small(**fields)
    with pytest.raises(icl.IclearnError, match="takes 1 parameters, not 0"):
        TaskCovariance("power")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "target_noise adds the noise"),
        ({"target_noise": False, "prefixes": True}, "not known over prefixes"),
        ({"target_noise": False, "num_tasks": 300}, "more than 256 tasks"),
        ({"target_noise": False, "num_tasks": None, "on_sphere": True}, "on the sphere have no closed-form"),
    ],
)
def test_population_losses_that_are_not_known_are_refused(fields, words):
    with pytest.raises(icl.IclearnError, match=words):
        small(**fields).label_laws(0)


def test_a_run_on_a_pool_records_its_tests_and_its_recipe_is_read_again():
    law = TaskCovariance.spike(1, 0.2)
    task = small(num_prompts=60, test_prompts=40, test_covariance=law, test_context_len=7, balanced=True)
    recipe = icl.Recipe(task=task, model=icl.Attention("merged", num_heads=1), steps=5)
    trace = icl.simulate(recipe)
    assert trace.data["test_loss"].sizes["test_set"] == 2
    assert trace.data["test_set"].values.tolist() == ["pool", "new"]
    again = icl.Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.hash == recipe.hash != recipe.replace(task__num_tasks=6).hash
    assert icl.theory.theory_of(recipe) is None
    assert "K=5" in task.describe()
