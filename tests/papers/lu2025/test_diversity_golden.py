"""The golden files of lu2025 and letey2026: they verify, and an altered number does not."""

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.papers.lu2025.setup import Sizes, trained_errors
from iclearn.papers.verifying import verify_file

FILES = (
    "theory_isotropic", "theory_scaled", "theory_structured", "gamma_star", "published_sims",
    pytest.param("finite_d_means", marks=pytest.mark.slow),
)  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_a_golden_file_verifies(golden, name):
    found = verify_file(golden.folder / "diversity" / f"{name}.npz")
    assert found.passed, [q.complaint() for q in found.quantities if not q.passed]


ALTERED = [
    ("theory_isotropic", "ridge_idg_own", 1e-8), ("theory_scaled", "icl", 1e-10),
    ("theory_structured", "icl_own", 1e-8), ("gamma_star", "b_gamma_min_norm_own", 1e-6),
    ("gamma_star", "c_idg_exact_own", 1e-6), ("gamma_star", "a_w", 1e-3), ("published_sims", "spike_icl_mean", 0.3),
]  # fmt: skip


@pytest.mark.parametrize(("name", "quantity", "size"), ALTERED)
def test_an_altered_number_is_found(golden, tmp_path, name, quantity, size):
    arrays = {key: np.array(value) for key, value in golden(f"diversity/{name}").items()}
    values = arrays[quantity]
    values.flat[np.abs(values).argmax()] *= 1 + size
    np.savez(tmp_path / f"{name}.npz", **arrays)
    found = verify_file(tmp_path / f"{name}.npz")
    assert [q.name for q in found.quantities if not q.passed] == [quantity]
    assert quantity in found.conclusion()


def test_a_file_that_is_none_of_them(tmp_path):
    np.savez(tmp_path / "theory_other.npz", a=np.ones(3))
    with pytest.raises(IclearnError, match="tells what the file is"):
        verify_file(tmp_path / "theory_other.npz")
    np.savez(tmp_path / "theory_short.npz", ridge_lam=np.ones(3))
    with pytest.raises(IclearnError, match="needs the array 'alpha'"):
        verify_file(tmp_path / "theory_short.npz")


def test_sizes_are_rounded_and_not_cut_off():
    """The public code runs 56 tasks for κ = .57 and 961 pairs for α = 9.62 at d = 100."""
    sizes = Sizes.near(100, 9.62, 0.57, 1.2)
    assert (sizes.context_len, sizes.num_tasks, sizes.num_prompts) == (962, 57, 12_000)
    assert sizes.ratios == pytest.approx((9.62, 0.57, 1.2))
    assert Sizes.near(10, 1, np.inf, 1).num_tasks is None
    with pytest.raises(IclearnError, match="leave nothing"):
        Sizes.near(10, 1, 0.01, 1)


def test_without_a_pool_both_errors_are_one():
    icl, idg = trained_errors(Sizes.near(6, 2.0, np.inf, 2.0), 0.1, 0.1, 0)
    assert icl == idg
