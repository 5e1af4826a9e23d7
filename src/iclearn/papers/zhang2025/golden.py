"""Golden files ``merged*``, ``separate*``, ``mlp*``: trainings by the public code of zhang2025, computed again."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...core.errors import IclearnError
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...engines.simulate import simulate
from ...models.attention import Attention
from ...store.linattn import FAMILIES
from ...store.npz import dataset_from, weights_from
from ...tasks.given import GivenData
from ...tasks.regression import IN_CONTEXT, IN_WEIGHT
from ..verifying import Quantity, Recomputed, settings_of, sizes

_READ = (
    "lr", "vary_len", "softmax", "rank", "head_num", "in_dim", "out_dim", "trainset_size", "seq_len", "model",
    "cubic_feat",
)  # fmt: skip


def recompute(arrays: Mapping[str, np.ndarray]) -> Recomputed:
    """Every quantity of a golden file of linattn-icl from its prompts, initial weights and settings.

    Args:
        arrays: of the file.

    Returns:
        The loss at every step, and the test losses where there are test sets.
    """
    settings, steps = settings_of(arrays), len(arrays["loss"])
    dataset = dataset_from({name: arrays[name] for name in arrays if name.startswith(("x", "y_"))})
    family, weights = weights_from(arrays)
    if FAMILIES.get(settings["model"], settings["model"]) != family:
        raise IclearnError(f"args says model {settings['model']!r}, and the weights are those of a {family} model")
    prefixes = bool(settings["vary_len"])
    task = GivenData.of(dataset, prefixes=prefixes)
    model = Attention(
        family,  # type: ignore[arg-type]
        num_heads=len(weights["value" if "value" in weights else "first"]),
        rank=weights["key"].shape[1] if "key" in weights else 1,
        softmax=settings["softmax"],
        normalize="tokens" if prefixes else "none",
    )
    recipe = Recipe(
        task=task, model=model, init=Init(scheme="given"), optimizer=Optimizer(lr=settings["lr"]), steps=steps,
        record=Record(2, 2),
    )  # fmt: skip
    trace = simulate(recipe, dataset=dataset, weights=weights)
    told = {"head_num": model.num_heads, "in_dim": task.dim, "out_dim": task.out_dim}
    told |= {"trainset_size": len(arrays["x"]), "cubic_feat": int(arrays["x"].ndim == 2)}
    told |= {"seq_len": arrays["x"].shape[1]} if arrays["x"].ndim == 3 else {}
    told |= {"rank": model.rank} if family == "separate" else {}
    quantities = [*sizes(settings, told), Quantity("loss", arrays["loss"], trace.loss.values, "path")]
    if "test_loss" in arrays:
        ours = trace.data["test_loss"].sel(test_set=[IN_WEIGHT, IN_CONTEXT]).values
        quantities.append(Quantity("test_loss", arrays["test_loss"], ours, "path"))
    given = tuple(name for name in arrays if name.startswith(("x", "y_", "weights_")))
    unchecked = tuple(f"args.{name}" for name in settings if name not in _READ)
    return Recomputed(tuple(quantities), (*given, "args"), unchecked)
