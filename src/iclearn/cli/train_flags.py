"""The flags of `iclearn train`: those of the public code linattn-icl under their names, and our own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro

# Flags of the public code (linattn-icl), and the field of ours that each one is.
_SAME = (
    "lr", "seed", "icl", "white_cov", "vary_len", "seq_len", "out_dim", "cubic_feat", "model", "softmax", "rank",
    "init", "show", "track_value",
)  # fmt: skip
PUBLIC_FLAGS = {name: name for name in _SAME} | {
    "epoch": "steps", "trainset_size": "prompts", "testset_size": "test_prompts", "in_dim": "dim", "KQ_dim": "rank",
    "head_num": "heads",
}  # fmt: skip
Model = Literal["attnM", "attnS", "mlp", "conv", "merged", "separate", "merged_reduced", "separate_reduced"]


@dataclass(frozen=True)
class ModelFlags:
    """The model and its initial weights."""

    model: Model = "attnM"
    """attnM/merged and attnS/separate are full attention; *_reduced leave out the zero blocks; mlp and conv are the
    equivalent linear networks on cubic features."""
    heads: int | None = None
    """Number of heads (public: --head_num). Default 1, or what --weights has."""
    rank: int | None = None
    """Rank of separate key-query weights (public: --KQ_dim). Default 1, or what --weights has."""
    init: float = 0.01
    """Scale of the initial weights."""
    init_scheme: Literal["per_head", "entries", "stacked"] = "per_head"
    """Scaling of the initial weights of attnS. per_head: what the README's commands mean; entries: every entry of scale
    init, as when the published Figure 3 was made; stacked: the newest public code."""
    softmax: bool = False
    """Softmax attention instead of linear."""
    normalize: Literal["none", "context", "tokens"] | None = None
    """Divide the sum over tokens by nothing (public code), by N (the paper), or by N+1 (public code with --vary_len).
    Default: what the public code does."""
    cubic_feat: bool = False
    """Read cubic features (implied by --model mlp)."""
    weights: Path | None = None
    """Start from the weights in this .npz file: weights_kq and weights_value (H, D+1, D+1), or weights_key and
    weights_query (H, R, D+1) and weights_value, or as a Trace stores them."""


@dataclass(frozen=True)
class DataFlags:
    """The prompts."""

    dim: int = 4
    """Dimension D of x (public: --in_dim)."""
    out_dim: int = 1
    """Number of outputs."""
    seq_len: int = 32
    """Tokens in a prompt, the query included: N + 1."""
    context: int | None = None
    """Context pairs N; overrides --seq-len."""
    prompts: Annotated[str, tyro.conf.arg(metavar="P|inf")] = "5000"
    """Prompts in the training set (public: --trainset_size); inf: infinitely many, integrated exactly."""
    test_prompts: int = 0
    """Prompts in each of the two test sets (public: --testset_size)."""
    icl: float = 1.0
    """Fraction of prompts with their own task vector; the others share one."""
    white_cov: bool = False
    """White covariance I/D."""
    covariance: Literal["linear", "power", "two_level", "spiked"] = "linear"
    """Shape of the spectrum of x."""
    covariance_parameters: tuple[float, ...] = ()
    """power: exponent; two_level: number of large ones, ratio; spiked: spike."""
    eigenvalues: tuple[float, ...] = ()
    """Explicit eigenvalues of the covariance of x; they set --dim."""
    prior_mean: tuple[float, ...] = ()
    """Mean of the task vectors."""
    noise: float = 0.0
    """Variance of the noise on context labels."""
    vary_len: bool = False
    """Average the loss over all prefixes of the prompt."""
    raw_data: bool = False
    """Do not center x and whiten the task vectors, as the public code does."""
    dataset: Path | None = None
    """Train on the arrays of this .npz file: x (P, N+1, D+1), the tokens [x; y] with the query last, and y_q (P,), the
    targets; test sets x_iwl, y_q_iwl, x_icl, y_q_icl."""


@dataclass(frozen=True)
class TrainingFlags:
    """How it is trained."""

    optimizer: Literal["gd", "sgd", "momentum", "adam", "adamw", "flow"] = "gd"
    """gd: full-batch gradient descent; flow: gradient flow."""
    lr: float = 1e-3
    """Learning rate."""
    batch_size: int | None = None
    """Prompts per step, for sgd, momentum, adam, adamw."""
    steps: int = 6001
    """Number of steps (public: --epoch)."""
    seed: int = 10
    """Root of every random number."""
    engine: Literal["auto", "population", "moments", "samples", "gram"] = "auto"
    """How the loss is computed."""
    dtype: Literal["float64", "float32"] = "float64"
    """Precision."""


@dataclass(frozen=True)
class RecipeFlags:
    """A run from a file, instead of the flags above."""

    recipe: Path | None = None
    """Train the recipe in this YAML or JSON file instead of what the flags describe."""
    set: tuple[str, ...] = ()
    """With --recipe: fields to change, e.g. optimizer.lr=0.1 seed=3."""


@dataclass(frozen=True)
class OutputFlags:
    """What is kept, drawn and printed."""

    out: Path | None = None
    """Folder of stored runs. Default: runs."""
    plot: Path | None = None
    """Draw the run into this file (.png, .pdf, .svg)."""
    export: Path | None = None
    """Also write the curve to this .csv, .nc or .txt file."""
    show: bool = False
    """Open a window with the loss; without a display, write the picture and say where."""
    track_value: bool = False
    """Record the value weight of every head at every step, and draw or write them too."""
    again: bool = False
    """Run even if this very recipe is stored already."""
    no_text: bool = False
    """Do not write the text file of losses that linattn-icl writes. Without this flag, a command line with its names of
    flags (--head_num, --epoch, ...) writes it into --out or the current folder, unless --show is given."""
    quiet: bool = False
    """Print nothing but errors."""
    json: bool = False
    """Print the outcome as JSON."""
    no_compile_cache: bool = False
    """Keep no compiled programs on disk."""


@dataclass(frozen=True)
class TrainArgs(OutputFlags, RecipeFlags, TrainingFlags, DataFlags, ModelFlags):
    """Train attention on in-context linear regression, exactly and in seconds.

    Every command line of linattn-icl works unchanged (its flags and their unambiguous prefixes are accepted:
    --head_num, --KQ_dim, --in_dim, --trainset_size, --testset_size, --epoch, ...). A recipe of any task and model
    is trained with --recipe. For example:

    iclearn train --model attnM --head 8 --init 1e-6 --show

    iclearn train --model attnS --heads 5 --prompts inf --init 1e-2 --steps 20001 --lr 0.02 --plot staircase.png

    iclearn train --recipe examples/recipe.yaml --set seed=3 optimizer.lr=0.01
    """


def of_public_code(argv: Sequence[str]) -> bool:
    """Whether a command line has a flag under a name, or a prefix of one, that only linattn-icl gives it.

    >>> of_public_code(["--head", "5", "--lr=0.02"]), of_public_code(["--heads", "5", "--lr=0.02"])
    (True, False)
    """
    own = {field.name for field in fields(TrainArgs)}
    theirs = [alias.lower() for alias, field in PUBLIC_FLAGS.items() if alias != field]
    words = {word[2:].partition("=")[0].replace("-", "_").lower() for word in argv if word.startswith("--")}
    return any(alias.startswith(word) for word in words - own - {""} for alias in theirs)
