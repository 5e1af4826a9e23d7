"""Golden files of predictors on function classes, computed again.

``predictors_d*``: answers to every prefix by the public codes of garg2022, bai2023, fu2024 and akyurek2023, and some of our
own; ``trees_*``: greedy regression trees; ``mlp_descent_*``: networks trained on each prefix; ``toy_clamp_*``: the toy of
progress measures of singh2024.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...core.prompt import Prompt, prefix_prompt
from ...models.predictors import (
    Averaging,
    ConjugateGradients,
    GradientDescent,
    GreedyTree,
    Huber,
    Lasso,
    LeastAbsolute,
    LeastSquares,
    NearestNeighbors,
    NetworkDescent,
    NewtonFilter,
    OnlineDescent,
    Ridge,
)  # fmt: skip
from ...models.predictors.network_fit import NetworkWeights
from ...probes.progress_toy import Vectors, descend_toy
from ..verifying import Quantity, Recomputed, every_prefix

Arrays = Mapping[str, np.ndarray]
ATOL = 1e-10  # of predictions; relative for those above 1
TREE_ATOL = 1e-11
NETWORK_ATOL = 1e-8
TOY_ATOL = 1e-14
FU_LR = 0.01  # fu2024's step, on the sum over the context

# What an array is named after its labels → the predictor; the groups are its numbers.
PREDICTORS: dict[str, Callable[..., AbstractModel]] = {
    r"ols": LeastSquares,
    r"knn(\d+)": lambda k: NearestNeighbors(int(k)),
    r"knn(\d+)_distance": lambda k: NearestNeighbors(int(k), "distance"),
    r"averaging": Averaging,
    r"newton_(\d+)": lambda k: NewtonFilter(int(k), normalize="none"),
    r"gd_(\d+)": lambda k: GradientDescent(np.zeros(1), FU_LR, int(k), normalize="none"),
    r"ridge_(.+)": lambda penalty: Ridge(float(penalty)),
    r"lasso_exact_(.+)": lambda penalty: Lasso(float(penalty)),
    r"ours_cg_(\d+)": lambda k: ConjugateGradients(int(k)),
    r"ours_lad": LeastAbsolute,
    r"ours_huber_(.+)": lambda threshold: Huber(float(threshold)),
    r"akyurek_lstsq": LeastSquares,
    r"akyurek_fake": Averaging,
    r"akyurek_knn(\d+)_uniform": lambda k: NearestNeighbors(int(k)),
    r"akyurek_knn(\d+)_distance": lambda k: NearestNeighbors(int(k), "distance"),
    r"akyurek_ridge_(.+)": lambda penalty: Ridge(float(penalty)),
    r"akyurek_sgd_([\d.]+)_w1": lambda lr: OnlineDescent(float(lr)),
    r"akyurek_sgd_([\d.]+)_full": lambda lr: OnlineDescent(float(lr), "full"),
    r"akyurek_sgd_([\d.]+)_full_wd(.+)": lambda lr, decay: OnlineDescent(float(lr), "full", float(decay)),
}  # fmt: skip
TREES = {"depth4": GreedyTree(4), "full": GreedyTree(None)}
TREES |= {f"{name}_sign": GreedyTree(tree.depth, signs=True) for name, tree in TREES.items()}
CLAMPS = {"none": "", "c": "c", "bc": "bc"}


def recompute(arrays: Arrays) -> Recomputed:
    """Every quantity of a file ``predictors_d*``, ``trees_*``, ``mlp_descent_*`` or ``toy_clamp_*``; its arrays tell which.

    Args:
        arrays: of the file.

    Returns:
        The quantities beside ours.
    """
    kinds = {"y_noisy": _predictors, "depth4/first": _trees, "inds": _networks, "init/a": _toy}
    for name, compute in kinds.items():
        if name in arrays:
            return compute(arrays)
    raise IclearnError(f"none of the arrays {', '.join(kinds)} is there, one of which tells what the file is")


def predictor_named(name: str) -> AbstractModel | None:
    """The predictor that an array of answers is named after, or None.

    Args:
        name: of the array, without that of its labels.

    Returns:
        The predictor.

    >>> predictor_named("knn5_distance")
    NearestNeighbors(neighbors=5, weighting='distance')
    """
    for pattern, build in PREDICTORS.items():
        if match := re.fullmatch(pattern, name):
            return build(*match.groups())
    return None


def _near(name: str, given: np.ndarray, ours: np.ndarray | jax.Array, atol: float) -> Quantity:
    """A quantity judged by absolute differences, relative ones above 1."""
    return Quantity(name, given, np.asarray(ours), "value", atol, least=1.0)


def _sequences(arrays: Arrays, labels: str = "y") -> tuple[np.ndarray, np.ndarray]:
    x, y = arrays["x"], arrays[labels]
    if x.ndim != 3 or y.shape != x.shape[:2]:
        shapes = f"x {x.shape} and {labels} {y.shape}"
        raise IclearnError(f"{shapes} must be (sequence, token, dim) and (sequence, token)")
    return x, y


def _predictors(arrays: Arrays) -> Recomputed:
    found = [_near("y", arrays["y"], np.einsum("ptd,pd->pt", arrays["x"], arrays["w"]), 1e-12)]
    given = ["x", "w"]
    if "w_sparse" in arrays:
        truth = np.einsum("ptd,pd->pt", arrays["x"], arrays["w_sparse"])
        found.append(_near("y_sparse", arrays["y_sparse"], truth, 1e-12))
        given.append("w_sparse")
    for name in arrays:
        labels, _, kind = name.partition("/")
        model = predictor_named(kind) if kind else None
        if model is None:
            continue
        x, y = _sequences(arrays, labels)
        ours = np.asarray(every_prefix(model, jnp.asarray(x), jnp.asarray(y)))
        first = 1 if kind.startswith("akyurek") else 0  # that code does not answer without a context
        found.append(_near(name, arrays[name], ours[:, first:], ATOL))
    shown = [name for name in arrays if name.startswith("y_") and "/" not in name and name != "y_sparse"]
    return Recomputed(tuple(found), (*given, *shown))


def _trees(arrays: Arrays) -> Recomputed:
    x, y = _sequences(arrays)
    found = [_near("y", y, _tree_labels(x, arrays["coordinate"], arrays["value"]), 0.0)]
    for name, tree in TREES.items():
        ours = np.asarray(every_prefix(tree, jnp.asarray(x), jnp.asarray(y)))
        low, high, first = (arrays[f"{name}/{part}"] for part in ("lowest", "highest", "first"))
        tie_free = arrays[f"{name}/tie_free"].astype(bool)
        # where splits tie, any answer between the lowest and the highest is one of a greedy tree
        found += [
            _near(f"{name}/tie_free", tie_free, high - low <= TREE_ATOL, 0.0),
            _near(f"{name}/lowest", low, np.where(tie_free, ours, np.minimum(low, ours)), TREE_ATOL),
            _near(f"{name}/highest", high, np.where(tie_free, ours, np.maximum(high, ours)), TREE_ATOL),
            _near(f"{name}/first", first, np.where(tie_free, ours, np.clip(first, low, high)), TREE_ATOL),
        ]
    return Recomputed(tuple(found), ("x", "coordinate", "value"), ("xgboost",) if "xgboost" in arrays else ())


def _tree_labels(x: np.ndarray, coordinate: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Labels of full binary trees in heap order: node k asks x_{c_k} > 0, no → 2k + 1, yes → 2k + 2."""
    trees, nodes = np.arange(len(x))[:, None], np.zeros(x.shape[:2], int)
    for _ in range(int(np.log2(value.shape[1] + 1)) - 1):
        asked = np.take_along_axis(x, coordinate[trees, nodes][..., None], 2)[..., 0]
        nodes = 2 * nodes + 1 + (asked > 0)
    return value[trees, nodes]


