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


def recipe_of_flags(args: Any) -> tuple[Recipe, Dataset | None, dict | None]:
    """The recipe a command line means, with the data and weights it brings."""
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


def regression_task(args: Any) -> LinearRegression:
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


def public_name(args: Any, trace: Trace) -> str:
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


def write_values(trace: Trace, path: Path) -> None:
    """The public code's --track_value file: the loss, then the value weight of every head, a line a step."""
    data = trace.data
    if "weight_value" in data:
        value = data["weight_value"].values.reshape(data.sizes["record"], data.sizes["head"], -1)[:, :, -1]
    else:
        value = data["weight_second"].values[:, 0]
    with new_file(path) as temporary:
        np.savetxt(temporary, np.column_stack([data["loss"].values, value[: data.sizes["step"]]]))
