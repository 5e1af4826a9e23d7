"""Guess models: a linear head on frozen features of a pair of sentences.

The features of two sentence vectors u, v of length one are |u − v|, u∘v and their cosine. The head is trained as
section 5.3 of xie2025 says: Adam with learning rate 1e-3, squared error, 10 epochs, batches of 8. That the model is
linear in frozen features is our reading; the paper does not name its architecture.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from ..core.atomic import new_file
from ..core.errors import IclearnError
from .catalog import model_files, sha256_of
from .extra import need, package_file
from .stsb import HIGHEST, LOWEST, Pair

LEARNING_RATE, EPOCHS, BATCH = 1e-3, 10, 8


@runtime_checkable
class Embedder(Protocol):
    """Anything that turns sentences into vectors."""

    @property
    def identity(self) -> str:
        """What determines its vectors."""
        ...

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """One vector for each sentence: (sentence, number)."""
        ...


class StaticEmbeddings:
    """Mean of static token vectors, as the package wordllama carries them (32000 tokens, 256 numbers each).

    ``StaticEmbeddings().embed(["A cat sleeps."])`` is an array (1, 256); `pair_features` turns two of them into
    features.

    Args:
        weights: safetensors file with one matrix (token, number); None for that of the package.
        tokenizer: the file of its tokenizer, as the package tokenizers writes it; None for that of the package.
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
        self.identity = f"{weights.name} {sha256_of(weights)[:16]}"

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """One vector for each sentence: (sentence, number); zero for a sentence without tokens."""
        out = np.zeros((len(sentences), self._vectors.shape[1]), np.float32)
        for row, coded in enumerate(self._tokenizer.encode_batch(list(sentences), add_special_tokens=False)):
            if coded.ids:
                out[row] = self._vectors[coded.ids].mean(0)
        return out


