"""The benchmark harness runs at tiny size and writes JSON that the table can read; no times are asserted."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
CASES = [
    "step/moments/merged-d4",
    "online/yq",
    "theory/pool_errors",
    "torch/merged-d4",
    "recompile/in-process/merged-d4",
    "shell/help",
]

sys.path.insert(0, str(ROOT))  # benchmarks/ is run from the root and never installed

from benchmarks.harness import run, selected, write  # noqa: E402
from benchmarks.measure import Case, Result, Skip, run_process  # noqa: E402
from benchmarks.online import MEMBERS, compiled_operations, online_recipe  # noqa: E402
from benchmarks.online import operations as needed_operations  # noqa: E402
from benchmarks.sweeps import operations, recipe_of  # noqa: E402
from benchmarks.table import render  # noqa: E402


def harness(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "benchmarks", *words], cwd=ROOT, capture_output=True, text=True)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("benchmarks") / "deep" / "quick.json"
    done = harness("--quick", "--only", *CASES, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert [path.name for path in out.parent.iterdir()] == ["quick.json"]
    return json.loads(out.read_text(encoding="utf-8"))


def test_writes_where_with_what_and_under_which_load(report):
    assert report["quick"] is True
    assert report["failed"] == []
    assert report["machine"]["cores"] >= 1
    assert report["machine"]["cpu"]
    assert report["machine"]["platform"] == "cpu"
    assert set(report["versions"]) >= {"iclearn", "jax", "python", "torch"}
    assert len(report["load_average_before"]) == len(report["load_average_after"]) == 3
    assert report["started"] <= report["finished"]


def test_results_hold_their_repeats_and_the_compile_time_apart(report):
    results = {r["name"]: r for r in report["results"]}
    step = results["step/moments/merged-d4-p200"]
    assert step["detail"]["engine"] == "moments"
    assert step["detail"]["loop_compile_seconds"] > 0
    assert len(step["repeats"]) == len(step["cpu_repeats"]) == 2
    for result in report["results"]:
        assert min(result["repeats"]) == result["minimum"] <= result["median"] <= max(result["repeats"])


def test_second_run_of_the_same_shape_compiles_nothing(report):
    (again,) = (r for r in report["results"] if r["name"].startswith("recompile/"))
    assert again["detail"]["programs_of_the_first"] > 0
    assert again["median"] == 0
    assert again["met"]


def test_naive_torch_is_the_same_model_or_skipped_with_a_reason(report):
    if importlib.util.find_spec("torch") is None:
        assert [row["name"] for row in report["skipped"]] == ["torch/merged-d4"]
        assert "torch is not installed" in report["skipped"][0]["reason"]
        pytest.skip("torch is not installed (pip install 'iclearn[bench]')")
    ratio = next(r for r in report["results"] if r["name"] == "torch/merged-d4/ratio")
    assert ratio["detail"]["loss_relative_error"] <= 1e-9
    assert ratio["detail"]["losses_compared"] >= 3


def test_table_has_a_row_for_every_result(report):
    page = render(report, "quick.json")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| what")]
    assert len(rows) == len(report["results"])
    assert all(any(r["what"] in row for row in rows) for r in report["results"])
    assert "quick" in page


def test_page_of_the_docs_comes_from_the_stored_numbers():
    stored = [f"benchmarks/results/{name}.json" for name in ("cpu", "papers-h200", "online-h200")]
    (first, *others) = [(json.loads((ROOT / name).read_text(encoding="utf-8")), name) for name in stored]
    assert not any(report["quick"] for report, _ in (first, *others))
    assert (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8") == render(*first, *others)


def test_floor_of_a_step_is_that_counted_by_hand():
    """d = C = 10, one model: 11 labels of 10 products, 66 entries of G over 10 words, uᵀ W x_q twice."""
    recipe = online_recipe(3.0, 0, MEMBERS[:1])
    assert needed_operations(recipe) == 2048 * (220 + 1320 + 2 * (2 * 67 * 10 + 20))
    compiled = compiled_operations(recipe)
    assert compiled >= needed_operations(recipe)


@pytest.fixture
def command(monkeypatch):
    """`python -m benchmarks` in this process; it switches the compile cache off for its own."""
    monkeypatch.setenv("ICLEARN_COMPILE_CACHE", "")
    monkeypatch.delenv("ICLEARN_COMPILE_CACHE")
    from benchmarks.__main__ import main

    return main


def test_long_cases_run_only_when_named(command, capsys):
    quick, long = Case("step/a", list), Case("paper/b", list, long=True)
    assert selected([quick, long], None) == [quick]
    assert selected([quick, long], ["paper"]) == [long]
    assert command(["--list"]) == 0
    assert "paper/li2024" in capsys.readouterr().out.split()


def test_unknown_case_is_refused_in_words(command, capsys):
    with pytest.raises(SystemExit) as ended:
        command(["--only", "nonsense"])
    assert ended.value.code == 2
    assert "no case begins with nonsense" in capsys.readouterr().err


def test_a_case_that_fails_or_cannot_run_stops_no_other(tmp_path):
    def fails():
        raise ValueError("broken")

    def skips():
        raise Skip("not here")

    good = Result("good", "a number", "s", (3.0, 1.0, 2.0), target=1.5)
    report = run([Case("a", fails), Case("b", skips), Case("c", lambda: [good])], quick=True)
    assert report["failed"] == [{"name": "a", "error": "ValueError: broken"}]
    assert report["skipped"] == [{"name": "b", "reason": "not here"}]
    (result,) = report["results"]
    assert (result["median"], result["minimum"]) == (2.0, 1.0)
    assert (result["met"], result["met_by_minimum"]) == (False, True)
    write(report, tmp_path / "report.json")
    page = render(json.loads((tmp_path / "report.json").read_text(encoding="utf-8")), "report.json")
    assert "`a`: ValueError: broken" in page
    assert "`b`: not here" in page


def test_command_that_fails_is_an_error_with_its_last_words(tmp_path):
    with pytest.raises(RuntimeError, match="ended with 3: last words"):
        run_process(
            [sys.executable, "-c", "import sys; print('first\\nlast words', file=sys.stderr); sys.exit(3)"],
            cwd=tmp_path,
        )
    done = run_process([sys.executable, "-c", "print(sum(range(10**6)))"], cwd=tmp_path)
    assert done.output == "499999500000\n"
    assert done.cpu > 0


def test_operations_of_the_written_step_are_those_counted_by_hand():
    """D=4, H=5, R=1: the count that the share of peak is computed from.

    v k 20; U 80 + 64; G 16 + 4; G q 80 + 60; values 20 + 15 + 5; keys 20 + 20; Gᵀ(v k) 80 + 60; queries 20.
    """
    assert operations(recipe_of(4, 5, 1, None, 10)) == 20 + 144 + 20 + 140 + 40 + 40 + 140 + 20


def test_the_page_of_compiled_code_holds_its_results():
    from benchmarks.compiled import markdown

    report = json.loads((ROOT / "benchmarks" / "results" / "compiled-cpu.json").read_text(encoding="utf-8"))
    assert markdown(report).strip() in (ROOT / "docs" / "compiled.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: pip install 'iclearn[bench]'")
def test_depth_steps_compare_the_same_models(tmp_path):
    """A model that differs from the naive one is an error of the script."""
    from benchmarks.depth_steps import agreement, main, trainings

    names = ("fig_softmax/two", "rotated/L2")
    errors = [agreement(t.recipe) for t in trainings() if t.name.endswith(names)]
    assert len(errors) == len(names)
    main(["--quick", "--only", "oswald2023/fig2", "--out", str(tmp_path / "depth.json")])
    (row,) = json.loads((tmp_path / "depth.json").read_text())["trainings"]
    assert row["ratio_of_medians"] == pytest.approx(row["naive_median_us"] / row["ours_median_us"])


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch: pip install 'iclearn[bench]'")
def test_transformer_steps_measure_every_case(tmp_path):
    from benchmarks.transformer_steps import main

    main(["--quick", "--seconds", "500", "--out", str(tmp_path / "steps.json")])
    found = json.loads((tmp_path / "steps.json").read_text())
    assert not found["left_out"]
    assert (len(found["rows"]), len(found["torch"])) == (4, 9), "three trainings, in three precisions by PyTorch"
    assert all(row["share_of_roofline"] > 0 and row["last_loss"] > 0 for row in found["rows"])


def test_the_work_of_a_transformer_step_is_counted_from_its_sizes():
    """6 operations a weight and token, for the products alone; half the last block answers for half the tokens."""
    from benchmarks.transformer_steps import Case, work

    case = Case(1, "tf32")
    one, two = (work(case.recipe(0, batch).replace(model__layers=12)) for batch in (256, 512))
    assert two.operations == pytest.approx(2 * one.operations)
    weights, tokens = 12 * 12 * 64**2, 256 * 32
    assert one.operations == pytest.approx(6 * weights * tokens, rel=0.15)
    assert work(case._replace(precision="bfloat16").recipe(0, None).replace(model__layers=12)).bytes < one.bytes


def test_the_solve_of_the_trained_matrix_is_timed_and_compared(tmp_path):
    from benchmarks.gamma_solve import main

    main(["--quick", "--out", str(tmp_path / "gamma.json")])
    rows = json.loads((tmp_path / "gamma.json").read_text())["solves"]
    assert [row["case"] for row in rows] == ["moments", "kernel"]
    assert all(row["agrees"] and row["warm_minimum"] <= row["warm_median"] for row in rows)
