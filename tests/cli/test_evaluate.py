"""`iclearn evaluate`: a stored run beside predictors, end to end, and errors by their text."""

import json

import pytest

import iclearn as icl
from iclearn.cli import main
from iclearn.evaluation import Matrix


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("evaluated")
    task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None, noise=0.25)
    model = icl.Attention("merged")
    recipe = icl.Recipe(task=task, model=model, init=icl.Init(0.1), optimizer=icl.Optimizer(lr=0.02), steps=200)
    icl.Store(where / "runs").run(recipe)
    other = recipe.replace(task__dim=3, steps=2)
    icl.Store(where / "runs").run(other)
    return where, recipe.hash[:12], other.hash[:12]


def test_a_run_is_evaluated_stored_drawn_and_told(folder, capsys, monkeypatch):
    where, run, _ = folder
    monkeypatch.chdir(where)
    words = [
        "evaluate",
        run[:8],
        "averaging",
        "zero",
        "--shifts",
        "scale_x=2",
        "noise",
        "prior_mean=1",
        "--prompts",
        "64",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "scale x = 2" in told
    assert "errors after 1 2 4 pairs" in told
    out = where / "evaluated" / run
    matrix = Matrix.load(out / "matrix.zarr")
    assert matrix.runs == (run,)
    assert matrix.data.sizes["shift"] == 8
    for name in ("matrix", "curves", "sweeps"):
        assert all((out / "figures" / f"{name}.{ending}").stat().st_size for ending in ("png", "pdf", "svg"))
    page = (out / "index.html").read_text()
    assert page.count("data:image/png") == 3
    for words_there in ("Algorithm or prior", "follows", run, "merged", "the same for all predictors"):
        assert words_there in page

    def never(*_, **__):
        raise AssertionError("the same evaluation is not computed twice")

    monkeypatch.setattr("iclearn.evaluation.matrix.evaluate", never)
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["errors"]["scale_x=2"][run]["2"]) == 3
    with pytest.raises(AssertionError):
        main([*words, "--seed", "1"])


def test_predictors_alone_need_a_dimension(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("iclearn.report.matrix_page.FORMATS", ("png",))
    words = ["evaluate", "averaging", "--dim", "2", "--context-len", "3", "--shifts", "skewed", "--prompts", "40"]
    assert main([*words, "--out", str(tmp_path / "out"), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert Matrix.load(tmp_path / "out" / "matrix.zarr").data.sizes["position"] == 4


def test_the_list_has_shifts_and_predictors(capsys):
    assert main(["evaluate", "--list"]) == 0
    told = capsys.readouterr().out
    for word in ("half_subspace", "scale_x=0.333", "condition_number=10000", "lasso=0.1", "network=100", "(slow)"):
        assert word in told


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "name a stored run or a predictor"),
        (
            ["ffffff"],
            "no stored run 'ffffff' in RUNS; `iclearn list` shows what is there; and it is no predictor: zero",
        ),
        (["RUN", "--shifts", "upside_down"], "unknown shift 'upside_down'"),
        (["RUN", "--shifts", "input_tails=1"], "the amount of input_tails must be finite and above 2: 1.0"),
        (["RUN", "OTHER"], "has inputs of dimension 3, and the prompts have 2"),
        (["RUN", "--dim", "4"], "--dim, --context-len and --noise are for --standard"),
        (["averaging", "--dim", "0"], "dim must be at least 1"),
        (["RUN", "--prompts", "1"], "num_prompts must be at least 2"),
    ],
)
def test_errors_are_one_line(folder, capsys, words, message):
    where, run, other = folder
    names = {"RUN": run, "OTHER": other}
    given = [names.get(word, word) for word in words]
    assert main(["evaluate", *given, "--runs", str(where / "runs"), "--out", str(where / "none")]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert message.replace("RUNS", str(where / "runs")) in told
    assert not (where / "none").exists()
