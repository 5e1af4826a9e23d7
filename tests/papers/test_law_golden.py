"""Golden files of function classes, shifted prompts, bands and sinusoids; and that an altered number is noticed."""

import numpy as np
import pytest

from iclearn.papers.verifying import verify_file

FILES = ("tasks_d5", "ood_d5", "boolean_n8", "bootstrap_curriculum", "sinusoid")
LARGER = ("tasks_d8", "ood_d8")
ALTERED = {
    "tasks_d5": ("relu/W1", "relu/y"), "ood_d5": ("orthogonal_train_test/query", "orthogonal_train_test/query"),
    "boolean_n8": ("dnf/y", "dnf/y"), "bootstrap_curriculum": ("metrics", "aggregate/std"),
    "sinusoid": ("phase", "amplitude"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*FILES, *(pytest.param(name, marks=pytest.mark.slow) for name in LARGER)])
def test_golden_files_of_function_classes(golden, name, tmp_path):
    arrays = golden(f"functions/{name}")
    found = verify_file(golden.path(f"functions/{name}"))
    assert found.passed, found.conclusion()
    assert set(arrays) <= {q.name for q in found.quantities} | {*found.inputs, *found.unchecked}
    if name in ALTERED:
        which, sees = ALTERED[name]
        changed = np.array(arrays[which])
        changed[(0,) * changed.ndim] = changed[(0,) * changed.ndim] * -1 + (0.5 if changed.dtype.kind == "f" else 7)
        np.savez(tmp_path / f"{name}.npz", **{**arrays, which: changed})
        assert sees in [q.name for q in verify_file(tmp_path / f"{name}.npz").quantities if not q.passed]
