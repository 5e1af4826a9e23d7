"""Mutation tests: every formula of a list is broken, one at a time and in a copy, and the named tests must notice.

The list is in `dev/mutations-*.toml`. Each `[[file]]` has a path below src/iclearn and the tests that must catch its
mutations; each `[[file.mutation]]` has an id, what it breaks in words, the exact text (which must occur once in the
file) and what takes its place, and tests of its own where they differ. A mutation that changes nothing that could be
noticed says why in `equivalent`: it is run and shown, and does not count.

The tests run once unmutated first and must pass. Exit status: 0 with a score of at least 95 %, 1 below it or if an
equivalent mutation is caught, 2 if the list does not fit the source or the tests fail unmutated.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENOUGH = 0.95
# The first example that fails is enough: to find a smaller one may take minutes, all of them compiling.
NO_SHRINKING = """from hypothesis import Phase, settings
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate])
settings.load_profile("mutants")
"""
LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "runs", "reproduced", "results", "*.zarr")


@dataclass(frozen=True)
class Mutation:
    """One text of one file that another takes the place of, and the tests that must notice."""

    id: str
    what: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    equivalent: str = ""

    def applied(self, root: Path) -> str:
        """The mutated text of the file; refused where the old text does not occur exactly once."""
        path = root / self.file
        text = path.read_text() if path.is_file() else ""
        if (count := text.count(self.old)) != 1:
            raise ValueError(f"{self.id}: {self.file} has {count} times, and not once: {self.old}")
        if self.old == self.new:
            raise ValueError(f"{self.id}: nothing is changed")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Result:
    """What became of a mutation: `caught_by` is a test id or the reason in words, empty where it survived."""

    id: str
    what: str
    file: str
    caught_by: str
    seconds: float
    equivalent: str

    @property
    def verdict(self) -> str:
        if self.equivalent:
            return f"equivalent, but caught by {self.caught_by}" if self.caught_by else "equivalent"
        return self.caught_by or "SURVIVED"


def read_list(files: Iterable[Path], source: str) -> list[Mutation]:
    """All mutations of the list, in its order."""
    found = []
    for file in files:
        for entry in tomllib.loads(file.read_text())["file"]:
            path, tests = f"{source}/{entry['path']}", entry["tests"]
            for row in entry["mutation"]:
                own = {**row, "tests": tuple(row.get("tests", tests))}
                found.append(Mutation(file=path, **own))
    ids = [mutation.id for mutation in found]
    if twice := sorted({name for name in ids if ids.count(name) > 1}):
        raise ValueError(f"these ids are used twice: {', '.join(twice)}")
    return found


def misfits(mutations: Iterable[Mutation], root: Path) -> list[str]:
    """What the source no longer has, or more than once; and tests that are not there."""
    words = []
    for mutation in mutations:
        try:
            mutation.applied(root)
        except ValueError as error:
            words.append(str(error))
        words += [f"{mutation.id}: no test file {t}" for t in mutation.tests if not (root / t.split("::")[0]).is_file()]
    return words


def copy_tree(root: Path, place: Path) -> Path:
    """A copy of the working tree; data beside it (`../shared`) are linked, not copied."""
    place.mkdir()
    shutil.copytree(root, place / "tree", ignore=LEFT_OUT)
    if (root.parent / "shared").is_dir():
        (place / "shared").symlink_to(root.parent / "shared")
    return place / "tree"


def run_tests(tree: Path, tests: Iterable[str], cache: Path, limit: float) -> tuple[int | None, str]:
    """Exit status of pytest (None where it ran out of time), and the test that failed first, or its last words."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-rfE", "--tb=line", "-p", "no:cacheprovider"]
    command += ["-p", "no_shrinking", "--hypothesis-seed=0", *tests]
    paths = os.pathsep.join([str(tree / "src"), str(cache)])
    environment = os.environ | {"PYTHONPATH": paths, "XDG_CACHE_HOME": str(cache)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tree, env=environment, start_new_session=True, **pipes) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return None, f"timeout after {limit:g} s"
    failed = re.search(r"^(FAILED|ERROR) (\S.*?)(?: - .*)?$", output, re.MULTILINE)
    if failed is None:
        return process.returncode, (output.strip().splitlines() or ["no output"])[-1]
    name = failed.group(2)
    return process.returncode, name if "::" in name else f"{name}, which cannot be imported"


class Workshop:
    """Copies of the tree, one for each job, in which tests run."""

    def __init__(self, root: Path, place: Path, jobs: int, limit: float):
        self.cache, self.limit = place / "cache", limit
        self.cache.mkdir()
        (self.cache / "no_shrinking.py").write_text(NO_SHRINKING)
        self.trees: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for job in range(jobs):
            self.trees.put(copy_tree(root, place / f"job{job}"))

    def unmutated(self, test: str) -> str:
        """Why a test does not pass as the source is; empty where it does."""
        tree = self.trees.get()
        try:
            status, words = run_tests(tree, [test], self.cache, 10 * self.limit)
        finally:
            self.trees.put(tree)
        return "" if status == 0 else f"{test}: {words}"

    def mutated(self, mutation: Mutation) -> Result:
        """Break one formula and run its tests."""
        tree, begin = self.trees.get(), time.monotonic()
        path = tree / mutation.file
        whole = path.read_text()
        try:
            path.write_text(mutation.applied(tree))
            # Compiled files are told apart by size and whole seconds only.
            shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
            status, words = run_tests(tree, mutation.tests, self.cache, self.limit)
        finally:
            path.write_text(whole)
            shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
            self.trees.put(tree)
        if status in (4, 5):
            raise ValueError(f"{mutation.id}: pytest cannot run {' '.join(mutation.tests)}: {words}")
        caught_by = "" if status == 0 else words
        seconds = round(time.monotonic() - begin, 1)
        return Result(mutation.id, mutation.what, mutation.file, caught_by, seconds, mutation.equivalent)


