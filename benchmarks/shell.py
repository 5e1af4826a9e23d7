"""What a user waits for: commands from shell to prompt, with an empty compile cache and with a filled one."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iclearn import Trace

from .measure import Case, Finished, Result, Scale, iclearn_command, run_process

ATTN_M = "train --model attnM --head 8 --init 1e-6 --show"
RANKS = [
    f"train --model attnS --head 9 --KQ_dim {rank} --in_dim 8 --seq_len 32 --init 5e-3 --trainset_size 80000 "
    "--epoch 20001 --lr 0.02"
    for rank in (8, 4, 2, 1)
]
SMALL = " --trainset_size 200 --epoch 50"  # the last of two equal flags counts
PROVENANCE = ("wall_seconds", "setup_seconds", "compile_seconds", "programs_compiled", "compile_cache_hits", "engine")


def train(command: str, folder: Path, cache: Path, out: str) -> tuple[Finished, dict[str, Any]]:
    """One command in `folder` with this compile cache, storing under `out`; its process and its stored run's times."""
    env = {"ICLEARN_COMPILE_CACHE": str(cache), "MPLBACKEND": "Agg"}
    done = run_process([iclearn_command(), *command.split(), "--out", out], cwd=folder, env=env)
    (stored,) = (folder / out).glob("*.zarr")
    made = Trace.load(stored).provenance
    return done, {name: made[name] for name in PROVENANCE}


def together(name: str, what: str, commands: list[str], repeats: int, targets: tuple[float | None, float | None]):
    """Commands one after the other: cold from an empty compile cache, then warm from the one just filled."""
    walls: dict[str, list[float]] = {"cold": [], "warm": []}
    details: dict[str, list[list[dict[str, Any]]]] = {"cold": [], "warm": []}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory(prefix="iclearn-bench-") as temporary:
            folder = Path(temporary)
            for state in ("cold", "warm"):
                runs = [train(c, folder, folder / "cache", f"{state}{i}") for i, c in enumerate(commands)]
                walls[state].append(sum(done.wall for done, _ in runs))
                details[state].append(
                    [{"shell_seconds": done.wall, "cpu_seconds": done.cpu, **made} for done, made in runs]
                )
    return [
        Result(
            f"{name}/{state}",
            f"{what}, compile cache {'empty' if state == 'cold' else 'filled'}",
            "s",
            tuple(walls[state]),
            target,
            {"commands": [f"iclearn {c}" for c in commands], "runs": details[state]},
            tuple(sum(run["cpu_seconds"] for run in runs) for runs in details[state]),
        )
        for state, target in zip(("cold", "warm"), targets, strict=True)
    ]


def help_time(repeats: int, target: float | None) -> list[Result]:
    done = [run_process([iclearn_command(), "--help"], cwd=tempfile.gettempdir()) for _ in range(repeats)]
    walls, cpus = tuple(d.wall for d in done), tuple(d.cpu for d in done)
    return [Result("shell/help", "`iclearn --help`", "s", walls, target, cpu=cpus)]


def cases(scale: Scale) -> Iterator[Case]:
    small, count = SMALL if scale.quick else "", scale.processes
    times = (None, None, None, None) if scale.quick else (4.0, 60.0, 0.5, 1.5)
    yield Case("shell/help", functools.partial(help_time, max(3, scale.repeats), times[2]))
    yield Case(
        "shell/attnM",
        functools.partial(
            together, "shell/attnM", "README attnM command", [ATTN_M + small], count, (times[0], times[3])
        ),
    )
    yield Case(
        "shell/ranks",
        functools.partial(
            together,
            "shell/ranks",
            "README's four D=8 commands together",
            [command + small for command in RANKS],
            min(count, 2),
            (times[1], times[1]),
        ),
    )
