"""What a model is: a prediction for ONE prompt, named weights, and a spec that says how they begin."""

from __future__ import annotations

import functools
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from .checks import check_literals, require
from .errors import IclearnError, MissingClosedForm
from .forms import as_array
from .prompt import Batch, DocumentReader, FeatureBatch, Prompt, SequenceBatch
from .spec import Spec
from .task import AbstractTask

if TYPE_CHECKING:
    from .recipe import Init


class GramHeads(NamedTuple):
    """Heads with ŷ = g + Σ_h p_hᵀ G Q_h [x_q; g] and g = w_q·x_q, of one model or of several side by side.

    G = (1/N) Σ_i [x_i; y_i][x_i; y_i]ᵀ over the context. The loss is the mean of the members' losses.

    Args:
        p: (member, head, entry) p_h.
        q: (member, head, entry, entry) Q_h.
        guess: (member, dim) w_q.
        moves: of which members the guess is trained.
    """

    p: Float[Array, "member head entry"]
    q: Float[Array, "member head entry entry"]
    guess: Float[Array, "member dim"]
    moves: tuple[bool, ...]


class AbstractModel(eqx.Module):
    """A frozen pytree of weights with a prediction for one prompt; the caller vmaps.

    `axes` names the axes of every weight array: the dimensions under which a Trace stores it. `prompt_type` is what
    `predict` reads. An in-context algorithm is a model too, with nothing to train.

    >>> class MeanLabel(AbstractModel):
    ...     def predict(self, prompt):
    ...         return prompt.y.mean(0)
    >>> context = jnp.array([[1.0], [2.0]])
    >>> MeanLabel().predict(Prompt(context, context, jnp.ones(1), jnp.ones(2, bool)))
    Array([1.5], dtype=float64)
    """

    axes: ClassVar[dict[str, tuple[str, ...]]] = {}
    prompt_type: ClassVar[type] = Prompt

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "predict" in cls.__dict__:
            cls.predict = _refusing_arrays(cls.__dict__["predict"])  # type: ignore[method-assign]

    @abstractmethod
    def predict(self, prompt: Any) -> Float[Array, " output"]:
        """The answer to one prompt.

        Args:
            prompt: one prompt of `prompt_type`, without a batch axis.

        Returns:
            (output) the prediction of the query's label.
        """

    def gram_heads(self) -> GramHeads | None:
        """The heads of a model that is one of those that `GramHeads` describes; None for other models.

        The arrays of the model must be p and q, and then the guess where one is trained, with or without the axis of
        members.
        """
        return None

    def document_reader(self) -> DocumentReader | None:
        """How a model reads documents, where it attends once to their words; None for other models."""
        return None

    def predict_prefixes(
        self, x: Float[Array, "tokens dim"], y: Float[Array, "tokens output"]
    ) -> Float[Array, "tokens output"]:
        """The answers to every prefix of a sequence: for x_n given the n pairs before it.

        Args:
            x: (tokens, dim) the inputs of all tokens.
            y: (tokens, output) their labels as shown; the last one is not read.

        Returns:
            (tokens, output) the prediction for each token from those before it; the first is from none.

        >>> class LastLabel(AbstractModel):
        ...     def predict(self, prompt):
        ...         return (prompt.y * prompt.mask[:, None]).sum(0)
        >>> LastLabel().predict_prefixes(jnp.ones((3, 1)), jnp.array([[1.0], [2.0], [4.0]]))[:, 0]
        Array([0., 1., 3.], dtype=float64)
        """
        count = x.shape[0]

        def one(length: Array) -> Array:
            return self.predict(Prompt(x[:-1], y[:-1], x[length], jnp.arange(count - 1) < length))

        return jax.vmap(one)(jnp.arange(count))

    def predict_sequences(
        self, x: Float[Array, "prompts tokens dim"], y: Float[Array, "prompts tokens output"]
    ) -> Float[Array, "prompts tokens output"]:
        """`predict_prefixes` of many sequences, which a model may have a faster form of.

        Args:
            x: (prompts, tokens, dim) the inputs.
            y: (prompts, tokens, output) their labels as shown.

        Returns:
            (prompts, tokens, output) the predictions.
        """
        return jax.vmap(self.predict_prefixes)(x, y)

    @property
    def one_pass(self) -> bool:
        """Whether `predict_sequences` takes one pass over a sequence for all its prefixes: it is trained so."""
        return False

    @property
    def large_products(self) -> bool:
        """Whether a step is made of products so large that a GPU's kernels for them are worth trying out."""
        return False

    def sensitivity(self, prompt: Any) -> Float[Array, "output dim"]:
        """How the answer depends on the query: ∂ŷ/∂x_q.

        Args:
            prompt: one prompt of `prompt_type`, without a batch axis.

        Returns:
            (output, dim) the derivatives.
        """
        return jax.jacrev(lambda query: self.predict(eqx.tree_at(lambda p: p.query, prompt, query)))(prompt.query)

    @property
    def offers_exact_loss(self) -> bool:
        """Whether `exact_loss` may give the population loss of a model that is not linear in features."""
        return False

    def exact_loss(
        self, task: AbstractTask, seed: int | Array, dtype: Any, which: str = "train"
    ) -> Callable[[Any], Array]:
        """The loss over infinitely many prompts of a task, as a function of models like this one.

        Args:
            task: the task.
            seed: the root seed.
            dtype: precision of the loss.
            which: ``train`` or the name of a test set.

        Returns:
            A pytree that maps a model of the same structure to () its loss. Models that do not know it for this task
            raise `MissingClosedForm`.
        """
        raise MissingClosedForm(f"{type(self).__name__} has no closed-form population loss: use engine samples")

    @property
    def offers_conditional_loss(self) -> bool:
        """Whether the model knows its loss given S = (1/N) Σ x xᵀ of the context (`conditional_loss`)."""
        return False

    def conditional_loss(
        self, second: Float[Array, "dim dim"], cov: Array, prior: Array, noise: Array
    ) -> Float[Array, ""]:
        """The loss given S, over task vectors N(0, Σ_w), queries N(0, Σ) and noise.

        Args:
            second: (dim, dim) S.
            cov: (dim, dim) Σ.
            prior: (dim, dim) Σ_w.
            noise: () σ²/N.

        Returns:
            () the loss.
        """
        raise MissingClosedForm(f"{type(self).__name__} has no loss given second moments: use engine samples")

    def summarize(self, prompt: Any) -> Any:
        """All of a prompt that the prediction depends on, which `predict` reads as well as the prompt.

        Args:
            prompt: one prompt of `prompt_type`.

        Returns:
            The prompt itself, where a model needs all of it.
        """
        return prompt

    def __check_init__(self) -> None:
        check_literals(type(self), vars(self))

    def weights(self) -> dict[str, Array]:
        """Name → weight array, the names being those of `axes`."""
        return {name: getattr(self, name) for name in self.axes}

    def weight_bytes(self) -> int:
        """Bytes of all weights, from their shapes."""
        return sum(weight.size * weight.dtype.itemsize for weight in self.weights().values())


