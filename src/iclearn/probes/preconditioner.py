"""How far the steps of a deep linear transformer are from gradient descent on whitened inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError
from ..core.trace import Trace
from .reading import covariance_of, eigenbasis, finite

if TYPE_CHECKING:
    import xarray as xr


def identity_distance(matrices: Any) -> Float[np.ndarray, "*batch"]:
    """Dist(M) = ‖M − (tr M/d) I‖_F / ‖M‖_F: 0 for multiples of the identity, 1 for a matrix of trace zero.

    Args:
        matrices: (…, dim, dim) M.

    Returns:
        (…) the distances; NaN for M = 0.

    >>> identity_distance(np.diag([3.0, 3.0])).tolist(), round(float(identity_distance(np.diag([2.0, 0.0]))), 6)
    (0.0, 0.707107)
    """
    array = finite("the matrices", matrices)
    if array.ndim < 2 or array.shape[-1] != array.shape[-2]:
        raise IclearnError(f"matrices must have shape (…, dim, dim), not {array.shape}")
    eye = np.eye(array.shape[-1])
    left = array - np.trace(array, axis1=-2, axis2=-1)[..., None, None] / len(eye) * eye
    size = np.linalg.norm(array, axis=(-2, -1))
    return np.where(size > 0, np.linalg.norm(left, axis=(-2, -1)) / np.where(size > 0, size, 1.0), np.nan)


def preconditioner_distance(
    source: Any, covariance: Any = None, *, b: Any = None, tied: bool | None = None
) -> xr.Dataset:
    """Dist(Σ^½ A_l Σ^½) and Dist(B_l) of every layer and head along training (`identity_distance`).

    Both are 0 where layers are steps of gradient descent preconditioned by Σ⁻¹ and changes of the inputs by a number
    (GD++), which is what Ahn et al. 2023 (arXiv 2306.00297) find. B of the last layer reaches no prediction and never
    moves, so it is left out; a tied model has one set of weights, which earlier layers use too.

    Args:
        source: a Trace of a model with weights `a` and, where it has them, `b`; or A ([record,] layer, head, dim, dim).
        covariance: (dim, dim) Σ of the inputs (default: the Trace's).
        b: B in the shape of A, where `source` is A.
        tied: whether B of the last layer counts (default: what the Trace's recipe says; for arrays no).

    Returns:
        ``a`` (record, layer, head) and, with B, ``b`` (record, curved_layer, head); of a Trace with the steps of the
        records as coordinate.

    >>> turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    >>> cov = turn @ np.diag([1.0, 0.25]) @ turn.T
    >>> steps = np.stack([np.linalg.inv(cov), np.eye(2)])[:, None]  # preconditioned, and plain
    >>> preconditioner_distance(steps, cov)["a"].values[0, :, 0].round(4).tolist()
    [0.0, 0.5145]
    """
    import xarray as xr

    cov = covariance_of(source, covariance)
    dim, coords = len(cov), {}
    if isinstance(source, Trace):
        paths = source.weight_paths()
        if "a" not in paths:
            raise IclearnError(f"this run has no steps A_l; its weights are {', '.join(sorted(paths)) or 'not kept'}")
        first, second = (finite(f"weight_{name}", paths[name]) if name in paths else None for name in ("a", "b"))
        tied = bool(getattr(source.recipe.model, "tied", False)) if tied is None else tied
        coords = {"record": source.data["record"].values}
        if first is not None and first.ndim == 3:  # η_l stands for η_l I
            first, second = (w if w is None else w[..., None, None] * np.eye(dim) for w in (first, second))
    else:
        first, second = (None if w is None else finite("the weights", w) for w in (source, b))
        first, second = (w[None] if w is not None and w.ndim == 4 else w for w in (first, second))
    if first is None or first.ndim != 5 or first.shape[-2:] != (dim, dim):
        given = None if first is None else first.shape
        raise IclearnError(f"steps A have shape ([record,] layer, head, {dim}, {dim}), not {given}")
    if second is not None and second.shape != first.shape:
        raise IclearnError(f"B has the shape of A, {first.shape}, not {second.shape}")
    values, vectors = eigenbasis(cov)
    root = vectors * np.sqrt(values) @ vectors.T
    found = {"a": (("record", "layer", "head"), identity_distance(root @ first @ root))}
    if second is not None:
        last = second.shape[1] if tied else second.shape[1] - 1
        found["b"] = (("record", "curved_layer", "head"), identity_distance(second[:, :last]))
    return xr.Dataset(found, coords)
