"""What can be set on the explorer's page, and the recipe that a setting means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from ..core.checks import check_choice, check_int, require
from ..core.recipe import Init, Optimizer, Recipe, Record, Rule, Scheme
from ..models.attention import Attention
from ..models.features import Normalize
from ..models.lsa import LSA
from ..models.softmax_layers import SoftmaxLayer
from ..tasks.covariance import Covariance
from ..tasks.regression import LinearRegression
from ..tasks.softmax_regression import SoftmaxRegression

MOST_DIM, MOST_HEADS, MOST_RANK, MOST_STEPS = 8, 9, 8, 200_000
MOST_WORDS, MOST_EMBEDDING, MOST_BATCH = 400, 100, 4096
ATTENTION, REGRESSION = ["linear", "softmax"], ["linear", "softmax", "lsa", "yq-lsa"]
OTHERS = ["lsa", "yq-lsa", "documents"]  # beside these, linear attention on the same numbers would mean nothing
LAYERS = {
    "A-log-labels": SoftmaxLayer("log_label"), "B-query-attends": SoftmaxLayer("query"),
    "C-raw-labels": SoftmaxLayer("raw_label"), "stack-of-1": SoftmaxLayer("stack", 1, 2),
    "stack-of-2": SoftmaxLayer("stack", 2, 2),
}  # fmt: skip

# The controls of the page, in order. `scale` says how a slider is spaced; the groups "python" and "documents" need the
# server; `kinds` are the models that a control is for (none given: all of them).
CONTROLS: tuple[dict[str, Any], ...] = (
    {"name": "family", "label": "keys and queries", "group": "model", "choices": ["separate", "merged"],
     "kinds": ATTENTION, "help": "separate: each head has keys and queries of rank R; merged: one matrix a head"},
    {"name": "heads", "label": "heads H", "group": "model", "min": 1, "max": MOST_HEADS, "step": 1,
     "kinds": REGRESSION},
    {"name": "rank", "label": "rank R", "group": "model", "min": 1, "max": MOST_RANK, "step": 1, "kinds": ATTENTION},
    {"name": "dim", "label": "dimension D", "group": "task", "min": 1, "max": MOST_DIM, "step": 1, "kinds": REGRESSION},
    {"name": "eigenvalues", "label": "eigenvalues λ of the inputs", "group": "task", "min": 0.01, "max": 1.0,
     "step": 0.01, "kinds": REGRESSION},
    {"name": "context", "label": "context pairs N (words n)", "group": "task", "min": 1, "max": 1000, "scale": "log",
     "step": 1},
    {"name": "normalize", "label": "sum over tokens", "group": "model", "choices": ["none", "context", "tokens"],
     "kinds": ATTENTION,
     "help": "none: the plain sum (public code); context: divided by N (the paper); tokens: by N + 1"},
    {"name": "init", "label": "initial scale", "group": "training", "min": 1e-8, "max": 1.0, "scale": "log"},
    {"name": "scheme", "label": "initialization", "group": "training", "choices": ["entries", "per_head", "stacked"],
     "kinds": ATTENTION,
     "help": "entries: every weight of this size; per_head: |v|, ‖k‖, ‖q‖ of a head; stacked: the newest public code"},
    {"name": "lr", "label": "learning rate", "group": "training", "min": 1e-5, "max": 1.0, "scale": "log"},
    {"name": "steps", "label": "steps", "group": "training", "min": 10, "max": MOST_STEPS, "scale": "log", "step": 1},
    {"name": "seed", "label": "seed", "group": "training", "min": 0, "max": 7, "step": 1},
    {"name": "prompts", "label": "training prompts P", "group": "python", "min": 0, "max": 80_000, "step": 1,
     "kinds": REGRESSION, "help": "0: infinitely many, integrated exactly"},
    {"name": "kind", "label": "model", "group": "python", "choices": [*REGRESSION, "documents"],
     "help": "linear and softmax attention; multi-head linear self-attention without and with a trainable guess; "
             "softmax layers that read documents"},
    {"name": "rule", "label": "optimizer", "group": "python", "choices": ["gd", "momentum", "adam", "flow"]},
    {"name": "prefixes", "label": "train on all prefixes", "group": "python", "choices": [False, True],
     "kinds": ATTENTION},
    {"name": "prior", "label": "norm of the prior mean", "group": "python", "min": 0.0, "max": 10.0, "step": 0.1,
     "kinds": REGRESSION, "help": "of the task vectors; for lsa and yq-lsa, or with finitely many prompts"},
    {"name": "batch", "label": "fresh prompts a step", "group": "python", "min": 0, "max": MOST_BATCH, "step": 1,
     "help": "0: the whole training set, or the exact loss"},
    {"name": "layer", "label": "layer", "group": "documents", "choices": list(LAYERS), "kinds": ["documents"],
     "help": "how a softmax layer reads a document: A, B and C of our li2024, or stacked units"},
    {"name": "embedding", "label": "dimension d of the words", "group": "documents", "min": 1, "max": MOST_EMBEDDING,
     "step": 1, "kinds": ["documents"]},
    {"name": "logits", "label": "logit scale s", "group": "documents", "min": 0.05, "max": 4.0, "scale": "log",
     "kinds": ["documents"], "help": "norm of the hidden weight: how far the probabilities are from uniform"},
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
    """One setting of the explorer. The first eleven fields are what the page itself can train.

    Args:
        family: ``separate`` or ``merged`` keys and queries.
        eigenvalues: of the inputs' covariance, in any order; the eigenvectors are turned at random by the seed.
        heads, rank, context: H, R, N.
        init, scheme: `Init.scale` and `Init.scheme`.
        normalize: factor on the sum over tokens.
        lr, steps, seed: of the recipe.
        prompts: P; 0 for infinitely many.
        kind: ``linear``, ``softmax``, ``lsa``, ``yq-lsa``, or ``documents``: softmax regression, whose number of words
            is `context`.
        rule: of the optimizer.
        prefixes: whether the loss is over all prefixes.
        prior: norm of the mean of the task vectors.
        batch: fresh prompts of a step; 0 for the whole training set.
        layer, embedding, logits: of ``documents``: a name in LAYERS, the dimension of the words, the logit scale.

    >>> Setting(eigenvalues=(0.6, 0.4), heads=2).recipe().model
    Attention(family='separate', num_heads=2)
    >>> Setting().in_page, Setting(prompts=500).in_page
    (True, False)
    """

    family: str = "separate"
    eigenvalues: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    heads: int = 5
    rank: int = 1
    context: int = 31
    init: float = 0.01
    scheme: Scheme = "entries"
    normalize: Normalize = "none"
    lr: float = 0.02
    steps: int = 10_001
    seed: int = 0
    prompts: int = 0
    kind: str = "linear"
    rule: Rule = "gd"
    prefixes: bool = False
    prior: float = 0.0
    batch: int = 0
    layer: str = "A-log-labels"
    embedding: int = 20
    logits: float = 0.5

    def __post_init__(self) -> None:
        for control in CONTROLS:
            if "choices" in control:
                value, choices = getattr(self, control["name"]), control["choices"]
                require(value in choices, f"{control['name']} must be one of {choices}, not {value!r:.200}")
        count = len(self.eigenvalues)
        require(1 <= count <= MOST_DIM, f"the explorer takes 1 to {MOST_DIM} eigenvalues, not {count}")
        for name, most in (("heads", MOST_HEADS), ("rank", MOST_RANK), ("steps", MOST_STEPS), ("context", 1000)):
            check_int(name, getattr(self, name), 1)
            require(getattr(self, name) <= most, f"the explorer takes at most {most} for {name}")
        check_int("prompts", self.prompts, 0)
        require(self.prompts <= 80_000, f"the explorer takes at most 80000 prompts, not {self.prompts}")
        check_choice("optimizer rule", self.rule, Rule)
        check_int("batch", self.batch, 0)
        require(self.batch <= MOST_BATCH, f"the explorer takes at most {MOST_BATCH} prompts a step, not {self.batch}")
        if self.kind == "documents":
            check_int("embedding", self.embedding, 1)
            room = 2 <= self.context <= MOST_WORDS and self.embedding <= MOST_EMBEDDING
            require(room, f"documents have 2 to {MOST_WORDS} words of at most {MOST_EMBEDDING} dimensions here")
            require(self.batch > 0, "documents are drawn afresh at every step: give batch")

    @staticmethod
    def read(table: Mapping[str, Any]) -> Setting:
        """A setting from what the page sends; anything it does not know is refused.

        Args:
            table: field → value; missing fields have their defaults.

        Returns:
            The setting, checked.
        """
        defaults: dict[str, Any] = asdict(Setting())
        found: dict[str, Any] = {}
        for name, value in table.items():
            require(name in defaults, f"the explorer has no setting {name!r:.200}")
            kind = type(defaults[name])
            good = _readable(value, kind)
            require(good, f"{name} cannot be {value!r:.200}")
            found[name] = kind(value)
        return Setting(**found)

    @property
    def in_page(self) -> bool:
        """Whether the page can train this itself: linear attention, infinitely many prompts, gradient descent."""
        own = [f.name for f in fields(self)]
        return all(getattr(self, name) == getattr(Setting(), name) for name in own[own.index("prompts") :])

    def recipe(self) -> Recipe:
        """The recipe that this setting means: what `simulate` trains, and what the page exports."""
        if self.kind == "documents":
            return self._document_recipe()
        dim, finite = len(self.eigenvalues), self.prompts > 0
        mean = tuple((np.full(dim, self.prior / np.sqrt(dim))).tolist()) if self.prior else None
        task = LinearRegression(
            dim=dim, context_len=self.context, covariance=Covariance.eigenvalues(self.eigenvalues, rotate=True),
            prior_mean=mean, num_prompts=self.prompts or None, prefixes=self.prefixes,
            center=finite, whiten=finite and not mean,
        )  # fmt: skip
        scheme = self.scheme
        if self.kind in ("lsa", "yq-lsa"):
            model: Any = LSA(self.heads, "trainable" if self.kind == "yq-lsa" else "none")
            scheme = "per_head"
        else:
            rank = 1 if self.family == "merged" else self.rank
            model = Attention(
                self.family,  # type: ignore[arg-type]
                num_heads=self.heads, rank=rank, softmax=self.kind == "softmax", normalize=self.normalize,
            )  # fmt: skip
        return Recipe(
            task=task, model=model, init=Init(self.init, scheme), optimizer=self._optimizer(), steps=self.steps,
            seed=self.seed, record=Record(weights=2, candidates=2),
        )  # fmt: skip

    def _optimizer(self) -> Optimizer:
        return Optimizer(self.rule, self.lr, batch_size=self.batch or None)

    def _document_recipe(self) -> Recipe:
        task = SoftmaxRegression(context_len=self.context, dim=self.embedding, scale=self.logits)
        return Recipe(
            task=task, model=LAYERS[self.layer], init=Init(self.init), optimizer=self._optimizer(), steps=self.steps,
            seed=self.seed, record=Record(weights=2, candidates=2), dtype="float32",
        )  # fmt: skip


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _readable(value: Any, kind: type) -> bool:
    """Whether JSON's value can be read as this kind of field."""
    if kind in (int, float):
        return _number(value) and (kind is float or float(value).is_integer())
    if kind is tuple:
        return isinstance(value, list | tuple) and all(map(_number, value))
    return isinstance(value, kind)


def page_facts() -> dict[str, Any]:
    """What the page has to know of settings: defaults, controls with their limits, and allowed choices."""
    layers = {name: layer.to_dict() for name, layer in LAYERS.items()}
    return {"defaults": asdict(Setting()), "controls": list(CONTROLS), "others": OTHERS, "layers": layers}
