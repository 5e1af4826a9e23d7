"""The experiment of xie2025, section 5.3: a language model scores sentence pairs, with and without an initial guess."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.errors import IclearnError
from .conditions import Condition, Guesser
from .extra import generator
from .guess import BATCH, EPOCHS, LEARNING_RATE, Head, StaticEmbeddings, stored_features, train_head
from .load import DTYPES, identity_of, load_model
from .prompts import Shot, build_prompt
from .replies import LanguageModel, ReplyCache, ask, check_readable
from .stsb import Pair, load_split

if TYPE_CHECKING:
    import xarray as xr

POOL = 500  # training rows kept for shots; the guess model never sees them


@dataclass(frozen=True)
class Options:
    """What `iclearn reproduce xie2025-llm` is given.

    Args:
        stsb: folder of the original STS-Benchmark files, or a hub id.
        pairs: how many pairs of the dev split are scored, drawn once, the same for every condition.
        model: ``smollm2``, ``llama3.1-8b``, ``qwen2.5-7b``, a GGUF file, a folder, a hub id, or a server's URL.
        shots: scored examples in a prompt.
        features: what the guess model reads: ``static`` embeddings, or the language model's ``hidden`` states.
        read: answers as the expectation over the ``scale``'s tokens, or parsed from ``text``.
        dtype: precision of a model on this machine.
        batch_size: prompts run at once on this machine.
        shared_shots: the same shots for every pair (one prefix, computed once) instead of fresh ones.
        server_model: the model's name on the server.
        device: ``auto``, ``cpu`` or ``gpu``, for a model on this machine.

    >>> Options.of({"stsb": "stsb", "pairs": 50, "shots": None}).shots
    10
    """

    stsb: str
    pairs: int = 200
    model: str = "smollm2"
    shots: int = 10
    features: str = "static"
    read: str = "scale"
    dtype: str = "float32"
    batch_size: int = 16
    shared_shots: bool = False
    server_model: str | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, least in (("pairs", 3), ("shots", 0), ("batch_size", 1)):
            if getattr(self, name) < least:
                raise IclearnError(f"--{name.replace('_', '-')} must be at least {least}, not {getattr(self, name)}")
        for name, allowed in (("features", ("static", "hidden")), ("read", ("scale", "text")), ("dtype", DTYPES)):
            if getattr(self, name) not in allowed:
                raise IclearnError(f"--{name} must be one of {', '.join(allowed)}, not {getattr(self, name)!r}")

    @classmethod
    def of(cls, given: dict[str, Any]) -> Options:
        """Options from a table in which None means not given; unknown names are left out. The benchmark is needed."""
        if given.get("stsb") is None:
            where = "--stsb DIR, the folder with sts-train.csv and sts-dev.csv, or a hub id"
            raise IclearnError(f"name the STS-Benchmark: {where} such as mteb/stsbenchmark-sts")
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in given.items() if name in known and value is not None})


class Experiment:
    """Data, guess models and prompts for given options. The language model is loaded when a reply is missing.

    It needs the STS-Benchmark's files. ``iclearn reproduce xie2025-llm --stsb DIR`` runs it; its parts have examples of
    their own: `load_split`, `pair_features`, `Head`, `Guesser`, `build_prompt`, `ask`, `bootstrap`.

    Args:
        options: what to do.
        folder: where replies, features and guess models are kept.
    """

    def __init__(self, options: Options, folder: str | Path) -> None:
        self.options, self.folder = options, Path(folder)
        self.train, self.dev = load_split(options.stsb, "train"), load_split(options.stsb, "dev")
        if options.pairs > len(self.dev.pairs):
            raise IclearnError(f"--pairs {options.pairs}, but the dev split has {len(self.dev.pairs)}")
        if options.shots > POOL:
            raise IclearnError(f"--shots {options.shots}, but only {POOL} training pairs are kept for shots")
        self.rows = np.sort(generator(0, "pairs").permutation(len(self.dev.pairs))[: options.pairs])
        self.model_identity = identity_of(options.model, options.dtype, options.server_model)
        self._loaded: LanguageModel | None = None
        self.embedder: Any = StaticEmbeddings() if options.features == "static" else _Hidden(self)
        self.guesser = lru_cache(maxsize=None)(self._guesser)

    def parameters(self) -> dict[str, Any]:
        """Everything that determines the results, as plain values."""
        probe = build_prompt([Shot(Pair("a", "b", 1.0), 1.0)], Pair("c", "d", 1.0), 1.0)
        o = self.options
        return {
            "data": [self.train.digest, self.dev.digest], "pairs": o.pairs, "model": self.model_identity,
            "features": self.embedder.identity, "head": [LEARNING_RATE, EPOCHS, BATCH, POOL], "read": o.read,
            "shared_shots": o.shared_shots, "prompt": hashlib.sha256(probe.encode()).hexdigest()[:16],
        }  # fmt: skip

    def model(self) -> LanguageModel:
        """The language model, loaded at the first call."""
        if self._loaded is None:
            o = self.options
            self._loaded = load_model(
                o.model, dtype=o.dtype, device=o.device, batch_size=o.batch_size, server_model=o.server_model
            )
        return self._loaded

    @property
    def device(self) -> str:
        """Where replies were computed; empty when all were known already."""
        return self._loaded.device if self._loaded is not None else ""

    @cached_property
    def features(self) -> dict[str, np.ndarray]:
        """Split → features of its pairs, (pair, feature)."""
        splits = (self.train, self.dev)
        return {s.name: stored_features(self.embedder, s.pairs, s.digest, self.folder) for s in splits}

    def pool(self, seed: int) -> np.ndarray:
        """Rows of the training split that shots are drawn from."""
        return generator(seed, "pool").permutation(len(self.train.pairs))[:POOL]

    def _training_rows(self, seed: int) -> np.ndarray:
        """Rows of the training split that the guess model learns from: those outside the pool."""
        return np.setdiff1d(np.arange(len(self.train.pairs)), self.pool(seed))

    def head(self, seed: int) -> Head:
        """The guess model of a seed, trained on the rows outside the pool; kept as safetensors."""
        identity = f"{self.embedder.identity} {self.train.digest} {seed} {self.parameters()['head']}"
        path = self.folder / f"guess-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.safetensors"
        if path.is_file():
            return Head.load(path)
        rows = self._training_rows(seed)
        head = train_head(self.features["train"][rows], self.train.scores[rows], seed=seed)
        head.save(path)
        return head

    def _guesser(self, seed: int) -> Guesser:
        head = self.head(seed)
        trained = {name: head(values) for name, values in self.features.items()}
        scores = {split.name: split.scores for split in (self.train, self.dev)}
        mean = float(self.train.scores[self._training_rows(seed)].mean())
        return Guesser(seed, mean, lambda s, row: float(trained[s][row]), lambda s, row: float(scores[s][row]))

    def prompts(self, seed: int, how: Condition, shots: int) -> tuple[list[str], np.ndarray]:
        """The prompts of a condition, one for each pair, and the guesses in them (NaN for none).

        A pair sees the same shots in every condition, and the first of them when there are fewer.
        """
        guesser, pool = self.guesser(seed), self.pool(seed)
        prompts, guesses = [], []
        for row in map(int, self.rows):
            order = generator(seed, "shots", 0 if self.options.shared_shots else row).permutation(POOL)[:shots]
            given = [(r, guesser.guess(how, "train", r) if how.in_shots else None) for r in map(int, pool[order])]
            guess = guesser.guess(how, "dev", row)
            shown = [Shot(self.train.pairs[r], value) for r, value in given]
            prompts.append(build_prompt(shown, self.dev.pairs[row], guess))
            guesses.append(np.nan if guess is None else guess)
        return prompts, np.array(guesses)

    def run(
        self, seeds: Sequence[int], conditions: Sequence[Condition], shot_counts: Sequence[int],
        say: Callable[[str], None] = lambda text: None,
    ) -> xr.Dataset:  # fmt: skip
        """Ask for a score of every pair under every condition.

        Args:
            seeds: of guess models, shots and random guesses.
            conditions: ways to give a guess.
            shot_counts: numbers of scored examples in the prompt.
            say: called with what is being done.

        Returns:
            ``answer``, ``mark`` (the likeliest one) and ``guess`` over (seed, shots, condition, pair), and ``score``
            over pair. An answer that holds no number counts as the training mean; `unread` says how many do.
        """
        import xarray as xr

        cache = ReplyCache(self.folder, self.model_identity)
        shape = (len(seeds), len(shot_counts), len(conditions), len(self.rows))
        answer, mark, guess = np.empty((3, *shape))
        unread, total = 0, answer[..., 0].size
        read: Any = self.options.read
        try:
            for number, place in enumerate(np.ndindex(shape[:3]), start=1):
                seed, shots, how = seeds[place[0]], shot_counts[place[1]], conditions[place[2]]
                begin = f"{number}/{total}: {how.title}, {shots} shots"
                prompts, guess[place] = self.prompts(seed, how, shots)
                replies = ask(
                    self.model, prompts, cache, read=read,
                    progress=lambda n, of, begin=begin: say(f"{begin}, {n}/{of} prompts"),
                )  # fmt: skip
                check_readable(replies)
                values = np.array([reply.value for reply in replies])
                unread += int(np.isnan(values).sum())
                answer[place] = np.where(np.isnan(values), self.guesser(seed).mean, values)
                mark[place] = [reply.mark for reply in replies]
        finally:
            cache.close()
        dims = ("seed", "shots", "condition", "pair")
        arrays = {"answer": (dims, answer), "mark": (dims, mark), "guess": (dims, guess)}
        labels = (list(seeds), list(shot_counts), [how.id for how in conditions], self.rows)
        attrs = {"model": self.model_identity, "device": self.device, "unread": unread}
        score = {"score": ("pair", self.dev.scores[self.rows])}
        return xr.Dataset({**arrays, **score}, coords=dict(zip(dims, labels, strict=True)), attrs=attrs)


class _Hidden:
    """The language model's own hidden states as an embedder, loaded when first used."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self.identity = f"hidden states of {experiment.model_identity}"

    def embed(self, sentences: Sequence[str]) -> np.ndarray:
        embed = getattr(self._experiment.model(), "embed", None)
        if embed is None:
            raise IclearnError("a server gives no hidden states: use --features static")
        return embed(sentences)
