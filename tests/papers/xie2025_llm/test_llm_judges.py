"""Verdicts on answers whose truth is known: models that copy, that ignore, that improve their guess."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.llm.metrics import bootstrap, pearson
from iclearn.papers.base import Figure
from iclearn.papers.collect import load_paper, planned_seeds
from iclearn.papers.xie2025_llm import fig_help, fig_prompts, fig_quality
from iclearn.papers.xie2025_llm.examples import guesses
from iclearn.papers.xie2025_llm.setup import Answers, gain

PAIRS, SEEDS = 250, 2
FIGURES = {figure.id: figure for figure in load_paper("xie2025-llm").figures}
NAMES = {
    "fig_help": fig_help.NAMES,
    "fig_quality": fig_quality.names_of(["trained", "gte", "oracle"]),
    "fig_shots": ("none", "trained"), "fig_wordings": ("none", "trained"),
}  # fmt: skip


def answers(make, conditions, shots=(10,), wordings=("plain",)):
    """A dataset as the experiment makes it; `make` turns guess, score, noise and number of examples into an answer."""
    rng = np.random.default_rng(1)
    score, fit_score = rng.uniform(0, 5, PAIRS), rng.uniform(0, 5, PAIRS)
    shape = (SEEDS, len(shots), len(wordings), len(conditions), PAIRS)
    answer, guess, fit = (
        np.empty(shape),
        np.empty((SEEDS, len(conditions), PAIRS)),
        np.empty((SEEDS, len(conditions), PAIRS)),
    )
    for s, c in np.ndindex(SEEDS, len(conditions)):
        guess[s, c], fit[s, c] = guesses(conditions[c], score, rng), guesses(conditions[c], fit_score, rng)
        for k, w in np.ndindex(len(shots), len(wordings)):
            answer[s, k, w, c] = make(guess[s, c], score, rng.normal(size=PAIRS), shots[k])
    own = np.stack([make(np.full(PAIRS, np.nan), fit_score, rng.normal(size=PAIRS), 10) for _ in range(SEEDS)])
    dims = ("seed", "shots", "wording", "condition", "pair")
    tables = {
        "answer": (dims, answer), "mark": (dims, np.clip(np.floor(answer + 0.5), 0, 5)),
        "guess": (("seed", "condition", "pair"), guess), "score": ("pair", score),
        "mean": ("seed", np.full(SEEDS, 2.5)), "fit_answer": (("seed", "fit"), own),
        "fit_guess": (("seed", "condition", "fit"), fit), "fit_score": ("fit", fit_score),
    }  # fmt: skip
    labels = {"shots": list(shots), "wording": list(wordings), "condition": list(conditions)}
    return xr.Dataset(tables, labels, {"shots": 10, "split": "made-up"})


def own_idea(score, noise):
    return score + 1.3 * noise


def copier(guess, score, noise, shots):
    """Repeats its guess with an error."""
    return np.where(np.isnan(guess), own_idea(score, noise), np.nan_to_num(guess) + 0.5 * noise)


def improver(guess, score, noise, shots):
    """Has a better idea where it is given a guess, and weighs the two."""
    own = score + (0.5 + 1 / (1 + shots)) * noise
    return np.where(np.isnan(guess), own, 0.2 * np.nan_to_num(guess) + 0.8 * (score + 0.3 * noise))


def ignorer(guess, score, noise, shots):
    return own_idea(score, noise)


def harmed(guess, score, noise, shots):
    """Does well without a guess, and badly with one."""
    return np.where(np.isnan(guess), score + 0.5 * noise, score + 3 * noise)


def unskilled(guess, score, noise, shots):
    """Knows nothing by itself and repeats its guess."""
    return np.where(np.isnan(guess), 2.5 + noise, np.nan_to_num(guess) + 0.3 * noise)


def data_of(figure, **makers):
    shots = fig_prompts.COUNTS if figure == "fig_shots" else (10,)
    wordings = ("plain", "helper", "question") if figure == "fig_wordings" else ("plain",)
    return {name: Answers(name, answers(make, NAMES[figure], shots, wordings)) for name, make in makers.items()}


def verdicts(figure, *makers):
    data = data_of(figure, **{make.__name__: make for make in makers})
    return {v.claim: v.verdict for v in FIGURES[figure].judge("xie2025-llm", data)}


def test_a_copier_helps_itself_but_not_its_guess():
    found = verdicts("fig_help", copier)
    assert found["helps"] == found["oracle"] == "reproduced"
    assert found["beats_guess"] == found["uses_all"] == "contradicted"
    assert found["adds"] != "reproduced"
    assert verdicts("fig_quality", copier)["content"] == "reproduced"
    copied = verdicts("fig_quality", copier)
    assert copied["follows"] == copied["copies"] == copied["quality"] == "reproduced"
    assert "reproduced" not in (copied["repairs_order"], copied["repairs_error"], copied["more_than_copy"])


def test_an_improver_beats_both():
    found = verdicts("fig_help", improver)
    assert found["helps"] == found["beats_guess"] == found["uses_all"] == found["adds"] == "reproduced"
    copied = verdicts("fig_quality", improver)
    assert copied["repairs_order"] == copied["repairs_error"] == "reproduced"
    shots = verdicts("fig_shots", improver)
    assert shots["helps_always"] == shots["more_without"] == "reproduced"
    assert verdicts("fig_wordings", improver) == {"helps_worded": "reproduced"}


def test_an_ignorer_gains_nothing():
    assert verdicts("fig_help", ignorer)["helps"] == "inconclusive"
    assert verdicts("fig_quality", ignorer)["content"] == "inconclusive"
    assert verdicts("fig_shots", ignorer)["helps_always"] == "inconclusive"
    # its answer knows the score whatever the guess: slope is positive only through the score
    assert verdicts("fig_quality", ignorer)["copies"] == "inconclusive"


def test_a_capable_model_contradicts_the_paper():
    assert verdicts("fig_help", harmed)["helps"] == "contradicted"
    assert verdicts("fig_wordings", harmed) == {"helps_worded": "contradicted"}


def test_models_without_skill_decide_nothing_and_are_shown():
    assert verdicts("fig_help", unskilled)["helps"] == "inconclusive"
    assert verdicts("fig_help", unskilled, harmed)["helps"] == "contradicted"
    (helps,) = (claim for claim in fig_help.FIGURE.claims if claim.id == "helps")
    measured = helps.judge(data_of("fig_help", unskilled=unskilled, harmed=harmed)).measured
    assert list(measured) == ["unskilled (no unaided skill)", "harmed"]


def test_capable_models_that_differ_decide_nothing():
    assert verdicts("fig_help", improver, harmed)["helps"] == "inconclusive"


@pytest.mark.parametrize("name", FIGURES)
def test_figures_are_drawn(name):
    figure: Figure = FIGURES[name]
    drawn = figure.draw(data_of(name, copier=copier, unskilled=unskilled))
    assert len(drawn.axes) >= 2
    assert all(axes.get_xlabel() for axes in drawn.axes)
    plt.close(drawn)


def test_gains_are_positive_when_better_for_every_metric():
    rng = np.random.default_rng(0)
    score = rng.normal(size=(1, 200))
    good, bad = score + 0.1 * rng.normal(size=(1, 200)), score + rng.normal(size=(1, 200))
    for metric in ("pearson", "spearman", "mse"):
        assert gain(metric, good, bad, score).low > 0
        assert gain(metric, bad, good, score).high < 0


def middle_man(guess, score, noise, shots):
    """Draws its guess towards the middle of the scale and adds an error: a smaller error, a worse order."""
    return np.where(np.isnan(guess), score + noise, 2.5 + 0.3 * (np.nan_to_num(guess) - 2.5) + 0.7 * noise)


def test_order_and_error_of_a_bad_guess_are_judged_apart():
    copied = verdicts("fig_quality", middle_man)
    assert (copied["repairs_order"], copied["repairs_error"]) == ("contradicted", "reproduced")


def test_the_best_combination_is_better_than_both():
    model = data_of("fig_help", copier=copier)["copier"]
    best = model.combined("trained")
    for worse in (model("none").answer, model("trained").guess):
        assert gain("pearson", best, worse, model("none").score).low > 0
        assert gain("mse", best, worse, model("none").score).low > 0


def test_undefined_is_inconclusive():
    flat = bootstrap(pearson, np.zeros(10), np.arange(10.0))
    assert flat.sign == 0


def test_the_paper_is_known():
    paper = load_paper("xie2025-llm")
    assert planned_seeds(paper, paper.figures[0]) == 1
    zhang = load_paper("zhang2025")
    assert [planned_seeds(zhang, zhang.figure(name)) for name in ("fig4", "fig3a")] == [6, 24]
    claims = [claim for figure in paper.figures for claim in figure.claims]
    assert {claim.id for claim in claims if claim.source == "paper"} == {"helps"}
    assert all(claim.reason for claim in claims)
