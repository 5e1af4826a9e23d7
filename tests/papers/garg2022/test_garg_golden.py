"""`iclearn verify` on the golden files of predictors, trees, networks and the toy, whole and altered."""

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.papers.verifying import layout_of, verify_file

LARGER = pytest.param("predictors_d8", marks=pytest.mark.slow)


@pytest.mark.parametrize("name", ["predictors_d5", LARGER, "trees_d6", "mlp_descent_d5", "toy_clamp_d20"])
def test_golden_files_are_verified(golden, name):
    found = verify_file(golden.path(f"functions/{name}"))
    assert not {q.name: q.complaint() for q in found.quantities if not q.passed}
    unchecked = {array for array in found.unchecked if "lasso_" not in array and array != "xgboost"}
    assert not unchecked, "scikit-learn's unconverged Lasso and XGBoost are the only numbers we do not give"


# Some arrays of predictors_d5.
FEW = ("y/newton_3", "y_heavy/ours_lad", "y_noisy/ours_cg_3", "y_noisy/akyurek_sgd_0.03_full_wd1e-4")
GIVEN = ("x", "w", "y", "y_noisy", "w_sparse", "y_sparse", "y_normalized_noisy", "y_heavy")


def test_some_predictors_are_verified_and_altered_numbers_are_found(golden, tmp_path, capsys):
    arrays = {name: values for name, values in golden("functions/predictors_d5").items() if name in (*FEW, *GIVEN)}
    path = tmp_path / "predictors_d5.npz"
    np.savez(path, **arrays)
    found = verify_file(path)
    assert {q.name for q in found.quantities} == {"y", "y_sparse", *FEW}
    assert not {q.name: q.complaint() for q in found.quantities if not q.passed}
    for name in ("y_heavy/ours_lad", "y_noisy/ours_cg_3"):
        changed = arrays[name].copy()
        changed[2, 7] += 1e-6
        np.savez(path, **(arrays | {name: changed}))
        assert main(["verify", str(path)]) == 1
        assert f"one number of {name} was altered" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "array", "index"),
    [
        ("trees_d6", "full/lowest", (1, 30)),
        ("trees_d6", "depth4_sign/first", (0, 39)),
        ("toy_clamp_d20", "c/loss", (50,)),
        ("mlp_descent_d5", "adam/prediction", (3, 1)),
    ],
)
def test_altered_files_are_found(golden, tmp_path, name, array, index):
    arrays = golden(f"functions/{name}")
    arrays[array][index] += 1e-3
    if array == "full/lowest":
        arrays[array][index] += 100.0  # above what a greedy tree answers
    np.savez(tmp_path / f"{name}.npz", **arrays)
    wrong = {q.name for q in verify_file(tmp_path / f"{name}.npz").quantities if not q.passed}
    assert array in wrong


def test_names_of_files_mean_their_layouts(tmp_path, capsys):
    known = {"predictors": "predictors", "predictors_mine": "predictors", "mlp": "mlp", "mlp_d4": "mlp"}
    for stem, layout in {**known, "predictors_d8": "predictors_d", "mlp_descent_d5": "mlp_descent"}.items():
        assert layout_of(stem) == layout
    np.savez(tmp_path / "trees_bad.npz", x=np.ones(3))
    assert main(["verify", str(tmp_path / "trees_bad.npz")]) == 2
    assert "which tells what the file is" in capsys.readouterr().err
