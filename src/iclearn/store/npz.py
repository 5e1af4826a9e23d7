"""Datasets and weights brought by the user as .npz files, in the public code's layout or our own.

Datasets: `x` (P, N+1, D+O) tokens [x; y] with the query last, `y_q` (P,) or (P, O), optionally `y_all` (P, N+1) with
the true label of every token, and test sets `x_iwl`, `y_q_iwl`, `x_icl`, `y_q_icl`. Cubic features: `x` (P, D²), rows
first.
Weights: merged `weights_kq`, `weights_value` (H, E, E); separate `weights_key`, `weights_query` (H, R, E) and
`weights_value`; mlp `weights_first` (H, D²), `weights_second` (H,); or the names and shapes a Trace stores.
P counts prompts, N context pairs, D inputs, O outputs, H heads; R is the rank and E = D + O.
"""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..core.checks import check_type
from ..core.dataset import Arrays, Dataset, FeatureArrays
from ..core.errors import IclearnError
from ..core.memory import available_bytes, in_words
from ..tasks.regression import IN_CONTEXT, IN_WEIGHT

_TESTS = {"iwl": IN_WEIGHT, "icl": IN_CONTEXT}
_FAMILIES = {"merged": ("kq", "value"), "separate": ("key", "query", "value"), "mlp": ("first", "second")}


