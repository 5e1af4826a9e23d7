"""Pools, flows and ridges of reduced linear attention at finite dim: exact errors at every time and every λ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax.numpy as jnp
import numpy as np
import xarray as xr

from ...core.checks import check_choice
from ...core.rng import stream
from ...models.gamma_paths import decompose
from ...models.label_gram_draws import draw_label_gram
from ...theory.diversity import flow_matrices, matrix_error, new_moments, pool_moments
from ..base import PaperOptions
from ..lab import Lab
from ..lu2025.setup import Sizes

DIM = 20
TIMES = np.append(np.geomspace(0.1, 1e5, 241), np.inf)  # forty a decade; at the last the flow has ended
RIDGES = np.geomspace(1e-3, 30.0, 160)
PresetName = Literal["small", "tiny"]


class Case(NamedTuple):
    """One setting: α, κ, τ (infinite: infinitely many prompts), ρ; on infinitely many prompts Γ has no column for mean y².

    The exact moments are those of the pool either way; `column_rises` keeps the column.
    """

    alpha: float
    kappa: float
    tau: float
    noise: float

    @property
    def name(self) -> str:
        tau = "∞" if np.isinf(self.tau) else f"{self.tau:g}"
        return f"α={self.alpha:g} κ={self.kappa:g} τ={tau} ρ={self.noise:g}"


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce linear-transience` is given.

    Args:
        preset: ``small`` (d = 20) or ``tiny`` (d = 8, to see that it runs; every claim says unfinished).

    >>> Options.of({"preset": None}).preset
    'small'
    """

    preset: str = "small"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)


def dim_of(lab: Lab) -> int:
    """d of the preset."""
    return 8 if isinstance(lab.options, Options) and lab.options.preset == "tiny" else DIM


def paths_of(case: Case, seed: int, dim: int = DIM, *, column: bool = False) -> dict[str, np.ndarray]:
    """Exact errors along gradient flow and over ridges, of one draw of pool and prompts; tasks on the sphere.

    Args:
        case: the setting.
        seed: the root seed.
        dim: d.
        column: for infinitely many prompts, with the column of Γ for mean y².

    Returns:
        (time) ``icl``, ``idg``, ``loss`` (of training), and for finite τ (ridge) ``ridge_icl``, ``ridge_idg``.

    >>> found = paths_of(Case(2.0, 0.5, 2.0, 0.1), 0, 4)
    >>> found["icl"].shape, found["ridge_icl"].shape, bool(found["loss"][-1] < found["loss"][0])
    ((242,), (160,), True)
    """
    sizes = Sizes.near(dim, case.alpha, case.kappa, 1.0 if np.isinf(case.tau) else case.tau)
    rng = np.random.default_rng([seed, dim])
    pool = rng.standard_normal((sizes.num_tasks or 1, dim))
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)
    laws = {"icl": new_moments(np.ones(dim), sphere=True), "idg": pool_moments(pool * dim**0.5)}
    if np.isinf(case.tau):
        gammas = flow_matrices(laws["idg"], sizes.context_len, case.noise, TIMES, label_square=column)
        found = {n: np.asarray(matrix_error(gammas, law, sizes.context_len, case.noise)) for n, law in laws.items()}
        return found | {"loss": found["idg"]}
    tasks = pool[rng.integers(len(pool), size=sizes.num_prompts)]
    drawn = draw_label_gram(stream(seed, "data.train"), jnp.asarray(tasks), sizes.context_len, case.noise)
    paths = decompose(*(np.asarray(a) for a in drawn))
    gammas, ridged = paths.flow(TIMES), paths.ridge(RIDGES)
    found = {"loss": paths.loss(gammas)}
    for name, law in laws.items():
        found[name] = np.asarray(matrix_error(gammas, law, sizes.context_len, case.noise))
        found[f"ridge_{name}"] = np.asarray(matrix_error(ridged, law, sizes.context_len, case.noise))
    return found


def case_table(lab: Lab, cases: tuple[Case, ...], name: str) -> xr.Dataset:
    """The errors of several settings and pools.

    Args:
        lab: where they are stored.
        cases: all with finite τ, or all with infinite.
        name: of the table.

    Returns:
        (case, seed, time) icl, idg, loss, and (case, seed, ridge) ridge_icl, ridge_idg.
    """
    dim = dim_of(lab)
    told = {"cases": [case.name for case in cases], "seeds": lab.num_seeds, "dim": dim, "version": 1}
    return lab.dataset(f"transience-{name}", told, lambda: table_of(cases, range(lab.num_seeds), dim))


def table_of(cases: tuple[Case, ...], seeds: range, dim: int) -> xr.Dataset:
    """`case_table` computed."""
    rows = [[paths_of(case, seed, dim) for seed in seeds] for case in cases]
    axes = {"case": [case.name for case in cases], "seed": list(seeds)}
    variables = {
        name: ((*axes, "ridge" if name.startswith("ridge") else "time"), np.array([[one[name] for one in row] for row in rows]))
        for name in rows[0][0]
    }  # fmt: skip
    return xr.Dataset(variables, {**axes, "time": TIMES, "ridge": RIDGES, "dim": dim})


def column_rises(case: Case, seeds: range, dims: tuple[int, ...]) -> xr.Dataset:
    """(dim, seed) the rise of e_ICL after its least on infinitely many prompts, with and without the column for mean y²."""
    axes = {"dim": list(dims), "seed": list(seeds)}
    found = {}
    for name, column in (("with", True), ("without", False)):
        curves = np.array([[paths_of(case, seed, dim, column=column)["icl"] for seed in seeds] for dim in dims])
        found[name] = (tuple(axes), ends_of(xr.DataArray(curves, {**axes, "time": TIMES}, (*axes, "time"))).rise)
    return xr.Dataset(found, axes)


class Ends(NamedTuple):
    """Of error curves against time (…, time): when and how small the least is, the end, and the rise to it.

    Args:
        time: t of the least error.
        least: the least error.
        end: the error at t = ∞.
        rise: end/least − 1.
    """

    time: np.ndarray
    least: np.ndarray
    end: np.ndarray
    rise: np.ndarray


def ends_of(curves: xr.DataArray) -> Ends:
    """When error curves are least, and where they end.

    Args:
        curves: (…, time).

    Returns:
        Arrays over the other axes; NaN where a curve holds one.
    """
    values = curves.transpose(..., "time").values
    lost = ~np.isfinite(values).all(-1)
    where = np.where(lost, 0, np.argmin(np.nan_to_num(values, nan=np.inf), -1))
    least = np.where(lost, np.nan, np.take_along_axis(values, where[..., None], -1)[..., 0])
    end = np.where(lost, np.nan, values[..., -1])
    return Ends(np.where(lost, np.nan, curves["time"].values[where]), least, end, end / least - 1)
