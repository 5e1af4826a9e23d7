"""`iclearn reproduce xie2025-llm` end to end, on tiny real models and files of the benchmark's size."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr
from fake_server import FakeServer

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.llm import CONDITIONS, Experiment, Options, StaticEmbeddings, condition
from iclearn.papers.xie2025_llm.__main__ import main as tables_main


def reproduce(*words):
    return main(["reproduce", "xie2025-llm", *map(str, words)])


@pytest.fixture(scope="module")
def run(model_folders, stsb, tmp_path_factory):
    """A finished run of a tiny Llama and the flags that made it."""
    out, model = tmp_path_factory.mktemp("out"), model_folders["llama"]
    flags = ("--stsb", stsb, "--model", model, "--pairs", 10, "--shots", 2, "--features", "hidden", "--out", out)
    code = reproduce(*flags, "--device", "cpu")
    assert code in (0, 1)  # a random model owes the paper nothing
    return out, flags


def lines_of(out):
    (path,) = (out / "llm").glob("replies-*.jsonl")
    return path.read_text().splitlines()


def test_all_conditions_are_asked_judged_and_drawn(run):
    out, _ = run
    verdicts = json.loads((out / "verdicts.json").read_text())
    assert {v["figure"] for v in verdicts} == {"fig_conditions", "fig_copy", "fig_shots"}
    assert not [v for v in verdicts if v["verdict"] == "failed"]
    for name in ("fig_conditions", "fig_copy", "fig_shots"):
        assert (out / "figures" / f"{name}.png").stat().st_size > 5000
    # 7 conditions, 3 sizes of noise, and 0, 1 and 4 shots of two: 16 prompts a pair, each different one asked once
    experiment = Experiment(Options.of(json.loads((out / "options.json").read_text())), out / "llm")
    asked = [(how, 2) for how in CONDITIONS] + [(condition(c), n) for c in ("none", "trained") for n in (0, 1, 4)]
    prompts = [prompt for how, shots in asked for prompt in experiment.prompts(0, how, shots)[0]]
    assert len(prompts) == 160
    keys = [json.loads(line)["key"] for line in lines_of(out)]
    assert len(keys) == len(set(keys)) == len(set(prompts))
    assert "STS-Benchmark" in json.loads((out / "facts.json").read_text())["fig_copy"]["data"][0]


def test_no_sentence_is_stored(run, stsb):
    out, _ = run
    for path in out.rglob("*"):
        if path.is_file():
            assert b"cat dog" not in path.read_bytes()
            assert b"hill house" not in path.read_bytes()


def test_a_second_run_asks_nothing_and_gives_the_same_numbers(run):
    out, flags = run
    before = lines_of(out)
    stored = {p.name.split("-")[0]: xr.open_zarr(p, consolidated=False).load() for p in (out / "data").iterdir()}
    shutil.rmtree(out / "data")
    assert reproduce(*flags, "--device", "cpu") in (0, 1)
    assert lines_of(out) == before
    for path in (out / "data").iterdir():
        again = xr.open_zarr(path, consolidated=False).load()
        assert np.array_equal(again["answer"], stored[path.name.split("-")[0]]["answer"])


def test_draw_only_needs_no_flags_and_refuses_others(run, capsys):
    out, _ = run
    (out / "figures" / "fig_shots.png").unlink()
    assert reproduce("--draw-only", "--out", out) in (0, 1)
    assert (out / "figures" / "fig_shots.png").exists()
    capsys.readouterr()
    assert reproduce("--draw-only", "--out", out, "--pairs", 11) == 2
    told = capsys.readouterr().err
    assert "was not made with --pairs 11" in told
    assert told.count("\n") == 1


def test_tables_for_the_docs(run, tmp_path, capsys):
    out, _ = run
    assert tables_main([str(out)]) == 0
    text = capsys.readouterr().out.rstrip("\n")
    assert text.count("\n| ") >= 14
    assert "| trained guess |" in text
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tables: begin -->\nold\n<!-- tables: end -->\nafter\n")
    for _ in range(2):
        assert tables_main([str(out), str(page)]) == 0
        expected = f"before\n<!-- tables: begin -->\n{text}\n<!-- tables: end -->\nafter\n"
        assert page.read_text() == expected
    page.write_text("no marks")
    assert tables_main([str(out), str(page)]) == 2
    assert tables_main([str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "has no place for tables" in told
    assert "reproduce once without --draw-only" in told


def test_conditions_share_their_shots_and_guesses_stay_out_of_training(run):
    out, _ = run
    experiment = Experiment(Options.of(json.loads((out / "options.json").read_text())), out / "llm")
    plain, _ = experiment.prompts(0, condition("none"), 3)
    given, guesses = experiment.prompts(0, condition("trained"), 3)
    query, _ = experiment.prompts(0, condition("query_only"), 3)
    for a, b, c in zip(plain, given, query, strict=True):
        assert b.count("Initial guess:") == 4
        assert c.count("Initial guess:") == 1
        for text in (b, c):
            assert "".join(part for part in text.splitlines(True) if "guess" not in part) == a
    assert np.isfinite(guesses).all()
    fewer, _ = experiment.prompts(0, condition("none"), 1)
    assert all(many.split("Score:")[0] == few.split("Score:")[0] for many, few in zip(plain, fewer, strict=True))
    assert experiment.prompts(1, condition("none"), 3)[0] != plain
    assert len(set(experiment.pool(0).tolist())) == 500


def test_shared_shots_give_one_prefix(run):
    out, _ = run
    given = json.loads((out / "options.json").read_text()) | {"shared_shots": True}
    asked, _ = Experiment(Options.of(given), out / "llm").prompts(0, condition("trained"), 3)
    assert len({prompt.rpartition("Sentence 1:")[0] for prompt in asked}) == 1
    assert len(set(asked)) == 10


@pytest.mark.slow
def test_another_family_and_several_seeds(model_folders, stsb, tmp_path):
    flags = ("--stsb", stsb, "--model", model_folders["qwen2"], "--pairs", 5, "--shots", 1, "--features", "hidden")
    assert reproduce("fig_conditions", *flags, "--shared-shots", "--seeds", 2, "--out", tmp_path) in (0, 1)
    (path,) = (tmp_path / "data").iterdir()
    answer = xr.open_zarr(path, consolidated=False).load()["answer"]
    assert dict(answer.sizes) == {"seed": 2, "shots": 1, "condition": 7, "pair": 5}
    assert float(abs(answer[0] - answer[1]).max()) > 0
    assert reproduce("fig_conditions", "--draw-only", "--out", tmp_path) in (0, 1)  # the stored number of seeds
    assert float(answer.min()) >= 0
    assert float(answer.max()) <= 5


def test_through_a_server(stsb, tmp_path, capsys):
    try:
        StaticEmbeddings()
    except IclearnError as error:
        pytest.skip(str(error))
    pytest.importorskip("torch", reason="torch is not installed (pip install 'iclearn[llm]')")
    flags = ("fig_conditions", "--stsb", stsb, "--pairs", 5, "--shots", 1, "--out", tmp_path)
    with FakeServer("none") as server:
        assert reproduce(*flags, "--model", server.url) == 2
        assert "gives no log-probabilities for tiny: use --read text" in capsys.readouterr().err
        assert reproduce(*flags, "--model", server.url, "--read", "text") in (0, 1)
        (path,) = (tmp_path / "llm").glob("replies-*.jsonl")
        assert len(path.read_text().splitlines()) == 35


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the STS-Benchmark: --stsb DIR"),
        (("--stsb", "/no/such"), "is no folder"),
        (("--stsb", "STSB", "--pairs", "1"), "--pairs must be at least 3, not 1"),
        (("--stsb", "STSB", "--pairs", "2000"), "--pairs 2000, but the dev split has 1500"),
        (("--stsb", "STSB", "--shots", "-1"), "--shots must be at least 0, not -1"),
        (("--stsb", "STSB", "--shots", "501"), "only 500 training pairs are kept for shots"),
        (("--stsb", "STSB", "--model", "nonsense"), "no model 'nonsense'"),
        (("--draw-only",), "reproduce once without --draw-only"),
    ],
)
def test_bad_input_is_one_line(words, said, stsb, tmp_path, capsys):
    given = [str(stsb) if word == "STSB" else word for word in words]
    assert reproduce(*given, "--out", tmp_path) == 2
    told = capsys.readouterr().err.splitlines()
    assert said in told[-1]
    assert not [line for line in told if "Traceback" in line]


def test_other_papers_take_no_such_flags(tmp_path, capsys):
    assert main(["reproduce", "zhang2025", "fig2", "--pairs", "3", "--out", str(tmp_path)]) == 2
    assert "unknown flag --pairs" in capsys.readouterr().err
