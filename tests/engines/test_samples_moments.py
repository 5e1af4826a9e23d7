"""samples = moments: the same training set through its prompts and through its second moments, to 1e-10."""

from __future__ import annotations

import numpy as np
import pytest
from engine_cases import DATA, cubic_features, numpy_arrays, numpy_data, recipe, run

from iclearn.core.dataset import Arrays, Dataset
from iclearn.core.recipe import Record
from iclearn.tasks import LinearRegression


def assert_same_run(one, other):
    np.testing.assert_allclose(one.loss, other.loss, rtol=1e-10)
    for name, weights in one.weights().items():
        np.testing.assert_allclose(weights, other.weights()[name], rtol=1e-8, atol=1e-11)
    assert np.ptp(one.loss.values) > 0.05 * float(one.loss[0]), "a curve that moves"


def both(made, data: Dataset | None = DATA):
    traces = [run(made.replace(engine=engine), data) for engine in ("samples", "moments")]
    assert [t.provenance["engine"] for t in traces] == ["samples", "moments"]
    assert_same_run(*traces)
    return traces


@pytest.mark.parametrize("family", ["merged", "separate"])
def test_full_attention(family):
    samples, _ = both(recipe(family, steps=200))
    blocks = samples.data["weight_value"].isel(entry=slice(0, 2))
    assert float(abs(blocks[-1]).max()) > 1e-4, "with finitely many prompts the zero blocks move"
    assert float(abs(blocks[0]).max()) == 0


def test_mlp_on_tokens_and_on_its_features():
    made = recipe("mlp", steps=200)
    samples, _ = both(made)
    data = cubic_features(numpy_arrays())
    for engine in ("samples", "moments"):
        ready = run(recipe("mlp", steps=200, data=data, engine=engine), data)
        np.testing.assert_allclose(ready.loss, samples.loss, rtol=1e-10)


def test_two_outputs_and_test_sets():
    data = numpy_data(2, tests=True)
    samples, moments = both(recipe("merged", data=data, lr=0.02), data)
    assert list(samples.data["test_set"].values) == ["in_weight", "in_context"]
    np.testing.assert_allclose(samples.data["test_loss"], moments.data["test_loss"], rtol=1e-10)


def test_prefixes():
    both(recipe("merged", prefixes=True, normalize="tokens", lr=0.05))


def test_a_drawn_mix_with_its_test_sets():
    task = LinearRegression(
        dim=2, context_len=4, num_prompts=30, in_context=0.6, test_prompts=30, center=True, noise=0.1
    )
    samples, moments = both(recipe("merged", task=task), None)
    np.testing.assert_allclose(samples.data["test_loss"], moments.data["test_loss"], rtol=1e-10)


def test_drawn_prefixes():
    task = LinearRegression(dim=2, context_len=4, num_prompts=30, prefixes=True)
    both(recipe("merged", task=task, normalize="context"), None)


def test_the_loss_is_the_mean_squared_error_of_the_prompts():
    """The first loss of a run, from the formula, with numpy alone."""
    from naive_loss import merged_loss

    trace = run(recipe("merged", steps=1))
    weights = {name: trace.data[f"weight_{name}"].values[0] for name in ("value", "kq")}
    assert isinstance(DATA.train, Arrays)
    expected = merged_loss(DATA.train, weights["value"], weights["kq"])
    np.testing.assert_allclose(float(trace.loss[0]), expected, rtol=1e-12)


def test_test_losses_are_those_of_the_weights_before_the_step():
    """As the training losses are: at step s both belong to the weights recorded at s."""
    from naive_loss import merged_loss

    data = numpy_data(tests=True)
    trace = run(recipe("merged", data=data, steps=6, record=Record(weights=7, candidates=7)), data)
    for step in (0, 3, 5):
        weights = trace.weights(trace.data["record"].values.tolist().index(step))
        for index, name in enumerate(trace.data["test_set"].values):
            arrays = data.tests[str(name)]
            assert isinstance(arrays, Arrays)
            expected = merged_loss(arrays, weights["value"], weights["kq"])
            np.testing.assert_allclose(trace.data["test_loss"].values[step, index], expected, rtol=1e-10)


def test_the_minimum_is_the_least_squares_residual():
    """c − b M⁺ b against numpy's lstsq on the features of every prompt."""
    from naive_loss import gram_features

    trace = run(recipe("merged", steps=1, engine="moments"))
    assert isinstance(DATA.train, Arrays)
    phi, target = gram_features(DATA.train), DATA.train.y_query[:, 0]
    residual = target - phi @ np.linalg.lstsq(phi, target, rcond=None)[0]
    np.testing.assert_allclose(float(trace.data["loss_minimum"]), np.mean(residual**2), atol=1e-10)
    assert "loss_minimum" not in run(recipe("merged", steps=1, engine="samples")).data
