"""Which model a name means, what determines its replies, and loading it once."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
from pathlib import Path
from typing import Any

from ..core.errors import IclearnError
from .catalog import CATALOG, model_files, sha256_of
from .llamacpp import LlamaCppModel
from .local import load_local, pick_device
from .replies import LanguageModel
from .server import ServerModel

NAMES = {"llama3.1-8b": "meta-llama/Llama-3.1-8B-Instruct", "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct"}
DTYPES = ("auto", "float32", "bfloat16", "float16")
BACKENDS = ("auto", "torch", "llama.cpp")


def resolve(name: str) -> str | Path:
    """The file, folder, hub id or URL behind a name.

    >>> resolve("qwen2.5-7b")
    'Qwen/Qwen2.5-7B-Instruct'
    """
    if name in CATALOG:
        return model_files(name)[0]
    if name in NAMES or _is_url(name):
        return NAMES.get(name, name)
    path = Path(name)
    if path.is_file() and path.suffix != ".gguf":
        raise IclearnError(f"{name} is no GGUF file: give one, a folder saved by transformers, a hub id or a URL")
    if path.exists():
        return path
    if name.endswith(".gguf") or name.count("/") != 1 or name.startswith((".", "/")):
        known = ", ".join((*CATALOG, *NAMES, "a GGUF file or folder that exists"))
        raise IclearnError(f"no model {name!r}: give {known}, a hub id (owner/name) or a URL")
    return name


def _is_url(source: str | Path) -> bool:
    return str(source).startswith(("http://", "https://"))


def how_to_run(source: str | Path, *, backend: str = "auto", dtype: str = "auto", device: str = "auto") -> str:
    """What runs a model on this machine: ``llama.cpp``, or the precision with which torch runs it.

    llama.cpp takes a GGUF file on a processor where it is installed. torch takes bfloat16 on a GPU and float32
    elsewhere, where no other precision is named.

    >>> how_to_run("Qwen/Qwen2.5-7B-Instruct", dtype="float16")
    'float16'
    """
    for what, value, allowed in (("dtype", dtype, DTYPES), ("backend", backend, BACKENDS)):
        if value not in allowed:
            raise IclearnError(f"--{what} must be one of {', '.join(allowed)}, not {value!r}")
    is_gguf = isinstance(source, Path) and source.suffix == ".gguf"
    if backend == "llama.cpp":
        if not is_gguf or dtype != "auto" or device == "gpu":
            raise IclearnError(
                "llama.cpp runs a GGUF file, as it is, on a processor: leave out --backend, or the others"
            )
        return backend
    on_gpu = device == "gpu" or (device == "auto" and _has_gpu())
    if backend == "auto" and is_gguf and dtype == "auto" and not on_gpu and importlib.util.find_spec("xllamacpp"):
        return "llama.cpp"
    return dtype if dtype != "auto" else "bfloat16" if on_gpu else "float32"


def _has_gpu() -> bool:
    return importlib.util.find_spec("torch") is not None and pick_device("auto") == "cuda"


def identity_of(
    name: str, *, backend: str = "auto", dtype: str = "auto", device: str = "auto", server_model: str | None = None
) -> str:
    """What determines a model's replies: a fingerprint of its files and what runs them, or its address."""
    source = resolve(name)
    if _is_url(source):
        return server(str(source), server_model).identity
    how = how_to_run(source, backend=backend, dtype=dtype, device=device)
    if isinstance(source, str):
        return f"hub {source} {how}"
    marked = fingerprint(source)
    named = (
        Path(file.path).name for model in CATALOG.values() for file in model.files if marked == file.sha256[0][:16]
    )
    return f"{next(named, source.name)} {marked} {how}"


def fingerprint(path: Path) -> str:
    """SHA-256 of a file; of a folder, over all of its small files, and both ends and the size of its large ones."""
    if path.is_file():
        return sha256_of(path)[:16]
    sha = hashlib.sha256()
    edge = 1 << 20
    for file in sorted(p for p in path.iterdir() if p.is_file()):
        size = file.stat().st_size
        sha.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as opened:
            sha.update(opened.read(edge))
            if size > edge:
                opened.seek(max(edge, size - edge))
                sha.update(opened.read(edge))
    return sha.hexdigest()[:16]


@functools.lru_cache(maxsize=1)
def server(url: str, name: str | None) -> ServerModel:
    """A server's model; the last one is kept, so that its name is asked for once."""
    return ServerModel(url, name)


_LOADED: dict[tuple[Any, ...], LanguageModel] = {}


def load_model(
    name: str, *, backend: str = "auto", dtype: str = "auto", device: str = "auto", server_model: str | None = None
) -> LanguageModel:
    """The model a name means; the last one loaded is kept.

    Args:
        name: a model of `catalog.CATALOG`, ``llama3.1-8b``, ``qwen2.5-7b``, a GGUF file, a folder saved by
            transformers, a hub id (owner/name) or the URL of a server.
        backend: ``auto``, ``torch`` or ``llama.cpp``, for a model on this machine.
        dtype: precision with which torch runs it; ``auto`` is bfloat16 on a GPU and float32 elsewhere.
        device: ``auto``, ``cpu`` or ``gpu``, for a model on this machine.
        server_model: the model's name on the server.

    Returns:
        A `LanguageModel`, which `ask` takes; there is an example.
    """
    key = (name, backend, dtype, device, server_model)
    if key not in _LOADED:
        for former in _LOADED.values():
            if isinstance(former, LlamaCppModel):
                former.close()
        _LOADED.clear()  # before the next one needs the memory
        source = resolve(name)
        if _is_url(source):
            return server(str(source), server_model)
        how = how_to_run(source, backend=backend, dtype=dtype, device=device)
        identity = identity_of(name, backend=backend, dtype=dtype, device=device)
        if how == "llama.cpp":
            _LOADED[key] = LlamaCppModel(Path(source), identity)
        else:
            _LOADED[key] = load_local(source, dtype=how, device=device, identity=identity)
    return _LOADED[key]
