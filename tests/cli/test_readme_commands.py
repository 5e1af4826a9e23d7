"""The commands of the public README as they stand, and the plateaus of the theory in their curves (zhang2025, eq. 19).

Levels are those of infinitely many prompts; 5000 prompts move them by a few percent (the first, mean y_q², by 3.4%).
"""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from iclearn.cli import main
from iclearn.core.trace import Trace

pytestmark = pytest.mark.slow

LEVELS = [1, 0.64057971, 0.37737216, 0.2098046, 0.13599507]  # D = 4, N = 31, default spectrum (spec section 5)


@pytest.fixture(autouse=True)
def in_tmp(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def train(line: str) -> Trace:
    with redirect_stdout(io.StringIO()) as said:
        assert main(["train", *line.split()]) == 0
    run = said.getvalue().rsplit("stored in ", 1)[1].strip()
    return Trace.load(run)


def dwell(loss: np.ndarray, level: float) -> int:
    """Steps spent within 0.02 of a level."""
    return int((np.abs(loss - level) < 0.02).sum())


@pytest.mark.parametrize(
    "line",
    ["--model attnM --head 8 --init 1e-6 --show", "--model mlp --cubic_feat --head 8 --init 1e-6 --show"],
)
def test_merged_one_plateau_and_one_drop(line):
    trace = train(line)
    loss = trace.loss.values
    assert abs(loss[0] - LEVELS[0]) < 0.05
    assert dwell(loss, loss[0]) > 500, "a long plateau"
    assert dwell(loss, LEVELS[1]) < 50, "and no second one on the way down"
    assert abs(trace.final_loss - LEVELS[-1]) < 0.01
    assert len(list(Path().glob("*.png"))) == 1


def test_separate_steps_down_the_levels():
    loss = train("--model attnS --head 5 --init 1e-2 --epoch 10001 --lr 0.02 --show").loss.values
    between = [dwell(loss, (upper + lower) / 2) for upper, lower in pairwise(LEVELS[:4])]
    at = [dwell(loss, loss[0]), *(dwell(loss, level) for level in LEVELS[1:4])]
    assert min(at) > 10 * max(between), f"{at} at the levels, {between} between them"


@pytest.mark.parametrize("rank", [8, 4, 2, 1])
def test_rank(rank):
    line = (
        f"--model attnS --head 9 --KQ_dim {rank} --in_dim 8 --seq_len 32 --init 5e-3 --trainset_size 80000 "
        "--epoch 20001 --lr 0.02"
    )
    trace = train(line)
    assert np.loadtxt(f"attnS_head9_D8_R{rank}_P80000_N32_seed10.txt").shape == (20001,)
    assert abs(float(trace.loss[0]) - 1) < 0.02
    assert trace.final_loss < (0.45 if rank == 1 else 0.3)


@pytest.mark.parametrize("fraction", ["0", ".2", ".4", ".6", ".8", "1"])
def test_mixes(fraction):
    """Our own curves, known from spec section 7: in-weight learning comes first and is lost again for 0 < c < 1."""
    line = f"--model attnM --icl {fraction} --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005 --epoch 4001"
    train(line)
    table = np.loadtxt(f"attnM_head8_D4_R1_P5000_N32_seed10_icl{float(fraction):g}.txt")
    assert table.shape == (4001, 3)
    in_weight, in_context = table[:, 1], table[:, 2]
    if fraction == "0":
        assert in_weight[-1] < 0.1 * in_weight[0]
        assert in_context[-1] > 1.5 * in_context[0]
    elif fraction == "1":
        assert in_weight.min() > 0.9 * in_weight[0], "never learned"
        assert in_context[-1] < 0.3 * in_context[0]
    else:
        assert in_weight.min() < 0.75 * in_weight[0]
        assert in_weight[-1] > in_weight.min() + 0.2
        assert in_context[-1] < in_context.max() - 0.5
