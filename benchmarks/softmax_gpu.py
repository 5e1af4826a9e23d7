"""Figure 5 of zhang2025 at P = 80000 on an accelerator: time of every run, and the verdicts at that size.

python -m benchmarks.softmax_gpu --out benchmarks/results/softmax-h200.json [--prompts 80000] [--seeds 6]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import jax
import numpy as np

from iclearn.engines.simulate import simulate
from iclearn.papers.base import plain
from iclearn.papers.zhang2025 import fig5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=80_000)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--curves", type=Path, help="also write the loss curves to this .npz")
    args = parser.parse_args()
    begin = time.perf_counter()
    data, rows, curves = {}, [], {}
    for family, plan in fig5.recipes(range(args.seeds), args.prompts).items():
        data[family] = []
        for recipe in plan:
            trace = simulate(recipe)
            data[family].append(trace)
            made = trace.provenance
            curves[f"{family}_{recipe.seed}"] = trace.loss.values
            rows.append(
                {
                    "family": family,
                    "seed": recipe.seed,
                    "steps": recipe.steps,
                    "seconds": made["wall_seconds"],
                    "compile_seconds": made["compile_seconds"],
                    "setup_seconds": made["setup_seconds"],
                    "final_loss": trace.final_loss,
                }
            )
            print(rows[-1], flush=True)
    steady = {
        family: float(
            np.median([(r["seconds"] - r["setup_seconds"]) / r["steps"] for r in rows[1:] if r["family"] == family])
        )
        for family in data
    }
    result = {
        "case": f"zhang2025 fig5 (softmax attention), P = {args.prompts}, float32",
        "device": jax.devices()[0].device_kind,
        "jax": jax.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "total_seconds": time.perf_counter() - begin,
        "microseconds_per_step": {family: 1e6 * seconds for family, seconds in steady.items()},
        "runs": rows,
        "verdicts": [v.to_dict() for v in fig5.FIGURE.judge("zhang2025", data)],
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(plain(result), indent=1) + "\n")
    if args.curves is not None:
        np.savez_compressed(args.curves, **curves)


if __name__ == "__main__":
    main()
