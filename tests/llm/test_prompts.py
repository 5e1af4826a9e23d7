"""Prompts and guesses: what the model reads under each condition."""

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.llm import CONDITIONS, WORDINGS, Guesser, Pair, Shot, build_prompt, condition
from iclearn.llm.prompts import whole

QUERY = Pair("It rains.", "Rain falls.", 5.0)
SHOTS = [Pair("A cat.", "A dog.", 1.4), Pair("He ran.", "He had run.", 4.5)]


def test_without_a_guess_no_guess_is_spoken_of():
    prompt = build_prompt([Shot(pair) for pair in SHOTS], QUERY)
    assert "uess" not in prompt
    assert prompt.startswith(WORDINGS["plain"].instruction)
    assert prompt.endswith("Sentence 1: It rains.\nSentence 2: Rain falls.\nScore:")
    assert prompt.count("Score: 1\n\n") == 1
    assert prompt.count("Score: 5\n\n") == 1


def test_a_guess_adds_one_line_before_each_score_and_nothing_else():
    plain = build_prompt([Shot(pair) for pair in SHOTS], QUERY)
    given = build_prompt([Shot(pair, 2.25) for pair in SHOTS], QUERY, 3.0)
    assert given.replace("Initial guess: 2.2\n", "").replace("Initial guess: 3.0\n", "") == plain
    assert given.count("Initial guess:") == 3


@pytest.mark.parametrize("wording", WORDINGS)
def test_every_wording_ends_where_a_mark_belongs(wording):
    plain = build_prompt([Shot(pair) for pair in SHOTS], QUERY, wording=wording)
    given = build_prompt([Shot(pair, 2.25) for pair in SHOTS], QUERY, 3.0, wording)
    words = WORDINGS[wording]
    for prompt in (plain, given):
        assert prompt.endswith("\nScore:")
        assert prompt.count("Score:") == 3
    assert given.count(words.guess) == 3
    assert words.guess not in plain
    assert plain == "".join(
        line for line in given.replace(words.on_guess, "", 1).splitlines(True) if words.guess not in line
    )
    with pytest.raises(IclearnError, match="wordings are plain, helper, question"):
        build_prompt([], QUERY, wording="loud")


def test_marks_round_halves_up_and_stay_on_the_scale():
    assert [whole(x) for x in (-1, 0.49, 0.5, 2.5, 4.49, 4.5, 9)] == [0, 0, 1, 3, 4, 5, 5]


def guesser(seed=0):
    heads = {"trained": 3.0, "gte": 3.2}
    return Guesser(seed, 2.7, lambda source, split, row: heads[source] + 0.01 * row, lambda split, row: 1 + 0.02 * row)


def test_every_condition_gives_its_guess():
    g = guesser()
    found = {how.id: g.guess(how, "dev", 7) for how in CONDITIONS}
    assert found["none"] is None
    assert found["zero"] == 0
    assert found["mean"] == 2.7
    assert found["trained"] == found["query_only"] == pytest.approx(3.07)
    assert found["gte"] == pytest.approx(3.27)
    assert found["oracle"] == pytest.approx(1.14)
    # noise of every size goes the same way, in proportion
    for source in ("trained", "gte"):
        small, large = (found[f"{source}+{size}"] - found[source] for size in ("0.5", "1"))  # type: ignore[operator]
        assert large == pytest.approx(2 * small)
    assert not condition("query_only").in_shots


def test_random_guesses_and_noise_have_their_laws():
    g = guesser()
    rows = range(4000)
    uniform = np.array([g.guess(condition("random"), "dev", row) for row in rows])
    assert abs(uniform.mean() - 2.5) < 5 * 5 / np.sqrt(12 * len(rows))
    noise = np.array([g.guess(condition("trained+0.5"), "dev", 7) for _ in rows[:3]])
    assert np.ptp(noise) == 0  # a row has one draw
    flat = Guesser(1, 2.7, lambda source, split, row: 2.5, lambda split, row: 0.0)
    drawn = np.array([flat.guess(condition("trained+0.5"), "dev", row) for row in rows]) - 2.5
    assert abs(drawn.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * len(rows))
    assert all(0 <= g.guess(condition("trained+2"), "train", row) <= 5 for row in range(200))  # type: ignore[operator]


def test_guesses_depend_on_seed_split_and_row_alone():
    how = condition("random")
    assert guesser().guess(how, "dev", 3) == guesser().guess(how, "dev", 3)
    others = {guesser(1).guess(how, "dev", 3), guesser().guess(how, "train", 3), guesser().guess(how, "dev", 4)}
    assert guesser().guess(how, "dev", 3) not in others


def test_unknown_condition():
    with pytest.raises(IclearnError, match="conditions are none, zero, mean"):
        condition("magic")
