"""Model files come from a file of the user's or from the hub, are checked, and are there once."""

import hashlib
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from fake_hub import FakeHub

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.llm import catalog
from iclearn.llm.catalog import CATALOG, KnownFile, KnownModel, fetch, model_files
from iclearn.llm.load import identity_of

CONTENT = np.random.default_rng(0).bytes(25 << 20)  # the hub's client writes 10 MB at a time
FILES = {"weights/model.gguf": CONTENT, "vocab.txt": b"a\nb\n"}


def known(files):
    published = (KnownFile(path, len(data), (hashlib.sha256(data).hexdigest(),)) for path, data in files.items())
    return KnownModel("A model", "maker/model", "a" * 40, "MIT", tuple(published))


@pytest.fixture(autouse=True)
def two_models(models, monkeypatch):
    monkeypatch.setitem(CATALOG, "pair", known(FILES))
    monkeypatch.setitem(CATALOG, "single", known({"weights/model.gguf": CONTENT}))
    return models


def test_a_file_of_the_users_is_checked_and_copied_once(models, tmp_path, capsys):
    mine = tmp_path / "renamed.gguf"
    mine.write_bytes(CONTENT)
    assert main(["llm", "fetch", "single", "--file", str(mine)]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("A model: 26 MB, license MIT, from ")
    assert [*map(str, model_files("single"))] == told[1:] == [str(models / "single" / "weights" / "model.gguf")]
    mine.unlink()
    assert main(["llm", "fetch", "single"]) == 0, "what is there needs neither the file nor a hub"
    other = tmp_path / "anywhere.gguf"
    other.write_bytes(CONTENT)
    named = [identity_of(name, backend="torch", device="cpu") for name in ("single", str(other))]
    assert named[0] == named[1], "the hash is the identity, not the name"


def test_a_folder_of_the_users_holds_the_files_by_name(tmp_path):
    for path, data in FILES.items():
        (tmp_path / path.rpartition("/")[2]).write_bytes(data)
    assert [path.read_bytes() for path in fetch("pair", tmp_path)] == list(FILES.values())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: folder / "nothing.gguf", "nothing.gguf is no model.gguf, nor its folder"),
        (lambda folder: folder, "there is no model.gguf in"),
        (lambda folder: _write(folder / "model.gguf", CONTENT[:-1]), r"model.gguf is not the file of single: its SHA"),
        (lambda folder: _write(folder / "model.gguf", CONTENT[:-1] + b"x"), r"its SHA-256 is \w{12}…, not \w{12}…"),
    ],
    ids=["missing", "empty folder", "cut", "another byte"],
)
def test_wrong_files_are_refused_in_one_line(make, said, models, tmp_path, capsys):
    given = make(tmp_path)
    assert main(["llm", "fetch", "single", "--file", str(given)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    with pytest.raises(IclearnError, match=said):
        fetch("single", given)
    assert not [path for path in models.rglob("*") if path.is_file() and path.name != ".lock"]


def _write(path, content):
    path.write_bytes(content)
    return path


def test_models_that_are_not_there_say_how_to_get_them():
    with pytest.raises(IclearnError, match=r"is not on this machine: `iclearn llm fetch single` gets it \(26 MB\)"):
        model_files("single")
    with pytest.raises(IclearnError, match="no pinned model 'nonsense'; there are qwen"):
        fetch("nonsense")


def hub_of(files):
    pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed (pip install 'iclearn[llm]')")
    return FakeHub(files)


def test_the_hub_serves_the_pinned_revision():
    with hub_of(FILES) as hub:
        assert [path.read_bytes() for path in fetch("pair", endpoint=hub.url)] == list(FILES.values())
        gets = [asked for asked in hub.asked if asked[0] == "GET"]
        assert gets == [("GET", "maker/model", "a" * 40, name, 0) for name in FILES]
        hub.asked.clear()
        fetch("pair", endpoint=hub.url)
        assert not hub.asked, "what is there is not asked for again"


def test_a_damaged_download_is_named_and_removed(models):
    with hub_of({"weights/model.gguf": CONTENT[:-1] + b"x"}) as hub:
        with pytest.raises(IclearnError, match=r"what came of weights/model.gguf is not the file of single"):
            fetch("single", endpoint=hub.url)
        assert not list(models.rglob("*.gguf*"))
        hub.files["weights/model.gguf"] = CONTENT
        assert fetch("single", endpoint=hub.url)[0].read_bytes() == CONTENT


def test_a_file_that_is_not_there_is_one_line():
    with hub_of({}) as hub, pytest.raises(IclearnError, match=r"could not fetch weights/model.gguf of maker/model \("):
        fetch("single", endpoint=hub.url)


CHILD = """
import sys
sys.path.insert(0, sys.argv[2])
import test_catalog as t
t.CATALOG["single"] = t.known({"weights/model.gguf": t.CONTENT})
t.fetch("single", endpoint=sys.argv[1])
"""


def test_a_killed_download_goes_on_where_it_was(models):
    """The hub sends most of the file and waits: the process is killed with that on disk, and the next one asks for the
    rest."""
    with hub_of({"weights/model.gguf": CONTENT}) as hub:
        hub.hold = len(CONTENT) - (1 << 20)
        child = subprocess.Popen([sys.executable, "-c", CHILD, hub.url, os.path.dirname(__file__)])
        while not (half := [p for p in models.rglob("*.begun") if p.stat().st_size]) and child.poll() is None:
            hub.sent.wait(0.1)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert half
        size = half[0].stat().st_size
        assert 0 < size <= hub.hold
        hub.go_on.set()
        hub.asked.clear()
        assert fetch("single", endpoint=hub.url)[0].read_bytes() == CONTENT
        assert [asked[-1] for asked in hub.asked if asked[0] == "GET"] == [size]


def test_published_hashes_are_well_formed():
    assert {"qwen2.5-coder-1.5b", "qwen2.5-coder-0.5b", "smollm2-135m", "gte-small"} <= set(CATALOG)
    for model in CATALOG.values():
        assert len(model.revision) == 40
        assert all(len(sha) == 64 and int(sha, 16) for file in model.files for sha in file.sha256)
    assert catalog.models_dir().name == "models"
