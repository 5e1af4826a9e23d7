"""Golden files of lu2025 and letey2026, computed again: theory, Γ* on stored prompts, simulations.

``theory_*``: outputs of the public codes' formulas; ``gamma_*``: their Γ* and its errors on stored prompts;
``finite_*`` and ``published_*``: means over simulations, which come to the limit as 1/d.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from ...core.prompt import full_prompt
from ...models.label_gram import LabelGram
from ...models.ridge_solutions import solve_gamma
from ...theory.diversity import matrix_error, new_moments, pool_errors, pool_moments, structured_errors
from ..verifying import Quantity, Recomputed
from .setup import Sizes, trained_errors

Arrays = Mapping[str, np.ndarray]
_SIZES = ("alpha", "kappa", "tau", "rho")
STANDARD_ERRORS = 4.0  # within which a mean over simulations must lie
REPEATS, LARGEST_DIM = 24, 20  # of our own simulations


def recompute(arrays: Arrays) -> Recomputed:
    """Every quantity of a file ``theory_*``, ``gamma_*``, ``finite_*`` or ``published_*``; its arrays tell which.

    Args:
        arrays: of the file.

    Returns:
        The quantities beside ours.
    """
    kinds = {
        "ridge_lam": _isotropic, "alpha_test": _scaled, "icl_public_stderr": _structured, "a_gamma": _gamma_star,
        "repetitions": _finite, "spike_icl_mean": _published,
    }  # fmt: skip
    for name, compute in kinds.items():
        if name in arrays:
            return compute(arrays)
    raise IclearnError(f"none of the arrays {', '.join(kinds)} is there, one of which tells what the file is")


def _value(arrays: Arrays, name: str, ours: Any, tolerance: float, of: Iterable[str]) -> Quantity:
    return Quantity(name, arrays[name], ours, "value", tolerance, of=tuple(of))


def _isotropic(arrays: Arrays) -> Recomputed:
    plain = pool_errors(*(arrays[name] for name in _SIZES))
    inputs = tuple(f"ridge_{name}" for name in (*_SIZES, "lam"))
    ridge = pool_errors(*(arrays[name] for name in inputs))
    quantities = (
        _value(arrays, "icl", plain.icl, 1e-11, _SIZES), _value(arrays, "idg", plain.idg, 1e-11, _SIZES),
        _value(arrays, "ridge_icl_public", ridge.icl, 1e-4, inputs),  # it rounds ξ to six decimals
        _value(arrays, "ridge_icl_own", ridge.icl, 1e-9, inputs),
        _value(arrays, "ridge_idg_own", ridge.idg, 1e-9, inputs),
        _value(arrays, "ridge_xi_own", ridge.effective_ridge, 1e-9, inputs),
    )  # fmt: skip
    return Recomputed(quantities, (*_SIZES, *inputs))


def _scaled(arrays: Arrays) -> Recomputed:
    more = {"train_variance": "c_train", "test_variance": "c_test", "test_alpha": "alpha_test"}
    found = pool_errors(*(arrays[n] for n in _SIZES), **{name: arrays[given] for name, given in more.items()})
    inputs = (*_SIZES, *more.values())
    return Recomputed((_value(arrays, "icl", found.icl, 1e-11, inputs),), inputs)


def _structured(arrays: Arrays) -> Recomputed:
    found = structured_errors(arrays["c_train"], arrays["c_test"], *(arrays[name] for name in _SIZES)).icl
    inputs = ("c_train", "c_test", *_SIZES)
    quantities = (
        _value(arrays, "icl_own", found, 1e-9, inputs),
        _value(arrays, "icl_public", found, 0.03, inputs),  # Monte Carlo at d = 360, biased by O(1/d)
    )
    return Recomputed(quantities, inputs)


def _gamma_star(arrays: Arrays) -> Recomputed:
    quantities: list[Quantity] = []
    inputs: list[str] = []
    cases = sorted(name.split("_")[0] for name in arrays if name.endswith("_gamma"))
    for case in cases:
        own = {name.removeprefix(f"{case}_"): value for name, value in arrays.items() if name.startswith(f"{case}_")}
        names = [name for name in ("x", "y", "pool", "rho", "lam", "C") if name in own]
        inputs += [f"{case}_{name}" for name in names]
        quantities += [
            Quantity(f"{case}_{name}", own[name], ours, "end", tolerance, of=_sources(case, name, own))
            for name, ours, tolerance in _one_case(case, own)
        ]
    return Recomputed(tuple(quantities), tuple(inputs))


def _sources(case: str, name: str, own: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """From which arrays of a case a quantity is computed; of no one for ``H_first``, which sees the first prompts only."""
    known = {"w": ("pool",), "H_first": (), "gamma_min_norm_own": ("x", "y"), "gamma": ("x", "y", "lam")}
    law = ("pool",) if name.startswith("idg") else ("C",) if "C" in own else ()
    return tuple(f"{case}_{part}" for part in known.get(name, ("x", "y", "lam", "rho", *law)))


def _one_case(case: str, own: dict[str, np.ndarray]) -> list[tuple[str, Any, float]]:
    for name in ("x", "y", "pool", "rho", "lam", "w", "gamma", "H_first", "gamma_min_norm_own"):
        if name not in own:
            raise KeyError(f"{case}_{name}")
    x, y, pool, noise = own["x"], own["y"], own["pool"], float(own["rho"])
    context_len, dim = x.shape[1] - 1, x.shape[2]
    prompts = full_prompt(jnp.asarray(x[:, :-1]), jnp.asarray(y[:, :-1, None]), jnp.asarray(x[:, -1]))
    features = LabelGram(dim, 1, "context", unit_trace=True)
    contexts = np.asarray(jax.vmap(features.context_part)(prompts))
    ridges = [float(value) for value in own["lam"]]
    gammas = np.array([solve_gamma(x[:, -1], contexts, y[:, -1], ridge) for ridge in ridges])
    nearest = np.square(own["w"][:, None] - pool[None]).sum(-1).argmin(1)
    singular = len(x) < features.size and min(ridges) < 1e-4  # the public code inverts M + small λ
    new = new_moments(own["C"]) if "C" in own else new_moments(np.ones(dim), sphere=True)
    errors = {"icl": matrix_error(gammas, new, context_len, noise)}
    errors["idg"] = matrix_error(gammas, pool_moments(pool), context_len, noise)
    loose = 1e-6 if singular else 1e-8
    found: list[tuple[str, Any, float]] = [
        ("w", pool[nearest], 1e-12),
        ("H_first", np.asarray(jax.vmap(features)(prompts))[: len(own["H_first"])].reshape(-1, dim, dim + 1), 1e-12),
        ("gamma", gammas, loose),
        ("gamma_min_norm_own", solve_gamma(x[:, -1], contexts, y[:, -1]), 1e-8),
    ]
    found += [
        (f"{which}_exact_{whose}", errors[which], loose)
        for which in ("icl", "idg")
        for whose in ("public", "own")
        if f"{which}_exact_{whose}" in own
    ]
    if "icl_leading_public" in own:
        found.append(("icl_leading_public", matrix_error(gammas, new, context_len, noise, leading=True), loose))
    return found


def _spread(
    name: str, given: np.ndarray, ours: np.ndarray, error: np.ndarray, of: Iterable[str], part: str = "standard_errors"
) -> Quantity:
    """Differences in standard errors, to be within `STANDARD_ERRORS`."""
    return Quantity(f"{name}.{part}", (given - ours) / error, 0 * given, "value", STANDARD_ERRORS, 1.0, tuple(of))


def _approach(dims: np.ndarray, means: np.ndarray, errors: np.ndarray, limit: Any) -> np.ndarray:
    """limit·(1 + b/d + c/d²), b and c fitted to means at several d: the limit is ours, and not fitted."""
    design = np.stack([1 / dims, 1 / dims**2], 1) / errors[:, None]
    return limit + np.stack([1 / dims, 1 / dims**2], 1) @ np.linalg.lstsq(design, (means - limit) / errors)[0]


def _finite(arrays: Arrays) -> Recomputed:
    names = (*_SIZES, "lam")
    points, dims = np.stack([arrays[name] for name in names], 1), np.asarray(arrays["d"], float)
    limit = pool_errors(*points.T)
    quantities = []
    small = dims <= LARGEST_DIM
    drawn = np.array([_simulated(int(d), *point) for d, point in zip(dims[small], points[small], strict=True)])
    for which, ours in enumerate(("icl", "idg")):
        means, errors, limits = arrays[ours], arrays[f"{ours}_stderr"], getattr(limit, ours)
        fitted = np.empty_like(means)
        for point in np.unique(points, axis=0):
            same = (points == point).all(1)
            fitted[same] = _approach(dims[same], means[same], errors[same], limits[same])
        mean, error = drawn[:, 0, which], np.hypot(drawn[:, 1, which], errors[small])
        of = (f"{ours}_stderr", "d", *names)
        quantities += [
            _value(arrays, f"{ours}_limit", limits, 1e-9, names),
            _spread(ours, means, fitted, errors, of),
            _spread(ours, means[small], mean, error, of, "simulated"),
        ]
    return Recomputed(tuple(quantities), ("d", *names, "icl_stderr", "idg_stderr"))


def _simulated(dim: int, alpha: float, kappa: float, tau: float, noise: float, ridge: float) -> np.ndarray:
    """(2, 2) mean and standard error of e_ICL and e_IDG over our own draws."""
    sizes = Sizes.near(dim, alpha, kappa, tau)
    found = np.array([trained_errors(sizes, noise, ridge, seed) for seed in range(REPEATS)])
    return np.stack([found.mean(0), found.std(0, ddof=1) / REPEATS**0.5])


def _published(arrays: Arrays) -> Recomputed:
    """Means of the authors' runs. The relative excess over the limit is c/d: bounds as large as the runs show at
    their d, most for few tasks, and for the gap, which is there at three d, the order of approach."""
    settings = {
        which: [float(arrays[f"{which}_{n}"]) for n in ("alpha", "tau", "rho", "lam")] for which in ("spike", "half")
    }
    dim, train = int(arrays["spike_d"]), arrays["spike_c_train"]
    spikes = dim * np.eye(dim)[arrays["spike_index"]]
    alpha, tau, rho, lam = settings["spike"]
    kappa = arrays["spike_kappa"]
    spike = structured_errors(train, spikes, alpha, kappa[:, None], tau, rho, lam).icl
    matched = structured_errors(train, train, alpha, kappa, tau, rho, lam).icl
    alpha, tau, rho, lam = settings["half"]
    half_kappa = arrays["half_kappa"]
    half = structured_errors(
        arrays["half_c_train"], arrays["half_c_test"], alpha, half_kappa[:, None], tau, rho, lam
    ).icl
    many = half_kappa >= 0.85
    median = np.asarray(np.median(arrays["spike_icl_mean"] / spike))
    given = {
        which: tuple(f"{which}_{n}" for n in ("d", "alpha", "tau", "rho", "lam", "kappa", "c_train"))
        for which in settings
    }
    on_spikes, on_half = (*given["spike"], "spike_index"), (*given["half"], "half_c_test")
    quantities = [
        _value(arrays, "spike_icl_mean", spike, 0.15, on_spikes),
        Quantity("spike_icl_mean.median_ratio", median, np.ones(()), "value", 0.03, of=on_spikes),
        _value(arrays, "matched_icl_mean", matched, 0.1, given["spike"]),
        _value(arrays, "half_icl_mean", half, 0.35, on_half),
        Quantity("half_icl_mean.many_tasks", arrays["half_icl_mean"][many], half[many], "value", 0.015, of=on_half),
    ]
    tables = {int(n.rpartition("_d")[2]): arrays[n] for n in arrays if n.startswith("gtask_gamma_d")}
    dims = np.array(sorted(tables), float)
    rows = np.stack([tables[int(d)] for d in dims])  # dim, κ, (kappa, mean, deviation, runs)
    errors = rows[..., 2] / np.sqrt(rows[..., 3])
    limit = pool_errors(10.0, rows[0, :, 0], 10.0, 0.01, 1e-6).gap
    fitted = np.stack([_approach(dims, rows[:, i, 1], errors[:, i], limit[i]) for i in range(rows.shape[1])], 1)
    quantities += [
        _spread(
            f"gtask_gamma_d{int(d)}", rows[i, :, 1], fitted[i], errors[i], sorted(n for n in arrays if "gtask" in n)
        )
        for i, d in enumerate(dims)
    ]
    return Recomputed(tuple(quantities), (*on_spikes, *on_half))
