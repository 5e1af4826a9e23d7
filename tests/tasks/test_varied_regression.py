"""Other inputs, priors and noise: their laws in samples, and the engines that integrate over them."""

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.engines import prepare
from iclearn.tasks import Covariance, VariedRegression
from iclearn.theory import depth

COV = Covariance.eigenvalues([1.0, 0.25, 0.5], rotate=True)
COUNT = 20_000


def prompts(**fields):
    task = VariedRegression(**({"dim": 3, "context_len": 4, "covariance": COV, "num_prompts": COUNT} | fields))
    return task, task.source(0, "float64").everything()


@pytest.mark.parametrize(
    ("law", "shape"), [("gaussian", None), ("uniform", None), ("sphere", None), ("gamma", 0.5), ("gamma", 1.5)]
)
def test_inputs_of_every_law_have_the_covariance(law, shape):
    task, batch = prompts(inputs=law, gamma_shape=shape)
    x = np.asarray(batch.prompt.x).reshape(-1, 3)
    wanted = np.asarray(task.covariance_matrix(0))
    np.testing.assert_allclose(x.T @ x / len(x), wanted, atol=0.02)
    u = np.linalg.solve(np.linalg.cholesky(wanted), x.T).T
    fourth = {"gaussian": 15, "uniform": 11.4, "sphere": 9, 0.5: 27, 1.5: 15}[shape or law]  # E‖u‖⁴
    assert np.mean(np.sum(u**2, 1) ** 2) == pytest.approx(fourth, rel=0.05)


def test_uniform_inputs_are_bounded_and_heavy_tails_are_heavy():
    x = np.asarray(prompts(inputs="uniform", covariance=Covariance.eigenvalues([1 / 12] * 3))[1].prompt.x)
    assert 0.499 < np.abs(x).max() <= 0.5
    assert np.abs(np.asarray(prompts(inputs="gamma", gamma_shape=0.1)[1].prompt.x)).max() > 8


def test_the_inverse_prior_has_the_rotation_of_the_inputs():
    task, batch = prompts(inverse_prior=True)
    law = task.label_laws(0)[0]
    np.testing.assert_allclose(law.covariance @ task.covariance_matrix(0), np.eye(3), atol=1e-12)
    assert float(jnp.mean(batch.target**2)) == pytest.approx(3.0, rel=0.05)


def test_one_layer_of_the_inverse_prior_is_preconditioned_descent():
    task = VariedRegression(dim=3, context_len=10, covariance=COV, inverse_prior=True, num_prompts=None)
    a = 10 / 14 * np.linalg.inv(np.asarray(task.covariance_matrix(0)))[None, None]
    weights = {"a": a}
    model = icl.LinearTransformer(layers=1, blocks="gd")
    setup = prepare(icl.Recipe(task=task, model=model, init=icl.Init.given(weights), seed=0), weights=weights)
    assert setup.engine_name == "population"
    assert float(setup.engine.loss(setup.model, None)) == pytest.approx(
        depth.one_layer([1, 0.25, 0.5], 10, "inverse").loss
    )


def test_every_prompt_has_its_own_noise():
    for fields, second, fourth in [
        ({"noise_levels": (1.0, 3.0)}, 5.0, 41.0), ({"noise_range": 3.0}, 3.0, 16.2), ({"noise": 2.0}, 2.0, 4.0),
    ]:  # fmt: skip
        task, batch = prompts(context_len=30, **fields)
        x, y = np.asarray(batch.prompt.x), np.asarray(batch.prompt.y)[..., 0]
        variance = []
        for each, label in zip(x[:4000], y[:4000], strict=True):
            residual = label - each @ np.linalg.lstsq(each, label, rcond=None)[0]
            variance.append(residual @ residual / 27)
        variance = np.array(variance)
        assert variance.mean() == pytest.approx(second, rel=0.05)
        assert (variance**2).mean() == pytest.approx(fourth * (1 + 2 / 27), rel=0.12)
        mixture = task.noise_mixture()
        assert sum(w * v for w, v in mixture) == pytest.approx(second)
        assert sum(w * v**2 for w, v in mixture) == pytest.approx(fourth)


def test_models_linear_in_the_labels_see_the_mean_noise_only():
    model = icl.LinearTransformer(layers=2, scalar=True)
    weights = {"a": np.array([[0.5], [1.0]]), "b": np.array([[0.4], [0.0]])}
    white = Covariance.white(trace=None)
    task = VariedRegression(dim=10, context_len=20, covariance=white, noise_range=3.0, num_prompts=None)
    setup = prepare(icl.Recipe(task=task, model=model, init=icl.Init.given(weights)), weights=weights)
    exact = depth.gdpp_loss(10, 20, (0.5, 1.0), (0.2,), noise=3.0)
    assert float(setup.engine.loss(setup.model, None)) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"inputs": "gamma"}, "gamma_shape is for inputs gamma"),
        ({"gamma_shape": 2.0}, "gamma_shape is for inputs gamma"),
        ({"inverse_prior": True, "prior_covariance": COV}, "give one"),
        ({"noise": 1.0, "noise_range": 1.0}, "give one"),
        ({"noise_levels": (1.0, -1.0)}, "not negative"),
        ({"center": True}, "no centering"),
    ],
)
def test_what_cannot_be_is_refused(fields, words):
    with pytest.raises(icl.IclearnError, match=words):
        VariedRegression(dim=3, **fields)


def test_other_inputs_have_no_population_loss_and_no_theory():
    task = VariedRegression(dim=3, covariance=COV, inputs="sphere", num_prompts=None)
    recipe = icl.Recipe(task=task, model=icl.LinearTransformer(layers=1, blocks="gd"))
    with pytest.raises(icl.IclearnError, match="sphere inputs have no closed-form population loss"):
        prepare(recipe)
    assert icl.theory.theory_of(recipe) is None
    assert icl.theory.theory_of(recipe.replace(model=icl.LSA())) is None
    assert icl.Recipe.from_json(recipe.to_json()) == recipe
