"""Local models: batches, padding and shared prefixes change nothing; bad models and prompts are refused in one line."""

from types import SimpleNamespace

import numpy as np
import pytest
from tiny_models import make_model, make_tokenizer

from iclearn.core.errors import IclearnError
from iclearn.llm.load import fingerprint, identity_of, load_model, resolve
from iclearn.llm.local import LocalModel, pick_device, scale_tokens, shared_prefix
from iclearn.llm.prompts import SCALE, Shot, build_prompt
from iclearn.llm.stsb import Pair


def prompts(count, *, shared=False, shots=3):
    pairs = [Pair(f"A {'very ' * (i % 4)}red cat {i}.", f"Dog {i * i}.", float(i % 6)) for i in range(40)]
    return [
        build_prompt([Shot(pairs[(0 if shared else i) + k], 2.0) for k in range(shots)], pairs[20 + i], 0.3 * i)
        for i in range(count)
    ]


def plain_probabilities(tiny, prompt, torch):
    """One prompt at a time, the whole forward pass, log-probabilities of whole continuations."""
    weights = []
    with torch.inference_mode():
        for mark in SCALE:
            ids = tiny.tokenizer(f"{prompt} {mark}").input_ids
            logits = tiny.model(input_ids=torch.tensor([ids])).logits[0, -2].double()
            weights.append(float(logits.softmax(-1)[ids[-1]]))
    return weights


def test_answers_are_those_of_a_plain_forward_pass(tiny, torch):
    asked = prompts(7)
    assert len({len(tiny.tokenizer(p).input_ids) for p in asked}) > 1
    replies = dict(tiny.replies(asked, "scale"))
    for i, prompt in enumerate(asked):
        assert replies[i].scale == pytest.approx(plain_probabilities(tiny, prompt, torch), rel=1e-4)
    spread = np.std([reply.value for reply in replies.values()])
    assert spread > 1e-3  # the prompts matter


def test_a_shared_prefix_is_run_once_and_changes_nothing(tiny, torch):
    asked = prompts(6, shared=True, shots=8)
    before = tiny.prefix_tokens_saved
    replies = dict(tiny.replies(asked, "scale"))
    assert tiny.prefix_tokens_saved > before
    for i, prompt in enumerate(asked):
        assert replies[i].scale == pytest.approx(plain_probabilities(tiny, prompt, torch), rel=1e-4)
    before = tiny.prefix_tokens_saved
    list(tiny.replies(prompts(3), "scale"))  # other shots for every pair: nothing worth sharing
    assert tiny.prefix_tokens_saved == before


def test_text_is_generated_greedily(tiny, torch):
    asked = prompts(3)
    texts = {i: reply.text for i, reply in tiny.replies(asked, "text")}
    for i, prompt in enumerate(asked):
        ids = tiny.tokenizer(prompt, return_tensors="pt").input_ids
        with torch.inference_mode():
            for _ in range(6):
                nxt = tiny.model(input_ids=ids).logits[:, -1].argmax(-1, keepdim=True)
                ids = torch.cat([ids, nxt], 1)
                if int(nxt) == 1:
                    break
        prompt_len = len(tiny.tokenizer(prompt).input_ids)
        assert texts[i] == tiny.tokenizer.decode(ids[0, prompt_len:], skip_special_tokens=True)


def test_batches_of_any_size_give_the_same_answers(tiny):
    asked = prompts(7)
    sizes = {}
    for size in (None, 1, 3):
        tiny.batch_size = size
        sizes[size] = dict(tiny.replies(asked, "scale"))
    tiny.batch_size = None
    for size in (1, 3):
        assert all(sizes[size][i].scale == pytest.approx(sizes[None][i].scale, rel=1e-4) for i in range(7))
    assert tiny._batch_size(10**12) == 1
    assert tiny._batch_size(1) == 256


def test_both_ways_of_writing_a_mark(torch):
    assert scale_tokens(make_tokenizer("apart"))[0] == " "
    assert scale_tokens(make_tokenizer("joined"))[0] == ""


