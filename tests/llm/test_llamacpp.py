"""llama.cpp gives the answers that torch gives, from the same file, and leaves nothing behind."""

import subprocess
import sys
import time

import pytest
from tiny_models import write_gguf

from iclearn.core.errors import IclearnError
from iclearn.llm.llamacpp import LlamaCppModel
from iclearn.llm.load import how_to_run, identity_of, load_model
from iclearn.llm.prompts import Shot, build_prompt
from iclearn.llm.stsb import Pair


@pytest.fixture(scope="module")
def gguf_file(torch, tmp_path_factory):
    pytest.importorskip("gguf", reason="gguf is not installed (pip install 'iclearn[llm]')")
    pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (pip install 'iclearn[llm]')")
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", torch)


@pytest.fixture(scope="module")
def served(gguf_file):
    model = LlamaCppModel(gguf_file, "tiny", threads=1)
    yield model
    model.close()


def prompts(count):
    pairs = [Pair(f"A red cat {i}.", f"Dogs run {i * i}.", float(i % 6)) for i in range(20)]
    return [build_prompt([Shot(pair, 2.0) for pair in pairs[i : i + 3]], pairs[-1 - i], 0.4 * i) for i in range(count)]


def test_answers_are_those_of_torch(served, gguf_file):
    asked = prompts(6)
    other = load_model(str(gguf_file), backend="torch", dtype="float32", device="cpu")
    mine, theirs = dict(served.replies(asked, "scale")), dict(other.replies(asked, "scale"))
    assert served.joiner == " "
    for i in range(len(asked)):
        assert mine[i].value == pytest.approx(theirs[i].value, abs=0.02)
    texts = [reply.text for _, reply in served.replies(asked[:2], "text")]
    assert all(isinstance(text, str) for text in texts)


def test_a_file_is_run_by_what_is_asked_for(gguf_file):
    assert how_to_run(gguf_file, device="cpu") == "llama.cpp"
    assert how_to_run(gguf_file, device="cpu", backend="torch") == "float32"
    assert how_to_run(gguf_file, device="cpu", dtype="bfloat16") == "bfloat16"
    assert identity_of(str(gguf_file), device="cpu") != identity_of(str(gguf_file), device="cpu", backend="torch")
    for wrong in ({"dtype": "float32"}, {"device": "gpu"}):
        with pytest.raises(IclearnError, match="runs a GGUF file, as it is, on a processor"):
            how_to_run(gguf_file, backend="llama.cpp", **wrong)
    with pytest.raises(IclearnError, match="runs a GGUF file"):
        how_to_run("owner/name", backend="llama.cpp")


def test_a_file_that_is_no_model_is_one_line(served, tmp_path):
    (tmp_path / "bad.gguf").write_bytes(b"nothing")
    with pytest.raises(IclearnError, match=r"llama.cpp could not load .*bad.gguf \(") as caught:
        LlamaCppModel(tmp_path / "bad.gguf", "bad")
    assert "\n" not in str(caught.value)


CHILD = """
import sys
from pathlib import Path
from iclearn.llm.llamacpp import LlamaCppModel
model = LlamaCppModel(Path(sys.argv[1]), "tiny", threads=1)
print(model._process.pid, flush=True)
sys.stdin.read()
"""


def test_its_process_ends_with_the_one_that_started_it(gguf_file):
    words = [sys.executable, "-c", CHILD, str(gguf_file)]
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    server = int(child.stdout.readline())
    child.kill()
    child.communicate()
    while _lives(server):
        time.sleep(0.05)


def _lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
