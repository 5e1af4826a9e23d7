"""What heads of a causal transformer attend to: labels to their inputs, inputs to labels of equal or near inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError


def _patterns(sites: Mapping[str, Any]) -> Float[np.ndarray, "layer prompt head token token"]:
    names = sorted((n for n in sites if n.endswith(".pattern")), key=lambda name: int(name.partition(".")[0]))
    if not names:
        raise IclearnError("scores of heads need the patterns of a pass: give the sites of run_sites")
    return np.stack([np.asarray(sites[name], float) for name in names])


def pairing_scores(sites: Mapping[str, Any]) -> Float[np.ndarray, "layer head"]:
    """Mean attention of label tokens to their own input, token 2i + 1 to token 2i.

    Args:
        sites: of `run_sites`; the last label, which the model does not read, is left out.

    Returns:
        (layer, head) the scores, from 0 to 1.

    >>> from iclearn.probes.causal_sites import pairing_pattern
    >>> float(pairing_scores({"0.pattern": pairing_pattern(3)[0][None, None]})[0, 0])
    1.0
    """
    patterns = _patterns(sites)
    labels = np.arange(1, patterns.shape[-1] - 1, 2)
    return patterns[..., labels, labels - 1].mean((1, 3))


def _to_labels(sites: Mapping[str, Any], chosen: np.ndarray, asked: np.ndarray) -> Float[np.ndarray, "layer head"]:
    """Mean attention of inputs that are `asked` (prompt, token) to the labels `chosen` (prompt, token, token)."""
    patterns = _patterns(sites)[..., ::2, 1::2]  # of inputs to labels
    if not asked.any():
        return np.full((len(patterns), patterns.shape[2]), np.nan)
    attention = np.einsum("lphij,pij->lhpi", patterns, chosen.astype(float))
    return attention[..., asked].mean(-1)


def prefix_scores(sites: Mapping[str, Any], x: Any, tolerance: float = 0.0) -> Float[np.ndarray, "layer head"]:
    """Mean attention of an input to the labels of equal earlier inputs, over the inputs that have one.

    Args:
        sites: of `run_sites`.
        x: (prompt, token, dim) the inputs.
        tolerance: distance up to which inputs are equal.

    Returns:
        (layer, head) the scores; .5 or more counts as a head that looks up its input (H). NaN where no input returns.
    """
    distance, earlier = _distances(x)
    equal = (distance <= tolerance) & earlier
    return _to_labels(sites, equal, np.asarray(equal.any(-1)))


def neighbor_scores(sites: Mapping[str, Any], x: Any) -> Float[np.ndarray, "layer head"]:
    """Mean attention of an input to the label of the nearest earlier input; the first input has none.

    Args:
        sites: of `run_sites`.
        x: (prompt, token, dim) the inputs.

    Returns:
        (layer, head) the scores; .5 or more counts as a nearest-neighbor head (H).
    """
    distance, earlier = _distances(x)
    near = np.where(earlier, distance, np.inf)
    chosen = (np.arange(near.shape[-1]) == near.argmin(-1)[..., None]) & earlier
    return _to_labels(sites, chosen, np.asarray(chosen.any(-1)))


def _distances(x: Any) -> tuple[np.ndarray, np.ndarray]:
    """(prompt, token, token) distances of inputs, and which of them are earlier."""
    points = np.asarray(x, float)
    distance = np.sqrt(np.sum((points[:, :, None] - points[:, None]) ** 2, -1))
    order = np.arange(points.shape[1])
    return distance, np.broadcast_to(order[None, :] < order[:, None], distance.shape)
