"""Exact training of heads on a Gram matrix: compiled code against the loop in JAX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.engines.build import prepare
from iclearn.engines.compiled import sampled
from iclearn.engines.compiled.gram_runs import exact_form
from iclearn.engines.compiled.switch import SWITCH
from iclearn.engines.descend import descend
from iclearn.engines.optimizers import Hyper
from iclearn.models import LSATogether
from iclearn.models.features import fold_pairs

pytest.importorskip("numba", reason="compiled code needs numba (pip install 'iclearn[fast]')")

GROUP = LSATogether((icl.LSA(1, "trainable"), icl.LSA(1), icl.LSA(3)))
STAGES = [(icl.Optimizer("adam", 1e-2), 60), (icl.Optimizer("adam", 1e-3), 40)]


def start(model, covariance, seed):
    task = icl.LinearRegression(
        dim=3, context_len=4, covariance=covariance, prior_mean=(1.0, 0.0, -2.0), noise=0.1, num_prompts=None
    )
    return prepare(icl.Recipe(task=task, model=model, init=icl.Init(0.1), seed=seed))


@pytest.mark.parametrize("covariance", [icl.Covariance.white(trace=None), icl.Covariance.linear()])
@pytest.mark.parametrize("model", [GROUP, icl.LSA(2, "given", (0.5, -1.0, 2.0))])
def test_the_end_is_that_of_the_loop(monkeypatch, covariance, model):
    starts = [start(model, covariance, seed) for seed in (0, 1)]
    engine, models = starts[0].engine, [begin.model for begin in starts]
    assert exact_form(engine, models[0], Hyper.of(STAGES[0][0], "float64")) is not None
    monkeypatch.setenv(SWITCH, "auto")
    fast = descend(engine, models, STAGES)
    monkeypatch.setenv(SWITCH, "off")
    plain = descend(engine, models, STAGES)
    for one, other, begin in zip(fast, plain, models, strict=True):
        assert not np.allclose(jax.tree.leaves(one)[0], jax.tree.leaves(begin)[0])
        for leaf, wanted in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(leaf, wanted, rtol=0, atol=1e-12)


def test_rules_with_options_are_left_to_the_loop():
    begin = start(GROUP, icl.Covariance.white(trace=None), 0)
    clipped = Hyper.of(icl.Optimizer("adam", 1e-2, clip=1.0), "float64")
    assert exact_form(begin.engine, begin.model, clipped) is None
    assert exact_form(begin.engine, begin.model, Hyper.of(icl.Optimizer("flow", 1e-2), "float64")) is None
    recipe = icl.Recipe(
        task=icl.LinearRegression(dim=3, context_len=4, covariance=icl.Covariance.white(trace=None), num_prompts=None),
        model=GROUP, optimizer=icl.Optimizer("adam", 1e-3, batch_size=512, clip=1.0), engine="samples",
        steps=sampled.LEAST_STEPS, dtype="float32",
    )  # fmt: skip
    assert sampled.prompt_sizes(recipe, prepare(recipe)) is None


def test_folded_pairs_have_the_derivative_of_what_they_are():
    tensor = jax.random.normal(jax.random.key(0), (2, 3, 3, 4))
    weights = jax.random.normal(jax.random.key(1), (2, 6, 4))
    rows, cols = np.triu_indices(3)

    def by_hand(t):
        both = t[:, rows, cols] + jnp.where(rows != cols, 1.0, 0.0)[:, None] * t[:, cols, rows]
        return jnp.sum(weights * both**2)

    def folded(t):
        return jnp.sum(weights * jax.vmap(fold_pairs)(t) ** 2)

    np.testing.assert_allclose(folded(tensor), by_hand(tensor))
    np.testing.assert_allclose(jax.grad(folded)(tensor), jax.grad(by_hand)(tensor), atol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(folded)(tensor), jax.grad(by_hand)(tensor), atol=1e-12)
