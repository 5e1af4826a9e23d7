"""Generated programs as machine code: translated (`translate`), optimized by LLVM, kept on disk, called with arrays.

llvmlite comes with Numba. A program takes a tenth of the time that Numba takes for it, and a process that finds it on
disk imports nothing but llvmlite.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...core.atomic import new_file
from ...core.jax_settings import compile_cache_dir
from ...core.provenance import numerics
from .signatures import Parameter, read_signature

_loaded: dict[str, Callable[..., None]] = {}
_engines: list[Any] = []  # code lives as long as they do
_lock = threading.Lock()


def load_entry(source: str, *, apart: bool = False) -> Callable[..., None]:
    """The entry of a generated program, the last function in it, compiled.

    Args:
        source: of `programs.run_source`, `programs.flow_source` or `programs.block_source`.
        apart: whether the functions that it calls stay functions. A block of runs has no register to spare for what the
            compiler would keep there from one call to the next; a single run is faster in one piece.

    Returns:
        A function of arrays, which must be contiguous and of the types of its signature, and numbers. It lets other
        threads run, and is the same one for the same source.
    """
    name = f"iclearn_{hashlib.sha256(f'{apart} {source}'.encode()).hexdigest()[:24]}"
    with _lock:
        if name not in _loaded:
            _loaded[name] = _entry(name, source, apart)
        return _loaded[name]


def _entry(name: str, source: str, apart: bool) -> Callable[..., None]:
    import llvmlite.binding as llvm

    folder = compile_cache_dir()
    file = None if folder is None else folder / "machine-code" / hashlib.sha256(_made_by() + name.encode()).hexdigest()
    code = None if file is None else _read(file)
    if code is None:
        code = _compiled(name, source, apart)
        if file is not None:
            with contextlib.suppress(OSError), new_file(file) as temporary:  # a read-only home is no reason to fail
                temporary.write_bytes(hashlib.sha256(code).digest() + code)
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target())
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    called, parameters = read_signature(source)
    return _callable(engine.get_function_address(called), parameters)


def _callable(address: int, parameters: list[Parameter]) -> Callable[..., None]:
    """The function at an address."""
    numbers = {"int64": ctypes.c_int64, "float64": ctypes.c_double, "float32": ctypes.c_float}
    types: list[Any] = []
    for kind, axes in parameters:
        types += [ctypes.c_void_p, *[ctypes.c_int64] * axes] if axes else [numbers[kind]]
    function = ctypes.CFUNCTYPE(None, *types)(address)

    def call(*given: Any) -> None:
        words: list[Any] = []
        for (kind, axes), value in zip(parameters, given, strict=True):
            if not axes:
                words.append(value.item() if isinstance(value, np.generic) else value)
                continue
            if value.dtype.name != kind or not value.flags.c_contiguous or value.ndim != axes:
                raise TypeError(f"an array of {kind} with {axes} axes is needed, not {value.dtype}{list(value.shape)}")
            words += [value.ctypes.data, *value.shape]
        function(*words)

    return call


@functools.cache
def _target() -> Any:
    """The processor of this machine."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features, triple = llvm.get_host_cpu_features().flatten(), llvm.get_default_triple()
    if triple.startswith("x86_64"):  # to read numbers that lie apart by one instruction is slower than one by one
        features += ",+prefer-no-gather,+prefer-no-scatter"
    found = llvm.Target.from_triple(triple)
    return found.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=3, jit=True)


@functools.cache
def _made_by() -> bytes:
    """What machine code depends on beside its source."""
    import llvmlite.binding as llvm
    from llvmlite import __version__

    cpu = f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
    return f"{numerics()} {__version__} {llvm.llvm_version_info} {llvm.get_default_triple()} {cpu}".encode()


def _compiled(name: str, source: str, apart: bool) -> bytes:
    """The object code of a program."""
    import llvmlite.binding as llvm

    from .translate import translated

    module = translated(source, name, apart=apart)
    module.triple, module.data_layout = llvm.get_default_triple(), str(_target().target_data)
    parsed = llvm.parse_assembly(str(module))
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization = options.slp_vectorization = True
    builder = llvm.create_pass_builder(_target(), options)
    builder.getModulePassManager().run(parsed, builder)
    return _target().emit_object(parsed)


def _read(file: Path) -> bytes | None:
    """The code in a file; None where there is none, or a damaged one."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return content[32:] if hashlib.sha256(content[32:]).digest() == content[:32] else None
