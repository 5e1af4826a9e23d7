"""The plateau detector beside a published change-point method, on curves whose plateaus are known.

python -m benchmarks.detector --out benchmarks/results/detector.json [--count 120]

The other method is PELT with the l2 cost (Killick, Fearnhead and Eckley 2012) from the package `ruptures`, the extra
`bench`. Its penalty and its least segment are chosen on the half "train" of the family, once for all curves and once
for each kind and level of noise; both methods are judged on the half "test".
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from iclearn.probes.plateaus import find_plateaus

from .machine import now, source_digest, versions
from .staircases import NOISES, Curve, Score, family, score

POINTS = 1000  # PELT reads means over blocks where a curve is longer
SETTINGS = [
    (unit, float(factor), share)
    for unit, factors in (("noise", np.geomspace(1, 1e7, 15)), ("range", np.geomspace(1e-6, 1e-1, 11)))
    for factor, share in product(factors, (0.005, 0.02, 0.05, 0.1))
]


def ask_iclearn(curve: Curve) -> list[float] | None:
    """Times at which plateaus end in a drop; None where the detector is in doubt."""
    found = find_plateaus(curve.loss, time=curve.time, scale=curve.scale)  # type: ignore[arg-type]
    if found.doubt:
        return None
    return [min(t for t in found.drop_times if t >= plateau.end) for plateau in found]


@dataclass(frozen=True)
class Blocks:
    """A curve as PELT reads it: evenly spaced on the curve's own scale of time."""

    time: np.ndarray
    loss: np.ndarray
    methods: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, curve: Curve) -> Blocks:
        position = curve.position(curve.time)
        cuts = np.searchsorted(position, np.linspace(position[0], position[-1], min(position.size, POINTS) + 1)[1:-1])
        edges = np.unique(np.concatenate([[0], cuts, [position.size]]))
        time, loss = (np.add.reduceat(v, edges[:-1]) / np.diff(edges) for v in (curve.time, curve.loss))
        return cls(time, loss)

    def method(self, share: float) -> Any:
        """PELT with segments of at least this share of the points."""
        import ruptures  # pyright: ignore[reportMissingImports]

        least = max(2, round(share * self.loss.size))
        if least not in self.methods:
            self.methods[least] = ruptures.KernelCPD(kernel="linear", min_size=least).fit(self.loss[:, None])
        return self.methods[least]

    def penalty(self, unit: str, factor: float) -> float:
        """In units of σ² ln n, σ from first differences, or of the squared range times n."""
        size, span = self.loss.size, float(np.ptp(self.loss))
        if unit == "range":
            return factor * span**2 * size
        noise = float(np.median(np.abs(np.diff(self.loss)))) / (0.6745 * 2**0.5)
        return factor * max(noise, 1e-4 * span) ** 2 * float(np.log(size))


def ask_pelt(blocks: Blocks, unit: str, factor: float, share: float) -> list[float]:
    """Times at which the level changes."""
    ends = blocks.method(share).predict(pen=blocks.penalty(unit, factor))[:-1]
    return [float(blocks.time[end - 1 : end + 1].mean()) for end in ends]


def tune(curves: Iterable[Curve]) -> dict[str, tuple[str, float, float]]:
    """The settings of PELT that give the largest F1 on the staircases of each row of noise, and of all together."""
    totals: dict[str, dict[tuple[str, float, float], Score]] = defaultdict(lambda: defaultdict(Score))
    for curve in curves:
        if not curve.drops.size:
            continue
        blocks = Blocks.of(curve)
        for setting in SETTINGS:
            result = score(curve, ask_pelt(blocks, *setting))
            totals[curve.noise.label][setting] += result
            totals["all"][setting] += result
    return {label: max(rows, key=lambda s: _f1(rows[s])) for label, rows in totals.items()}


def _f1(total: Score) -> float:
    return 2 * total.hits / max(2 * total.hits + total.extra + total.missed, 1)


def measure(count: int) -> dict[str, Any]:
    """Scores of each method by row of noise and by loudness; "decays" are the curves without plateaus."""
    chosen = tune(family(count, "train"))
    methods: dict[str, Callable[[Curve], list[float] | None]] = {
        "iclearn": ask_iclearn,
        "PELT, one penalty": lambda curve: ask_pelt(Blocks.of(curve), *chosen["all"]),
        "PELT, a penalty for each row": lambda curve: ask_pelt(Blocks.of(curve), *chosen[curve.noise.label]),
    }
    rows: dict[tuple[str, str, str], Score] = defaultdict(Score)
    curves = 0
    for curve in family(count, "test"):
        curves += 1
        stairs = bool(curve.drops.size)
        keys = [(curve.noise.label, "staircases" if stairs else "decays")]
        keys.append((curve.noise.kind, curve.loudness if stairs else "decays"))
        for method, ask in methods.items():
            result = score(curve, ask(curve))
            for key in keys:
                rows[(method, *key)] += result
    return {
        "made": now(), "source": source_digest(), "curves": curves, "trained on": curves,
        "versions": {**versions(), "ruptures": _ruptures()}, "settings of PELT": chosen,
        "noises": [noise.label for noise in NOISES],
        "scores": [{"method": m, "noise": n, "curves": c, **_plain(total)} for (m, n, c), total in rows.items()],
    }  # fmt: skip


def _plain(total: Score) -> dict[str, float]:
    shares = {"precision": total.precision, "recall": total.recall, "silence": total.silence}
    return {**{name: int(value) for name, value in asdict(total).items()}, **shares}


def _ruptures() -> str:
    import ruptures.version  # pyright: ignore[reportMissingImports]

    return str(ruptures.version.version)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detector", description="Curves in, JSON out.")
    parser.add_argument("--out", type=Path, required=True, help="write the JSON here")
    parser.add_argument("--count", type=int, default=120, help="curves for each row of noise and half")
    args = parser.parse_args()
    args.out.write_text(json.dumps(measure(args.count), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
