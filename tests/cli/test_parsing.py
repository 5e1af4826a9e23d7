"""Command lines: prefixes and aliases as the public code has them, and every parse error pinned word for word."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from iclearn.cli import COMMANDS, main, usage
from iclearn.cli.parsing import UsageError, expand_flags, parse
from iclearn.cli.train_flags import PUBLIC_FLAGS, TrainArgs
from iclearn.core.recipe import Record
from iclearn.models import Attention
from iclearn.store.linattn import recipe_of_flags
from iclearn.tasks import Covariance, LinearRegression


def parsed(line: str) -> TrainArgs:
    return parse(TrainArgs, line.split(), "iclearn train", PUBLIC_FLAGS)


def recipe(line: str):
    return recipe_of_flags(parsed(line))[0]


README = {
    "--model attnM --head 8 --init 1e-6 --show": {"heads": 8, "init": 1e-6, "show": True, "model": "attnM"},
    "--model mlp --cubic_feat --head 8 --init 1e-6 --show": {"model": "mlp", "cubic_feat": True, "heads": 8},
    "--model attnS --head 5 --init 1e-2 --epoch 10001 --lr 0.02 --show": {"steps": 10001, "lr": 0.02, "init": 0.01},
    "--model attnS --head 9 --KQ_dim 4 --in_dim 8 --seq_len 32 --init 5e-3 --trainset_size 80000 --epoch 20001 "
    "--lr 0.02": {"rank": 4, "dim": 8, "seq_len": 32, "prompts": "80000", "steps": 20001},
    "--model attnM --icl .2 --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005 --epoch 4001": {
        "icl": 0.2,
        "test_prompts": 5000,
        "white_cov": True,
    },
    "--rank 2 --head_num 3 --testset_size 7 --out_dim 2 --seed 3 --softmax --vary_len --track_value": {
        "rank": 2,
        "heads": 3,
        "test_prompts": 7,
        "out_dim": 2,
        "seed": 3,
        "softmax": True,
        "vary_len": True,
        "track_value": True,
    },
}


@pytest.mark.parametrize("line", README)
def test_public_command_lines_mean_what_they_meant(line):
    args = parsed(line)
    assert {name: getattr(args, name) for name in README[line]} == README[line]


def test_the_defaults_are_those_of_the_public_code():
    made = recipe("")
    assert made.task == LinearRegression(
        dim=4, context_len=31, covariance=Covariance.linear(), num_prompts=5000, center=True, whiten=True
    )
    assert made.model == Attention("merged", num_heads=1, rank=1, normalize="none")
    assert (made.steps, made.seed, made.init.scale) == (6001, 10, 0.01)
    assert (made.optimizer.rule, made.optimizer.lr) == ("gd", 0.001)
    assert (made.engine, made.dtype, made.record) == ("auto", "float64", Record())


SAME = [
    ("--head 8", "--heads 8"),
    ("--head_num 8", "--head-num=8"),
    ("--KQ_dim 2 --model attnS", "--rank 2 --model separate"),
    ("--KQ 2 --model attnS", "--rank=2 --model separate"),
    ("--epoch 50", "--steps 50"),
    ("--ep 50", "--steps 50"),
    ("--trainset_size 60", "--prompts 60"),
    ("--train 1e3", "--prompts 1000"),
    ("--in_dim 3", "--dim 3"),
    ("--seq_len 9", "--context 8"),
    ("--white", "--white-cov"),
    ("--vary_len", "--vary_len --normalize tokens"),
    ("--model mlp --cubic_feat --rank 2", "--model mlp"),
    ("--lr 1e-3", "--lr 0.001"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_two_ways_of_saying_the_same(one, other):
    assert recipe(one) == recipe(other)


def test_conventions_of_the_public_data_are_on_where_its_commands_imply_them():
    def corrections(line):
        task = recipe(line).task
        assert isinstance(task, LinearRegression)
        return task.center, task.whiten

    assert corrections("") == (True, True)
    assert corrections("--icl .5") == (True, False)
    assert corrections("--raw_data") == (False, False)
    assert corrections("--prompts inf") == (False, False)


def test_track_value_records_every_step():
    assert recipe("--track_value --steps 30").record == Record(31, 31)


# Every message below is what the user sees, whole.
PARSE_ERRORS = {
    "nonsense": "iclearn: unknown command 'nonsense'; commands are " + ", ".join(COMMANDS),
    "train --nosuch 3": "iclearn train: unknown flag --nosuch",
    "train --hed 3": "iclearn train: unknown flag --hed; did you mean --heads?",
    "train --trainset_sise 3": "iclearn train: unknown flag --trainset_sise; did you mean --trainset-size?",
    "train --s 3": "iclearn train: --s could mean --seed, --seq-len, --show, --softmax: write it out",
    "train --in 3": "iclearn train: --in could mean --dim, --init: write it out",
    "train --lr": "iclearn train: Missing value for argument '--lr'. Expected 1 values",
    "train --lr abc": "iclearn train: Error parsing --lr: could not convert string to float: 'abc'",
    "train --lr=abc": "iclearn train: Error parsing --lr: could not convert string to float: 'abc'",
    "train --epoch 1.5": "iclearn train: --steps must be a whole number, not '1.5'",
    "train --model rnn": "iclearn train: invalid choice 'rnn' for argument '--model'. Expected one of ('attnM', "
    "'attnS', 'mlp', 'conv', 'merged', 'separate', 'merged_reduced', 'separate_reduced')",
    "train --engine fast": "iclearn train: invalid choice 'fast' for argument '--engine'. Expected one of ('auto', "
    "'population', 'moments', 'samples', 'gram')",
    "train word": "iclearn train: Unrecognized options: word",
    "train --white_cov yes": "iclearn train: Unrecognized options: yes",
    "cite zhang2025 --json": "iclearn cite: unknown flag --json",
    "list --nosuch": "iclearn list: unknown flag --nosuch",
    "show": "iclearn show: Missing from iclearn show: STR Name of the run (its first digits are enough) or path of its "
    "folder. (required)",
    "show abc": "iclearn show: no stored run 'abc' in runs; `iclearn list` shows what is there",
    "show abc --pot x": "iclearn show: unknown flag --pot; did you mean --plot?",
}
# Values and combinations that make no run, refused before anything is computed.
VALUE_ERRORS = {
    "--lr 0": "the learning rate must be positive, not 0.0",
    "--lr inf": "optimizer lr must be a finite number, not inf",
    "--init inf": "init scale must be a finite number, not inf",
    "--init nan": "the init scale must be a number of at least 0, not nan",
    "--steps 0": "steps must be at least 1, not 0",
    "--seed -1": "the seed must be at least 0, not -1",
    "--seed 99999999999999999999": "the seed must be below 2^63, not 99999999999999999999",
    "--prompts 10.5": "--prompts must be a whole number of at least 1, or inf, not '10.5'",
    "--prompts 1e400": "--prompts must be a whole number of at least 1, or inf, not '1e400'",
    "--prompts 0": "--prompts must be a whole number of at least 1, or inf, not '0'",
    "--prompts 5 --engine population": "engine population integrates over infinitely many prompts, and this task has "
    "5: choose num_prompts=None (--prompts inf), or engine moments or samples",
    "--dataset good.npz --prompts 7": "--dataset brings its own prompts: drop --prompts",
    "--dataset good.npz --dim 99": "--dataset brings its own prompts: drop --dim",
    "--dataset good.npz --noise 3": "--dataset brings its own prompts: drop --noise",
    "--dataset good.npz --test-prompts 9": "--dataset brings its own prompts: drop --test-prompts",
    "--dataset good.npz --eigenvalues 1 2": "--dataset brings its own prompts: drop --eigenvalues",
    "--weights weights.npz --in_dim 2 --init 5": "--weights brings its own initial weights: drop --init",
    "--weights weights.npz --init-scheme stacked": "--weights brings its own initial weights: drop --init-scheme",
    "--eigenvalues": "--eigenvalues takes at least one value: none was given",
    "--prior-mean --lr 0.1": "--prior-mean takes at least one value: none was given",
    "--covariance-parameters 3": "--covariance linear takes 0 --covariance-parameters, not 1",
    "--white-cov --covariance-parameters 3": "--covariance-parameters go with --covariance power, two_level or spiked",
    "--eigenvalues 1 2 --dim 9": "--dim 9, but 2 --eigenvalues are given: drop --dim",
    "--context 5 --seq-len 9": "--context 5 means --seq-len 6, not 9: drop one",
    "--set seed=3": "--set changes a recipe file: give it with --recipe",
    "--testset -5": "test_prompts must be at least 0, not -5",
    "--testset 3": "whitening needs more than 4 test prompts, not 3",
    "--noise inf": "the noise variance must be finite and not negative, not inf",
    "--prior-mean nan 0 0 0": "the prior mean must be finite, not [nan, 0.0, 0.0, 0.0]",
    "--in_dim 0": "dim must be at least 1, not 0",
    "--rank 0": "--rank must be at least 1, not 0",
    "--covariance power": "--covariance power takes 1 --covariance-parameters, not 0",
    "--covariance two_level --covariance-parameters 1.5 2": "two_level needs a whole number of large eigenvalues, "
    "not 1.5",
    "--white_cov --eigenvalues 1 2": "give one of --white-cov, --covariance and --eigenvalues: each sets the whole "
    "spectrum",
    "--icl 0 --vary_len": "prefixes need labels that follow the task; with in_context = 0 they are noise",
    "--model mlp --softmax": "softmax needs the tokens; the mlp model reads cubic features: drop softmax or choose "
    "merged or separate",
    "--model conv --out_dim 2": "the conv model has one output; this task has 2",
    "--prompts inf --engine moments": "engine moments needs a number of prompts; for infinitely many use engine "
    "population or samples",
    "--prompts inf --prior-mean 1 0 0 0": "under a task prior with a non-zero mean (or an in-context mix) full "
    "attention leaves the reduced model, and its population loss has no closed form here: use engine moments or "
    "samples with a finite number of prompts, or a *_reduced model",
    "--export a.xlsx": "--export a.xlsx: the name must end in .csv, .nc or .txt",
    "--out taken": "--out taken is a file; give a folder",
    "--plot folder": "folder is a folder; give the name of a file",
    "--dataset text.npz": "text.npz is not a readable .npz file: File is not a zip file",
    "--dataset good.npz --vary_len": "training on all prefixes needs the true label of every token: add `y_all`",
    "--dataset good.npz --engine population": "a given dataset has no population: use engine moments (linear models) "
    "or samples (any)",
    "--weights weights.npz --model attnS": "weights.npz holds weights of a merged model, not of attnS",
    "--weights weights.npz --in_dim 2 --head 3": "--heads 3, but weights.npz holds 2 heads",
    "--weights weights.npz": "weight value has shape (2, 1, 3), this model and task need (2, 1, 5) "
    "(head, output, entry)",
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    (tmp_path / "taken").write_text("a file")
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.npz").write_text("no zip")
    np.savez(tmp_path / "good.npz", x=rng.normal(size=(9, 5, 3)), y_q=rng.normal(size=9))
    np.savez(tmp_path / "weights.npz", weights_kq=rng.normal(size=(2, 3, 3)), weights_value=rng.normal(size=(2, 3, 3)))
    return tmp_path


ERRORS = PARSE_ERRORS | {f"train {line}": f"iclearn train: {said}" for line, said in VALUE_ERRORS.items()}


@pytest.mark.parametrize("line", ERRORS)
def test_one_line_exit_code_two_and_nothing_left_behind(line, folder, capsys):
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*")}
    assert main(line.split()) == 2
    told = capsys.readouterr()
    # Some releases of tyro write the name of an argument as a Python tuple.
    assert told.err.replace("('--lr',)", "--lr") == f"{ERRORS[line]}\n"
    assert told.out == ""
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*")} == before


def test_an_unwritable_place_is_one_line_too(folder, capsys):
    assert main(["show", "x", "--out", "taken/runs"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_values_may_look_like_flags_after_an_equals_sign_and_words_after_two_dashes():
    assert expand_flags(["--init=-1", "--", "--head"], ["init", "heads"], {}) == ["--init=-1", "--", "--head"]
    assert expand_flags(["-h"], ["heads"], {}) == ["-h"]


@dataclass(frozen=True)
class Two:
    """Two flags, one a prefix of the other."""

    out: str = ""
    output: str = ""


def test_a_whole_name_is_never_ambiguous():
    assert parse(Two, ["--out", "a", "--output", "b"], "two") == Two("a", "b")
    assert parse(Two, ["--outp", "b"], "two") == Two("", "b")
    with pytest.raises(UsageError, match="--ou could mean --out, --output: write it out"):
        parse(Two, ["--ou", "a"], "two")


def test_usage_and_version(capsys):
    for words in ([], ["--help"], ["-h"], ["help"]):
        assert main(words) == 0
        assert capsys.readouterr().out == usage() + "\n"
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("iclearn ")


def test_help_of_a_command_lists_its_flags_and_exits_zero():
    """In a process of its own: --help ends the process."""
    code = "from iclearn.cli import main; main(['train', '--help'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    for flag in ("--model", "--heads", "--rank", "--engine", "--dataset", "--weights", "--plot"):
        assert flag in done.stdout
    assert done.stderr == ""
