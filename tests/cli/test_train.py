"""`iclearn train`, `show` and `list` end to end: the public command lines, files, and one-line refusals."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.core.trace import Trace
from iclearn.store import Store

SMALL = ["--trainset_size", "64", "--seq_len", "8", "--epoch", "30"]


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    return tmp_path


def stored(folder: Path = Path("runs")) -> Trace:
    (path,) = folder.glob("*.zarr")
    return Trace.load(path)


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["--model", "attnM", "--head", "8", "--init", "1e-6"], "attnM_head8_D4_R1_P64_N8_seed10"),
        (["--model", "mlp", "--cubic_feat", "--head", "8", "--init", "1e-6"], "mlp_head8_D4_R1_P64_N8_seed10"),
        (["--model", "attnS", "--head", "5", "--init", "1e-2", "--lr", "0.02"], "attnS_head5_D4_R1_P64_N8_seed10"),
        (["--model", "attnS", "--head", "9", "--KQ_dim", "2", "--in_dim", "3"], "attnS_head9_D3_R2_P64_N8_seed10"),
        (["--model", "attnS", "--head", "3", "--rank", "2", "--seed", "7"], "attnS_head3_D4_R2_P64_N8_seed7"),
    ],
)
def test_public_command_lines_write_the_public_text_file(argv, name):
    assert main(["train", *argv, *SMALL]) == 0
    loss = np.loadtxt(f"{name}.txt")
    assert loss.shape == (30,)
    np.testing.assert_array_equal(loss, stored().loss)


def test_only_the_flags_of_the_public_code_leave_its_text_file(in_tmp):
    assert main(["train", "--heads", "2", "--prompts", "64", "--context", "7", "--steps", "30"]) == 0
    assert [path.name for path in in_tmp.iterdir()] == ["runs"]
    assert main(["train", "--heads", "2", "--no-text", *SMALL]) == 0
    assert [path.name for path in in_tmp.iterdir()] == ["runs"]


def test_mix_writes_three_columns():
    argv = ["--model", "attnM", "--icl", ".2", "--head", "4", "--testset", "50", "--white_cov", "--lr", "0.0005"]
    assert main(["train", *argv, *SMALL]) == 0
    table = np.loadtxt("attnM_head4_D4_R1_P64_N8_seed10_icl0.2.txt")
    trace = stored()
    np.testing.assert_array_equal(table[:, 0], trace.loss)
    np.testing.assert_array_equal(table[:, 1], trace.data["test_loss"].sel(test_set="in_weight"))
    np.testing.assert_array_equal(table[:, 2], trace.data["test_loss"].sel(test_set="in_context"))


def test_show_without_a_display_writes_a_picture_and_says_where(capsys):
    assert main(["train", "--head", "2", "--show", *SMALL]) == 0
    assert "no display here: figure written to attnM_head2_D4_R1_P64_N8_seed10.png" in capsys.readouterr().out
    assert Path("attnM_head2_D4_R1_P64_N8_seed10.png").read_bytes().startswith(b"\x89PNG")
    assert not list(Path().glob("*.txt"))


def test_track_value_writes_loss_and_values():
    assert main(["train", "--model", "attnS", "--head", "3", "--track_value", "--plot", "p.pdf", *SMALL]) == 0
    table = np.loadtxt("attnS_head3_D4_R1_P64_N8_seed10_value.txt")
    assert table.shape == (30, 4)
    np.testing.assert_array_equal(table[:, 1:], stored().data["weight_value"].values[:30, :, 0, -1])
    assert Path("p.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("name", ["merged", "separate_rank2", "mlp_cubic", "merged_softmax", "merged_vary_len"])
def test_golden_files_serve_as_dataset_and_weights(golden, name):
    arrays = golden(name)
    args = json.loads(str(arrays["args"]))
    flags = [f for f in ("softmax", "vary_len") if args[f]]
    file = str(golden.path(name))
    argv = ["--model", args["model"], "--lr", str(args["lr"]), "--epoch", "60", "--dataset", file, "--weights", file]
    assert main(["train", *argv, *(f"--{f}" for f in flags), "--out", "o"]) == 0
    np.testing.assert_allclose(stored(Path("o")).loss, arrays["loss"][:60], rtol=1e-9)


def test_a_second_request_is_answered_from_disk_and_show_and_list_find_it(capsys):
    argv = ["train", "--head", "2", "--export", "c.csv", *SMALL]
    assert main(argv) == 0
    first = stored()
    assert main(argv) == 0
    assert stored().provenance == first.provenance, "not run again"
    assert Path("c.csv").read_text().startswith("step,loss\n0,")
    capsys.readouterr()
    assert main(["list", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["run_id"] == first.run_id
    assert row["final_loss"] == first.final_loss
    assert main(["list"]) == 0
    assert first.run_id in capsys.readouterr().out
    assert main(["show", first.run_id[:5], "--plot", "s.svg"]) == 0
    assert "theory     L(M_0) 1.0000, L(M_1)" in capsys.readouterr().out
    assert Path("s.svg").exists()
    assert main(["show", first.run_id, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["engine"] == "moments"


def test_list_tells_runs_apart_and_finds_them(capsys):
    ours = ["train", "--heads", "2", "--prompts", "inf", "--context", "8", "--steps", "5", "--quiet"]
    for more in ([], ["--noise", "0.25"], ["--seed", "3"], ["--optimizer", "adam"], ["--eigenvalues", "0.7", "0.3"]):
        assert main([*ours, *more]) == 0
    runs = Store("runs").list()
    differs = [{k: v for k, v in s.values(changed=True).items() if k.startswith(("task.noise", "seed"))} for s in runs]
    assert {"task.noise": 0.25} in differs
    assert {"seed": 3} in differs
    capsys.readouterr()
    assert main(["list"]) == 0
    shown = " ".join(capsys.readouterr().out.replace("│", " ").split())
    for word in ("task.noise=0.25", "seed=3", "optimizer.rule=adam", "task.covariance.parameters=(0.7,"):
        assert word in shown
    assert "num_heads" not in shown, "all have it"

    def found(*words: str) -> list[str]:
        assert main(["list", *words, "--json"]) == 0
        return [row["run_id"] for row in json.loads(capsys.readouterr().out)]

    (noisy,) = found("task.noise=0.25")
    assert found("noise=2.5e-1") == found(noisy[:8]) == [noisy]
    assert found("adam", "seed=10") == found("rule=adam")
    assert len(found("seed=10")) == 4
    assert found("seed=10", "seed=3") == []
    assert [s.run_id for s in Store("runs").list("noise=0.25")] == [noisy]
    assert main(["show", noisy, "--plot", "n.png"]) == 0
    assert "task.noise=0.25" in capsys.readouterr().out
    assert main(["list", "nois=1"]) == 2
    assert "no run in runs has a field 'nois'" in capsys.readouterr().err


REFUSALS = [
    (["--lr", "fast"], "lr"),
    (["--hed", "3"], "unknown flag --hed; did you mean --head"),
    (["--in", "3"], "--in could mean --dim, --init: write it out"),
    (["--model", "attnS", "--rank", "6"], "rank 6 is larger than the 5 entries of a token"),
    (["--model", "mlp", "--cubic_feat", "--softmax"], "cubic features have no tokens for a softmax"),
    (["--model", "attnM", "--cubic_feat"], "cubic features are what the mlp model reads"),
    (["--head", "0"], "--heads must be at least 1, not 0"),
    (["--seq_len", "1"], "--seq-len must be at least 2"),
    (["--prompts", "many"], "--prompts must be a whole number of at least 1, or inf, not 'many'"),
    (["--softmax", "--engine", "moments"], "for softmax attention use engine samples"),
    (["--softmax", "--prompts", "inf"], "fresh prompts at every step need a batch size"),
    (["--init", "-1"], "init scale must be a number of at least 0"),
    (["--icl", "2"], "between 0 and 1"),
    (["--lr", "50", "--init", "1"], "the run diverged at step"),
    (["--dataset", "none.npz"], "no file none.npz"),
    (["--dataset", "nan.npz"], "dataset array x has 1 NaN or infinite values, the first at index (0, 1, 1)"),
    (["--dataset", "shapes.npz"], "do not belong together"),
    (["--dataset", "text.npz"], "is not a readable .npz file"),
    (["--weights", "shapes.npz"], "no weights found among x, y_q"),
    (["--plot", "p.xyz"], "the name must end in .png, .pdf or .svg"),
    (["--batch_size", "8"], "gd uses every prompt at each step"),
    (["--eigenvalues", "1", "-1"], "eigenvalues must be positive"),
]


@pytest.mark.parametrize(("argv", "line"), REFUSALS, ids=[" ".join(a) for a, _ in REFUSALS])
def test_refusals_are_one_line_exit_2_and_leave_nothing(argv, line, in_tmp, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 4, 3))
    np.savez("shapes.npz", x=x, y_q=np.zeros(4))
    x[0, 1, 1] = np.nan
    np.savez("nan.npz", x=x, y_q=np.zeros(5))
    Path("text.npz").write_text("no zip")
    before = sorted(in_tmp.rglob("*"))
    small = [] if {"--seq_len", "--prompts", "--dataset"} & set(argv) else SMALL[:4]
    assert main(["train", *small, "--epoch", "40", *argv]) == 2
    told = capsys.readouterr()
    assert line in told.err
    assert told.err.startswith("iclearn train: ")
    assert told.err.count("\n") == 1
    assert told.out == ""
    left = [p for p in sorted(in_tmp.rglob("*")) if p not in before and p != in_tmp / "runs"]
    assert left == []


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["show", "abc"], "no stored run 'abc' in runs"),
        (["nonsense"], "unknown command 'nonsense'; commands are train"),
    ],
)
def test_other_refusals(argv, line, capsys):
    assert main(argv) == 2
    assert line in capsys.readouterr().err


def test_help_is_quick_because_it_imports_no_jax():
    code = "import sys; from iclearn.cli import main; main(['--help']); print({'jax', 'numpy'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[0] == "usage: iclearn COMMAND [options]"
    assert told.splitlines()[-1] == "set()"


def test_init_scheme_of_the_published_figure():
    """entries: keys are √(R (D + 1)) times those of per_head, values the same."""
    argv = ["train", "--model", "attnS", "--head", "3", "--epoch", "2", *SMALL[:-2]]
    for scheme in ("per_head", "entries"):
        assert main([*argv, "--init-scheme", scheme, "--out", scheme]) == 0
    own, published = (stored(Path(scheme)).weights(0) for scheme in ("per_head", "entries"))
    np.testing.assert_allclose(published["key"], 5**0.5 * np.asarray(own["key"]), rtol=1e-12)
    np.testing.assert_array_equal(published["value"], own["value"])
