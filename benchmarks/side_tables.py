"""The tables of docs/side-by-side.md, from the JSON files of benchmarks/results alone."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .table import number

THREE = "LinearTransformer/three layers"
# One row of the field: the public code, the paper, the work that `--measure` takes under this name, the same work in
# the benchmark of depth (on a GPU), and what stands for the other side.
FIELD = (
    ("linattn-icl", "zhang2025", "linattn-icl/merged", None, "naive_torch"),
    ("linattn-icl", "zhang2025", "linattn-icl/softmax", None, "naive_torch"),
    ("self-organising-systems", "oswald2023", "self-organising-systems/two layers", "oswald2023/fig3", "naive_depth"),
    ("LinearTransformer", "ahn2023", THREE, "ahn2023/identity/samples", "naive_depth"),
    ("LinearTransformer", "ahn2023", f"{THREE}, integrated", "ahn2023/identity/gram", "naive_depth"),
    ("icl-task-diversity", "raventos2023", "icl-task-diversity/small", None, "naive_gpt2"),
    ("dtsip/in-context-learning", "Garg et al. 2022", "dtsip/in-context-learning/tiny", None, "naive_gpt2"),
    ("no code published", "xie2025", "xie2025/yq-LSA", None, "naive_lsa"),
    ("no code published", "li2024", "li2024/layer A", None, "naive_documents"),
)
CPU, GPU = "side-by-side-cpu.json", "side-by-side-h200.json"
DOUBLE = 1e-8  # tolerances below it are those of numbers that both sides computed in double precision
PATHS = {"written": "unrolled", "plain": "vmap", "fused": "pallas (Triton)", "triton": "pallas (Triton)"}
PATHS |= {"pallas": "pallas (Mosaic)", "alone": "one run at a time"}


def read(folder: Path, name: str) -> dict[str, Any] | None:
    """A result file, None where there is none."""
    path = folder / name
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def day(report: dict[str, Any]) -> str:
    """When a report was made."""
    return str(report.get("finished") or report.get("started") or report.get("made") or report.get("date"))[:10]


def source(name: str, report: dict[str, Any]) -> str:
    """Where a number is from.

    >>> source("cpu.json", {"started": "2026-11-15T10:35:34Z"})
    '`cpu.json`, 2026-11-15'
    """
    return f"`{name}`, {day(report)}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: str) -> list[str]:
    """A Markdown table; `right` has an r for each column of numbers."""
    rule = "|".join("--:" if side == "r" else "---" for side in right)
    return ["", f"| {' | '.join(head)} |", f"|{rule}|", *(f"| {' | '.join(row)} |" for row in rows)]


def microseconds(value: float) -> str:
    """A time of a step in the unit that suits it.

    >>> microseconds(6.55), microseconds(12_345), microseconds(2_500_000)
    ('6.55 µs', '12.3 ms', '2.5 s')
    """
    for unit, size in (("s", 1e6), ("ms", 1e3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value)} µs"


def digits(difference: float) -> str:
    """Decimal digits that agree.

    >>> digits(3e-12), digits(0.0)
    ('11', 'all')
    """
    return "all" if difference == 0 else str(math.floor(-math.log10(difference)))


def on_processor(row: dict[str, Any]) -> tuple[float, float]:
    """Least processor time of a step, ours and the naive one's with one thread."""
    return min(r["processor_us"] for r in row["ours"]), min(r["processor_us"] for r in row["naive_by_threads"]["1"])


def on_the_wall(row: dict[str, Any]) -> tuple[float, float]:
    """Median wall time of a step, ours and the naive one's with the better number of threads."""
    median = lambda runs: statistics.median(r["wall_us"] for r in runs)  # noqa: E731
    return median(row["ours"]), min(median(runs) for runs in row["naive_by_threads"].values())


def field(folder: Path) -> list[str]:
    """The table of systems, and what their work is."""
    cpu, gpu, depth = (read(folder, name) for name in (CPU, GPU, "depth-h200.json"))
    agreement = read(folder, "agreement.json")
    rows, work = [], []
    for system, paper, name, deep, script in FIELD:
        row = next((r for r in (cpu or {}).get("systems", []) if r["name"] == name), None)
        cells = ["not measured"] * 4
        if row is not None:
            (ours, naive), (wall, naive_wall) = on_processor(row), on_the_wall(row)
            cells = [microseconds(ours), microseconds(naive), number(naive / ours), number(naive_wall / wall)]
            work.append(f"- {paper}, {name.split('/')[-1]}: {row['what']}. The other side: `{script}.py`.")
        on_gpu = gpu_step(name, deep, gpu, depth)
        times = "not measured" if on_gpu is None else number(on_gpu[1] / on_gpu[0])
        label = f"{system} ({paper}): {name.split('/')[-1]}"
        rows.append([label, *cells, times, agreed(system, agreement)])
    head = ["public code (paper): work", "iclearn", "naive", "times", "times, wall", "times, GPU", "agreement"]
    return [*table(head, rows, "lrrrrrl"), "", *work]


