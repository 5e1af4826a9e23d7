"""What gradient flow conserves, from weights; and how far a run drifts from it.

Only the product of layers enters the output, so flow keeps the difference of their Gram matrices (zhang2025). The full
models keep it with all entries of their weights, the reduced ones with theirs: the formulas are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError
from ..core.trace import Trace
from .reading import finite


def merged_conserved(value: Any, kq: Any) -> Float[np.ndarray, "*record head head"]:
    """w₂w₂ᵀ − W₁W₁ᵀ of a merged model, with heads as the hidden units of a two-layer network.

    Args:
        value: (…record, head, …) the weights that write the output.
        kq: (…record, head, input, entry) the key-query weights; the axes after `head` are summed over.
    """
    first = finite("kq", kq)
    if first.ndim < 3:
        raise IclearnError(f"kq must have axes (…, head, input, entry), not shape {first.shape}")
    lead = first.shape[:-2]
    second = finite("value", value)
    if second.shape[: len(lead)] != lead:
        raise IclearnError(f"value {second.shape} and kq {first.shape} must share their record and head axes")
    return _gram(second.reshape(*lead, -1)) - _gram(first.reshape(*lead, -1))


def network_conserved(first: Any, second: Any) -> Float[np.ndarray, "*record head head"]:
    """W₂ᵀW₂ − W₁W₁ᵀ of a two-layer linear network: first (…, head, feature), second (…, output, head)."""
    inner, outer = finite("first", first), finite("second", second)
    if inner.ndim < 2 or outer.shape[:-2] != inner.shape[:-2] or outer.shape[-1] != inner.shape[-2]:
        raise IclearnError(f"layers of shapes {inner.shape} and {outer.shape} do not follow each other")
    return _gram(np.swapaxes(outer, -1, -2)) - _gram(inner)


def value_key_conserved(value: Any, key: Any) -> Float[np.ndarray, "*record head"]:
    """‖v_h‖² − Σ_r ‖k_{h,r}‖² of a separate model: value (…, head, …), key (…, head, rank, entry)."""
    keys, values = finite("key", key), finite("value", value)
    lead = keys.shape[:-2]
    if keys.ndim < 3 or values.shape[: len(lead)] != lead:
        raise IclearnError(f"value {values.shape} and key {keys.shape} must share their record and head axes")
    return np.sum(values.reshape(*lead, -1) ** 2, -1) - np.sum(keys**2, (-1, -2))


def key_query_conserved(key: Any, query: Any) -> Float[np.ndarray, "*record head rank rank"]:
    """k_r·k_s − q_r·q_s within each head; on the diagonal ‖k_{h,r}‖² − ‖q_{h,r}‖². Shapes (…, head, rank, entry)."""
    keys, queries = finite("key", key), finite("query", query)
    if keys.ndim < 3 or keys.shape[:-1] != queries.shape[:-1]:
        raise IclearnError(f"key {keys.shape} and query {queries.shape} must share all axes but the last")
    return _gram(keys) - _gram(queries)


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows @ np.swapaxes(rows, -1, -2)


def conserved(source: Trace) -> dict[str, Float[np.ndarray, "record ..."]]:
    """All conserved quantities of a run's recorded weights, by name.

    ``output_hidden`` for merged models and networks; ``value_key`` and ``key_query`` for separate ones.
    """
    weights = {
        str(name).removeprefix("weight_"): source.data[name].values
        for name in source.data.data_vars
        if str(name).startswith("weight_")
    }
    if {"first", "second"} <= weights.keys():
        return {"output_hidden": network_conserved(weights["first"], weights["second"])}
    if {"value", "kq"} <= weights.keys():
        return {"output_hidden": merged_conserved(weights["value"], weights["kq"])}
    if {"value", "key", "query"} <= weights.keys():
        return {
            "value_key": value_key_conserved(weights["value"], weights["key"]),
            "key_query": key_query_conserved(weights["key"], weights["query"]),
        }
    raise IclearnError(f"no conserved quantity is known for weights {', '.join(sorted(weights)) or '(none recorded)'}")


def drift(quantity: Any) -> Float[np.ndarray, " record"]:
    """Largest change of any entry since the first record; 0 at the first.

    >>> drift([[1.0, 2.0], [1.5, 2.0], [1.5, 1.0]])
    array([0. , 0.5, 1. ])
    """
    array = finite("the conserved quantity", quantity)
    if array.ndim == 0:
        raise IclearnError("drift needs records along the first axis")
    return np.abs(array - array[0]).reshape(array.shape[0], -1).max(1)
