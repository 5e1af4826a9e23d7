"""Γ* of reduced linear attention on drawn prompts: seconds of one solve, cold and warm, and against the simple path.

python -m benchmarks.gamma_solve --out benchmarks/results/gamma-cpu.json [--dims 40 60] [--repeats 5] [--quick]

n = 3d² prompts (more than the d(d + 1) weights: moments and Cholesky) and n = d²/2 (fewer: the kernel of the prompts).
On a processor the arrays are numpy's, on an accelerator JAX's, where they lie. The simple path forms the features
x_q ⊗ h and their moments; both answers are compared. Times are wall times with the answer waited for; drawing is apart.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from iclearn.models.label_gram_draws import draw_label_gram
from iclearn.models.ridge_solutions import solve_features, solve_gamma

from .machine import machine, now, versions

ALPHA, KAPPA, NOISE = 2.0, 2.0, 0.1
CASES = {"moments": 3.0, "kernel": 0.5}  # τ
AGREE = 1e-7  # relative to the largest number of Γ*
SIMPLE_NUMBERS = 6e7  # of features, so many at most for the simple path


def prompts(dim: int, tau: float) -> tuple[Any, Any, Any]:
    """Queries, contexts and targets of one pool, on the device; numpy's where that is a processor."""
    count = round(tau * dim**2)
    rng = np.random.default_rng(dim)
    pool = rng.standard_normal((round(KAPPA * dim), dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    tasks = jnp.asarray(pool[rng.integers(len(pool), size=count)])
    drawn = draw_label_gram(jax.random.key(dim), tasks, round(ALPHA * dim), NOISE)
    if jax.default_backend() == "cpu":
        return np.asarray(drawn.query), np.asarray(drawn.context), np.asarray(drawn.target)
    return jax.block_until_ready((drawn.query, drawn.context, drawn.target))


def seconds(work: Callable[[], Any]) -> tuple[float, np.ndarray]:
    begin = time.perf_counter()
    found = np.asarray(jax.block_until_ready(work()))
    return time.perf_counter() - begin, found


def simple(queries: Any, contexts: Any, targets: Any) -> Any:
    """The features formed, and solved for."""
    features = (queries[:, :, None] * contexts[:, None, :]).reshape(len(targets), -1)
    return solve_features(features, targets).reshape(queries.shape[1], -1)


def measure(dim: int, name: str, repeats: int, *, compare: bool) -> dict[str, Any]:
    """One size: first solve (compilation included), further ones, and the simple path where there is room for it."""
    begin = time.perf_counter()
    given = prompts(dim, CASES[name])
    drawing = time.perf_counter() - begin
    cold, gamma = seconds(lambda: solve_gamma(*given))
    warm = [seconds(lambda: solve_gamma(*given))[0] for _ in range(repeats)]
    count, size = len(given[2]), dim * (dim + 1)
    products = count * (size / 2) ** 2 * 2 if count >= size else 2 * count**2 * (2 * dim)
    row = {
        "dim": dim, "case": name, "prompts": count, "weights": size, "draw_seconds": drawing, "cold_seconds": cold,
        "warm_seconds": warm, "warm_median": statistics.median(warm), "warm_minimum": min(warm),
        "operations": products + min(count, size) ** 3 / 3,
    }  # fmt: skip
    row["operations_a_second"] = row["operations"] / row["warm_median"]
    if compare and count * size <= SIMPLE_NUMBERS:
        taken, wanted = seconds(lambda: simple(*given))
        error = float(np.max(np.abs(gamma - wanted)) / np.max(np.abs(wanted)))
        row |= {"simple_seconds": taken, "difference": error, "agrees": error <= AGREE}
    return row


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dims", type=int, nargs="*", help="default: 20 40 60, and 80 on an accelerator")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="d = 6, 2 repeats")
    args = parser.parse_args(words)
    usual = [20, 40, 60] + ([80] if jax.default_backend() != "cpu" else [])
    dims, repeats = ([6], 2) if args.quick else (args.dims or usual, args.repeats)
    started, before, rows = now(), os.getloadavg(), []
    for dim in dims:
        for name in CASES:
            rows.append(measure(dim, name, repeats, compare=True))
            row = rows[-1]
            print(
                f"d = {dim}, n = {row['prompts']} ({name}): first {row['cold_seconds']:.3f} s, "
                f"then {row['warm_median']:.3f} s, difference {row.get('difference', float('nan')):.1e}", flush=True
            )  # fmt: skip
            result = {
                "machine": machine(), "versions": versions(), "quick": args.quick, "started": started,
                "finished": now(), "load_average_before": before, "load_average_after": os.getloadavg(), "solves": rows,
            }  # fmt: skip
            args.out.parent.mkdir(parents=True, exist_ok=True)
            args.out.write_text(json.dumps(result, indent=1) + "\n")  # also where it is cut short afterwards
    wrong = [row for row in rows if not row.get("agrees", True)]
    if wrong:
        raise SystemExit(
            f"the fast and the simple path disagree: {[(r['dim'], r['case'], r['difference']) for r in wrong]}"
        )


if __name__ == "__main__":
    main()
