"""`iclearn reproduce xie2025-llm` end to end, on tiny real models and files of the benchmark's size."""

import json
import shutil

import numpy as np
import pytest
import xarray as xr
from fake_server import FakeServer

from iclearn.cli import main
from iclearn.core.errors import IclearnError
from iclearn.llm import CONDITIONS, Experiment, StaticEmbeddings, condition
from iclearn.papers.xie2025_llm.setup import Options

FIGURES = ("fig_help", "fig_quality", "fig_shots", "fig_wordings")


def reproduce(*words):
    return main(["reproduce", "xie2025-llm", *map(str, words)])


@pytest.fixture(scope="module")
def static():
    try:
        StaticEmbeddings()
    except IclearnError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def run(model_folders, stsb, static, tmp_path_factory):
    """A finished run of two tiny models and the flags that made it."""
    out, models = tmp_path_factory.mktemp("out"), ",".join(map(str, model_folders.values()))
    flags = ("--stsb", stsb, "--models", models, "--pairs", 10, "--shots", 2, "--out", out)
    code = reproduce(*flags, "--device", "cpu")
    assert code in (0, 1)  # random models owe the paper nothing
    return out, flags


def experiment_of(out, **changes):
    options = Options.of(json.loads((out / "options.json").read_text()))
    return Experiment(options.stsb, out / "llm", pairs=options.pairs, device="cpu", **changes)


def prompts_of(experiment, seed, name, shots, **how):
    return experiment.prompts(seed, condition(name), shots, **how)


def lines_of(out):
    return [line for path in sorted((out / "llm").glob("replies-*.jsonl")) for line in path.read_text().splitlines()]


def test_all_conditions_are_asked_judged_and_drawn(run):
    out, _ = run
    verdicts = json.loads((out / "verdicts.json").read_text())
    assert {v["figure"] for v in verdicts} == set(FIGURES)
    assert not [v for v in verdicts if v["verdict"] == "failed"]
    assert {v["verdict"] for v in verdicts} == {"inconclusive"}, "models without skill decide nothing"
    for name in FIGURES:
        assert (out / "figures" / f"{name}.png").stat().st_size > 5000
    # every condition but those of gte-small; 0, 1 and 4 examples; two more wordings; 10 pairs to fit combinations on
    experiment = experiment_of(out)
    asked = [(how.id, 2, {}) for how in CONDITIONS if how.source != "gte"]
    asked += [(name, n, {}) for name in ("none", "trained") for n in (0, 1, 4)]
    asked += [(name, 2, {"wording": word}) for name in ("none", "trained") for word in ("helper", "question")]
    asked += [("none", 2, {"fit": True})]
    prompts = [prompt for name, shots, how in asked for prompt in prompts_of(experiment, 0, name, shots, **how)]
    assert len(prompts) == 240
    keys = [json.loads(line)["key"] for line in lines_of(out)]
    assert len(keys) == len(set(keys)) == 2 * len(set(prompts))
    assert "STS-Benchmark" in json.loads((out / "facts.json").read_text())["fig_quality"]["data"][0]


def test_no_sentence_is_stored(run, stsb):
    out, _ = run
    for path in out.rglob("*"):
        if path.is_file():
            assert b"cat dog" not in path.read_bytes()
            assert b"hill house" not in path.read_bytes()


def test_a_second_run_asks_nothing_and_gives_the_same_numbers(run, model_folders):
    """Nor does one with fewer models: each is known by itself. Probabilities are stored beside answers."""
    out, flags = run
    before = lines_of(out)
    stored = {p.name: xr.open_zarr(p, consolidated=False).load() for p in (out / "data").iterdir()}
    shutil.rmtree(out / "data")
    one = [model_folders["llama"] if word == flags[3] else word for word in flags]
    assert reproduce("fig_help", *one, "--device", "cpu") in (0, 1)
    assert len(list((out / "data").iterdir())) == 1
    assert reproduce(*flags, "--device", "cpu") in (0, 1)
    assert lines_of(out) == before
    for path in (out / "data").iterdir():
        data = xr.open_zarr(path, consolidated=False).load()
        assert np.array_equal(data["answer"], stored[path.name]["answer"])
        chances = data["probability"].values
        assert ((chances >= 0) & (chances.sum(-1, keepdims=True) <= 1 + 1e-5)).all()
        assert np.allclose(data["answer"], (chances * np.arange(6)).sum(-1) / chances.sum(-1), atol=1e-5)
        assert np.array_equal(data["mark"], chances.argmax(-1))


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


def test_conditions_share_their_shots_and_guesses_stay_out_of_training(run):
    out, _ = run
    experiment = experiment_of(out)
    plain, given, query = (prompts_of(experiment, 0, name, 3) for name in ("none", "trained", "query_only"))
    for a, b, c in zip(plain, given, query, strict=True):
        assert b.count("Initial guess:") == 4
        assert c.count("Initial guess:") == 1
        for text in (b, c):
            assert "".join(part for part in text.splitlines(True) if "guess" not in part) == a
    assert np.isfinite(experiment.guesses(0, condition("trained"), "dev", experiment.rows)).all()
    fewer = prompts_of(experiment, 0, "none", 1)
    assert all(many.split("Score:")[0] == few.split("Score:")[0] for many, few in zip(plain, fewer, strict=True))
    assert prompts_of(experiment, 1, "none", 3) != plain
    assert len(set(experiment.pool(0).tolist())) == 500
    assert not set(experiment.rows) & set(experiment.fit_rows), "combinations are fitted on other pairs"
    assert len(experiment.fit_rows) == 10


