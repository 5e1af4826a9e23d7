"""Loss curves whose plateaus are known: staircases and plateau-free decays, under noise, for the plateau detector.

`family(count, half)` draws `count` curves for each row of `NOISES`; the two halves share no random number. A staircase
falls by 1 in all, in 1 to 6 drops with a plateau before each and at least 25 drop widths between neighbors, so that
its plateaus are more than ten times slower than its drops; a decay has no plateau.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass

import numpy as np
from scipy.signal import lfilter

HIDDEN = 3.0  # drops fainter than this many standard errors are in no data: missing or finding them counts nothing
LOUD, FAINT = 20.0, 8.0  # bounds of z, the smallest drop over the standard error of the difference of plateau means
# Demanded of a detector, as tests/probes/test_plateau_family.py explains: precision and recall, and most silence.
DEMANDS = {"loud": (0.99, 0.98), "faint": (0.97, 0.90), "lost": (0.95, 0.80)}
SILENT = {"none": 0.02, "white": 0.10, "AR(1)": 0.25, "oscillation": 0.25}
APART = 25.0  # least distance between drops in units of the wider one's width


@dataclass(frozen=True)
class Noise:
    """What is added to a curve that falls by 1: `kind` is "none", "white", "AR(1)" or "oscillation".

    `level` is the standard deviation, or the amplitude of the oscillation; `memory` the AR(1) coefficient.
    """

    kind: str
    level: float = 0.0
    memory: float = 0.0

    @property
    def label(self) -> str:
        """
        >>> Noise("AR(1)", 0.01, 0.97).label
        'AR(1) 0.97, sd 0.01'
        """
        if self.kind == "none":
            return "no noise"
        if self.kind == "oscillation":
            return f"oscillation ±{self.level:g}"
        return f"{self.kind}{f' {self.memory:g}' if self.memory else ''}, sd {self.level:g}"


NOISES = (
    Noise("none"),
    *(Noise("white", level) for level in (0.001, 0.003, 0.01, 0.03, 0.1)),
    *(Noise("AR(1)", level, memory) for memory in (0.9, 0.97, 0.99) for level in (0.003, 0.01, 0.03)),
    *(Noise("oscillation", level) for level in (0.01, 0.02, 0.05)),
)
SHAPES = ("even", "unequal", "tails", "log", "decay", "log decay")
# A third of the curves have no plateau; the shapes go round, so every row of NOISES has all of them.


@dataclass(frozen=True)
class Curve:
    """A curve and its truth.

    Args:
        shape, noise: how it was made.
        scale: "linear" or "log": the time in which its plateaus are plateaus.
        time, loss: the points.
        drops: times at which half of each drop is done; a plateau ends at each of them.
        tolerance: how far from a drop a found one may be.
        z: of each drop, its size over the standard error of the difference of the plateau means beside it.
        swing: size of the smallest drop over the amplitude of the oscillation (infinite without one).
    """

    shape: str
    noise: Noise
    scale: str
    time: np.ndarray
    loss: np.ndarray
    drops: np.ndarray
    tolerance: np.ndarray
    z: np.ndarray
    swing: float

    @property
    def loudness(self) -> str:
        """ "loud" where every visible drop can be told, "faint" where some hardly can, "lost" where some cannot."""
        z = float(self.z[self.z >= HIDDEN].min(initial=np.inf))
        if z >= LOUD and self.swing >= 4 and not (self.z < HIDDEN).any():
            return "loud"
        return "faint" if z >= FAINT and self.swing >= 2 else "lost"

    def position(self, times: np.ndarray) -> np.ndarray:
        """Times on the scale of the curve."""
        return np.log(times) if self.scale == "log" else np.asarray(times, dtype=float)


def family(count: int, half: str = "test", noises: Sequence[Noise] = NOISES) -> Iterator[Curve]:
    """`count` curves for each noise; `half` is "train" (for tuning) or "test"."""
    for row, noise in enumerate(NOISES):
        if noise not in noises:
            continue
        for index in range(count):
            rng = np.random.default_rng([{"train": 0, "test": 1}[half], row, index])
            yield draw(SHAPES[index % len(SHAPES)], noise, rng)


def draw(shape: str, noise: Noise, rng: np.random.Generator) -> Curve:
    """One curve of this shape."""
    points = int(10 ** rng.uniform(2.5, 4))
    logarithmic = shape.startswith("log")
    span = rng.uniform(3, 6) * np.log(10) if logarithmic else 1.0
    if logarithmic and rng.random() < 0.3:  # recorded at equal steps, to be read in logarithmic time
        span = np.log(points)
        position = np.log(np.arange(1, points + 1))
    else:
        position = span * np.arange(1, points + 1) / points
    if shape.endswith("decay"):
        clean, places, sizes, widths = _decay(position / span, logarithmic, rng), *3 * (np.array([]),)
    else:
        clean, places, sizes, widths = _staircase(shape, position, span, rng)
    draws, variance_of_mean = _noise(noise, points, rng)
    z, tolerance = _loudness(position, span, places, sizes, widths, variance_of_mean)
    swing = sizes.min() / noise.level if noise.kind == "oscillation" and sizes.size else np.inf
    scale, time, drops = ("log", np.exp(position), np.exp(places)) if logarithmic else ("linear", position, places)
    loss = rng.uniform(0, 0.5) + clean + draws
    return Curve(shape, noise, scale, time, loss, drops, tolerance, z, float(swing))


def _decay(position: np.ndarray, logarithmic: bool, rng: np.random.Generator) -> np.ndarray:
    """Falls by about 1 and only ever slows down, in the time of `position` (0 to 1)."""
    rate = 10 ** rng.uniform(-0.3, 2)
    if logarithmic:  # a power law t⁻ᵃ is an exponential of ln t
        return np.exp(-min(rate, 30) * position)
    kind = rng.integers(3)
    if kind == 0:
        return np.exp(-rate * position)
    if kind == 1:
        return (1 + rate * position) ** -rng.uniform(0.3, 3)
    share = rng.uniform(0.2, 0.8)
    return share * np.exp(-rate * position) + (1 - share) * np.exp(-rate * rng.uniform(0.1, 1) * position)


def _staircase(
    shape: str, position: np.ndarray, span: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The curve without noise, and places, sizes and widths of its drops."""
    count = int(rng.integers(1, 7))
    if shape == "log" and position[0] == 0:
        count = min(count, 3)  # equal steps have few points in the first decades
    gaps = rng.uniform(0.5, 1.5, count + 1)
    places = (span * np.cumsum(gaps) / gaps.sum())[:-1]
    sizes = rng.uniform(0.5, 1.5, count) if shape != "unequal" else 30 ** -rng.uniform(0, 1, count)
    sizes /= sizes.sum()
    nearest = np.minimum(np.diff(places, prepend=0.0), np.diff(places, append=span))
    widths = nearest / APART * rng.uniform(0.1, 1, count)
    steps = (position[:, None] - places) / widths
    if shape == "tails":  # t⁻ᵖ after a quick beginning
        power = rng.uniform(2, 4)
        after = (1 + np.maximum(steps + 1, 0)) ** -power
        at = np.maximum(2 ** (1 / power) - 2, -1.0)
        places = places + at * widths  # where half of the drop is done
        return (sizes * after).sum(1), places, sizes, widths
    return (sizes / (1 + np.exp(np.clip(steps, -500, 500)))).sum(1), places, sizes, widths


