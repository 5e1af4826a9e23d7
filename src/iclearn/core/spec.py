"""Frozen, hashable, JSON-able descriptions: the base of tasks, models, optimizers and recipes."""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
import json
import math
import numbers
from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

from .checks import check_literals, require
from .errors import IclearnError
from .fields import CheckedFields, check_fields, read_infinity
from .registry import SPECS

SpecT = TypeVar("SpecT", bound="Spec")


@dataclasses.dataclass(frozen=True)
class Spec(metaclass=CheckedFields):
    """A frozen dataclass of plain values and other specs, with a canonical JSON form and a hash of it.

    A subclass names its kind once (``class Covariance(Spec, kind="covariance")``); that name is what the
    JSON holds, so classes may be renamed and files still load. It prints what differs from its defaults.

    >>> from iclearn.core.recipe import Init
    >>> Init(0.1).to_json()
    '{"digest": "", "kind": "init", "scale": 0.1, "scheme": "per_head", "zero_blocks": true}'
    >>> Init.from_json('{"scale": 0.1}') == Init(0.1)
    True
    """

    kind: ClassVar[str] = ""
    shorthand: ClassVar[str] = ""  # the field that a bare number or word in its place means
    how_to_make: ClassVar[str] = ""  # calls that make one of what people have at hand, for messages
    former_names: ClassVar[dict[str, str]] = {}  # fields as earlier formats spell them → as they are called now
    later_fields: ClassVar[tuple[str, ...]] = ()  # written only where they are not at their default: hashes stay

    def __init_subclass__(cls, *, kind: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__repr__ = Spec.__repr__  # dataclasses would write one with every field
        if (own := cls.__dict__.get("__post_init__")) is not None:
            cls.__post_init__ = _types_too(own)  # type: ignore[method-assign, assignment]
        if kind is not None:
            other = SPECS.registered(kind)
            if other is not None and other.__qualname__ != cls.__qualname__:
                raise TypeError(f"two specs call themselves {kind!r}: {other} and {cls}")
            SPECS.register(kind, cls)
            cls.kind = kind

    def __post_init__(self) -> None:
        read_infinity(self)
        check_literals(type(self), vars(self), self.kind)
        check_fields(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in self.changed_fields().items())})"

    def changed_fields(self) -> dict[str, Any]:
        """The fields whose values are not their defaults, in order."""
        return {name: getattr(self, name) for name, d in self._defaults().items() if not _same(getattr(self, name), d)}

    def _defaults(self) -> dict[str, Any]:
        """The default of every field; fields that have none differ from the mark MISSING."""
        return {
            f.name: f.default if f.default_factory is dataclasses.MISSING else f.default_factory()
            for f in dataclasses.fields(self)
        }

    def by_path(self, *, changed: bool = False) -> dict[str, Any]:
        """The values of all fields, those of specs within it under dotted paths; the spec itself stands as its kind.

        Args:
            changed: only what differs from the defaults.

        Returns:
            The values by path, as the axes of a sweep name them.

        >>> import iclearn as icl
        >>> recipe = icl.Recipe(task=icl.LinearRegression(noise=0.1), model=icl.Attention("merged"), seed=3)
        >>> recipe.by_path(changed=True)
        {'task': 'linear_regression', 'task.noise': 0.1, 'model': 'attention', 'seed': 3}
        """
        found: dict[str, Any] = {}
        for name, default in self._defaults().items():
            value = getattr(self, name)
            if changed and _same(value, default):
                continue
            if not isinstance(value, Spec):
                found[name] = value
                continue
            if not changed or type(value) is not type(default):
                found[name] = value.kind
            found |= {f"{name}.{path}": inner for path, inner in value.by_path(changed=changed).items()}
        return found

    def describe(self) -> str:
        """One line for listings: the kind, and what differs from the defaults."""
        fields = (f"{n}={v.describe() if isinstance(v, Spec) else v}" for n, v in self.changed_fields().items())
        return f"{self.kind} {', '.join(fields)}".strip()

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, with the kind of every spec under ``kind``."""
        changed = self.changed_fields() if self.later_fields else {}
        fields = {
            f.name: _encode(getattr(self, f.name), f"{self.kind} {f.name}", "float" in str(f.type))
            for f in dataclasses.fields(self)
            if f.name in changed or f.name not in self.later_fields
        }
        return {"kind": self.kind, **fields}

    def to_json(self, *, indent: int | None = None) -> str:
        """The canonical JSON text: keys in order, every default written out.

        Args:
            indent: spaces of each level (None: all in one line).

        Returns:
            The text.
        """
        return json.dumps(self.to_dict(), sort_keys=True, indent=indent, allow_nan=False)

    @property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON: equal specs have equal hashes, on every machine."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def replace(self: SpecT, **changes: Any) -> SpecT:
        """A copy with some fields changed.

        Args:
            changes: field → value; ``a__b=...`` reaches into the spec in field ``a``.

        Returns:
            The copy, checked as a new spec is.
        """
        direct: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        names = sorted(f.name for f in dataclasses.fields(self))
        for name, value in changes.items():
            head, _, rest = name.partition("__")
            inside = [f"{part}__{head}" for part in names if hasattr(getattr(self, part), head) and not rest]
            inside = [path for path in inside if isinstance(getattr(self, path.partition("__")[0]), Spec)]
            hint = f" (did you mean {inside[0]}=?)" if inside and head not in names else ""
            fields = f"its fields are {', '.join(names)}{hint}"
            require(head in names, f"{type(self).__name__} has no field {head!r}; {fields}")
            if rest:
                nested.setdefault(head, {})[rest] = value
            else:
                direct[head] = value
        for head, inner in nested.items():
            part = direct.get(head, getattr(self, head))
            require(isinstance(part, Spec), f"{head} of {type(self).__name__} is {part!r}: it has no fields to change")
            direct[head] = part.replace(**inner)
        return dataclasses.replace(self, **direct)

    def unchecked(self: SpecT, **changes: Any) -> SpecT:
        """As `replace`, without the checks of construction: for traced numbers, which cannot be looked at.

        The values that will take their place must have been checked in specs of their own.

        Args:
            changes: as for `replace`.

        Returns:
            The copy.
        """
        new = copy.copy(self)
        for name, value in changes.items():
            head, _, rest = name.partition("__")
            object.__setattr__(new, head, getattr(new, head).unchecked(**{rest: value}) if rest else value)
        return new

    @classmethod
    def from_dict(cls: type[SpecT], data: Any) -> SpecT:
        """The spec of this class that a table describes, in full as `to_dict` writes it or in short form.

        Unknown kinds and fields are refused. Fields of earlier formats are understood.

        Args:
            data: the table (`core.reader.read_spec`).

        Returns:
            The spec.
        """
        from .reader import read_spec

        return read_spec(cls, data)

    @classmethod
    def from_json(cls: type[SpecT], text: str) -> SpecT:
        """The spec of this class that a JSON text describes.

        Args:
            text: what `to_json` wrote, or the same in short form.

        Returns:
            The spec.
        """
        try:
            data = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise IclearnError(f"not JSON: {error}") from None
        return cls.from_dict(data)


def _types_too(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """A spec's own checks, and that of the types of its fields, whose sentence stands in for Python's errors."""

    @functools.wraps(check)
    def both(self: Any) -> None:
        read_infinity(self)
        check_literals(type(self), vars(self), self.kind)
        try:
            check(self)
        except IclearnError:
            raise
        except Exception:
            check_fields(self)
            raise
        check_fields(self)

    return both


def _same(value: Any, default: Any) -> bool:
    try:
        return bool(value == default)
    except Exception:  # arrays, while a recipe is traced
        return False


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
        require(math.isfinite(value), f"{name} must be a finite number, not {float(value)}")
        return float(value) + 0.0  # no negative zero
    raise TypeError(f"a spec holds plain values only, not {type(value).__name__}: {value!r}")
