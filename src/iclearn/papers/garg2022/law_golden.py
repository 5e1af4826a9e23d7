"""Golden files of function classes and shifted prompts, computed again from their parameters and draws.

``tasks_*``: labels of every class given its parameters; ``ood_*``: the shifted evaluations of garg2022, from raw draws to
prompts to errors; ``boolean_*``: the classes of Bhattamishra et al. 2024; ``bootstrap_*``: bands and curricula;
``sinusoid``: von Oswald et al. 2023.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from ...core.model import AbstractModel
from ...models.predictors import Averaging, LeastSquares, NearestNeighbors
from ...probes.bootstrap_bands import bootstrap_band
from ...tasks.boolean_functions import BooleanFunctions
from ...tasks.curriculum import Curriculum
from ...tasks.function_laws import (
    AbstractFunctions,
    LinearFunctions,
    QuadraticFunctions,
    ReluFunctions,
    SignFunctions,
    SinusoidFunctions,
    SparseFunctions,
    TreeFunctions,
)
from ...tasks.function_points import Points
from ...tasks.prompt_shifts import (
    Shift,
    orthogonal_queries,
    overlapping_queries,
    quadrant_inputs,
    renormalizing_factor,
)
from ..verifying import Quantity, Recomputed

Arrays = Mapping[str, np.ndarray]
ATOL = 1e-11  # of labels, prompts and predictions; relative for those above 1
ERROR_ATOL = 1e-8  # of squared errors: half_subspace has contexts that are singular to rounding
ROTATED = {"half_subspace": Shift("half_subspace"), "skewed": Shift("skewed")}
SIGNS = {"random_quadrants": 0.0, "opposite_quadrants": -1.0}
BOOLEAN = {
    "conjunction": "conjunction", "teach_conjunction": "conjunction", "disjunction": "disjunction",
    "sparse_disjunction": "disjunction", "parity": "parity", "sparse_parity": "sparse_parity",
    "majority": "majority", "int_halfspace": "integer_halfspace", "dnf": "dnf", "cnf": "cnf",
}  # fmt: skip
SMALL_CURRICULUM = Curriculum(
    dims_start=2, dims_end=5, dims_increment=1, dims_interval=7, points_start=3, points_end=11, points_increment=2,
    points_interval=5,
)  # fmt: skip


def near(name: str, given: np.ndarray, ours: object, atol: float = ATOL) -> Quantity:
    """A quantity judged by absolute differences, relative ones where values are above 1.

    Args:
        name: as the file names it.
        given: the array in the file.
        ours: the array computed here.
        atol: largest difference.

    Returns:
        The quantity.
    """
    return Quantity(name, given, np.asarray(ours), "value", atol, least=1.0)


@eqx.filter_jit
def _labels(law: AbstractFunctions, parameters: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return jax.vmap(law.labels)(parameters, x)


def labels_of(law: AbstractFunctions, x: np.ndarray, **parameters: np.ndarray) -> np.ndarray:
    """The labels of many functions, each at inputs of its own.

    Args:
        law: of the functions.
        x: (prompt, point, dim) inputs.
        parameters: name → (prompt, …) array.

    Returns:
        (prompt, point) the labels.
    """
    given = {name: jnp.asarray(value) for name, value in parameters.items()}
    return np.asarray(_labels(law, given, jnp.asarray(x, float)))


def recompute_tasks(arrays: Arrays) -> Recomputed:
    """Labels of every class in a file ``tasks_*`` from its inputs and parameters, and least squares on three.

    Args:
        arrays: of the file.

    Returns:
        The comparison.
    """
    x, dim = arrays["x"], arrays["x"].shape[-1]
    depth = int(np.log2(arrays["tree/coordinate"].shape[1] + 1)) - 1
    inner = 2**depth - 1
    kept = np.count_nonzero(arrays["bai_sparse/w"], axis=1)
    if kept.min() != kept.max():
        raise IclearnError("bai_sparse/w has rows of different sparsity")
    laws: dict[str, tuple[AbstractFunctions, dict[str, np.ndarray]]] = {
        "linear/y_scale1.5": (LinearFunctions(1.5), {"w": arrays["linear/w"]}),
        "sparse/y": (SparseFunctions(int(np.count_nonzero(arrays["sparse/w"][0]))), {"w": arrays["sparse/w"]}),
        "classification/y": (SignFunctions(), {"w": arrays["classification/w"]}),
        "quadratic/y_scale2": (QuadraticFunctions(2.0), {"w": arrays["quadratic/w"]}),
        "relu/y": (
            ReluFunctions(arrays["relu/W1"].shape[-1]),
            {"first": arrays["relu/W1"], "second": arrays["relu/W2"][..., 0]},
        ),
        "tree/y": (
            TreeFunctions(depth),
            {"coordinate": arrays["tree/coordinate"][:, :inner], "leaf": arrays["tree/value"][:, inner:]},
        ),
        "bai_sparse/y": (SparseFunctions(int(kept[0]), normalized=True), {"w": arrays["bai_sparse/w"]}),
        "bai_linear/y": (LinearFunctions(normalized=True), {"w": arrays["bai_linear/w"]}),
    }
    found = [near(name, arrays[name], labels_of(law, x, **given)) for name, (law, given) in laws.items()]
    for name, labels in (("relu", "relu/y"), ("tree", "tree/y"), ("quadratic", "quadratic/y_scale2")):
        answers = _answers(LeastSquares(), x, arrays[labels])
        found.append(near(f"{name}/ols", arrays[f"{name}/ols"], answers, 1e-9))
    cut = "x_truncated_to_d_minus_2"
    found.append(near(cut, arrays[cut], arrays[cut] * (np.arange(dim) < dim - 2), 0.0))
    parameters = ("relu/W1", "relu/W2", "tree/coordinate", "tree/value")
    own = [name for name in arrays if name.endswith("/w") or name in parameters]
    return Recomputed(tuple(found), ("x", *own))


def _answers(model: AbstractModel, x: np.ndarray, y: np.ndarray, query: np.ndarray | None = None) -> np.ndarray:
    """(prompt, point) the answers of a model at every position."""
    labels = jnp.asarray(y, float)[..., None]
    asked = None if query is None else jnp.asarray(query)
    return np.asarray(Points(jnp.asarray(x, float), labels, labels, {}, asked).answers(model))


def recompute_ood(arrays: Arrays) -> Recomputed:
    """Prompts of every evaluation in a file ``ood_*`` from its draws, and errors of three predictors.

    Args:
        arrays: of the file.

    Returns:
        The comparison.
    """
    names = sorted({name.split("/")[0] for name in arrays})
    found = [quantity for name in names for quantity in _evaluation(arrays, name)]
    drawn = ("gaussian", "w", "pattern", "index", "noise")
    given = [name for name in arrays if name.split("/")[1] in drawn or name.endswith("/transform")]
    return Recomputed(tuple(found), tuple(given))


def _evaluation(arrays: Arrays, name: str) -> Iterator[Quantity]:
    gaussian, w = (arrays[f"{name}/{part}"] for part in ("gaussian", "w"))
    dim, context, query = gaussian.shape[-1], gaussian, None
    if f"{name}/transform" in arrays:
        transform = arrays[f"{name}/transform"]
        context = gaussian @ transform
        if name in ROTATED:  # a rotation of the deviations that our shift has
            deviations = ROTATED[name].deviations(dim)
            assert deviations is not None
            values = np.linalg.eigvalsh((transform + transform.T) / 2)
            yield near(f"{name}/transform.eigenvalues", values, np.sort(deviations), 1e-9)
            yield near(f"{name}/transform.symmetric", transform, transform.T, 1e-9)
        else:
            scale = float(name.split("=")[1])
            yield near(f"{name}/transform.scale", transform, scale * np.eye(dim))
    if name in SIGNS:
        context = np.asarray(quadrant_inputs(jnp.asarray(gaussian), jnp.asarray(arrays[f"{name}/pattern"])))
        query = -context if SIGNS[name] else gaussian
    if name == "orthogonal_train_test":
        query = np.asarray(jax.vmap(orthogonal_queries)(jnp.asarray(gaussian)))
    if name == "overlapping_train_test":
        query = np.asarray(jax.vmap(overlapping_queries)(jnp.asarray(gaussian), jnp.asarray(arrays[f"{name}/index"])))
    yield near(f"{name}/context", arrays[f"{name}/context"], context)
    if query is not None:
        yield near(f"{name}/query", arrays[f"{name}/query"], query)
    scale = float(name.split("=")[1]) if name.startswith("scale-y") else 1.0
    y = scale * np.einsum("bni,bi->bn", context, w)
    if name == "noisyLR":
        y = y + arrays["noisyLR/noise"]
        y = y * float(renormalizing_factor(jnp.asarray(y), dim))
        yield near("noisyLR/y", arrays["noisyLR/y"], y)
    target = y if query is None else np.einsum("bni,bi->bn", query, w)
    for kind, model in (("ols", LeastSquares()), ("averaging", Averaging()), ("knn3", NearestNeighbors(3))):
        errors = (_answers(model, context, y, query) - target) ** 2
        yield near(f"{name}/{kind}", arrays[f"{name}/{kind}"], errors, ERROR_ATOL)


def recompute_boolean(arrays: Arrays) -> Recomputed:
    """Labels of every class in a file ``boolean_*`` from its inputs and parameters, and averaging.

    Args:
        arrays: of the file.

    Returns:
        The comparison; nearest neighbors are not computed again.
    """
    names = sorted({name.split("/")[0] for name in arrays})
    found = []
    for name in names:
        x, y, w = (np.asarray(arrays[f"{name}/{part}"], float) for part in ("x", "y", "w"))
        if name == "sparse_thres":
            ours = np.sign(np.einsum("bni,bi->bn", x, w) - arrays[f"{name}/threshold"])
        elif name in BOOLEAN:
            ours = labels_of(BooleanFunctions(BOOLEAN[name]), x, w=w)  # type: ignore[arg-type]
        else:
            raise IclearnError(f"{name} is none of the classes {', '.join([*BOOLEAN, 'sparse_thres'])}")
        found.append(near(f"{name}/y", y, ours, 0.0))
        answers = _answers(Averaging(), x, y).copy()
        answers[:, 0] = -1  # what the public code answers without a context
        found.append(near(f"{name}/averaging", arrays[f"{name}/averaging"], answers))
    given = [name for name in arrays if name.split("/")[1] in ("x", "w", "threshold")]
    return Recomputed(tuple(found), tuple(given), tuple(name for name in arrays if "/knn" in name))


def recompute_bootstrap(arrays: Arrays) -> Recomputed:
    """The band of a file ``bootstrap_*`` from its resamples, and both curricula.

    Args:
        arrays: of the file.

    Returns:
        The comparison.
    """
    band = bootstrap_band(arrays["metrics"], rows=arrays["bootstrap_indices"])
    ours = {"mean": band.mean, "std": band.std, "bootstrap_low": band.low, "bootstrap_high": band.high}
    found = [near(f"aggregate/{name}", arrays[f"aggregate/{name}"], value, 1e-12) for name, value in ours.items()]
    small, steps = "curriculum_small/dims_points_at_step", arrays["curriculum_garg/step"]
    found.append(near(small, arrays[small], _stages(SMALL_CURRICULUM, np.arange(len(arrays[small]))), 0.0))
    garg = "curriculum_garg/dims_points"
    found.append(near(garg, arrays[garg], _stages(Curriculum(), steps), 0.0))
    return Recomputed(tuple(found), ("metrics", "bootstrap_indices", "curriculum_garg/step"))


def _stages(plan: Curriculum, steps: np.ndarray) -> np.ndarray:
    return np.stack([np.asarray(part) for part in plan.at(jnp.asarray(steps))], 1)


def recompute_sinusoid(arrays: Arrays) -> Recomputed:
    """Labels of the file ``sinusoid`` from amplitudes and phases, and that both come from one number.

    Args:
        arrays: of the file.

    Returns:
        The comparison.
    """
    phase, law = arrays["phase"], SinusoidFunctions(tied=True)
    shown = arrays["y"].shape[1]
    y = labels_of(law, arrays["x"][..., None], amplitude=arrays["amplitude"], phase=phase)
    found = (
        near("y", arrays["y"], y[:, :shown]),
        near("x_query", arrays["x_query"], arrays["x"][:, shown]),
        near("y_query", arrays["y_query"], y[:, shown]),
        near("amplitude", arrays["amplitude"], 0.1 + 0.4 * phase / np.pi),
    )
    return Recomputed(found, ("x", "phase"))
