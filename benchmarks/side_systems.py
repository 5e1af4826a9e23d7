"""The same step in iclearn and in a naive PyTorch script of the model of each public system, in one run.

That it is the same model is checked on common inputs and weights before; the seconds are those of alternating repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np

from iclearn import CausalTransformer, Init, Optimizer, Recipe, Record
from iclearn.engines import prepare
from iclearn.models import LSA
from iclearn.papers.li2024.setup import recipe as li2024
from iclearn.papers.xie2025.setup import paper_task
from iclearn.tasks.pooled_regression import PooledRegression

from . import against_torch, depth_steps
from .machine import available_cores
from .recipes import merged, separate

AGREE = 2e-4  # relative to the largest prediction, in float32
Once = Callable[[], Any]


@dataclass(frozen=True)
class System:
    """One comparison.

    Args:
        name: of the public system, and of the work after a slash.
        what: the work in words.
        recipe: of ours.
        steps: of ours in a repeat; the naive script takes a tenth, and one at least.
        naive: (recipe, steps, device) → a function that trains so many steps, and the largest relative difference of
            the predictions or losses of the two.
    """

    name: str
    what: str
    recipe: Recipe
    steps: int
    naive: Callable[[Recipe, int, str], tuple[Once, float]]


def linattn(recipe: Recipe, steps: int, device: str) -> tuple[Once, float]:
    """Full attention matrices over all prompts, float64; the first losses are compared."""
    from .naive_torch import train

    setup = prepare(recipe)
    batch: Any = setup.task.source(recipe.seed, "float64").everything()
    tokens, target = np.asarray(batch.prompt.tokens()), np.asarray(batch.target)[:, 0]
    weights = {name: np.asarray(weight) for name, weight in setup.model.weights().items()}
    start, softmax = against_torch.full_matrices(weights, setup.task.dim), setup.engine_name == "samples"
    given: dict[str, Any] = {"lr": recipe.optimizer.lr, "softmax": softmax, "device": device}
    error = against_torch.compare_losses(train(tokens, target, start, steps=4, **given)[0], recipe)
    return lambda: train(tokens, target, start, steps=steps, **given), error


def depth(recipe: Recipe, steps: int, device: str) -> tuple[Once, float]:
    """Every layer's full attention map, float32, fresh prompts."""
    return depth_steps.naive_step(recipe, steps, device), depth_steps.agreement(recipe)


def guess(recipe: Recipe, steps: int, device: str) -> tuple[Once, float]:
    """Linear self-attention with a guess, float32, fresh prompts."""
    import torch  # pyright: ignore[reportMissingImports]

    from .naive_lsa import GuessNet, train

    task: Any = recipe.task
    model = recipe.model.initial(task, Init(0.3), 1, "float32")
    naive = GuessNet({name: np.asarray(weight) for name, weight in model.weights().items()})
    batch: Any = task.replace(num_prompts=64).source(3, "float32").everything()
    ours = np.asarray(eqx.filter_jit(lambda m, p: jax.vmap(m.predict)(p))(model, batch.prompt))[:, 0]
    tokens = torch.tensor(np.array(batch.prompt.tokens()))
    with torch.no_grad():
        theirs = naive(tokens[:, :-1], tokens[:, -1, :-1]).numpy()
    given: dict[str, Any] = {
        "dim": task.dim, "context": task.context_len, "batch": recipe.optimizer.batch_size,
        "mean": np.asarray(task.prior_mean), "lr": recipe.optimizer.lr,
    }  # fmt: skip
    naive = naive.to(device)
    return lambda: train(naive, steps, **given), agreed(ours, theirs)


def documents(recipe: Recipe, steps: int, device: str) -> tuple[Once, float]:
    """One softmax layer on documents, float32, fresh ones at every step."""
    import torch  # pyright: ignore[reportMissingImports]

    from .naive_documents import LabelNet, train

    task: Any = recipe.task
    model = recipe.model.initial(task, Init(0.3), 1, "float32")
    naive = LabelNet({name: np.asarray(weight) for name, weight in model.weights().items()})
    given: Any = task.replace(num_prompts=64).source(3, "float32").everything().prompt
    ours = np.asarray(eqx.filter_jit(lambda m, p: jax.vmap(m.predict)(p))(model, given))
    with torch.no_grad():
        theirs = naive(*(torch.tensor(np.array(part)) for part in (given.context, given.target, given.query))).numpy()
    sizes: dict[str, Any] = {
        "words": task.context_len, "dim": task.dim, "scale": task.scale, "batch": recipe.optimizer.batch_size,
        "lr": recipe.optimizer.lr,
    }  # fmt: skip
    naive = naive.to(device)
    return lambda: train(naive, steps, **sizes), agreed(ours, theirs)


def transformer(recipe: Recipe, steps: int, device: str, *, check: bool = True) -> tuple[Once, float]:
    """GPT-2 with PyTorch's own attention, float32, fresh prompts, all prefixes; unchecked where the cost is all."""
    import torch  # pyright: ignore[reportMissingImports]

    from .naive_gpt2 import GPT2, train

    task, spec = recipe.task, recipe.model
    assert isinstance(task, PooledRegression)
    assert isinstance(spec, CausalTransformer)
    tokens = task.context_len + 1
    naive, error = GPT2(task.dim, tokens, spec.layers, spec.width, spec.num_heads), float("nan")
    if check:
        model: Any = spec.initial(task, Init(0.3), 1, "float32")
        drawn = task.replace(num_prompts=32).source(3, "float32").sequences()
        ours = np.asarray(eqx.filter_jit(lambda m, x, y: m.predict_sequences(x, y))(model, drawn.x, drawn.y))
        naive = naive.load(model.weights())
        with torch.no_grad():
            theirs = naive(torch.tensor(np.array(drawn.x)), torch.tensor(np.array(drawn.y))).numpy()
        error = agreed(ours, theirs)
    given: dict[str, Any] = {
        "batch": recipe.optimizer.batch_size, "tokens": tokens, "dim": task.dim, "pool": task.num_tasks or 4096,
        "lr": 1e-4, "precision": "full",
    }  # fmt: skip
    naive = naive.to(device)
    return lambda: train(naive, steps, **given), error


