"""vladymyrov2024: Linear Transformers are Versatile In-Context Learners."""

from ..base import Paper
from . import noise_levels
from .setup import Options

PAPER = Paper(
    id="vladymyrov2024",
    title="Linear Transformers are Versatile In-Context Learners",
    citation="Vladymyrov, von Oswald, Sandler, Ge. NeurIPS 2024, arXiv 2402.14180.",
    figures=(noise_levels.FIGURE,),
    options=Options,
    seeds=8,  # so that one run that diverges does not decide: seven of eight show more than half
    notes=(
        "Learning rates, steps and start of the paper's runs are unknown to us; ours are in the set-up and the register of choices. "
        "That GD++ does not adapt to the noise is a theorem here: a model that is linear in the labels sees the law of the noise only through its mean square. "
        "Of the paper only its abstract was read: what is attributed to it is second-hand."
    ),
)