def test_a_tokenizer_without_single_marks_can_only_be_read_as_text(torch):
    class Letters:
        """Every character a token, and the marks written as words."""

        def __call__(self, text):
            words = text.replace("4", "four").replace("5", "five")
            return type("Coded", (), {"input_ids": [ord(c) for c in words]})

    with pytest.raises(IclearnError, match="one token each: use --read text"):
        scale_tokens(Letters())


def test_prompts_that_do_not_fit(tiny):
    with pytest.raises(IclearnError, match="the model reads 2048: use fewer --shots"):
        list(tiny.replies(["word " * 3000], "scale"))


def test_a_model_that_states_no_limit_reads_any_prompt(torch):
    tokenizer = make_tokenizer("apart")

    class Endless(torch.nn.Linear):
        """Every token is as likely as the others; its config names no longest prompt."""

        config = SimpleNamespace()

        def forward(self, input_ids, logits_to_keep, **_):
            return SimpleNamespace(logits=torch.zeros(len(input_ids), len(logits_to_keep), len(tokenizer)))

    ((_, reply),) = LocalModel(Endless(1, 1), tokenizer, "endless").replies(["a word"], "scale")
    assert reply.value == pytest.approx(2.5)


def test_weights_that_are_not_numbers(torch):
    tokenizer = make_tokenizer("apart")
    model = make_model("llama", len(tokenizer), torch)
    with torch.no_grad():
        model.lm_head.weight.fill_(float("nan"))
    with pytest.raises(IclearnError, match="no numbers: try --dtype float32"):
        list(LocalModel(model, tokenizer, "broken").replies(["p"], "scale"))
    with pytest.raises(IclearnError, match="at least 1, not 0"):
        LocalModel(model, tokenizer, "broken", batch_size=0)


def test_models_by_name(model_folders, tmp_path, torch):
    assert resolve("llama3.1-8b") == "meta-llama/Llama-3.1-8B-Instruct"
    assert resolve("some/model") == "some/model"
    for wrong in ("nothing", "./nowhere", "/no/such/folder", "missing.gguf"):
        with pytest.raises(IclearnError, match="no model"):
            resolve(wrong)
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(IclearnError, match="is no GGUF file"):
        resolve(str(tmp_path / "notes.txt"))
    (tmp_path / "bad.gguf").write_bytes(b"not a model")
    for wrong in (tmp_path, tmp_path / "bad.gguf"):  # llama.cpp says so where it is installed
        with pytest.raises(IclearnError, match="could not load ") as caught:
            load_model(str(wrong), device="cpu")
        assert "\n" not in str(caught.value)
    with pytest.raises(IclearnError, match=r"--dtype must be one of auto, .*, not 'int8'"):
        load_model(str(model_folders["llama"]), dtype="int8")
    if not torch.cuda.is_available():
        with pytest.raises(IclearnError, match="torch sees no CUDA device"):
            pick_device("gpu")
    half = load_model(str(model_folders["llama"]), dtype="bfloat16", device="cpu")
    assert half.model.dtype == torch.bfloat16  # type: ignore[attr-defined]
    assert half.identity.endswith("bfloat16")


def test_identity_follows_the_weights(model_folders, tmp_path):
    first = identity_of(str(model_folders["llama"]), dtype="float32")
    assert first != identity_of(str(model_folders["qwen2"]), dtype="float32")
    assert first != identity_of(str(model_folders["llama"]), dtype="bfloat16")
    (tmp_path / "w").write_bytes(bytes(3 << 20))
    before = fingerprint(tmp_path)
    (tmp_path / "w").write_bytes(bytes((3 << 20) - 1) + b"x")
    assert fingerprint(tmp_path) != before


def test_prefixes():
    assert shared_prefix([[1, 2, 3], [1, 2, 3]]) == 2
    assert shared_prefix([[1], [1, 2]]) == 0
    assert shared_prefix([[5, 1], [4, 1]]) == 0
