"""The reproducibility card: the questions reviewers ask, answered from facts noted during the run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any

from .. import __version__
from ..core.provenance import hardware, source_commit, versions
from ..core.recipe import Recipe
from ..core.task import AbstractTask
from ..papers.base import Paper


def card(paper: Paper, facts: dict[str, dict[str, Any]], verdicts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Everything one needs to run a paper again, as plain data.

    Args:
        paper: what was reproduced.
        facts: figure → what was noted while it was collected (`papers.collect`).
        verdicts: of its claims, as dicts.
    """
    figures = {}
    for figure in paper.figures:
        if figure.id not in facts:
            continue
        noted = facts[figure.id]
        recipes = noted["recipes"]
        data = noted.get("data") or _sentences(recipes, lambda task: task.describe_data())
        splits = noted.get("splits") or _sentences(recipes, lambda task: task.describe_splits())
        figures[figure.id] = {
            "title": figure.title,
            "set_up": figure.setup,
            "seeds": noted["seeds"],
            "seeds_used": sorted({r["seed"] for r in recipes}),
            "runs": max(noted.get("trained", 0), len(recipes)),
            "stale": noted.get("stale", 0),
            "data": data or ["computed in closed form or drawn on the fly"],
            "splits": splits or ["none: nothing is held out"],
            "content_hash": hashlib.sha256(json.dumps(noted["content"]).encode()).hexdigest(),
            **{name: noted[name] for name in ("simulated_seconds", "total_seconds", "peak_memory_mb", "devices")},
            "recipes": recipes,
            "verdicts": {v["claim"]: v["verdict"] for v in verdicts if v["figure"] == figure.id},
        }
    code = {"package": f"iclearn {__version__}", "source": source_commit()}
    about = {"paper": paper.id, "title": paper.title, "citation": paper.citation, "code": code}
    return {**about, "software": versions(), "hardware": hardware(), "figures": figures}


def _sentences(recipes: Sequence[dict[str, Any]], describe: Callable[[AbstractTask], str]) -> list[str]:
    """What the tasks of these recipes say of themselves, each sentence once."""
    different = {json.dumps(recipe["task"], sort_keys=True): recipe for recipe in recipes}
    return sorted({describe(Recipe.from_dict(recipe).task) for recipe in different.values()})


def card_markdown(facts: dict[str, Any]) -> str:
    """What `card` returned, as Markdown."""
    hardware, software = facts["hardware"], facts["software"]
    machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['system']} {hardware['machine']}"
    total = sum(f["simulated_seconds"] for f in facts["figures"].values())
    memory = max((f["peak_memory_mb"] for f in facts["figures"].values()), default=0)
    versions = ", ".join(f"{name} {v}" for name, v in software.items())
    lines = [
        f"# Reproducibility card: {facts['paper']}", "", facts["citation"], "",
        "| question | answer |", "|---|---|",
        f"| Is the code available? | Yes: {facts['code']['package']}, source {facts['code']['source']} |",
        f"| Hardware stated? | Yes: {machine} |",
        f"| Software versions? | Yes: {versions} |",
        "| Exact set-up? | Yes: every figure's recipes are in card.json, each with its hash |",
        "| Data and splits? | Yes: below, figure by figure, with seeds and content hashes |",
        "| Seeds and repetitions? | Yes: seeds 0, 1, 2, … in order, never chosen; all of them are judged |",
        f"| Cost? | Yes: {total:.0f} s of simulation in all, at most {memory:.0f} MB of memory |",
        "",
    ]  # fmt: skip
    for name, figure in facts["figures"].items():
        seconds = f"{figure['simulated_seconds']:.1f} s simulated, {figure['total_seconds']:.1f} s in all"
        memory = f"peak memory {figure['peak_memory_mb']:.0f} MB"
        verdicts = ", ".join(f"{claim}: {word}" for claim, word in figure["verdicts"].items())
        lines += [
            f"## {name}: {figure['title']}", "", "```", figure["set_up"], "```", "",
            f"- data: {'; '.join(figure['data'])}",
            f"- splits: {'; '.join(figure['splits'])}",
            f"- runs: {figure['runs']}; seeds used: {figure['seeds_used'] or 'none'}",
            f"- content hash: {figure['content_hash']}",
            f"- cost: {seconds}, {memory}, on {', '.join(figure['devices']) or 'cpu'}",
            f"- verdicts: {verdicts or 'none'}", "",
        ]  # fmt: skip
    return "\n".join(lines)
