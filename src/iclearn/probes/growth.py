"""When a curve leaves its plateau or a weight has grown, and how such times depend on a parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.crossing import first_below
from ..core.errors import IclearnError
from .plateaus import find_plateaus
from .reading import finite, loss_curve, record_times


def growth_times(
    values: Any, *, time: Any = None, fraction: float = 0.5, target: Any = None
) -> Float[np.ndarray, " *series"]:
    """The first times at which |values| reach a fraction of their final size, interpolated linearly between records.

    Args:
        values: (record, …) value weights, or anything else that grows.
        time: (record) of the records (default: 0, 1, …).
        fraction: of the target, above 0 and at most 1.
        target: (…) final sizes (default: |values| at the last record).

    Returns:
        (…) the times; NaN for what never gets there.

    >>> growth_times(np.array([0.0, 1.0, 4.0, 4.0]))
    array(1.33333333)
    """
    series = np.abs(finite("the values", values))
    if series.ndim == 0 or series.shape[0] < 2:
        raise IclearnError(f"growth times need at least 2 records, not shape {series.shape}")
    if not 0 < fraction <= 1:
        raise IclearnError(f"the fraction must be above 0 and at most 1, not {fraction}")
    times = record_times(None, series.shape[0], time)
    goal = fraction * np.broadcast_to(np.abs(series[-1] if target is None else target), series.shape[1:])
    columns = zip(series.reshape(len(series), -1).T, goal.ravel(), strict=True)
    found = [first_below(-column, times, -height, reach=True) for column, height in columns]
    return np.array(found, float).reshape(goal.shape)


def escape_time(
    loss: Any, *, time: Any = None, start: float | None = None, end: float | None = None, fraction: float = 0.5
) -> float:
    """The first time at which the loss has gone a fraction of the way from one level to another.

    Args:
        loss: (point) an array, or a Trace.
        time: (point) of each point (default: a Trace's own, or 0, 1, …).
        start, end: levels (default: the first and the last loss). For one drop of several give its two levels.
        fraction: half by default: the middle of the drop.

    Returns:
        The time; NaN if the loss never gets there.

    >>> escape_time([4.0, 4.0, 3.0, 0.0], start=4.0, end=2.0, fraction=0.5)
    2.0
    """
    curve, times = loss_curve(loss, time)
    top = float(curve[0]) if start is None else start
    bottom = float(curve[-1]) if end is None else end
    if not top > bottom:
        raise IclearnError(f"an escape goes from a higher to a lower loss, not from {top:.6g} to {bottom:.6g}")
    return float(growth_times(np.maximum(top - curve, 0.0), time=times, fraction=fraction, target=top - bottom))


def drop_times(loss: Any, *, time: Any = None) -> Float[np.ndarray, " drop"]:
    """The middles of the drops that `find_plateaus` finds.

    Args:
        loss: (point) an array, or a Trace.
        time: (point) of each point (default: a Trace's own, or 0, 1, …).

    Returns:
        (drop) the times.

    >>> steps = np.arange(4000.0)
    >>> drop_times(1 / (1 + np.exp((steps - 2000) / 20))).round()
    array([2000.])
    """
    return find_plateaus(loss, time=time).drop_times


@dataclass(frozen=True)
class LawFit:
    """A straight line fitted by least squares, with the standard errors of its coefficients.

    See `fit_power_law`, where the line is ln y = intercept + slope · ln x, and `fit_log_law`, where it is
    y = intercept + slope · ln x.

    Args:
        slope: of the line.
        slope_error: its standard error.
        intercept: of the line.
        intercept_error: its standard error.
        residual: root mean square distance to the line, over the degrees of freedom.
        num_points: how many points were fitted.
    """

    slope: float
    slope_error: float
    intercept: float
    intercept_error: float
    residual: float
    num_points: int

    @property
    def prefactor(self) -> float:
        """Of a power law y = prefactor · x^slope: e^intercept."""
        return float(np.exp(self.intercept))


def _line(x: np.ndarray, y: np.ndarray, name: str) -> LawFit:
    if x.shape != y.shape or x.size < 3 or np.ptp(x) == 0:
        raise IclearnError(f"a {name} needs at least 3 points at different x, not shapes {x.shape} and {y.shape}")
    center = x.mean()
    spread = float(np.sum((x - center) ** 2))
    slope = float(np.sum((x - center) * (y - y.mean()))) / spread
    intercept = float(y.mean() - slope * center)
    variance = float(np.sum((y - intercept - slope * x) ** 2)) / (x.size - 2)
    intercept_error = (variance * (1 / x.size + center**2 / spread)) ** 0.5
    return LawFit(slope, (variance / spread) ** 0.5, intercept, intercept_error, variance**0.5, x.size)


def fit_power_law(x: Any, y: Any) -> LawFit:
    """Fit y = prefactor · x^slope, by least squares in the logarithms.

    Args:
        x: (point) positive.
        y: (point) positive.

    Returns:
        The fit.

    >>> law = fit_power_law([1.0, 2.0, 4.0], [3.0, 12.0, 48.0])
    >>> round(law.slope, 6), round(law.prefactor, 6)
    (2.0, 3.0)
    """
    xs, ys = finite("x of a power law", x, 1), finite("y of a power law", y, 1)
    if (xs <= 0).any() or (ys <= 0).any():
        raise IclearnError("a power law needs positive x and y")
    return _line(np.log(xs), np.log(ys), "power law")


def fit_log_law(x: Any, y: Any) -> LawFit:
    """Fit y = intercept + slope · ln x, by least squares.

    Args:
        x: (point) positive.
        y: (point).

    Returns:
        The fit.

    >>> round(fit_log_law([1.0, np.e, np.e**2], [1.0, 3.0, 5.0]).slope, 6)
    2.0
    """
    xs, ys = finite("x of a logarithmic law", x, 1), finite("y of a logarithmic law", y, 1)
    if (xs <= 0).any():
        raise IclearnError("a logarithmic law needs positive x")
    return _line(np.log(xs), ys, "logarithmic law")
