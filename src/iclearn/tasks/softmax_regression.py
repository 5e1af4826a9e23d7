"""Softmax regression documents (li2024): words with embeddings, a hidden weight, probabilities to predict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from ..core.checks import check_int, require
from ..core.errors import IclearnError
from ..core.prompt import Batch, Document, WhiteDocuments
from ..core.rng import normal, stream, threefry
from ..core.task import AbstractDrawnSource, AbstractTask
from .covariance import Covariance

Embedding = Literal["gaussian", "sphere", "sign"]
EVALUATION = "evaluation"


@dataclass(frozen=True)
class SoftmaxRegression(AbstractTask, kind="softmax_regression"):
    """Documents A (n words × d) with target b = softmax(Ax), x uniform on a sphere; new words A_q to predict.

    The context is centered column by column, which does not change the softmax; query words are not. The loss of a
    document is n_q·½‖f̂ − softmax(A_q x)‖² for the prediction f̂ of its n_q query words: of order one for every n.

    Args:
        context_len: n, the words of the context.
        dim: d, the dimension of the embeddings.
        query_len: n_q (None: as many as the context has).
        scale: ‖x‖, so the standard deviation of a logit under white embeddings: how far b is from uniform.
        embedding: rows of A before their covariance: ``gaussian`` N(0, I), ``sphere`` uniform of norm √d, ``sign`` ±1.
        covariance: of the rows.
        in_sample: the query words are the context's own, whose probabilities are shown.
        num_prompts: size of a fixed training set (None: fresh documents at every step).
        test_prompts: size of the ``evaluation`` set; 0 for none.

    >>> batch = SoftmaxRegression(context_len=5, dim=2, num_prompts=3).source(0, "float64").everything()
    >>> batch.prompt.context.shape, batch.target.shape
    ((3, 5, 2), (3, 5))
    """

    prompt_type: ClassVar[type] = Document

    context_len: int = 200
    dim: int = 20
    query_len: int | None = None
    scale: float = 0.5
    embedding: Embedding = "gaussian"
    covariance: Covariance = field(default_factory=lambda: Covariance.white(trace=None))
    in_sample: bool = False
    num_prompts: int | None = None
    test_prompts: int = 0

    def __post_init__(self) -> None:
        check_int("context_len", self.context_len, 2)
        check_int("dim", self.dim, 1)
        if self.query_len is not None:
            check_int("query_len (None: as many as the context)", self.query_len, 2)
        require(0 <= self.scale < np.inf, f"the logit scale must be finite and not negative, not {self.scale}")
        if self.num_prompts is not None:
            check_int("num_prompts (None for fresh documents)", self.num_prompts, 1)
        check_int("test_prompts", self.test_prompts, 0)
        own = not self.in_sample or self.query_len in (None, self.context_len)
        words = f"the context's own {self.context_len}"
        require(own, f"in-sample query words are {words}: drop query_len {self.query_len}")
        self.covariance.values(self.dim)  # refuses spectra that do not fit

    @property
    def out_dim(self) -> int:  # type: ignore[override]
        """One probability for each query word."""
        return self.query_len or self.context_len

    @property
    def prefixes(self) -> bool:  # type: ignore[override]
        return False

    def fresh_parameters(self) -> dict[str, Any]:
        return {"scale": self.scale}

    @property
    def tests(self) -> tuple[str, ...]:
        return (EVALUATION,) if self.test_prompts else ()

    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"]:
        factor = self.covariance.factor(self.dim, stream(seed, "covariance"))
        return factor @ factor.T

    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> DocumentSource:
        count = self.num_prompts if which == "train" else self.test_prompts
        if count is None:
            raise IclearnError("this task has fresh documents at every step: there is no fixed set to draw")
        white = self.covariance == Covariance.white(trace=None)
        query_words = 0 if self.in_sample else self.out_dim
        return DocumentSource(
            key=stream(seed, f"data.{which}"),
            num_prompts=count,
            prompt_size=(self.context_len + query_words) * self.dim,
            dtype=jnp.dtype(dtype).name,
            factor=None if white else self.covariance.factor(self.dim, stream(seed, "covariance")),
            radius=jnp.asarray(self.scale, jnp.float64),
            dim=self.dim,
            words=self.context_len,
            query_words=query_words,
            embedding=self.embedding,
        )

    def white_prompts(self) -> WhiteDocuments | None:
        white = self.embedding == "gaussian" and self.covariance == Covariance.white(trace=None)
        own = type(self) is SoftmaxRegression and self.out_dim == self.context_len and not self.in_sample
        return WhiteDocuments(self.context_len, self.scale) if white and own else None

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch[Document]:
        drawn = self.unchecked(num_prompts=batch_size).source(seed, dtype)
        return drawn.draw(key, batch_size, 1 / batch_size)

    def numbers_per_prompt(self) -> int:
        return (self.context_len + self.out_dim) * self.dim

    def describe(self) -> str:
        return f"documents d={self.dim} n={self.context_len} scale={self.scale:g}"


class DocumentSource(AbstractDrawnSource):
    """The documents of a `SoftmaxRegression` under one seed.

    Args:
        factor: (dim, dim) a factor of the covariance of the rows (None: the identity).
        radius: () ‖x‖.
        dim: dimension of the embeddings.
        words: words of the context.
        query_words: words whose probabilities are asked for (0: the context's own).
        embedding: distribution of the rows before their covariance.
    """

    factor: Float[Array, "dim dim"] | None
    radius: Float[Array, ""]
    dim: int = eqx.field(static=True)
    words: int = eqx.field(static=True)
    query_words: int = eqx.field(static=True)
    embedding: Embedding = eqx.field(static=True)

    def draw(self, key: Key[Array, ""], count: int, weight: Any) -> Batch[Document]:
        row_key, x_key = jax.random.split(key)
        shape = (count, max(self.words, self.query_words), self.dim)
        context, query = map(self._embedded, normal_pair(row_key, shape))
        context = context[:, : self.words]
        context = context - context.mean(1, keepdims=True)
        query = query[:, : self.query_words] if self.query_words else context
        x = normal(x_key, (count, self.dim), self.dtype)
        x = x * (self.radius.astype(self.dtype) / jnp.linalg.norm(x, axis=-1, keepdims=True))
        b, wanted = (jax.nn.softmax(jnp.einsum("pwd,pd->pw", a, x), axis=-1) for a in (context, query))
        weights = jnp.broadcast_to(jnp.asarray(weight, self.dtype), (count,))
        return Batch(Document(context, b, query), wanted, weights, unit=query.shape[1] ** 2 / 2)

    def _embedded(self, rows: Array) -> Array:
        """Embeddings of the wanted distribution from standard normals."""
        if self.embedding == "sign":
            rows = jnp.where(rows < 0, -1.0, 1.0)
        rows = rows.astype(self.dtype)
        if self.embedding == "sphere":
            rows = rows * (self.dim**0.5 / jnp.linalg.norm(rows, axis=-1, keepdims=True))
        return rows if self.factor is None else rows @ self.factor.T.astype(self.dtype)


def normal_pair(key: Key[Array, ""], shape: tuple[int, ...]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Two independent arrays of standard normals in float32, from the two words of each threefry block.

    Documents are drawn afresh at every step, and drawing them is most of the work: `jax.random.normal` throws one of
    the two words away, and on a CPU runs the generator's rounds as a loop over memory; written out they fuse.

    Args:
        key: the key.
        shape: shape of each array.

    Returns:
        The two arrays.
    """
    counter = jax.lax.iota(jnp.uint32, int(np.prod(shape)))
    words = threefry(jax.random.key_data(key), jnp.zeros_like(counter), counter)
    lowest = np.nextafter(np.float32(-1), np.float32(0))

    def shaped(word: Array) -> Array:
        fraction = jax.lax.bitcast_convert_type((word >> 9) | jnp.uint32(0x3F800000), jnp.float32) - 1
        uniform = jnp.maximum(lowest, fraction * (np.float32(1) - lowest) + lowest)
        return (np.float32(np.sqrt(2)) * jax.lax.erf_inv(uniform)).reshape(shape)

    # The barrier keeps the compiler from drawing them again in everything that reads them.
    return jax.lax.optimization_barrier((shaped(words[0]), shaped(words[1])))
