"""The picture of one stored run: its loss, the theory's levels, test losses, and values of the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..core.trace import Trace
from ..store.runs import recipe_of
from ..tasks.regression import LinearRegression
from ..theory.zhang2025.saddles import saddle_losses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEST_LABELS = {"in_weight": ("test, in weight", "--"), "in_context": ("test, in context", "-.")}


def theory_levels(trace: Trace) -> np.ndarray | None:
    """L(M_m), m = 0..D (zhang2025, eq. 19), where the run's task is one the formula covers."""
    recipe = recipe_of(trace)
    task, model = recipe.task, recipe.model
    if not isinstance(task, LinearRegression) or getattr(model, "softmax", False):
        return None
    plain = task.in_context == 1 and task.noise == 0 and task.prior_mean is None and task.prior_covariance is None
    if not plain or task.prefixes:
        return None
    return np.asarray(saddle_losses(task.covariance.values(task.dim), task.context_len))


def run_figure(trace: Trace, *, values: bool = False) -> Figure:
    """Loss against step with dotted theory levels; with `values` a second panel of the heads' value weights."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1 + values, 1, figsize=(6, 4 + 2.4 * values), sharex=True, squeeze=False)
    loss_axes: Axes = axes[0, 0]
    data = trace.data
    levels = theory_levels(trace)
    if levels is not None:
        family = recipe_of(trace).model.to_dict()["family"]
        merged = family in ("merged", "merged_reduced", "mlp")
        shown = levels[[0, -1]] if merged else levels
        names = (
            (r"$L(M_0)$", rf"$L(M_{{{len(levels) - 1}}})$")
            if merged
            else [rf"$L(M_{{{m}}})$" for m in range(len(levels))]
        )
        for level, name in zip(shown, names, strict=True):
            loss_axes.axhline(level, color="0.55", ls=":", lw=1.2, zorder=0)
            loss_axes.annotate(
                name, (1.01, level), xycoords=("axes fraction", "data"), va="center", fontsize=9, color="0.35"
            )
    loss_axes.plot(data["step"], data["loss"], color="black", label="training loss")
    if "test_loss" in data:
        for name in data["test_set"].values:
            label, style = _TEST_LABELS.get(str(name), (str(name), "--"))
            loss_axes.plot(data["step"], data["test_loss"].sel(test_set=name), ls=style, label=label)
        loss_axes.legend()
    loss_axes.set(ylabel="loss", xlim=(0, max(1, len(data["step"]) - 1)), ylim=(0, None))
    if values:
        _draw_values(axes[1, 0], trace)
    axes[-1, 0].set_xlabel("step")
    return figure


def _draw_values(axes: Axes, trace: Trace) -> None:
    data = trace.data
    if "weight_value" in data:
        value = data["weight_value"]
        for axis in ("output", "entry", "label"):
            if axis in value.dims:
                value = value.isel({axis: -1})
        for head in value["head"].values:
            axes.plot(data["record"], value.sel(head=head), lw=1.4, label=f"head {head}")
    elif "weight_second" in data:
        for head in data["head"].values:
            axes.plot(
                data["record"],
                data["weight_second"].isel(output=0).sel(head=head),
                lw=1.4,
                label=f"head {head}",
            )
    axes.set_ylabel("value weight")
    axes.legend(ncols=5, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
