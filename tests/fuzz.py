"""Random recipes, command lines and damaged files: each ends in a result or in a sentence, never in a traceback.

    python -m tests.fuzz --count 100000 [--seed 0] [--first 0] [--only recipes lines files]

Everything is drawn from the seed, so that a failure is found again by its number. Sizes are kept small by refusing what
is estimated to take more than a second; a case that computes for longer than a minute counts as a hang.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
LIMIT = 60  # processor seconds of one case

NUMBERS = [0, 1, 2, 3, 5, 17, -1, 0.5, 1e-3, 1e-300, 1e300, float("nan"), float("inf"), 10**9, 10**30, True, None, "2"]
WORDS = [
    "",
    "a",
    "none",
    "inf",
    "merged",
    "separate",
    "linear",
    "gd",
    "../evil",
    "λ",
    "\x00",
    "1e-3",
    "samples",
    "given",
]


def any_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(NUMBERS)
    if kind < 0.75 or depth > 2:
        return rng.choice(WORDS)
    if kind < 0.88:
        return [any_value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice([*WORDS, "kind", "dim", "scale"]): any_value(rng, depth + 1) for _ in range(rng.randrange(3))}


def usual_recipe(rng: random.Random) -> dict[str, Any]:
    """A table of a recipe that may well be valid."""
    tasks = [
        {"kind": "linear_regression", "dim": rng.randint(1, 4), "context_len": rng.randint(1, 6),
         "num_prompts": rng.choice([None, 1, 20]), "noise": rng.choice([0.0, 0.1]), "out_dim": rng.choice([1, 1, 2]),
         "in_context": rng.choice([1.0, 1.0, 0.5]), "test_prompts": rng.choice([0, 0, 7])},
        {"kind": "softmax_regression", "dim": rng.randint(1, 3), "num_prompts": rng.choice([5, 20])},
    ]  # fmt: skip
    families = ["merged", "separate", "merged_reduced", "separate_reduced", "mlp", "conv"]
    models = [
        {"kind": "attention", "family": rng.choice(families), "num_heads": rng.randint(1, 3), "rank": rng.randint(1, 2),
         "softmax": rng.random() < 0.2, "normalize": rng.choice(["none", "context", "tokens"])},
        {"kind": "lsa", "num_heads": rng.randint(1, 2)},
    ]  # fmt: skip
    return {
        "task": rng.choice([*tasks, tasks[0]]), "model": rng.choice([*models, models[0]]), "steps": rng.randint(1, 5),
        "init": rng.choice([0.01, 1.0, 0]), "seed": rng.randrange(3), "dtype": rng.choice(["float64", "float32"]),
        "optimizer": {"rule": rng.choice(["gd", "sgd", "adam", "momentum"]), "lr": rng.choice([1e-3, 0.1])},
        "engine": rng.choice(["auto", "auto", "samples", "moments", "population"]),
    }  # fmt: skip


def mutated(rng: random.Random, table: Any) -> Any:
    """The same with one entry somewhere changed, dropped, added or doubled."""
    if not isinstance(table, dict) or not table or rng.random() < 0.15:
        return any_value(rng)
    table, key = dict(table), rng.choice(list(table))
    if isinstance(table[key], dict) and rng.random() < 0.7:
        table[key] = mutated(rng, table[key])
    elif rng.random() < 0.15:
        del table[key]
    elif rng.random() < 0.15:
        table[rng.choice(WORDS)] = any_value(rng)
    else:
        table[key] = any_value(rng)
    return table


def fuzz_recipe(rng: random.Random, _: Path) -> str:
    """A recipe is refused in a sentence, or goes through JSON with the same hash; a few are trained."""
    from iclearn.core.errors import IclearnError
    from iclearn.core.recipe import Recipe

    table = usual_recipe(rng)
    for _ in range(rng.choice([0, 1, 1, 2])):
        table = mutated(rng, table)
    try:
        recipe = Recipe.from_dict(table)
    except IclearnError:
        return "refused"
    again = Recipe.from_json(recipe.to_json())
    assert again == recipe, "the recipe changed on its way through JSON"
    assert again.hash == recipe.hash, "the hash changed on its way through JSON"
    if rng.random() > 0.02:
        return "valid"
    from iclearn.engines.simulate import simulate

    try:
        trace = simulate(recipe)
    except IclearnError:
        return "refused when run"
    assert len(trace.loss) >= 1
    return "trained"


FLAGS = [
    *[
        "--model",
        "--heads",
        "--rank",
        "--init",
        "--softmax",
        "--normalize",
        "--dim",
        "--out-dim",
        "--seq-len",
        "--context",
        "--prompts",
        "--test-prompts",
        "--icl",
        "--white-cov",
        "--covariance",
        "--eigenvalues",
        "--prior-mean",
        "--noise",
        "--vary-len",
        "--dataset",
        "--weights",
        "--optimizer",
        "--lr",
        "--batch-size",
        "--seed",
        "--engine",
        "--dtype",
        "--recipe",
        "--set",
        "--json",
        "--quiet",
        "--again",
        "--out",
        "--plot",
        "--export",
        "--workers",
        "--chunk",
        "--list",
        "--draw-only",
        "--preset",
        "--dry-run",
        "--figures",
        "--values",
        "--check",
        "--nonsense",
        "-h",
        "--",
        "-1",
    ],
]
VALUES = [
    *[
        "0",
        "1",
        "2",
        "3",
        "-1",
        "0.1",
        "1e-3",
        "1e300",
        "nan",
        "inf",
        "a",
        "attnS",
        "merged",
        "gd",
        "adam",
        "λ",
        "*",
        "good.npz",
        "weights.npz",
        "grid.yaml",
        "recipe.yaml",
        "missing",
        "runs",
        ".",
        "1e12",
        "10000000000000000",
        "float32",
    ],
    "",
]
COMMANDS = [
    "train",
    "train",
    "train",
    "show",
    "list",
    "theory zhang2025",
    "theory xie2025",
    "sweep status",
    "nonsense",
    "sweep",
    "sweep grid.yaml --dry-run",
    "reproduce zhang2025 --list",
    "help",
    "",
]


def fuzz_line(rng: random.Random, folder: Path) -> str:
    """A command line gives exit code 0, 1, 2 or 130, and a complaint of one line."""
    from iclearn.cli import main

    words = rng.choice(COMMANDS).split()
    if words[:1] == ["train"]:
        words += ["--steps", rng.choice(["3", "3", "3", *VALUES]), "--no-text"]
    for _ in range(rng.randrange(4)):
        words += [rng.choice(FLAGS), *rng.choices(VALUES, k=rng.choice([0, 1, 1, 1, 2]))]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:  # --help
            code = end.code or 0
    assert code in (0, 1, 2, 130), f"exit code {code} of {words}"
    told = err.getvalue()
    assert "Traceback" not in told, f"{words}: {told}"
    assert "bug in iclearn" not in told, f"{words}: {told}"
    assert code != 2 or told.count("\n") >= 1, f"{words} was refused without a word"
    return f"exit {code}"


def damaged(rng: random.Random, data: bytes) -> bytes:
    kind = rng.randrange(5)
    if kind == 0 or not data:
        return data[: rng.randrange(len(data) + 1)]
    at = rng.randrange(len(data))
    if kind == 1:
        return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + rng.randbytes(rng.randint(1, 8)) + data[at + rng.randint(0, 8) :]
    if kind == 3:
        return rng.choice([b"", b"[]", b"{}", b"null", b"\x00" * 50, rng.randbytes(40)])
    return data[:at] + data[: rng.randint(1, 20)] + data[at:]


def fuzz_file(rng: random.Random, folder: Path) -> str:
    """One file of a run, a dataset or a description is damaged: it is refused in a sentence, or nothing changed."""
    from iclearn.core.errors import IclearnError
    from iclearn.core.reader import read_spec, read_table
    from iclearn.core.recipe import Recipe
    from iclearn.core.trace import Trace
    from iclearn.store import Store, dataset_from, read_npz, weights_from
    from iclearn.sweeps import plan_from_file, status

    run = next((folder / "runs").glob("*.zarr"))
    sound = sorted(path for path in run.rglob("*") if path.is_file())
    others = {
        "good.npz": lambda p: dataset_from(read_npz(p)),
        "weights.npz": lambda p: weights_from(read_npz(p)),
        "recipe.yaml": lambda p: read_spec(Recipe, read_table(p)),
        "grid.yaml": plan_from_file,
        "swept/plan.json": lambda p: status(p.parent),
    }
    if rng.random() < 0.6:
        file, what = rng.choice(sound), "run"
    else:
        what = rng.choice(list(others))
        file = folder / what
    before = file.read_bytes()
    try:
        expected = Trace.load(run) if what == "run" else None
        file.write_bytes(damaged(rng, before))
        try:
            if what == "run":
                Store(folder / "runs").survey()
                assert Trace.load(run) == expected, f"{file} was damaged and believed"
            else:
                others[what](file)
        except (IclearnError, OSError):
            return f"{what} refused"
        return f"{what} as before"
    finally:
        file.write_bytes(before)


def prepare_folder(folder: Path) -> None:
    """Files that lines and damage work on."""
    import numpy as np

    import iclearn as icl
    from iclearn.sweeps import SweepFolder, plan_from_file

    rng = np.random.default_rng(0)
    np.savez(folder / "good.npz", x=rng.normal(size=(9, 5, 3)), y_q=rng.normal(size=9))
    square = rng.normal(size=(2, 3, 3))
    np.savez(folder / "weights.npz", weights_kq=square, weights_value=square)
    table = {"task": {"dim": 2, "context_len": 4, "num_prompts": 20}, "model": {"family": "merged"}, "steps": 5}
    (folder / "recipe.yaml").write_text(json.dumps(table, indent=1))
    (folder / "grid.yaml").write_text(json.dumps({"base": table, "seeds": 2, "chunk": 2}, indent=1))
    icl.Store(folder / "runs").run(icl.Recipe.from_dict(table))
    SweepFolder.create(folder / "swept", plan_from_file(folder / "grid.yaml"))


KINDS = {"recipes": (fuzz_recipe, 0.6), "files": (fuzz_file, 0.3), "lines": (fuzz_line, 0.1)}


def run(
    count: int, seed: int = 0, only: list[str] | None = None, say: bool = False, first: int = 0
) -> tuple[Counter[str], list[str]]:
    """`count` cases, beginning with the one numbered `first`; what became of them, and the failures."""
    os.environ["ICLEARN_MOST_SECONDS"] = "1"
    os.environ["ICLEARN_TRACEBACK"] = "1"
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    names = only or list(KINDS)
    here, begin = os.getcwd(), time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root)
        prepare_folder(folder)
        os.chdir(folder)
        try:
            for number in range(first, first + count):
                rng = random.Random(f"{seed}-{number}")
                name = rng.choices(names, [KINDS[n][1] for n in names])[0]
                signal.signal(signal.SIGPROF, _hang)
                signal.setitimer(signal.ITIMER_PROF, LIMIT)
                try:
                    outcomes[f"{name}: {KINDS[name][0](rng, folder)}"] += 1
                except Exception:
                    failures.append(f"case {number} ({name}):\n{traceback.format_exc()}")
                    if say:
                        print(failures[-1], file=sys.stderr, flush=True)
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
                if say and number % 1000 == 999:
                    print(f"{number + 1} cases, {len(failures)} failures, {time.monotonic() - begin:.0f} s", flush=True)
        finally:
            os.chdir(here)
    return outcomes, failures


def _hang(*_: Any) -> None:
    raise TimeoutError(f"no end after {LIMIT} s of computing")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", nargs="*", choices=list(KINDS))
    options = parser.parse_args()
    found, wrong = run(options.count, options.seed, options.only, say=True, first=options.first)
    print(json.dumps({"count": options.count, "failures": len(wrong), **dict(sorted(found.items()))}, indent=1))
    sys.exit(1 if wrong else 0)
