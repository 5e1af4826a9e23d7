"""A second run of the same shape compiles nothing: in this process, and in a new one from the cache on disk."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path

from iclearn import Recipe, simulate

from .measure import Case, Result, Scale
from .recipes import merged, separate
from .shell import train

MERGED = "train --model attnM --head 8 --init 1e-6 --show --trainset_size {prompts} --epoch 301"
SEPARATE = "train --model attnS --head 5 --init 1e-2 --lr 0.02 --show --trainset_size {prompts} --epoch 301"


def in_process(name: str, what: str, recipe: Recipe) -> list[Result]:
    """Other seed, rate, init scale and number of steps, same shapes."""
    first = simulate(recipe).provenance
    if not first["programs_compiled"]:
        raise AssertionError("the first run compiled nothing, so that the second shows nothing")
    other = recipe.replace(seed=11, steps=recipe.steps + 7, init__scale=2e-6, optimizer__lr=recipe.optimizer.lr / 2)
    second = simulate(other).provenance
    detail = {"programs_of_the_first": first["programs_compiled"], "seconds_of_the_second": second["wall_seconds"]}
    return [
        Result(
            name, f"{what}: compiled again in the same process", "programs", (second["programs_compiled"],), 0.0, detail
        )
    ]


def new_process(name: str, what: str, command: str) -> list[Result]:
    """The same command with another seed, rate, init and number of steps, in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="iclearn-bench-") as temporary:
        folder = Path(temporary)
        _, first = train(command, folder, folder / "cache", "first")
        changed = f"{command} --seed 11 --lr 0.0005 --init 2e-6 --epoch 308"
        _, second = train(changed, folder, folder / "cache", "second")
    compiled = second["programs_compiled"] - second["compile_cache_hits"]
    return [
        Result(
            name,
            f"{what}: compiled again in a new process",
            "programs",
            (compiled,),
            0.0,
            {"first": first, "second": second},
        )
    ]


def cases(scale: Scale) -> Iterator[Case]:
    prompts = scale.num_prompts[0] + 1  # a shape of its own: what other cases compiled is not to help
    recipes = {
        "merged-d4": merged(4, prompts, num_heads=7, steps=301),
        "separate-d4": separate(4, prompts, num_heads=7, steps=301),
        "softmax-merged-d4": merged(4, 101, num_heads=7, softmax=True, steps=20),
        "population-d4": merged(4, None, num_heads=7, steps=301),
    }
    for label, recipe in recipes.items():
        name = f"recompile/in-process/{label}"
        yield Case(name, functools.partial(in_process, name, label, recipe))
    for label, command in {"merged-d4": MERGED, "separate-d4": SEPARATE}.items():
        name = f"recompile/new-process/{label}"
        yield Case(name, functools.partial(new_process, name, label, command.format(prompts=prompts)))