def agreed(ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest difference, relative to the largest prediction; an error where it is not rounding."""
    error = float(np.max(np.abs(ours - theirs)) / np.max(np.abs(ours)))
    if not error <= AGREE:
        raise AssertionError(f"the naive script and iclearn disagree: relative error {error:.1e}")
    return error


def gpt2(dim: int, context: int, layers: int, batch: int, num_tasks: int | None) -> Recipe:
    """A transformer 64 wide on linear regression: raventos2023's small one, or Garg et al.'s smallest."""
    return Recipe(
        task=PooledRegression(dim=dim, context_len=context, num_tasks=num_tasks, noise=0.25, prefixes=True),
        model=CausalTransformer(layers=layers, width=64, num_heads=2), init=Init(0.02),
        optimizer=Optimizer("adam", 1e-4, batch_size=batch), steps=1000, seed=0, engine="samples",
        record=Record(21, 20), dtype="float32",
    )  # fmt: skip


def systems(quick: bool) -> Iterator[System]:
    """All comparisons; quick ones are tiny and say no speed."""
    few, batch = (200, 16) if quick else (5000, 0)
    init = against_torch.INIT
    ours, slow = (20, 2) if quick else (2000, 20)
    row = merged(4, few).replace(init__scale=init)
    yield System("linattn-icl/merged", f"merged attention, D = 4, N = 31, H = 8, P = {few}", row, ours, linattn)
    row = separate(4, few, num_heads=5, softmax=True).replace(init__scale=init)
    yield System("linattn-icl/softmax", f"separate softmax, D = 4, N = 31, H = 5, P = {few}", row, slow // 2, linattn)
    chosen = {
        "oswald2023/fig3": "self-organising-systems/two layers",
        "ahn2023/identity/samples": "LinearTransformer/three layers",
        "ahn2023/identity/gram": "LinearTransformer/three layers, integrated",
    }  # fmt: skip
    for training in depth_steps.trainings():
        if training.name in chosen:
            row = training.recipe.replace(optimizer__batch_size=batch) if batch else training.recipe
            what = f"{training.what}; {row.optimizer.batch_size} fresh prompts, Adam"
            if row.engine == "gram":
                what += (
                    "; ours integrates task, query and noise out of the loss (engine gram), which the script does not"
                )
            yield System(chosen[training.name], what, row, slow, depth)
    row = gpt2(8, 15, 4, batch or 256, 64)
    what = f"GPT-2 of 4 layers, 64 wide, d = 8, 16 points, {batch or 256} fresh prompts, Adam"
    yield System("icl-task-diversity/small", what, row, 2, transformer)
    row = gpt2(20, 40, 3, batch or 64, None)
    what = f"GPT-2 of 3 layers, 64 wide, d = 20, 41 points, {batch or 64} fresh prompts, Adam"
    yield System("dtsip/in-context-learning/tiny", what, row, 2, transformer)
    row = Recipe(
        task=paper_task(3.0), model=LSA(1, "trainable"), init=Init(0.1), steps=5000, engine="samples", dtype="float32",
        optimizer=Optimizer("adam", 5e-4, batch_size=batch or 2048),
    )  # fmt: skip
    what = f"yq-LSA, d = C = 10, {batch or 2048} fresh prompts, Adam"
    yield System("xie2025/yq-LSA", what, row, slow, guess)
    row = li2024("A", 0).replace(engine="samples", optimizer__batch_size=batch or 64)
    what = f"softmax layer A, d = 20, documents of 200 words, {batch or 64} fresh ones, Adam"
    yield System("li2024/layer A", what, row, slow, documents)


def seconds_a_step(once: Once, steps: int) -> dict[str, float]:
    """Microseconds a step of one call: wall, and of the processor over all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    once()
    count = 1e6 / steps
    return {"wall_us": (time.perf_counter() - wall) * count, "processor_us": (time.process_time() - cpu) * count}


def compare(system: System, *, repeats: int, device: str) -> dict[str, Any]:
    """Both sides of one system, alternating; PyTorch on a processor with one thread and with all."""
    import torch  # pyright: ignore[reportMissingImports]

    few = max(1, system.steps // 10) if system.naive is not linattn else 2
    naive, error = system.naive(system.recipe, few, device)
    ours = depth_steps.our_step(system.recipe, system.steps)
    threads = [1] if device == "cuda" else sorted({1, available_cores()})
    own, theirs = [], {str(number): [] for number in threads}
    default = torch.get_num_threads()
    naive()
    for _ in range(repeats):
        own.append(seconds_a_step(ours, system.steps))
        for number in threads:
            torch.set_num_threads(number)
            theirs[str(number)].append(seconds_a_step(naive, few))
    torch.set_num_threads(default)
    return {
        "name": system.name, "what": system.what, "device": device, "ours": own, "naive_by_threads": theirs,
        "prediction_error": error,
    }  # fmt: skip
