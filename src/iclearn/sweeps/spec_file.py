"""A sweep written down: the YAML file that `iclearn sweep` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..core.errors import IclearnError
from .api import make_plan
from .plan import ComputePath, Plan

KEYS = ("name", "base", "axes", "seeds", "reduce", "chunk")


def read_spec(path: str | Path) -> dict[str, Any]:
    """The file's table, its keys checked."""
    import yaml

    path = Path(path)
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise IclearnError(f"there is no file {path}") from None
    except UnicodeDecodeError:
        raise IclearnError(f"{path} is not a text file") from None
    try:
        data = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark is not None else ""
        raise IclearnError(f"{path}{where} is not YAML: {getattr(error, 'problem', None) or error}") from None
    if not isinstance(data, dict) or "base" not in data:
        raise IclearnError(f"{path} must be a table with base: and axes: (and {', '.join(KEYS)})")
    if unknown := [key for key in data if key not in KEYS]:
        raise IclearnError(f"{path} has no key {unknown[0]!r}; keys are {', '.join(KEYS)}")
    for key in ("axes", "reduce"):
        if not isinstance(data.get(key) or {}, dict):
            raise IclearnError(f"{path}: {key} must be a table, not {data[key]!r}")
    return data


def plan_from_file(path: str | Path, *, chunk: int | None = None, compute: ComputePath = "auto") -> Plan:
    """The plan of a YAML file."""
    data = read_spec(path)
    return make_plan(
        data["base"],
        data.get("axes"),
        data.get("seeds"),
        reduce=data.get("reduce"),
        name=str(data.get("name") or Path(path).stem),
        chunk=chunk if chunk is not None else data.get("chunk"),
        path=compute,
    )
