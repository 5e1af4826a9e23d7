"""The Closeness of In-Context Learning and Weight Shifting for Softmax Regression (Li, Song, Xia, Yu, Zhou; 2024)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..base import Paper
from . import fig1, fig2, fig_bounds, fig_layers, fig_limits, fig_n, fig_scale, fig_steps
from .setup import NAMES, STEPS


def headline(verdicts: Sequence[Mapping[str, Any]]) -> str:
    """Which layers end at the loss of one gradient step, from the verdicts of figure 1; nothing without all of them."""
    answers = {"reproduced": "yes", "contradicted": "no", "unfinished": f"not after {STEPS} steps"}
    found = {v["claim"]: answers.get(v["verdict"], v["verdict"]) for v in verdicts if v["figure"] == "fig1"}
    layers: dict[str, list[str]] = {}
    for layer in NAMES:
        if (answer := found.get(f"similar_loss_{layer}")) is None:
            return ""
        layers.setdefault(answer, []).append(layer)
    said = ", ".join(f"{' and '.join(names)} {answer}" for answer, names in layers.items())
    return f"Closeness {'depends on the layer' if len(layers) > 1 else 'is the same for every layer'}: {said}."


PAPER = Paper(
    id="li2024",
    title="The Closeness of In-Context Learning and Weight Shifting for Softmax Regression",
    citation="Li, Song, Xia, Yu, Zhou. NeurIPS 2024, arXiv 2304.13276.",
    figures=tuple(
        module.FIGURE for module in (fig1, fig2, fig_n, fig_scale, fig_bounds, fig_layers, fig_limits, fig_steps)
    ),
    seeds=10,
    unit="repetitions",
    headline=headline,
    notes=(
        "No code was published, and the paper does not give its layer or its sampling: the design here is this project's, and verdicts are "
        "per layer (A: log labels, B: query attends, C: raw labels) and per regime (words n, logit scale s). Claims on all "
        "three layers are therefore about the design, also on layer A, which contains the gradient step. "
        "None of the three layers has an end of training: attention gets weaker and values larger, towards a linear read-out of the labels. "
        "For B and C that limit is the gradient step itself; for A it is a regression on log b, better than the gradient step. So after 1000 steps layer A is near the gradient step "
        "on its way past it, layers B and C are not there yet, and closeness is a matter of the layer, the logit scale and the length of training. "
        "The paper's theorems bound each shift alone, of weights or of data; they do not bound the distance between the "
        "trained layer and gradient descent, and their constant is 69 orders of magnitude above any shift. That distance is measured here, never derived."
    ),
)
