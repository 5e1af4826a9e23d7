"""What vladymyrov2024 is run with: noise laws, sizes, presets, and how a trained model is measured on fresh prompts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import numpy as np

from ...core.checks import check_choice
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...core.status import Status
from ...core.trace import Trace
from ...models.transformer import LinearTransformer
from ...tasks.covariance import Covariance
from ...tasks.varied_regression import VariedRegression
from ..base import PaperOptions

DIM, CONTEXT = 10, 20
DEPTHS = (1, 2, 3, 4)
LAWS: dict[str, dict[str, Any]] = {
    "U(0, 1)": {"noise_range": 1.0}, "U(0, 3)": {"noise_range": 3.0}, "U(0, 5)": {"noise_range": 5.0},
    "{1, 3}": {"noise_levels": (1.0, 3.0)}, "{1, 3, 5}": {"noise_levels": (1.0, 3.0, 5.0)},
}  # fmt: skip
MAIN = "U(0, 3)"
RATES = {"diag": 0.02, "full": 0.01}
STARTS = {"diag": 0.01, "full": 0.05}
BATCH = 2048  # prompts of a test batch, as many as the paper trains on at a time
FRESH, SETS = 25 * BATCH, 4  # prompts on which trained models are measured, drawn in sets of so many
FRESH_SEED = 1_000_003


class Cell(NamedTuple):
    """What is trained together: a law of the noise, the blocks and the number of layers."""

    law: str
    blocks: str
    layers: int


class Preset(NamedTuple):
    """A set of trainings."""

    cells: tuple[Cell, ...]
    batch: int
    steps: dict[str, int]


PresetName = Literal["tiny", "small", "full"]
PRESETS: dict[str, Preset] = {
    "tiny": Preset((Cell(MAIN, "diag", 2),), 64, {"diag": 40, "full": 40}),
    "small": Preset(
        (Cell(MAIN, "diag", 2), Cell(MAIN, "diag", 3), Cell(MAIN, "full", 3)), 512, {"diag": 3000, "full": 2000}
    ),
    "full": Preset(
        # thirty cells of 10,000 steps had not ended after ten minutes on an H200; twenty of 5000 took eight of them beside oswald2023
        tuple(Cell(law, "diag", layers) for law in LAWS for layers in DEPTHS[1:]) + tuple(Cell(law, "full", 3) for law in LAWS),
        2048, {"diag": 3000, "full": 3000},
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce vladymyrov2024` is given.

    Args:
        preset: ``small`` (σ ~ U(0, 3), up to three layers, minutes on two cores), ``full`` (every noise law, diag with two to
            four layers and full with three, for a GPU) or ``tiny`` (a few steps, to see that it runs).

    >>> Options.of({"preset": None}).preset
    'small'
    """

    preset: str = "small"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)


def task_of(law: str, num_prompts: int | None = None) -> VariedRegression:
    """d = 10, N = 20, x and w standard normal, a noise level drawn for every prompt."""
    return VariedRegression(
        dim=DIM, context_len=CONTEXT, covariance=Covariance.white(trace=None), num_prompts=num_prompts, **LAWS[law]
    )


def mean_square(law: str) -> float:
    """E σ² of a law."""
    return sum(weight * variance for weight, variance in task_of(law).noise_mixture())


def recipe_of(cell: Cell, preset: Preset, seed: int) -> Recipe:
    """Training on fresh prompts."""
    steps = preset.steps[cell.blocks]
    optimizer = Optimizer("adam", RATES[cell.blocks], batch_size=preset.batch, clip=1.0, halve_every=max(1, steps // 6))
    model = LinearTransformer(layers=cell.layers, blocks=cell.blocks)  # type: ignore[arg-type]
    return Recipe(
        task=task_of(cell.law), model=model, init=Init(STARTS[cell.blocks]), optimizer=optimizer, steps=steps,
        seed=seed, engine="samples", record=Record(2, 2),
    )  # fmt: skip


class Measured(NamedTuple):
    """The loss of a trained model less that of ridge with λ = E σ², on the same fresh prompts.

    Args:
        typical: median over batches of 2048 prompts of the difference of their mean squared errors.
        typical_error: its standard error, from the median distance of the batches to it.
        mean: over all prompts. A single prompt can rule it: these models are polynomials of high degree.
        mean_error: its standard error.
    """

    typical: float
    typical_error: float
    mean: float
    mean_error: float


def differences(law: str, traces: list[Trace]) -> list[Measured]:
    """Trained models measured against ridge with λ = E σ² on the same fresh prompts.

    Args:
        law: of the noise.
        traces: the runs.

    Returns:
        One row for each run, NaN for one that diverged. The loss itself is the exact one of that ridge regression plus a difference, which has
        less sampling error than the plain loss.
    """
    models = [trace.model() for trace in traces]
    parts = [_part(law, models, FRESH_SEED + index) for index in range(SETS)]
    found = [measured(np.concatenate([part[i] for part in parts])) for i in range(len(models))]
    lost = Measured(*[float("nan")] * 4)  # a run that diverged has no weights at its end
    return [lost if trace.status is Status.DIVERGED else one for trace, one in zip(traces, found, strict=True)]


def _part(law: str, models: list[Any], seed: int) -> list[np.ndarray]:
    """For each model (prompt) squared errors less those of ridge."""
    batch: Any = task_of(law, FRESH).source(seed, "float64").everything()
    prompt, target = batch.prompt, np.asarray(batch.target)[:, 0]
    x, y = np.asarray(prompt.x), np.asarray(prompt.y)
    gram = np.einsum("pni,pnj->pij", x, x) + mean_square(law) * np.eye(DIM)
    ridge = np.linalg.solve(gram, np.einsum("pni,pnj->pij", x, y))[..., 0]
    base = (np.einsum("pi,pi->p", np.asarray(prompt.query), ridge) - target) ** 2
    read = eqx.filter_jit(lambda model, prompts: jax.vmap(model.predict)(prompts))
    return [(np.asarray(read(model, prompt))[:, 0] - target) ** 2 - base for model in models]


def measured(differences: np.ndarray) -> Measured:
    """From differences of squared errors, prompt by prompt, to their typical and mean size.

    >>> found = measured(np.append(np.zeros(5 * BATCH - 1), 1e6))
    >>> found.typical, round(found.mean, 1)
    (0.0, 97.7)
    """
    batches = differences.reshape(-1, BATCH).mean(1)
    typical = float(np.median(batches))
    spread = 1.4826 * float(np.median(np.abs(batches - typical)))  # the deviation, of normal numbers
    error = 1.2533 * spread / np.sqrt(len(batches))  # of the median, of normal numbers
    return Measured(typical, error, float(differences.mean()), float(differences.std(ddof=1) / differences.size**0.5))
