"""Every public function, method and class with a Literal, given another value; the rest of its arguments is made up.

Run apart, without the type checks of the tests: prints name and argument → what was said.
"""

import importlib
import inspect
import json
import pkgutil
import typing

import numpy as np

import iclearn as icl

RESULTS = {"Growth", "LevelStay", "Outcome", "Verdict"}  # made by the library, not by users
PACKAGES = ["theory", "probes", "papers", "tasks", "models", "models.predictors", "evaluation", "sweeps", "store"]
PACKAGES += [f"theory.{one.name}" for one in pkgutil.iter_modules(icl.theory.__path__) if one.ispkg]


def callables():
    for package in (icl, *(importlib.import_module(f"iclearn.{name}") for name in PACKAGES)):
        for name in getattr(package, "__all__", None) or dir(package):
            made = getattr(package, name)
            if not str(getattr(made, "__module__", "")).startswith("iclearn") or name in RESULTS:
                continue
            if inspect.isfunction(made):
                yield f"{package.__name__}.{name}", made
            elif inspect.isclass(made) and issubclass(made, object):
                if not inspect.isabstract(made) and not getattr(made, "_is_protocol", False):
                    yield name, made
                yield from (
                    (f"{name}.{key}", f) for key, f in vars(made).items() if inspect.isfunction(f) and key[0] != "_"
                )


def literals(made):
    try:
        hints = typing.get_type_hints(made.__init__ if inspect.isclass(made) else made)
    except NameError:  # annotated with what is imported for type checkers only
        return
    for name, hint in hints.items():
        parts = (hint, *typing.get_args(hint)) if typing.get_origin(hint) is not typing.Literal else (hint,)
        if name != "return" and any(typing.get_origin(part) is typing.Literal for part in parts):
            yield name, typing.get_args(next(part for part in parts if typing.get_origin(part) is typing.Literal))[0]


if __name__ == "__main__":
    said = {}
    for name, made in dict(callables()).items():
        words = dict(literals(made))
        for argument in words:
            parameters = inspect.signature(made).parameters.values()
            needed = {p.name: np.ones(1) for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD}
            try:
                made(**needed | words | {argument: "flwo"})
                said[f"{name} {argument}"] = "accepted"
            except Exception as error:
                said[f"{name} {argument}"] = f"{type(error).__name__}: {error}"
    print(json.dumps(said, indent=0))
