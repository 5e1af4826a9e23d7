"""Frozen, hashable, JSON-able descriptions: the base of tasks, models, optimizers and recipes."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import math
import numbers
from typing import Any, ClassVar, TypeVar

from .errors import IclearnError

_KINDS: dict[str, type[Spec]] = {}
_SpecT = TypeVar("_SpecT", bound="Spec")


@dataclasses.dataclass(frozen=True)
class Spec:
    """A frozen dataclass of plain values and other specs, with a canonical JSON form and a hash of it.

    A subclass names its kind once (``class Covariance(Spec, kind="covariance")``); that name is what the
    JSON holds, so classes may be renamed and files still load.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if kind is not None:
            other = _KINDS.get(kind)
            if other is not None and other.__qualname__ != cls.__qualname__:
                raise TypeError(f"two specs call themselves {kind!r}: {other} and {cls}")
            cls.kind = kind
            _KINDS[kind] = cls

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, with the kind of every spec under ``kind``."""
        fields = {
            f.name: _encode(getattr(self, f.name), f"{self.kind} {f.name}", "float" in str(f.type))
            for f in dataclasses.fields(self)
        }
        return {"kind": self.kind, **fields}

    def to_json(self, *, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), sort_keys=True, indent=indent, allow_nan=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: equal specs have equal hashes, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def replace(self: _SpecT, **changes: Any) -> _SpecT:
        """A copy with some fields changed; ``a__b=...`` reaches into the spec in field ``a``."""
        direct: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        names = {f.name for f in dataclasses.fields(self)}
        for name, value in changes.items():
            head, _, rest = name.partition("__")
            if head not in names:
                raise IclearnError(
                    f"{type(self).__name__} has no field {head!r}; its fields are {', '.join(sorted(names))}"
                )
            if rest:
                nested.setdefault(head, {})[rest] = value
            else:
                direct[head] = value
        for head, inner in nested.items():
            direct[head] = direct.get(head, getattr(self, head)).replace(**inner)
        return dataclasses.replace(self, **direct)

    def unchecked(self: _SpecT, **changes: Any) -> _SpecT:
        """As `replace`, without the checks of construction: for traced numbers, which cannot be looked at.

        The values that will take their place must have been checked in specs of their own.
        """
        new = copy.copy(self)
        for name, value in changes.items():
            head, _, rest = name.partition("__")
            object.__setattr__(new, head, getattr(new, head).unchecked(**{rest: value}) if rest else value)
        return new

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Any:
        """The spec that `to_dict` wrote. Unknown kinds and fields are errors, never ignored."""
        return _decode(data)

    @staticmethod
    def from_json(text: str) -> Any:
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise IclearnError(f"not JSON: {error}") from None
        return _decode(data)


def _encode(value: Any, name: str, as_float: bool) -> Any:
    """Plain values; numbers of a float field are written as floats, so that 1 and 1.0 (equal specs) hash alike."""
    if isinstance(value, Spec):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_encode(v, name, as_float) for v in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral) and not as_float:
        return int(value)
    if isinstance(value, numbers.Real):
        if not math.isfinite(value):
            raise IclearnError(f"{name} must be a finite number, not {float(value)}")
        return float(value) + 0.0  # no negative zero
    raise TypeError(f"a spec holds plain values only, not {type(value).__name__}: {value!r}")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(v) for v in value)
    if not isinstance(value, dict):
        return value
    kind = value.get("kind")
    if kind not in _KINDS:
        raise IclearnError(f"unknown kind {kind!r} in JSON; known are {', '.join(sorted(_KINDS))}")
    cls = _KINDS[kind]
    fields = {name: _decode(v) for name, v in value.items() if name != "kind"}
    known = {f.name for f in dataclasses.fields(cls)}
    if unknown := sorted(set(fields) - known):
        raise IclearnError(f"{kind} has no field {unknown[0]!r}; its fields are {', '.join(sorted(known))}")
    missing = [
        f.name
        for f in dataclasses.fields(cls)
        if f.name not in fields and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise IclearnError(f"{kind} in JSON lacks its field {missing[0]!r}")
    return cls(**fields)
