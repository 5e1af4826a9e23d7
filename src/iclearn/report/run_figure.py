"""The picture of one stored run: its loss, the theory's levels, test losses, and values of the heads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..core.trace import Trace
from ..theory.base import Levels, predict, theory_of
from .style import figure_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TEST_LABELS = {"in_weight": ("test, in weight", "--"), "in_context": ("test, in context", "-.")}


def theory_levels(trace: Trace) -> Levels | None:
    """The levels of the theory that covers the run, where one does."""
    theory = theory_of(trace.recipe)
    return None if theory is None else theory.levels(trace.recipe)


def run_figure(trace: Trace, *, theory: bool = False, values: bool = False) -> Figure:
    """Loss against step with dotted theory levels, in the style of all figures.

    Args:
        trace: the run.
        theory: lay the loss that the theory predicts for this very run over it.
        values: a second panel of the heads' value weights.
    """
    import matplotlib.pyplot as plt

    with figure_style():
        figure, axes = plt.subplots(1 + values, 1, figsize=(6, 4 + 2.4 * values), sharex=True, squeeze=False)
        _draw_loss(axes[0, 0], trace, theory)
        if values:
            _draw_values(axes[1, 0], trace)
        axes[-1, 0].set_xlabel("step")
    return figure


def run_svg(trace: Trace) -> str:
    """The picture of a run as SVG text, for notebooks."""
    import io

    import matplotlib.pyplot as plt

    figure, text = run_figure(trace), io.StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    return text.getvalue()[text.getvalue().index("<svg") :]  # without the declarations of an XML file


def _draw_loss(loss_axes: Axes, trace: Trace, theory: bool) -> None:
    if (levels := theory_levels(trace)) is not None:
        style: Any = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 9, "color": "0.35"}
        for index in levels.visited:
            loss_axes.axhline(float(levels.heights[index]), color="0.55", ls=":", lw=1.2, zorder=0)
            loss_axes.annotate(levels.names[index], (1.01, float(levels.heights[index])), **style)
    steps = trace.values("step")
    loss_axes.plot(steps, trace.values("loss"), color="black", label="training loss")
    tests = trace.values("test_set") if trace.has("test_loss") else ()
    for name, losses in zip(tests, trace.values("test_loss").T if len(tests) else (), strict=True):
        label, style = _TEST_LABELS.get(str(name), (str(name), "--"))
        loss_axes.plot(steps, losses, ls=style, label=label)
    if theory:
        expected = predict(trace)
        loss_axes.plot(expected["step"], expected["loss"], color="#D55E00", ls="--", label="theory")
    if theory or len(tests):
        loss_axes.legend()
    loss_axes.set(ylabel="loss", xlim=(0, max(1, len(steps) - 1)), ylim=(0, None))


def _draw_values(axes: Axes, trace: Trace) -> None:
    for name, place in (("weight_value", -1), ("weight_second", 0)):
        if trace.has(name):
            value, dims = trace.values(name), trace.axes(name)
            value = value[tuple(place if axis in ("output", "entry", "label") else slice(None) for axis in dims)]
            for head in range(value.shape[1]):
                axes.plot(trace.values("record"), value[:, head], lw=1.4, label=f"head {head}")
    axes.set_ylabel("value weight")
    axes.legend(ncols=5, fontsize=8, loc="lower left", bbox_to_anchor=(0, 1))
