"""Frozen features of a sentence pair, for guess models: |u − v|, u∘v and the cosine of two sentence vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..core.errors import IclearnError
from .extra import need, package_file
from .stsb import Pair


@runtime_checkable
class Embedder(Protocol):
    """Anything that turns sentences into vectors."""

    @property
    def identity(self) -> str: ...

    def embed(self, sentences: Sequence[str]) -> np.ndarray: ...


class StaticEmbeddings:
    """Mean of static token vectors, as the package wordllama carries them (32000 tokens, 256 numbers each).

    Args:
        weights: safetensors file with one matrix, tokens by numbers.
        tokenizer: the file of its tokenizer, as the package tokenizers writes it.
    """

    def __init__(self, weights: str | Path | None = None, tokenizer: str | Path | None = None) -> None:
        weights = Path(weights or package_file("wordllama", "weights/l2_supercat_256.safetensors"))
        tokenizer = Path(tokenizer or package_file("wordllama", "tokenizers/l2_supercat_tokenizer_config.json"))
        self._tokenizer: Any = need("tokenizers").Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        tensors = need("safetensors.numpy").load_file(str(weights))
        matrices = [t for t in tensors.values() if t.ndim == 2]
        if len(matrices) != 1:
            raise IclearnError(f"{weights} holds {len(matrices)} matrices; static embeddings are one")
        self._vectors = matrices[0].astype(np.float32)
        self.identity = f"{weights.name} {hashlib.sha256(weights.read_bytes()).hexdigest()[:16]}"

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """One vector for each sentence."""
        out = np.zeros((len(sentences), self._vectors.shape[1]), np.float32)
        for row, coded in enumerate(self._tokenizer.encode_batch(list(sentences), add_special_tokens=False)):
            if coded.ids:
                out[row] = self._vectors[coded.ids].mean(0)
        return out


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[|u − v|, u∘v, cos(u, v)] of unit vectors u, v; a zero vector stays zero.

    >>> pair_features(np.array([[3.0, 0.0]]), np.array([[0.0, 2.0]])).tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0]]
    """
    u, v = _unit(first), _unit(second)
    return np.concatenate([np.abs(u - v), u * v, (u * v).sum(-1, keepdims=True)], axis=-1)


def _unit(x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(size > 0, size, 1)


def features_of(embedder: Embedder, pairs: Sequence[Pair]) -> np.ndarray:
    """Features of pairs; every sentence is embedded once."""
    sentences = {text: None for pair in pairs for text in (pair.first, pair.second)}
    index = {text: i for i, text in enumerate(sentences)}
    vectors = embedder.embed(list(sentences))
    first = vectors[[index[pair.first] for pair in pairs]]
    second = vectors[[index[pair.second] for pair in pairs]]
    return pair_features(first, second)


def stored_features(embedder: Embedder, pairs: Sequence[Pair], digest: str, folder: Path) -> np.ndarray:
    """`features_of`, kept in `folder` under the embedder's identity and the digest of the pairs."""
    from .tensors import read_tensors, write_tensors

    name = hashlib.sha256(f"{embedder.identity} {digest}".encode()).hexdigest()[:16]
    path = folder / f"features-{name}.safetensors"
    if path.is_file():
        return read_tensors(path, ("features",))["features"]
    found = features_of(embedder, pairs)
    write_tensors(path, {"features": found})
    return found