def _refusing_arrays(predict: Callable[..., Any]) -> Callable[..., Any]:
    """`predict` of a class of models, with a sentence for those who pass arrays instead of a prompt."""

    @functools.wraps(predict)
    def checked(self: AbstractModel, *given: Any, **named: Any) -> Any:
        if isinstance(next(iter(given), None), np.ndarray | jax.Array | list):
            how = "" if self.prompt_type is not Prompt else ": make one by iclearn.core.prompt.full_prompt(x, y, query)"
            model, kind = type(self).__name__, self.prompt_type.__name__
            raise IclearnError(f"{model}.predict takes one {kind}, not a {type(given[0]).__name__}{how}")
        return predict(self, *given, **named)

    return checked


class AbstractModelSpec(Spec):
    """Which model, how large, and how its weights begin: the ``model`` of a Recipe.

    >>> import iclearn as icl
    >>> issubclass(icl.Attention, AbstractModelSpec) and issubclass(icl.LSA, AbstractModelSpec)
    True
    """

    @abstractmethod
    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> AbstractModel:
        """The model at initialization, drawn from the seed's ``init`` stream.

        Args:
            task: the task it is trained on, which gives the sizes.
            init: scale and scheme of the weights.
            seed: the root seed; may be traced.
            dtype: precision of the weights.

        Returns:
            The model.
        """

    @abstractmethod
    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> AbstractModel:
        """The model of this spec with given weights.

        Args:
            dim: dimension of the inputs.
            weights: name → array, the names being those of the model's `axes`.

        Returns:
            The model.
        """

    @property
    def reads_features(self) -> bool:
        """Whether the model can be trained on ready-made features instead of tokens."""
        return False

    def products(self) -> str:
        """How its matrix products are computed, where not in the precision of the recipe; for the provenance."""
        return ""

    def check_engine(self, task: AbstractTask, engine: str) -> None:
        """Refuse an engine by name that this model cannot be trained with on a task, and say why.

        Args:
            task: the task.
            engine: as the recipe names it; ``auto`` is never refused.
        """

    def from_arrays(self, task: AbstractTask, arrays: Mapping[str, np.ndarray], dtype: Any) -> AbstractModel:
        """The model with weights brought by the user, after a check of their names, shapes and values.

        Args:
            task: the task it is trained on.
            arrays: name → weight array.
            dtype: precision of the weights.

        Returns:
            The model.
        """
        from .recipe import Init

        template = self.initial(task, Init(), 0, dtype)
        for name, weight in template.weights().items():
            require(name in arrays, f"weights of this model are {', '.join(template.axes)}; missing {name}")
            given, axes = np.asarray(arrays[name]), ", ".join(template.axes[name])
            wanted = f"this model and task need {tuple(weight.shape)} ({axes})"
            require(given.shape == weight.shape, f"weight {name} has shape {given.shape}, {wanted}")
            require(given.dtype.kind in "biuf", f"weight {name} must hold real numbers, not {given.dtype}")
            bad = np.argwhere(~np.isfinite(given)).tolist()
            first = f", the first at index {tuple(bad[0])}" if bad else ""
            require(not bad, f"weight {name} holds NaN or infinite values{first}")
        return self.rebuild(task.dim, {name: np.asarray(arrays[name], dtype) for name in template.axes})


