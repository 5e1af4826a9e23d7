"""What gradient flow conserves, from weights; and how far a run drifts from it.

Only the product of layers enters the output, so flow keeps the difference of their Gram matrices (zhang2025, by its
(14a-c) for separate weights). The full models keep it with all entries of their weights, the reduced ones with theirs:
the formulas are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from ..core.errors import IclearnError
from ..core.trace import Trace
from .reading import finite


def _gram(rows: np.ndarray) -> np.ndarray:
    return rows @ np.swapaxes(rows, -1, -2)


def merged_conserved(value: Any, kq: Any) -> Float[np.ndarray, "*record head head"]:
    """w₂w₂ᵀ − W₁W₁ᵀ of a merged model, with heads as the hidden units of a two-layer network.

    Args:
        value: (…, head, …) the weights that write the output.
        kq: (…, head, input, entry) the key-query weights; the axes after ``head`` are summed over.

    Returns:
        (…, head, head), constant under gradient flow.

    >>> merged_conserved([2.0], [[[1.0, 1.0]]])
    array([[2.]])
    """
    first, second = finite("kq", kq), finite("value", value)
    if first.ndim < 3:
        raise IclearnError(f"kq must have axes (…, head, input, entry), not shape {first.shape}")
    lead = first.shape[:-2]
    if second.shape[: len(lead)] != lead:
        raise IclearnError(f"value {second.shape} and kq {first.shape} must share their record and head axes")
    return _gram(second.reshape(*lead, -1)) - _gram(first.reshape(*lead, -1))


def network_conserved(first: Any, second: Any) -> Float[np.ndarray, "*record head head"]:
    """W₂ᵀW₂ − W₁W₁ᵀ of a two-layer linear network.

    Args:
        first: (…, head, feature) W₁.
        second: (…, output, head) W₂.

    Returns:
        (…, head, head), constant under gradient flow.

    >>> network_conserved([[1.0, 1.0]], [[2.0]])
    array([[2.]])
    """
    inner, outer = finite("first", first), finite("second", second)
    if inner.ndim < 2 or outer.shape[:-2] != inner.shape[:-2] or outer.shape[-1] != inner.shape[-2]:
        raise IclearnError(f"layers of shapes {inner.shape} and {outer.shape} do not follow each other")
    return _gram(np.swapaxes(outer, -1, -2)) - _gram(inner)


def value_key_conserved(value: Any, key: Any) -> Float[np.ndarray, "*record head"]:
    """‖v_h‖² − Σ_r ‖k_{h,r}‖² of a separate model.

    Args:
        value: (…, head, …) v_h.
        key: (…, head, rank, entry) k_{h,r}.

    Returns:
        (…, head), constant under gradient flow.

    >>> value_key_conserved([2.0], [[[1.0, 1.0]]])
    array([2.])
    """
    keys, values = finite("key", key), finite("value", value)
    lead = keys.shape[:-2]
    if keys.ndim < 3 or values.shape[: len(lead)] != lead:
        raise IclearnError(f"value {values.shape} and key {keys.shape} must share their record and head axes")
    return np.sum(values.reshape(*lead, -1) ** 2, -1) - np.sum(keys**2, (-1, -2))


def key_query_conserved(key: Any, query: Any) -> Float[np.ndarray, "*record head rank rank"]:
    """k_r·k_s − q_r·q_s within each head of a separate model; on the diagonal ‖k_{h,r}‖² − ‖q_{h,r}‖².

    Args:
        key: (…, head, rank, entry) k_{h,r}.
        query: (…, head, rank, entry) q_{h,r}.

    Returns:
        (…, head, rank, rank), constant under gradient flow.

    >>> key_query_conserved([[[2.0, 0.0]]], [[[1.0, 1.0]]])
    array([[[2.]]])
    """
    keys, queries = finite("key", key), finite("query", query)
    if keys.ndim < 3 or keys.shape[:-1] != queries.shape[:-1]:
        raise IclearnError(f"key {keys.shape} and query {queries.shape} must share all axes but the last")
    return _gram(keys) - _gram(queries)


def conserved(source: Trace) -> dict[str, Float[np.ndarray, "record ..."]]:
    """All conserved quantities of a run's recorded weights.

    Args:
        source: a Trace with recorded weights.

    Returns:
        By name, each with a leading record axis: ``output_hidden`` for merged models (`merged_conserved`) and networks
        (`network_conserved`); ``value_key`` and ``key_query`` for separate ones (`value_key_conserved`,
        `key_query_conserved`).

    >>> import xarray as xr
    >>> axes = ("record", "head", "input", "key_input")
    >>> data = xr.Dataset({"weight_value": (axes[:2], np.ones((3, 1))), "weight_kq": (axes, np.ones((3, 1, 1, 1)))})
    >>> from iclearn import Status
    >>> conserved(Trace(data, Status.FINISHED, 0, {}))["output_hidden"].ravel()
    array([0., 0., 0.])
    """
    weights = source.weight_paths()
    if {"first", "second"} <= weights.keys():
        return {"output_hidden": network_conserved(weights["first"], weights["second"])}
    if {"value", "kq"} <= weights.keys():
        return {"output_hidden": merged_conserved(weights["value"], weights["kq"])}
    if {"value", "key", "query"} <= weights.keys():
        value, key, query = (weights[name] for name in ("value", "key", "query"))
        return {"value_key": value_key_conserved(value, key), "key_query": key_query_conserved(key, query)}
    raise IclearnError(f"no conserved quantity is known for weights {', '.join(sorted(weights)) or '(none recorded)'}")


def drift(quantity: Any) -> Float[np.ndarray, " record"]:
    """The largest change of any entry since the first record.

    Args:
        quantity: (record, …) a conserved quantity.

    Returns:
        (record) the change; 0 at the first.

    >>> drift([[1.0, 2.0], [1.5, 2.0], [1.5, 1.0]])
    array([0. , 0.5, 1. ])
    """
    array = finite("the conserved quantity", quantity)
    if array.ndim == 0:
        raise IclearnError("drift needs records along the first axis")
    return np.abs(array - array[0]).reshape(array.shape[0], -1).max(1)
