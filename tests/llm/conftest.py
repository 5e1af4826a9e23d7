"""Shared by the tests of language models: tiny models as folders, and files of the benchmark's shape."""

from __future__ import annotations

import numpy as np
import pytest
from synthetic_stsb import write_stsb
from tiny_models import make_model, make_tokenizer


@pytest.fixture(scope="session")
def torch():
    torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'iclearn[llm]')")
    pytest.importorskip("transformers", reason="transformers is not installed (pip install 'iclearn[llm]')")
    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="session")
def model_folders(torch, tmp_path_factory):
    """Saved models by family: a Llama with the ``apart`` tokenizer, a Qwen2 with the ``joined`` one."""
    folders = {}
    for family, kind in (("llama", "apart"), ("qwen2", "joined")):
        folder = tmp_path_factory.mktemp(family)
        tokenizer = make_tokenizer(kind)
        tokenizer.save_pretrained(folder)
        make_model(family, len(tokenizer), torch).save_pretrained(folder)
        folders[family] = folder
    return folders


@pytest.fixture(params=["llama", "qwen2"])
def tiny(request, model_folders):
    """A tiny model loaded as a user's would be."""
    from iclearn.llm.load import load_model

    return load_model(str(model_folders[request.param]), device="cpu")


@pytest.fixture(scope="session")
def stsb(tmp_path_factory):
    """A folder with files of the benchmark's shape and size, of invented sentences."""
    return write_stsb(tmp_path_factory.mktemp("stsb"), np.random.default_rng(0))


@pytest.fixture
def models(tmp_path, monkeypatch):
    """An empty cache of model files."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "iclearn" / "models"
