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
    found = verify_file(golden.path(f"diversity/{name}"))
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


INPUTS = {
    "theory_isotropic": {
        "kappa": "one of alpha, kappa, tau, rho was altered at [1]: all that differs (icl, idg) comes from it",
        "ridge_lam": "one of ridge_alpha, ridge_kappa, ridge_tau, ridge_rho, ridge_lam was altered at [1]",
        "idg": "one number of idg was altered",
    },
    "theory_scaled": {"c_test": "one of icl, alpha, kappa, tau, rho, c_train, c_test, alpha_test was altered at [1]"},
    "theory_structured": {"c_train": "one of icl_own, c_train, c_test, alpha, kappa, tau, rho was altered at [1]"},
    "gamma_star": {
        "a_pool": "a_pool was altered: all that differs (a_w, a_idg_exact_public) comes from it, and all else agrees",
        "a_rho": "a_rho was altered",
        "b_lam": "b_lam was altered at [1]",
        "c_y": "one of c_x, c_y was altered",
        "c_C": "c_C was altered: all that differs (c_icl_exact_own, c_icl_leading_public) comes from it",
        "c_H_first": "one number of c_H_first was altered",
    },
}


@pytest.mark.parametrize("name", INPUTS)
def test_an_altered_digit_is_traced_back_to_what_it_is_in(golden, tmp_path, name):
    """Of settings, prompts and pools, too, from which the quantities of the file are computed."""
    whole = golden(f"diversity/{name}")
    for altered, words in INPUTS[name].items():
        values = np.array(whole[altered])
        first = tuple([1, 0, 0][: values.ndim])
        values[first] = 1.01 * values[first] or 0.01
        np.savez(tmp_path / f"{name}.npz", **{**whole, altered: values})
        found = verify_file(tmp_path / f"{name}.npz")
        assert found.conclusion().startswith(words), (altered, found.conclusion())


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
    with pytest.raises(IclearnError, match="num_tasks"):
        Sizes.near(10, 1, 0.01, 1)


def test_without_a_pool_both_errors_are_one():
    icl, idg = trained_errors(Sizes.near(6, 2.0, np.inf, 2.0), 0.1, 0.1, 0)
    assert icl == idg
