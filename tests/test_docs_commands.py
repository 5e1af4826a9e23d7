"""Every command of README and docs: those in blocks are run, those in sentences have flags that exist.

Blocks are run page by page in one folder, in the order of their lines, with `iclearn` in this process. `INSTEAD` says
what is run in the place of a command that takes minutes, a GPU or data, and `reproduce` lists its claims (`instead`);
nothing else is replaced.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import yaml

from iclearn.cli import COMMANDS, main
from iclearn.core.registry import PAPERS
from iclearn.store import Store
from iclearn.sweeps.api import make_plan
from iclearn.sweeps.plan import ComputePath

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FIGURE3 = "iclearn train --model attnS --head 5 --init 1e-2 --epoch 21 --lr 0.02 --trainset_size 100"

# command of a page → what is run instead, and why
INSTEAD = {
    "dev/figure3": (f"{FIGURE3} --track_value --plot figure3.png", "its own command, smaller, without an environment"),
    "dev/check": ("", "it runs this suite; its syntax is checked"),
    "dev/build --twice --check": ("", "tests/test_packaging.py builds twice and, marked slow, installs the wheel"),
    "dev/build": ("", "as above"),
    "pip install .": ("", "as above"),
    "podman build -t iclearn:0.1.0 .": ("", "no container engine: tests/test_packaging.py reads the file"),
    "podman run --rm iclearn:0.1.0 doctor": ("iclearn doctor", "without the container"),
    'podman run --rm -v "$PWD":/work iclearn:0.1.0 reproduce zhang2025 fig4': (
        "iclearn reproduce zhang2025 fig4 --list", "without the container; minutes",
    ),
    "iclearn explore": ("iclearn explore --static explorer.html", "it would serve until it is stopped"),
    "iclearn report": ("iclearn report lr", "nothing is reproduced here: a sweep is read"),
    "iclearn report sweeps/lr-1a2b3c4d --out lr.html": ("iclearn report lr --out lr.html", "the sweep of this folder"),
    "iclearn report reproduced/zhang2025 --out zhang.html": (
        "iclearn report lr --out zhang.html", "nothing is reproduced here",
    ),
    "iclearn sweep plateaus": ("iclearn sweep plateaus --dry-run", "minutes"),
    "iclearn sweep plateaus --preset full --device gpu": ("iclearn sweep plateaus --dry-run", "a GPU"),
    "iclearn sweep prior-gap --preset full --device gpu": ("iclearn sweep prior-gap --dry-run", "a GPU"),
    "iclearn sweep pools": ("iclearn sweep pools --help", "a minute; tests/papers has its figure"),
    "iclearn sweep examples/sweeps/learning-rate.yaml --out lr --workers 2": (
        "iclearn sweep examples/sweeps/learning-rate.yaml --out lr", "tests/sweeps has worker processes",
    ),
}  # fmt: skip


def lines_of(block: str) -> list[str]:
    """The commands of a block, comments taken off; a script with #! is one."""
    if block.startswith("#!"):
        return [block]
    return [line for line in (re.sub(r"\s+# .*", "", line).strip() for line in block.splitlines()) if line]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.S | re.M)


def instead(line: str) -> str:
    """What is run for a command."""
    if line in INSTEAD:
        return INSTEAD[line][0]
    if line.startswith("iclearn reproduce ") and "--list" not in line:
        return f"{line} --list"  # minutes to an hour; tests/papers judges the claims on example data
    return line


