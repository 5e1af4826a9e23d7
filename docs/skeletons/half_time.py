"""A probe in one file: the step at which half of the fall of a loss curve is done.

Registry line: half_time = "half_time:half_time" under "iclearn.probes".
"""

from iclearn.core.crossing import first_below
from iclearn.probes.reading import loss_curve


def half_time(trace) -> float:
    """The time (t/τ where the run has it, else steps) of half the fall, interpolated; NaN for a curve that rises."""
    loss, time = loss_curve(trace)
    return float(first_below(loss, time, (loss[0] + loss[-1]) / 2))
