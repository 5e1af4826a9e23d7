"""Layers matched with steps, linear read-outs with their controls, and blocks of weights that are clamped."""

import numpy as np
import pytest

import iclearn as icl
from iclearn import probes
from iclearn.models.predictors import NewtonFilter, StepFilter


def sequences(count: int = 12, tokens: int = 9, dim: int = 3):
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(count, tokens, dim)), rng.normal(size=(count, dim))
    return x, np.einsum("std,sd->st", x, w)


def test_layers_of_a_looped_transformer_match_the_steps_they_are():
    x, y = sequences()
    spec = icl.LinearTransformer(layers=4, blocks="gd", scalar=True, tied=True)
    model = spec.rebuild(3, {"a": [[0.4]]})
    layers = probes.prefix_errors([model.looped(depth) for depth in (1, 2, 4)], x, y)
    steps = probes.prefix_errors([StepFilter([0.4] * k) for k in range(1, 6)], x, y)
    found = probes.match_steps(layers, steps)
    assert found.best.tolist() == [0, 1, 3]
    np.testing.assert_allclose(found.largest, 1.0, rtol=1e-12)
    one = layers[0, 0] @ steps[2, 0] / np.linalg.norm(layers[0, 0]) / np.linalg.norm(steps[2, 0])
    alone = probes.match_steps(layers[:, :1], steps[:, :1])
    assert alone.cosine[0, 2] == pytest.approx(one), "a cosine for each sequence, then the mean"


def test_errors_are_against_the_true_labels_where_given():
    x, y = sequences()
    shown = y + 1.0
    both = [probes.prefix_errors([NewtonFilter(2)], x, shown, truth) for truth in (None, y)]
    np.testing.assert_allclose(both[1] - both[0], 1.0)


def test_filters_match_over_all_prompts_at_once():
    s = np.random.default_rng(1).uniform(0.2, 2.0, (50, 3))
    first, second = np.asarray(StepFilter([0.5]).residual(s)), np.asarray(NewtonFilter(2).residual(s))
    found = probes.match_filters([first], [second, 3 * first])
    expected = np.sum(first * second) / np.sqrt(np.sum(first**2) * np.sum(second**2))
    np.testing.assert_allclose(found.cosine, [[expected, 1.0]])
    assert found.best.tolist() == [1]
    with pytest.raises(icl.IclearnError, match="no direction"):
        probes.match_filters([0 * first], [second])
    with pytest.raises(icl.IclearnError, match="diverged"):
        probes.match_steps(np.full((1, 1, 2), np.nan), np.ones((1, 1, 2)))


def test_a_read_out_tells_what_is_there_from_what_could_be_remembered():
    rng = np.random.default_rng(2)
    states, other = rng.normal(size=(240, 30)), rng.normal(size=(240, 30))
    target = states[:, :2] @ rng.normal(size=(2, 2)) + 0.3 * rng.normal(size=(240, 2))
    found = probes.read_out(states, target, untrained=other)
    assert 0.8 < found.score < 0.99
    assert set(found.controls) == {"random target", "shuffled", "untrained"}
    assert max(found.controls.values()) < 0.1
    assert found.selectivity == pytest.approx(found.score - max(found.controls.values()))
    same = probes.read_out(states, target, untrained=states)
    assert same.selectivity == pytest.approx(0.0), "what an untrained model has too was not learned"
    nothing = probes.read_out(other, target)
    assert nothing.score < 0.1
    fitted = probes.read_out(other, target, penalties=(1e-9,))
    assert fitted.score < 0, "what was only remembered is worse than the mean on prompts that were held out"


def test_sites_are_read_one_by_one_and_need_the_same_names():
    rng = np.random.default_rng(3)
    prompts = rng.normal(size=(200, 4))
    found = probes.read_sites(
        lambda x: {"in": x, "squared": x**2}, prompts[:, 0] ** 2, control=lambda x: {"in": x, "squared": x},
        prompts=prompts,
    )  # fmt: skip
    assert found["squared"].selectivity > 0.9 > 0.2 > found["in"].score
    with pytest.raises(icl.IclearnError, match="no site b; it has a"):
        probes.read_sites({"a": prompts, "b": prompts}, prompts[:, 0], control={"a": prompts})
    with pytest.raises(icl.IclearnError, match="too few"):
        probes.read_out(prompts[:5], prompts[:5, 0])
    with pytest.raises(icl.IclearnError, match="NaN"):
        probes.read_out(prompts * np.nan, prompts[:, 0])


def test_a_clamped_block_keeps_its_values_along_the_run():
    task = icl.LinearRegression(dim=2, context_len=8, num_prompts=None, covariance=icl.Covariance.white(trace=None))
    recipe = icl.Recipe(
        task=task, model=icl.LinearTransformer(layers=2, scalar=True), init=icl.Init(0.1),
        optimizer=icl.Optimizer("adam", 0.05), steps=200, record=icl.Record(5, 5),
    )  # fmt: skip
    trace, loss = icl.simulate(recipe), icl.TrainingLoss(recipe)
    whole = probes.clamp(trace, loss, {"a": ..., "b": ...}, at=200)
    np.testing.assert_allclose(whole["clamped"], float(whole["loss"][-1]))
    none = probes.clamp(trace, loss, {"a": ...})
    np.testing.assert_allclose(none["clamped"], 2.0, err_msg="without steps the model answers 0, and E y² is d")
    part = probes.clamp(trace, loss, {"a": 0}, at=0)
    weights = {"a": np.array([trace.weights(0)["a"][0], trace.weights(-1)["a"][1]]), "b": trace.weights(-1)["b"]}
    assert float(part["clamped"][-1]) == pytest.approx(float(loss(recipe.model.rebuild(2, weights))))
    np.testing.assert_allclose(part["loss"][[0, 2]], trace.loss.values[part["record"].values[[0, 2]]])
    with pytest.raises(icl.IclearnError, match="weights are a, b, not c"):
        probes.clamp(trace, loss, {"c": 0})
    with pytest.raises(icl.IclearnError, match="no part of weight a"):
        probes.clamp(trace, loss, {"a": 7})
