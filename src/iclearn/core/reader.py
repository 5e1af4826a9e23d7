"""The one reader of specs: tables from JSON, YAML, the command line or Python turned into checked specs."""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
from collections.abc import Mapping
from functools import lru_cache
from inspect import isabstract
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import numpy as np

from .checks import check_choice, require
from .errors import IclearnError
from .fields import field_types
from .registry import SPECS, USUAL_KINDS
from .spec import Spec, SpecT

MOST_VALUES, MOST_FIELDS, MOST_DIGITS = 100_000, 1000, 400  # of a YAML text, of a table in it, of a whole number in it


def field_type(base: Spec, path: str, what: str = "") -> Any:
    """The type of a field of a spec or of a spec inside it; a field that is not there is refused.

    Args:
        base: the spec.
        path: names of fields with dots between them.
        what: beginning of the message of a refusal.

    Returns:
        The type, as annotated.

    >>> from iclearn.core.recipe import Optimizer
    >>> field_type(Optimizer(), "lr")
    <class 'float'>
    """
    here: Any = base
    hint: Any = None
    parts = path.split(".")
    for depth, part in enumerate(parts):
        names = sorted(f.name for f in dataclasses.fields(here)) if isinstance(here, Spec) else []
        owner = ".".join(parts[:depth]) or "a recipe"
        require(here is not None, f"{what}{path}: the base has no {owner}; give it one")
        fields = f"its fields are {', '.join(names)}" if names else "it is a plain value"
        require(part in names, f"{what}{path}: {owner} has no field {part!r}; {fields}")
        hint, here = field_types(type(here))[part], getattr(here, part)
    return hint


def read_spec(expected: type[SpecT], data: Any, where: str = "") -> SpecT:
    """A spec from a table, in full or in short form.

    In short form fields with defaults and `kind` may be left out, and a spec with a `shorthand` may be the value of
    that field alone. Specs inside it are tables too.

    Args:
        expected: the class, which may be abstract (then the table says its kind, or the field's usual one is meant).
        data: the table, or a spec that is ready.
        where: the place in a file, for messages.

    Returns:
        The spec, checked.

    >>> from iclearn.core.recipe import Recipe
    >>> read_spec(Recipe, {"task": {"dim": 3}, "model": {"family": "separate"}, "init": 0.1}).init
    Init(scale=0.1)
    """
    if isinstance(data, expected):
        return data
    named = where or (data.get("kind") if isinstance(data, Mapping) else "") or expected.kind or expected.__name__
    if expected.shorthand and isinstance(data, numbers.Real | str):
        data = {expected.shorthand: data}
    require(isinstance(data, Mapping), f"{named} must be a table of fields, not {data!r:.200}")
    fields: dict[str, Any] = dict(data)
    kind = fields.pop("kind", None) or expected.kind or USUAL_KINDS.get(where.rpartition(".")[2])
    require(kind is None or isinstance(kind, str), f"{named}: the kind must be a word, not {str(kind)[:80]!r}")
    if not kind and (isabstract(expected) or expected is Spec):
        raise IclearnError(f"{named} does not say its kind; known are {', '.join(SPECS.names())}")
    cls = SPECS.get(kind, where) if kind else expected
    if not issubclass(cls, expected):
        kinds = ", ".join(n for n in SPECS.names() if issubclass(SPECS.get(n), expected)) or "none"
        raise IclearnError(f"{named} cannot be of kind {kind!r}; kinds here are {kinds}")
    fields = {cls.former_names.get(name, name): value for name, value in fields.items()}
    hints = field_types(cls)
    if unknown := [name for name in fields if name not in hints]:
        raise IclearnError(f"{named} has no field {unknown[0]!r:.200}; its fields are {', '.join(sorted(hints))}")
    for f in dataclasses.fields(cls):
        given = f.name in fields or f.default is not dataclasses.MISSING or f.default_factory is not dataclasses.MISSING
        require(given, f"{named} lacks its field {f.name!r}")
    place = f"{where}." if where else ""
    return cls(**{name: coerce(value, hints[name], f"{place}{name}") for name, value in fields.items()})


