"""Many runs side by side: every way of training them gives the numbers of each run alone."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.engines.batch import pallas
from iclearn.engines.batch.inputs import can_trace, prepared_run, recipe_of_run, stack_runs, traced_runs
from iclearn.engines.batch.rows import Unrolled, unroll
from iclearn.engines.batch.train_batch import train_batch
from iclearn.engines.batch.unrolled import lengths_of, sizes_of, train_unrolled
from iclearn.engines.build import prepare
from iclearn.engines.reductions import sample_steps
from iclearn.engines.simulate import simulate
from iclearn.models.attention import Attention
from iclearn.models.lsa import LSA
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.regression import LinearRegression

STEPS, SAMPLES = 60, 7


def recipe(
    family="separate_reduced", *, prompts=None, dim=2, heads=2, rank=1, rule="gd", rotate=True, **more
) -> Recipe:
    lr = 0.05 if "separate" in family or family == "conv" else 0.005
    return Recipe(
        task=LinearRegression(
            dim=dim, context_len=7, num_prompts=prompts, covariance=Covariance.power(1.0, rotate=rotate)
        ),
        model=Attention(family, num_heads=heads, rank=rank),
        init=Init(0.2),
        optimizer=Optimizer(rule, lr=lr),
        steps=STEPS,
        record=Record(weights=0),
        **more,
    )


def numbers(runs=3) -> dict[str, np.ndarray]:
    return {
        "seed": np.arange(5, 5 + runs),
        "init__scale": np.linspace(0.1, 0.3, runs),
        "task__covariance__parameters": np.linspace(0.5, 1.5, runs)[:, None],
        "optimizer__lr": np.linspace(0.02, 0.05, runs),
        "task__noise": np.linspace(0.0, 0.2, runs),
    }


def alone(base: Recipe, given: dict[str, np.ndarray], index: int) -> np.ndarray:
    trace = simulate(recipe_of_run(base, given, index))
    return trace.loss.values[sample_steps(base.steps, SAMPLES)]


CASES = {
    "separate reduced": recipe(),
    "separate full": recipe("separate"),
    "separate, rank 2": recipe(rank=2),
    "conv": recipe("conv"),
    "no rotation": recipe(rotate=False),
    "merged full": recipe("merged"),
    "merged reduced": recipe("merged_reduced"),
    "moments": recipe(prompts=60),
    "moments, merged": recipe("merged_reduced", prompts=60),
}


@pytest.mark.parametrize(("end", "samples"), [(1, 5), (61, 10), (100, 7)])
def test_the_lengths_between_samples_lead_to_the_end(end, samples):
    steps = sample_steps(end, samples)
    assert np.cumsum(lengths_of(steps, end)).tolist() == [*steps[1:], end]


@pytest.mark.parametrize("name", CASES)
def test_written_and_plain_are_the_run_alone(name):
    base, given = CASES[name], numbers()
    plain = train_batch(base, given, samples=SAMPLES, curve=True, path="vmap")
    written = train_batch(base, given, samples=SAMPLES, curve=True, path="unrolled")
    for i in range(3):
        expected = alone(base, given, i)
        np.testing.assert_allclose(plain["curve"][i], expected, rtol=1e-12)
        np.testing.assert_allclose(written["curve"][i], expected, rtol=1e-12)
    assert written["final_loss"] == pytest.approx(plain["final_loss"], rel=1e-12)


@pytest.mark.parametrize(
    "base",
    [
        recipe("separate", prompts=60),  # full attention leaves its zero blocks with finitely many prompts
        recipe(rule="adam"),
        Recipe(
            task=LinearRegression(dim=2, context_len=5, num_prompts=None, prior_mean=(1.0, 0.5)),
            model=LSA(2),
            optimizer=Optimizer("adam", lr=0.01),
            steps=STEPS,
            record=Record(weights=0),
        ),
    ],
    ids=["full moments", "adam", "linear self-attention"],
)
def test_auto_falls_back_to_plain_and_agrees(base):
    given = {"seed": np.arange(2), "optimizer__lr": np.array([0.01, 0.02])}
    found = train_batch(base, given, samples=SAMPLES, curve=True)
    for i in range(2):
        np.testing.assert_allclose(found["curve"][i], alone(base, given, i), rtol=1e-11)
    with pytest.raises(IclearnError, match="path unrolled is for gradient descent on small linear models"):
        train_batch(base, given, path="unrolled")


def test_sampled_training_runs_side_by_side_too():
    base = recipe("merged", rule="sgd").replace(optimizer__batch_size=16, engine="samples")
    given = {"seed": np.arange(2), "task__noise": np.array([0.0, 0.5])}
    found = train_batch(base, given, samples=SAMPLES, curve=True)
    for i in range(2):
        np.testing.assert_allclose(found["curve"][i], alone(base, given, i), rtol=1e-11)


@pytest.mark.parametrize("name", ["separate reduced", "moments", "merged full"])
def test_traced_lanes_are_the_stacked_ones(name):
    base, given = CASES[name], numbers()
    setup = prepare(recipe_of_run(base, given, 0))
    assert can_trace(base, setup, tuple(given))
    traced, least = traced_runs(base, setup, given)
    alone_lanes, expected = zip(*(prepared_run(recipe_of_run(base, given, i)) for i in range(3)), strict=True)
    stacked = stack_runs(alone_lanes)
    np.testing.assert_allclose(least, expected, rtol=1e-10)
    for mine, its in zip(jnp_leaves(traced), jnp_leaves(stacked), strict=True):
        np.testing.assert_allclose(mine, its, rtol=1e-12, atol=1e-14)


def jnp_leaves(tree):
    import equinox as eqx
    import jax

    arrays = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [np.asarray(a) for a in arrays if not jnp.issubdtype(a.dtype, jax.dtypes.prng_key)]


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("separate, rank 2", "float32"),
        ("separate, rank 2", "float64"),
        ("merged reduced", "float32"),
        ("moments", "float64"),
    ],
)
def test_the_kernel_is_the_written_loop(name, dtype):
    """The same expressions inside Pallas, interpreted here; padding of the last block included."""
    base, given = CASES[name].replace(dtype=dtype, steps=12), numbers(3)
    setup = prepare(recipe_of_run(base, given, 0))
    sizes = sizes_of(setup.task, setup.model, setup.engine, "gd")
    assert sizes is not None
    lanes, _ = traced_runs(base, setup, given)
    written = unroll(lanes, sizes, not sizes.full)
    lengths = jnp.asarray(lengths_of(sample_steps(12, 4), 12))
    curve, weights = train_unrolled(written, lengths)
    kernel_curve, kernel_weights = pallas.train_pallas(written, lengths, backend="interpret", block=2)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    np.testing.assert_allclose(kernel_curve, curve, rtol=tolerance)
    np.testing.assert_allclose(kernel_weights, weights, rtol=tolerance, atol=tolerance * 1e-2)


@pytest.mark.parametrize("name", ["separate, rank 2", "moments"])
def test_the_kernel_lowers_for_a_hopper_gpu_without_one(name):
    """Mosaic writes the kernel on any machine; nothing it uses is deprecated."""
    base, given = CASES[name].replace(dtype="float32", steps=12), numbers(3)
    setup = prepare(recipe_of_run(base, given, 0))
    sizes = sizes_of(setup.task, setup.model, setup.engine, "gd")
    assert sizes is not None
    lanes, _ = traced_runs(base, setup, given)
    written, lengths = unroll(lanes, sizes, not sizes.full), jnp.asarray(lengths_of(sample_steps(12, 4), 12))

    def train(weights, rows, steps):
        return pallas.train_pallas(Unrolled(weights, rows, sizes), steps, backend="mosaic")

    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        traced = jax.jit(train).trace(written.weights, written.numbers, lengths)
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "mosaic_gpu" in text


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["separate reduced", "separate, rank 2", "merged reduced", "moments"])
def test_the_kernel_on_a_gpu_is_the_plain_loop(name):
    base, given = CASES[name].replace(dtype="float64"), numbers(300)
    plain = train_batch(base, given, samples=SAMPLES, curve=True, path="vmap")
    for dtype, tolerance in (("float64", 1e-11), ("float32", 2e-5)):
        found = train_batch(base.replace(dtype=dtype), given, samples=SAMPLES, curve=True, path="pallas")
        np.testing.assert_allclose(found["curve"], plain["curve"], rtol=tolerance, err_msg=dtype)


def test_float32_stays_within_its_rounding():
    base, given = recipe(), numbers()
    exact = train_batch(base, given, samples=SAMPLES, curve=True)["curve"]
    for path in ("vmap", "unrolled"):
        single = train_batch(base.replace(dtype="float32"), given, samples=SAMPLES, curve=True, path=path)["curve"]
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, exact, rtol=2e-5)


def test_another_batch_gives_the_same_runs():
    base, given = recipe(), numbers(4)
    whole = train_batch(base, given, samples=SAMPLES, curve=True)["curve"]
    for part in (slice(0, 1), slice(1, 4)):
        some = train_batch(base, {n: v[part] for n, v in given.items()}, samples=SAMPLES, curve=True)["curve"]
        np.testing.assert_allclose(some, whole[part], rtol=1e-12)


def test_a_run_that_diverges_ends_alone():
    given = {"optimizer__lr": np.array([0.02, 50.0])}
    found = train_batch(recipe(), given, samples=SAMPLES)
    assert found["status"].tolist() == [0, 2]
    assert found["status_step"][0] == STEPS
    assert 0 < found["status_step"][1] < STEPS


def test_refusals():
    with pytest.raises(IclearnError, match="the same count for each field"):
        train_batch(recipe(), {"seed": np.arange(2), "init__scale": np.ones(3)})
    with pytest.raises(IclearnError, match="flows choose their own steps"):
        train_batch(recipe(rule="flow"), {"seed": np.arange(2)})
    with pytest.raises(IclearnError, match="path pallas needs a GPU"):
        train_batch(recipe(), {"seed": np.arange(2)}, path="pallas")
