"""What `benchmarks.side_by_side` measures beside a step: cost against sizes, memory, start-up, agreement.

python -m benchmarks.side_costs {ours,naive} PROMPTS prints the peak memory of one training as JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .depth_steps import ahn, naive_step, our_step
from .measure import run_process
from .recipes import separate
from .side_systems import gpt2, seconds_a_step, transformer
from .streaming import peak_memory

ROOT = Path(__file__).resolve().parents[1]
GOLDEN = ROOT.parent / "shared" / "golden"
# Which golden files came from which public code.
SOURCES = {
    "linattn-icl": ("*.npz",),
    "self-organising-systems": ("depth/oswald_*.npz", "functions/sinusoid.npz"),
    "LinearTransformer": ("depth/ahn_*.npz",),
    "icl-task-diversity": ("diversity/predictors.npz", "diversity/gpt2.npz"),
    "dtsip/in-context-learning": (
        "functions/predictors_*.npz", "functions/tasks_*.npz", "functions/ood_*.npz", "functions/gpt2_*.npz",
        "functions/trees_*.npz", "functions/mlp_*.npz", "functions/bootstrap_*.npz", "functions/toy_*.npz",
    ),
    "incontext-asymptotics-experiments": ("diversity/theory_isotropic.npz", "diversity/gamma_star.npz"),
    "pretrain-test-icl-alignment": ("diversity/theory_scaled.npz", "diversity/theory_structured.npz"),
}  # fmt: skip
STARTS = {
    "an empty Python": ("-c", "pass"),
    "`import iclearn`": ("-c", "import iclearn"),
    "`iclearn --help`": ("-m", "iclearn", "--help"),
    "`import jax`": ("-c", "import jax"),
    "`iclearn theory zhang2025 …`": ("-m", "iclearn", "theory", "zhang2025", "--eigenvalues", "0.6", "0.4"),
    "`import torch` (the naive scripts)": ("-c", "import torch"),
}


def exponent(values: Sequence[float], costs: Sequence[float]) -> float:
    """Slope of log cost against log size, by least squares.

    >>> round(exponent([1, 2, 4], [3.0, 12.0, 48.0]), 6)
    2.0
    """
    return float(np.polyfit(np.log(values), np.log(costs), 1)[0])


@dataclass(frozen=True)
class Grid:
    """Costs against one size.

    Args:
        size: its letter.
        what: the work.
        values: of the size.
        naive: value → a function that takes two steps of the naive script.
        ours: value → our recipe (None: `benchmarks.compiled` has measured it).
        steps: of ours in a repeat.
    """

    size: str
    what: str
    values: tuple[int, ...]
    naive: Callable[[int], Callable[[], Any]]
    ours: Callable[[int], Any] | None = None
    steps: int = 0


def naive_linattn(dim: int = 4, context: int = 15, heads: int = 5, rank: int = 1, prompts: int = 1000) -> Any:
    """Two steps of separate attention on any numbers: the cost does not depend on them."""
    from .naive_torch import train

    rng = np.random.default_rng(0)
    tokens, target = rng.normal(size=(prompts, context + 1, dim + 1)), rng.normal(size=prompts)
    sizes = {"value": (heads, dim + 1, dim + 1), "key": (heads, rank, dim + 1), "query": (heads, rank, dim + 1)}
    weights = {name: 0.01 * rng.normal(size=size) for name, size in sizes.items()}
    return lambda: train(tokens, target, weights, lr=1e-9, steps=2, softmax=False)


def grids(quick: bool) -> list[Grid]:
    """Every size of the field: P, N, D, H, R of attention, L and N of deep linear transformers, L of GPT-2."""
    p, batch = (100, 16) if quick else (1000, 2000)
    what = "separate attention (linattn-icl), D = 4, N = 15, H = 5, R = 1, P = 1000"
    deep = "linear transformer (LinearTransformer), ours in Gram form, d = 5, N = 20, L = 3, 2000 fresh prompts"
    gpt = "GPT-2 (icl-task-diversity), 64 wide, d = 8, 16 points, L = 4, 50 fresh prompts"
    ahn_l = lambda n: ahn(n, batch, rotated=False, engine="gram")  # noqa: E731
    ahn_n = lambda n: ahn(3, batch, rotated=False, engine="gram", context_len=n)  # noqa: E731
    gpt_l = lambda n: gpt2(8, 15, n, batch // 40 + (batch < 40), 64)  # noqa: E731
    length = lambda n: separate(4, p, num_heads=5).replace(task__context_len=n)  # noqa: E731
    return [
        Grid("P", what, (p // 2, p, 2 * p, 4 * p), lambda n: naive_linattn(prompts=n)),
        Grid("N", what, (16, 32, 64), lambda n: naive_linattn(context=n, prompts=p), length, 1000),
        Grid("D", what, (2, 4, 8, 16), lambda n: naive_linattn(dim=n, prompts=p)),
        Grid("H", what, (2, 4, 8, 16), lambda n: naive_linattn(heads=n, prompts=p)),
        Grid("R", what, (1, 2, 4), lambda n: naive_linattn(rank=n, prompts=p)),
        Grid("L", deep, (1, 2, 4), lambda n: naive_step(ahn_l(n), 2, "cpu"), ahn_l, 10),
        Grid("N", deep, (10, 20, 40), lambda n: naive_step(ahn_n(n), 2, "cpu"), ahn_n, 10),
        Grid("L", gpt, (1, 2, 4), lambda n: transformer(gpt_l(n), 2, "cpu", check=False)[0], gpt_l, 2),
    ]


def cost(quick: bool, say: Callable[[str], None]) -> list[dict[str, Any]]:
    """Least processor time of a step against one size after the other, ours and the naive script's (one thread)."""
    import torch  # pyright: ignore[reportMissingImports]

    repeats, found, default = (1 if quick else 3), [], torch.get_num_threads()
    torch.set_num_threads(1)
    for grid in grids(quick):
        rows = []
        for value in grid.values[:2] if quick else grid.values:
            naive = grid.naive(value)
            naive()
            row = {"value": value, "naive_us": min(seconds_a_step(naive, 2)["processor_us"] for _ in range(repeats))}
            if grid.ours is not None:
                ours = our_step(grid.ours(value), grid.steps)
                row["ours_us"] = min(seconds_a_step(ours, grid.steps)["processor_us"] for _ in range(repeats))
            rows.append(row)
        sides = [side for side in ("naive", "ours") if f"{side}_us" in rows[0]]
        slopes = {side: exponent([r["value"] for r in rows], [r[f"{side}_us"] for r in rows]) for side in sides}
        found.append({"size": grid.size, "what": grid.what, "rows": rows, "exponent": slopes})
        say(f"cost against {grid.size}, {grid.what}: {slopes}")
    torch.set_num_threads(default)
    return found


