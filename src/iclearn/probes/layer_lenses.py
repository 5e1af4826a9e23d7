"""What can be read off the residual stream: a linear read-out a layer, and probes that stand beside their controls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.checks import as_numbers, require

PENALTY = 1e-3  # of ridge probes, relative to the number of prompts, on standardized features


@dataclass(frozen=True)
class Lens:
    """Linear read-outs of every layer; see `read_out_lens`.

    Args:
        errors: (layer, prompt, token) answers minus targets, on prompts that were not fitted; layer 0 is the embedding.
        prompts: (prompt) the numbers of these prompts.
    """

    errors: Float[np.ndarray, "layer prompt token"]
    prompts: np.ndarray

    @property
    def mean_square(self) -> Float[np.ndarray, "layer token"]:
        """(layer, token) mean squared errors."""
        return (self.errors**2).mean(1)


def residual_sites(sites: Mapping[str, Any]) -> list[np.ndarray]:
    """The residual stream at the input tokens: of the embedding and after every block.

    Args:
        sites: of `run_sites`.

    Returns:
        (prompt, token, entry) arrays.
    """
    names = sorted((n for n in sites if n.endswith(".residual")), key=lambda name: int(name.partition(".")[0]))
    require(bool(names), "a lens needs the residual stream: give the sites of run_sites")
    return [np.asarray(sites[name], float)[:, ::2] for name in ("embed", *names)]


def read_out_lens(sites: Mapping[str, Any], targets: Any) -> Lens:
    """One linear read-out with an intercept for each layer, fitted on all positions of the first half of the prompts.

    Args:
        sites: of `run_sites`.
        targets: (prompt, token) labels of the inputs.

    Returns:
        The errors on the other half, for `match_steps` with those of an algorithm on the same prompts.
    """
    goal = as_numbers("targets", targets, 2)
    layers = residual_sites(sites)
    require(goal.shape == layers[0].shape[:2], f"targets have shape {goal.shape}, and the tokens {layers[0].shape[:2]}")
    half = len(goal) // 2
    require(half > 0, "a lens needs at least two prompts")
    errors = []
    for states in layers:
        rows = np.concatenate([states, np.ones((*states.shape[:2], 1))], -1)
        weights = np.linalg.lstsq(rows[:half].reshape(-1, rows.shape[-1]), goal[:half].ravel(), rcond=None)[0]
        errors.append(rows[half:] @ weights - goal[half:])
    return Lens(np.stack(errors), np.arange(half, len(goal)))


@dataclass(frozen=True)
class ControlledProbe:
    """A linear probe beside its four controls; see `controlled_probe`.

    Args:
        score: R² on the half of the prompts that was not fitted.
        shuffled: that of targets shuffled over prompts.
        untrained: that of the states of an untrained network.
        shared: that of prompts that share one task vector.
        nonlinear: that of a kernel probe of the same states.
    """

    score: float
    shuffled: float
    untrained: float
    shared: float
    nonlinear: float

    @property
    def selectivity(self) -> float:
        """R² minus that of the better of the controls that predict the same target: shuffled, and untrained.

        The other two are bounds of another kind and stand beside it: with a shared task the target is linear in the
        query, so that R² is 1 at the embedding of any network, and a kernel probe of the same states may exceed the
        linear one.
        """
        return self.score - max(self.shuffled, self.untrained)


def controlled_probe(
    states: Any, target: Any, *, untrained: Any, shared_states: Any, shared_target: Any, seed: int = 0
) -> ControlledProbe:
    """Ridge regression from hidden states to a target, with all four controls.

    Fitted on half of the prompts, on standardized features with penalty 10⁻³ times their number; R² on the other half.

    Args:
        states: (prompt, feature) hidden states at one token.
        target: (prompt) or (prompt, output).
        untrained: (prompt, feature) states of an untrained network on the same prompts.
        shared_states: (prompt, feature) states of the network on prompts that share one task vector.
        shared_target: their targets.
        seed: of the shuffling.

    Returns:
        The scores.

    >>> rng = np.random.default_rng(0)
    >>> states, other = rng.normal(size=(2, 400, 5))
    >>> same = {"shared_states": states, "shared_target": states[:, 0]}
    >>> found = controlled_probe(states, states[:, 0] ** 2, untrained=other, **same)
    >>> found.score < 0.1, found.nonlinear > 0.5, found.shared > 0.99
    (True, True, True)
    """
    hidden, goal = _table(states), _table(target)
    order = np.random.default_rng(seed).permutation(len(goal))
    return ControlledProbe(
        ridge_r2(hidden, goal), ridge_r2(hidden, goal[order]), ridge_r2(_table(untrained), goal),
        ridge_r2(_table(shared_states), _table(shared_target)), kernel_r2(hidden, goal),
    )  # fmt: skip


def _table(values: Any) -> np.ndarray:
    array = as_numbers("states and targets", values)
    return array.reshape(len(array), -1)


def _halves(states: np.ndarray, goal: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Standardized features and targets of both halves, by the means and deviations of the first."""
    require(len(states) == len(goal), f"{len(states)} states have {len(goal)} targets")
    half = len(states) // 2
    require(half >= 2, f"a probe needs at least four prompts, not {len(states)}")
    size = states[:half].std(0)
    scaled = (states - states[:half].mean(0)) / np.where(size > 1e-12 * max(size.max(), 1e-300), size, np.inf)
    centered = goal - goal[:half].mean(0)
    return scaled[:half], scaled[half:], centered[:half], centered[half:]


def ridge_r2(states: np.ndarray, goal: np.ndarray) -> float:
    """R² on the second half of the prompts of a ridge regression fitted on the first.

    Args:
        states: (prompt, feature).
        goal: (prompt, output).

    Returns:
        1 − squared error over that of the mean of the first half.
    """
    seen, new, known, asked = _halves(states, goal)
    weights = np.linalg.solve(seen.T @ seen + PENALTY * len(seen) * np.eye(seen.shape[1]), seen.T @ known)
    return _r2(new @ weights, asked)


def kernel_r2(states: np.ndarray, goal: np.ndarray) -> float:
    """As `ridge_r2` with a Gaussian kernel whose width is the median distance of the fitted prompts.

    Args:
        states: (prompt, feature).
        goal: (prompt, output).

    Returns:
        R².
    """
    seen, new, known, asked = _halves(states, goal)
    between = _squares(seen, seen)
    width = np.median(between[np.triu_indices(len(seen), 1)])
    width = width if width > 0 else 1.0
    weights = np.linalg.solve(np.exp(-between / width) + PENALTY * np.eye(len(seen)), known)
    return _r2(np.exp(-_squares(new, seen) / width) @ weights, asked)


def _squares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.maximum((first**2).sum(1)[:, None] + (second**2).sum(1) - 2 * first @ second.T, 0)


def _r2(answers: np.ndarray, goal: np.ndarray) -> float:
    return float(1 - np.sum((answers - goal) ** 2) / max(float(np.sum(goal**2)), 1e-300))