def merged(new: list[Result], rows: list[dict], whole: list[Mutation]) -> list[Result]:
    """New results and, for the other mutations of the list, those of an earlier run, in the order of the list."""
    known = {row["id"]: Result(**{k: v for k, v in row.items() if k != "verdict"}) for row in rows}
    known |= {result.id: result for result in new}
    return [known[mutation.id] for mutation in whole if mutation.id in known]


def score(results: list[Result]) -> tuple[int, int]:
    """How many were caught, of how many that are not equivalent."""
    counted = [result for result in results if not result.equivalent]
    return sum(bool(result.caught_by) for result in counted), len(counted)


def markdown(results: list[Result]) -> str:
    """The page of results."""
    caught, total = score(results)
    today = datetime.datetime.now(datetime.UTC).date()
    lines = [
        "# Mutations",
        "",
        "`dev/mutants` breaks one formula at a time in a copy of the source (a sign, a factor, an index, a power) and "
        "runs the tests that must notice. The list is in `dev/mutations-*.toml`. This page is written by `dev/mutants "
        "--markdown docs/mutants.md`. Ids T, E, P and J are those of the audit of November 2026, which 13 of 40 "
        "survived; the others were written down before any of them was run. When first run, 35 of the list survived "
        "the tests named for them (two only because the wrong test was named); tests that state the property were "
        "then added. An equivalent mutation changes nothing that a test could notice, and does not count.",
        "",
        f"**{caught} of {total} mutations are caught ({caught / total:.1%}), {today}.**",
        "",
        "| id | file | mutation | caught by |",
        "|---|---|---|---|",
    ]
    for result in results:
        by = f"`{result.caught_by}`" if "::" in result.caught_by else result.caught_by or "**SURVIVED**"
        if result.equivalent:
            by = f"equivalent: {result.equivalent}" + (f" **but caught by** {by}" if result.caught_by else "")
        by = by.replace("tests/", "", 1).replace("|", "\\|")
        file = result.file.removeprefix("src/iclearn/")
        lines.append(f"| {result.id} | `{file}` | {result.what} | {by} |".replace("\n", " "))
    return "\n".join(lines) + "\n"


def arguments(argv: list[str] | None) -> argparse.Namespace:
    about, _, details = (__doc__ or "").partition("\n\n")
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="dev/mutants", description=about, epilog=details, formatter_class=raw)
    parser.add_argument("ids", nargs="*", help="mutations to run (default: all)")
    parser.add_argument("--jobs", type=int, default=2, help="tests that run at once (default: 2)")
    parser.add_argument("--timeout", type=float, default=240, help="seconds for a mutation; beyond it is caught")
    parser.add_argument("--check", action="store_true", help="only see that the list fits the source")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="show what an earlier --json says of all others, too")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a page of results here")
    parser.add_argument("--root", type=Path, default=ROOT, help="the tree to mutate (default: this one)")
    parser.add_argument("--list", type=Path, nargs="*", help="files of the list (default: dev/mutations-*.toml)")
    parser.add_argument("--source", default="src/iclearn", help="folder of the listed paths (default: src/iclearn)")
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = arguments(argv)
    root = options.root.resolve()
    try:
        whole = read_list(options.list or sorted((root / "dev").glob("mutations-*.toml")), options.source)
        if unknown := set(options.ids) - {mutation.id for mutation in whole}:
            raise ValueError(f"no such mutations: {', '.join(sorted(unknown))}")
    except ValueError as error:
        print(error)
        return 2
    chosen = [mutation for mutation in whole if not options.ids or mutation.id in options.ids]
    if words := misfits(chosen, root):
        print(*words, "the list does not fit the source: see dev/mutations-*.toml", sep="\n")
        return 2
    if options.check:
        print(f"{len(chosen)} mutations fit the source")
        return 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, ThreadPoolExecutor(options.jobs) as pool:
        shop = Workshop(root, Path(place), options.jobs, options.timeout)
        tests = sorted({test for mutation in chosen for test in mutation.tests})
        print(f"{len(tests)} tests or files of tests, unmutated", flush=True)
        if failed := [words for words in pool.map(shop.unmutated, tests) if words]:
            print("these must pass before anything is mutated:", *failed, sep="\n")
            return 2
        results = []
        for result in pool.map(shop.mutated, chosen):
            results.append(result)
            print(f"{result.id:5} {result.what:70} {result.verdict} ({result.seconds:g} s)", flush=True)
    if options.keep:
        results = merged(results, json.loads(options.keep.read_text())["mutations"], whole)
    caught, total = score(results)
    print(f"{caught} of {total} mutations caught: {caught / max(total, 1):.1%}")
    if options.json:
        rows = [asdict(result) | {"verdict": result.verdict} for result in results]
        options.json.write_text(json.dumps({"caught": caught, "total": total, "mutations": rows}, indent=1) + "\n")
    if options.markdown:
        options.markdown.write_text(markdown(results))
    wrong = [result.id for result in results if result.equivalent and result.caught_by]
    if wrong:
        print(f"not equivalent after all: {', '.join(wrong)}")
    return 1 if wrong or caught < ENOUGH * total else 0


if __name__ == "__main__":
    sys.exit(main())
