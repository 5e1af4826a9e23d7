"""lu2025 and letey2026 asked for their numbers: errors of trained linear attention as dim → ∞."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.checks import require
from ...core.errors import IclearnError
from ...core.recipe import Recipe
from ..base import AbstractTheory, Levels
from .isotropic import pool_errors
from .long_contexts import bayes_error, best_ridge, growth_rate, nonmonotone_edge
from .structured import structured_errors
from .task_spectra import task_spectrum

MOST_ROWS = 10_000
_SIZES = ("alpha", "kappa", "tau", "noise", "ridge")


@dataclass(frozen=True)
class LuOptions:
    """Linear attention on a pool of tasks (lu2025): errors on new tasks (icl) and on the pool (idg) as dim → ∞. Every
    option takes several values; there is a row for each combination."""

    alpha: tuple[float, ...] = (1.0,)
    """Context pairs over dim; inf is allowed."""
    kappa: tuple[float, ...] = (0.5,)
    """Tasks in the pool over dim; inf: a task of its own for every prompt."""
    tau: tuple[float, ...] = (2.0,)
    """Prompts over dim squared; inf is allowed."""
    noise: tuple[float, ...] = (0.01,)
    """Variance of the noise on labels and targets."""
    ridge: tuple[float, ...] = (0.0,)
    """Ridge of lu2025; 0: none."""
    best: bool = False
    """Also the ridge that is best for each error."""


@dataclass(frozen=True)
class LeteyOptions:
    """Linear attention on a pool of structured tasks (letey2026): errors on new tasks of another covariance as
    dim → ∞. Sizes and noise take several values; there is a row for each combination."""

    train: str = "isotropic"
    """Spectrum of the pool's tasks: isotropic, power:P, linear, flat:M, spike:I or spike:I:F."""
    test: str = "matched"
    """Spectrum of the new tasks along the same eigenvectors; matched: that of the pool."""
    dim: int = 120
    """Number of eigenvalues."""
    alpha: tuple[float, ...] = (2.0,)
    """Context pairs over dim."""
    kappa: tuple[float, ...] = (1.0,)
    """Tasks in the pool over dim; inf is allowed."""
    tau: tuple[float, ...] = (4.0,)
    """Prompts over dim squared; inf is allowed."""
    noise: tuple[float, ...] = (0.01,)
    """Variance of the noise on labels and targets."""
    ridge: tuple[float, ...] = (0.0,)
    """Ridge of lu2025; 0: none."""
    test_alpha: tuple[float, ...] = ()
    """Context pairs of the new tasks' prompts over dim. Default: alpha."""


class _Limit(AbstractTheory):
    """A theory of the end of training as dim → ∞: numbers for sizes, and no levels of a run at one dim."""

    def refusal(self, recipe: Recipe) -> str | None:
        return f"{self.name} gives errors as dim → ∞, not levels of a run: see iclearn theory {self.name}"

    def levels(self, recipe: Recipe) -> Levels:
        raise IclearnError(str(self.refusal(recipe)))


class Lu2025(_Limit):
    """Errors for isotropic tasks."""

    name = "lu2025"
    Options = LuOptions

    def summary(self, options: LuOptions) -> dict[str, Any]:
        given = {name: getattr(options, name) for name in _SIZES}
        points = _grid(given)
        found = pool_errors(*points)
        rows = []
        for i, row in enumerate(_rows(given)):
            row |= {"icl": found.icl[i], "idg": found.idg[i], "gap": found.gap[i], "xi": found.effective_ridge[i]}
            row["bayes"] = float(bayes_error(row["alpha"], row["noise"]))
            if row["tau"] != 1:
                row["growth"] = float(growth_rate(row["kappa"], row["tau"], row["noise"]))
            if 1 < row["tau"] < math.inf and row["noise"] > 0:
                row["kappa_edge"] = nonmonotone_edge(row["tau"], row["noise"])
            if options.best:
                sizes = [row[name] for name in _SIZES[:4]]
                row |= {f"best_ridge_{e}": best_ridge(*sizes, e)[0] for e in ("icl", "idg")}  # type: ignore[arg-type]
            rows.append({name: float(value) for name, value in row.items()})
        return {"errors": rows}


class Letey2026(_Limit):
    """Errors for tasks and new tasks of any covariances with common eigenvectors."""

    name = "letey2026"
    Options = LeteyOptions

    def summary(self, options: LeteyOptions) -> dict[str, Any]:
        train = task_spectrum(options.train, options.dim)
        test = train if options.test == "matched" else task_spectrum(options.test, options.dim)
        given = {name: getattr(options, name) for name in _SIZES}
        if options.test_alpha:
            given["test_alpha"] = options.test_alpha
        points = _grid(given)
        found = structured_errors(
            train, test, *points[:5], test_alpha=points[5] if options.test_alpha else None
        )  # fmt: skip
        names = ("icl", "idg", "misalignment", "floor")
        rows = [
            row | {name: float(getattr(found, name)[i]) for name in names} for i, row in enumerate(_rows(given))
        ]  # fmt: skip
        return {"train": options.train, "test": options.test, "dim": options.dim, "errors": rows}


def _rows(given: dict[str, tuple[float, ...]]) -> Iterator[dict[str, float]]:
    for values in itertools.product(*given.values()):
        yield dict(zip(given, values, strict=True))


def _grid(given: dict[str, tuple[float, ...]]) -> np.ndarray:
    """(size, row) every combination of the values."""
    count = math.prod(len(values) for values in given.values())
    require(count <= MOST_ROWS, f"these are {count} combinations: at most {MOST_ROWS} rows are printed")
    return np.array(list(itertools.product(*given.values()))).T


LU = Lu2025()
LETEY = Letey2026()
