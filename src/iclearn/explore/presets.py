"""Settings worth looking at, each with a name, a sentence and the figure it belongs to."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .settings import Setting

_EIGHT = tuple(d / 36 for d in range(8, 0, -1))  # λ ∝ d with trace 1, D = 8


@dataclass(frozen=True)
class Preset:
    """A setting with a name of its own, under which the page has an address.

    Args:
        name: in the address, ``#preset=name``.
        title: in the list.
        about: one sentence, what to look at.
        paper, figure: what it is of; an empty figure for what is ours.
        setting: the numbers.
        log: whether time is drawn logarithmically at first.
    """

    name: str
    title: str
    about: str
    setting: Setting
    paper: str = "zhang2025"
    figure: str = ""
    log: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the page."""
        return asdict(self)


def _merged(**changes: Any) -> Setting:
    return Setting(
        **{"family": "merged", "heads": 8, "init": 1e-6, "scheme": "per_head", "lr": 1e-3, "steps": 6001, **changes}
    )


def _documents(**changes: Any) -> Setting:
    """The experiment of li2024: 64 fresh documents a step, Adam."""
    usual = {"kind": "documents", "context": 50, "init": 0.02, "lr": 0.005, "steps": 1000, "rule": "adam", "batch": 64}
    return Setting(**{**usual, **changes})


def _lsa(**changes: Any) -> Setting:
    """White inputs and a prior mean, as in xie2025, with D = 8, the explorer's most."""
    usual = {"eigenvalues": (1.0,) * 8, "context": 10, "init": 0.1, "scheme": "per_head", "prior": 3.0}
    return Setting(**{**usual, "kind": "yq-lsa", "heads": 1, "lr": 5e-3, "steps": 2001, "rule": "adam", **changes})


def _ranked(rank: int, **changes: Any) -> Setting:
    return Setting(**{"eigenvalues": _EIGHT, "heads": 9, "rank": rank, "init": 5e-3, "steps": 20_001, **changes})


