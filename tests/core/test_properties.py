"""Properties of every valid recipe and of the models: JSON, permutations, rotations, units."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import iclearn as icl
from iclearn.core.errors import IclearnError
from iclearn.core.prompt import full_prompt

positive = st.floats(1e-6, 1e3)
covariances = st.one_of(
    st.builds(icl.Covariance.linear), st.builds(icl.Covariance.white),
    st.builds(icl.Covariance.power, st.floats(0, 3)), st.builds(icl.Covariance.spiked, positive),
    st.builds(icl.Covariance.eigenvalues, st.lists(positive, min_size=1, max_size=4)),
)  # fmt: skip
sizes = {"dim": st.integers(1, 4), "context_len": st.integers(1, 8)}
tasks = st.fixed_dictionaries(
    {**sizes, "covariance": covariances, "noise": st.floats(0, 2), "num_prompts": st.none() | st.integers(1, 50)}
)
models = st.one_of(
    st.fixed_dictionaries(
        {
            "family": st.sampled_from(["merged", "separate", "merged_reduced", "separate_reduced", "mlp"]),
            "num_heads": st.integers(1, 4), "rank": st.integers(1, 3), "softmax": st.booleans(),
            "normalize": st.sampled_from(["none", "context", "tokens"]),
        }
    ).map(lambda fields: (icl.Attention, fields)),
    st.fixed_dictionaries({"num_heads": st.integers(1, 3)}).map(lambda fields: (icl.LSA, fields)),
)  # fmt: skip
optimizers = st.fixed_dictionaries(
    {"rule": st.sampled_from(["gd", "sgd", "momentum", "adam", "adamw", "flow"]), "lr": positive}
)
QUIET = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@QUIET
@given(tasks, models, optimizers, st.integers(0, 2**63 - 1), st.floats(0, 10))
def test_a_valid_recipe_goes_through_json_with_the_same_hash(task, model, optimizer, seed, scale):
    cls, fields = model
    try:
        recipe = icl.Recipe(
            task=icl.LinearRegression(**task), model=cls(**fields), optimizer=icl.Optimizer(**optimizer), seed=seed,
            init=icl.Init(scale),
        )  # fmt: skip
    except IclearnError:
        return
    again = icl.Recipe.from_json(recipe.to_json())
    assert again == recipe
    assert again.hash == recipe.hash
    assert icl.Recipe.from_dict(recipe.to_dict()) == recipe


MODELS = {
    "merged": icl.Attention("merged", num_heads=3),
    "separate": icl.Attention("separate", num_heads=3, rank=2),
    "softmax": icl.Attention("merged", num_heads=3, softmax=True),
    "merged_reduced": icl.Attention("merged_reduced", num_heads=3),
    "lsa": icl.LSA(3),
}
TASK = icl.LinearRegression(dim=3, context_len=5, num_prompts=20)


def drawn(name: str):
    return MODELS[name].initial(TASK, icl.Init(0.7), 3, jnp.float64)


def prompts(count: int = 4):
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.normal(size=(5, 3)), rng.normal(size=(5, 1)), rng.normal(size=3)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_the_context_does_not_matter(name):
    model, rng = drawn(name), np.random.default_rng(1)
    for x, y, query in prompts():
        turn = rng.permutation(5)
        one = model.predict(full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(query)))
        other = model.predict(full_prompt(jnp.asarray(x[turn]), jnp.asarray(y[turn]), jnp.asarray(query)))
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_the_order_of_the_heads_does_not_matter(name):
    model = drawn(name)
    weights = model.weights()
    turned = {n: w[jnp.array([2, 0, 1])] if "head" in model.axes[n][:1] else w for n, w in weights.items()}
    other = MODELS[name].rebuild(3, turned)
    for x, y, query in prompts():
        prompt = full_prompt(jnp.asarray(x), jnp.asarray(y), jnp.asarray(query))
        np.testing.assert_allclose(model.predict(prompt), other.predict(prompt), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("engine", ["population", "moments", "samples"])
def test_units_of_the_inputs_and_rotations_only_move_the_weights(engine):
    """x → c·x with weights scaled by 1/c² in the key-query block gives the same loss curve's first value."""
    number = None if engine == "population" else 50
    losses = []
    for scale in (1.0, 4.0):
        covariance = icl.Covariance.eigenvalues((scale * np.array([0.6, 0.4])).tolist())
        task = icl.LinearRegression(dim=2, context_len=6, num_prompts=number, covariance=covariance)
        weights = {"value": np.full((1, 1, 1), 0.5), "kq": np.eye(2)[None] / scale}
        recipe = icl.Recipe(
            task=task, model=icl.Attention("merged_reduced"), init=icl.Init.given(weights), engine=engine, steps=1
        )
        losses.append(float(icl.simulate(recipe, weights=weights).loss[0]) / scale)
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


