"""Transformers on pools of tasks: pools and seeds in one program, killed runs, the triangle, decay of some weights."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.engines.loop import record_slots
from iclearn.engines.optimizers import Hyper

STEPS = 12


def recipe(num_tasks: int = 4, seed: int = 0, **changes) -> icl.Recipe:
    made = icl.Recipe(
        task=icl.tasks.PooledRegression(dim=2, context_len=3, num_tasks=num_tasks, prefixes=True),
        model=icl.CausalTransformer(layers=1, width=8),
        init=icl.Init(0.02),
        optimizer=icl.Optimizer("adam", lr=1e-2, batch_size=4, triangle=STEPS),
        steps=STEPS,
        seed=seed,
        engine="samples",
        record=icl.Record(weights=5, candidates=4),
    )
    return made.replace(**changes)


@pytest.fixture(scope="module")
def together() -> list[icl.Trace]:
    return icl.simulate_many([recipe(k, seed) for k in (1, 4, 2**20) for seed in (0, 1)])


def test_pools_and_seeds_are_one_program_and_each_is_as_alone(together):
    assert [trace.provenance["run_beside"] for trace in together] == [5] * 6
    for trace in (together[0], together[3]):
        alone = icl.simulate(trace.recipe)
        np.testing.assert_allclose(trace.loss, alone.loss, rtol=1e-9)
        for name, weight in alone.weights().items():
            np.testing.assert_allclose(trace.weights()[name], weight, rtol=1e-6, atol=1e-9)


def test_pools_of_one_seed_have_the_same_start_inputs_and_noise(together):
    for name, weight in together[0].weights(0).items():
        np.testing.assert_array_equal(weight, together[4].weights(0)[name])
        if name in icl.CausalTransformer.matrices:
            assert (weight != together[1].weights(0)[name]).any(), "another seed begins elsewhere"
    small, large = (recipe(k).task.replace(num_prompts=4).source(0, "float64").sequences() for k in (1, 2**20))
    np.testing.assert_array_equal(small.x, large.x)
    np.testing.assert_allclose(small.y - small.truth, large.y - large.truth, atol=1e-14)
    assert (small.w != large.w).any()


def test_records_fall_on_even_steps_and_the_last(together):
    assert together[0].data["record"].values.tolist() == [0, 3, 6, 9, 12]
    assert record_slots(1 << 30) == 8, "of large models one call holds few"


def test_a_killed_run_goes_on_bit_for_bit(killed_at_save):
    keeper = killed_at_save(2)
    with pytest.raises(RuntimeError, match="killed"):
        icl.simulate(recipe(), checkpoint=keeper)
    assert 0 < len(keeper.kept[-1]["loss"]) < STEPS
    assert icl.simulate(recipe(), checkpoint=keeper).equals(icl.simulate(recipe()))


def test_the_first_update_has_rate_0_and_the_rest_follow_the_triangle():
    rule = Hyper.of(icl.Optimizer("sgd", lr=0.5, batch_size=4, triangle=6), "float64").transformation()
    gradient, state, moved = jnp.ones(1), rule.init(jnp.zeros(1)), []
    for _ in range(8):
        update, state = rule.update(gradient, state)
        moved.append(-float(update[0]))
    np.testing.assert_allclose(moved, 0.5 * np.array([0, 1 / 3, 2 / 3, 1, 2 / 3, 1 / 3, 0, 0]), atol=1e-15)


def test_a_cosine_follows_its_warm_up_and_ends_at_0():
    rule = Hyper.of(icl.Optimizer("sgd", lr=0.5, batch_size=4, cosine=6, warmup=2), "float64").transformation()
    gradient, state, moved = jnp.ones(1), rule.init(jnp.zeros(1)), []
    for _ in range(8):
        update, state = rule.update(gradient, state)
        moved.append(-float(update[0]))
    falling = 0.5 * (1 + np.cos(np.pi * np.arange(5) / 4))
    np.testing.assert_allclose(moved, 0.5 * np.array([0, 0.5, *falling, 0]), atol=1e-7)
    with pytest.raises(icl.IclearnError, match="longer cosine"):
        icl.Optimizer("adam", cosine=5, warmup=5)
    before = icl.Optimizer("adam", lr=0.5)
    assert "cosine" not in before.to_json()  # hashes of earlier recipes stay


def test_decay_is_for_the_named_weights_alone():
    decay = icl.Optimizer("adamw", lr=0.1, weight_decay=0.5, batch_size=4, decayed=icl.CausalTransformer.matrices)
    spec = icl.CausalTransformer(layers=1, width=2)
    model = spec.rebuild(2, {name: np.ones(shape) for name, shape in spec.shapes(2, 4).items()})
    rule = Hyper.of(decay, "float64").transformation()

    @eqx.filter_jit
    def update(model: Any) -> Any:
        return rule.update(jax.tree.map(jnp.zeros_like, model), rule.init(model), model)[0]

    updates = update(model)
    for name, update in updates.weights().items():
        np.testing.assert_allclose(update, -0.05 if name in icl.CausalTransformer.matrices else 0.0, atol=1e-15)
    with pytest.raises(icl.IclearnError, match="decayed weights are those of adamw; the rule is adam"):
        icl.Optimizer("adam", decayed=("qkv",))
    with pytest.raises(icl.IclearnError, match="decayed weights kernel: this model has embed"):
        Hyper.of(decay.replace(decayed=("kernel",)), "float64").transformation().init(model)  # type: ignore[arg-type]
