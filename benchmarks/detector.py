"""The plateau detector beside a published change-point method, on curves whose plateaus are known."""

from __future__ import annotations

from iclearn.probes.plateaus import find_plateaus

from .staircases import Curve


def ask_iclearn(curve: Curve) -> list[float] | None:
    """Times at which plateaus end in a drop; None where the detector is in doubt."""
    found = find_plateaus(curve.loss, time=curve.time, scale=curve.scale)
    if found.doubt:
        return None
    return [min(t for t in found.drop_times if t >= plateau.end) for plateau in found]
