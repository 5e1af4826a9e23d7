"""`iclearn verify` on the public transformers: the golden files, and altered ones."""

import numpy as np
import pytest

from iclearn.papers.verifying import verify_file


@pytest.mark.parametrize("name", ["diversity/gpt2", "diversity/small_transformer", "functions/gpt2_d5"])
def test_the_golden_transformers_are_recomputed(golden, name):
    found = verify_file(golden.path(name))
    assert not {q.name: q.complaint() for q in found.quantities if not q.passed}
    if name == "diversity/gpt2":
        tolerance = {q.name: q.tolerance for q in found.quantities}
        assert (tolerance["preds"], tolerance["loss"], tolerance["grad/_in/kernel"]) == (1e-10, 1e-9, 1e-10)
        assert set(golden(name)) <= {q.name for q in found.quantities} | {*found.inputs, "pool"}


@pytest.mark.parametrize(
    ("name", "change", "wrong"),
    [
        ("gpt2", lambda a: a["preds"].__setitem__((0, 2), 0.0), "preds"),
        ("gpt2", lambda a: a["loss"].__setitem__(7, a["loss"][7] * (1 + 1e-8)), "loss"),
        ("gpt2", lambda a: a["grad/_h/ln_f/bias"].__setitem__(3, 0.0), "grad/_h/ln_f/bias"),
        ("gpt2", lambda a: a["lr"].__setitem__(0, 1e-3), "lr"),
        ("small_transformer", lambda a: a["run_40k"].__setitem__((-1, 5, 4), 1.0), "away_from_ridge"),
        (
            "small",
            lambda a: a["run_40k"].__setitem__((slice(None), 0, 4), a["run_40k"][-1, 0, 4]),
            "minimum_on_the_way",
        ),
        ("small_transformer", lambda a: a["run_10k"].__setitem__((3, 2, 3), 0.1), "run_10k.new"),
    ],
)
def test_an_altered_number_is_found(golden, tmp_path, name, change, wrong):
    arrays = {
        n: np.array(v) for n, v in golden(f"diversity/{'gpt2' if name == 'gpt2' else 'small_transformer'}").items()
    }
    change(arrays)
    np.savez(tmp_path / f"{name}_mine.npz", **arrays)
    found = verify_file(tmp_path / f"{name}_mine.npz")
    assert wrong in {q.name for q in found.quantities if not q.passed}
