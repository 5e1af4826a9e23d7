"""The engine and the theory inside the page, run in a browser, against `simulate` and `iclearn.theory`."""

import json
from itertools import groupby

import numpy as np
import pytest

import iclearn as icl
from iclearn.explore.python_runs import flat_weights
from iclearn.explore.settings import Setting

TRAIN = """async (settings) => {
  const { train } = await import("iclearn/engine");
  const { normalsOf } = await import("iclearn/settings");
  return settings.map((setting) => {
    const result = train(setting, normalsOf(setting.seed));
    return { losses: Array.from(result.losses), final: Array.from(result.final), diverged: result.divergedAt };
  });
}"""
SHAPES = [  # family, D, H, R: each is a program to compile
    ("separate", 1, 1, 1), ("separate", 2, 2, 1), ("separate", 2, 5, 3), ("separate", 3, 2, 2), ("separate", 4, 5, 1),
    ("separate", 5, 3, 3), ("separate", 6, 7, 1), ("separate", 8, 9, 8), ("separate", 8, 4, 2),
    ("merged", 1, 2, 1), ("merged", 3, 1, 1), ("merged", 4, 8, 1), ("merged", 8, 9, 1),
]  # fmt: skip
EACH = 16


def stiffness(values, context, normalize):
    """The largest curvature of the loss at the optimum, roughly: a learning rate well below 1 over it is stable."""
    gain = {"none": context, "context": 1, "tokens": context / (context + 1)}[normalize]
    top, trace = max(values), sum(values)
    return (gain * (top**2 + (top**2 + top * trace) / context)) ** (2 / 3) * top ** (2 / 3)


def random_settings(rng, family, dim, heads, rank):
    """Settings of one shape: spectra, contexts, scales, schemes, sums and learning rates at random."""
    for _ in range(EACH):
        values = np.round(rng.uniform(0.05, 1.0, dim), 4)
        context = int(rng.choice([1, 3, 10, 31, 200]))
        normalize = str(rng.choice(["none", "context", "tokens"]))
        stiff = stiffness(values, context, normalize)
        yield Setting(
            family=family, eigenvalues=tuple(values.tolist()), heads=heads, rank=rank, context=context,
            init=float(10 ** rng.uniform(-5, -0.7)), scheme=str(rng.choice(["entries", "per_head", "stacked"])),
            normalize=normalize, lr=float(rng.uniform(0.01, 0.06) / stiff), steps=400, seed=int(rng.integers(8)),
        )  # fmt: skip


def test_the_page_trains_as_simulate_does(tab):
    """208 random settings: the whole loss curve and the final weights."""
    rng = np.random.default_rng(0)
    settings = [s for shape in SHAPES for s in random_settings(rng, *shape)]
    assert len(settings) >= 200
    found = tab.page.evaluate(TRAIN, [vars(s) for s in settings])
    worst, moved = {"loss": 0.0, "weights": 0.0}, 0
    static = [(s.family, len(s.eigenvalues), s.heads, s.rank) for s in settings]
    order = iter(found)
    for _, group in groupby(zip(settings, static, strict=True), key=lambda pair: pair[1]):
        members = [s for s, _ in group]
        traces = icl.simulate_many([s.recipe() for s in members])
        for setting, trace in zip(members, traces, strict=True):
            ours, loss = next(order), trace.loss.values
            assert ours["diverged"] == -1
            moved += loss[-1] < 0.9 * loss[0]
            weights = flat_weights(setting, trace)
            apart = np.abs(np.array(ours["losses"]) - loss).max() / loss[0]
            worst["loss"] = max(worst["loss"], apart)
            worst["weights"] = max(
                worst["weights"], np.abs(np.array(ours["final"]) - weights).max() / np.abs(weights).max()
            )
    print(json.dumps(worst), moved)
    assert worst["loss"] < 1e-10
    assert worst["weights"] < 1e-10
    assert moved > 50  # many of them learn something


