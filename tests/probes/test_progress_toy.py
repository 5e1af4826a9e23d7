"""The toy of clamped vectors: clamping shortens the plateau, and what it refuses."""

import numpy as np
import pytest

import iclearn as icl
from iclearn.probes import Vectors, descend_toy, draw_toy


def test_gradient_steps_are_those_of_the_formula():
    """Against the gradient written out: (1/D³)[|b|²|c|² a − (b·b*)(c·c*) a*] for a, and so on."""
    start, truth = draw_toy(3, dim=4)
    vectors, goal = ([np.asarray(v) for v in part] for part in (start, truth))
    run = descend_toy(start, truth, "b", steps=20, lr=2.0)
    vectors[1] = goal[1]
    losses = []
    for _ in range(20):
        sizes, inner = ([u @ v for u, v in zip(vectors, o, strict=True)] for o in (vectors, goal))
        top = np.prod([g @ g for g in goal])
        losses.append((np.prod(sizes) - 2 * np.prod(inner) + top) / (2 * 4**3))
        moves = []
        for k in range(3):
            others = [j for j in range(3) if j != k]
            size, along = np.prod([sizes[j] for j in others]), np.prod([inner[j] for j in others])
            moves.append((size * vectors[k] - along * goal[k]) / 4**3)
        vectors = [goal[1] if k == 1 else vectors[k] - 2.0 * moves[k] for k in range(3)]
    np.testing.assert_allclose(run.loss, losses, rtol=1e-10)


def test_clamping_shortens_the_plateau():
    """Median of four draws: the more is held at the truth, the sooner 5 % of the loss at zero is reached."""
    until = {}
    for clamped in ("", "c", "bc"):
        runs = [descend_toy(*draw_toy(seed), clamped, 1000) for seed in range(4)]
        until[clamped] = np.median([run.steps_until(0.05) or 1000 for run in runs])
    assert until[""] > 1.5 * until["c"] > 2 * until["bc"]


def test_refusals():
    with pytest.raises(icl.IclearnError, match="a, b and c; 'd' is none"):
        descend_toy(*draw_toy(0), "cd")
    one = Vectors(*(np.ones(1) for _ in "abc"))
    assert descend_toy(one, one, steps=2).steps_until(0.0) == 0
