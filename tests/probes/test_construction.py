"""The construction, interpolation, the GD++ fit, iterated layers and copying."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn import probes
from iclearn.core.errors import IclearnError
from iclearn.core.model import mean_loss
from iclearn.models.predictors import GradientDescent
from iclearn.models.step_transformers import SparseTransformer
from iclearn.models.transformer_forms import FullTransformer

DIM, CONTEXT = 3, 8
TASK = icl.LinearRegression(dim=DIM, context_len=CONTEXT, num_prompts=64, covariance=icl.Covariance.white(trace=None))


@pytest.fixture(scope="module")
def batch():
    return TASK.source(0, "float64").everything()


def predictions(model, batch):
    return np.asarray(jax.vmap(model.predict)(batch.prompt))


def shuffled(model: FullTransformer, seed: int) -> FullTransformer:
    """The same function with other weights: W_q M, W_k M⁻ᵀ and 3 W_v, W_o/3."""
    turn = jnp.asarray(np.random.default_rng(seed).normal(size=(DIM + 1, DIM + 1)))
    back = jnp.linalg.inv(turn).T
    weights = {"query": 2 * model.query @ turn, "key": model.key @ back, "value": 3 * model.value}
    return FullTransformer(**weights, output=model.output / 6, depth=model.depth)


@pytest.mark.parametrize("normalize", ["none", "context"])
def test_the_construction_is_gdpp(batch, normalize):
    built = probes.gdpp_construction(DIM, CONTEXT, [0.5, 0.8], [0.1], normalize)
    gdpp = SparseTransformer(a=jnp.array([[0.5], [0.8]]), b=jnp.array([[0.2], [0.0]]), dim=DIM, depth=2)
    np.testing.assert_allclose(predictions(built, batch), predictions(gdpp, batch), rtol=1e-12)
    fit = probes.fit_gdpp(built, CONTEXT)
    np.testing.assert_allclose([fit.steps, fit.curvature], [[0.5, 0.8], [0.1, 0.0]])
    assert max(fit.off_diagonal.max(), fit.off_block.max()) < 1e-14


def test_interpolation_does_not_see_how_weights_share_their_products(batch):
    one = probes.gdpp_construction(DIM, CONTEXT, [0.6])
    other = shuffled(one, 1)
    np.testing.assert_allclose(predictions(other, batch), predictions(one, batch), rtol=1e-9)
    middle = probes.interpolated(other, one)
    np.testing.assert_allclose(predictions(middle, batch), predictions(one, batch), rtol=1e-9)
    two = probes.interpolated(one, shuffled(probes.gdpp_construction(DIM, CONTEXT, [1.0]), 2), 0.25)
    np.testing.assert_allclose(probes.fit_gdpp(two, CONTEXT).steps, [0.7])


def test_interpolation_refuses_several_heads():
    spec = icl.LinearTransformer(layers=1, num_heads=2, blocks="full")
    model = spec.initial(TASK, icl.Init(0.1), 0, "float64")
    with pytest.raises(IclearnError, match="one head"):
        probes.interpolated(model, model)


def test_the_fit_sums_heads_and_sees_what_is_left():
    built = probes.gdpp_construction(DIM, CONTEXT, [0.5], [0.2])
    double = FullTransformer(**{n: jnp.concatenate([w, w], 1) for n, w in built.weights().items()}, depth=1)
    np.testing.assert_allclose(probes.fit_gdpp(double, CONTEXT).steps, [1.0])
    off = built.query.at[0, 0, 0, 1].set(1.0).at[0, 0, 0, -1].set(2.0)  # 3 on the diagonal, 1 beside it, 4 outside
    fit = probes.fit_gdpp(FullTransformer(**{**built.weights(), "query": off}, depth=1), CONTEXT)
    np.testing.assert_allclose(fit.off_diagonal, [[1 / 8, 0.0]], atol=1e-15)
    np.testing.assert_allclose(fit.off_block, [[4 / 8, 0.0]], atol=1e-15)


def test_the_nearest_gdpp_finds_steps_that_weights_do_not_show(batch):
    built = probes.gdpp_construction(DIM, CONTEXT, [0.5, 0.5], [0.1, 0.1])
    start = probes.fit_gdpp(probes.gdpp_construction(DIM, CONTEXT, [0.4], [0.05]), CONTEXT)
    steps, curvature, distance = probes.nearest_gdpp(built, batch, start, tied=True)
    np.testing.assert_allclose([steps[0], curvature[0]], [0.5, 0.1], atol=1e-4)
    assert distance < 1e-4


def test_an_iterated_layer_is_damped_gradient_descent(batch):
    layer = shuffled(probes.gdpp_construction(DIM, CONTEXT, [0.6], [0.2]), 3)  # its inputs must stay as they are
    found = probes.iterated_losses(probes.label_updates(layer, 4, 0.75), batch)
    for loop in (1, 4):
        descent = GradientDescent(jnp.zeros(DIM), 0.45, loop)
        error = (predictions(descent, batch) - np.asarray(batch.target)) ** 2
        assert float(found["mean"].sel(loop=loop)) == pytest.approx(error.mean(), rel=1e-9)
        assert float(found["median"].sel(loop=loop)) == pytest.approx(np.median(error), rel=1e-9)


def test_mean_differences_are_means(batch):
    near, far = GradientDescent(jnp.zeros(DIM), 0.5), GradientDescent(jnp.zeros(DIM), 1.0)
    found = probes.mean_differences([near, far], near, batch)
    half = np.abs(predictions(near, batch)).mean()  # twice the step is twice the prediction
    np.testing.assert_allclose(found["prediction"], [0, half], rtol=1e-9)
    np.testing.assert_allclose(found["sensitivity"] / found["reference"], [0, 1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["loss"], [float(mean_loss(m, batch)) for m in (near, far)], rtol=1e-9)


def test_copying_sees_a_layer_that_copies_the_next_token():
    """Scores that single out position t + 1 and values that pass on what is said."""
    task = icl.LinearRegression(dim=2, context_len=3, num_prompts=4)
    spec = icl.DeepAttention(layers=2, interleaved=True, positions=2, first_softmax=True)
    turn = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])  # (sin, cos) of t to that of t + 1
    entry = 4
    query, key, value = (np.zeros((2, entry, entry)) for _ in range(3))
    query[0, 2:, 2:], key[0, 2:, 2:] = 200 * turn, np.eye(2)
    value[0, :2, :2] = 0.5 * np.eye(2)
    output = np.broadcast_to(np.eye(entry), value.shape)
    model = spec.rebuild(2, {"query": query, "key": key, "value": value, "output": output})
    batch = task.source(0, "float64").everything()
    found = probes.copying(model, batch)
    assert found.itself == pytest.approx(np.sqrt(2), rel=0.05)
    assert found.following == pytest.approx(0.5 * np.sqrt(2), rel=0.05)
    assert found.others < 0.02
    with pytest.raises(IclearnError, match="interleaved"):
        probes.copying(icl.DeepAttention(layers=1).initial(task, icl.Init(0.1), 0, "float64"), batch)