def read_npz(path: str | Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file by name; nothing is ever unpickled.

    Args:
        path: the file. One that is missing, damaged, or holds anything but arrays is refused in one line.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.npz"
    >>> np.savez(file, x=np.arange(3))
    >>> read_npz(file)
    {'x': array([0, 1, 2])}
    """
    path = Path(path)
    if not path.is_file():
        raise IclearnError(f"no file {path}")
    try:
        with open(path, "rb") as file:
            if file.read(6) == b"\x93NUMPY":
                raise ValueError("it holds one array without a name")
        with zipfile.ZipFile(path) as archive:
            _check_sizes(archive)
            members = {name.removesuffix(".npy"): name for name in archive.namelist()}
            return {name: _read_member(archive, member) for name, member in members.items()}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        reason = "it holds Python objects or no arrays" if "pickle" in str(error) else str(error).split("\n")[0]
        raise IclearnError(f"{path} is not a readable .npz file: {reason}") from None


def _check_sizes(archive: zipfile.ZipFile) -> None:
    """Refuse an archive whose arrays would not fit, by the sizes they declare, before any of them is unpacked."""
    total = 0
    for member in archive.namelist():
        name = member.removesuffix(".npy")
        with archive.open(member) as file:
            try:
                version = np.lib.format.read_magic(file)
                read = {(1, 0): np.lib.format.read_array_header_1_0}.get(version, np.lib.format.read_array_header_2_0)
                shape, _, dtype = read(file)
            except (ValueError, SyntaxError, TypeError, RecursionError):
                raise ValueError(f"{name} in it is no array") from None
        if dtype.hasobject:
            raise ValueError("it holds Python objects or no arrays")
        total += math.prod(shape) * max(1, dtype.itemsize)
    if total > (room := available_bytes() // 2):
        raise ValueError(f"its arrays take {in_words(total)}, and {in_words(room)} is half of the free memory here")


def _read_member(archive: zipfile.ZipFile, member: str) -> np.ndarray:
    with archive.open(member) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def dataset_from(arrays: Mapping[str, np.ndarray]) -> Dataset:
    """A dataset from arrays named as in the public layout.

    Args:
        arrays: ``x`` (prompt, token, entry) or (prompt, dim²), ``y_q`` (prompt,) or (prompt, output), and optionally
            ``y_all``, ``x_iwl``, ``y_q_iwl``, ``x_icl``, ``y_q_icl``, as at the top of this module.

    Returns:
        The training set, and the test sets that are there under ``in_weight`` and ``in_context``.

    >>> rng = np.random.default_rng(0)
    >>> data = dataset_from({"x": rng.normal(size=(6, 5, 3)), "y_q": rng.normal(size=6)})
    >>> data.train.num_prompts
    6
    """
    check_type("a dataset", arrays, Mapping, '{"x": …, "y_q": …}')
    arrays = {str(name): np.asarray(array) for name, array in arrays.items()}
    known = ("x", "y_q", "y_all", *(f"{kind}_{short}" for short in _TESTS for kind in ("x", "y_q")))
    if unknown := [name for name in arrays if name.startswith(("x", "y")) and name not in known]:
        raise IclearnError(f"a dataset has no array {unknown[0]!r}; its arrays are {', '.join(known)}")
    if missing := [name for name in ("x", "y_q") if name not in arrays]:
        raise IclearnError(f"a dataset needs the arrays x and y_q; missing {' and '.join(missing)}")
    tests = {}
    for short, name in _TESTS.items():
        if f"y_q_{short}" in arrays and f"x_{short}" not in arrays:
            raise IclearnError(f"test targets y_q_{short} need their prompts x_{short}")
        if f"x_{short}" in arrays:
            if f"y_q_{short}" not in arrays:
                raise IclearnError(f"test set x_{short} needs its targets y_q_{short}")
            tests[name] = _one_set(arrays[f"x_{short}"], arrays[f"y_q_{short}"], None)
    return Dataset(_one_set(arrays["x"], arrays["y_q"], arrays.get("y_all")), tests)


def _one_set(x: np.ndarray, target: np.ndarray, labels: np.ndarray | None) -> Arrays | FeatureArrays:
    target = target[:, None] if target.ndim == 1 else target
    if target.ndim != 2 or x.ndim not in (2, 3) or len(x) != len(target):
        raise IclearnError(f"x {x.shape} and y_q {target.shape} do not belong together")
    if x.ndim == 2:
        return FeatureArrays(_columns_stacked(x), target)
    outputs = target.shape[1]
    if x.shape[2] <= outputs:
        raise IclearnError(f"tokens of {x.shape[2]} entries leave no input beside {outputs} outputs")
    if labels is not None and labels.ndim == 2:
        labels = labels[:, :, None]
    return Arrays(x[:, :, :-outputs], x[:, :, -outputs:], target, labels)


def _columns_stacked(rows: np.ndarray) -> np.ndarray:
    """Public cubic features and weights run row by row over β xᵀ; ours column by column."""
    dim = round(rows.shape[-1] ** 0.5)
    if dim * dim != rows.shape[-1]:
        raise IclearnError(f"cubic features come in dim² columns; {rows.shape[-1]} is no square")
    return rows.reshape(-1, dim, dim).swapaxes(1, 2).reshape(rows.shape)


def weights_from(arrays: Mapping[str, np.ndarray], out_dim: int = 1) -> tuple[str, dict[str, np.ndarray]]:
    """The model family a set of weight arrays belongs to, and the arrays as that model names and shapes them.

    Args:
        arrays: in the public layout (``weights_kq``, …) or as a Trace stores them (``kq`` or ``weight_kq``, …).
        out_dim: number of outputs, which tells inputs from labels in the tokens of the public layout.

    Returns:
        ``merged``, ``separate`` or ``mlp``, and the weights. Rows that do not reach the output are dropped.

    >>> family, weights = weights_from({"weights_kq": np.zeros((2, 4, 4)), "weights_value": np.zeros((2, 4, 4))})
    >>> family, weights["value"].shape, weights["kq"].shape
    ('merged', (2, 1, 4), (2, 3, 4))
    """
    check_type("weights", arrays, Mapping, "a table from names to arrays")
    names = {
        f"{prefix}{name}" for names in _FAMILIES.values() for name in names for prefix in ("", "weight_", "weights_")
    }
    for name in names & set(arrays):
        if (kind := np.asarray(arrays[name]).dtype).kind not in "iuf":
            raise IclearnError(f"weight {name} must hold real numbers, not {kind}")
    for family, names in _FAMILIES.items():
        if all(f"weights_{name}" in arrays for name in names):
            return family, _from_public(family, {name: arrays[f"weights_{name}"] for name in names}, out_dim)
    own = {name.removeprefix("weight_"): array for name, array in arrays.items()}
    for family, names in _FAMILIES.items():
        if all(name in own for name in names):
            if single := [name for name in names if np.ndim(own[name]) == 0]:
                raise IclearnError(f"weight {single[0]} is a single number, not an array with named axes")
            return family, {name: own[name] for name in names}
    wanted = "; ".join(f"{f}: {', '.join(f'weights_{name}' for name in names)}" for f, names in _FAMILIES.items())
    raise IclearnError(f"no weights found among {', '.join(sorted(arrays)) or 'no arrays'}; expected {wanted}")


def _from_public(family: str, arrays: dict[str, np.ndarray], out_dim: int) -> dict[str, np.ndarray]:
    for name, array in arrays.items():
        expected = {"second": (1, 2), "first": (2,)}.get(name, (3,))
        if array.ndim not in expected:
            raise IclearnError(f"weights_{name} must have {' or '.join(map(str, expected))} axes, not {array.shape}")
    if family == "mlp":
        return {"first": _columns_stacked(arrays["first"]), "second": np.atleast_2d(arrays["second"])}
    dim = arrays["value"].shape[2] - out_dim
    value = {"value": arrays["value"][:, dim:]}
    if family == "merged":
        return {**value, "kq": arrays["kq"][:, :dim]}
    return {**value, "key": arrays["key"], "query": arrays["query"][:, :, :dim]}
