"""Every `--help`: no flag without a word, no default that is no value, no example code, plain names for values."""

import re

import pytest

from iclearn.cli import COMMANDS, main
from iclearn.core.registry import PAPERS, THEORIES

LINES = [
    *([name] for name in COMMANDS if name != "theory"),
    *(["reproduce", name] for name in PAPERS.names()),
    *(["theory", name] for name in THEORIES.names()),
]
UNPLAIN = [
    r"\(default: None\)",
    r"\(default: \)",
    r"\[\[",
    r"\{None",
    r"\|None",
    r"\|INT\b",
    r">>> ",
    r"(?m)^\s*Args:",
    "``",
]


def entries_of(text: str) -> list[tuple[str, str]]:
    """The flags and positional words of a help text, and what is said of each; with or without a frame of lines."""
    found: list[tuple[str, str]] = []
    for line in re.sub("[╭╮╰╯─]{3,}|[╭╮╰╯│]", lambda line: " " * len(line[0]), text).splitlines():
        row = line[2:].rstrip()
        if line[:2].strip() or not row or re.fullmatch("-+", row.strip()):
            continue
        if re.match(r"-|\[|\{|[A-Z]{2,}( |$)", row):
            name, _, said = row.partition("  ")
            found.append((name, said.strip()))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {row.strip()}")
    return found


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_help_is_plain_and_says_what_every_flag_is(words, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit) as stop:
        main([*words, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    found = [pattern for pattern in UNPLAIN if re.search(pattern, text)]
    assert not found, text
    entries = entries_of(text)
    assert "-h, --help" in dict(entries)
    for name, said in entries:
        assert re.search(r"[a-z]{2,}", re.sub(r"\((default: [^)]*|required)\)", "", said)), f"no word on {name}"
        assert not ("Default" in said and "(default:" in said), f"the default of {name} twice: {said}"
