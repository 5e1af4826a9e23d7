"""Example data of the figures: the one seed of the notes, with a spread of four percent for three seeds."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from ..base import Data
from .pool_trainings import BETWEEN, COMPONENTS, PATH_MEASURES, PLACES, REFERENCES, TESTS, over_seeds
from .setup import PRESETS

SEEDS = 3
FULL = PRESETS["full"]
# for each pool: error, Δ to ridge, Δ to dMMSE on the pool, the same on new tasks, at the end of training
SHORT = (
    (0.0099, 0.2314, 0.0002, 1.5100, 1.1674, 0.0488), (0.1337, 0.2730, 0.0265, 1.0115, 0.6564, 0.4543), (0.3013, 0.1039, 0.1520, 0.5093, 0.1674, 0.4958),
    (0.3419, 0.0479, 0.1833, 0.4011, 0.0589, 0.4645), (0.3488, 0.0240, 0.1708, 0.3693, 0.0268, 0.4156), (0.3504, 0.0166, 0.1579, 0.3610, 0.0180, 0.3541),
    (0.3622, 0.0182, 0.1496, 0.3608, 0.0183, 0.3041), (0.3528, 0.0181, 0.1321, 0.3610, 0.0185, 0.2506), (0.3453, 0.0121, 0.1113, 0.3554, 0.0122, 0.2083),
    (0.3503, 0.0105, 0.0989, 0.3535, 0.0106, 0.1692), (0.3558, 0.0134, 0.0799, 0.3560, 0.0132, 0.1152), (0.3629, 0.0182, 0.0430, 0.3601, 0.0177, 0.0450),
)  # fmt: skip
LONG = (
    (0.1236, 0.2471, 0.0033, 0.8671, 0.5143, 0.3450), (0.1634, 0.2250, 0.0143, 0.7142, 0.3728, 0.3708), (0.2739, 0.0893, 0.1155, 0.4918, 0.1518, 0.4066),
    (0.3171, 0.0479, 0.1396, 0.4138, 0.0704, 0.3767), (0.3392, 0.0161, 0.1463, 0.3618, 0.0186, 0.3464), (0.3410, 0.0074, 0.1205, 0.3505, 0.0076, 0.2529),
)  # fmt: skip
# for each pool: ridge and dMMSE to the truth on the pool; the same on new tasks and dMMSE to ridge there
SHORT_BASE = (
    (0.2407, 0.0097, 0.3428, 1.4437, 1.0999), (0.4025, 0.1072, 0.3428, 1.3389, 0.9802), (0.3889, 0.1475, 0.3428, 1.0271, 0.6761), (0.3558, 0.1544, 0.3428, 0.8830, 0.5359),
    (0.3507, 0.1750, 0.3428, 0.7911, 0.4465), (0.3429, 0.1928, 0.3428, 0.7125, 0.3698), (0.3469, 0.2151, 0.3428, 0.6571, 0.3144), (0.3366, 0.2202, 0.3428, 0.6005, 0.2595),
    (0.3345, 0.2351, 0.3428, 0.5548, 0.2147), (0.3401, 0.2503, 0.3428, 0.5133, 0.1725), (0.3418, 0.2745, 0.3428, 0.4526, 0.1126), (0.3447, 0.3200, 0.3428, 0.3740, 0.0310),
)  # fmt: skip
LONG_BASE = ((0.3728, 0.1201, 0.3428, 1.0720, 0.7180), *SHORT_BASE[2:6], SHORT_BASE[7])
TIMES = np.array([1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 34, 37, 40]) * 1000
# Δ to ridge on new tasks at these times, for each pool
TRAJECTORIES = (
    (0.6122, 0.2861, 0.3115, 0.3312, 0.3468, 0.3910, 0.4239, 0.4664, 0.5013, 0.5056, 0.5138, 0.5092, 0.5352, 0.5143), (0.6239, 0.1465, 0.1535, 0.1570, 0.1856, 0.2668, 0.2963, 0.3219, 0.3714, 0.3658, 0.3814, 0.3799, 0.3814, 0.3728),
    (0.5986, 0.0762, 0.0744, 0.0774, 0.0732, 0.0742, 0.0999, 0.1313, 0.1432, 0.1430, 0.1462, 0.1468, 0.1533, 0.1518), (0.6345, 0.0624, 0.0523, 0.0453, 0.0415, 0.0426, 0.0468, 0.0617, 0.0649, 0.0714, 0.0712, 0.0660, 0.0727, 0.0704),
    (0.6425, 0.0545, 0.0440, 0.0366, 0.0328, 0.0278, 0.0288, 0.0257, 0.0243, 0.0233, 0.0239, 0.0218, 0.0196, 0.0186), (0.6370, 0.0574, 0.0409, 0.0285, 0.0262, 0.0234, 0.0244, 0.0203, 0.0177, 0.0153, 0.0130, 0.0111, 0.0089, 0.0076),
)  # fmt: skip
POSITIONS = (0.97, 0.9, 0.45, 0.3, 0.1, 0.05)  # how far from ridge to dMMSE the long runs end
PATHS = {
    32: (0.36, 0.34, 0.62, 0.22, 0.12),
    1024: (0.35, 0.34, 0.55, 0.01, 0.2),
}  # at the center; the same at both ends but for the first


def base_of(rows: Any) -> np.ndarray:
    """(pool, test, pair) Δ between references; that of dMMSE and ridge on the pool by the identity."""
    base = np.array(rows)
    own = np.stack([base[:, 0], base[:, 1], base[:, 0] - base[:, 1]], -1)
    return np.stack([own, base[:, 2:]], 1)


def table(pools: tuple[int, ...], steps: np.ndarray, final: Any, base: Any, shape: np.ndarray, seed: int) -> xr.Dataset:
    """One seed: every distance at the end as given, and before it that times `shape` (pool, record)."""
    rng = np.random.default_rng(seed)
    spread = np.array([0.01, 0.04, 0.04]) * rng.normal(size=(len(pools), 1, 1))  # of the error less than of differences
    ends = np.array(final).reshape(len(pools), len(TESTS), len(REFERENCES)) * np.exp(spread)
    delta = ends[:, None] * shape[:, :, None, None]
    over = ("pool", "record", "test", "reference")
    cross = 0.003 * rng.normal(size=(len(pools), len(TESTS)))
    return xr.Dataset(
        {
            "delta": (over, delta), "error": (over, 0.01 * delta), "between": (("pool", "test", "pair"), base_of(base)),
            "cross": (("pool", "test"), cross), "cross_error": (("pool", "test"), np.full_like(cross, 0.003)),
        },
        {"pool": list(pools), "record": steps, "test": list(TESTS), "reference": list(REFERENCES), "pair": list(BETWEEN)},
    )  # fmt: skip


def long_table(seed: int) -> xr.Dataset:
    """The long runs of one seed, with components and paths."""
    pools, curves = FULL.long.pools, np.array(TRAJECTORIES)
    found = table(pools, TIMES, LONG, LONG_BASE, curves / curves[:, -1:], seed)
    toward = np.linspace(0, 1, len(TIMES))
    scores = np.zeros((len(pools), len(TIMES), COMPONENTS))
    dmmse = np.zeros((len(pools), COMPONENTS))
    dmmse[:, 1] = 40 - 4 * np.arange(len(pools))
    scores[:, :, 0] = 60 * (1 - toward) ** 2
    scores[:, :, 1] = dmmse[:, 1:2] * np.array(POSITIONS)[:, None] * toward**2 + 0.1 * seed
    path = np.full((len(pools), len(PLACES), len(PATH_MEASURES)), np.nan)
    off = np.abs(2 * np.array(PLACES) - 1)[:, None]
    for size, center in PATHS.items():
        edge = np.array(center) * [0.5 if size == 32 else 1, 1, 0.4, 1, 1]
        path[pools.index(size)] = ((1 - off) * center + off * edge) * (1 + 0.02 * seed)
    return found.assign(
        score=(("pool", "record", "component"), scores), ridge_score=("component", np.zeros(COMPONENTS)),
        dmmse_score=(("pool", "component"), dmmse), share=("component", np.array([0.35, 0.15, 0.08, 0.05])),
        path=(("pool", "place", "measure"), path),
    ).assign_coords(component=np.arange(1, COMPONENTS + 1), place=list(PLACES), measure=list(PATH_MEASURES))  # fmt: skip


def example() -> Data:
    """Short and long runs of three seeds, as the figures collect them."""
    steps = np.array([5000, 10_000])
    shape = np.tile([1.5, 1.0], (len(FULL.short.pools), 1))
    short = [table(FULL.short.pools, steps, SHORT, SHORT_BASE, shape, seed) for seed in range(SEEDS)]
    return {
        "short": over_seeds(short), "long": over_seeds([long_table(seed) for seed in range(SEEDS)]),
        "roles": FULL.roles, "scope": "all", "steps": (FULL.short.steps, FULL.long.steps),
    }  # fmt: skip
