"""Linear read-outs of what a model computes inside, with controls (Hewitt and Liang 2019, arXiv 1909.03368).

A ridge regression from hidden states to a target says that the target can be read off linearly; only its excess over
controls says that the model put it there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError

_PENALTIES = tuple(10.0**k for k in range(-6, 3))  # relative to the mean square of the states


@dataclass(frozen=True)
class ReadOut:
    """How well a target can be read off; see `read_out`.

    Args:
        score: cross-validated R² of the target.
        controls: name → R² of each control.
        selectivity: score less the best control.
        folds: (fold) R² of each fold.
    """

    score: float
    controls: dict[str, float]
    selectivity: float
    folds: Float[np.ndarray, " fold"]


def read_out(
    states: Any,
    target: Any,
    *,
    untrained: Any = None,
    folds: int = 5,
    seed: int = 0,
    penalties: Sequence[float] = _PENALTIES,
) -> ReadOut:
    """Ridge regression from hidden states to a target, cross-validated, beside controls.

    The penalty is chosen inside each training part, on one quarter of it. Controls: ``random target``, normal numbers
    of the target's size, which can only be remembered; ``shuffled``, the target's own values at other prompts; and
    ``untrained``, the true target from the states of another model, such as the same one at its random start.

    Args:
        states: (prompt, feature) hidden states.
        target: (prompt) or (prompt, output).
        untrained: (prompt, feature) states of the control model on the same prompts (None: without).
        folds: parts of the cross-validation.
        seed: of folds and controls.
        penalties: to choose from, relative to the mean square of the states.

    Returns:
        The R², those of the controls, and the difference.

    >>> rng = np.random.default_rng(0)
    >>> hidden = rng.normal(size=(400, 5))
    >>> found = read_out(hidden, hidden @ rng.normal(size=5), untrained=rng.normal(size=(400, 5)))
    >>> found.score > 0.999, max(found.controls.values()) < 0.05
    (True, True)
    """
    hidden = _table("states", states)
    goal = _table("the target", np.asarray(target, float).reshape(len(hidden), -1) if np.size(target) else target)
    rng = np.random.default_rng(seed)
    parts = np.array_split(rng.permutation(len(hidden)), folds)
    if folds < 2 or min(map(len, parts)) < 2:
        raise IclearnError(f"{len(hidden)} prompts are too few for {folds} folds of a read-out")
    own = _scores(hidden, goal, parts, penalties)
    controls = {
        "random target": _scores(hidden, rng.normal(size=goal.shape), parts, penalties),
        "shuffled": _scores(hidden, goal[rng.permutation(len(goal))], parts, penalties),
    }
    if untrained is not None:
        other = _table("states of the control model", untrained)
        if len(other) != len(hidden):
            raise IclearnError(f"the control model has states of {len(other)} prompts, not of {len(hidden)}")
        controls["untrained"] = _scores(other, goal, parts, penalties)
    told = {name: float(values.mean()) for name, values in controls.items()}
    score = float(own.mean())
    return ReadOut(score, told, score - max(told.values()), own)


def read_sites(
    sites: Callable[[Any], Mapping[str, Any]] | Mapping[str, Any],
    target: Any,
    *,
    control: Callable[[Any], Mapping[str, Any]] | Mapping[str, Any] | None = None,
    prompts: Any = None,
    **options: Any,
) -> dict[str, ReadOut]:
    """`read_out` at every named site of a model.

    Args:
        sites: name → (prompt, feature) states, or a function from prompts to that.
        target: (prompt) or (prompt, output).
        control: the same for the control model, with the same names.
        prompts: what the functions are given.
        options: of `read_out`.

    Returns:
        Name → read-out.

    >>> rng = np.random.default_rng(0)
    >>> first, second = rng.normal(size=(300, 3)), rng.normal(size=(300, 3))
    >>> found = read_sites({"layer 1": first, "layer 2": second}, second[:, 0])
    >>> [name for name, one in found.items() if one.selectivity > 0.5]
    ['layer 2']
    """
    own = sites(prompts) if callable(sites) else sites
    other = control(prompts) if callable(control) else control or {}
    missing = [name for name in own if other and name not in other]
    if missing:
        raise IclearnError(f"the control model has no site {', '.join(missing)}; it has {', '.join(other)}")
    return {name: read_out(states, target, untrained=other.get(name), **options) for name, states in own.items()}


def _table(what: str, values: Any) -> Float[np.ndarray, "row column"]:
    table = np.asarray(values, float)
    if table.ndim != 2 or not table.size:
        raise IclearnError(f"{what} must be a table with a row for each prompt, not of shape {table.shape}")
    if not np.isfinite(table).all():
        raise IclearnError(f"{what} hold NaN or infinity")
    return table


def _scores(states: np.ndarray, goal: np.ndarray, parts: list[np.ndarray], penalties: Sequence[float]) -> np.ndarray:
    """(fold) R² on each part of a read-out fitted on the others."""
    found = []
    for index, held in enumerate(parts):
        rest = np.concatenate([part for other, part in enumerate(parts) if other != index])
        cut = max(1, len(rest) // 4)
        inner = [
            _r2(states[rest[:cut]], goal[rest[:cut]], _fit(states[rest[cut:]], goal[rest[cut:]], p)) for p in penalties
        ]
        best = penalties[int(np.argmax(inner))]
        found.append(_r2(states[held], goal[held], _fit(states[rest], goal[rest], best)))
    return np.array(found)


def _fit(states: np.ndarray, goal: np.ndarray, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of states and goal, and the slopes of a ridge regression around them."""
    center, level = states.mean(0), goal.mean(0)
    x = states - center
    size = len(x) * penalty * max(float(np.mean(x**2)), 1e-300)
    slopes = np.linalg.solve(x.T @ x + size * np.eye(x.shape[1]), x.T @ (goal - level))
    return center, level, slopes


def _r2(states: np.ndarray, goal: np.ndarray, fit: tuple[np.ndarray, np.ndarray, np.ndarray]) -> float:
    """1 − squared error over that of the mean of the training part."""
    center, level, slopes = fit
    left = goal - level - (states - center) @ slopes
    return float(1 - np.sum(left**2) / max(float(np.sum((goal - level) ** 2)), 1e-300))
