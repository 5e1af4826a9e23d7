"""Wheel and source distribution of a commit: built from a clean export, compared, and tried in a clean environment.

dev/build [--commit HEAD] [--out dist] [--twice] [--check]

Times in both files are those of the commit (SOURCE_DATE_EPOCH), so two builds of one commit by the same tools
(dev/build-tools.txt) are the same bytes.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TRAIN = "train --model attnM --heads 1 --dim 2 --context 8 --prompts inf --init 0.3 --lr 0.05 --steps 300 --no-text"
# What a fresh install has to do, beside `doctor`: a run, the explorer, a shipped sweep, claims, formulas, completion.
COMMANDS = (
    TRAIN,
    "list",
    "explore --static page.html",
    "sweep plateaus --dry-run",
    "sweep prior-gap --dry-run",
    "reproduce zhang2025 --list",
    "theory zhang2025 --eigenvalues 0.5 0.3 0.2 --context 20 --json",
    "cite",
    "completion bash",
)


def git(*words: str) -> bytes:
    """What git prints for this repository."""
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, check=True).stdout


def commit_time(commit: str) -> str:
    """Seconds since 1970 at which a commit was made."""
    return git("show", "--no-patch", "--format=%ct", commit).decode().split()[-1]


def export(commit: str, folder: Path) -> Path:
    """The files of a commit in a folder, without git and without anything that lies in the checkout beside them."""
    folder.mkdir(parents=True)
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        archive.extractall(folder, filter="data")
    return folder


def build(source: Path, out: Path, epoch: str, targets: str = "sdist,wheel") -> dict[str, str]:
    """Build from an exported folder.

    Args:
        source: the folder.
        out: where the files go.
        epoch: the time that they shall carry.
        targets: which of sdist and wheel.

    Returns:
        File → sha256.
    """
    words = [word for target in targets.split(",") for word in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(out), *words]
    env = {**os.environ, "SOURCE_DATE_EPOCH": epoch}
    done = subprocess.run(command, cwd=source, env=env, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{targets} could not be built: {done.stderr.strip()}")
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(out.iterdir())}


def unpacked(sdist: Path, folder: Path) -> Path:
    """The one folder inside a source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (inside,) = folder.iterdir()
    return inside


def missing(commit: str, out: Path) -> list[str]:
    """Files of the commit that should have been packed and were not: all of the package, all but CI in the source."""
    tracked = git("ls-tree", "-r", "--name-only", commit).decode().splitlines()
    (wheel,) = out.glob("*.whl")
    (sdist,) = out.glob("*.tar.gz")
    packed = set(zipfile.ZipFile(wheel).namelist())
    with tarfile.open(sdist) as archive:
        sources = {name.partition("/")[2] for name in archive.getnames()}
    package = [name for name in tracked if name.startswith("src/") and name.removeprefix("src/") not in packed]
    return package + [name for name in tracked if not name.startswith(".ci/") and name not in sources]


def twice(commit: str, folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    """Sums of two builds: one of the export, and one later, elsewhere, by another umask, its wheel from the sdist."""
    epoch = commit_time(commit)
    first = build(export(commit, folder / "a"), folder / "first", epoch)
    before = os.umask(0o077)
    try:
        source = export(commit, folder / "elsewhere" / "b")
        for file in source.rglob("*"):
            os.utime(file, (1, 1))
        build(source, folder / "second", epoch, "sdist")
        inside = unpacked(next((folder / "second").glob("*.tar.gz")), folder / "from-sdist")
        second = build(inside, folder / "second", epoch, "wheel")
    finally:
        os.umask(before)
    return first, second


def check(wheel: Path, folder: Path) -> None:
    """Install a wheel into a virtual environment that has nothing else, and use it there.

    Args:
        wheel: the file.
        folder: the environment and what the commands write.
    """
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    bin_, work = folder / "venv" / "bin", folder / "work"
    work.mkdir()
    install = [str(bin_ / "pip"), "install", "--quiet", "--disable-pip-version-check", str(wheel)]
    subprocess.run(install, check=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ICLEARN", "JAX"))}
    env |= {"XDG_CACHE_HOME": str(folder / "cache"), "MPLBACKEND": "Agg", "JAX_PLATFORMS": "cpu"}

    def run(*words: str) -> str:
        done = subprocess.run([str(bin_ / words[0]), *words[1:]], cwd=work, env=env, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    where = run("python", "-c", "import iclearn; print(iclearn.__version__, iclearn.__file__)").split()
    if not Path(where[1]).is_relative_to(folder / "venv") or f"-{where[0]}-" not in wheel.name:
        raise SystemExit(f"iclearn {where[0]} was imported from {where[1]}, not the wheel")
    for finding in json.loads(run("iclearn", "doctor", "--json")):
        print(f"  {finding['what']}: {finding['found']}")
    for command in COMMANDS:
        run("iclearn", *command.split())
        print(f"  iclearn {command}: fine")
    if (work / "page.html").stat().st_size < 1e5:
        raise SystemExit("the page of the explorer is not whole")


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="dev/build", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", default="HEAD", help="what to build (what is not committed is left out)")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder of the two files; emptied of others")
    parser.add_argument("--twice", action="store_true", help="build again elsewhere and compare the bytes")
    parser.add_argument("--check", action="store_true", help="install the wheel into a clean environment and use it")
    args = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="iclearn-build-") as temporary:
        folder = Path(temporary)
        sums = build(export(args.commit, folder / "source"), folder / "out", commit_time(args.commit))
        if left_out := missing(args.commit, folder / "out"):
            raise SystemExit(f"not packed: {', '.join(left_out)}")
        if args.twice:
            if (again := twice(args.commit, folder / "twice")) != (sums, sums):
                raise SystemExit(f"the builds differ: {json.dumps([sums, *again], indent=1)}")
            print("three builds, one from the source distribution: the same bytes")
        if args.check:
            (wheel,) = (folder / "out").glob("*.whl")
            check(wheel, folder / "clean")
        args.out.mkdir(parents=True, exist_ok=True)
        for old in (*args.out.glob("iclearn-*.whl"), *args.out.glob("iclearn-*.tar.gz")):
            old.unlink()
        for name, digest in sums.items():
            shutil.copy(folder / "out" / name, args.out / name)
            print(f"{digest}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
