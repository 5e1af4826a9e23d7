"""Initial guesses for language models (xie2025, section 5.3). The optional extra ``iclearn[llm]``.

Nothing here is imported by the rest of the package until `iclearn reproduce xie2025-llm` or `iclearn llm` runs, and
torch, transformers and their companions only when a model is loaded or a guess model trained.
"""

from .catalog import CATALOG, fetch, model_files
from .conditions import CONDITIONS, Condition, Guesser, condition
from .experiment import Experiment
from .guess import Head, SentenceEncoder, StaticEmbeddings, pair_features, train_head
from .load import load_model
from .metrics import Interval, bootstrap, combination, copy_rate, mse, partial, pearson, slope, spearman
from .prompts import WORDINGS, Shot, Wording, build_prompt
from .replies import LanguageModel, Reply, ReplyCache, ask, parse_score
from .server import ServerModel
from .stsb import Pair, Split, load_split

__all__ = [
    "CATALOG", "CONDITIONS", "WORDINGS", "Condition", "Experiment", "Guesser", "Head", "Interval", "LanguageModel",
    "Pair", "Reply", "ReplyCache", "SentenceEncoder", "ServerModel", "Shot", "Split", "StaticEmbeddings", "Wording",
    "ask", "bootstrap", "build_prompt", "combination", "condition", "copy_rate", "fetch", "load_model", "load_split",
    "model_files", "mse", "pair_features", "parse_score", "partial", "pearson", "slope", "spearman", "train_head",
]  # fmt: skip
