"""Many prompts at bounded memory: the rate at which the moments engine streams them, and the peak of a whole run.

The run has a process of its own, so that its peak is its own.
"""

from __future__ import annotations

import functools
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .measure import Case, Result, Scale, run_process

MEMORY_TARGET = 2.0  # GB
ROOT = Path(__file__).resolve().parents[1]


def peak_memory() -> dict[str, float]:
    """Peak resident memory of this process in GB.

    The kernel's ru_maxrss outlives `exec`, so it can be that of whoever started this process; VmHWM cannot.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    found = {"ru_maxrss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9}
    status = Path("/proc/self/status")
    if status.is_file():
        line = next(row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        found["vm_hwm_gb"] = int(line.split()[1]) * 1024 / 1e9
    return found


def train_on(num_prompts: int) -> dict[str, Any]:
    """Stream the prompts, train the whole README run on them, and say what it took."""
    from iclearn import simulate
    from iclearn.core.jax_settings import compile_meter
    from iclearn.engines import prepare

    from .recipes import merged

    import jax  # isort: skip

    recipe = merged(4, num_prompts)
    begin = time.perf_counter()
    with compile_meter() as compiling:
        jax.block_until_ready(prepare(recipe))
    seconds = time.perf_counter() - begin
    before_steps = peak_memory()
    trace = simulate(recipe)  # the engine remembers the moments: this adds the steps alone
    return {
        "setup_seconds": seconds,
        "compile_seconds": compiling.seconds,
        "train_seconds": trace.provenance["wall_seconds"],
        "steps": recipe.steps,
        "final_loss": trace.final_loss,
        "peak_after_streaming": before_steps,
        "peak": peak_memory(),
    }


def measure(num_prompts: int, target: float | None) -> list[Result]:
    done = run_process([sys.executable, "-m", "benchmarks.streaming", str(num_prompts)], cwd=ROOT)
    facts = json.loads(done.output.strip().splitlines()[-1])
    facts |= {"process_seconds": done.wall, "process_cpu_seconds": done.cpu}
    rate = num_prompts / (facts["setup_seconds"] - facts["compile_seconds"])
    peak = facts["peak"].get("vm_hwm_gb", facts["peak"]["ru_maxrss_gb"])
    size = f"moments D=4 P={num_prompts}"
    return [
        Result("stream/rate", f"{size}: prompts streamed", "prompts/s", (rate,), None, facts),
        Result("stream/peak", f"{size}: peak memory of the whole run", "GB", (peak,), target, facts),
    ]


def cases(scale: Scale) -> Iterator[Case]:
    yield Case("stream", functools.partial(measure, scale.stream_prompts, MEMORY_TARGET))


if __name__ == "__main__":
    print(json.dumps(train_on(int(sys.argv[1]))))
