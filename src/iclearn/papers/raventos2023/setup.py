"""What raventos2023 is run with: sizes, pools, presets, and the recipe of one training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...core.checks import check_choice
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...models.causal_transformer import CausalTransformer
from ...tasks.pooled_regression import PooledRegression
from ..base import PaperOptions

NOISE = 0.25
LENGTHS = ("short", "long")
Length = Literal["short", "long"]
Scope = Literal["none", "directions", "all"]


class Trainings(NamedTuple):
    """Trainings of one length, one for each pool.

    Args:
        pools: sizes of the pools.
        steps: updates.
        records: at how many steps the model is measured, evenly spaced, the last one included.
    """

    pools: tuple[int, ...]
    steps: int
    records: int


class Roles(NamedTuple):
    """Which pools a claim is about.

    Args:
        memorized: after long training the transformer is dMMSE.
        below: more training moves it away from ridge.
        above: more training moves it towards ridge.
        beats: on new tasks it is better than dMMSE.
        many: it is as good as ridge.
        transient: its distance to ridge has a minimum before the end.
        lasting: that has none.
        paths: the two pools between whose tasks is interpolated, few and many.
        dmmse_side: on new tasks the transformer is nearer to dMMSE than to ridge.
        ridge_side: there it is nearer to ridge.
    """

    memorized: tuple[int, ...]
    below: tuple[int, ...]
    above: tuple[int, ...]
    beats: tuple[int, ...]
    many: tuple[int, ...]
    transient: tuple[int, ...]
    lasting: tuple[int, ...]
    paths: tuple[int, int]
    dmmse_side: tuple[int, ...]
    ridge_side: tuple[int, ...]


class Preset(NamedTuple):
    """One size of the whole experiment.

    Args:
        dim: of inputs and tasks.
        points: tokens of a sequence: predictions from 0 to points − 1 pairs.
        layers: of the transformer.
        width: of it.
        batch: sequences a step.
        peak: the largest learning rate.
        precision: of the transformer's products, as `CausalTransformer` names it.
        short: the trainings of the first length.
        long: those of the second.
        sequences: of a test set.
        first: sequences of the first task, for the joint PCA.
        pairs: of tasks that are interpolated between.
        each: sequences of a pair at one place.
        roles: which pools claims are about.
        scope: which claims on trained models are judged here: ``none``, ``directions`` or ``all``.
    """

    dim: int
    points: int
    layers: int
    width: int
    batch: int
    peak: float
    precision: Literal["full", "tf32"]
    short: Trainings
    long: Trainings
    sequences: int
    first: int
    pairs: int
    each: int
    roles: Roles
    scope: Scope

    def of(self, length: Length) -> Trainings:
        """The trainings of a length."""
        return self.short if length == "short" else self.long


SIZES = (2, 8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 16384, 2**20)
FULL_ROLES = Roles(
    memorized=(16,), below=(32, 64, 128), above=(1024,), beats=(32, 64, 128, 256, 512, 1024, 2048, 4096),
    many=(1024, 2048, 4096, 16384, 2**20), transient=(16, 32, 64, 128), lasting=(256, 1024), paths=(32, 1024),
    dmmse_side=(2, 8, 16), ridge_side=(64, 128, 256, 512, 1024, 2048, 4096),
)  # fmt: skip
SMALL_ROLES = Roles(
    memorized=(4,), below=(4, 8), above=(128,), beats=(8, 32), many=(128,), transient=(4, 8), lasting=(128,),
    paths=(4, 128), dmmse_side=(4,), ridge_side=(32, 128),
)  # fmt: skip
TINY_ROLES = Roles((2,), (2,), (16,), (2, 16), (16,), (2,), (16,), (2, 16), (2,), (16,))

PresetName = Literal["tiny", "small", "full"]
PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        2, 4, 1, 8, 8, 1e-3, "full", Trainings((2, 16), 4, 2), Trainings((2, 16), 8, 4),
        sequences=16, first=8, pairs=1, each=4, roles=TINY_ROLES, scope="none",
    ),
    "small": Preset(
        4, 8, 2, 32, 64, 3e-3, "full", Trainings((4, 8, 32, 128), 1000, 10), Trainings((4, 8, 32, 128), 4000, 20),
        sequences=1024, first=128, pairs=2, each=128, roles=SMALL_ROLES, scope="directions",
    ),
    "full": Preset(
        8, 16, 4, 64, 256, 1e-3, "tf32", Trainings(SIZES, 10_000, 10), Trainings((16, 32, 64, 128, 256, 1024), 40_000, 40),
        sequences=2048, first=512, pairs=16, each=64, roles=FULL_ROLES, scope="all",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce raventos2023` is given.

    Args:
        preset: ``small`` (d = 4, four pools, minutes on two cores: some directions only), ``full`` (the small model of the paper, d = 8,
            12 pools × 10,000 and 6 × 40,000 steps, for a GPU) or ``tiny`` (a few steps, to see that it runs).

    >>> Options.of({"preset": None}).preset
    'small'
    """

    preset: str = "small"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)

    @property
    def sizes(self) -> Preset:
        """The preset itself."""
        return PRESETS[self.preset]


def task_of(preset: Preset, num_tasks: int | None, sequences: int = 0) -> PooledRegression:
    """x ~ N(0, I), w ~ N(0, I) from a pool, noise of variance ¼, all prefixes from the empty one on."""
    return PooledRegression(
        dim=preset.dim, context_len=preset.points - 1, num_tasks=num_tasks, noise=NOISE, prefixes=True, test_prompts=sequences
    )  # fmt: skip


def recipe_of(preset: Preset, length: Length, num_tasks: int, seed: int) -> Recipe:
    """Training on fresh sequences: Adam, the learning rate from 0 to its peak and back."""
    trainings = preset.of(length)
    return Recipe(
        task=task_of(preset, num_tasks), model=CausalTransformer(preset.layers, preset.width, 2, precision=preset.precision),
        init=Init(0.02), optimizer=Optimizer("adam", preset.peak, batch_size=preset.batch, triangle=trainings.steps),
        steps=trainings.steps, seed=seed, engine="samples", dtype="float32",
        record=Record(trainings.records + 1, trainings.records),
    )  # fmt: skip
