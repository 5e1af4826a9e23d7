"""Initial guesses for language models (xie2025, section 5.3). The optional extra ``iclearn[llm]``.

Nothing here is imported by the rest of the package until `iclearn reproduce xie2025-llm` runs, and torch, transformers
and their companions only when a model is loaded or a guess model trained.
"""

from .conditions import CONDITIONS, Condition, Guesser, condition
from .experiment import Experiment, Options
from .guess import Head, StaticEmbeddings, pair_features, train_head
from .load import load_model
from .metrics import Interval, bootstrap, copy_rate, mse, partial, pearson, slope, spearman
from .prompts import Shot, build_prompt
from .replies import LanguageModel, Reply, ReplyCache, ask, parse_score
from .server import ServerModel
from .stsb import Pair, Split, load_split

__all__ = [
    "CONDITIONS", "Condition", "Experiment", "Guesser", "Head", "Interval", "LanguageModel", "Options", "Pair", "Reply",
    "ReplyCache", "ServerModel", "Shot", "Split", "StaticEmbeddings", "ask", "bootstrap", "build_prompt", "condition",
    "copy_rate", "load_model", "load_split", "mse", "pair_features", "parse_score", "partial", "pearson", "slope",
    "spearman", "train_head",
]  # fmt: skip
