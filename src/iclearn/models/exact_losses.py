"""Population losses of deep linear transformers that have a closed form: scalar weights, and matrices of ``gd``."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.errors import MissingClosedForm
from ..core.label_law import LabelLaw
from ..core.task import AbstractTask
from ..tasks.wick_words import descent_loss
from ..tasks.wishart_spectrum import spectral_quadrature

DEEPEST = {"gd": 30, "sparse": 4}  # layers of scalar models: degree L, or (3^L − 1)/2
DEEPEST_MATRICES = {"gd": 3, "sparse": 1}  # with matrices: words of six S's; two layers of ``sparse`` need eight
ELSE = "use engine gram (fresh spectra), or moments or samples with a number of prompts"


@runtime_checkable
class StepModel(Protocol):
    """A model whose layers are steps A_l and, where it has them, changes B_l of the inputs."""

    depth: int

    def step_sizes(self) -> tuple[Array, Array]:
        """(depth) Σ_h η_lh, and (depth) γ_l = Σ_h η_lh b_lh, of scalar weights."""
        ...

    def step_matrices(self) -> list[Array]:
        """Σ_h A_lh of every layer that is applied."""
        ...


class LawOfTask(NamedTuple):
    """What the loss of a model that is linear in the labels depends on.

    Args:
        cov: (dim, dim) Σ.
        prior: (dim, dim) Σ_w.
        noise: () σ².
        lengths: the context lengths over which the loss is averaged.
    """

    cov: Array
    prior: Array
    noise: Array
    lengths: tuple[int, ...]


def law_of(task: AbstractTask, seed: int | Array, which: str) -> LawOfTask:
    """The law of a task with Gaussian inputs and a Gaussian prior of mean zero; others raise `MissingClosedForm`.

    Args:
        task: the task.
        seed: the root seed.
        which: ``train`` or the name of a test set.

    Returns:
        The law.
    """
    laws: tuple[LabelLaw, ...] = task.label_laws(seed, which)
    cov: Any = task.covariance_matrix(seed)  # known where the laws are
    follows = all(float(law.context_from_task) == 1 and not np.any(np.asarray(law.mean)) for law in laws)
    same = all(np.array_equal(np.asarray(law.covariance), np.asarray(laws[0].covariance)) for law in laws)
    if not (follows and same) or cov is None:
        raise MissingClosedForm(f"deep linear transformers need task vectors of mean zero in every prompt: {ELSE}")
    noise = jnp.asarray(sum(float(law.weight) * float(law.noise) for law in laws), jnp.float64)  # linear in the labels
    return LawOfTask(cov, laws[0].covariance, noise, tuple(task.context_lengths(which)))


class SpectralLoss(eqx.Module):
    """E tr (ρ² + (σ²/N) S g²) over the spectrum of S by Gauss quadrature, which is exact for these polynomials.

    Args:
        nodes: (node) eigenvalues of S, of all context lengths.
        weights: (node) their weights, Σ included.
        noise: (node) σ²/N.
    """

    nodes: Float[Array, " node"]
    weights: Float[Array, " node"]
    noise: Float[Array, " node"]

    of_seed: ClassVar[bool] = False  # inputs and task vectors are isotropic: nothing is drawn

    def __call__(self, model: StepModel) -> Float[Array, ""]:
        steps, curvature = model.step_sizes()
        gain, scale = jnp.zeros_like(self.nodes), jnp.ones_like(self.nodes)
        for a, gamma in zip(steps, curvature, strict=True):
            gain = gain + a * scale**2 * (1 - self.nodes * gain)
            scale = scale * (1 - gamma * self.nodes * scale**2)
        return jnp.sum(self.weights * ((1 - self.nodes * gain) ** 2 + self.noise * self.nodes * gain**2))


def spectral_loss(law: LawOfTask, degree: int, dtype: Any) -> SpectralLoss:
    """The loss of models with scalar weights, for isotropic inputs and task vectors.

    Args:
        law: of the task; Σ and Σ_w must be multiples of the identity.
        degree: of ρ.
        dtype: the precision.

    Returns:
        The loss.
    """
    dim = law.cov.shape[0]
    scale, width = float(law.cov[0, 0]), float(law.prior[0, 0])
    white = np.allclose(law.cov, scale * np.eye(dim), atol=1e-12 * scale)
    if not (white and np.allclose(law.prior, width * np.eye(dim), atol=1e-12 * width)):
        raise MissingClosedForm(f"scalar weights have a closed form for isotropic inputs and task vectors only: {ELSE}")
    parts = []
    for length in law.lengths:
        rule = spectral_quadrature(dim, int(length), degree + 1)
        share = np.full(len(rule.nodes), float(law.noise) / width / length)
        parts.append((scale * rule.nodes, scale * width * rule.weights / len(law.lengths), share))
    nodes, weights, noise = (jnp.asarray(np.concatenate(part), dtype) for part in zip(*parts, strict=True))
    return SpectralLoss(nodes, weights, noise)


class WordsLoss(eqx.Module):
    """The population loss of layers of ``gd`` by Wick words, for any Σ and Σ_w.

    Args:
        cov: (dim, dim) Σ.
        prior: (dim, dim) Σ_w.
        noise: () σ².
        lengths: (length) context lengths.
    """

    cov: Float[Array, "dim dim"]
    prior: Float[Array, "dim dim"]
    noise: Float[Array, ""]
    lengths: Float[Array, " length"]

    def __call__(self, model: StepModel) -> Float[Array, ""]:
        matrices = model.step_matrices()
        found = [descent_loss(matrices, self.cov, self.prior, n, self.noise) for n in self.lengths]
        return jnp.mean(jnp.stack(found))


def words_loss(law: LawOfTask, dtype: Any) -> WordsLoss:
    """The loss of layers of ``gd`` with matrices.

    Args:
        law: of the task.
        dtype: the precision.

    Returns:
        The loss.
    """
    numbers = (law.cov, law.prior, law.noise, np.array(law.lengths, float))
    return WordsLoss(*(jnp.asarray(number, dtype) for number in numbers))
