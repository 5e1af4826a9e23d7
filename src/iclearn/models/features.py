"""Feature maps: the small tensors in which a linear attention model is linear.

Every linear model is ŷ = coefficients(weights)ᵀ features(prompt). The data enters the squared loss only through the
second moments of the features, which is what makes training exact and cheap.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import check_literals
from ..core.errors import MissingClosedForm
from ..core.fields import CheckedFields
from ..core.forms import AbstractForm, average
from ..core.prompt import Prompt
from ..core.task import AbstractTask
from ..tasks.expectations import quadratic_form

Normalize = Literal["none", "context", "tokens"]
MAX_FEATURES = 6000  # beyond this the moment matrix (288 MB in float64) costs more than the prompts


def attention_scale(normalize: Normalize, num_context: Float[Array, ""] | float) -> Float[Array, ""] | float:
    """Factor on the sum over tokens: 1 (public code), 1/N (the paper) or 1/(N+1) (public code with --vary_len).

    Args:
        normalize: ``none``, ``context`` or ``tokens``, for these three.
        num_context: N, the context pairs of the prompt.

    Returns:
        The factor.
    """
    if normalize == "none":
        return 1.0
    return 1 / (num_context if normalize == "context" else num_context + 1)


@dataclass(frozen=True)
class AbstractFeatureMap(metaclass=CheckedFields):
    """A hashable description of the features of one prompt.

    Args:
        dim: dimension of the inputs.
        out_dim: number of outputs.
        normalize: factor on sums over tokens (`attention_scale`).

    >>> from iclearn.core.prompt import full_prompt
    >>> prompt = full_prompt(jnp.ones((5, 2)), jnp.ones((5, 1)), jnp.ones(2))
    >>> Cubic(2, 1, "context")(prompt), GramQuery(2, 1, "none").size
    (Array([1., 1., 1., 1.], dtype=float64), 12)
    """

    has_host_form: ClassVar[bool] = False  # whether numpy can compute them (`on_host`)

    dim: int
    out_dim: int
    normalize: Normalize

    def __post_init__(self) -> None:
        check_literals(type(self), vars(self))

    @property
    @abstractmethod
    def size(self) -> int:
        """How many features there are."""

    @property
    def by_default(self) -> bool:
        """Whether training on a set of prompts takes the moments of these features unless another engine is named."""
        return True

    @abstractmethod
    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        """The features of one prompt.

        Args:
            prompt: the prompt, without a batch axis.

        Returns:
            (feature) the features.
        """

    def on_host(self, tokens: np.ndarray, query: np.ndarray) -> np.ndarray:
        """The features of many prompts by numpy, where `has_host_form`.

        Args:
            tokens: (context, dim + output, prompt) inputs and labels of the context.
            query: (dim, prompt) the inputs whose labels are asked for.

        Returns:
            (feature, prompt) the features.
        """
        raise NotImplementedError

    def _host_scale(self, tokens: np.ndarray) -> Any:
        """The factor of `attention_scale`, for `on_host`."""
        return tokens.dtype.type(attention_scale(self.normalize, np.float64(len(tokens))))  # type: ignore[arg-type]

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        """The loss over infinitely many prompts of a task, as a form of the coefficients of these features.

        Args:
            task: the task.
            seed: the root seed; may be traced.
            dtype: precision of the form.
            which: ``train`` or the name of a test set.

        Returns:
            The form; feature maps that do not know their expectation raise `MissingClosedForm`.
        """
        raise MissingClosedForm(
            f"features {type(self).__name__} have no closed-form population loss: use engine moments or samples"
        )


@jax.custom_jvp
def fold_pairs(tensor: Float[Array, "*batch entry entry feature"]) -> Float[Array, "*batch pair feature"]:
    """Coefficients of the entries a ≤ b of a symmetric G, row by row, for a tensor T that acts on all G_ab.

    Args:
        tensor: (…, entry, entry, feature) T.

    Returns:
        (…, pair, feature) T_ab + T_ba off the diagonal, and T_aa on it.
    """
    rows, cols = np.triu_indices(tensor.shape[-2])
    both = tensor + jnp.swapaxes(tensor, -3, -2)
    once = jnp.where(rows == cols, 0.5, 1.0).astype(tensor.dtype)
    return both[..., rows, cols, :] * once[:, None]


@fold_pairs.defjvp
def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    """The same map as additions to pairs, because a gradient is its transpose: pairs read, and nothing added."""
    (tensor,), (change,) = primals, tangents
    rows, cols = np.triu_indices(tensor.shape[-2])
    places = np.zeros((tensor.shape[-2],) * 2, int)
    places[rows, cols] = places[cols, rows] = np.arange(len(rows))
    empty = jnp.zeros((*change.shape[:-3], len(rows), change.shape[-1]), change.dtype)
    return fold_pairs(tensor), empty.at[..., places, :].add(change)


@dataclass(frozen=True)
class GramQuery(AbstractFeatureMap):
    """φ = sym(G) ⊗ x_q with G = Σ_tokens [x; y][x; y]ᵀ, each symmetric pair once: what full attention reads.

    Order: entries (a ≤ b) of G row by row, then the entry of x_q. For the arguments and an example see
    `AbstractFeatureMap`.
    """

    has_host_form: ClassVar[bool] = True

    @property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of G that are kept."""
        return np.triu_indices(self.dim + self.out_dim)

    @property
    def size(self) -> int:
        return len(self.pairs[0]) * self.dim

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        tokens = prompt.tokens()
        gram = tokens.T @ tokens * attention_scale(self.normalize, prompt.num_context())
        return jnp.outer(gram[self.pairs], prompt.query).ravel()

    def on_host(self, tokens: np.ndarray, query: np.ndarray) -> np.ndarray:
        entries, last = np.empty((len(self.pairs[0]), tokens.shape[2]), tokens.dtype), 0
        for row in range(tokens.shape[1]):
            first, last = last, last + tokens.shape[1] - row
            np.einsum("tp,tbp->bp", tokens[:, row], tokens[:, row:], out=entries[first:last])
            if row < self.dim:  # the token of the query, whose labels are zero
                entries[first : first + self.dim - row] += query[row] * query[row:]
        entries *= self._host_scale(tokens)
        return (entries[:, None] * query).reshape(self.size, -1)

    def fold(self, tensor: Float[Array, "entry entry dim output"]) -> Float[Array, "feature output"]:
        """Coefficients of φ for a tensor T that acts on G_ab x_j.

        Args:
            tensor: (entry, entry, dim, output) T.

        Returns:
            (feature, output) the coefficients: T_ab + T_ba off the diagonal.
        """
        return fold_pairs(tensor.reshape(*tensor.shape[:2], -1)).reshape(self.size, -1)


