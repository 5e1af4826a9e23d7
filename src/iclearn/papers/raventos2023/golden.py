"""Golden files ``predictors*``: answers of ridge and dMMSE to every prefix, by the public codes of raventos2023 and lu2025.

For every pool ``mK`` the file holds sequences of new tasks (``latent``) and of the pool's (``pretrain``). The public
ridge is solved in float32 whatever the precision of its inputs, so it is compared to five digits only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...core.prompt import full_prompt
from ...models.predictors import DiscreteMMSE, Oracle, Ridge
from ..verifying import Quantity, Recomputed, every_prefix

ATOL = {"true": 1e-12, "dmmse_public": 1e-9, "w_last_public": 1e-9, "ridge_own": 1e-10, "ridge_public_f32": 5e-5}


@eqx.filter_jit
def estimates(model: AbstractModel, x: jax.Array, y: jax.Array) -> jax.Array:
    """The estimate of w of a model that is linear in the query, from all tokens but the last.

    Args:
        model: the model.
        x: (sequence, token, dim) inputs.
        y: (sequence, token) labels.

    Returns:
        (sequence, dim) the estimates.
    """
    return jax.vmap(lambda a, b: model.sensitivity(full_prompt(a[:-1], b[:-1, None], a[-1]))[0])(x, y)


def recompute(arrays: Mapping[str, np.ndarray]) -> Recomputed:
    """Every answer in a file ``predictors*`` from its sequences and pools.

    Args:
        arrays: of the file.

    Returns:
        For every pool and kind of tasks the labels without noise, ridge, dMMSE and its estimate of w; and that tasks of
        ``pretrain`` are the pool's.
    """
    pools = [match[1] for name in arrays if (match := re.fullmatch(r"(m\d+)_pool", name))]
    if not pools:
        raise IclearnError("there is no pool in it: layout predictors needs arrays such as m16_pool")
    found = [quantity for pool in pools for quantity in _of_pool(arrays, pool)]
    given = [f"{pool}_{kind}_{name}" for pool in pools for kind in ("latent", "pretrain") for name in "xyw"]
    own = [name for name in given if not name.endswith("pretrain_w")]
    return Recomputed(tuple(found), ("noise_scale", *(f"{pool}_pool" for pool in pools), *own))


def _of_pool(arrays: Mapping[str, np.ndarray], pool: str) -> Iterator[Quantity]:
    noise, tasks = float(arrays["noise_scale"]) ** 2, arrays[f"{pool}_pool"]
    yield Quantity(f"{pool}.tasks", np.array(float(pool[1:])), np.array(float(len(tasks))), "size")
    mixture, ridge = DiscreteMMSE(tasks, noise), Ridge(noise)
    for kind in ("latent", "pretrain"):
        start = f"{pool}_{kind}_"
        x, y, w = (jnp.asarray(arrays[start + name]) for name in "xyw")
        if x.ndim != 3 or y.shape != x.shape[:2] or w.shape != (len(x), x.shape[2]):
            shapes = f"x {x.shape}, y {y.shape} and w {w.shape}"
            raise IclearnError(
                f"{shapes} of {start[:-1]} must be (sequence, token, dim), (sequence, token), (sequence, dim)"
            )
        if kind == "pretrain":
            nearest = np.argmin(((np.asarray(w)[:, None] - tasks) ** 2).sum(-1), 1)
            yield _near(start + "w", arrays[start + "w"], tasks[nearest], 1e-12, (f"{pool}_pool",))
        truth = jax.vmap(lambda v, a, b: Oracle(v).predict_prefixes(a, b[:, None])[:, 0])(w, x, y)
        solved = every_prefix(ridge, x, y)
        ours = {
            "true": truth, "ridge_own": solved, "ridge_public_f32": solved,
            "dmmse_public": every_prefix(mixture, x, y), "w_last_public": estimates(mixture, x, y),
        }  # fmt: skip
        prompts = ("noise_scale", f"{start}x", f"{start}y")
        sources = {"true": (f"{start}x", f"{start}w")}
        sources |= {name: (*prompts, f"{pool}_pool") for name in ("dmmse_public", "w_last_public")}
        for name, values in ours.items():
            yield _near(
                start + name, arrays[start + name], np.asarray(values), ATOL[name], sources.get(name, prompts)
            )  # fmt: skip


def _near(name: str, given: np.ndarray, ours: np.ndarray, atol: float, of: tuple[str, ...]) -> Quantity:
    """A quantity judged by absolute differences, which `Quantity` takes relative to the largest value."""
    size = max(float(np.max(np.abs(ours), initial=0.0)), 1.0)
    return Quantity(name, given, ours, "end", atol / size, least=1.0, of=of)
