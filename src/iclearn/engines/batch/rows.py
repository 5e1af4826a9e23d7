"""Runs as rows of numbers: their weights, and the quadratic form that is their loss, in the order of `contractions`."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ...core.forms import AbstractForm, Moments, numpy_of
from ...core.model import AbstractModel
from ...core.task import AbstractTask
from ...models.base import AbstractFeatureModel, HeadFactors
from ...tasks.expectations import KroneckerForm
from ..base import AbstractEngine
from ..contractions import Sizes, pair_indices
from ..optimizers import Hyper
from ..quadratic import QuadraticEngine
from .inputs import RunInputs


class Unrolled(eqx.Module):
    """Runs ready to be trained number by number.

    Args:
        weights: (weight, run) values, then keys and queries (or key-query matrices): `contractions.weight_axes`.
        numbers: (number, run) of the form: scale and constant, the cross term, the second moments.
        sizes: what the step depends on.
    """

    weights: Float[Array, "weight run"]
    numbers: Float[Array, "number run"]
    sizes: Sizes = eqx.field(static=True)


def trained_factors(model: AbstractModel, engine: AbstractEngine) -> HeadFactors | None:
    """The heads of what an engine trains.

    Args:
        model: the model.
        engine: its training loss.

    Returns:
        The factors, or None where the loss is not a quadratic form of such heads.
    """
    if not isinstance(engine, QuadraticEngine) or not isinstance(model, AbstractFeatureModel):
        return None
    return (model.reduced() if engine.reduced else model).head_factors()


def sizes_of_run(task: AbstractTask, model: AbstractModel, engine: AbstractEngine) -> Sizes | None:
    """The sizes of a run's step, where it is that of `contractions`.

    Args:
        task: of the run.
        model: of the same.
        engine: of the same.

    Returns:
        The sizes, or None where the model has no heads with one output, or test losses are wanted, or the features are
        given: the step uses that features are products of β and x_q, and given ones may be anything.
    """
    if task.gives_features:
        return None
    factors = eqx.filter_eval_shape(trained_factors, model, engine)  # its shapes are all that is asked for
    if task.out_dim != 1 or task.tests or factors is None:
        return None
    assert isinstance(engine, QuadraticEngine)
    rank = 0 if factors.key is None else factors.key.shape[1]
    heads, gram = factors.value.shape[0], factors.value.ndim == 2
    if isinstance(engine.train, Moments):
        return Sizes(task.dim, heads, rank, "moments", gram)
    if gram or not isinstance(engine.train, KroneckerForm):
        return None
    return Sizes(task.dim, heads, rank, "diagonal" if task.isotropic else "kronecker")


def weight_rows(factors: HeadFactors, basis: Float[Array, "dim dim"] | None = None) -> list[Array]:
    """The weights of a run in the order of `contractions.weight_axes`.

    Args:
        factors: the heads.
        basis: (dim, dim) orthonormal columns in which to write entries of β and x_q (None: as they are).

    Returns:
        The arrays.
    """
    if factors.kq is not None:
        rows = [factors.kq if basis is None else jnp.einsum("ja,hji,ib->hab", basis, factors.kq, basis)]
        rows = [jnp.swapaxes(rows[0], 1, 2)]  # U[i, j]
    else:
        assert factors.key is not None
        assert factors.query is not None
        rows = [factors.key, factors.query]
        rows = rows if basis is None else [row @ basis for row in rows]
    return [factors.value, *rows]


@eqx.filter_jit
def unroll(runs: RunInputs, sizes: Sizes, rotate: bool) -> Unrolled:
    """Runs as rows of scalars.

    Args:
        runs: with a leading axis.
        sizes: what the step depends on.
        rotate: whether to go to the eigenbasis of each run's inputs (form ``diagonal``).

    Returns:
        The runs, ready to be trained. The scale of the form is 2·lr for gradient descent, 2 for rules with a memory.
    """

    def one(run: RunInputs) -> tuple[Array, Array]:
        factors, train = trained_factors(run.model, run.engine), run.engine.train  # type: ignore[attr-defined]
        assert factors is not None
        basis = jnp.linalg.eigh(train.inputs)[1] if rotate else None
        weights = jnp.concatenate([row.ravel() for row in weight_rows(factors, basis)])
        return weights, form_numbers(train, run.hyper, sizes, basis)

    weights, numbers = jax.vmap(one, out_axes=1)(runs)
    return Unrolled(weights, numbers, sizes)


def form_numbers(train: AbstractForm, hyper: Hyper, sizes: Sizes, basis: Float[Array, "dim dim"] | None) -> Any:
    """The numbers of a run's form, in the order of `contractions.Sizes.num_numbers`.

    Args:
        train: the form.
        hyper: of the run; gradient descent multiplies by the learning rate here, once.
        sizes: what the step depends on; heads and rank do not count.
        basis: (dim, dim) orthonormal columns in which to write a form of infinitely many prompts (None: as it is).

    Returns:
        (number) scale and constant, the cross term, the second moments; of numpy where all numbers are known.
    """
    xp = numpy_of(*jax.tree.leaves((train, hyper)))
    train, lr = jax.tree.map(xp.asarray, train), xp.asarray(hyper.lr)
    scale = 2 * lr if hyper.rule in ("gd", "sgd") else xp.full_like(lr, 2.0)
    if sizes.full:
        assert isinstance(train, Moments)
        form = _moments(train, sizes)
    else:
        assert isinstance(train, KroneckerForm)
        form = _expectation(train, sizes, basis)
    form = [scale * form[0], scale * form[1], *form[2:]]
    return xp.concatenate([xp.stack([scale, train.constant]), *(part.ravel() for part in form)])


def _moments(train: Moments, sizes: Sizes) -> list[Any]:
    """Cross term (row, j), and second moments (pair of x_q's entries, pair of rows)."""
    dim, rows = sizes.dim, sizes.rows
    if sizes.gram:  # features: pairs of entries of a token, then the entry of x_q
        table = train.second.reshape(rows, dim, rows, dim).transpose(1, 0, 3, 2)
        cross = train.cross.reshape(rows, dim)
    else:  # features: the entry of x_q, then that of β
        table = train.second.reshape(dim, dim, dim, dim)
        cross = train.cross.reshape(dim, dim).T
    (j, l), (p, q) = (np.array(pair_indices(size)).T for size in (dim, rows))
    return [cross, table[j[:, None], p[None], l[:, None], q[None]]]


def _expectation(train: KroneckerForm, sizes: Sizes, basis: Array | None) -> list[Any]:
    """Cross term, second moments of β and Λ; of the diagonal form the cross term and the products a_i λ_j."""
    matrices = (train.cross[0, :, :, 0], train.second[0, :, 0, :], train.inputs)
    if sizes.form == "kronecker":
        return list(matrices)
    if basis is None:
        cross, second, inputs = (matrix.diagonal() for matrix in matrices)
    else:
        cross, second, inputs = (jnp.einsum("ia,ij,ja->a", basis, matrix, basis) for matrix in matrices)
    return [cross, second[:, None] * inputs]
