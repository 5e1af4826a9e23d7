"""The text a language model is given: an instruction, scored pairs, and the pair to score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .stsb import Pair

SCALE = (0, 1, 2, 3, 4, 5)
_TASK = "Rate how similar in meaning two sentences are, from 0 (unrelated) to 5 (the same meaning)."
INSTRUCTION = f"{_TASK} Answer with one number.\n\n"
ANSWER = "Score:"


@dataclass(frozen=True)
class Shot:
    """A scored pair shown in the prompt, with or without a guess. For an example see `build_prompt`."""

    pair: Pair
    guess: float | None = None


def whole(score: float) -> int:
    """The nearest mark of the scale; halves go up.

    >>> whole(2.5), whole(4.4)
    (3, 4)
    """
    return int(np.clip(np.floor(score + 0.5), SCALE[0], SCALE[-1]))


def question(pair: Pair, guess: float | None) -> str:
    """One pair up to the place where its score belongs; the guess, with one decimal, on a line of its own."""
    line = "" if guess is None else f"Initial guess: {guess:.1f}\n"
    return f"Sentence 1: {pair.first}\nSentence 2: {pair.second}\n{line}{ANSWER}"


def build_prompt(shots: Sequence[Shot], query: Pair, guess: float | None = None) -> str:
    """The prompt: instruction, shots, query. Scores are written as whole marks, so that one token answers.

    Args:
        shots: scored pairs.
        query: the pair to score.
        guess: an initial guess for it, written with one decimal; None for none.

    >>> print(build_prompt([Shot(Pair("A cat.", "A dog.", 1.2), 2.0)], Pair("It rains.", "Rain falls.", 5.0), 4.52))
    Rate how similar in meaning two sentences are, from 0 (unrelated) to 5 (the same meaning). Answer with one number.
    <BLANKLINE>
    Sentence 1: A cat.
    Sentence 2: A dog.
    Initial guess: 2.0
    Score: 1
    <BLANKLINE>
    Sentence 1: It rains.
    Sentence 2: Rain falls.
    Initial guess: 4.5
    Score:
    """
    shown = "".join(f"{question(shot.pair, shot.guess)} {whole(shot.pair.score)}\n\n" for shot in shots)
    return f"{INSTRUCTION}{shown}{question(query, guess)}"
