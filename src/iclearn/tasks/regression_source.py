"""The prompts of linear regression under one seed: drawn block by block, centered or whitened where asked."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, Int, Key

from ..core.drawn_normals import DRAWN, drawn_normals
from ..core.forms import as_array, numpy_of
from ..core.kept_programs import kept
from ..core.prompt import Batch, HostBlock, full_prompt, prefix_prompt
from ..core.rng import counter_streams, folded_words, normal_rows, paired_normals, split_words
from ..core.sharding import sum_blocks
from ..core.task import AbstractBlockSource

HOST_NUMBERS = 1 << 16  # numbers of the inputs that numpy works on at a time: they stay in a processor's cache


class _Prompts(NamedTuple):
    """Some prompts of a block, and what their normals are drawn from.

    Args:
        start: number of the first of them within the set.
        first: its number within the block, a multiple of the power of two that `number` does not exceed.
        number: how many.
        keys: the words of three keys: for inputs, task vectors and noise.
    """

    start: int
    first: int
    number: int
    keys: tuple[np.ndarray, ...]

    def normals(self, which: int, *shape: int) -> np.ndarray:
        """The normals in float32 of an array of this shape in every prompt, from one of the keys, the prompts last."""
        lanes = 1 << (self.number - 1).bit_length()
        drawn = drawn_normals(self.keys[which], self.first, lanes, math.prod(shape))
        return drawn.reshape(*shape, lanes)[..., : self.number]


class RegressionSource(AbstractBlockSource):
    """The prompts of a `LinearRegression` under one seed.

    Args:
        inputs: (dim, dim) a factor of Λ.
        prior_mean: (dim, output) mean of the task vectors.
        prior_factor: (dim, dim) a factor of their covariance.
        fixed_task: (dim, output) the task vector that prompts without one of their own share.
        noise_std: () standard deviation of the noise on the context's labels.
        x_mean: (token, dim) what centering subtracts from the inputs.
        w_mean: (dim, output) what whitening subtracts from the standard normal task vectors.
        w_whitener: (output, dim, dim) by which it multiplies them afterwards.
        num_random: () how many prompts, the first of the set, have a task vector of their own.
        noise_labels: whether the context's labels are N(0, 1) noise.
        white: whether Λ is the identity whatever the numbers of the task.
        paired: whether normals are drawn by `paired_normals`.
        noiseless: whether there is no noise on the context's labels whatever `noise_std` says, and none is drawn.
    """

    inputs: Float[Array, "dim dim"]
    prior_mean: Float[Array, "dim output"]
    prior_factor: Float[Array, "dim dim"]
    fixed_task: Float[Array, "dim output"]
    noise_std: Float[Array, ""]
    x_mean: Float[Array, "tokens dim"]
    w_mean: Float[Array, "dim output"]
    w_whitener: Float[Array, "output dim dim"]
    num_random: Int[Array, ""]
    noise_labels: bool = eqx.field(static=True)
    white: bool = eqx.field(static=True, default=False)
    paired: bool = eqx.field(static=True, default=False)
    noiseless: bool = eqx.field(static=True, default=False)

    def _standard(self, index: Any) -> tuple[Array, Array]:
        """Uncorrected inputs (block, tokens, dim) and standard normal task vectors (block, dim, output)."""
        x_key, w_key = jax.random.split(jax.random.fold_in(self.key, index))
        size, dim = self.block_size, self.inputs.shape[0]
        tokens, outputs = self.x_mean.shape[0], self.w_mean.shape[1]
        if self.paired:
            x, u = self._normals(x_key, (size, tokens, dim)), self._normals(w_key, (size, dim, outputs))
            return (x if self.white else x @ self.inputs.T.astype(x.dtype)), u
        x = normal_rows(x_key, size * tokens, self.inputs.T, self.dtype).reshape(size, tokens, dim)
        return x, self._normals(w_key, (size, dim, outputs))

    def _normals(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Array:
        """Standard normals by the generator of this source."""
        if self.paired:
            return paired_normals(key, math.prod(shape)).reshape(shape).astype(self.dtype)
        rows, last = math.prod(shape[:-1]), shape[-1]
        return normal_rows(key, rows, jnp.eye(last), self.dtype).reshape(shape)

    def _valid(self, index: Any) -> Array:
        return (self.positions(index) < self.num_prompts).astype(self.dtype)

    def labeled(self, index: Any) -> tuple[Array, Array, Array, Array]:
        """All tokens of one block with their labels.

        Args:
            index: of the block; may be traced.

        Returns:
            Inputs (prompts, tokens, dim), labels as shown and true labels (prompts, tokens, output), and the weights of
            the prompts.
        """
        x, u = self._standard(index)
        x = x - self.x_mean.astype(x.dtype)
        u = jnp.einsum("oij,bjo->bio", self.w_whitener.astype(x.dtype), u - self.w_mean.astype(x.dtype))
        w = self.prior_mean.astype(x.dtype) + jnp.einsum("ij,bjo->bio", self.prior_factor.astype(x.dtype), u)
        random = (self.positions(index) < self.num_random)[:, None, None]
        w = jnp.where(random, w, self.fixed_task.astype(x.dtype))
        truth = jnp.einsum("bti,bio->bto", x, w)
        if self.noiseless and not self.noise_labels:
            return x, truth, truth, self._valid(index) / self.num_prompts
        noise_key = jax.random.fold_in(jax.random.fold_in(self.key, index), 1)
        drawn = self._normals(noise_key, truth.shape)
        shown = drawn if self.noise_labels else truth + self.noise_scale(index, len(truth), x.dtype) * drawn
        return x, shown, truth, self._valid(index) / self.num_prompts

    def noise_scale(self, index: Any, size: int, dtype: Any) -> Array:
        """Standard deviation of the noise of the prompts of a block: one for all, or (size, 1, 1)."""
        return self.noise_std.astype(dtype)

    def block(self, index: Any) -> Batch:
        x, shown, truth, weight = self.labeled(index)
        return Batch(full_prompt(x[:, :-1], shown[:, :-1], x[:, -1]), truth[:, -1], weight)

    def prefix_block(self, index: Any, context: Array | int) -> Batch:
        x, shown, truth, weight = self.labeled(index)
        return Batch(prefix_prompt(x, shown, context), truth[:, context], weight)

    def _on_host(self) -> bool:
        """Whether numpy can draw the prompts: the numbers are known, and nothing else than one processor is there."""
        known = not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self))
        plain = type(self) is RegressionSource and not self.paired  # a subclass labels its prompts as it likes
        return known and plain and counter_streams() and jax.default_backend() == "cpu" and jax.device_count() == 1

    def _as_numpy(self, *arrays: Array) -> list[np.ndarray]:
        """Arrays in the precision of the prompts, by numpy; also while something else is traced."""
        with jax.ensure_compile_time_eval():
            return [np.asarray(array).astype(self.dtype) for array in arrays]

    def _host_prompts(self) -> Iterator[_Prompts]:
        """All prompts, as many at a time as one call of `drawn_normals` has room for."""
        size, total = self.block_size, self.num_prompts
        lanes = min(size, 1 << (max(16, DRAWN // self.x_mean.size).bit_length() - 1))
        with jax.ensure_compile_time_eval():
            words = np.asarray(jax.random.key_data(self.key))
        own = folded_words(words, np.arange(self.num_blocks))
        for index, keys in enumerate(split_words(own)):
            three = keys[:2], keys[2:], folded_words(own[:, index], np.array([1]))[:, 0]
            for first in range(0, min(size, total - index * size), lanes):
                start = index * size + first
                yield _Prompts(start, first, min(lanes, total - start), three)

    def host_blocks(self) -> Iterator[HostBlock] | None:
        return self._host_blocks() if self._on_host() else None

    def _host_blocks(self) -> Iterator[HostBlock]:
        (tokens, dim), outputs, dtype = self.x_mean.shape, self.w_mean.shape[1], self.dtype
        arrays = (self.inputs, self.x_mean, self.w_mean, self.w_whitener, self.prior_mean, self.prior_factor)
        inputs, x_mean, w_mean, whitener, mean, factor = self._as_numpy(*arrays)
        fixed, std = self._as_numpy(self.fixed_task, self.noise_std)
        own, noise_labels, noisy = int(self.num_random), self.noise_labels, self.noise_labels or not self.noiseless
        at_once = max(16, HOST_NUMBERS // (tokens * dim))
        # x = A z − m as one product, with a row of ones under the normals z
        affine = np.concatenate([np.broadcast_to(inputs, (tokens, dim, dim)), -x_mean[..., None]], 2)
        for some in self._host_prompts():
            z, u = some.normals(0, tokens, dim), some.normals(1, dim, outputs).astype(dtype)
            noise = some.normals(2, tokens, outputs) if noisy else None
            centered = np.moveaxis(u - w_mean[..., None], 1, 0)  # (output, dim, prompt)
            w = mean[..., None] + np.moveaxis(factor @ (whitener @ centered), 0, 1)
            w[..., max(0, own - some.start) :] = fixed[..., None]
            for first in range(0, some.number, at_once):
                part = slice(first, min(first + at_once, some.number))
                above = np.ones((tokens, dim + 1, part.stop - first), dtype)
                above[:, :dim] = z[..., part]
                found = np.empty((tokens, dim + outputs, part.stop - first), dtype)
                x = np.matmul(affine, above, out=found[:, :dim])
                truth = np.einsum("tip,iop->top", x, w[..., part])
                if noise is None:
                    found[:, dim:] = truth
                elif noise_labels:
                    found[:, dim:] = noise[..., part]
                else:
                    np.add(truth, std * noise[..., part].astype(dtype), out=found[:, dim:])
                yield HostBlock(found, truth)

    @np.errstate(all="ignore")  # as JAX: what overflows is infinite
    def _host_sums(self, *, center: bool, whiten: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`_sums` by numpy; zeros where nothing is to be corrected."""
        (tokens, dim), outputs = self.x_mean.shape, self.w_mean.shape[1]
        (inputs,) = self._as_numpy(self.inputs)
        of_z, of_u, of_uu = np.zeros((tokens, dim)), np.zeros((dim, outputs)), np.zeros((outputs, dim, dim))
        for some in self._host_prompts():
            if center:
                of_z += some.normals(0, tokens, dim).sum(2, dtype=np.float64)
            if whiten:
                u = some.normals(1, dim, outputs).astype(np.float64)
                of_u += u.sum(2)
                of_uu += np.stack([u[:, output] @ u[:, output].T for output in range(outputs)])
        return of_z @ inputs.T.astype(np.float64), of_u, of_uu

    @kept
    def _sums(self) -> tuple[Array, Array, Array]:
        """Sums over all prompts of the inputs, the task vectors and their products, in one pass over all blocks."""

        def part(index: Array) -> tuple[Array, Array, Array]:
            x, u = self._standard(index)
            keep = self._valid(index)
            x, u = x.astype(jnp.float64), (u * keep[:, None, None]).astype(jnp.float64)
            of_x = jnp.einsum("b,bti->ti", keep.astype(jnp.float64), x)
            return of_x, u.sum(0), jnp.einsum("bio,bjo->oij", u, u)

        start = (jnp.zeros_like(self.x_mean), jnp.zeros_like(self.w_mean), jnp.zeros_like(self.w_whitener))
        return sum_blocks(part, self.num_blocks, start)

    def corrected(self, *, center: bool, whiten: bool) -> RegressionSource:
        """The same prompts, centered or whitened by their empirical moments.

        Args:
            center: whether to subtract from x its mean over prompts, position by position.
            whiten: whether to give w the mean and covariance of the prior exactly.

        Returns:
            The source of the corrected prompts.
        """
        sums = self._host_sums(center=center, whiten=whiten) if self._on_host() else self._sums()
        xp = numpy_of(*sums)
        x_sum, w_sum, ww_sum = (xp.asarray(part) for part in sums)
        new = self
        if center:
            new = eqx.tree_at(lambda s: s.x_mean, new, as_array(x_sum / self.num_prompts))
        if whiten:
            mean = w_sum / self.num_prompts
            outer = xp.einsum("io,jo->oij", mean, mean)
            values, vectors = xp.linalg.eigh((ww_sum - self.num_prompts * outer) / (self.num_prompts - 1))
            whitener = xp.einsum("oik,ok,ojk->oij", vectors, values**-0.5, vectors)
            new = eqx.tree_at(lambda s: (s.w_mean, s.w_whitener), new, (as_array(mean), as_array(whitener)))
        return new
