"""Shifts of weights and data beside their bounds: random ones, those of gradient descent, and those of trained layers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core.recipe import Recipe
from ...core.rng import stream
from ...core.trace import Trace
from ...models.predictors.softmax_descent import SoftmaxDescent, line_search
from ...models.softmax_layers import LabelAttention, SoftmaxLayer
from ...tasks.softmax_regression import SoftmaxRegression
from ...theory.li2024 import (
    ShiftReport,
    data_for_weight_shift,
    data_shift_report,
    gd_shift_bound,
    gd_weights,
    hessian,
    prediction,
    sharpest_curvature,
    spectral_norm,
    tight_instance,
    tight_step,
    weight_shift_report,
)
from .measures import drawn, searched, sources

GD_STEPS = 10
RADIUS = 4.0  # the least R of the paper's theorems
SHAPES = ((2, 1), (5, 3), (25, 20), (50, 20))
SIZES = np.geomspace(1e-4, 1, 13)


def _logs(kind: str, report: ShiftReport) -> dict[str, jax.Array]:
    return {f"{kind}_{name}": value for name, value in report._asdict().items()}


def _step_report(a: jax.Array, b: jax.Array, x: jax.Array, lr: jax.Array) -> dict[str, jax.Array]:
    """Logs of how far one gradient step moves the target, and of its bound."""
    moved = prediction(a, gd_weights(a, b, x, lr)) - prediction(a, x)
    return {
        "step_log_measured": jnp.log(jnp.linalg.norm(moved)),
        "step_log_bound": jnp.log(gd_shift_bound(a, b, x, lr)),
    }


def _curvature(a: jax.Array, b: jax.Array, x: jax.Array) -> jax.Array:
    return spectral_norm(hessian(a, b, x)) / spectral_norm(a) ** 2


@eqx.filter_jit
def random_instances(key: jax.Array, words: int, dim: int, count: int) -> dict[str, jax.Array]:
    """Random shifts and steps of all sizes: ‖A‖ ≤ 4, ‖x‖ ≤ 4, shifts from 1e-4 to the whole ball, b often at a corner."""

    def one(key: jax.Array) -> dict[str, jax.Array]:
        keys = jax.random.split(key, 10)
        a, step = (jax.random.normal(k, (words, dim)) for k in keys[:2])
        x, way = (jax.random.normal(k, (dim,)) for k in keys[2:4])
        a = a * (RADIUS * jax.random.uniform(keys[4]) / jnp.linalg.norm(a, 2))
        x = x * (RADIUS * jax.random.uniform(keys[5]) / jnp.linalg.norm(x))
        size, length = 10 ** jax.random.uniform(keys[6], (2,), minval=-4.0, maxval=0.6)
        inside = jax.random.dirichlet(keys[7], jnp.full(words, 0.3))
        corner = jax.nn.one_hot(jax.random.randint(keys[8], (), 0, words), words)
        b = jnp.where(jax.random.uniform(keys[9]) < 0.5, corner, inside)
        moved, other = x + size * way / jnp.linalg.norm(way), a + size * step / jnp.linalg.norm(step, 2)
        reports = _logs("weight", weight_shift_report(a, x, moved)) | _logs("data", data_shift_report(a, other, x))
        steps = _step_report(a, b, x, length / spectral_norm(a) ** 2)
        return reports | steps | {"size": size, "curvature": _curvature(a, b, x)}

    return jax.vmap(one)(jax.random.split(key, count))


@eqx.filter_jit
def along_descent(task: SoftmaxRegression, seed: int, documents: int) -> dict[str, jax.Array]:
    """Each step of line-searched gradient descent, as a weight shift and as the data shift that it is; (document, step)."""
    search, held_out = sources(task, seed, documents)
    lr, _ = line_search(search.everything(), 1)  # type: ignore[arg-type]
    batch = held_out.everything()

    def one(document) -> dict[str, jax.Array]:
        a, b = document.context, document.target

        def step(x: jax.Array, _: None):
            after = gd_weights(a, b, x, lr)
            weight = weight_shift_report(a, x, after)
            data = data_shift_report(a, data_for_weight_shift(a, x, after - x), x)
            return after, _logs("weight", weight) | _logs("data", data) | _step_report(a, b, x, lr)

        return jax.lax.scan(step, jnp.zeros(a.shape[1]), None, GD_STEPS)[1]

    return jax.vmap(one)(batch.prompt)  # type: ignore[union-attr]


@jax.jit
def tight_cases() -> dict[str, jax.Array]:
    """The instances that attain the bounds, for shifts of the sizes SIZES; ‖A‖ = 4 for weights, ‖x‖ = 4 for data."""

    def one(size: jax.Array) -> dict[str, jax.Array]:
        case = tight_instance(RADIUS / 2**0.5, size)
        weight = weight_shift_report(case.data, case.weights, case.new_weights)
        data = data_shift_report(case.zero_data, case.new_data / RADIUS, RADIUS * case.unit)
        both = {name: jnp.stack([getattr(weight, name), getattr(data, name)]) for name in ShiftReport._fields}
        return both | _step_report(*tight_step(1.0), size)

    found = {f"tight_{name}": values for name, values in jax.vmap(one)(jnp.asarray(SIZES)).items()}
    return found | {"sharpest_curvature": _curvature(*sharpest_curvature(1.0))}


def all_shifts(
    instances: int, task: SoftmaxRegression, documents: int, shapes: tuple[tuple[int, int], ...] = SHAPES
) -> xr.Dataset:
    """Random instances, the steps of gradient descent, and the instances that attain the bounds.

    The first gradient step starts at x = 0, where no change of the data does anything: its data shift is left out.
    """
    parts = [random_instances(stream(i, "bounds"), n, d, instances // len(shapes)) for i, (n, d) in enumerate(shapes)]
    variables: dict[str, Any] = {
        name: ("instance", np.concatenate([np.asarray(p[name]) for p in parts])) for name in parts[0]
    }
    for name, values in along_descent(task, 0, documents).items():
        from_zero = not name.startswith("data")
        part = np.asarray(values) if from_zero else np.asarray(values)[:, 1:]
        variables[f"gd_{name}"] = (("document", "gd_step" if from_zero else "later_step"), part)
    for name, values in tight_cases().items():
        variables[name] = (("shift_size", "shift")[: values.ndim], np.asarray(values))
    coords = {
        "shift_size": SIZES,
        "shift": ["weight", "data"],
        "gd_step": np.arange(1, GD_STEPS + 1),
        "later_step": np.arange(2, GD_STEPS + 1),
    }
    return xr.Dataset(variables, coords)


@eqx.filter_jit
def _on_documents(model: LabelAttention, descent: SoftmaxDescent, turn: jax.Array, prompt) -> dict[str, jax.Array]:
    def one(document) -> dict[str, jax.Array]:
        x = model.estimate(document) @ turn
        report = weight_shift_report(document.context, jnp.zeros_like(x), x)
        apart = jax.nn.softmax(document.query @ x) - descent.predict(document)
        return {**report._asdict(), "preds_diff": jnp.linalg.norm(apart)}

    return jax.vmap(one)(prompt)


def layer_shifts(group: Sequence[Recipe], traces: Sequence[Trace], documents: int) -> xr.Dataset:
    """The weight shift 0 → x̂ that a trained layer makes, its bounds, and its distance to the gradient step.

    (who, repetition, document); who is the ``layer``, or the same with x̂ ``turned`` by a random rotation.
    """
    rows = []
    for one, trace in zip(group, traces, strict=True):
        task, spec = one.task, one.model
        assert isinstance(task, SoftmaxRegression)
        assert isinstance(spec, SoftmaxLayer)
        names = [str(n) for n in trace.data.data_vars if str(n).startswith("weight_")]
        last = {n.removeprefix("weight_"): trace.data[n].values[-1].astype(float) for n in names}
        descent = SoftmaxDescent(jnp.asarray(searched(task, one.seed, documents, 1)))
        batch, model = drawn(sources(task, one.seed, documents)[1]), spec.rebuild(task.dim, last)
        assert isinstance(model, LabelAttention)
        rotation = jnp.linalg.qr(jax.random.normal(stream(one.seed, "turn"), (task.dim, task.dim)))[0]
        measure = partial(_on_documents, model, descent, prompt=batch.prompt)
        rows.append([measure(turn) for turn in (jnp.eye(task.dim), rotation)])
    found = {
        name: (("who", "repetition", "document"), np.stack([[np.asarray(r[i][name]) for r in rows] for i in range(2)]))
        for name in rows[0][0]
    }
    return xr.Dataset(found, {"who": ["layer", "turned"], "repetition": [one.seed for one in group]})