def gpu_step(
    name: str, deep: str | None, gpu: dict[str, Any] | None, depth: dict[str, Any] | None
) -> tuple[float, float, str] | None:
    """Microseconds of a step on a GPU, ours and the naive script's, and where that is from."""
    row = next((r for r in (gpu or {}).get("systems", []) if r["name"] == name), None)
    if row is not None:
        return (*on_the_wall(row), f"`{GPU}`")
    old = next((r for r in (depth or {}).get("trainings", []) if r["name"] == deep), None)
    if old is not None:
        return old["ours_median_us"], old["naive_median_us"], "`depth-h200.json`"
    early = next((r for r in (depth or {}).get("earlier", {}).get("rows", []) if r["name"] == deep), None)
    if early is not None:
        return early["microseconds"], early["naive_microseconds"], "`depth-h200.json`, a run before, cut short"
    return None


def on_gpu(folder: Path) -> list[str]:
    """The table of steps on a GPU."""
    gpu, depth = read(folder, GPU), read(folder, "depth-h200.json")
    rows = []
    for system, _, name, deep, _ in FIELD:
        step = gpu_step(name, deep, gpu, depth)
        if step is not None:
            ours, naive, where = step
            label = f"{system}: {name.split('/')[-1]}"
            rows.append([label, microseconds(ours), microseconds(naive), number(naive / ours), where])
    if not rows:
        return ["", "Not measured."]
    return table(["work", "iclearn", "naive", "times", "from"], rows, "lrrrl")


def summary(files: list[dict[str, Any]]) -> dict[str, Any]:
    """Of the golden files of one public code: how many, and the worst difference of sharp and of loose quantities."""
    found = [q for file in files for q in file.get("quantities", [])]
    sharp = [q for q in found if q["tolerance"] <= DOUBLE]
    loose = [q for q in found if q["tolerance"] > DOUBLE]
    return {
        "files": len(files), "passed": sum(bool(file.get("passed")) for file in files), "sharp": len(sharp),
        "values": sum(q["values"] for q in found), "largest": max((q["largest"] for q in sharp), default=None),
        "loose": loose,
    }  # fmt: skip


def agreed(system: str, agreement: dict[str, Any] | None) -> str:
    """Digits that agree with the golden files of a public code."""
    files = (agreement or {}).get("systems", {}).get(system)
    if not files:
        return "no public code" if system.startswith("no ") else "not measured"
    one = summary(files)
    return f"{digits(one['largest'])} digits" if one["largest"] is not None else "see below"


def golden(folder: Path) -> list[str]:
    """The table of golden files."""
    report = read(folder, "agreement.json")
    if report is None:
        return ["", "Not measured: `python -m benchmarks.side_by_side --agreement` needs the golden files."]
    rows = []
    for system, files in report["systems"].items():
        one = summary(files)
        worst = max(one["loose"], key=lambda q: q["largest"], default=None)
        loose = "" if worst is None else f"{len(one['loose'])}; {worst['name']} {worst['largest']:.1e}"
        largest = "" if one["largest"] is None else f"{one['largest']:.1e}"
        rows.append([
            system, f"{one['passed']} of {one['files']}", number(one["values"]), str(one["sharp"]), largest, loose,
        ])  # fmt: skip
    head = ["public code", "files verified", "numbers", "quantities in double precision", "largest difference"]
    return [
        *table([*head, "others; the largest of them"], rows, "lrrrrl"),
        "", f"From {source('agreement.json', report)}; one file in words: `iclearn verify FILE.npz`.",
    ]  # fmt: skip


def costs(folder: Path) -> list[str]:
    """Fitted exponents."""
    here, compiled = read(folder, CPU), read(folder, "compiled-cpu.json")
    rows = []
    for row in (here or {}).get("cost") or []:
        values = [r["value"] for r in row["rows"]]
        ours = f"{row['exponent']['ours']:.2f}" if "ours" in row["exponent"] else "in the rows below"
        cells = [row["size"], row["what"], f"{values[0]} … {values[-1]}", f"{row['exponent']['naive']:.2f}", ours]
        rows.append([*cells, "", f"`{CPU}`"])
    for name, row in (compiled or {}).get("cost", {}).items():
        values = [r["value"] for r in row["rows"]]
        fits = row["exponent"]
        size, what = name.split(", ", 1)
        span = f"{values[0]} … {values[-1]}"
        cells = [size, f"separate attention, {what}", span, "", f"{fits['xla']:.2f}", f"{fits['compiled']:.2f}"]
        rows.append([*cells, "`compiled-cpu.json`"])
    head = ["size", "work", "values", "naive", "iclearn", "iclearn, compiled (`fast`)", "from"]
    return table(head, rows, "lllrrrl")