TRAINED = [
    *(
        (engine, icl.Attention(family, num_heads=3))
        for engine in ("moments", "samples")
        for family in ("merged", "separate", "merged_reduced", "separate_reduced")
    ),
    *(("samples", icl.Attention(family, num_heads=3, softmax=True)) for family in ("merged", "separate")),
]


def trained(engine: str, spec, arrays: tuple[np.ndarray, ...], weights) -> np.ndarray:
    """Losses of 30 steps on given arrays from given weights."""
    x, y, target = arrays
    dataset = icl.Dataset(icl.Arrays(x=x, y=y, y_query=target))
    recipe = icl.Recipe(
        task=icl.GivenData.of(dataset), model=spec, init=icl.Init.given(weights), engine=engine, steps=30,
        optimizer=icl.Optimizer(lr=0.02),
    )  # fmt: skip
    return icl.simulate(recipe, dataset=dataset, weights=weights).loss.values


def example(spec, seed: int = 0):
    """Arrays of 12 prompts in two dimensions, and weights that fit them."""
    rng = np.random.default_rng(seed)
    x, y, target = rng.normal(size=(12, 6, 2)), rng.normal(size=(12, 6, 1)), rng.normal(size=(12, 1))
    task = icl.LinearRegression(dim=2, context_len=5, num_prompts=12)
    drawn = spec.initial(task, icl.Init(0.6), seed, jnp.float64)
    return (x, y, target), {name: np.asarray(w) for name, w in drawn.weights().items()}, drawn.axes


def turned(weights, axes, matrix: np.ndarray):
    """The weights that read x → matrix·x as the given ones read x: every axis over inputs is turned."""
    out = {}
    for name, array in weights.items():
        for place, axis in enumerate(axes[name]):
            if "input" in axis or axis == "entry":
                size = array.shape[place]
                whole = np.eye(size)
                whole[: len(matrix), : len(matrix)] = matrix
                array = np.moveaxis(np.tensordot(whole, array, (1, place)), 0, place)
        out[name] = array
    return out


@pytest.mark.parametrize(("engine", "spec"), TRAINED)
def test_training_is_equivariant(engine, spec):
    """Rotating x with the weights, shuffling contexts, prompts or heads: the same losses at every step."""
    (x, y, target), weights, axes = example(spec)
    losses = trained(engine, spec, (x, y, target), weights)
    assert losses[-1] != losses[0]
    rng = np.random.default_rng(3)
    rotation = np.linalg.qr(rng.normal(size=(2, 2)))[0]
    others = {
        "rotation": ((x @ rotation.T, y, target), turned(weights, axes, rotation)),
        "prompts": ((x[::-1].copy(), y[::-1].copy(), target[::-1].copy()), weights),
        "contexts": ((x[:, [4, 2, 0, 1, 3, 5]], y[:, [4, 2, 0, 1, 3, 5]], target), weights),
        "heads": ((x, y, target), {n: w[[2, 0, 1]] if "head" in axes[n][:1] else w for n, w in weights.items()}),
    }
    for name, (arrays, start) in others.items():
        np.testing.assert_allclose(trained(engine, spec, arrays, start), losses, rtol=1e-9, err_msg=name)


def test_the_population_loss_does_not_depend_on_the_basis():
    losses = []
    for turned in (False, True):
        covariance = icl.Covariance.eigenvalues([0.6, 0.4], rotate=turned)
        task = icl.LinearRegression(dim=2, context_len=6, num_prompts=None, covariance=covariance)
        weights = {"value": np.full((1, 1, 1), 0.5), "kq": np.eye(2)[None]}
        recipe = icl.Recipe(task=task, model=icl.Attention("merged_reduced"), init=icl.Init.given(weights), steps=30)
        losses.append(icl.simulate(recipe, weights=weights).loss.values)
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-10)