def run(line: str) -> None:
    """Run one command line of `iclearn` here."""
    words = shlex.split(line)
    assert words[0] == "iclearn", line
    target = None
    if ">" in words:
        words, target = words[: words.index(">")], words[words.index(">") + 1]
    with redirect_stdout(io.StringIO()) as said, redirect_stderr(io.StringIO()) as complaint:
        try:
            code = main(words[1:])
        except SystemExit as end:  # --help
            code = end.code
    assert code == 0, f"{line}: {complaint.getvalue()[-500:]}"
    assert said.getvalue().strip() or target, line
    if target:
        Path(target).write_text(said.getvalue())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with what the commands read: the examples, data and weights, a golden file, a sweep."""
    place, before = tmp_path_factory.mktemp("commands"), Path.cwd()
    os.chdir(place)
    (place / "examples").symlink_to(ROOT / "examples")
    rng = np.random.default_rng(0)
    tokens = rng.normal(size=(20, 6, 3))
    tokens[:, -1, -1] = 0
    np.savez("mine.npz", x=tokens, y_q=rng.normal(size=20))
    first, second = 0.1 * rng.normal(size=(2, 4, 3, 3))
    np.savez("start.npz", weights_kq=first, weights_value=second)
    settings = {
        "layers": 1, "heads": 1, "dim": 2, "context_len": 5, "prompts": 20, "steps": 0, "optimiser": "gd", "lr": 0.1,
        "clip_global": None, "clip_each": None, "zero_p": False, "halve_lr_every": None,
    }  # fmt: skip
    zeros, empty = np.zeros((1, 1, 2, 2, 2)), np.zeros(20)
    np.savez(
        "ahn_mine.npz", x=tokens, y_q=empty, weights=zeros, loss=np.zeros(1), weights_end=zeros, pred_start=empty,
        weights_at=np.zeros(1, int), weights_kept=zeros[None], pred_end=empty,
        args=np.array(json.dumps(settings | {"steps": 1})),
    )  # fmt: skip
    run("iclearn sweep examples/sweeps/learning-rate.yaml --out lr")
    run("iclearn train --model attnM --head 2 --epoch 5 --trainset_size 20 --no-text")  # a store of runs
    yield place
    os.chdir(before)


def script(text: str, place: Path) -> None:
    """Run a batch script with what a job finds around it."""
    (place / "iclearn").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m iclearn "$@"\n')
    (place / "iclearn").chmod(0o755)
    given = {"SLURM_CPUS_PER_TASK": "1", "SLURM_SUBMIT_DIR": str(place), "SLURM_ARRAY_TASK_ID": "0"}
    path = {"PATH": f"{place}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    job = subprocess.run(
        ["bash", "-euc", text], cwd=place, env=os.environ | path | given, capture_output=True, text=True, check=False
    )
    assert job.returncode == 0, job.stderr[-800:]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash")], ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_run(page, folder):
    for block in blocks(page, "bash"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        for line in lines_of(block):
            if line.startswith("#!"):
                script(line, folder)
            elif line.startswith("dev/"):
                subprocess.run(["bash", "-n", str(ROOT / line.split()[0])], check=True)
            if not line.startswith("#!") and (reduced := instead(line)):
                run(reduced)


def test_nothing_is_replaced_that_no_page_has():
    said = {line for page in PAGES for block in blocks(page, "bash") for line in lines_of(block)}
    assert set(INSTEAD) <= said
    assert all(why for _, why in INSTEAD.values())


def test_figure3_is_the_command_of_its_script():
    whole = (ROOT / "dev" / "figure3").read_text().replace("\\\n", " ").rpartition('bin/iclearn"')[2].split()
    reduced = shlex.split(INSTEAD["dev/figure3"][0])[1:]
    assert [pair for pair in zip(whole, reduced, strict=True) if pair[0] != pair[1]] == [
        ("20001", "21"),
        ("80000", "100"),
    ]


def mentioned() -> list[tuple[str, str]]:
    """(page, command) of commands in sentences and in lines set off by four spaces."""
    found = []
    for page in PAGES:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.S | re.M)
        inline = re.findall(r"`(iclearn [^`]+)`", text) + re.findall(r"^ {4}(iclearn .*)$", text, re.M)
        found += [(str(page.relative_to(ROOT)), " ".join(command.split())) for command in inline]
    return found


def test_flags_named_in_sentences_exist():
    helps: dict[str, str] = {}
    wrong = []
    for page, command in mentioned():
        name, *rest = command.split()[1:]
        if name.startswith("--"):  # of iclearn itself
            continue
        if name not in COMMANDS:
            wrong.append((page, command))
            continue
        paper = rest[:1] if name in ("theory", "reproduce") and rest and rest[0] in PAPERS.names() else []
        asked = " ".join([name, *paper])
        if asked not in helps:
            with redirect_stdout(io.StringIO()) as said, redirect_stderr(said), suppress(SystemExit):
                main([name, *paper, "--help"])
            helps[asked] = said.getvalue()
        wrong += [(page, command) for flag in re.findall(r"--[a-z][\w-]*", command) if flag not in helps[asked]]
    assert not wrong


def test_tables_of_settings_are_read():
    base = {"task": {"dim": 4, "num_prompts": "inf"}, "model": {"family": "separate_reduced"}, "steps": 5}
    for page in PAGES:
        for block in blocks(page, "yaml"):
            table = yaml.safe_load(block)
            if "axes" in table:
                spectrum = {"covariance": {"shape": "power", "parameters": [1.0]}}
                assert make_plan({**base, "task": {**base["task"], **spectrum}}, table["axes"]).num_runs > 1
            else:
                assert set(table) == {"jobqueue"}, "settings of dask-jobqueue"
        for block in blocks(page, "toml"):
            assert tomllib.loads(block)
    languages = {tag for page in PAGES for tag in re.findall(r"^```(\w+)$", page.read_text(), re.M)}
    assert languages <= {"python", "bash", "yaml", "toml"}, "blocks of other languages are run by nobody"


def test_values_and_methods_named_in_sentences_exist():
    """What no block runs: paths of sweeps, methods of a store, and how a Zarr folder of ours is opened."""
    text = {page: page.read_text() for page in PAGES}
    paths = set(get_args(ComputePath))
    for page, words in text.items():
        assert set(re.findall(r"--path (\w+)", words)) <= paths, page
        assert [name for name in re.findall(r"Store\([^)]*\)\.(\w+)", words) if not hasattr(Store, name)] == [], page
        assert all("consolidated=False" in call for call in re.findall(r"open_zarr\(([^)]*)\)", words)), page
    timed = re.findall(r"^\| \w+ .*steps \| (\w+) \|", text[ROOT / "docs" / "sweeps.md"], re.M)
    assert {"vmap", "serial"} < set(timed) <= {*paths, "triton"}, "triton is the kernel of pallas by another compiler"
