"""Compiled programs kept on disk under what they were made from, so that a later process traces nothing.

JAX's own cache keeps compiled programs too, but finds them by the program itself, which has to be traced and lowered
first: ten times the time of loading it. Here the name of a program is a hash of everything that it is made from: the
function, the structure of its arguments with all that is no array in it, shapes and types of the arrays, the source of
iclearn, the versions of what traces and compiles, the settings of JAX, and the processor.

It is switched on by the `iclearn` command, whose process is its own (`$ICLEARN_KEEP_PROGRAMS`, which it sets where it
is not set), and for one CPU only.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
from jax.core import Tracer

from .atomic import new_file
from .jax_settings import compile_meter, count_kept
from .provenance import numerics, processor

KEEP_SWITCH = "ICLEARN_KEEP_PROGRAMS"
_LEAST = "jax_persistent_cache_min_compile_time_secs"
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

_OWN = ("iclearn.core.", "iclearn.tasks.", "iclearn.models.", "iclearn.engines.")  # hashed by `numerics`
_OTHERS = ("builtins", "copyreg", "numpy", "jax", "equinox", "optax")  # their versions are in the name
_switched_on = os.environ.get(KEEP_SWITCH, "off").lower() not in {"off", "0", "no", "false"}
_loaded: dict[bytes, Future[Callable[..., Any] | None]] = {}
_compiling, _lock = 0, threading.Lock()


def keep_programs(on: bool = True) -> None:
    """Switch keeping programs on or off for this process.

    Args:
        on: whether programs are kept.
    """
    global _switched_on
    _switched_on = on
    _loaded.clear()


def kept(function: FunctionT) -> FunctionT:
    """`equinox.filter_jit`, with the compiled program kept on disk where that is switched on.

    Arguments are given by position. Inside another program, on several devices or on a GPU, and for arguments of a
    package whose source is not hashed, it is `equinox.filter_jit` and nothing else.

    Args:
        function: what to compile.

    Returns:
        The compiled function.

    >>> float(kept(lambda x: 2 * x)(jax.numpy.ones(())))
    2.0
    """
    jitted = eqx.filter_jit(function)

    @functools.wraps(function)
    def call(*args: Any) -> Any:
        if not _switched_on:
            return jitted(*args)
        made_from = _made_from(function, args)
        if made_from is None:
            return jitted(*args)
        program = _found(function, args, made_from)
        arrays = [leaf for leaf in jax.tree.leaves(args) if eqx.is_array(leaf)]
        return jitted(*args) if program is None else program(*arrays)

    call.wrapped = function  # type: ignore[attr-defined]
    return call  # type: ignore[return-value]


def compile_ahead(function: Any, *args: Any) -> None:
    """Load or compile a program in a thread, beside whatever this one goes on to do.

    It does nothing where programs are not kept.

    Args:
        function: what `kept` returned.
        args: arguments of the structure, shapes and types of the call that will come; their numbers do not count.
    """
    if not _switched_on or (made_from := _made_from(function.wrapped, args)) is None:
        return
    if made_from not in _loaded:
        run = contextvars.copy_context().run  # whoever counts programs here counts it
        _threads().submit(run, _found, function.wrapped, args, made_from)


def _found(function: Callable[..., Any], args: Any, made_from: bytes) -> Callable[..., Any] | None:
    """The program, loaded or compiled by the first thread that asks for it; the others wait."""
    with _lock:
        first = made_from not in _loaded
        future = _loaded.setdefault(made_from, Future())
    if first:
        try:
            future.set_result(_program(function, args, made_from))
        except BaseException as error:
            del _loaded[made_from]
            future.set_exception(error)
    return future.result()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "compile-ahead")


def _made_from(function: Callable[..., Any], args: Any) -> bytes | None:
    """What a program is made from, apart from its surroundings; None where it cannot be kept."""
    leaves, structure = jax.tree.flatten(args)
    if any(isinstance(leaf, Tracer) for leaf in leaves) or not _one_processor():
        return None
    shapes = [_shape(leaf) if eqx.is_array(leaf) else leaf for leaf in leaves]
    try:
        return _pickled((function.__module__, function.__qualname__, jax.tree.unflatten(structure, shapes)))
    except (pickle.PicklingError, TypeError, AttributeError):  # a lambda, or a class that is not our own
        return None


class _Shape(str):
    """Stands for an array of this shape and type."""


class _Place(int):
    """Stands for one of the arrays that a program returns."""


def _shape(array: Any) -> _Shape:
    return _Shape(f"{array.dtype}{array.shape}{getattr(array, 'weak_type', False)}")


class _OfKnownSource(pickle.Pickler):
    """Writes nothing whose code could change without the name of a program changing."""

    def persistent_id(self, obj: Any) -> None:
        module = getattr(obj, "__module__", None) if isinstance(obj, type) or callable(obj) else None
        if module is not None and not (module.startswith(_OWN) or module.partition(".")[0] in _OTHERS):
            raise pickle.PicklingError(f"{obj!r} is of {module}")


def _pickled(tree: Any) -> bytes:
    file = io.BytesIO()
    _OfKnownSource(file, protocol=5).dump(tree)
    return file.getvalue()


def _one_processor() -> bool:
    devices = jax.devices()
    return len(devices) == 1 and devices[0].platform == "cpu"


@functools.cache
def _surroundings() -> bytes:
    """What a program depends on beside its function and arguments."""
    import jaxlib.version
    import optax

    features = ""
    with contextlib.suppress(OSError), open("/proc/cpuinfo") as lines:
        features = next((line for line in lines if line.startswith("flags")), "")
    names = ("enable_x64", "default_matmul_precision", "default_prng_impl", "threefry_partitionable")
    settings = [getattr(jax.config, f"jax_{name}", None) for name in names]
    made_by = [numerics(), jax.__version__, jaxlib.version.__version__, eqx.__version__, optax.__version__]
    machine = [processor(), features, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0]
    return repr([made_by, machine, settings, os.environ.get("XLA_FLAGS")]).encode()


def _folder() -> Path | None:
    folder = getattr(jax.config, "jax_compilation_cache_dir", None)
    return None if folder is None else Path(folder) / "kept"


def _program(function: Callable[..., Any], args: Any, made_from: bytes) -> Callable[..., Any] | None:
    """The program from disk, or compiled and written there; None where it cannot be kept."""
    folder = _folder()
    if folder is None:
        return None
    file = folder / hashlib.sha256(_surroundings() + made_from).hexdigest()
    with contextlib.suppress(Exception):  # whatever is wrong with a file: the program is made again
        return _load(file.read_bytes())
    return _make(function, args, file)


def _load(content: bytes) -> Callable[..., Any]:
    from jax.experimental.serialize_executable import deserialize_and_load

    digest, payload = content[:32], content[32:]
    if hashlib.sha256(payload).digest() != digest:
        raise ValueError("damaged")
    executable, inputs, result, outputs = pickle.loads(payload)
    with count_kept():
        trees = jax.tree.structure(((0,) * inputs, {})), jax.tree.structure([0] * outputs)
        compiled = deserialize_and_load(executable, *trees)
    return functools.partial(_call, compiled, result)


def _call(compiled: Any, result: Any, *arrays: Any) -> Any:
    returned = compiled(*arrays)
    return jax.tree.map(lambda leaf: returned[leaf] if isinstance(leaf, _Place) else leaf, result)


@contextlib.contextmanager
def _written_here() -> Iterator[None]:
    """Keep JAX from writing what is compiled in the block into its cache."""
    global _compiling
    with _lock:
        _compiling += 1
        jax.config.update(_LEAST, 1e9)
    try:
        yield
    finally:
        with _lock:
            _compiling -= 1
            if not _compiling:
                jax.config.update(_LEAST, 0.0)  # as `jax_settings` sets it


def _make(function: Callable[..., Any], args: Any, file: Path) -> Callable[..., Any] | None:
    from jax.experimental.serialize_executable import serialize

    leaves, structure = jax.tree.flatten(args)
    places = [index for index, leaf in enumerate(leaves) if eqx.is_array(leaf)]
    result: Any = None

    def flat(*arrays: Any) -> list[Any]:
        nonlocal result
        given = dict(zip(places, arrays, strict=True))
        whole = [given.get(index, leaf) for index, leaf in enumerate(leaves)]
        returned, shape = jax.tree.flatten(function(*jax.tree.unflatten(structure, whole)))
        found = [leaf for leaf in returned if eqx.is_array(leaf)]
        counter = iter(range(len(found)))
        result = jax.tree.unflatten(shape, [_Place(next(counter)) if eqx.is_array(a) else a for a in returned])
        return found

    # A program that came out of JAX's cache cannot be written again (XLA loses its functions), so it gets a name that
    # is not there, and JAX does not write it.
    flat.__name__ = f"{function.__name__}_{file.name[:16]}"
    lowered = jax.jit(flat).lower(*(leaves[index] for index in places))
    with _written_here(), compile_meter() as spent:
        compiled = lowered.compile()
    try:
        if spent.cache_hits:
            return functools.partial(_call, compiled, result)
        executable, _, outputs = serialize(compiled)
        payload = pickle.dumps((executable, len(places), result, outputs.num_leaves), protocol=5)
        with new_file(file) as temporary:
            temporary.write_bytes(hashlib.sha256(payload).digest() + payload)
    except Exception:  # a program with constants, a full disk: this process has it all the same
        pass
    return functools.partial(_call, compiled, result)