PRESETS: tuple[Preset, ...] = (
    Preset("fig3", "Figure 3: saddle to saddle", "Separate heads learn one eigenvector after the other: four plateaus, four drops.", Setting(), figure="fig3a"),
    Preset("fig1", "Figure 1: one abrupt drop", "Merged attention stays near zero for long, then learns everything at once.", _merged(), figure="fig1"),
    Preset("fig1b", "Figure 1, white inputs", "With equal eigenvalues the drop of merged attention has a closed form, equation (10).", _merged(eigenvalues=(0.25,) * 4, steps=3001), figure="fig1b"),
    Preset("fig3b", "Figure 3b: value weights", "Each head's value weight follows the scalar equation (21), here from smaller keys and queries.", Setting(scheme="per_head", steps=40_001), figure="fig3b", log=True),
    Preset("fig3c", "Figure 3c: one head, one eigenvector", "From weights so small that heads hardly disturb each other: look at keys and queries.", Setting(init=3e-3, steps=40_001), figure="fig3c", log=True),
    Preset("fig3d", "Figure 3d: principal components in context", "On the plateau L(M_m) the model computes principal component regression with m components.", Setting(steps=20_001), figure="fig3d"),
    Preset("fig4r1", "Figure 4: rank 1", "D = 8, nine heads of rank 1: every eigenvector needs a new head.", _ranked(1), figure="fig4", log=True),
    Preset("fig4r2", "Figure 4: rank 2", "A head of rank 2 learns a second eigenvector soon after its first: every other plateau is brief.", _ranked(2), figure="fig4", log=True),
    Preset("fig4r4", "Figure 4: rank 4", "Rank 4: long plateaus only where a new head must grow, at m = 0 and 4.", _ranked(4), figure="fig4", log=True),
    Preset("fig4r8", "Figure 4: rank 8", "Full rank: one head can learn everything, and the staircase is nearly gone.", _ranked(8), figure="fig4", log=True),
    Preset("fig5", "Figure 5: softmax attention", "Trained by Python: softmax attention on 500 prompts, plateaus as in linear attention.", Setting(init=0.015, scheme="per_head", lr=0.2, steps=3001, kind="softmax", prompts=500), figure="fig5"),
    Preset("fig6", "Figure 6: large initial weights", "From large weights there are no plateaus: nothing has to escape from zero.", Setting(init=0.5, lr=0.005, steps=2001), figure="fig6"),
    Preset("fig7", "Too few heads", "Two heads of rank 1 for four eigenvectors: training ends at L(M_2).", Setting(heads=2, init=2e-2, scheme="per_head", steps=40_001), figure="fig7", log=True),
    Preset("fig8", "How long a plateau lasts", "One head, one eigenvector: move λ or the initial scale, the wait goes as 1/(λ² v₀).", Setting(eigenvalues=(0.5,), heads=1, normalize="context", init=0.02, lr=0.05, steps=4001), figure="fig8"),
    Preset("fig11", "Figure 11: a new pair or a new head", "Rank 2 with infinitely many prompts, followed for longer.", _ranked(2, scheme="per_head", steps=60_001), figure="fig11", log=True),
    Preset("fig12", "Figure 12: rank 3", "Long plateaus at m = 0, 3, 6.", _ranked(3), figure="fig12", log=True),
    Preset("fig13", "All prefixes", "Trained by Python: the loss is averaged over all prefixes of a prompt.", _merged(lr=0.1, steps=2501, normalize="tokens", prefixes=True), figure="fig13"),
    Preset("stacked", "The newest public initialization", "Keys, queries and values divided by the root of their size over all heads: ten times slower.", _ranked(4, scheme="stacked", steps=45_001), figure="stacked", log=True),
    Preset("landscape", "2^D fixed points", "D = 3 from tiny weights: of eight fixed points the path visits four.", Setting(eigenvalues=(0.5, 0.3, 0.2), heads=4, init=1e-3, steps=100_001), figure="landscape", log=True),
    Preset("plane", "Two inputs: drag the prompt", "D = 2, where the prompt can be drawn in the plane.", Setting(eigenvalues=(0.7, 0.3), heads=3, init=0.02, steps=4001), figure=""),
    Preset("xie-heads", "Xie et al.: heads without a guess", "Trained by Python: without an initial guess, no number of heads reaches the gradient step from the prior mean.", _lsa(kind="lsa", heads=9), paper="xie2025", figure="fig_heads"),
    Preset("xie-prior", "Xie et al.: a trainable guess", "Trained by Python: with a trainable guess, one head learns the prior mean.", _lsa(), paper="xie2025", figure="fig_prior_mean"),
    Preset("xie-training", "Xie et al.: training on fresh prompts", "Trained by Python: Adam on 512 fresh prompts a step, as in the paper but for the size of the batch.", _lsa(batch=512, lr=2e-3, steps=3001), paper="xie2025", figure="fig_training"),
    Preset("xie-dynamics", "Xie et al.: guess first, then the step", "Trained by Python: gradient flow from small weights. The guess relaxes at once; the head waits on its plateau.", _lsa(prior=0.5, init=1e-3, rule="flow", lr=24 / 5120, steps=2560), paper="xie2025", figure="fig_dynamics"),
    Preset("xie-floor", "Xie et al.: Adam's noise floor", "Trained by Python: with a constant learning rate Adam comes to rest above the optimum; a smaller one rests lower.", _lsa(prior=1.0, batch=64, lr=5e-3, steps=3001), paper="xie2025", figure="fig_floor"),
    Preset("li-fig1", "Li et al., Figure 1: layer A", "Trained by Python: a softmax layer on documents of 200 words comes close to one step of gradient descent.", _documents(context=200), paper="li2024", figure="fig1"),
    Preset("li-fig2", "Li et al., Figure 2: d = 60", "Trained by Python: more dimensions than words; the layer and the gradient step stay close. Move d.", _documents(embedding=60), paper="li2024", figure="fig2"),
    Preset("li-layer-b", "Li et al.: layer B, every query attends", "Trained by Python: the usual form of an in-context layer stays further from the gradient step.", _documents(layer="B-query-attends", lr=0.001), paper="li2024", figure="fig_layers"),
    Preset("li-layer-c", "Li et al.: layer C, raw labels", "Trained by Python: with raw labels no weights make the layer a gradient step.", _documents(layer="C-raw-labels", logits=1.0), paper="li2024", figure="fig_layers"),
    Preset("li-n", "Li et al.: 25 words", "Trained by Python: few words. Move n: the losses of layer and gradient step fall together.", _documents(context=25), paper="li2024", figure="fig_n"),
    Preset("li-scale", "Li et al.: a large logit scale", "Trained by Python: where probabilities are far from uniform, closeness ends. Move s.", _documents(logits=2.0), paper="li2024", figure="fig_scale"),
    Preset("li-steps", "Li et al.: two stacked units", "Trained by Python: two units reach a lower loss than one gradient step.", _documents(context=25, layer="stack-of-2"), paper="li2024", figure="fig_steps"),
    Preset("li-limits", "Li et al.: sixteen times as long", "Trained by Python: layer A on 25 words, followed to where training leads.", _documents(context=25, steps=16_000), paper="li2024", figure="fig_limits"),
)  # fmt: skip


def presets_of(paper: str, figure: str) -> tuple[Preset, ...]:
    """The presets that belong to a figure.

    >>> [preset.name for preset in presets_of("zhang2025", "fig1")]
    ['fig1']
    """
    return tuple(preset for preset in PRESETS if (preset.paper, preset.figure) == (paper, figure))
