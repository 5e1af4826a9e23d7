"""Golden files ``oswald_*``: trainings by the public code of oswald2023 (self-organising-systems), computed again.

Its loss is ½ mean (ŷ − y_q)², half of ours. Adam that sees twice the gradient, adds twice ε and clips at twice the
norm takes the same steps, and multiplying by two rounds nothing, so that is how such a run is done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import numpy as np

from ...core.errors import IclearnError
from ...core.model import mean_loss
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...engines.simulate import simulate
from ...models.deep_attention import DeepAttention
from ...store.npz import dataset_from
from ...tasks.given import GivenData
from ..ahn2023.golden import predictions
from ..verifying import Quantity, Recomputed, settings_of, sizes

_PARTS = {"query": "query", "key": "key", "value": "value", "output": "linear"}
_NOT_READ = ("code", "commit", "jax", "haiku", "optax", "loss")


def names_of(spec: DeepAttention) -> dict[str, list[str]]:
    """Where the public code keeps each weight array.

    Args:
        spec: the model.

    Returns:
        Our name → the public names (``layer_0.query|w``), one for each index of the first axis.
    """
    layers = ["multi_head_attention"] if spec.tied else [f"layer_{i}" for i in range(spec.layers)]
    found = {ours: [f"{layer}.{public}|w" for layer in layers] for ours, public in _PARTS.items()}
    if spec.bias:
        found |= {f"{ours}_bias": [f"{layer}.{public}|b" for layer in layers] for ours, public in _PARTS.items()}
    if spec.layer_norm and spec.layers > 1:
        later = ["norm"] if spec.tied else [f"norm_{i}" for i in range(1, spec.layers)]
        found |= {f"norm_{part}": [f"{name}|{part}" for name in later] for part in ("scale", "offset")}
    if spec.mlp:
        for ours, public in {"wide": "linear", "narrow": "linear_1"}.items():
            found |= {ours: [f"mlp.{public}|w"], f"{ours}_bias": [f"mlp.{public}|b"]}
        if spec.layer_norm:
            found |= {f"mlp_norm_{part}": [f"layer_norm|{part}"] for part in ("scale", "offset")}
    return found


def paired(tokens: np.ndarray) -> np.ndarray:
    """Interleaved tokens x_1, (0, …, 0, y_1), x_2, …, x_q as tokens [x; y] with the query last.

    Args:
        tokens: (prompt, 2N + 1, dim).

    Returns:
        (prompt, N + 1, dim + 1) the tokens.
    """
    labels = np.concatenate([tokens[:, 1::2, -1], np.zeros((len(tokens), 1))], 1)
    if tokens.shape[1] % 2 == 0 or np.any(tokens[:, 1::2, :-1]):
        raise IclearnError("interleaved tokens are x_1, (0, …, 0, y_1), x_2, …, x_q, and those of x are not")
    return np.concatenate([tokens[:, 0::2], labels[:, :, None]], -1)


def recompute(arrays: Mapping[str, np.ndarray]) -> Recomputed:
    """Every quantity of a file ``oswald_*`` from its tokens, targets, initial weights and settings.

    Args:
        arrays: of the file.

    Returns:
        Predictions before and after, the gradient at the start, the loss at every step, and the weights at the end.
    """
    settings, steps = settings_of(arrays), len(arrays["loss"])
    if settings["optimiser"] != "adam":
        raise IclearnError(f"optimiser {settings['optimiser']!r} is not adam")
    if settings["widening"] != 4:
        raise IclearnError(f"the MLP of this layout is 4 × wide, not {settings['widening']} ×")
    spec = DeepAttention(
        layers=settings["layers"], num_heads=settings["heads"], key_size=settings["key_size"], tied=settings["tied"],
        softmax=settings["softmax"], first_softmax=settings["first_layer_softmax"],
        layer_norm=settings["layer_norm"], mlp=settings["mlp"], bias=settings["bias"],
        interleaved=settings["interleaved"], positions=settings["pos_enc_size"],
    )  # fmt: skip
    tokens = paired(arrays["x"]) if spec.interleaved else arrays["x"]
    dataset = dataset_from({"x": tokens, "y_q": arrays["y_q"]})
    names = names_of(spec)
    weights = {ours: np.stack([arrays[f"w:{name}"] for name in public]) for ours, public in names.items()}
    limit = settings["clip_global"]
    optimizer = Optimizer(
        "adam", settings["lr"], betas=tuple(settings["betas"]), eps=2 * settings["eps"],
        clip=None if limit is None else 2 * limit,
    )  # fmt: skip
    recipe = Recipe(
        task=GivenData.of(dataset), model=spec, init=Init(scheme="given"), optimizer=optimizer, steps=steps,
        engine="samples", record=Record(2, 2),
    )  # fmt: skip
    trace = simulate(recipe, dataset=dataset, weights=weights)
    batch: Any = recipe.task.bind(dataset).source(0, "float64").everything()
    gradient = eqx.filter_jit(jax.grad(lambda model: 0.5 * mean_loss(model, batch)))(trace.model(0)).weights()
    final = trace.weights(-1)
    told = {"dim": dataset.train.x.shape[2], "context_len": tokens.shape[1] - 1, "prompts": len(tokens), "steps": steps}  # type: ignore[union-attr]
    quantities = [
        *sizes(settings, told),
        Quantity("pred_start", arrays["pred_start"], predictions(trace.model(0), batch), "start"),
        *_each("grad", arrays, names, gradient, "start"),
        Quantity("loss", arrays["loss"], 0.5 * trace.loss.values, "path"),
        *_each("end", arrays, names, final, "end"),
        Quantity("pred_end", arrays["pred_end"], predictions(trace.model(), batch), "end"),
    ]
    inputs = ("x", "y_q", *(f"w:{name}" for public in names.values() for name in public), "args")
    return Recomputed(tuple(quantities), inputs, tuple(f"args.{name}" for name in _NOT_READ))


def _each(
    prefix: str, arrays: Mapping[str, np.ndarray], names: Mapping[str, list[str]], ours: Mapping[str, Any], role: Any
) -> list[Quantity]:
    """One quantity for each public array of weights, or of their gradients (which vanish for biases of softmax keys)."""
    least = 1e-6 * max(float(np.max(np.abs(ours[own]))) for own in names)
    return [
        Quantity(f"{prefix}:{name}", arrays[f"{prefix}:{name}"], np.asarray(ours[own])[index], role, least=least)
        for own, public in names.items()
        for index, name in enumerate(public)
    ]
