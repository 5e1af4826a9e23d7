"""A step of xie2025's training (2048 fresh prompts, Adam), and what it could cost at least.

The floor is the floating-point operations of the loss and its gradient, as XLA counts them in the compiled program,
over the rate at which this machine multiplies large float32 matrices. Random bits are integer work and memory traffic
is not arithmetic, so drawing the prompts is also timed alone.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp

from iclearn import Recipe
from iclearn.engines import prepare
from iclearn.engines.samples import FreshEngine, step_key
from iclearn.papers.xie2025.common import MEMBERS, YQ, online_recipe

from .measure import Case, Result, Scale, timed
from .steps import step_times

GROUPS = {"yq-LSA alone": (YQ,), "yq-LSA and H = 1, 2, 5, 10, 11, 20 together": MEMBERS}


def matrix_rate(size: int, repeats: int) -> float:
    """Floating-point operations a second of the fastest of some products of two square float32 matrices."""
    square = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    jax.block_until_ready(product(square))
    return 2 * size**3 / min(timed(lambda: jax.block_until_ready(product(square)))[0] for _ in range(repeats))


def operations(recipe: Recipe) -> float:
    """Floating-point operations of one loss and gradient, drawing included (powers, roots and logarithms not)."""
    setup = prepare(recipe)
    gradient = eqx.filter_jit(lambda model, key: eqx.filter_value_and_grad(setup.engine.loss)(model, key))
    compiled = gradient.lower(setup.model, step_key(recipe.seed)).compile()
    (counts,) = [found for found in _flat(compiled.compiled.cost_analysis()) if "flops" in found]
    return float(counts["flops"])


def _flat(found) -> list[dict[str, float]]:
    return list(found) if isinstance(found, list | tuple) else [found]


def drawing_times(recipe: Recipe, steps: int, repeats: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Microseconds (wall, processor) to draw the prompts of a step, in a compiled loop."""
    engine = prepare(recipe).engine
    assert isinstance(engine, FreshEngine)

    @eqx.filter_jit
    def draw(engine: FreshEngine, key) -> jax.Array:
        def one(step, total):
            task = engine.task.unchecked(**engine.numbers)
            batch = task.fresh(engine.seed, jax.random.fold_in(key, step), engine.batch_size, engine.dtype)
            return total + sum(jnp.sum(leaf) for leaf in jax.tree.leaves(eqx.filter(batch, eqx.is_inexact_array)))

        return jax.lax.fori_loop(0, steps, one, jnp.zeros((), engine.dtype))

    key = step_key(recipe.seed)
    jax.block_until_ready(draw(engine, key))
    times = [timed(lambda: jax.block_until_ready(draw(engine, key))) for _ in range(repeats)]
    return tuple(wall / steps * 1e6 for wall, _, _ in times), tuple(cpu / steps * 1e6 for _, cpu, _ in times)


def measure(name: str, what: str, members, scale: Scale) -> list[Result]:
    recipe = online_recipe(3.0, 0, members)
    if scale.quick:
        recipe = recipe.replace(optimiser=replace(recipe.optimiser, batch_size=16))
    steps, repeats = (5, 2) if scale.quick else (100, 9)
    rate = matrix_rate(64 if scale.quick else 4096, repeats)
    taken = step_times(recipe, steps, repeats)
    drawn, drawn_cpu = drawing_times(recipe, steps, repeats)
    count = operations(recipe)
    floor = count / rate * 1e6
    told = {"operations": count, "matrix_rate": rate, "batch_size": recipe.optimiser.batch_size}
    return [
        Result(f"online/{name}/step", f"{what}: a step", "µs/step", taken.wall, None, told, taken.cpu),
        Result(f"online/{name}/drawing", f"{what}: its prompts alone", "µs/step", drawn, None, told, drawn_cpu),
        Result(f"online/{name}/floor", f"{what}: {count / 1e6:.0f} million operations at {rate / 1e9:,.0f} GFLOP/s", "µs/step", (floor,), None, told),
        Result(f"online/{name}/ratio", f"{what}: step ÷ floor", "times", tuple(wall / floor for wall in taken.wall), None, told),
    ]  # fmt: skip


def cases(scale: Scale) -> Iterator[Case]:
    for name, (what, members) in zip(("yq", "all"), GROUPS.items(), strict=True):
        yield Case(f"online/{name}", functools.partial(measure, name, what, members, scale))
