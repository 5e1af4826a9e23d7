"""Verdicts on answers whose truth is known: models that copy, that ignore, that improve their guess."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

from iclearn.llm.conditions import NOISES
from iclearn.llm.metrics import bootstrap, pearson
from iclearn.papers.base import Figure
from iclearn.papers.collect import load_paper, planned_seeds
from iclearn.papers.xie2025_llm import fig_conditions, fig_copy, fig_shots
from iclearn.papers.xie2025_llm.setup import View, gain, judge_positive

PAIRS, SEEDS = 250, 2


def answers(make, conditions, shot_counts=(10,)):
    """A dataset as the experiment stores it; `make` turns guess, score and noise into an answer."""
    rng = np.random.default_rng(0)
    score = rng.uniform(0, 5, PAIRS)
    shape = (SEEDS, len(shot_counts), len(conditions), PAIRS)
    answer, guess = np.empty(shape), np.full(shape, np.nan)
    for c, name in enumerate(conditions):
        for s in range(SEEDS):
            base = score + 0.8 * rng.normal(size=PAIRS)
            if name.startswith("noise"):
                base = base + float(name[5:]) * rng.normal(size=PAIRS)
            given = {"none": np.full(PAIRS, np.nan), "zero": np.zeros(PAIRS), "mean": np.full(PAIRS, 2.7),
                     "random": rng.uniform(0, 5, PAIRS), "oracle": score}.get(name, base)  # fmt: skip
            guess[s, :, c] = given
            for k, shots in enumerate(shot_counts):
                answer[s, k, c] = make(given, score, rng.normal(size=PAIRS), shots)
    return xr.Dataset(
        {
            "answer": (("seed", "shots", "condition", "pair"), answer),
            "mark": (("seed", "shots", "condition", "pair"), np.clip(np.floor(answer + 0.5), 0, 5)),
            "guess": (("seed", "shots", "condition", "pair"), guess),
            "score": ("pair", score),
        },
        coords={"seed": range(SEEDS), "shots": list(shot_counts), "condition": list(conditions), "pair": range(PAIRS)},
        attrs={"model": "tiny abc float32"},
    )


def without(score, noise):
    return 0.3 * score + 2 * noise


def copier(guess, score, noise, shots):
    """Repeats its guess with an error; knows nothing without one."""
    return np.where(np.isnan(guess), 2 + noise, np.nan_to_num(guess) + 0.3 * noise)


def improver(guess, score, noise, shots):
    """Takes the middle between its guess and a better idea of its own."""
    own = score + (0.5 + 1 / (1 + shots)) * noise
    return np.where(np.isnan(guess), own, 0.2 * np.nan_to_num(guess) + 0.8 * (score + 0.3 * noise))


def ignorer(guess, score, noise, shots):
    return without(score, noise)


def data_of(module, make):
    conditions = fig_conditions.CONDITIONS if module is fig_conditions else ("none", *fig_copy.BY_QUALITY)
    if module is fig_shots:
        return {"data": answers(make, ("none", "trained"), (0, 1, 2, 5, 10, 20))}
    found = answers(make, conditions)
    return {"data": found, **{name: View(found, name) for name in conditions}}


def verdicts(module, make):
    figure: Figure = module.FIGURE
    return {v.claim: v.verdict for v in figure.judge("xie2025-llm", data_of(module, make))}


def test_a_copier_helps_itself_but_not_its_guess():
    found = verdicts(fig_conditions, copier)
    assert found["helps"] == found["content"] == found["oracle"] == "reproduced"
    assert found["beats_guess"] == "contradicted"
    assert found["adds"] != "reproduced"
    copied = verdicts(fig_copy, copier)
    assert copied["follows"] == copied["copies"] == copied["quality"] == "reproduced"
    assert "reproduced" not in (copied["repairs_order"], copied["repairs_error"])
    assert copied["more_than_copy"] != "reproduced"


def test_an_improver_beats_both():
    found = verdicts(fig_conditions, improver)
    assert found["helps"] == found["beats_guess"] == found["adds"] == "reproduced"
    copied = verdicts(fig_copy, improver)
    assert copied["repairs_order"] == copied["repairs_error"] == "reproduced"
    shots = verdicts(fig_shots, improver)
    assert shots["helps_always"] == shots["more_without"] == "reproduced"


def test_an_ignorer_gains_nothing():
    found = verdicts(fig_conditions, ignorer)
    assert found["helps"] == "inconclusive"
    assert found["content"] == "inconclusive"
    assert verdicts(fig_shots, ignorer)["helps_always"] == "inconclusive"
    # its answer knows the score a little whatever the guess: slope is positive only through the score
    assert verdicts(fig_copy, ignorer)["copies"] == "inconclusive"


@pytest.mark.parametrize("module", [fig_conditions, fig_copy, fig_shots])
def test_figures_are_drawn(module):
    drawn = module.FIGURE.draw(data_of(module, copier))
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
    return np.where(np.isnan(guess), 2.5 + noise, 2.5 + 0.3 * (np.nan_to_num(guess) - 2.5) + 0.7 * noise)


def test_order_and_error_of_a_bad_guess_are_judged_apart():
    copied = verdicts(fig_copy, middle_man)
    assert (copied["repairs_order"], copied["repairs_error"]) == ("contradicted", "reproduced")


def test_only_the_papers_models_can_contradict_the_paper():
    def harmed(guess, score, noise, shots):
        return np.where(np.isnan(guess), score + 0.5 * noise, score + 3 * noise)

    data = data_of(fig_conditions, harmed)
    assert fig_conditions.helps(data).verdict == "inconclusive"
    data["data"].attrs["model"] = "meta-llama/Llama-3.1-8B-Instruct abc"
    assert fig_conditions.helps(data).verdict == "contradicted"


def test_undefined_is_inconclusive():
    flat = bootstrap(pearson, np.zeros(10), np.arange(10.0))
    assert judge_positive(flat, "r", 1).verdict == "inconclusive"


def test_the_paper_is_known():
    paper = load_paper("xie2025-llm")
    assert [figure.id for figure in paper.figures] == ["fig_conditions", "fig_copy", "fig_shots"]
    assert planned_seeds(paper, paper.figures[0]) == 1
    zhang = load_paper("zhang2025")
    assert [planned_seeds(zhang, zhang.figure(name)) for name in ("fig4", "fig3a")] == [6, 24]
    claims = [claim for figure in paper.figures for claim in figure.claims]
    assert {claim.id for claim in claims if claim.source == "paper"} == {"helps"}
    assert all(claim.reason for claim in claims)
    assert len(NOISES) >= 3
