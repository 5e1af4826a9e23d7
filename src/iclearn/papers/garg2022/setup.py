"""What garg2022 is run with: sizes, presets, and the recipe of one training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ...core.checks import check_choice
from ...core.recipe import Init, Optimizer, Recipe, Record
from ...models.causal_transformer import CausalTransformer
from ...tasks.curriculum import Curriculum
from ...tasks.function_class import FunctionClass
from ...tasks.function_laws import AbstractFunctions, LinearFunctions, ReluFunctions, SparseFunctions, TreeFunctions
from ..base import PaperOptions

NOISE = 0.25  # σ² of the networks that are trained with noise, σ = .5
TRAINED = (0.0, NOISE)
Growth = Literal["none", "dims", "both"]


class Training(NamedTuple):
    """One kind of training.

    Args:
        dim: d.
        points: of a prompt: predictions from 0 to points − 1 pairs.
        layers: of the transformer.
        heads: of it.
        width: of it.
        batch: prompts a step.
        peak: the learning rate after the warm-up.
        steps: updates.
        warmup: of them; the rate then falls to 0 along a cosine. None: a constant rate, as in the paper.
        growth: the curriculum: ``none``, ``dims`` (one dimension more at equal intervals of the first half) or ``both``
            (dimensions and points as in the paper, every 2000 steps).
    """

    dim: int
    points: int
    layers: int
    heads: int
    width: int
    batch: int
    peak: float
    steps: int
    warmup: int | None
    growth: Growth = "none"

    @property
    def places(self) -> tuple[int, int, int]:
        """The positions of the tables: ⌊d/2⌋, d and 2d pairs."""
        return self.dim // 2, self.dim, 2 * self.dim


class ClassTraining(NamedTuple):
    """The training of one further class of functions.

    Args:
        functions: the class.
        training: how.
    """

    functions: AbstractFunctions
    training: Training


class Preset(NamedTuple):
    """One size of the whole experiment.

    Args:
        linear: the training on linear functions.
        noisy: whether networks are trained with noise too, beside the others.
        depths: of networks that are compared; those other than that of `linear` are trained for it.
        classes: further classes that networks are trained on, by name.
        prompts: of every shifted evaluation (the paper: 1280).
        standard: so many times these without a shift.
        known: what the notes say of networks of this kind: ``SMALL``, ``MEDIUM`` or nothing.
        judged: whether training is long enough for claims on trained networks.
        seeds: where none are asked for.
        baseline_prompts: of the predictors on the classes of 20 dimensions.
    """

    linear: Training
    noisy: bool
    depths: tuple[int, ...]
    classes: dict[str, ClassTraining]
    prompts: int
    standard: int
    known: Literal["SMALL", "MEDIUM", ""]
    judged: bool
    seeds: int
    baseline_prompts: int


SMALL = Training(5, 11, 4, 4, 64, 64, 1e-3, 10_000, 500)
MEDIUM = Training(8, 17, 4, 4, 64, 256, 1e-3, 20_000, 500)
TINY = Training(2, 5, 1, 2, 8, 8, 1e-3, 6, 2)
ORIGINAL = Training(20, 41, 12, 8, 256, 64, 1e-4, 500_001, None, "both")
LONGER = ORIGINAL._replace(points=101)
GROWING = MEDIUM._replace(growth="dims")
SMALL_CLASSES = {
    "sparse": ClassTraining(SparseFunctions(sparsity=2), GROWING),
    "relu": ClassTraining(ReluFunctions(), GROWING._replace(points=33)),
    "tree": ClassTraining(TreeFunctions(depth=3), GROWING._replace(points=33)),
}
ORIGINAL_CLASSES = {
    "sparse": ClassTraining(SparseFunctions(), ORIGINAL), "relu": ClassTraining(ReluFunctions(), LONGER),
    "tree": ClassTraining(TreeFunctions(), LONGER),
}  # fmt: skip

PresetName = Literal["tiny", "small", "medium", "full", "original"]
PRESETS: dict[str, Preset] = {
    "tiny": Preset(TINY, True, (1,), {}, 16, 2, "", False, 1, 4),
    "small": Preset(SMALL, True, (), {}, 1280, 6, "SMALL", True, 1, 256),
    "medium": Preset(MEDIUM, False, (), {}, 1280, 6, "MEDIUM", True, 3, 256),
    "full": Preset(SMALL, True, (1, 2, 4), SMALL_CLASSES, 1280, 6, "SMALL", True, 3, 1024),
    "original": Preset(ORIGINAL, False, (), ORIGINAL_CLASSES, 1280, 6, "", True, 3, 1024),
}


@dataclass(frozen=True)
class Options(PaperOptions):
    """What `iclearn reproduce garg2022` is given.

    Args:
        preset: ``small`` (d = 5, one network without and one with noise a seed, one seed, minutes on two cores),
            ``medium`` (d = 8, three seeds, for a GPU), ``full`` (d = 5, three seeds, other depths and other classes
            too, for a GPU), ``original`` (the paper's d = 20, 12 layers and 500,000 steps: hours on a GPU) or ``tiny``
            (a few steps, to see that it runs).

    >>> Options.of({"preset": None}).preset, Options("full").usual_seeds
    ('small', 3)
    """

    preset: str = "small"

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PresetName)

    @property
    def sizes(self) -> Preset:
        """The preset itself."""
        return PRESETS[self.preset]

    @property
    def usual_seeds(self) -> int:
        return self.sizes.seeds


def curriculum_of(training: Training, *, fast: bool) -> Curriculum | None:
    """The curriculum of a training.

    Args:
        training: which.
        fast: points grow by 5 and not by 2 (ReLU networks and trees of the paper).

    Returns:
        The curriculum, or None.

    >>> curriculum_of(GROWING, fast=False).dims_interval
    1666
    """
    if training.growth == "none":
        return None
    if training.growth == "both":
        start, more = (26, 5) if fast else (11, 2)
        return Curriculum(5, training.dim, 1, 2000, start, training.points, more, 2000)
    least = 2
    interval = max(1, training.steps // 2 // (training.dim - least))
    return Curriculum(least, training.dim, 1, interval, training.points, training.points, 0, 1)


def task_of(training: Training, noise: float = 0.0, functions: AbstractFunctions | None = None) -> FunctionClass:
    """Fresh prompts of N(0, I) inputs, every position asked, the loss against labels as shown."""
    law = LinearFunctions() if functions is None else functions
    plan = curriculum_of(training, fast=training.points > 41)
    return FunctionClass(
        dim=training.dim, context_len=training.points - 1, functions=law, noise=noise, curriculum=plan
    )  # fmt: skip


def recipe_of(training: Training, seed: int, noise: float = 0.0, functions: AbstractFunctions | None = None) -> Recipe:
    """One training: Adam on fresh prompts, the mean squared error over prompts and positions."""
    cosine = None if training.warmup is None else training.steps
    return Recipe(
        task=task_of(training, noise, functions),
        model=CausalTransformer(training.layers, training.width, training.heads, entries="shared"),
        init=Init(0.02), optimizer=Optimizer("adam", training.peak, batch_size=training.batch, cosine=cosine, warmup=training.warmup or 0),
        steps=training.steps, seed=seed, engine="samples", dtype="float32", record=Record(6, 50),
    )  # fmt: skip