def checked_weights(axes: Iterable[str], weights: Mapping[str, Any], name: str) -> dict[str, Array]:
    """The weights of a model as JAX arrays; weights that lack one, and complex ones, are refused.

    Args:
        axes: the names that are needed.
        weights: name → array; other names are left out.
        name: the model, for the message.

    Returns:
        Name → array, in the order of `axes`.
    """
    missing = [n for n in axes if n not in weights]
    require(not missing, f"weights of {name} are {', '.join(axes)}; missing {', '.join(missing)}")
    arrays = {n: as_array(weights[n]) for n in axes}
    for n, array in arrays.items():
        require(not np.iscomplexobj(array), f"weight {n} must hold real numbers, not {array.dtype}")
    return arrays


def mean_loss(model: AbstractModel, batch: Batch | FeatureBatch | SequenceBatch) -> Float[Array, ""]:
    """The loss of a model on a batch: Σ_p weight_p · unit · (1/outputs) Σ_o (y_po − ŷ_po)².

    Args:
        model: the model; for a `FeatureBatch` one that has `coefficients`.
        batch: prompts (or their features) with targets and weights; of sequences, the mean over their prefixes.

    Returns:
        () the loss.
    """
    if isinstance(batch, SequenceBatch):
        errors = (batch.target - model.predict_sequences(batch.x, batch.y)) ** 2
        if batch.share is not None:
            return jnp.sum(batch.weight * (errors.mean(-1) @ batch.share))
        return jnp.sum(batch.weight * jnp.mean(errors[:, batch.first :], (-2, -1)))
    if isinstance(batch, FeatureBatch):
        require(hasattr(model, "coefficients"), f"{type(model).__name__} cannot read ready-made features")
        predictions, unit = batch.features @ model.coefficients(), 1.0  # type: ignore[attr-defined]
    else:
        predictions, unit = jax.vmap(model.predict)(batch.prompt), batch.unit
    return unit * jnp.sum(batch.weight * jnp.mean((batch.target - predictions) ** 2, -1))
