"""Trained weights beside the weights of an algorithm: von Oswald et al.'s construction, interpolation, the GD++ fit.

One layer with W_q W_kᵀ = diag(I, 0) and W_v W_o = −c′ diag(γ I, η) is a step of GD++ (c′ = 1/N where attention is a sum
over the context, 1 where it is a mean): y ← y − η β·x, x ← (I − γ S) x (arXiv 2212.07677, proposition 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize

from ..core.checks import literals_checked
from ..core.errors import IclearnError
from ..core.prompt import Batch
from ..models.features import Normalize, attention_scale
from ..models.step_transformers import SparseTransformer
from ..models.transformer_forms import AbstractLinearTransformer, FullTransformer


@literals_checked
def gdpp_construction(
    dim: int, context_len: int, steps: Sequence[float], curvature: Sequence[float] = (), normalize: Normalize = "none"
) -> FullTransformer:
    """The weights with which a linear transformer is gradient descent or GD++.

    Args:
        dim: dimension of the inputs.
        context_len: N.
        steps: η_1, …, η_L.
        curvature: γ_1, …; missing ones are 0.
        normalize: whether the model's attention is a mean over the context (``context``) or a sum (``none``).

    Returns:
        A model with one head and L layers.

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.eye(2), jnp.ones((2, 1)), jnp.ones(2))
    >>> gdpp_construction(2, 2, [0.5, 0.5]).predict(prompt)  # XᵀX/N = I/2
    Array([0.875], dtype=float64)
    """
    gamma = [*curvature, *[0.0] * (len(steps) - len(curvature))]
    scale = float(attention_scale(normalize, float(context_len))) * context_len
    inputs = np.diag(np.append(np.ones(dim), 0.0))
    values = np.array([np.diag(np.append(np.full(dim, -g), -a)) for a, g in zip(steps, gamma, strict=True)]) / scale
    eye = np.broadcast_to(np.eye(dim + 1), (len(steps), 1, dim + 1, dim + 1))
    key = jnp.asarray(np.broadcast_to(inputs, eye.shape))
    return FullTransformer(
        query=key, key=jnp.asarray(eye), value=jnp.asarray(values[:, None]), output=jnp.asarray(eye),
        depth=len(steps), normalize=normalize,
    )  # fmt: skip


def interpolated(model: FullTransformer, other: FullTransformer, share: float = 0.5) -> FullTransformer:
    """The average of two models in their products KQ = W_q W_kᵀ and PV = W_v W_o, layer by layer.

    Before that, KQ of each is divided by the mean of its first dim diagonal entries, and PV multiplied by it: a model
    does not change by that, and two models that are the same become equal. That mean is near zero at random weights, so
    an average is of use only for models that are alike already.

    Args:
        model: with one head.
        other: with one head and as many layers (or one set of weights for all of them).
        share: of `other`.

    Returns:
        The average, with W_k = W_o = I.

    >>> one, two = gdpp_construction(2, 4, [1.0]), gdpp_construction(2, 4, [2.0])
    >>> float(interpolated(one, two).value[0, 0, -1, -1])  # −η/N
    -0.375
    """
    pairs = [_normalized(each) for each in (model, other)]
    sets = max(len(kq) for kq, _ in pairs)
    if any(len(kq) not in (1, sets) for kq, _ in pairs):
        raise IclearnError(f"models with {len(pairs[0][0])} and {len(pairs[1][0])} sets of weights have no average")
    kq, pv = ((1 - share) * a + share * b for a, b in zip(*pairs, strict=True))
    eye = jnp.broadcast_to(jnp.eye(kq.shape[-1], dtype=kq.dtype), kq.shape)
    products = {"query": kq[:, None], "key": eye[:, None], "value": pv[:, None], "output": eye[:, None]}
    return FullTransformer(**products, depth=model.depth, normalize=model.normalize)


def _normalized(model: FullTransformer) -> tuple[Array, Array]:
    """KQ and PV of every set of weights, the mean diagonal of the inputs' block of KQ made 1."""
    if model.query.shape[1] != 1:
        raise IclearnError(f"weights are interpolated for models with one head, not {model.query.shape[1]}")
    kq = jnp.einsum("lik,ljk->lij", model.query[:, 0], model.key[:, 0])
    pv = jnp.einsum("lik,lkj->lij", model.value[:, 0], model.output[:, 0])
    mean = jnp.diagonal(kq, axis1=1, axis2=2)[:, :-1].mean(-1)[:, None, None]
    return kq / mean, pv * mean


