"""Example data of the figures on linear functions: the numbers of the notes, spread over three seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ...core.errors import MissingClosedForm
from ...tasks.prompt_shifts import Shift, garg_shifts
from ...theory.functions import averaging_error, least_squares_error, least_squares_under, zero_error
from ..base import Data
from .noted_numbers import BAYES_RIDGE, NOISY, SHIFTED, STANDARD
from .setup import PRESETS
from .shift_tables import BAYES, OWN_SHIFTS, PRIOR_SHIFTS, REFERENCES, TRAINING_LAW

SEEDS = 3
SPREAD = 0.002


def noted_curve(known: dict[int, float], start: float, positions: np.ndarray) -> np.ndarray:
    """A curve through known points, 1 times `start` before them."""
    places = {0: start} | known
    return np.interp(positions, list(places), list(places.values()))


def linear_example(preset: str) -> Data:
    """The data of a preset as the notes have it.

    Args:
        preset: ``small`` or ``medium``.

    Returns:
        What `linear_data` gives.
    """
    sizes = PRESETS[preset]
    training, known = sizes.linear, sizes.known
    dim, positions = training.dim, np.arange(training.points)
    shifts: list[Shift | None] = [None, *garg_shifts(), *OWN_SHIFTS]
    labels = ["standard" if shift is None else shift.label for shift in shifts]
    error, base = np.zeros((len(shifts), len(positions))), np.zeros((len(shifts), len(REFERENCES), len(positions)))
    for i, (label, shift) in enumerate(zip(labels, shifts, strict=True)):
        trivial = zero_error(shift, dim)
        cells = SHIFTED[known].get(label, SHIFTED[known]["scale_x=0.333"])
        points = {p: v for p, v in zip(training.places, cells, strict=True) if v is not None}
        error[i] = noted_curve(points, trivial, positions)
        if shift is None:
            error[i] = noted_curve({p: r.middle for p, r in STANDARD[known].items()}, 1.0, positions)
            error[i] = np.maximum(error[i], least_squares_error(positions, dim) + 0.001)  # sampled values may be below
        try:
            base[i, 0] = np.nan_to_num(least_squares_under(shift, positions, dim), posinf=50.0)
        except MissingClosedForm:
            base[i, 0] = 0.5 * error[i]
        base[i, 1] = averaging_error(positions, dim)
        base[i, 2] = trivial * np.where(positions > 0, 1.7, 1.0)
    rng = np.random.default_rng(0)
    factor = np.exp(0.03 * rng.normal(size=(SEEDS, len(shifts), 1)))
    factor[:, [labels.index(name) for name in ("standard", "orthogonal_train_test")]] = 1.0
    errors = error * factor
    gap = errors[:, :, None] - base
    over = ("seed", "shift", "position")
    variables: dict[str, Any] = {
        "error": (over, errors), "spread": (over, np.full_like(errors, SPREAD)),
        "gap": (("seed", "shift", "reference", "position"), gap), "gap_spread": (("seed", "shift", "reference", "position"), np.full_like(gap, SPREAD)),
        "base": (("shift", "reference", "position"), base), "base_spread": (("shift", "reference", "position"), np.full_like(base, SPREAD)),
    }  # fmt: skip
    coords: dict[str, Any] = {
        "seed": np.arange(SEEDS), "shift": labels, "reference": list(REFERENCES), "position": positions,
    }  # fmt: skip
    if sizes.noisy:
        variables |= noisy_example(positions)
        coords |= {"law": [TRAINING_LAW, *(shift.label for shift in PRIOR_SHIFTS)], "bayes": list(BAYES)}
    return {
        "table": xr.Dataset(variables, coords), "dim": dim, "places": training.places, "known": known, "judged": True,
        "steps": training.steps,
    }  # fmt: skip


def noisy_example(positions: np.ndarray) -> dict[str, Any]:
    """Networks trained with noise: near the Bayes predictor of the training law, whatever the prior."""
    laws = 1 + len(PRIOR_SHIFTS)
    own = np.interp(positions, range(len(BAYES_RIDGE)), BAYES_RIDGE)
    error = noted_curve({p: r.middle for p, r in NOISY.items()}, 1.0, positions)
    error = np.maximum(error, own + 0.01)
    noisy = np.broadcast_to(error, (SEEDS, laws, len(positions))).copy()
    bayes = np.broadcast_to(own, (len(BAYES), laws, len(positions))).copy()
    distance = np.stack([np.broadcast_to(noisy - own, noisy.shape), np.full_like(noisy, 0.15)])
    distance[1, :, 0] = distance[0, :, 0]  # the training law is not shifted
    over = ("seed", "law", "position")
    return {
        "noisy_error": (over, noisy), "noisy_spread": (over, np.full_like(noisy, SPREAD)),
        "lead": (over, distance[1] - distance[0]), "lead_spread": (over, np.full_like(noisy, SPREAD)),
        "distance": (("bayes", *over), distance),
        "bayes_error": (("bayes", "law", "position"), bayes), "bayes_spread": (("bayes", "law", "position"), np.full_like(bayes, SPREAD)),
        "split": (("seed", "position"), np.full((SEEDS, len(positions)), 0.5 * SPREAD)),
        "split_spread": (("seed", "position"), np.full((SEEDS, len(positions)), SPREAD)),
    }  # fmt: skip