def test_the_test_split_is_scored_with_shared_examples_and_fits_stay_on_development_pairs(run, stsb):
    out, _ = run
    asked = prompts_of(experiment_of(out, examples="shared"), 0, "trained", 3)
    assert len({prompt.rpartition("Sentence 1:")[0] for prompt in asked}) == 1
    assert len(set(asked)) == 10
    experiment = Experiment(str(stsb), out / "llm", split="test", pairs=7, device="cpu")
    texts = [pair.first for pair in experiment.splits["test"].pairs]
    scored = prompts_of(experiment, 0, "none", 1)
    assert all(texts[row] in prompt for row, prompt in zip(experiment.rows, scored, strict=True))
    fitted = prompts_of(experiment, 0, "none", 1, fit=True)
    own = [experiment.splits["dev"].pairs[row].first for row in experiment.fit_rows]
    assert all(text in prompt for text, prompt in zip(own, fitted, strict=True))


def test_presets_fill_in_what_is_not_given():
    full = Options.of({"stsb": "s", "preset": "full"})
    assert (full.split, full.gte, full.usual_seeds, len(full.names)) == ("test", True, 3, 3)
    mine = Options.of({"stsb": "s", "preset": "full", "models": "a,b", "pairs": 50})
    assert (mine.names, mine.pairs, mine.split) == (["a", "b"], 50, "test")
    assert Options.of({"stsb": "s", "preset": "paper"}).names == ["qwen2.5-7b"]


@pytest.mark.slow
def test_several_draws(model_folders, stsb, static, tmp_path):
    flags = ("--stsb", stsb, "--models", model_folders["qwen2"], "--pairs", 5, "--shots", 1)
    assert reproduce("fig_help", *flags, "--examples", "shared", "--seeds", 2, "--out", tmp_path) in (0, 1)
    (path,) = (tmp_path / "data").iterdir()
    answer = xr.open_zarr(path, consolidated=False).load()["answer"]
    assert dict(answer.sizes) == {"seed": 2, "shots": 1, "wording": 1, "condition": 3, "pair": 5}
    assert float(abs(answer[0] - answer[1]).max()) > 0
    assert reproduce("fig_help", "--draw-only", "--out", tmp_path) in (0, 1)  # the stored number of seeds
    assert float(answer.min()) >= 0
    assert float(answer.max()) <= 5


def test_through_a_server(stsb, static, tmp_path, capsys):
    pytest.importorskip("torch", reason="torch is not installed (pip install 'iclearn[llm]')")
    flags = ("fig_help", "--stsb", stsb, "--pairs", 5, "--shots", 1, "--out", tmp_path)
    with FakeServer("none") as server:
        assert reproduce(*flags, "--models", server.url) == 2
        assert "gives no log-probabilities for tiny: use --read text" in capsys.readouterr().err
        assert reproduce(*flags, "--models", server.url, "--read", "text") in (0, 1)
        (path,) = (tmp_path / "llm").glob("replies-*.jsonl")
        assert len(path.read_text().splitlines()) == 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name the STS-Benchmark: --stsb DIR"),
        (("--stsb", "/no/such"), "is no folder"),
        (("--stsb", "STSB", "--pairs", "1"), "--pairs must be at least 3, or 0 for all, not 1"),
        (("--stsb", "STSB", "--pairs", "2000"), "--pairs 2000, but the dev split has 1100 to score (400 "),
        (("--stsb", "STSB", "--shots", "-1"), "--shots must be from 0 to 250 (of 500 pairs), not -1"),
        (("--stsb", "STSB", "--models", "nonsense"), "no model 'nonsense'"),
        (("--stsb", "STSB", "--preset", "huge"), "invalid choice 'huge' for argument '--preset'"),
        (("--stsb", "STSB"), "qwen2.5-coder-1.5b is not on this machine: `iclearn llm fetch qwen2.5-coder-1.5b`"),
        (("--draw-only",), "reproduce once without --draw-only"),
    ],
)
def test_bad_input_is_one_line(words, said, stsb, models, tmp_path, capsys):
    given = [str(stsb) if word == "STSB" else word for word in words]
    assert reproduce(*given, "--out", tmp_path) == 2
    told = capsys.readouterr().err.splitlines()
    assert said in told[-1]
    assert not [line for line in told if "Traceback" in line]


def test_other_papers_take_no_such_flags(tmp_path, capsys):
    assert main(["reproduce", "zhang2025", "fig2", "--pairs", "3", "--out", str(tmp_path)]) == 2
    assert "unknown flag --pairs" in capsys.readouterr().err
