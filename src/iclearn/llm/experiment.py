"""The experiment of xie2025, section 5.3: a language model scores sentence pairs, with and without an initial guess."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..core.errors import IclearnError
from .conditions import Condition, Guesser, condition
from .extra import generator
from .guess import BATCH, EMBEDDERS, EPOCHS, LEARNING_RATE, Embedder, stored_features, train_head
from .load import identity_of, load_model
from .prompts import SCALE, WORDINGS, Shot, build_prompt
from .replies import LanguageModel, Read, Reply, ReplyCache, ask, check_readable
from .stsb import Pair, load_split

if TYPE_CHECKING:
    import xarray as xr

POOL = 500  # training rows kept for examples; the guess models never see them
FIT = 400  # development rows kept to fit combinations of guess and unaided answer on
Examples = Literal["fresh", "shared"]


class Experiment:
    """Data, guess models and prompts. A language model is loaded when a reply is missing.

    It needs the STS-Benchmark's files. ``iclearn reproduce xie2025-llm --stsb DIR`` runs it; its parts have examples of
    their own: `load_split`, `pair_features`, `Head`, `Guesser`, `build_prompt`, `ask`, `bootstrap`.

    Args:
        stsb: folder of the original STS-Benchmark files, or a hub id.
        folder: where replies and features are kept.
        split: whose pairs are scored: ``dev`` or ``test``.
        pairs: how many of them, drawn once, the same for every condition and model; None for all. As many other
            development pairs, at most 400, are kept to fit combinations on.
        examples: ``fresh`` ones for each pair, or ``shared`` by all (one prefix, computed once).
        read: answers as the expectation over the ``scale``'s tokens, or parsed from ``text``.
        backend: what runs a model on this machine: ``auto``, ``torch`` or ``llama.cpp``.
        dtype: precision of a model that torch runs; ``auto`` is bfloat16 on a GPU and float32 elsewhere.
        device: ``auto``, ``cpu`` or ``gpu``, for a model on this machine.
        server_model: the model's name on a server.
    """

    def __init__(
        self, stsb: str, folder: str | Path, *, split: str = "dev", pairs: int | None = None,
        examples: Examples = "fresh", read: Read = "scale", backend: str = "auto", dtype: str = "auto",
        device: str = "auto", server_model: str | None = None,
    ) -> None:  # fmt: skip
        self.folder, self.examples = Path(folder), examples
        self.read: Read = read
        self.how: dict[str, Any] = {"backend": backend, "dtype": dtype, "device": device, "server_model": server_model}
        self.splits = {name: load_split(stsb, name) for name in dict.fromkeys(("train", "dev", split))}
        self.split = split
        order = generator(0, "pairs").permutation(len(self.splits["dev"].pairs))
        scored = order[:-FIT] if split == "dev" else generator(0, "pairs").permutation(len(self.splits[split].pairs))
        if pairs is not None and pairs > len(scored):
            kept = f" ({FIT} of its pairs are kept to fit combinations on)" if split == "dev" else ""
            raise IclearnError(f"--pairs {pairs}, but the {split} split has {len(scored)} to score{kept}")
        self.rows = np.sort(scored[:pairs])
        self.fit_rows = np.sort(order[-FIT:][: len(self.rows)])
        self.guesser = lru_cache(maxsize=None)(self._guesser)
        self.embedder = lru_cache(maxsize=None)(lambda source: EMBEDDERS[source]())

    def parameters(self, model: str, sources: Sequence[str]) -> dict[str, Any]:
        """Everything that determines the answers of a model, as plain values.

        Args:
            model: the one that answers.
            sources: of guesses that are trained: ``trained``, ``gte``.
        """
        probes = [
            build_prompt([Shot(Pair("a", "b", 1.0), 1.0)], Pair("c", "d", 1.0), 1.0, wording) for wording in WORDINGS
        ]
        return {
            "data": {name: split.digest for name, split in self.splits.items()}, "split": self.split,
            "pairs": len(self.rows), "model": identity_of(model, **self.how),
            "features": {source: self.embedder(source).identity for source in sources},
            "head": [LEARNING_RATE, EPOCHS, BATCH, POOL], "read": self.read, "examples": self.examples,
            "prompts": hashlib.sha256("\0".join(probes).encode()).hexdigest()[:16],
        }  # fmt: skip

    def pool(self, seed: int) -> np.ndarray:
        """Rows of the training split that examples are drawn from."""
        return generator(seed, "pool").permutation(len(self.splits["train"].pairs))[:POOL]

    def _guesser(self, seed: int) -> Guesser:
        train = self.splits["train"]
        rows = np.setdiff1d(np.arange(len(train.pairs)), self.pool(seed))  # the examples stay out of the training

        @cache
        def trained(source: str) -> dict[str, np.ndarray]:
            embedder: Embedder = self.embedder(source)
            features = {s.name: stored_features(embedder, s.pairs, s.digest, self.folder) for s in self.splits.values()}
            head = train_head(features["train"][rows], train.scores[rows], seed=seed)
            return {name: head(values) for name, values in features.items()}

        scores = {name: split.scores for name, split in self.splits.items()}
        return Guesser(
            seed, float(train.scores[rows].mean()), lambda source, s, row: float(trained(source)[s][row]),
            lambda s, row: float(scores[s][row]),
        )  # fmt: skip

    def guesses(self, seed: int, how: Condition, split: str, rows: np.ndarray) -> np.ndarray:
        """The guesses of these rows, NaN for none."""
        found = [self.guesser(seed).guess(how, split, int(row)) for row in rows]
        return np.array([np.nan if guess is None else guess for guess in found])

    def prompts(self, seed: int, how: Condition, shots: int, *, wording: str = "plain", fit: bool = False) -> list[str]:
        """The prompts of a condition, one for each pair.

        A pair sees the same examples in every condition, and the first of them when there are fewer.

        Args:
            seed: of examples, guesses and noise.
            how: the condition.
            shots: scored examples in a prompt.
            wording: of the prompt.
            fit: for the pairs that combinations are fitted on, instead of those that are scored.
        """
        split, rows = ("dev", self.fit_rows) if fit else (self.split, self.rows)
        guesser, pool, train = self.guesser(seed), self.pool(seed), self.splits["train"].pairs
        stream = "shots" if split == "dev" else f"shots {split}"
        prompts = []
        for row in map(int, rows):
            order = generator(seed, stream, 0 if self.examples == "shared" else row).permutation(POOL)[:shots]
            given = [(r, guesser.guess(how, "train", r) if how.in_shots else None) for r in map(int, pool[order])]
            shown = [Shot(train[r], value) for r, value in given]
            query = self.splits[split].pairs[row]
            prompts.append(build_prompt(shown, query, guesser.guess(how, split, row), wording))
        return prompts

    def run(
        self, model: str, seeds: Sequence[int], conditions: Sequence[str], *, shots: Sequence[int] = (10,),
        wordings: Sequence[str] = ("plain",), fit: bool = False, say: Callable[[str], None] = lambda text: None,
    ) -> xr.Dataset:  # fmt: skip
        """Ask for a score of every pair under every condition.

        Args:
            model: which one.
            seeds: of guess models, examples and random guesses.
            conditions: ways to give a guess.
            shots: numbers of scored examples in the prompt.
            wordings: of the prompt.
            fit: whether the model also scores the pairs that combinations are fitted on, without a guess.
            say: called with what is being done.

        Returns:
            ``answer``, the likeliest ``mark`` and the ``probability`` of each over (seed, shots, wording, condition,
            pair), ``guess`` over (seed, condition, pair), ``score`` over pair, ``mean`` over seed, and for the pairs of
            a fit ``fit_answer``, ``fit_guess`` and ``fit_score``. An answer that holds no number counts as the training
            mean; the attribute ``unread`` says how many do.
        """
        import xarray as xr

        say("guess models")
        hows = [condition(name) for name in conditions]
        cells = [*product(seeds, shots, wordings, hows)]
        asked = [self.prompts(seed, how, n, wording=wording) for seed, n, wording, how in cells]
        if fit:
            asked += [self.prompts(seed, condition("none"), max(shots), fit=True) for seed in seeds]
        identity = identity_of(model, **self.how)
        loaded: list[LanguageModel] = []

        def load() -> LanguageModel:
            if not loaded:
                say(f"loading {model}")
                loaded.append(load_model(model, **self.how))
            return loaded[0]

        cache, tell = ReplyCache(self.folder, identity), _time_left(f"{model}: prompts", len(asked), say)
        try:
            tables = [
                ask(load, prompts, cache, read=self.read, progress=partial(tell, number))
                for number, prompts in enumerate(asked)
            ]
        finally:
            cache.close()
        check_readable([reply for table in tables for reply in table])
        shape = (len(seeds), len(shots), len(wordings), len(hows), len(self.rows))
        scored, fitted = tables[: len(cells)], tables[len(cells) :]
        means = np.array([self.guesser(seed).mean for seed in seeds])
        values = np.array([[reply.value for reply in table] for table in scored]).reshape(shape)
        lost = np.isnan(values)
        values = np.where(lost, means[:, None, None, None, None], values)
        dims = ("seed", "shots", "wording", "condition", "pair")
        arrays: dict[str, Any] = {
            "answer": (dims, values),
            "mark": (dims, np.array([[reply.mark for reply in table] for table in scored]).reshape(shape)),
            "probability": ((*dims, "of"), np.array([[_scale(r) for r in table] for table in scored], np.float32)
                            .reshape(*shape, len(SCALE))),
            "guess": (("seed", "condition", "pair"),
                      np.array([[self.guesses(s, how, self.split, self.rows) for how in hows] for s in seeds])),
            "score": ("pair", self.splits[self.split].scores[self.rows]),
            "mean": ("seed", means),
        }  # fmt: skip
        if fit:
            own = np.array([[reply.value for reply in table] for table in fitted])
            arrays |= {
                "fit_answer": (("seed", "fit"), np.where(np.isnan(own), means[:, None], own)),
                "fit_guess": (("seed", "condition", "fit"),
                              np.array([[self.guesses(s, how, "dev", self.fit_rows) for how in hows] for s in seeds])),
                "fit_score": ("fit", self.splits["dev"].scores[self.fit_rows]),
            }  # fmt: skip
        labels = (list(seeds), list(shots), list(wordings), [how.id for how in hows], self.rows)
        device = loaded[0].device if loaded else ""
        attrs = {"identity": identity, "device": device, "unread": int(lost.sum()), "split": self.split}
        return xr.Dataset(arrays, dict(zip(dims, labels, strict=True)), attrs)


def _scale(reply: Reply) -> tuple[float, ...]:
    return reply.scale if reply.scale is not None else (np.nan,) * len(SCALE)


def _time_left(what: str, parts: int, say: Callable[[str], None]) -> Callable[[int, int, int], None]:
    """Progress over parts of equal size, with the time left at the speed so far."""
    begun: list[tuple[float, float]] = []

    def progress(part: int, done: int, total: int) -> None:
        share, now = (part + done / total) / parts, time.monotonic()
        begun[1:] = []
        begun.append((now, share))
        gone, taken = share - begun[0][1], now - begun[0][0]
        left = f", {taken / gone * (1 - share) / 60:.0f} min left" if gone > 0 else ""
        say(f"{what}, {share:.0%}{left}")

    return progress