@dataclass(frozen=True)
class GdppFit:
    """A linear transformer read as GD++, from its weights.

    Args:
        steps: (layer) η̂_l = −c′⁻¹ Σ_h mean diag(KQ_xx) PV_yy, c′ = 1/N for attention that is a sum.
        curvature: (layer) γ̂_l = −c′⁻¹ Σ_h mean diag(KQ_xx) mean diag(PV_xx).
        off_diagonal: (layer, 2) share of the squares of KQ, and of PV, that is in the block of the inputs beside a
            multiple of the identity.
        off_block: (layer, 2) share of the squares outside the blocks that GD++ has: inputs with inputs, and for PV the
            label with the label.
    """

    steps: Float[np.ndarray, " layer"]
    curvature: Float[np.ndarray, " layer"]
    off_diagonal: Float[np.ndarray, "layer two"]
    off_block: Float[np.ndarray, "layer two"]


def fit_gdpp(model: AbstractLinearTransformer, context_len: int) -> GdppFit:
    """The steps of GD++ that the weights of a linear transformer come closest to, and what is left of the weights.

    Args:
        model: the model.
        context_len: N.

    Returns:
        Steps, curvature and what is left, for every set of weights.

    >>> found = fit_gdpp(gdpp_construction(3, 10, [6.0], [2.0]), 10)
    >>> found.steps, found.curvature, found.off_block
    (array([6.]), array([2.]), array([[0., 0.]]))
    """
    scale = float(attention_scale(model.normalize, float(context_len))) * context_len
    rows = []
    for layer in model.layer_maps():
        kq, pv = np.asarray(layer.key), np.asarray(layer.value)  # transposed, which changes no number below
        means = [np.diagonal(part[:, :-1, :-1], axis1=1, axis2=2).mean(-1) for part in (kq, pv)]
        corner = pv[:, -1, -1]
        beside, outside = [], []
        for part, mean, own in zip((kq, pv), means, (0.0, np.sum(corner**2)), strict=True):
            block, total = part[:, :-1, :-1], max(float(np.sum(part**2)), 1e-300)
            beside.append(np.sum((block - mean[:, None, None] * np.eye(block.shape[-1])) ** 2) / total)
            outside.append(max(total - np.sum(block**2) - own, 0.0) / total)
        rows.append((-scale * means[0] @ corner, -scale * means[0] @ means[1], beside, outside))
    return GdppFit(*(np.array(column) for column in zip(*rows, strict=True)))


def nearest_gdpp(
    model: AbstractLinearTransformer, batch: Batch, start: GdppFit, *, tied: bool = False
) -> tuple[np.ndarray, np.ndarray, float]:
    """The GD++ whose predictions are nearest to a model's over a batch.

    Args:
        model: the model.
        batch: prompts.
        start: where to begin, such as `fit_gdpp` of the model.
        tied: one step and one curvature for all layers.

    Returns:
        Steps and curvature (one of each where tied, else one for every layer; the last curvature has no effect), and
        the root mean square of the differences of the predictions.
    """
    depth, dim, sets = model.depth, batch.prompt.query.shape[-1], 1 if tied else model.depth
    order = np.arange(sets) % len(start.steps)
    wanted = eqx.filter_jit(lambda own, prompts: jax.vmap(own.predict)(prompts))(model, batch.prompt)

    def distance(p: Array, read: Batch, wanted: Array) -> Array:
        steps, curvature = p[:sets], p[sets:]
        near = SparseTransformer(a=steps[:, None], b=(curvature / steps)[:, None], dim=dim, depth=depth)
        error = jax.vmap(near.predict)(read.prompt) - wanted
        return jnp.sum(read.weight * jnp.sum(error**2, -1)) / jnp.sum(read.weight)

    slope: Any = eqx.filter_jit(jax.value_and_grad(distance))
    begin = np.concatenate([start.steps[order], start.curvature[order]])
    found = minimize(
        lambda p: tuple(np.asarray(v, float) for v in slope(jnp.asarray(p), batch, wanted)),
        begin,
        jac=True,
        method="BFGS",
    )
    return found.x[:sets], found.x[sets:], float(found.fun) ** 0.5
