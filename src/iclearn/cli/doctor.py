"""`iclearn doctor`: versions, devices, caches, memory and extras of this machine, and a number that has to come out."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution, requires
from pathlib import Path

from .output import json_text
from .parsing import parse

EXTRAS = {
    "fast": "small models trained by compiled code",
    "explore": "the explorer with Python behind it",
    "dask": "sweeps over several machines",
    "boost": "boosted trees among the predictors",
    "llm": "language models with an initial guess",
    "docs": "the documentation as a site",
    "bench": "benchmarks against naive scripts",
    "test": "the checks",
}
# The least loss of linear attention, Σ λ (1 − λ/((1 + 1/N) λ + tr Σ/N)) (zhang2025, (11), (19)), λ = 1/3, 2/3, N = 8
EXPECTED = 17 / 63


@dataclass(frozen=True)
class DoctorArgs:
    """Say what iclearn finds on this machine, and whether one known number comes out."""

    json: bool = False
    """Print as JSON."""


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, whether that is right, and whether it is there (a part that is not
    needed may be missing)."""

    what: str
    found: str
    fine: bool = True
    there: bool = True


def run(argv: Sequence[str]) -> int:
    """Carry out ``iclearn doctor``: 0 where everything needed is there and the number comes out, else 1."""
    args = parse(DoctorArgs, argv, "iclearn doctor")
    findings = examine()
    if args.json:
        print(json_text([vars(finding) for finding in findings]))
    else:
        width = max(len(finding.what) for finding in findings)
        for finding in findings:
            mark = "✗" if not finding.fine else "✓" if finding.there else "-"
            print(f"{mark} {finding.what:<{width}}  {finding.found}")
    return 0 if all(finding.fine for finding in findings) else 1


def examine() -> list[Finding]:
    """Everything that `iclearn doctor` looks at, in order."""
    from ..core.provenance import versions

    found = versions()
    missing = sorted(name for name, text in found.items() if text == "not installed")
    told = ", ".join(f"{name} {text}" for name, text in found.items() if name not in ("iclearn", "python", "numerics"))
    return [
        Finding("iclearn", f"{found['iclearn']}, numerics {found['numerics']}"),
        Finding("python", f"{found['python']}, {sys.executable}"),
        Finding("packages", told, fine=not missing),
        *devices(),
        *room(),
        *[extra(name, use) for name, use in EXTRAS.items()],
        browser(),
        known_number(),
    ]


def devices() -> list[Finding]:
    """What JAX computes on, and how it is set."""
    import jax

    from ..core.jax_settings import configure

    try:
        names = [f"{device.device_kind} ({device.platform})" for device in jax.devices()]
    except RuntimeError as error:
        return [Finding("devices", f"JAX finds none: {str(error).splitlines()[0]}", fine=False)]
    now = configure()
    precision = f"double precision {'on' if now.x64 else 'off'}, matrix products {now.matmul_precision}"
    return [Finding("devices", f"{len(names)}: {', '.join(sorted(set(names)))}; {precision}", fine=now.x64)]


def room() -> list[Finding]:
    """Memory, the cache of compiled programs, and space for runs."""
    from ..core.jax_settings import configure

    memory = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 0
    free = shutil.disk_usage(Path.cwd()).free
    folder = configure().compile_cache
    files = [entry for entry in Path(folder).iterdir() if entry.is_file()] if folder and Path(folder).is_dir() else []
    size = sum(entry.stat().st_size for entry in files)
    cache = f"{folder}: {len(files)} files, {size / 1e6:.0f} MB" if folder else "off: every process compiles again"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return [
        Finding("free memory", f"{memory / 1e9:.1f} GB, {cores} cores"),
        Finding("space for runs", f"{free / 1e9:.1f} GB free here", fine=free > 1e8),
        Finding("compiled programs", cache),
    ]


def extra(name: str, use: str) -> Finding:
    """Whether what an extra needs is installed. One that is not there is no fault.

    Args:
        name: of the extra.
        use: what it is for.

    Returns:
        What to say.

    >>> extra("nonsense", "nothing").found
    'not of this release'
    """
    what = f"extra {name}"
    try:
        needs = [need for need in requires("iclearn") or [] if re.search(rf"""extra\s*==\s*['"]{name}['"]""", need)]
    except PackageNotFoundError:
        return Finding(what, "iclearn itself is not installed: pip install .", there=False)
    if not needs:
        return Finding(what, "not of this release", there=False)
    missing = sorted(package for package in map(package_of, needs) if not installed(package))
    if not missing:
        return Finding(what, f"there ({use})")
    advice = f"pip install 'iclearn[{name}]' for {', '.join(missing)}"
    return Finding(what, f"not there ({use}): {advice}", there=False)


def package_of(need: str) -> str:
    """The name of a requirement.

    >>> package_of("dask[distributed]>=2024.8; extra == 'dask'")
    'dask'
    """
    return re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0]


def installed(package: str) -> bool:
    """Whether a distribution of this name is installed."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def browser() -> Finding:
    """A browser for the tests of pages; nothing else needs one."""
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    path = next((found for name in names if (found := shutil.which(name))), None)
    driver = importlib.util.find_spec("playwright") is not None
    found = f"{path or 'none'}{'' if driver else '; playwright is not installed'} (tests of pages)"
    return Finding("browser", found, there=path is not None and driver)


def known_number() -> Finding:
    """One head of linear attention trained to rest on the exact loss: its end is known in closed form."""
    from ..engines.simulate import simulate
    from ..store.linattn import recipe_of_flags
    from .train_flags import PUBLIC_FLAGS, TrainArgs

    flags = {
        "model": "attnM",
        "heads": 1,
        "dim": 2,
        "context": 8,
        "prompts": "inf",
        "init": 0.3,
        "lr": 0.05,
        "steps": 3000,
    }
    words = [word for name, value in flags.items() for word in (f"--{name}", str(value))]
    begin = time.perf_counter()
    recipe, _, _ = recipe_of_flags(parse(TrainArgs, words, "iclearn doctor", PUBLIC_FLAGS))
    loss = float(simulate(recipe).loss.values[-1])
    told = f"loss {loss:.12f}, closed form {EXPECTED:.12f}, {time.perf_counter() - begin:.1f} s"
    return Finding("self-check", told, fine=abs(loss - EXPECTED) < 1e-10)