@pytest.mark.parametrize(
    "setting",
    [
        Setting(), Setting(seed=3, scheme="per_head", steps=40_001),
        Setting(eigenvalues=(8, 7, 6, 5, 4, 3, 2, 1), heads=9, rank=3, init=5e-3, lr=2e-4, steps=20_001, seed=1),
        Setting(heads=2, rank=1, init=2e-2, steps=40_001, seed=2),
        Setting(family="merged", heads=8, init=1e-6, lr=1e-3, steps=6001),
        Setting(family="merged", eigenvalues=(0.25,) * 4, heads=8, init=1e-6, lr=1e-3, steps=3001, seed=5),
    ],
    ids=["fig3", "per_head", "rank3", "few heads", "merged", "white"],
)  # fmt: skip
def test_the_pages_theory_is_iclearns(tab, setting):
    """Loss curve and drop times from the same initial weights."""
    ours = tab.page.evaluate(
        """async (setting) => {
          const { initialWeights, sizesOf, sortedSpectrum, gainOf } = await import("iclearn/engine");
          const { theoryOf } = await import("iclearn/theory");
          const { sampleSteps } = await import("iclearn/reading");
          const { normalsOf } = await import("iclearn/settings");
          const start = initialWeights(setting, normalsOf(setting.seed));
          const steps = sampleSteps(setting.steps);
          const found = theoryOf(setting, start, sizesOf(setting), sortedSpectrum(setting), gainOf(setting), steps);
          const drops = found.drops.map((d) => [d.component, d.head, d.newHead, d.time, d.sign]);
          const levels = Array.from(found.levels.heights);
          return { steps: Array.from(steps), loss: Array.from(found.loss), drops, levels,
                   values: found.values.map((row) => row.at(-1)) };
        }""",
        vars(setting),
    )
    theory = icl.predict(setting.recipe())
    np.testing.assert_allclose(ours["levels"], theory["saddle_loss"].values, rtol=1e-12)
    loss = theory["loss"].values[np.array(ours["steps"], int)]
    assert np.abs(np.array(ours["loss"]) - loss).max() < 2e-3 * loss[0]  # a fast drop, a millionth of its time apart
    np.testing.assert_allclose(
        np.abs(ours["values"]), np.abs(theory["weight_value"].values[-1, :, 0, 0]), atol=2e-3, rtol=1e-3
    )
    if setting.family == "separate":
        drops = ours["drops"]
        assert [d[1] for d in drops] == theory["drop_head"].values.tolist()
        assert [d[2] for d in drops] == theory["new_head"].values.tolist()
        np.testing.assert_allclose([d[3] for d in drops], theory["drop_time"].values, rtol=1e-5)


def staircases():
    """Settings whose curves have none to many plateaus: spectra, ranks, scales, families, lengths."""
    rng = np.random.default_rng(3)
    for n in range(36):
        dim = int(rng.integers(1, 7))
        merged = n % 6 == 0
        values = tuple(np.round(np.sort(rng.uniform(0.05, 1.0, dim) ** 1.5)[::-1] + 0.02, 4).tolist())
        yield Setting(
            family="merged" if merged else "separate", eigenvalues=values, heads=int(rng.integers(1, 7)),
            rank=int(rng.integers(1, dim + 1)) if n % 3 == 1 else 1,
            init=float(10 ** rng.uniform(-5 if merged else -2.5, -1)), lr=0.05 / stiffness(values, 31, "none"),
            steps=int(rng.choice([400, 3001, 12_001])), seed=int(rng.integers(8)),
        )  # fmt: skip


def test_plateaus_are_those_that_the_probe_finds(tab):
    """36 runs in linear and logarithmic time: the page reads plateaus off the curve by the rule of `find_plateaus`."""
    settings = list(staircases())
    found = tab.page.evaluate(
        """async (settings) => {
          const { train } = await import("iclearn/engine");
          const { findPlateaus, readSteps } = await import("iclearn/plateaus");
          const { normalsOf } = await import("iclearn/settings");
          return settings.map((setting) => {
            const { losses } = train(setting, normalsOf(setting.seed));
            return [false, true].map((log) => {
              const steps = Array.from(readSteps(losses.length, log));
              return { steps, loss: steps.map((step) => losses[step]), plateaus: findPlateaus(losses, log) };
            });
          });
        }""",
        [vars(s) for s in settings],
    )
    counts = []
    for setting, pair in zip(settings, found, strict=True):
        for scale, ours in zip(("linear", "log"), pair, strict=True):
            expected = icl.find_plateaus(np.array(ours["loss"]), time=ours["steps"], scale=scale).plateaus
            rows = [[p["start"], p["end"], p["height"]] for p in ours["plateaus"]]
            counts.append(len(rows))
            assert len(rows) == len(expected), (setting, scale)
            for row, plateau in zip(rows, expected, strict=True):
                np.testing.assert_allclose(
                    row, [plateau.start, plateau.end, plateau.height], rtol=1e-6, err_msg=str(setting)
                )
    assert len(settings) >= 30
    assert max(counts) >= 3
    assert min(counts) == 0


def test_a_curve_that_rises_is_not_read(tab):
    """The page's detector is for curves without noise, and says so by finding nothing."""
    found = tab.page.evaluate(
        """async () => {
          const { findPlateaus } = await import("iclearn/plateaus");
          const rows = Array.from({ length: 500 }, (_, i) => Math.exp(-i / 100) + 0.01 * Math.sin(i));
          return [findPlateaus(rows), findPlateaus(new Float64Array(500).fill(1)), findPlateaus([1, 0.5])];
        }"""
    )
    assert found == [None, [], None]