def train_once(side: str, num_prompts: int) -> dict[str, float]:
    """Peak memory of this process before and after twenty steps of linattn-icl's merged attention, in GB."""
    import jax

    from iclearn import simulate
    from iclearn.engines import prepare

    from .recipes import merged

    if side == "naive":
        import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
    recipe = merged(4, num_prompts).replace(init__scale=0.2, steps=20)
    jax.block_until_ready(jax.numpy.ones(3) @ jax.numpy.ones(3))
    before = peak_memory()
    if side == "ours":
        simulate(recipe)
    else:
        from . import against_torch
        from .naive_torch import train

        few = prepare(recipe.replace(task__num_prompts=10))
        weights = {name: np.asarray(weight) for name, weight in few.model.weights().items()}
        before = peak_memory()
        rng = np.random.default_rng(0)
        tokens, target = rng.normal(size=(num_prompts, 32, 5)), rng.normal(size=num_prompts)
        train(tokens, target, against_torch.full_matrices(weights, 4), lr=1e-6, steps=2, softmax=False)
    after = peak_memory()
    key = "vm_hwm_gb" if "vm_hwm_gb" in after else "ru_maxrss_gb"
    return {"before_gb": before[key], "peak_gb": after[key], "growth_gb": after[key] - before[key]}


def memory(quick: bool) -> list[dict[str, Any]]:
    """Both sides at two numbers of prompts, each in a process of its own."""
    rows = []
    for prompts in (100, 200) if quick else (5_000, 20_000):
        for side in ("ours", "naive"):
            command = [sys.executable, "-m", "benchmarks.side_costs", side, str(prompts)]
            done = run_process(command, cwd=ROOT)
            rows.append({"side": side, "prompts": prompts, **json.loads(done.output.splitlines()[-1])})
    return rows


def startup(quick: bool) -> list[dict[str, Any]]:
    """Seconds (wall and processor) of processes that hardly do more than start."""
    rows = []
    for what, words in STARTS.items():
        done = [run_process([sys.executable, *words], cwd=ROOT) for _ in range(2 if quick else 4)][1:]
        rows.append({"what": what, "wall_s": [d.wall for d in done], "processor_s": [d.cpu for d in done]})
    return rows


def agreement(say: Callable[[str], None]) -> dict[str, Any]:
    """Every golden file of every public code computed again: the quantities and their largest relative differences."""
    from iclearn.core.errors import IclearnError
    from iclearn.papers.verifying import verify_file

    if not GOLDEN.is_dir():
        raise FileNotFoundError("the golden files (../shared/golden) are not here")
    found: dict[str, Any] = {}
    for system, patterns in SOURCES.items():
        rows = []
        files = sorted(path for pattern in patterns for path in GOLDEN.glob(pattern))
        for path in files:
            try:
                one = verify_file(path)
            except IclearnError as error:
                rows.append({"file": path.relative_to(GOLDEN).as_posix(), "not_read": str(error)})
                continue
            quantities = [
                {"name": q.name, "values": q.given.size, "largest": q.largest, "tolerance": q.tolerance}
                for q in one.quantities
                if q.role != "size"
            ]
            rows.append({"file": path.relative_to(GOLDEN).as_posix(), "passed": one.passed, "quantities": quantities})
            say(f"{rows[-1]['file']}: {'verified' if one.passed else 'NOT verified'}")
        found[system] = rows
    return found


if __name__ == "__main__":
    print(json.dumps(train_once(sys.argv[1], int(sys.argv[2]))))
