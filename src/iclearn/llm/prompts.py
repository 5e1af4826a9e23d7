"""The text a language model is given: an instruction, scored pairs, and the pair to score; in three wordings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import IclearnError
from .stsb import Pair

SCALE = (0, 1, 2, 3, 4, 5)
ANSWER = "Score:"


@dataclass(frozen=True)
class Wording:
    """How a prompt is worded. For an example see `build_prompt`.

    Args:
        instruction: what the model is asked to do.
        on_guess: added to it where the prompt carries guesses.
        first: label of the first sentence.
        second: label of the second sentence.
        guess: label of the guess.
    """

    instruction: str
    on_guess: str
    first: str
    second: str
    guess: str


_TASK = "Rate how similar in meaning two sentences are, from 0 (unrelated) to 5 (the same meaning)."
WORDINGS = {
    "plain": Wording(f"{_TASK} Answer with one number.", "", "Sentence 1:", "Sentence 2:", "Initial guess:"),
    "helper": Wording(
        f"{_TASK} Answer with one number.", " A helper has estimated each score first; its estimates can be wrong.",
        "Sentence 1:", "Sentence 2:", "Estimate of the helper:",
    ),
    "question": Wording(
        "Do these two sentences say the same? 5 means yes, completely; 0 means that they have nothing in common.", "",
        "A:", "B:", "First guess:",
    ),
}  # fmt: skip


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


def build_prompt(shots: Sequence[Shot], query: Pair, guess: float | None = None, wording: str = "plain") -> str:
    """The prompt: instruction, examples, query. Scores are written as whole marks, so that one token answers.

    Args:
        shots: scored pairs.
        query: the pair to score.
        guess: an initial guess for it, written with one decimal; None for none.
        wording: one of `WORDINGS`.

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
    if wording not in WORDINGS:
        raise IclearnError(f"unknown wording {wording!r}; wordings are {', '.join(WORDINGS)}")
    words = WORDINGS[wording]

    def question(pair: Pair, given: float | None) -> str:
        line = "" if given is None else f"{words.guess} {given:.1f}\n"
        return f"{words.first} {pair.first}\n{words.second} {pair.second}\n{line}{ANSWER}"

    shown = "".join(f"{question(shot.pair, shot.guess)} {whole(shot.pair.score)}\n\n" for shot in shots)
    return f"{words.instruction}{words.on_guess if guess is not None else ''}\n\n{shown}{question(query, guess)}"
