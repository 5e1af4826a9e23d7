"""Replies are kept by content, survive a torn line, and are never asked for twice."""

import os
import signal
import subprocess
import sys
import time

import pytest
from fake_server import FakeServer

from iclearn.core.errors import IclearnError
from iclearn.llm.replies import Reply, ReplyCache, ask
from iclearn.llm.server import ServerModel


class Scripted:
    """A model that answers with the length of the prompt, and breaks where told."""

    identity, device = "scripted", "here"

    def __init__(self, break_at=None):
        self.asked, self.break_at = [], break_at

    def replies(self, prompts, read):
        for i, prompt in reversed(list(enumerate(prompts))):
            if prompt == self.break_at:
                raise IclearnError("broken")
            self.asked.append(prompt)
            yield i, Reply(text=str(len(prompt)))


def test_known_prompts_are_not_asked_again(tmp_path):
    model, cache = Scripted(), ReplyCache(tmp_path, "scripted")
    first = ask(model, ["a", "bb", "a", "ccc"], cache, read="text")
    assert [r.value for r in first] == [1, 2, 1, 3]
    assert sorted(model.asked) == ["a", "bb", "ccc"]
    again = ReplyCache(tmp_path, "scripted")
    assert ask(lambda: pytest.fail("loaded for nothing"), ["ccc", "a"], again, read="text")[0].value == 3
    assert len(again) == 3


def test_model_and_way_of_reading_are_part_of_the_key(tmp_path):
    cache = ReplyCache(tmp_path, "one")
    cache.put("text", "p", Reply(text="3"))
    assert cache.get("scale", "p") is None
    assert ReplyCache(tmp_path, "two").get("text", "p") is None
    assert ReplyCache(tmp_path, "one").get("text", "p") == Reply(text="3")


def test_what_came_before_a_failure_is_kept(tmp_path):
    cache = ReplyCache(tmp_path, "scripted")
    with pytest.raises(IclearnError, match="broken"):
        ask(Scripted(break_at="bb"), ["a", "bb", "ccc", "dddd"], cache, read="text")
    model = Scripted()
    ask(model, ["a", "bb", "ccc", "dddd"], ReplyCache(tmp_path, "scripted"), read="text")
    assert sorted(model.asked) == ["a", "bb"]


def test_a_torn_line_costs_one_reply(tmp_path):
    cache = ReplyCache(tmp_path, "m")
    for prompt in "abc":
        cache.put("text", prompt, Reply(text="3"))
    cache.close()
    cache.path.write_bytes(cache.path.read_bytes()[:-20] + b"\xff")
    torn = ReplyCache(tmp_path, "m")
    assert len(torn) == 2
    torn.put("text", "d", Reply(text="4"))
    torn.close()
    assert len(ReplyCache(tmp_path, "m")) == 3


def test_prompts_are_not_written_to_disk(tmp_path):
    cache = ReplyCache(tmp_path, "m")
    cache.put("text", "a licensed sentence", Reply(text="3"))
    cache.close()
    assert b"licensed" not in cache.path.read_bytes()


CHILD = """
import sys
from iclearn.llm.replies import ReplyCache, ask
from iclearn.llm.server import ServerModel
model = ServerModel(sys.argv[1], "tiny", workers=2)
ask(model, [f"prompt {i}" for i in range(60)], ReplyCache(sys.argv[2], model.identity), read="text")
"""


def test_a_killed_process_repeats_nothing_it_had_kept(tmp_path):
    with FakeServer(answers=12) as server:
        child = subprocess.Popen([sys.executable, "-c", CHILD, server.url, str(tmp_path)])
        lines = lambda: sum(path.read_bytes().count(b"\n") for path in tmp_path.glob("*.jsonl"))  # noqa: E731
        while (lines() < 12 or len(server.prompts) < 14) and child.poll() is None:  # two more are under way
            time.sleep(0.05)
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        server.answers = 60
        server.go_on.set()
        server.prompts.clear()
        model = ServerModel(server.url, "tiny")
        cache = ReplyCache(tmp_path, model.identity)
        assert len(cache) == 12
        replies = ask(model, [f"prompt {i}" for i in range(60)], cache, read="text")
        assert len(replies) == 60
        assert len(server.prompts) == 48