def _networks(arrays: Arrays) -> Recomputed:
    x, y = _sequences(arrays)
    batch = len(x)
    hidden = arrays[f"init_{int(arrays['inds'][0])}/b1"].shape[1]
    # The public loss is the mean over the networks of a batch too: a smaller step, and for Adam a larger eps.
    rules = {
        "adam": NetworkDescent(hidden, eps=1e-8 * batch),
        "sgd": NetworkDescent(hidden, lr=0.02 / batch, rule="sgd"),
    }
    found = []
    for rule, model in rules.items():
        columns = [_trained(model, arrays, int(length), x, y) for length in arrays["inds"]]
        found.append(_near(f"{rule}/prediction", arrays[f"{rule}/prediction"], np.stack(columns, 1), NETWORK_ATOL))
    starts = tuple(name for name in arrays if name.startswith("init_"))
    return Recomputed(tuple(found), ("x", "y", "inds", *starts))


def _trained(model: NetworkDescent, arrays: Arrays, length: int, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    start = [jnp.asarray(arrays[f"init_{length}/{part}"]) for part in ("W1", "b1", "W2", "b2")]
    weights = NetworkWeights(start[0], start[1], start[2][:, None], start[3][:, None])
    prompts = prefix_prompt(jnp.asarray(x), jnp.asarray(y[..., None]), length)
    return np.asarray(_train(model, weights, prompts))[:, 0]


@eqx.filter_jit
def _train(model: NetworkDescent, weights: NetworkWeights, prompts: Prompt) -> jax.Array:
    return jax.vmap(model.predict_from)(weights, prompts)


def _toy(arrays: Arrays) -> Recomputed:
    initial, truth = (Vectors(*(jnp.asarray(arrays[f"{part}/{n}"]) for n in "abc")) for part in ("init", "true"))

    def of(name: str, clamped: str) -> Iterator[Quantity]:
        run = descend_toy(initial, truth, clamped, len(arrays[f"{name}/loss"]))
        parts = {"loss": run.loss, "one_minus_cos2_a": run.misalignment, "loss_with_true_b_c": run.loss_with_truth}
        for part, ours in parts.items():
            yield Quantity(f"{name}/{part}", arrays[f"{name}/{part}"], np.asarray(ours), "path", TOY_ATOL, least=1.0)

    found = [quantity for name, clamped in CLAMPS.items() for quantity in of(name, clamped)]
    return Recomputed(tuple(found), tuple(f"{part}/{n}" for part in ("init", "true") for n in "abc"))