def coerce(value: Any, hint: Any, where: str) -> Any:
    """A value as the type of a field; a value that does not fit is refused.

    Args:
        value: a plain value, a list or a table; the word ``"1e-3"``, which YAML does not read as a number, is one.
        hint: the type of the field, as annotated.
        where: the place in a file, for messages.

    Returns:
        The value as that type.

    >>> coerce("1e-3", float, "optimizer.lr")
    0.001
    """
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _coerce_union(value, get_args(hint), where)
    if origin is Literal:
        check_choice(where, value, hint)
        return value
    if origin is tuple:
        items = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
        return tuple(coerce(item, get_args(hint)[0], where) for item in items)
    if hint is float:
        return _number(value, where)
    if hint is int:
        whole = isinstance(value, numbers.Integral) or (isinstance(value, float) and value.is_integer())
        require(whole and not isinstance(value, bool), f"{where} must be a whole number, not {value!r:.200}")
        return int(value)
    if hint in (bool, str):
        wanted = "true or false" if hint is bool else "a word"
        require(isinstance(value, hint), f"{where} must be {wanted}, not {value!r:.200}")
        return value
    if isinstance(hint, type) and issubclass(hint, Spec):
        return read_spec(hint, value, where)
    return value


def _coerce_union(value: Any, options: tuple[Any, ...], where: str) -> Any:
    if type(None) in options and (value is None or value == "none" or value == "inf"):
        return None
    wanted = [option for option in options if option is not type(None)]
    for option in wanted[:-1]:
        try:
            return coerce(value, option, where)
        except IclearnError:
            continue
    return coerce(value, wanted[-1], where)


def _number(value: Any, where: str) -> float:
    try:
        if isinstance(value, bool) or not isinstance(value, numbers.Real | str):
            raise ValueError
        number = float(value)
    except ValueError:
        raise IclearnError(f"{where} must be a number, not {value!r:.200}") from None
    require(math.isfinite(number), f"{where} must be a finite number, not {value!r:.200}")
    return number


def plain_value(value: Any) -> Any:
    """A value of a spec as JSON holds it: specs as tables, tuples as lists.

    Args:
        value: the value of a field.

    Returns:
        The plain value.
    """
    if isinstance(value, Spec):
        return value.to_dict()
    return [plain_value(v) for v in value] if isinstance(value, tuple) else value


def read_table(path: Any) -> dict[str, Any]:
    """The table in a YAML or JSON file (JSON is YAML); a file that holds no table is refused.

    Args:
        path: the file.

    Returns:
        Its fields.
    """
    try:
        text = Path(path).read_text()
    except FileNotFoundError:
        raise IclearnError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise IclearnError(f"{path} is a folder; give the name of a file") from None
    except UnicodeDecodeError:
        raise IclearnError(f"{path} is not a text file") from None
    data = read_yaml(text, str(path))
    require(isinstance(data, dict), f"{path} must be a table of fields, not {str(data)[:80]!r}")
    require(all(isinstance(key, str) for key in data), f"{path} must be a table whose fields are words")
    return data


def read_yaml(text: str, where: str) -> Any:
    """The value that a YAML text means: plain values, lists and tables; a key given twice is refused.

    Args:
        text: the text.
        where: the place it comes from, for messages.

    >>> read_yaml("{a: 1, a: 2}", "here")
    Traceback (most recent call last):
    iclearn.core.errors.IclearnError: here line 1 cannot be read as YAML: the key 'a' is given twice
    """
    import yaml

    try:
        return yaml.load(text, _bounded_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or error
        raise IclearnError(f"{where}{line} cannot be read as YAML: {problem}") from None
    except (ValueError, RecursionError, OverflowError):
        raise IclearnError(f"{where} cannot be read as YAML") from None


@lru_cache
def _bounded_loader() -> Any:
    """PyYAML's safe loader, which makes nothing but plain values, with limits that hold before any value is made.

    A key that is given twice is refused too. An alias counts as many values as what it stands for.
    """
    import yaml

    class Bounded(yaml.SafeLoader):
        values = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            mark, before = self.peek_event().start_mark, self.values
            alias = self.check_event(yaml.AliasEvent)
            node: Any = super().compose_node(parent, index)
            # an alias inside what it stands for has no size yet and would have no end
            self.values += getattr(node, "size", MOST_VALUES + 1) if alias else 1
            node.size = self.values - before
            problem = ""
            if self.values > MOST_VALUES:
                problem = f"more than {MOST_VALUES} values, counting aliases"
            elif isinstance(parent, yaml.MappingNode) and len(parent.value) >= MOST_FIELDS:
                problem = f"more than {MOST_FIELDS} fields in one table"
            elif node.tag == "tag:yaml.org,2002:int" and len(node.value) > MOST_DIGITS:
                problem = f"a whole number of {len(node.value)} characters; at most {MOST_DIGITS} are read"
            if problem:
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)
            return node

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value != "<<" and key.value in seen:
                    problem = f"the key {key.value!r} is given twice"
                    raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
                seen.add(str(key.value))
            return super().construct_mapping(node, deep)

    return Bounded