@dataclass(frozen=True)
class Cubic(AbstractFeatureMap):
    """z = vec(β x_qᵀ), columns stacked (index j·dim + i for β_i x_j), per output label, with β = Σ_n y_n x_n.

    What reduced models read (zhang2025). For the arguments and an example see `AbstractFeatureMap`.
    """

    has_host_form: ClassVar[bool] = True

    @property
    def size(self) -> int:
        return self.out_dim * self.dim**2

    def __call__(self, prompt: Prompt) -> Float[Array, " feature"]:
        labels = prompt.y * prompt.mask[:, None]
        beta = jnp.einsum("no,ni->oi", labels, prompt.x) * attention_scale(self.normalize, prompt.num_context())
        return jnp.einsum("oi,j->oji", beta, prompt.query).ravel()

    def on_host(self, tokens: np.ndarray, query: np.ndarray) -> np.ndarray:
        beta = np.einsum("top,tip->oip", tokens[:, self.dim :], tokens[:, : self.dim])
        beta *= self._host_scale(tokens)
        return (beta[:, None] * query[:, None]).reshape(self.size, -1)

    def population_form(self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train") -> AbstractForm:
        laws = task.label_laws(seed, which)
        cov: Any = task.covariance_matrix(seed)  # known where the laws are
        lengths = [float(n) for n in task.context_lengths(which)]
        scales = [jnp.asarray(float(attention_scale(self.normalize, n))) for n in lengths]
        forms = [quadratic_form(laws, cov, jnp.asarray(n), s) for n, s in zip(lengths, scales, strict=True)]
        return average(forms, dtype)
