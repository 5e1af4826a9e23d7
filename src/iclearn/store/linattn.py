"""The public code of zhang2025, linattn-icl: its command line turned into recipes, and the files it writes.

Every command line of its README means here what it meant there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..core.atomic import new_file
from ..core.dataset import Dataset
from ..core.errors import IclearnError
from ..core.recipe import Init, Optimizer, Recipe, Record
from ..core.trace import Trace
from ..models.attention import Attention
from ..tasks.covariance import Covariance
from ..tasks.given import GivenData
from ..tasks.regression import LinearRegression
from .npz import dataset_from, read_npz, weights_from

FAMILIES = {"attnM": "merged", "attnS": "separate"}


# Flags that describe drawn prompts, which a file of prompts replaces; and drawn weights, which a file of weights does.
OF_DRAWN_PROMPTS = (
    "prompts", "test_prompts", "dim", "out_dim", "seq_len", "context", "icl", "white_cov", "covariance",
    "covariance_parameters", "eigenvalues", "prior_mean", "noise", "raw_data",
)  # fmt: skip
OF_DRAWN_WEIGHTS = ("init", "init_scheme")


def _refuse_beside(args: Any, flag: str, others: tuple[str, ...], what: str) -> None:
    """Refuse flags that would say nothing because a file says it."""
    usual = type(args)()
    for name in others:
        if getattr(args, name) != getattr(usual, name):
            raise IclearnError(f"--{flag} brings {what}: drop --{name.replace('_', '-')}")


def recipe_of_flags(args: Any) -> tuple[Recipe, Dataset | None, dict | None]:
    """The recipe a command line means, with the data and weights it brings.

    Args:
        args: the flags, as `cli.train_flags.TrainArgs` has them.

    Returns:
        The recipe, the dataset of ``--dataset`` and the weights of ``--weights`` (None where not given).
    """
    family: Any = FAMILIES.get(args.model, args.model)
    if args.cubic_feat and args.softmax:
        raise IclearnError("cubic features have no tokens for a softmax: drop --cubic_feat or --softmax")
    if args.cubic_feat and family != "mlp":
        raise IclearnError(f"cubic features are what the mlp model reads; {args.model} reads tokens: drop --cubic_feat")
    if args.dataset is not None:
        _refuse_beside(args, "dataset", OF_DRAWN_PROMPTS, "its own prompts")
    if args.weights is not None:
        _refuse_beside(args, "weights", OF_DRAWN_WEIGHTS, "its own initial weights")
    dataset = dataset_from(read_npz(args.dataset)) if args.dataset is not None else None
    task = GivenData.of(dataset, prefixes=args.vary_len) if dataset is not None else regression_task(args)
    for name in ("heads", "rank"):
        if (size := getattr(args, name)) is not None and size < 1:
            raise IclearnError(f"--{name} must be at least 1, not {size}")
    heads, rank, weights = args.heads or 1, args.rank or 1, None
    if args.weights is not None:
        file = args.weights.name
        stored, weights = weights_from(read_npz(args.weights), task.out_dim)
        if stored != family.removesuffix("_reduced"):
            raise IclearnError(f"{file} holds weights of a {stored} model, not of {args.model}")
        heads = len(weights["value" if "value" in weights else "first"])
        if args.heads not in (None, heads):
            raise IclearnError(f"--heads {args.heads}, but {file} holds {heads} heads")
        rank = weights["key"].shape[1] if "key" in weights else rank
        if "key" in weights and args.rank not in (None, rank):
            raise IclearnError(f"--rank {args.rank}, but {file} has rank {rank}")
    if family in ("merged", "merged_reduced", "mlp"):
        rank = 1  # the public code accepts --rank there and ignores it
    normalize = args.normalize or ("tokens" if args.vary_len else "none")
    recipe = Recipe(
        task=task,
        model=Attention(family, num_heads=heads, rank=rank, softmax=args.softmax, normalize=normalize),
        init=Init.given(weights) if weights else Init(args.init, args.init_scheme),
        optimizer=Optimizer(args.optimizer, args.lr, batch_size=args.batch_size),
        record=Record(args.steps + 1, args.steps + 1) if args.track_value else Record(),
        steps=args.steps, engine=args.engine, seed=args.seed, dtype=args.dtype,
    )  # fmt: skip
    return recipe, dataset, weights


def regression_task(args: Any) -> LinearRegression:
    """The task that the flags describe; see `recipe_of_flags`."""
    prompts = None
    if args.prompts.lower() not in ("inf", "infinity", "none"):
        try:
            number = float(args.prompts)
        except ValueError:
            number = float("nan")
        if not number.is_integer() or number < 1:
            raise IclearnError(f"--prompts must be a whole number of at least 1, or inf, not {args.prompts!r}")
        prompts = int(args.prompts) if args.prompts.isdigit() else int(number)
    dim, parameters = args.dim, tuple(args.covariance_parameters)
    if sum([bool(args.eigenvalues), args.white_cov, args.covariance != "linear"]) > 1:
        raise IclearnError("give one of --white-cov, --covariance and --eigenvalues: each sets the whole spectrum")
    if parameters and (args.eigenvalues or args.white_cov):
        raise IclearnError("--covariance-parameters go with --covariance power, two_level or spiked")
    if args.eigenvalues:
        dim = len(args.eigenvalues)
        covariance = Covariance.eigenvalues(args.eigenvalues, rotate=True)
    elif args.white_cov:
        covariance = Covariance.white()
    else:
        needed = {"linear": 0, "power": 1, "two_level": 2, "spiked": 1}[args.covariance]
        if len(parameters) != needed:
            wanted = f"--covariance {args.covariance} takes {needed} --covariance-parameters"
            raise IclearnError(f"{wanted}, not {len(parameters)}")
        covariance = Covariance(args.covariance, parameters)
    usual = type(args)()
    if args.eigenvalues and args.dim not in (usual.dim, dim):
        raise IclearnError(f"--dim {args.dim}, but {dim} --eigenvalues are given: drop --dim")
    if args.context is not None and args.seq_len not in (usual.seq_len, args.context + 1):
        raise IclearnError(f"--context {args.context} means --seq-len {args.context + 1}, not {args.seq_len}: drop one")
    if args.context is None and args.seq_len < 2:
        raise IclearnError(f"--seq-len must be at least 2 (one context token and the query), not {args.seq_len}")
    public = prompts is not None and not args.raw_data
    return LinearRegression(
        dim=dim, context_len=args.context if args.context is not None else args.seq_len - 1, out_dim=args.out_dim,
        covariance=covariance, prior_mean=tuple(args.prior_mean) or None, noise=args.noise, in_context=args.icl,
        num_prompts=prompts, test_prompts=args.test_prompts, prefixes=args.vary_len, center=public,
        whiten=public and args.icl == 1,
    )  # fmt: skip


def public_name(args: Any, trace: Trace) -> str:
    """The file name, without its ending, that the public code would give to the run of these flags."""
    recipe = trace.provenance["recipe"]
    task, model = recipe["task"], recipe["model"]
    prompts = task["num_prompts"] if task["num_prompts"] is not None else "inf"
    sizes = f"head{model['num_heads']}_D{task['dim']}_R{model['rank']}_P{prompts}_N{task['context_len'] + 1}"
    name = f"{args.model}_{sizes}_seed{recipe['seed']}"
    if trace.has("test_loss"):
        return f"{name}_icl{args.icl:g}"
    return f"{name}_value" if args.track_value else name


def write_values(trace: Trace, path: Path) -> None:
    """The public code's --track_value file: a line a step with the loss and then the value weight of every head."""
    data = trace.data
    if "weight_value" in data:
        value = data["weight_value"].values.reshape(data.sizes["record"], data.sizes["head"], -1)[:, :, -1]
    else:
        value = data["weight_second"].values[:, 0]
    with new_file(path) as temporary:
        np.savetxt(temporary, np.column_stack([data["loss"].values, value[: data.sizes["step"]]]))
