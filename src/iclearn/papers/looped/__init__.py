"""looped: looped transformers for in-context linear regression (Yang et al. 2024, Gatmiry et al. 2024)."""

from ..base import Paper
from . import fig_tied

PAPER = Paper(
    id="looped",
    title="Looped transformers: one layer run many times",
    citation=(
        "Yang, Lee, Nowak, Papailiopoulos. ICLR 2024, arXiv 2311.12424. "
        "Gatmiry, Saunshi, Reddi, Jegelka, Kumar. ICML 2024, arXiv 2410.08292."
    ),
    figures=(fig_tied.FIGURE,),
    notes=(
        "Everything here is about one layer of linear attention that is looped; the GPT-2 experiments of Yang et al. are not run. "
        "Among multiples of Σ⁻¹ the best looped step is a*Σ⁻¹ with a* below 1, falling with the number of loops; among all matrices, at long contexts, one with an antisymmetric part of order 1/√N is better. A looped layer is made for its number of loops: "
        "of gradient descent run on, the mean loss explodes while the median falls; of GD++ run on, the loss falls only as a power of the loops. "
        "Of both papers only the abstracts and public code were read: what is attributed to them is second-hand."
    ),
)
