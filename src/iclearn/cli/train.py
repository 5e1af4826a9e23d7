"""`iclearn train`: from a command line to a stored run, a text file, a picture."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from ..core.errors import IclearnError
from .parsing import parse

if TYPE_CHECKING:
    from ..core.prompt import Dataset
    from ..core.recipe import Recipe
    from ..core.trace import Trace
    from ..engines.simulate import Progress

# Flags of the public code (linattn-icl), and the field of ours that each one is.
PUBLIC_FLAGS = {
    "epoch": "steps",
    "lr": "lr",
    "seed": "seed",
    "icl": "icl",
    "trainset_size": "prompts",
    "testset_size": "test_prompts",
    "white_cov": "white_cov",
    "vary_len": "vary_len",
    "seq_len": "seq_len",
    "in_dim": "dim",
    "out_dim": "out_dim",
    "cubic_feat": "cubic_feat",
    "model": "model",
    "softmax": "softmax",
    "rank": "rank",
    "KQ_dim": "rank",
    "head_num": "heads",
    "init": "init",
    "show": "show",
    "track_value": "track_value",
}
FAMILIES = {"attnM": "merged", "attnS": "separate"}
Model = Literal[
    "attnM", "attnS", "mlp", "conv", "merged", "separate", "merged_reduced", "separate_reduced"
]  # fmt: skip


@dataclass(frozen=True)
class TrainArgs:
    """Train attention on in-context linear regression, exactly and in seconds.

    Every command line of linattn-icl works unchanged (its flags and their unambiguous prefixes are accepted:
    --head_num, --KQ_dim, --in_dim, --trainset_size, --testset_size, --epoch, ...).
    """

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
    cubic_feat: bool = False
    """Read cubic features (implied by --model mlp)."""
    raw_data: bool = False
    """Do not center x and whiten the task vectors, as the public code does."""
    dataset: Path | None = None
    """Train on the arrays of this .npz file (x, y_q, ...)."""
    weights: Path | None = None
    """Start from the weights in this .npz file."""
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
    engine: Literal["auto", "population", "moments", "samples"] = "auto"
    """How the loss is computed."""
    dtype: Literal["float64", "float32"] = "float64"
    """Precision."""
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
    no_compile_cache: bool = False
    """Keep no compiled programs on disk."""


def run(argv: Sequence[str]) -> int:
    args = parse(TrainArgs, argv, "iclearn train", PUBLIC_FLAGS)
    if args.no_compile_cache:
        os.environ["ICLEARN_COMPILE_CACHE"] = "off"
    from ..core.status import Status
    from ..store.runs import DEFAULT_ROOT, Store

    for file in (args.plot, args.export):
        if file is not None and file.is_dir():
            raise IclearnError(f"{file} is a folder; give the name of a file")
    if args.out is not None and args.out.exists() and not args.out.is_dir():
        raise IclearnError(f"--out {args.out} is a file; give a folder")
    if args.export is not None and args.export.suffix not in (".csv", ".nc", ".txt"):
        raise IclearnError(f"--export {args.export.name}: the name must end in .csv, .nc or .txt")
    if args.plot is not None and args.plot.suffix not in (".png", ".pdf", ".svg"):
        raise IclearnError(f"--plot {args.plot.name}: the name must end in .png, .pdf or .svg")
    recipe, dataset, weights = build(args)
    store = Store(args.out or DEFAULT_ROOT)
    with progress_bar(recipe.steps) as progress:
        trace = store.run(recipe, dataset=dataset, weights=weights, progress=progress, again=args.again)
    if trace.status is Status.DIVERGED:
        raise IclearnError(
            f"the run {trace.sentence} (loss {trace.final_loss:.3g} the step before); nothing was stored: "
            f"try a smaller --lr than {args.lr:g}"
        )
    for line in outputs(args, trace):
        print(line)
    seconds = trace.provenance["wall_seconds"]
    print(
        f"run {trace.run_id}: {trace.sentence}; final loss {trace.final_loss:.6f} after {len(trace.loss)} steps "
        f"({trace.provenance['engine']} engine, {seconds:.1f} s), stored in {store.path(recipe)}"
    )
    return 0


def build(args: TrainArgs) -> tuple[Recipe, Dataset | None, dict | None]:
    """The recipe a command line means, with the data and weights it brings."""
    from ..core.recipe import Init, Optimizer, Recipe, Record
    from ..models import Attention
    from ..store.npz import dataset_from, read_npz, weights_from
    from ..tasks import GivenData

    family = FAMILIES.get(args.model, args.model)
    if args.cubic_feat and args.softmax:
        raise IclearnError("cubic features have no tokens for a softmax: drop --cubic_feat or --softmax")
    if args.cubic_feat and family != "mlp":
        raise IclearnError(f"cubic features are what the mlp model reads; {args.model} reads tokens: drop --cubic_feat")
    dataset = dataset_from(read_npz(args.dataset)) if args.dataset is not None else None
    task = GivenData.of(dataset, prefixes=args.vary_len) if dataset is not None else regression_task(args)
    heads, rank, weights = args.heads or 1, args.rank or 1, None
    if args.heads is not None and args.heads < 1:
        raise IclearnError(f"--heads must be at least 1, not {args.heads}")
    if args.rank is not None and args.rank < 1:
        raise IclearnError(f"--rank must be at least 1, not {args.rank}")
    if args.weights is not None:
        found, weights = weights_from(read_npz(args.weights), task.out_dim)
        if found != family.removesuffix("_reduced"):
            raise IclearnError(f"{args.weights.name} holds weights of a {found} model, not of {args.model}")
        have = len(weights["value" if "value" in weights else "first"])
        if args.heads not in (None, have):
            raise IclearnError(f"--heads {args.heads}, but {args.weights.name} holds {have} heads")
        heads = have
        if "key" in weights:
            if args.rank not in (None, weights["key"].shape[1]):
                raise IclearnError(f"--rank {args.rank}, but {args.weights.name} has rank {weights['key'].shape[1]}")
            rank = weights["key"].shape[1]
    if family in ("merged", "merged_reduced", "mlp"):
        rank = 1  # the public code accepts --rank there and ignores it
    init = Init.given(weights) if weights else Init(args.init, args.init_scheme)
    return (
        Recipe(
            task=task,
            model=Attention(
                family,  # type: ignore[arg-type]
                num_heads=heads,
                rank=rank,
                softmax=args.softmax,
                normalize=args.normalize or ("tokens" if args.vary_len else "none"),
            ),
            init=init,
            optimizer=Optimizer(args.optimizer, args.lr, batch_size=args.batch_size),
            steps=args.steps,
            engine=args.engine,
            seed=args.seed,
            record=Record(args.steps + 1, args.steps + 1) if args.track_value else Record(),
            dtype=args.dtype,
        ),
        dataset,
        weights,
    )


def regression_task(args: TrainArgs):
    from ..tasks import Covariance, LinearRegression

    if args.prompts.lower() in ("inf", "infinity", "none"):
        prompts = None
    else:
        try:
            number = float(args.prompts)
        except ValueError:
            number = float("nan")
        if not number.is_integer():
            raise IclearnError(f"--prompts must be a whole number or inf, not {args.prompts!r}")
        prompts = int(number)
    dim = args.dim
    if sum([bool(args.eigenvalues), args.white_cov, args.covariance != "linear"]) > 1:
        raise IclearnError("give one of --white-cov, --covariance and --eigenvalues: each sets the whole spectrum")
    if args.eigenvalues:
        dim = len(args.eigenvalues)
        covariance = Covariance.eigenvalues(args.eigenvalues, rotate=True)
    elif args.white_cov:
        covariance = Covariance.white()
    else:
        needed = {"linear": 0, "power": 1, "two_level": 2, "spiked": 1}[args.covariance]
        if len(args.covariance_parameters) != needed:
            raise IclearnError(
                f"--covariance {args.covariance} takes {needed} --covariance-parameters, "
                f"not {len(args.covariance_parameters)}"
            )
        covariance = Covariance(args.covariance, tuple(args.covariance_parameters))
    if args.context is None and args.seq_len < 2:
        raise IclearnError(f"--seq-len must be at least 2 (one context token and the query), not {args.seq_len}")
    public = prompts is not None and not args.raw_data
    return LinearRegression(
        dim=dim,
        context_len=args.context if args.context is not None else args.seq_len - 1,
        out_dim=args.out_dim,
        covariance=covariance,
        prior_mean=tuple(args.prior_mean) or None,
        noise=args.noise,
        in_context=args.icl,
        num_prompts=prompts,
        test_prompts=args.test_prompts,
        prefixes=args.vary_len,
        center=public,
        whiten=public and args.icl == 1,
    )


def public_name(args: TrainArgs, trace: Trace) -> str:
    """The file name the public code would use."""
    recipe = trace.provenance["recipe"]
    task, model = recipe["task"], recipe["model"]
    prompts = task["num_prompts"] if task["num_prompts"] is not None else "inf"
    name = (
        f"{args.model}_head{model['num_heads']}_D{task['dim']}_R{model['rank']}_P{prompts}"
        f"_N{task['context_len'] + 1}_seed{recipe['seed']}"
    )
    if "test_loss" in trace.data:
        return f"{name}_icl{args.icl:g}"
    return f"{name}_value" if args.track_value else name


def outputs(args: TrainArgs, trace: Trace) -> list[str]:
    """Write what was asked for; one line for each file."""
    said = []
    if args.export is not None:
        said.append(f"curve written to {trace.export(args.export)}")
    if args.plot is not None or args.show:
        from ..report.run_figure import run_figure
        from ..report.style import figure_style, save_figure, show_figure

        with figure_style():
            figure = run_figure(trace, values=args.track_value)
            if args.plot is not None:
                said.append(f"figure written to {save_figure(figure, args.plot)}")
            if args.show:
                written = show_figure(figure, Path(f"{public_name(args, trace)}.png"))
                if written is not None:
                    said.append(f"no display here: figure written to {written}")
    if not args.show:
        path = (args.out or Path()) / f"{public_name(args, trace)}.txt"
        if args.track_value and "test_loss" not in trace.data:
            write_values(trace, path)
        else:
            trace.export(path)
        said.append(f"loss written to {path}")
    return said


def write_values(trace: Trace, path: Path) -> None:
    """The public code's --track_value file: the loss, then the value weight of every head, a line a step."""
    import numpy as np

    data = trace.data
    if "weight_value" in data:
        value = data["weight_value"].values.reshape(data.sizes["record"], data.sizes["head"], -1)[:, :, -1]
    else:
        value = data["weight_second"].values[:, 0]
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    try:
        np.savetxt(temporary, np.column_stack([data["loss"].values, value[: data.sizes["step"]]]))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class progress_bar:
    """A rich progress bar on a terminal, nothing elsewhere."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __enter__(self) -> Progress | None:
        self.bar = None
        if not sys.stderr.isatty():
            return None
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = ("training", BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]}"))
        self.bar = Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True)
        self.bar.start()
        task = self.bar.add_task("training", total=self.steps, loss="…")
        bar = self.bar

        def report(step: int, steps: int, loss: float) -> None:
            bar.update(task, completed=step, total=steps, loss=f"{loss:.5f}")

        return report

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()
