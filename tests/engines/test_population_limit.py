"""population = moments in the limit of many prompts: curves differ by an amount that falls as P^(-1/2)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from engine_cases import POPULATION, recipe, run

from iclearn.engines import stream_moments
from iclearn.models import GramQuery

SIZES = (256, 2048, 16384)
SEEDS = range(20)


def test_loss_curves_differ_by_the_root_of_the_number_of_prompts():
    """Sup over steps of |moments − population|, root mean square over seeds, against P on logarithmic axes.

    The difference of two curves is to first order the sampling error of M, b, c, which is Gaussian with variance ∝ 1/P:
    slope −1/2. A root mean square over n seeds has relative error 1/√(2n), here 16%; the slope over a factor 64 of P
    then has standard error 0.16·√2/ln 64 = 0.054, of which three are allowed.
    """
    limits = {seed: run(recipe("merged", data=None, seed=seed, lr=0.02)) for seed in SEEDS}
    assert all(t.final_loss < 0.7 * float(t.loss[0]) for t in limits.values()), "the comparison covers learning"
    errors = []
    for size in SIZES:
        task = POPULATION.replace(num_prompts=size)
        gaps = [abs(run(recipe("merged", task=task, seed=s, lr=0.02)).loss - limits[s].loss).max() for s in SEEDS]
        errors.append(np.sqrt(np.mean(np.square(gaps))))
    slope = np.polyfit(np.log(SIZES), np.log(errors), 1)[0]
    assert abs(slope + 0.5) < 3 * 0.054, f"slope {slope:.3f}"


def test_moments_of_vmapped_seeds_are_those_of_each_alone():
    task, features = POPULATION.replace(num_prompts=30, center=True, whiten=True), GramQuery(2, 1, "none")

    def moments(seed):
        return stream_moments(task.source(seed, jnp.float64), features, 1, 0)

    together = jax.vmap(moments)(jnp.arange(3))
    for seed in range(3):
        alone = moments(seed)
        jax.tree.map(lambda a, b, i=seed: np.testing.assert_allclose(a[i], b, atol=1e-12), together, alone)


def test_moments_of_parts_add_up():
    """Additive over blocks: a set of many blocks gives the moments of its prompts one by one."""
    features = GramQuery(2, 1, "none")
    source = POPULATION.replace(num_prompts=16384).source(0, jnp.float64)
    assert source.num_blocks == 4
    got = stream_moments(source, features, 1, 0)
    batch = source.everything()
    phi = np.asarray(jax.jit(jax.vmap(features))(batch.prompt))  # type: ignore[union-attr]
    target = np.asarray(batch.target)
    np.testing.assert_allclose(got.second, phi.T @ phi / 16384, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(got.cross, phi.T @ target / 16384, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(got.constant, np.mean(target**2), rtol=1e-12)
