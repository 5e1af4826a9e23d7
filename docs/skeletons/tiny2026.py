"""A paper in one file: one figure, two claims. Registry line: tiny2026 = "tiny2026:PAPER" under "iclearn.papers"."""

import matplotlib.pyplot as plt
import numpy as np

import iclearn as icl
from iclearn.papers.base import Claim, Figure, Paper
from iclearn.papers.judging import SHARE_SEEDS, judge_close, judge_seeds


def collect(lab):
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None)
    base = icl.Recipe(task=task, model=icl.Attention("merged", num_heads=2), init=icl.Init(0.03), steps=400)
    return {"runs": lab.run([base.replace(seed=seed, optimizer__lr=0.02) for seed in lab.seeds])}


def draw(data):
    figure, axes = plt.subplots()
    axes.plot(np.array([trace.loss for trace in data["runs"]]).T)
    return figure


def falls(data):
    return judge_seeds([t.final_loss < t.loss[0] for t in data["runs"]], [t.final_loss for t in data["runs"]])


def starts_at_one(data):
    return judge_close(float(data["runs"][0].loss[0]), 1.0, 0.01)


CLAIMS = (
    Claim("falls", "The loss falls.", "every seed", "more than half of the seeds", falls, min_seeds=SHARE_SEEDS),
    Claim(
        "starts", "The loss starts at E y².", "1", "1 %: the initial weights are small", starts_at_one, source="theory"
    ),
)
FIGURE = Figure("fig1", "the loss falls", collect, draw, CLAIMS, "train merged attention from small weights", "2 s")
PAPER = Paper("tiny2026", "A tiny paper", "Nobody, 2026.", (FIGURE,), seeds=6)
