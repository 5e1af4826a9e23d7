"""The client of OpenAI-compatible servers, against a real one on this machine, well-behaved and not."""

import numpy as np
import pytest
from fake_server import SCALE, FakeServer

from iclearn.core.errors import IclearnError
from iclearn.llm.load import identity_of
from iclearn.llm.replies import ReplyCache, ask
from iclearn.llm.server import ServerModel

EXPECTED = float(np.dot(range(6), SCALE))


@pytest.mark.parametrize("mode", ["ok", "content"])
def test_scores_from_log_probabilities(mode):
    with FakeServer(mode) as server:
        model = ServerModel(server.url)
        replies = dict(model.replies([f"prompt {i}" for i in range(20)], "scale"))
    assert sorted(replies) == list(range(20))
    assert all(reply.value == pytest.approx(EXPECTED) for reply in replies.values())
    assert model.name == "tiny"
    assert server.requests[0]["temperature"] == 0
    assert server.requests[0]["model"] == "tiny"


def test_scores_from_text():
    with FakeServer("none") as server:
        assert ServerModel(server.url).reply("p", "text").value == 3
    assert "logprobs" not in server.requests[0]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("none", "gives no log-probabilities for tiny: use --read text"),
        ("odd", "did not answer as an OpenAI-compatible server does"),
        ("garbage", "did not answer as an OpenAI-compatible server does: {\"choices\": \"nothing\"}"),
        ("html", "did not answer as an OpenAI-compatible server does: \"<html>hello</html>\""),
        ("refuse", "answered 400 ({\"error\": \"no such model\"})"),
        ("broken", "answered 500 (try later)"),
        ("drop", "cannot be reached"),
    ],
)  # fmt: skip
def test_bad_servers_make_one_line(mode, said):
    with FakeServer(mode) as server, pytest.raises(IclearnError) as caught:
        list(ServerModel(server.url, retries=0).replies(["p"], "scale"))
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer_in_time():
    with FakeServer(answers=0) as server:
        model = ServerModel(server.url, "tiny", timeout=0.2, retries=0)
        with pytest.raises(IclearnError, match=r"did not answer within 0.2 s"):
            model.reply("p", "scale")
        server.go_on.set()


def test_no_server_and_no_address():
    with FakeServer() as server:
        url = server.url
    with pytest.raises(IclearnError, match="cannot be reached"):
        ServerModel(url, retries=0)
    with pytest.raises(IclearnError, match=r"cannot be reached|is no address"):
        ServerModel("http://", retries=0)


def test_a_passing_fault_is_tried_again():
    with FakeServer("flaky") as server:
        assert ServerModel(server.url, retries=1).reply("p", "scale").value == pytest.approx(EXPECTED)
    assert len(server.prompts) == 2


def test_answers_before_a_failure_are_kept(tmp_path):
    prompts = [f"prompt {i}" for i in range(30)]
    with FakeServer("refuse", fail_after=10) as server:
        model = ServerModel(server.url, workers=2)
        cache = ReplyCache(tmp_path, model.identity)
        with pytest.raises(IclearnError, match="what was answered before is kept"):
            ask(model, prompts, cache)
        assert len(cache) == 10
        server.mode = "ok"
        server.prompts.clear()
        assert len(ask(model, prompts, cache)) == 30
        assert len(server.prompts) == 20


def test_the_key_is_sent_and_the_address_is_the_identity(monkeypatch):
    with FakeServer() as server:
        ServerModel(server.url)
        assert server.keys == {None}
        monkeypatch.setenv("ICLEARN_API_KEY", "secret")
        ServerModel(server.url)
        assert server.keys == {None, "Bearer secret"}
        assert identity_of(server.url) == f"server {server.url} tiny"
        assert identity_of(server.url, server_model="big") == f"server {server.url} big"
        assert "secret" not in identity_of(server.url)
