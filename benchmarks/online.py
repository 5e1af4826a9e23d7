"""A step of xie2025's training (2048 fresh prompts, Adam), and what it could cost at least.

The floor is the floating-point operations that the loss and its gradient need, over the device's peak or, where that is
not known, the rate at which it multiplies large float32 matrices. Random bits are integer work and memory traffic is
not arithmetic, so drawing the prompts is also timed alone.
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
from iclearn.models import LSATogether
from iclearn.papers.xie2025.setup import MEMBERS, YQ, online_recipe
from iclearn.tasks import LinearRegression

from .machine import PEAK
from .measure import Case, Result, Scale, timed
from .steps import step_times

GROUPS = {"yq": ("yq-LSA alone", (YQ,)), "all": ("yq-LSA and H = 1, 2, 5, 10, 11, 20 together", MEMBERS)}


def arithmetic_rate(size: int, repeats: int) -> tuple[float, str]:
    """float32 operations a second of this machine, and where that is from.

    The peak of a device that is known; otherwise the fastest of some products of two square matrices.
    """
    if peak := PEAK.get(jax.devices()[0].device_kind):
        return peak, "peak"
    square = jnp.ones((size, size), jnp.float32)
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="highest"))
    jax.block_until_ready(product(square))
    fastest = min(timed(lambda: jax.block_until_ready(product(square)))[0] for _ in range(repeats))
    return 2 * size**3 / fastest, "matrix product"


def operations(recipe: Recipe) -> int:
    """Multiplications and additions that one loss and gradient need, normals given.

    A prompt needs its labels, the entries a ≤ b of its G, and for each model uᵀ W x_q (`models.lsa`), forward and for
    the gradient of W; what does not grow with the batch (W from the heads, Adam) is left out.
    """
    task, spec = recipe.task, recipe.model
    assert isinstance(spec, LSATogether)
    assert isinstance(task, LinearRegression)
    dim, context, models = task.dim, task.context_len, len(spec.members)
    pairs = (dim + 1) * (dim + 2) // 2
    labels, gram = 2 * (context + 1) * dim, 2 * context * pairs
    predictions = 2 * models * (pairs + 2) * dim
    assert recipe.optimizer.batch_size is not None
    return recipe.optimizer.batch_size * (labels + gram + 2 * predictions)


def compiled_operations(recipe: Recipe) -> float:
    """What the compiled program does for it, drawing included, as XLA counts."""
    setup = prepare(recipe)
    weights, rest = eqx.partition(setup.model, eqx.is_inexact_array)

    def loss(weights, key) -> jax.Array:
        return setup.engine.loss(eqx.combine(weights, rest), key)

    compiled = jax.jit(jax.value_and_grad(loss)).lower(weights, step_key(recipe.seed)).compile()
    counts = compiled.cost_analysis()
    assert isinstance(counts, dict)
    return float(counts["flops"])


def drawing_times(recipe: Recipe, steps: int, repeats: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Microseconds (wall, processor) to draw the prompts of a step, in a compiled loop."""
    engine = prepare(recipe).engine
    assert isinstance(engine, FreshEngine)

    @eqx.filter_jit
    def draw(engine: FreshEngine, key) -> jax.Array:
        def one(step, total):
            task = engine.task.unchecked(**engine.parameters)
            batch = task.fresh(engine.seed, jax.random.fold_in(key, step), engine.batch_size, engine.dtype)
            return total + sum(jnp.sum(leaf) for leaf in jax.tree.leaves(eqx.filter(batch, eqx.is_inexact_array)))

        return jax.lax.fori_loop(0, steps, one, jnp.zeros((), engine.dtype))

    key = step_key(recipe.seed)
    drawn = functools.partial(draw, engine, key)
    jax.block_until_ready(drawn())
    times = [timed(lambda: jax.block_until_ready(drawn())) for _ in range(repeats)]
    return tuple(wall / steps * 1e6 for wall, _, _ in times), tuple(cpu / steps * 1e6 for _, cpu, _ in times)


def measure(name: str, what: str, members, scale: Scale) -> list[Result]:
    recipe = online_recipe(3.0, 0, members)
    if scale.quick:
        recipe = recipe.replace(optimizer=replace(recipe.optimizer, batch_size=16))
    steps, repeats = (5, 2) if scale.quick else (100, 9)
    rate, source = arithmetic_rate(64 if scale.quick else 4096, repeats)
    taken = step_times(recipe, steps, repeats)
    drawn, drawn_cpu = drawing_times(recipe, steps, repeats)
    count = operations(recipe)
    floor = count / rate * 1e6
    told = {"operations": count, "compiled_operations": compiled_operations(recipe), "rate": rate, "rate_of": source}
    least = f"{count / 1e6:.0f} million operations at {rate / 1e9:,.0f} GFLOP/s ({source})"
    ratios = tuple(wall / floor for wall in taken.wall)
    return [
        Result(f"online/{name}/step", f"{what}: a step", "µs/step", taken.wall, None, told, taken.cpu),
        Result(f"online/{name}/drawing", f"{what}: its prompts alone", "µs/step", drawn, None, told, drawn_cpu),
        Result(f"online/{name}/floor", f"{what}: {least}", "µs/step", (floor,), None, told),
        Result(f"online/{name}/ratio", f"{what}: step ÷ floor", "times", ratios, None, told),
    ]


def cases(scale: Scale) -> Iterator[Case]:
    for name, (what, members) in GROUPS.items():
        yield Case(f"online/{name}", functools.partial(measure, name, what, members, scale))
