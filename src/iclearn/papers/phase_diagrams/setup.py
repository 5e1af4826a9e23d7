"""What shipped sweeps share: how large they are, who carries them out, and how they come into a figure's data."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ...core.errors import IclearnError
from ...sweeps.api import carry_out
from ...sweeps.folder import SweepFolder
from ...sweeps.plan import ComputePath, Plan
from ...sweeps.progress import status
from ...sweeps.runners import RETRIES
from ..lab import Lab, digest_of

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True)
class Options:
    """How large a shipped sweep is (``small``, ``medium``: a CPU; ``full``: a GPU), and how it is carried out."""

    preset: Literal["small", "medium", "full"] = "small"
    chunk: int | None = None
    path: ComputePath = "auto"
    workers: int = 0
    cluster: str | None = None
    retries: int = RETRIES
    progress: Callable[[int, int], None] | None = None
    say: Callable[[str], None] | None = None


def swept(lab: Lab, plan: Plan, options: Options) -> xr.Dataset:
    """The dataset of a plan, carried out under the lab's folder or found there; its facts are noted for the card."""
    begin, root = time.perf_counter(), lab.root / "sweep"
    if lab.offline:
        if not status(root).complete:
            raise IclearnError(f"the sweep in {root} is not finished: run once without --draw-only")
        folder = SweepFolder.create(root, plan)
    else:
        folder = carry_out(
            plan,
            root,
            workers=options.workers,
            cluster=options.cluster,
            retries=options.retries,
            progress=options.progress,
            say=options.say,
        )
    data = folder.dataset().load()
    facts, entries = lab.facts, folder.entries().values()
    facts.datasets.append(f"sweep {plan.hash[:12]}, {plan.num_runs} runs in {len(plan.chunks)} chunks")
    facts.recipes.append(plan.base.to_dict())
    facts.content.append(digest_of(data))
    facts.simulated_seconds += sum(entry.seconds for entry in entries)
    facts.seconds += time.perf_counter() - begin
    return data
