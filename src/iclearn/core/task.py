"""What a task is: a distribution of prompts that declares what can be done with it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from .dataset import Dataset
from .errors import IclearnError, MissingClosedForm
from .label_law import LabelLaw
from .prompt import Batch, FeatureBatch, HostBlock, Prompt, SequenceBatch, WhiteDocuments, WhitePrompts
from .rng import stream
from .spec import Spec


class AbstractSource(eqx.Module):
    """The prompts of one task under one seed: arrays and keys from which blocks of prompts are computed.

    A block is a pure function of (source, index), so it can be jitted, vmapped over seeds and computed on any device.
    The prompts are never stored whole.

    >>> import iclearn as icl
    >>> source = icl.LinearRegression(dim=2, context_len=3, num_prompts=5).source(0, "float64")
    >>> source.num_blocks, source.everything().prompt.x.shape
    (1, (5, 3, 2))
    """

    num_prompts: eqx.AbstractVar[int]

    @property
    @abstractmethod
    def num_blocks(self) -> int:
        """How many blocks there are."""

    @abstractmethod
    def block(self, index: Any) -> Batch | FeatureBatch:
        """The prompts of one block.

        Args:
            index: of the block; may be traced.

        Returns:
            The prompts; their weights add up to one over all blocks, and are 0 beyond the last prompt.
        """

    def prefix_block(self, index: Any, context: Array | int) -> Batch:
        """The prompts of one block cut after `context` pairs, the next token being the query.

        Args:
            index: of the block; may be traced.
            context: pairs that are kept; may be traced.

        Returns:
            The prompts, with the weights of `block`.
        """
        raise IclearnError("prompts of this task have no prefixes")

    def whole_sequences(self, first: int) -> SequenceBatch:
        """All prompts as sequences, for models that answer every prefix in one pass.

        Args:
            first: pairs of the shortest prefix that counts.

        Returns:
            The sequences; their weights add up to one.
        """
        raise IclearnError("prompts of this task have no prefixes")

    def host_blocks(self) -> Iterator[HostBlock] | None:
        """The prompts of `block` by numpy, part by part, all of the same weight; None where only programs draw them."""
        return None

    @eqx.filter_jit  # one program instead of one for every operation
    def everything(self, contexts: int | range = 0) -> Batch | FeatureBatch:
        """All prompts at once.

        Args:
            contexts: 0 for the prompts as they are; above 0 for all their prefixes of 1..contexts pairs, as prompts of
                their own; a range for their prefixes of these numbers of pairs.

        Returns:
            The prompts; their weights add up to one.
        """
        indices = jnp.arange(self.num_blocks)

        def gather(block: Batch | FeatureBatch) -> Batch | FeatureBatch:
            return jax.tree.map(lambda a: a.reshape((-1, *a.shape[2:]))[: self.num_prompts], block)

        if contexts == 0:
            return gather(jax.vmap(self.block)(indices))
        lengths = range(1, contexts + 1) if isinstance(contexts, int) else contexts
        parts = [gather(jax.vmap(lambda i, n=n: self.prefix_block(i, n))(indices)) for n in lengths]
        whole = jax.tree.map(lambda *a: jnp.concatenate(a), *parts)
        return eqx.tree_at(lambda b: b.weight, whole, whole.weight / len(lengths))


class AbstractBlockSource(AbstractSource):
    """A source with a key from which every block of prompts is drawn.

    Args:
        key: the key; block i is drawn from fold_in(key, i).
        num_prompts: size of the set.
        prompt_size: how many numbers one prompt holds.
        dtype: name of the precision of the prompts.
    """

    key: Key[Array, ""]
    num_prompts: int = eqx.field(static=True)
    prompt_size: int = eqx.field(static=True)
    dtype: str = eqx.field(static=True)

    @classmethod
    def of(cls, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train", **fields: Any) -> Any:
        """The prompts of a task's set `which`, with its stream, sizes and precision; `fields` are the subclass's."""
        sizes = {"num_prompts": task.num_prompts, "prompt_size": task.numbers_per_prompt(), **fields}
        return cls(key=stream(seed, f"data.{which}"), dtype=jnp.dtype(dtype).name, **sizes)

    @property
    def block_size(self) -> int:
        """Prompts computed at a time: a power of two that keeps a block to a few million numbers."""
        wanted = min(4_000_000 // self.prompt_size, self.num_prompts)
        return 1 << max(4, min(12, (wanted - 1).bit_length()))

    @property
    def num_blocks(self) -> int:
        return -(-self.num_prompts // self.block_size)

    def positions(self, index: Any) -> Int[Array, " prompts"]:
        """The numbers of a block's prompts within the set; the last block has some beyond `num_prompts`."""
        return index * self.block_size + jnp.arange(self.block_size)


