"""Initial guesses for language models: section 5.3 of xie2025, measured on real models and the real STS-Benchmark."""

from ..base import Paper
from . import fig_help, fig_prompts, fig_quality
from .setup import Options

PAPER = Paper(
    id="xie2025-llm",
    title="Language models given an initial guess (xie2025, section 5.3)",
    citation="Xie, Yuan, Rossi, Hannagan. TMLR 2025, arXiv 2512.04268. STS-Benchmark: Cer, Diab, Agirre, Lopez-Gazpio, Specia, SemEval-2017.",
    figures=(fig_help.FIGURE, fig_quality.FIGURE, fig_prompts.SHOTS, fig_prompts.WORDED),
    seeds=1,  # each seed draws other examples, noise and batches, and asks the language models everything again
    unit="draws",
    options=Options,
    notes=(
        "The paper's prompt, guess model and metric are not published; ours are stated in the set-up. The paper used "
        "Llama-3.1-8B-Instruct and Qwen2.5-7B-Instruct; a verdict here is about the models that the figures name, and "
        "only those with unaided skill decide it. A good guess that is partly copied improves on no guess trivially, so "
        "the guess alone and the best combination of guess and unaided answer stand beside everything. Claims and "
        "tolerances were fixed with answers to development pairs in view, before any model was asked about a test pair. "
        "STS-Benchmark is public: language models and sentence vectors may have been trained on it, which can flatter "
        "the unaided model, the guess and the combination, and does not touch the comparison of answers with and without "
        "a guess on the same pairs."
    ),
)