def memory(folder: Path) -> list[str]:
    """Peak memory of both sides."""
    here, stream = read(folder, CPU), read(folder, "cpu.json")
    rows = []
    for row in (here or {}).get("memory") or []:
        side = "iclearn" if row["side"] == "ours" else "naive PyTorch"
        rows.append([f"merged attention, P = {row['prompts']:,}", side, number(row["growth_gb"] * 1e3)])
        rows[-1] += [number(row["peak_gb"]), f"`{CPU}`"]
    for row in (stream or {}).get("results", []):
        if row["unit"] == "GB":
            rows.append([row["what"], "iclearn", "", number(row["median"]), "`cpu.json`"])
    return table(["work", "side", "training adds, MB", "peak of the process, GB", "from"], rows, "llrrl")


def startup(folder: Path) -> list[str]:
    """Seconds until something happens."""
    here, name = read(folder, CPU), "shell-cpu.json" if (folder / "shell-cpu.json").exists() else "cpu.json"
    shell, rows = read(folder, name), []
    for row in (here or {}).get("startup") or []:
        rows.append([row["what"], number(min(row["wall_s"])), number(min(row["processor_s"])), f"`{CPU}`"])
    for row in (shell or {}).get("results", []):
        if row["name"].startswith("shell/") and row["name"] != "shell/help":
            cells = [row["what"], number(row["minimum"]), number(min(row["cpu_repeats"])), f"`{name}`"]
            rows.append(cells)
    return table(["what", "seconds", "of the processor", "from"], rows, "lrrl")


def _paper_words(name: str) -> str:
    paper, dash, exact = name.partition("-exact")
    return f"`iclearn reproduce {paper}`, its exact figures" if dash and not exact else f"`iclearn reproduce {name}`"


def papers(folder: Path) -> list[str]:
    """Seconds of whole papers."""
    found: dict[str, list[str]] = {}
    for name in ("papers-cpu.json", "cpu.json", "papers-h200.json"):
        report = read(folder, name) or {"results": []}
        newer = {row["name"] for row in (read(folder, "papers-cpu.json") or {"results": []})["results"]}
        for row in report["results"]:
            if row["name"].startswith("paper/") and not (name == "cpu.json" and row["name"] in newer):
                where = f"{report['machine']['device']}, {report['machine']['cores']} cores"
                cells = found.setdefault(row["name"].removeprefix("paper/"), [])
                cells.append(
                    f"{number(row['median'])} s on {where} ({source(name, row if 'started' in row else report)})"
                )
    rows = [[_paper_words(paper), "; ".join(cells)] for paper, cells in sorted(found.items())]
    return table(["paper", "from shell to page, nothing stored"], rows, "ll")


def sweeps(folder: Path) -> list[str]:
    """The best of each way to train many runs, and its share of the device's peak."""
    rows, seen = [], set()
    for name in ("sweeps-h200-mosaic.json", "sweeps-h200.json", "sweeps-cpu.json"):
        report = read(folder, name) or {"tables": []}
        for one in report["tables"]:
            best: dict[str, Any] = {}
            for row in one["rows"]:
                if row["runs_per_second"] > best.get(row["path"], {"runs_per_second": 0})["runs_per_second"]:
                    best[row["path"]] = row
            for path, row in best.items():
                share = f"{row['share_of_peak']:.1%}" if "share_of_peak" in row else "not counted"
                work = f"{one['name']}, {one['steps']:,} steps"
                if (report["device"], work, PATHS.get(path, path)) in seen:
                    continue  # an earlier measurement of the same
                seen.add((report["device"], work, PATHS.get(path, path)))
                cells = [report["device"], work, PATHS.get(path, path), number(row["runs_per_second"]), share]
                rows.append([*cells, source(name, report)])
    report = read(folder, "compiled-cpu.json") or {"batch": []}
    for one in report["batch"]:
        share = f"{one['share_of_matrix_product']:.0%} of a matrix product"
        work = f"{one['name']}, {one['steps']:,} steps, {one['dtype']}"
        cells = ["cpu", work, "compiled", number(one["runs_per_second"]["compiled"]), share]
        rows.append([*cells, source("compiled-cpu.json", report)])
    return table(["device", "work", "way", "runs a second", "share of peak", "from"], rows, "lllrrl")