class AbstractDrawnSource(AbstractBlockSource):
    """A source whose blocks differ in nothing but their keys: subclasses say how prompts are drawn, in `draw`."""

    @abstractmethod
    def draw(self, key: Key[Array, ""], count: int, weight: Any) -> Batch:
        """Prompts from one key.

        Args:
            key: the key.
            count: how many.
            weight: (count) their weights.

        Returns:
            The prompts.
        """

    def block(self, index: Any) -> Batch:
        weight = ((self.positions(index) < self.num_prompts) / self.num_prompts).astype(self.dtype)
        return self.draw(jax.random.fold_in(self.key, index), self.block_size, weight)


class AbstractTask(Spec):
    """A distribution of prompts: the ``task`` of a Recipe.

    A task must have `dim`, `context_len`, `out_dim`, `num_prompts` and `prefixes` (fields or properties) and `source`.
    The other methods declare what more can be done with it; their defaults promise nothing.

    >>> import iclearn as icl
    >>> issubclass(icl.LinearRegression, AbstractTask)
    True
    """

    dim: int
    context_len: int
    out_dim: int
    num_prompts: int | None
    prefixes: bool

    prompt_type: ClassVar[type] = Prompt  # what its prompts are; a model must read the same
    needs_dataset: ClassVar[bool] = False  # whether its arrays come beside the recipe

    @abstractmethod
    def source(self, seed: int | Array, dtype: Any, which: str = "train") -> AbstractSource:
        """The prompts of a set.

        Args:
            seed: the root seed, from whose streams they are drawn; may be traced.
            dtype: precision of the prompts.
            which: ``train`` or the name of a test set.

        Returns:
            The source of the prompts.
        """

    def like_source(self, seed: int | Array, dtype: Any, which: str = "train") -> AbstractSource | None:
        """A source like `source` but for its numbers, quickly made, to compile for; None where `source` is quick."""
        return None

    def white_prompts(self) -> WhitePrompts | WhiteDocuments | None:
        """What compiled code has to know to draw the prompts of `fresh` by itself; None where it cannot."""
        return None

    def fresh(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> Batch | FeatureBatch:
        """New prompts, for training that never sees one twice.

        Args:
            seed: the root seed, for what all prompts have in common, such as the covariance.
            key: from which these prompts are drawn.
            batch_size: how many.
            dtype: their precision.

        Returns:
            The prompts, with weights that add up to one.
        """
        return self._fresh_source(seed, key, batch_size, dtype).everything()

    def _fresh_source(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> AbstractSource:
        drawn = self.unchecked(num_prompts=batch_size).source(seed, jnp.dtype(dtype).name)
        return eqx.tree_at(lambda s: s.key, drawn, key)  # type: ignore[attr-defined]

    def at_step(self, step: Array) -> AbstractTask:
        """The task as it is at a step of training, for prompts that grow; its arrays keep their shapes.

        Args:
            step: () the step; may be traced.

        Returns:
            The task from which fresh prompts of that step are drawn.
        """
        return self

    @property
    def gives_sequences(self) -> bool:
        """Whether its sources know `whole_sequences`, so that all prefixes of a prompt can be answered in one pass."""
        return False

    def fresh_sequences(self, seed: int | Array, key: Key[Array, ""], batch_size: int, dtype: Any) -> SequenceBatch:
        """As `fresh`, the same prompts as whole sequences, for a task that trains on all prefixes.

        Args:
            seed: the root seed.
            key: from which these prompts are drawn.
            batch_size: how many.
            dtype: their precision.

        Returns:
            The sequences, with weights that add up to one.
        """
        return self._fresh_source(seed, key, batch_size, dtype).whole_sequences(self.context_lengths()[0])

    @property
    def tests(self) -> tuple[str, ...]:
        """Names of the test sets."""
        return ()

    def bind(self, dataset: Dataset | None) -> AbstractTask:
        """The task with the arrays it needs; a task that draws its own prompts refuses any.

        Args:
            dataset: what the user passed to `simulate`.

        Returns:
            The task, ready for `source`.
        """
        if dataset is not None:
            raise IclearnError("a dataset was given, but the recipe's task draws its own: use GivenData.of(dataset)")
        return self

    def label_laws(self, seed: int | Array, which: str = "train") -> tuple[LabelLaw, ...]:
        """The mixture of label distributions, for engines that integrate over prompts instead of drawing them.

        Args:
            seed: the root seed; may be traced.
            which: ``train`` or the name of a test set.

        Returns:
            The components of the mixture (`tasks.expectations.LabelLaw`); their weights add up to one.
        """
        raise MissingClosedForm(f"{self.kind} has no closed-form population loss: use engine samples")

    def covariance_matrix(self, seed: int | Array) -> Float[Array, "dim dim"] | None:
        """Λ = E[x xᵀ] of the inputs.

        Args:
            seed: the root seed; may be traced.

        Returns:
            (dim, dim) Λ, or None where it is not known.
        """
        return None

    @property
    def isotropic(self) -> bool:
        """Whether w ~ N(0, I) in every prompt: then the population loss is diagonal in the eigenbasis of Λ."""
        return False

    @property
    def diagonal_inputs(self) -> bool:
        """Whether Λ is diagonal as it is drawn, so that nothing need be rotated into its eigenbasis."""
        return False

    @property
    def gives_features(self) -> bool:
        """Whether its prompts are ready-made features without tokens."""
        return False

    def context_lengths(self, which: str = "train") -> range:
        """The numbers of context pairs over which the loss of a set is averaged.

        Args:
            which: ``train`` or the name of a test set.

        Returns:
            1..context_len for training on all prefixes, else context_len alone.
        """
        first = 1 if self.prefixes and which == "train" else self.context_len
        return range(first, self.context_len + 1)

    def traceable_fields(self) -> frozenset[str]:
        """Fields, by dotted path, that change numbers and neither shapes nor the program.

        Returns:
            Their paths; runs that differ in nothing else share one program.
        """
        return frozenset()

    def symmetry_breaking_fields(self) -> frozenset[str]:
        """Traceable fields that may break the symmetry w → −w, which keeps full attention in its reduced form."""
        return frozenset()

    def fresh_parameters(self) -> dict[str, Any]:
        """Field → value of what `fresh` reads as numbers only and may therefore be given traced."""
        return {}

    def numbers_per_prompt(self) -> int:
        """How many numbers one prompt holds, for estimates of memory."""
        return (self.context_len + 1) * (self.dim + self.out_dim)

    def with_prompts(self, count: int) -> AbstractTask:
        """The same task with no more than `count` prompts in any of its sets (more where it needs more)."""
        few = self.num_prompts is None or self.num_prompts <= count
        return self if few else self.replace(num_prompts=count)

    def describe_data(self) -> str:
        """A sentence on where the prompts come from, for the reproducibility card."""
        return f"{self.kind}: " + ", ".join(f"{k}={v}" for k, v in sorted(self.to_dict().items()) if k != "kind")

    def describe_splits(self) -> str:
        """A sentence on what is held out, for the reproducibility card."""
        if self.tests:
            return f"training set as above; test sets {' and '.join(self.tests)}, streams of their own"
        return "training loss only: no test split"
