"""Run cases and write what they gave. One that fails or cannot run here is reported, and stops no other."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from .machine import machine, now, source_digest, versions
from .measure import Case, Skip

FORMAT = 1


def run(cases: Sequence[Case], *, quick: bool) -> dict[str, Any]:
    """The report: machine, versions, load, and under ``results``, ``skipped`` and ``failed`` every case."""
    report: dict[str, Any] = {
        "format": FORMAT,
        "quick": quick,
        "started": now(),
        "machine": machine(),
        "versions": versions(),
        "source": source_digest(),
        "load_average_before": list(os.getloadavg()),
        "results": [],
        "skipped": [],
        "failed": [],
    }
    for case in cases:
        try:
            results = case.run()
        except Skip as reason:
            report["skipped"].append({"name": case.name, "reason": str(reason)})
            _say(f"{case.name}: skipped, {reason}")
        except Exception as error:
            report["failed"].append({"name": case.name, "error": f"{type(error).__name__}: {error}"})
            _say(f"{case.name}: FAILED, {type(error).__name__}: {error}")
        else:
            for result in results:
                report["results"].append(result.to_dict())
                aim = "" if result.target is None else f" (target {result.target:g})"
                _say(f"{result.name}: {result.median:.4g} {result.unit}, minimum {result.minimum:.4g}{aim}")
    return report | {"load_average_after": list(os.getloadavg()), "finished": now()}


def selected(cases: Iterable[Case], only: Sequence[str] | None) -> list[Case]:
    """The cases whose names begin so; with none named, all but the long ones."""
    if only:
        return [case for case in cases if case.name.startswith(tuple(only))]
    return [case for case in cases if not case.long]


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def as_json(report: dict[str, Any]) -> str:
    return json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def write(report: dict[str, Any], path: Path) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.partial")
    temporary.write_text(as_json(report), encoding="utf-8")
    os.replace(temporary, path)