class SentenceEncoder:
    """Mean of the last states of gte-small (384 numbers), run by ONNX Runtime; see `catalog.fetch` for its files.

    ``SentenceEncoder().embed(["A cat sleeps."])`` is an array (1, 384).

    Args:
        weights: the ONNX file; None for that of gte-small in the user's cache.
        vocabulary: its word pieces, one on each line; None for those of gte-small.
    """

    BATCH, TOKENS = 32, 512

    def __init__(self, weights: str | Path | None = None, vocabulary: str | Path | None = None) -> None:
        if weights is None or vocabulary is None:
            weights, vocabulary = model_files("gte-small")
        options = need("onnxruntime").SessionOptions()
        options.log_severity_level = 3
        self._session: Any = need("onnxruntime").InferenceSession(
            str(weights), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer: Any = need("tokenizers").BertWordPieceTokenizer(str(vocabulary), lowercase=True)
        self._tokenizer.enable_truncation(self.TOKENS)
        self.identity = f"{Path(weights).name} {sha256_of(Path(weights))[:16]}"

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        """One vector for each sentence: (sentence, number)."""
        coded = [coded.ids for coded in self._tokenizer.encode_batch(list(sentences))]
        order = np.argsort([len(ids) for ids in coded], kind="stable")
        rows: dict[int, np.ndarray] = {}
        for batch in np.array_split(order, max(1, -(-len(order) // self.BATCH))):
            width = max(len(coded[i]) for i in batch)
            ids = np.array([coded[i] + [0] * (width - len(coded[i])) for i in batch], np.int64)
            mask = np.array([[1] * len(coded[i]) + [0] * (width - len(coded[i])) for i in batch], np.int64)
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
            wanted = {node.name for node in self._session.get_inputs()}
            states = self._session.run(None, {name: given[name] for name in given if name in wanted})[0]
            means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
            rows |= dict(zip(map(int, batch), means, strict=True))
        return np.stack([rows[i] for i in range(len(coded))]).astype(np.float32)


EMBEDDERS = {"trained": StaticEmbeddings, "gte": SentenceEncoder}


def pair_features(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[|u − v|, u∘v, cos(u, v)] of two vectors scaled to length one; a zero vector stays zero.

    Args:
        first: vectors (…, number) before scaling.
        second: as many others.

    Returns:
        Features (…, 2·number + 1), the same for (first, second) and (second, first).

    >>> pair_features(np.array([[3.0, 0.0]]), np.array([[0.0, 2.0]])).tolist()
    [[1.0, 1.0, 0.0, 0.0, 0.0]]
    """
    u, v = _unit(first), _unit(second)
    return np.concatenate([np.abs(u - v), u * v, (u * v).sum(-1, keepdims=True)], axis=-1)


def _unit(x: np.ndarray) -> np.ndarray:
    size = np.linalg.norm(x, axis=-1, keepdims=True)
    return x / np.where(size > 0, size, 1)


def features_of(embedder: Embedder, pairs: Sequence[Pair]) -> np.ndarray:
    """Features of pairs: (pair, feature). Every sentence is embedded once."""
    sentences = list(dict.fromkeys(text for pair in pairs for text in (pair.first, pair.second)))
    row = {text: i for i, text in enumerate(sentences)}
    vectors = embedder.embed(sentences)
    return pair_features(vectors[[row[pair.first] for pair in pairs]], vectors[[row[pair.second] for pair in pairs]])


def stored_features(embedder: Embedder, pairs: Sequence[Pair], digest: str, folder: Path) -> np.ndarray:
    """`features_of`, kept in `folder` under the embedder's identity and the digest of the pairs."""
    path = folder / f"features-{hashlib.sha256(f'{embedder.identity} {digest}'.encode()).hexdigest()[:16]}.npy"
    with contextlib.suppress(FileNotFoundError, ValueError, EOFError):  # a damaged file is made again
        return np.load(path, allow_pickle=False)
    features = features_of(embedder, pairs)
    with new_file(path) as temporary:
        np.save(temporary, features)
    return features


@dataclass(frozen=True)
class Head:
    """A trained linear head: the score of features x is weight·(x − center)/spread + bias, cut to the scale.

    Args:
        weight: (feature,).
        bias: (1,).
        center: mean of the features in training, (feature,).
        spread: their standard deviation, (feature,).

    >>> head = Head(np.array([1.0, 0.5]), np.array([2.0]), center=np.zeros(2), spread=np.ones(2))
    >>> head(np.array([[1.0, 1.0], [4.0, 0.0]]))
    array([3.5, 5. ])
    """

    weight: np.ndarray
    bias: np.ndarray
    center: np.ndarray
    spread: np.ndarray

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Scores (…,) of features (…, feature)."""
        if features.shape[-1] != len(self.weight):
            raise IclearnError(f"this guess model reads {len(self.weight)} features, not {features.shape[-1]}")
        score = (features - self.center) / self.spread @ self.weight + self.bias
        return np.clip(score, LOWEST, HIGHEST).astype(np.float64)


def train_head(
    features: np.ndarray, scores: np.ndarray, *, seed: int = 0, learning_rate: float = LEARNING_RATE,
    epochs: int = EPOCHS, batch_size: int = BATCH,
) -> Head:  # fmt: skip
    """Fit a head by Adam on the squared error, starting at the mean score. What it returns is shown at `Head`.

    Args:
        features: (pair, feature).
        scores: (pair,).
        seed: orders the batches.
        learning_rate: of Adam.
        epochs: passes over the pairs.
        batch_size: pairs of a step.
    """
    if len(features) != len(scores) or not len(scores):
        raise IclearnError(f"a guess model needs as many features as scores, not {len(features)} and {len(scores)}")
    torch = need("torch")
    center = features.mean(0).astype(np.float32)
    spread = np.maximum(features.std(0), 1e-6).astype(np.float32)
    x = torch.from_numpy(((features - center) / spread).astype(np.float32))
    y = torch.from_numpy(scores.astype(np.float32))
    head = torch.nn.Linear(x.shape[1], 1)
    with torch.no_grad():
        head.weight.zero_()
        head.bias.fill_(float(scores.mean()))
    optimizer = torch.optim.Adam(head.parameters(), lr=learning_rate)
    order = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        for rows in torch.randperm(len(x), generator=order).split(batch_size):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(head(x[rows])[:, 0], y[rows]).backward()
            optimizer.step()
    return Head(head.weight.detach().numpy()[0].copy(), head.bias.detach().numpy().copy(), center, spread)