Variance = Callable[[np.ndarray], np.ndarray]


def _noise(noise: Noise, points: int, rng: np.random.Generator) -> tuple[np.ndarray, Variance]:
    """Draws, and the variance of their mean over a number of neighboring points."""
    if noise.kind == "oscillation":
        period = points * rng.uniform(1 / 40, 1 / 4)
        swing = noise.level * np.sin(2 * np.pi * (np.arange(points) / period + rng.random()))
        speckle = 0.002 * rng.normal(size=points)
        return swing + speckle, lambda n: noise.level**2 / 2 * np.minimum(1, period / (np.pi * n)) ** 2 + 0.002**2 / n
    white = noise.level * rng.normal(size=points)
    if noise.kind != "AR(1)":
        return white, lambda n: noise.level**2 / n
    rho = noise.memory
    white[1:] *= (1 - rho**2) ** 0.5  # the first point has the stationary variance
    draws = np.asarray(lfilter([1.0], [1.0, -rho], white))

    def variance(n: np.ndarray) -> np.ndarray:
        return noise.level**2 / n**2 * (n * (1 + rho) / (1 - rho) - 2 * rho * (1 - rho**n) / (1 - rho) ** 2)

    return draws, variance


def _loudness(
    position: np.ndarray,
    span: float,
    places: np.ndarray,
    sizes: np.ndarray,
    widths: np.ndarray,
    variance_of_mean: Variance,
) -> tuple[np.ndarray, np.ndarray]:
    """z of each drop, and how far from it one may be found: a fifth of the shorter plateau beside it."""
    if not places.size:
        return places, places
    begins = np.concatenate([[0.0], places + 5 * widths])
    ends = np.concatenate([places - 5 * widths, [span]])
    inside = np.searchsorted(position, ends) - np.searchsorted(position, begins)
    error = variance_of_mean(np.maximum(inside, 1.0))
    z = sizes / np.maximum(np.sqrt(error[:-1] + error[1:]), 1e-12)
    lengths = np.diff(places, prepend=0.0, append=span)
    return z, 0.2 * np.minimum(lengths[:-1], lengths[1:])


@dataclass(frozen=True)
class Score:
    """Plateaus of one or more curves: found and there, found and not there, there and not found; and the curves."""

    hits: int = 0
    extra: int = 0
    missed: int = 0
    right: int = 0
    wrong: int = 0
    silent: int = 0

    def __add__(self, other: Score) -> Score:
        return Score(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    @property
    def precision(self) -> float:
        """Share of the reported plateaus that are there (1 where none was reported)."""
        return self.hits / (self.hits + self.extra) if self.hits + self.extra else 1.0

    @property
    def recall(self) -> float:
        """Share of the plateaus, of curves that were answered, that were reported."""
        return self.hits / (self.hits + self.missed) if self.hits + self.missed else 1.0

    @property
    def silence(self) -> float:
        """Share of the curves that were not answered."""
        return self.silent / max(self.right + self.wrong + self.silent, 1)


def score(curve: Curve, found: Sequence[float] | None) -> Score:
    """Judge the times at which a method says that plateaus end in a drop; None where it will not say."""
    if found is None:
        return Score(silent=1)
    free = list(curve.position(np.asarray(found, dtype=float)))
    hits = missed = 0
    places = curve.position(curve.drops)
    for place, within, z in sorted(zip(places, curve.tolerance, curve.z, strict=True), key=lambda row: -row[2]):
        near = min(free, key=lambda time: abs(time - place), default=None)
        if near is not None and abs(near - place) <= within:
            free.remove(near)
            hits += z >= HIDDEN
        else:
            missed += z >= HIDDEN
    return Score(hits, len(free), missed, right=int(not free and not missed), wrong=int(bool(free or missed)))
