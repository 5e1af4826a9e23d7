"""Ten real prompts for every model that is in the user's cache (`iclearn llm fetch`), through torch and llama.cpp."""

from pathlib import Path

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.llm import CATALOG, Shot, build_prompt, load_model, load_split, model_files, pearson

pytestmark = pytest.mark.slow
REAL = Path(__file__).resolve().parents[3] / "shared" / "data" / "stsb"
MODELS = [name for name, model in CATALOG.items() if model.files[0].path.endswith(".gguf")]


@pytest.fixture(scope="module", params=MODELS)
def name(request, torch):
    pytest.importorskip("gguf", reason="gguf is not installed (pip install 'iclearn[llm]')")
    try:
        model_files(request.param)
    except IclearnError as error:
        pytest.skip(str(error))
    return request.param


@pytest.fixture(scope="module")
def answers(name):
    """Back end → the expected scores of ten prompts, with the true score as a guess in every other one."""
    if not REAL.is_dir():
        pytest.skip("sts-train.csv, sts-dev.csv and sts-test.csv of the STS-Benchmark are not in ../shared/data/stsb")
    train, dev = (load_split(REAL, split).pairs for split in ("train", "dev"))
    asked = []
    for i in range(10):
        given = i % 2 == 0
        shots = [Shot(pair, pair.score if given else None) for pair in train[40 * i : 40 * i + 3]]
        asked.append(build_prompt(shots, dev[130 * i], dev[130 * i].score if given else None))
    found = {}
    for backend in ("torch", "llama.cpp"):
        if backend == "llama.cpp":
            pytest.importorskip("xllamacpp", reason="xllamacpp is not installed (pip install 'iclearn[llm]')")
        model = load_model(name, backend=backend, device="cpu", **({"dtype": "float32"} if backend == "torch" else {}))
        replies = dict(model.replies(asked, "scale"))
        assert all(sum(replies[i].scale) > 0.7 for i in range(10)), "the marks are what it answers with"
        found[backend] = np.array([replies[i].value for i in range(10)])
    return found | {"score": np.array([dev[130 * i].score for i in range(10)])}


def test_back_ends_agree(answers):
    difference = np.abs(answers["torch"] - answers["llama.cpp"])
    assert difference.mean() <= 0.1
    assert pearson(answers["torch"], answers["llama.cpp"]) >= 0.98


def test_an_oracle_is_followed(answers):
    assert pearson(answers["torch"][::2], answers["score"][::2]) > 0.8


def test_it_speaks(name):
    """Weights, tokenizer and positions are right: text comes out that no random model writes."""
    model = load_model(name, backend="torch", dtype="float32", device="cpu")
    ((_, reply),) = model.replies(["The capital of France is"], "text")
    assert "Paris" in reply.text
