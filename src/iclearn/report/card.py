"""The reproducibility card: the questions reviewers ask, answered from facts noted during the run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import __version__
from ..papers.base import Paper

_SOFTWARE = (
    "iclearn",
    "jax",
    "jaxlib",
    "equinox",
    "optax",
    "diffrax",
    "numpy",
    "scipy",
    "xarray",
    "zarr",
    "matplotlib",
)


def _versions() -> dict[str, str]:
    found = {"iclearn": __version__, "python": platform.python_version()}
    for name in _SOFTWARE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _commit() -> str:
    """The commit of the source tree, where the package runs from one."""
    here = Path(__file__).resolve().parent
    try:
        asked = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=12"],
            cwd=here, capture_output=True, text=True, timeout=10, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return "installed package"
    return asked.stdout.strip()


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def card(paper: Paper, facts: dict[str, dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything one needs to run the paper again, as plain data."""
    figures = {}
    for figure in paper.figures:
        if figure.id not in facts:
            continue
        noted = facts[figure.id]
        recipes = noted["recipes"]
        content = json.dumps(noted["content"])
        figures[figure.id] = {
            "title": figure.title,
            "set_up": figure.setup,
            "seeds": noted["seeds"],
            "seeds_used": sorted({r["seed"] for r in recipes}),
            "runs": len(recipes),
            "data": noted.get("data")
            or sorted({_data_sentence(r["task"]) for r in recipes})
            or ["computed in closed form or drawn on the fly"],
            "splits": noted.get("splits")
            or sorted({_split_sentence(r["task"]) for r in recipes})
            or ["none: nothing is held out"],
            "content_hash": hashlib.sha256(content.encode()).hexdigest(),
            "simulated_seconds": noted["simulated_seconds"],
            "total_seconds": noted["total_seconds"],
            "peak_memory_mb": noted["peak_memory_mb"],
            "devices": noted["devices"],
            "recipes": recipes,
            "verdicts": {v["claim"]: v["verdict"] for v in verdicts if v["figure"] == figure.id},
        }
    return {
        "paper": paper.id,
        "title": paper.title,
        "citation": paper.citation,
        "code": {"package": f"iclearn {__version__}", "source": _commit()},
        "software": _versions(),
        "hardware": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "machine": platform.machine(),
            "system": platform.system(),
        },
        "figures": figures,
    }


def _data_sentence(task: dict[str, Any]) -> str:
    if task["kind"] == "given_data":
        return f"given by the user, SHA-256 {task['digest']}"
    if task["kind"] != "linear_regression":
        return f"{task['kind']}: " + ", ".join(f"{k}={v}" for k, v in sorted(task.items()) if k != "kind")
    prompts = (
        "infinitely many prompts (integrated in closed form or drawn fresh)"
        if task["num_prompts"] is None
        else f"{task['num_prompts']} prompts drawn once per seed"
    )
    spectrum = task["covariance"]["shape"]
    sizes = f"D={task['dim']}, N={task['context_len']}, {spectrum} spectrum"
    return f"synthetic, {prompts}, {sizes}, threefry streams of the root seed"


def _split_sentence(task: dict[str, Any]) -> str:
    tests = task.get("test_prompts", 0)
    if tests:
        return f"training set as above; test sets in_weight and in_context, {tests} prompts each, streams of their own"
    return "training loss only: no test split"


def card_markdown(facts: dict[str, Any]) -> str:
    """The card for people."""
    lines = [f"# Reproducibility card: {facts['paper']}", "", facts["citation"], ""]
    lines += ["| question | answer |", "|---|---|"]
    hardware, software = facts["hardware"], facts["software"]
    machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['system']} {hardware['machine']}"
    total = sum(f["simulated_seconds"] for f in facts["figures"].values())
    memory = max((f["peak_memory_mb"] for f in facts["figures"].values()), default=0)
    versions = ", ".join(f"{name} {v}" for name, v in software.items())
    lines += [
        f"| Is the code available? | Yes: {facts['code']['package']}, source {facts['code']['source']} |",
        f"| Hardware stated? | Yes: {machine} |",
        f"| Software versions? | Yes: {versions} |",
        "| Exact set-up? | Yes: every figure's recipes are in card.json, each with its hash |",
        "| Data and splits? | Yes: below, figure by figure, with seeds and content hashes |",
        "| Seeds and repetitions? | Yes: seeds 0, 1, 2, … in order, never chosen; all of them are judged |",
        f"| Cost? | Yes: {total:.0f} s of simulation in all, at most {memory:.0f} MB of memory |",
        "",
    ]
    for name, figure in facts["figures"].items():
        lines += [f"## {name}: {figure['title']}", "", "```", figure["set_up"], "```", ""]
        lines += [f"- data: {'; '.join(figure['data'])}", f"- splits: {'; '.join(figure['splits'])}"]
        lines += [
            f"- runs: {figure['runs']}; seeds used: {figure['seeds_used'] or 'none'}",
            f"- content hash: {figure['content_hash']}",
        ]
        lines += [
            f"- cost: {figure['simulated_seconds']:.1f} s simulated, {figure['total_seconds']:.1f} s in all, "
            f"peak memory {figure['peak_memory_mb']:.0f} MB, on {', '.join(figure['devices']) or 'cpu'}"
        ]
        told = ", ".join(f"{claim}: {word}" for claim, word in figure["verdicts"].items())
        lines += [f"- verdicts: {told or 'none'}", ""]
    return "\n".join(lines)
