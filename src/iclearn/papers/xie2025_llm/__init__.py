"""Initial guesses for language models: section 5.3 of xie2025, measured on a real model and the real STS-Benchmark."""

from ...llm.experiment import Options
from ..base import Paper
from . import fig_conditions, fig_copy, fig_shots

PAPER = Paper(
    id="xie2025-llm",
    title="Language models given an initial guess (xie2025, section 5.3)",
    citation="Xie, Yuan, Rossi, Hannagan. TMLR 2025, arXiv 2512.04268. STS-Benchmark: Cer, Diab, Agirre, Lopez-Gazpio, Specia, SemEval-2017.",
    figures=(fig_conditions.FIGURE, fig_copy.FIGURE, fig_shots.FIGURE),
    seeds=1,  # each seed draws other shots, noise and batches, and asks the language model everything again
    options=Options,
    notes=(
        "The paper's prompt, guess model and metric are not published; ours are stated in the set-up. The paper used "
        "Llama-3.1-8B-Instruct and Qwen2.5-7B-Instruct: verdicts here are about the model named in each figure, not about those. "
        "A good guess that is partly copied improves on no guess trivially, so the guess alone stands beside everything. "
        "The static embeddings behind the default guess model may have seen STS-like data."
    ),
)
