"""Looking inside a causal transformer: one forward pass that takes interventions at named sites and returns all sites.

Sites, in the order in which they are computed; T = 2 · tokens counts x_1, y_1, x_2, …, layers count from 0:

======================  ============================  ==========================================================
``embed``               (prompt, T, entry)            tokens with their positions
``l.queries``           (prompt, T, head, part)       and ``l.keys``, ``l.values``; turned where positions are rotary
``l.temperature``       (head)                        1; scores are divided by it
``l.pattern``           (prompt, head, T, T)          attention of every token (third axis) to those before it
``l.mixed``             (prompt, T, head, part)       what the output matrix reads of each head
``l.attention``         (prompt, T, entry)            what attention adds to the residual stream
``l.hidden``            (prompt, T, hidden)           the MLP after its non-linearity
``l.mlp``               (prompt, T, entry)            what it adds
``l.residual``          (prompt, T, entry)            the residual stream after the block
``answers``             (prompt, token)               the read-out at the inputs
======================  ============================  ==========================================================

An intervention is {site: (mask, value)}: where the mask is true the value takes the place of what was computed. Masks
and values broadcast to the site.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..core.checks import require
from ..models.causal_blocks import CausalModel, turned

Sites = dict[str, Array]
Interventions = Mapping[str, tuple[Any, Any]]
PARTS = ("queries", "keys", "values", "temperature", "pattern", "mixed", "attention", "hidden", "mlp", "residual")


def site_names(model: CausalModel) -> tuple[str, ...]:
    """The names of all sites of a model, in the order in which they are computed."""
    layers = [f"{layer}.{part}" for layer in range(model.qkv.shape[0]) for part in PARTS]
    return ("embed", *layers, "answers")


def run_sites(
    model: CausalModel,
    x: Float[Array, "prompts tokens dim"],
    y: Float[Array, "prompts tokens 1"],
    interventions: Interventions | None = None,
) -> Sites:
    """One forward pass with interventions.

    Args:
        model: the transformer.
        x: (prompts, tokens, dim) the inputs.
        y: (prompts, tokens, 1) the labels; the last one is not read.
        interventions: {site: (mask, value)} (None: none; the answers are then those of `predict_sequences`).

    Returns:
        All sites by name, as they were after the interventions.

    >>> import iclearn as icl
    >>> task = icl.tasks.FunctionClass(dim=2, context_len=2)
    >>> model = icl.CausalTransformer(layers=1, width=4).initial(task, icl.Init(0.5), 0, "float64")
    >>> sites = run_sites(model, jnp.ones((1, 3, 2)), jnp.ones((1, 3, 1)))
    >>> sites["0.pattern"].shape, bool(jnp.allclose(sites["0.pattern"].sum(-1), 1))
    ((1, 2, 6, 6), True)
    """
    given = dict(interventions or {})
    known = site_names(model)
    unknown = [name for name in given if name not in known]
    require(not unknown, f"there is no site {', '.join(unknown)}; sites are {', '.join(known)}")
    changed = {name: (jnp.asarray(mask, bool), jnp.asarray(value)) for name, (mask, value) in given.items()}
    found = _run(model, jnp.asarray(x), jnp.asarray(y), changed)
    return {name: found[name] for name in known}


@eqx.filter_jit
def _run(model: CausalModel, x: Array, y: Array, changed: dict[str, tuple[Array, Array]]) -> Sites:
    sites: Sites = {}

    def keep(name: str, computed: Array) -> Array:
        if name in changed:
            mask, value = changed[name]
            computed = jnp.where(mask, value.astype(computed.dtype), computed)
        sites[name] = computed
        return computed

    h = keep("embed", model.embedded(x, y))
    for layer in range(model.qkv.shape[0]):
        h = _block(model, h, layer, lambda part, computed, at=layer: keep(f"{at}.{part}", computed))
    matrix, bias = model._folded(model.read_out, model.read_bias, model.final_scale, model.final_offset)
    answers = jnp.matmul(model._normalized(h[:, ::2]), matrix, precision="highest")
    keep("answers", (answers if bias is None else answers + bias)[..., 0])
    return sites


def _block(model: CausalModel, h: Array, layer: int, keep: Any) -> Array:
    at = lambda weight: None if weight is None else weight[layer]  # noqa: E731
    prompts, tokens, width = h.shape
    heads = model.num_heads
    matrix, bias = model._folded(model.qkv[layer], model.qkv_bias[layer], at(model.first_scale), at(model.first_offset))
    parts = jnp.split(model._product(model._normalized(h), matrix, bias), 3, -1)
    q, k, v = (part.reshape(prompts, tokens, heads, -1) for part in parts)
    where = jnp.arange(tokens)
    if model.rotary:
        q, k = turned(q, where), turned(k, where)
    q, k, v = keep("queries", q), keep("keys", k), keep("values", v)
    scores = jnp.einsum("pqhd,pkhd->phqk", q, k, **model._options(wide=True)) * q.shape[-1] ** -0.5
    scores = scores / keep("temperature", jnp.ones(heads, scores.dtype))[:, None, None]
    pattern = jax.nn.softmax(jnp.where(where <= where[:, None], scores, -jnp.inf), axis=-1).astype(v.dtype)
    pattern = keep("pattern", pattern)
    mixed = keep("mixed", jnp.einsum("phqk,pkhd->pqhd", pattern, v, **model._options()))
    flat = mixed.reshape(prompts, tokens, width)
    h = h + keep("attention", model._product(flat, model.merge[layer], model.merge_bias[layer], wide=True))
    matrix, bias = model._folded(
        model.expand[layer], model.expand_bias[layer], at(model.second_scale), at(model.second_offset)
    )
    hidden = jax.nn.gelu(model._product(model._normalized(h), matrix, bias), approximate=True)
    hidden = keep("hidden", hidden)
    h = h + keep("mlp", model._product(hidden, model.contract[layer], model.contract_bias[layer], wide=True))
    return keep("residual", h)


def _heads(model: CausalModel, layer: int, heads: int | Sequence[int]) -> np.ndarray:
    """(head) which are meant; those that are not there are refused."""
    wanted = [heads] if isinstance(heads, int) else list(heads)
    depth, count = model.qkv.shape[0], model.num_heads
    require(0 <= layer < depth, f"layers are 0 to {depth - 1}, and {layer} was given")
    bad = [head for head in wanted if not 0 <= head < count]
    require(not bad, f"heads are 0 to {count - 1}, and {bad} were given")
    return np.isin(np.arange(count), wanted)


def silenced(model: CausalModel, layer: int, heads: int | Sequence[int]) -> dict[str, tuple[Any, Any]]:
    """Zero ablation: the output matrix reads 0 of these heads; its bias stays.

    Args:
        model: the transformer.
        layer: of the heads.
        heads: which.

    Returns:
        The intervention.
    """
    return {f"{layer}.mixed": (_heads(model, layer, heads)[:, None], 0.0)}


def alone(model: CausalModel, layer: int, head: int) -> dict[str, tuple[Any, Any]]:
    """All other heads of the layer are silenced; see `silenced`."""
    return {f"{layer}.mixed": (~_heads(model, layer, head)[:, None], 0.0)}


def averaged(model: CausalModel, sites: Sites, layer: int, heads: int | Sequence[int]) -> dict[str, tuple[Any, Any]]:
    """Mean ablation: the output matrix reads the average over prompts of these heads, token by token.

    Args:
        model: the transformer.
        sites: of a pass without interventions, over whose prompts the average is taken.
        layer: of the heads.
        heads: which.

    Returns:
        The intervention.
    """
    name = f"{layer}.mixed"
    return {name: (_heads(model, layer, heads)[:, None], sites[name].mean(0, keepdims=True))}


def tempered(model: CausalModel, layer: int, heads: int | Sequence[int], value: float) -> dict[str, tuple[Any, Any]]:
    """The scores of these heads are divided by a temperature.

    Args:
        model: the transformer.
        layer: of the heads.
        heads: which.
        value: the temperature, above 0.

    Returns:
        The intervention.
    """
    require(value > 0, f"a temperature is above 0, not {value}")
    return {f"{layer}.temperature": (_heads(model, layer, heads), float(value))}


def clamped_pattern(
    model: CausalModel, layer: int, heads: int | Sequence[int], pattern: Any, rows: Any = True
) -> dict[str, tuple[Any, Any]]:
    """The attention of these heads is overwritten by a given one.

    Args:
        model: the transformer.
        layer: of the heads.
        heads: which.
        pattern: (T, T) or (prompt, head, T, T), a row for every token that attends.
        rows: (T) of which tokens (True: all).

    Returns:
        The intervention.
    """
    chosen = _heads(model, layer, heads)[:, None, None] & np.asarray(rows, bool).reshape(-1, 1)
    return {f"{layer}.pattern": (chosen, pattern)}


def patched(sites: Sites, names: Sequence[str] | None = None) -> dict[str, tuple[Any, Any]]:
    """What another pass had at some sites, put into this one: another model's, or the same one's on other prompts.

    With the patterns of a pass without interventions it freezes attention, so that a silenced head has its direct
    effect alone.

    Args:
        sites: of the other pass.
        names: which sites (None: all).

    Returns:
        The intervention.
    """
    wanted = list(sites) if names is None else list(names)
    unknown = [name for name in wanted if name not in sites]
    require(not unknown, f"the other pass has no site {', '.join(unknown)}")
    return {name: (True, sites[name]) for name in wanted}


def together(*interventions: Interventions) -> dict[str, tuple[Any, Any]]:
    """Several interventions as one; where two touch the same numbers of a site, the later one holds.

    >>> mask, value = together({"embed": (True, 1.0)}, {"embed": (np.array([False, True]), 2.0)})["embed"]
    >>> value.tolist()
    [1.0, 2.0]
    """
    found: dict[str, tuple[Any, Any]] = {}
    for one in interventions:
        for name, (mask, value) in one.items():
            if name in found:
                before, old = found[name]
                value, mask = jnp.where(mask, value, old), jnp.asarray(before) | jnp.asarray(mask)
            found[name] = (mask, value)
    return found


def pairing_pattern(tokens: int) -> tuple[np.ndarray, np.ndarray]:
    """The attention of labels to their own inputs, and to nothing else, for `clamped_pattern`.

    Args:
        tokens: inputs of a sequence.

    Returns:
        (T, T) the pattern, and (T) the rows it is for: the labels.
    """
    pattern = np.zeros((2 * tokens, 2 * tokens))
    labels = np.arange(1, 2 * tokens, 2)
    pattern[labels, labels - 1] = 1.0
    return pattern, np.arange(2 * tokens) % 2 == 1
