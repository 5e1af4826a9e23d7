"""Golden files ``ahn_*``: trainings by the public code of ahn2023 (chengxiang/LinearTransformer), computed again.

Its weights are P and Q of every layer and head, z_n ← z_n + (1/N) Σ_m (z_nᵀ Q z_m) P z_m: B_l = P and A_l = −Qᵀ here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...core.prompt import Batch
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...engines.simulate import simulate
from ...models.transformer import LinearTransformer
from ...store.npz import dataset_from
from ...tasks.given import GivenData
from ..verifying import Quantity, Recomputed, settings_of, sizes

RULES = {"gd": "gd", "sgd": "gd", "adam": "adam"}
_NOT_READ = ("code", "commit", "torch", "init_std", "covariance")


def from_public(weights: np.ndarray) -> dict[str, np.ndarray]:
    """Weights (…, layer, head, 2, dim, dim) of the public code, [P, Q], as `a` and `b`.

    Args:
        weights: the array.

    Returns:
        `a` = −Qᵀ and `b` = P.
    """
    return {"a": -np.swapaxes(weights[..., 1, :, :], -1, -2), "b": weights[..., 0, :, :]}


def to_public(weights: Mapping[str, Any]) -> np.ndarray:
    """The inverse of `from_public`."""
    a, b = np.asarray(weights["a"]), np.asarray(weights["b"])
    return np.stack([b, -np.swapaxes(a, -1, -2)], -3)


def recompute(arrays: Mapping[str, np.ndarray]) -> Recomputed:
    """Every quantity of a file ``ahn_*`` from its tokens, targets, initial weights and settings.

    Args:
        arrays: of the file.

    Returns:
        Predictions before and after, the loss at every step, and the weights at the kept steps and at the end.
    """
    settings = settings_of(arrays)
    weights, tokens, steps = arrays["weights"], arrays["x"], len(arrays["loss"])
    if weights.ndim != 5 or weights.shape[2] != 2 or tokens.ndim != 3:
        raise IclearnError(
            f"weights {weights.shape} and x {tokens.shape} must be (layer, head, 2, dim, dim) and (prompt, token, entry)"
        )
    rule = settings["optimiser"]
    if rule not in RULES:
        raise IclearnError(f"optimiser {rule!r} is none of {', '.join(RULES)}")
    given: dict[str, Any] = {"clip": settings["clip_global"], "clip_each": settings["clip_each"]}
    if rule == "adam":
        given |= {"betas": tuple(settings["betas"]), "eps": settings["eps"]}
    frozen = ("b",) if settings["zero_p"] else ()
    optimizer = Optimizer(
        RULES[rule],  # type: ignore[arg-type]
        settings["lr"], halve_every=settings["halve_lr_every"], frozen=frozen, **given,
    )  # fmt: skip
    dataset = dataset_from({"x": tokens, "y_q": arrays["y_q"]})
    recipe = Recipe(
        task=GivenData.of(dataset), model=LinearTransformer(layers=len(weights), num_heads=weights.shape[1]),
        init=Init(scheme="given"), optimizer=optimizer, steps=steps, engine="samples",
        record=Record(steps + 1, steps + 1),
    )  # fmt: skip
    start = from_public(weights)
    trace = simulate(recipe, dataset=dataset, weights=start)
    batch: Any = recipe.task.bind(dataset).source(0, "float64").everything()
    at = np.asarray(arrays["weights_at"], int)
    if at.size and (at.min() < 0 or at.max() > steps):
        raise IclearnError(f"weights_at holds steps from {at.min()} to {at.max()}, and the run has {steps}")
    dim = tokens.shape[2] - 1
    told = {"layers": len(weights), "heads": weights.shape[1], "dim": dim, "context_len": tokens.shape[1] - 1}
    quantities = [
        *sizes(settings, told | {"prompts": len(tokens), "steps": steps}),
        Quantity("pred_start", arrays["pred_start"], predictions(trace.model(0), batch), "start"),
        Quantity("loss", arrays["loss"], trace.loss.values, "path"),
        Quantity("weights_kept", arrays["weights_kept"], np.stack([to_public(trace.weights(i)) for i in at]), "end"),
        Quantity("weights_end", arrays["weights_end"], to_public(trace.weights(-1)), "end"),
        Quantity("pred_end", arrays["pred_end"], predictions(trace.model(), batch), "end"),
    ]
    if "U" in arrays:  # float32 digits
        turned = arrays["U"].T @ arrays["U"]
        quantities.append(Quantity("U.orthogonal", turned, np.eye(len(turned)), "end", 1e-5))
    unchecked = (*(f"args.{name}" for name in _NOT_READ), *(["D"] if "D" in arrays else []))
    return Recomputed(tuple(quantities), ("x", "y_q", "weights", "weights_at", "args"), unchecked)


def predictions(model: AbstractModel, batch: Batch) -> np.ndarray:
    """The predictions of a model for every prompt of a batch with one output.

    Args:
        model: the model.
        batch: the prompts.

    Returns:
        (prompt) the predictions.
    """
    return np.asarray(eqx.filter_jit(lambda own, read: jax.vmap(own.predict)(read))(model, batch.prompt)[:, 0])
