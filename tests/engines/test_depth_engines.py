"""Deep linear transformers: engines agree where they overlap, and say what they cannot do."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.prompt import full_prompt
from iclearn.engines import prepare
from iclearn.engines.integrated import draw_second_moments
from iclearn.models import GramPrompt
from iclearn.models.chain_features import full_features, gd_features, sparse_features
from iclearn.tasks.wick_words import descent_loss
from iclearn.theory import depth

WHITE = icl.Covariance.white(trace=None)
KEY = jax.random.key(0)


def setup_of(model, engine="auto", *, weights=None, seed=0, batch=None, **task):
    sizes = {"dim": 5, "context_len": 20, "covariance": WHITE, "num_prompts": None} | task
    optimizer = icl.Optimizer("sgd" if batch else "gd", batch_size=batch)
    recipe = icl.Recipe(task=icl.LinearRegression(**sizes), model=model, engine=engine, seed=seed, optimizer=optimizer)
    if weights is not None:
        weights = {name: np.asarray(w) for name, w in weights.items()}
        recipe = recipe.replace(init=icl.Init.given(weights))
    return prepare(recipe, weights=weights)


def loss_of(setup, key=KEY) -> float:
    return float(eqx.filter_jit(setup.engine.loss)(setup.model, key))


def random_weights(model, dim, size=0.3, seed=0):
    rng = np.random.default_rng(seed)
    return {name: size * rng.normal(size=shape) for name, shape in model.shapes(dim).items()}


def test_the_population_loss_of_scalar_models_is_the_theory():
    model = icl.LinearTransformer(layers=2, scalar=True)
    b = 0.448787 / 0.516762
    setup = setup_of(model, weights={"a": [[0.516762], [3.474664]], "b": [[b], [0.0]]})
    assert setup.engine_name == "population"
    assert loss_of(setup) == pytest.approx(depth.gdpp_loss(5, 20, (0.516762, 3.474664), (0.448787,)), rel=1e-12)
    four = icl.LinearTransformer(layers=4, scalar=True, tied=True)
    eta, gamma = 2.49066, 0.209367
    setup = setup_of(four, weights={"a": [[eta]], "b": [[gamma / eta]]})
    assert loss_of(setup) == pytest.approx(depth.gdpp_loss(5, 20, (eta,) * 4, (gamma,) * 4), rel=1e-11)
    noisy = setup_of(model, weights={"a": [[0.5], [1.0]], "b": [[0.4], [0.0]]}, noise=0.7)
    assert loss_of(noisy) == pytest.approx(depth.gdpp_loss(5, 20, (0.5, 1.0), (0.2,), noise=0.7), rel=1e-12)


def test_inputs_of_another_size_and_prefixes():
    model = icl.LinearTransformer(layers=2, blocks="gd", scalar=True)
    weights = {"a": [[0.5], [0.9]]}
    scaled = setup_of(model, weights={"a": [[0.25], [0.45]]}, covariance=icl.Covariance.eigenvalues([2.0] * 5))
    assert loss_of(scaled) == pytest.approx(2 * loss_of(setup_of(model, weights=weights)), rel=1e-12)
    each = [loss_of(setup_of(model, weights=weights, context_len=n)) for n in range(1, 5)]
    assert loss_of(setup_of(model, weights=weights, context_len=4, prefixes=True)) == pytest.approx(np.mean(each))


def test_words_are_the_quadrature_for_multiples_of_the_identity():
    scalar = loss_of(setup_of(icl.LinearTransformer(layers=2, blocks="gd", scalar=True), weights={"a": [[0.6], [0.9]]}))
    matrices = {"a": np.stack([0.6 * np.eye(5), 0.9 * np.eye(5)])[:, None]}
    assert loss_of(setup_of(icl.LinearTransformer(layers=2, blocks="gd"), weights=matrices)) == pytest.approx(
        scalar, rel=1e-12
    )
    assert scalar == pytest.approx(0.45242, abs=5e-6)


def test_words_have_the_optima_of_two_layers_for_any_covariance():
    spectrum = np.array([1, 1, 0.25, 0.0625, 1])
    cov, eye, inverse, zero = (jnp.asarray(np.diag(v)) for v in (spectrum, np.ones(5), 1 / spectrum, np.zeros(5)))
    value = jax.jit(jax.value_and_grad(lambda p, prior: descent_loss([p[0], p[1]], cov, prior, 20.0)))
    first = jnp.asarray(np.diag(depth.one_layer(spectrum.tolist(), 20).preconditioner))
    assert float(value(jnp.stack([zero, first]), eye)[0]) == pytest.approx(0.68175638, abs=5e-9)
    a1, a2 = np.array([0.5586, 0.5586, 1.6676, 1.8331, 0.5586]), np.array([1.2693, 1.2693, 4.2472, 10.4608, 1.2693])
    loss, gradient = value(jnp.asarray(np.stack([np.diag(a1), np.diag(a2)])), eye)
    assert float(loss) == pytest.approx(0.21151106, abs=2e-8)
    assert np.abs(gradient).max() < 2e-4, "zero, but for the digits that are printed"
    a1, a2 = depth.krylov(5, 20, 2).steps
    loss, gradient = value(jnp.stack([a1 * inverse, a2 * inverse]), inverse)
    assert float(loss) == pytest.approx(0.36123969, abs=5e-9)
    assert np.abs(gradient).max() < 1e-9


@pytest.mark.parametrize("layers", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_words_against_prompts(layers):
    """Random matrices, covariance, prior and noise: 600,000 fresh prompts through the Gram form, within 4 errors."""
    rng, dim, context = np.random.default_rng(layers), 2, 6
    root = rng.normal(size=(dim, dim))
    prior, cov = root @ root.T + 0.2 * np.eye(dim), np.array([[0.8, 0.3], [0.3, 0.5]])
    model = icl.LinearTransformer(layers=layers, num_heads=2, blocks="gd")
    weights = random_weights(model, dim, 0.4)
    task = {
        "dim": dim, "context_len": context, "covariance": icl.Covariance.matrix(cov),
        "prior_covariance": icl.Covariance.matrix(prior), "noise": 0.3,
    }  # fmt: skip
    exact = loss_of(setup_of(model, weights=weights, **task))
    drawn = icl.LinearRegression(**task, num_prompts=600_000).source(1, "float64")

    @eqx.filter_jit
    def squares(own, index):
        batch = drawn.block(index)
        return jnp.where(batch.weight > 0, ((jax.vmap(own.predict)(batch.prompt) - batch.target) ** 2)[:, 0], jnp.nan)

    model = model.rebuild(dim, weights)
    errors = np.concatenate([np.asarray(squares(model, jnp.asarray(i))) for i in range(drawn.num_blocks)])
    errors = errors[np.isfinite(errors)]
    assert len(errors) == 600_000
    assert abs(errors.mean() - exact) < 4 * errors.std() / len(errors) ** 0.5


@pytest.mark.parametrize(
    ("dim", "layers"), [(1, 4), (2, 3), *(pytest.param(3, layers, marks=pytest.mark.slow) for layers in (2, 3))]
)
def test_moments_are_the_samples_where_they_fit(dim, layers):
    model = icl.LinearTransformer(layers=layers, num_heads=2, blocks="gd")
    weights = random_weights(model, dim, 0.4)
    given = {"dim": dim, "context_len": 6, "num_prompts": 80, "noise": 0.2, "weights": weights}
    moments, samples = setup_of(model, "moments", **given), setup_of(model, "samples", **given)
    assert setup_of(model, **given).engine_name == "moments"
    assert moments.engine.train.second.shape[0] == gd_features(dim, layers)

    def both(setup):
        return eqx.filter_jit(eqx.filter_value_and_grad(setup.engine.loss))(setup.model, KEY)

    (exact, slope), (drawn, other) = both(moments), both(samples)
    np.testing.assert_allclose(exact, drawn, rtol=1e-10)
    np.testing.assert_allclose(slope.a, other.a, rtol=1e-8, atol=1e-10 * np.abs(other.a).max())


FITS = [("sparse", 2, 2, 2), ("full", 2, 2, 1)]
FITS_TOO = [
    ("sparse", 1, 4, 1), ("sparse", 1, 3, 2), ("sparse", 2, 3, 1), ("sparse", 3, 2, 1), ("sparse", 4, 2, 1),
    ("full", 1, 2, 2), ("full", 1, 3, 1),
    ("full", 3, 2, 1), ("full", 10, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("blocks", "dim", "layers", "heads"), [*FITS, *(pytest.param(*case, marks=pytest.mark.slow) for case in FITS_TOO)]
)
def test_moments_of_curved_and_full_layers_are_the_samples_where_they_fit(blocks, dim, layers, heads):
    model = icl.LinearTransformer(layers=layers, num_heads=heads, blocks=blocks)
    weights = random_weights(model, dim, 0.3)
    given = {"dim": dim, "context_len": 6, "num_prompts": 12, "noise": 0.2, "weights": weights}
    moments, samples = setup_of(model, "moments", **given), setup_of(model, "samples", **given)
    assert setup_of(model, **given).engine_name == "samples", "which is cheaper"
    count = {"sparse": sparse_features, "full": full_features}[blocks](dim, layers)
    assert moments.engine.train.second.shape[0] == count <= 6000
    both = eqx.filter_jit(lambda setup: eqx.filter_value_and_grad(setup.engine.loss)(setup.model, KEY))
    (exact, slope), (drawn, other) = both(moments), both(samples)
    np.testing.assert_allclose(exact, drawn, rtol=1e-10)
    for one, two in zip(jax.tree.leaves(slope), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10 * np.abs(two).max())


def test_coefficients_predict_what_the_layers_predict():
    """Tied and looped too: one set of weights, more loops."""
    prompt = full_prompt(*(jnp.asarray(v) for v in np.split(np.random.default_rng(3).normal(size=(4, 3)), [2], 1)),
                         jnp.asarray([0.3, -1.2]))  # fmt: skip
    for blocks in ("sparse", "full"):
        spec = icl.LinearTransformer(layers=1, blocks=blocks, tied=True, normalize="none")
        model = spec.rebuild(2, random_weights(spec, 2, 0.3)).looped(2)
        read = eqx.filter_jit(lambda own, p: own.feature_map(p) @ own.coefficients())(model, prompt)
        np.testing.assert_allclose(read, model.predict(prompt), rtol=1e-12)


def test_the_number_of_features_is_the_table():
    assert [gd_features(d, 2) for d in (2, 3, 4, 5, 10)] == [16, 63, 176, 400, 5600]
    assert [gd_features(d, 3) for d in (2, 3, 4, 5, 10)] == [40, 252, 1056, 3400, 159600]
    assert [sparse_features(d, 2) for d in (1, 2, 3, 4, 5)] == [4, 80, 756, 4576, 20400]
    assert [full_features(d, 2) for d in (1, 2, 3, 4, 10)] == [34, 418, 3000, 15500, 9168940]


def test_what_does_not_fit_is_refused_with_its_features():
    with pytest.raises(icl.IclearnError, match="read 159600 features, more than 6000: use engine samples"):
        setup_of(icl.LinearTransformer(layers=3, blocks="gd"), "moments", dim=10, num_prompts=50)
    with pytest.raises(icl.IclearnError, match="blocks sparse with 2 layers at dim 5 read 20400 features"):
        setup_of(icl.LinearTransformer(layers=2), "moments", num_prompts=50)
    with pytest.raises(icl.IclearnError, match=r"blocks diag .* are not built: use engine samples"):
        setup_of(icl.LinearTransformer(layers=1, blocks="diag"), "moments", dim=2, num_prompts=50)
    with pytest.raises(icl.IclearnError, match="read 9168940 features"):
        setup_of(icl.LinearTransformer(layers=2, blocks="full"), "moments", dim=10, num_prompts=50)


def test_what_has_no_population_loss_is_refused():
    with pytest.raises(
        icl.IclearnError, match="blocks sparse with matrices have a closed-form population loss for up to 1"
    ):
        setup_of(icl.LinearTransformer(layers=2))
    with pytest.raises(icl.IclearnError, match=r"scalar weights .* up to 4 layers, not 5"):
        setup_of(icl.LinearTransformer(layers=5, scalar=True))
    with pytest.raises(icl.IclearnError, match="isotropic inputs"):
        setup_of(icl.LinearTransformer(layers=2, scalar=True), covariance=icl.Covariance.linear())
    with pytest.raises(icl.IclearnError, match="task vectors of mean zero"):
        setup_of(icl.LinearTransformer(layers=2, scalar=True), prior_mean=(1.0,) * 5)
    with pytest.raises(icl.IclearnError, match=r"FullTransformer has no closed-form|needs a linear model"):
        setup_of(icl.LinearTransformer(layers=2, blocks="full"), "population")
    with pytest.raises(icl.IclearnError, match="integrates over infinitely many prompts"):
        setup_of(icl.LinearTransformer(layers=2, scalar=True), "population", num_prompts=50)


def test_samples_keep_the_gram_matrix_and_not_the_tokens():
    model = icl.LinearTransformer(layers=2, blocks="full")
    weights = random_weights(model, 3, 0.3)
    setup = setup_of(model, "samples", dim=3, context_len=50, num_prompts=40, weights=weights)
    read = setup.engine.train.prompt
    assert isinstance(read, GramPrompt)
    assert read.gram.shape == (40, 4, 4)
    task = icl.LinearRegression(dim=3, context_len=50, covariance=WHITE, num_prompts=40)
    batch = task.source(0, "float64").everything()
    tokens = eqx.filter_jit(lambda own, p: jax.vmap(own.predict_tokens)(p))(setup.model, batch.prompt)
    assert loss_of(setup) == pytest.approx(float(jnp.mean((tokens - batch.target) ** 2)), rel=1e-11)


@pytest.mark.parametrize(("blocks", "heads"), [pytest.param("gd", 1, marks=pytest.mark.slow), ("sparse", 2)])
def test_the_loss_given_the_second_moments(blocks, heads):
    """Its mean over spectra is the mean over prompts; for gd it is the population loss. All within 4 errors."""
    dim, context = 3, 8
    model = icl.LinearTransformer(layers=2, num_heads=heads, blocks=blocks)
    weights = random_weights(model, dim, 0.3)
    task = {
        "dim": dim,
        "context_len": context,
        "covariance": icl.Covariance.power(rotate=True, trace=2.0),
        "noise": 0.4,
    }
    setup = setup_of(model, "gram", weights=weights, batch=20_000, **task)
    engine, own = setup.engine, setup.model
    second = draw_second_moments(KEY, engine.factor, context, 20_000)
    cov = engine.factor @ engine.factor.T
    one = eqx.filter_jit(
        lambda m, each: jax.vmap(lambda s: m.conditional_loss(s, cov, engine.prior, engine.noise / context))(each)
    )
    given = one(own, second)
    assert loss_of(setup) == pytest.approx(float(given.mean()), rel=1e-12)
    np.testing.assert_allclose(second.mean(0), cov, atol=0.03)
    if blocks == "gd":
        exact, error = loss_of(setup_of(model, weights=weights, **task)), 0.0
    else:
        batch = icl.LinearRegression(**task, num_prompts=100_000).source(0, "float64").everything()
        squares = ((eqx.filter_jit(lambda m, p: jax.vmap(m.predict)(p))(own, batch.prompt) - batch.target) ** 2)[:, 0]
        exact, error = float(squares.mean()), float(squares.std()) / len(squares) ** 0.5
    assert abs(float(given.mean()) - exact) < 4 * np.hypot(error, float(given.std()) / len(given) ** 0.5)


def test_the_gram_engine_trains_with_any_context_and_refuses_what_it_is_not_for():
    task = icl.LinearRegression(dim=3, context_len=1000, covariance=WHITE, num_prompts=None)
    recipe = icl.Recipe(
        task=task, model=icl.LinearTransformer(layers=2), engine="gram", init=icl.Init(0.1), steps=150,
        optimizer=icl.Optimizer("adam", lr=0.05, batch_size=20),
    )  # fmt: skip
    trace = icl.simulate(recipe)
    assert trace.final_loss < 0.01
    assert trace.provenance["engine"] == "gram"
    few = draw_second_moments(KEY, jnp.eye(3), 2, 4000)
    assert np.linalg.matrix_rank(np.asarray(few)).max() == 2, "fewer pairs than dimensions"
    np.testing.assert_allclose(few.mean(0), np.eye(3), atol=0.1)
    for change, words in [
        ({"model": icl.LinearTransformer(layers=2, blocks="full")}, "linear in the labels"),
        ({"task__num_prompts": 10}, "num_prompts=None"),
        ({"task__prefixes": True}, "no prefixes"),
        ({"model__normalize": "none"}, "normalize='context'"),
    ]:
        with pytest.raises(icl.IclearnError, match=words):
            prepare(recipe.replace(**change))


def test_population_training_reaches_the_krylov_optimum():
    task = icl.LinearRegression(dim=5, context_len=20, covariance=WHITE, num_prompts=None)
    model = icl.LinearTransformer(layers=3, blocks="gd", scalar=True)
    recipe = icl.Recipe(
        task=task, model=model, init=icl.Init(0.1), steps=3000, optimizer=icl.Optimizer("adam", lr=0.01)
    )
    trace = icl.simulate(recipe)
    best = depth.krylov(5, 20, 3)
    assert trace.final_loss == pytest.approx(best.loss, rel=1e-5)
    assert sorted(trace.weights(-1)["a"].ravel()) == pytest.approx(best.steps, rel=0.01)


def test_gradients_of_the_population_losses_are_finite_differences():
    for model in (icl.LinearTransformer(layers=2, scalar=True), icl.LinearTransformer(layers=2, blocks="gd")):
        setup = setup_of(model, weights=random_weights(model, 5, 0.3), noise=0.1)
        loss = eqx.filter_jit(setup.engine.loss)
        slope = eqx.filter_jit(eqx.filter_grad(setup.engine.loss))(setup.model, KEY)
        index = (0,) * setup.model.a.ndim
        ends = [
            loss(eqx.tree_at(lambda m: m.a, setup.model, setup.model.a.at[index].add(h)), KEY) for h in (1e-5, -1e-5)
        ]
        assert float(slope.a[index]) == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_many_runs_side_by_side():
    task = icl.LinearRegression(dim=3, context_len=10, covariance=WHITE, num_prompts=None)
    recipe = icl.Recipe(task=task, model=icl.LinearTransformer(layers=2, scalar=True), init=icl.Init(0.3), steps=50)
    found = icl.sweep(recipe, {"seed": [0, 1], "optimizer.lr": [0.01, 0.02]})
    alone = icl.simulate(recipe.replace(seed=1, optimizer__lr=0.02))
    assert float(found["final_loss"].sel(seed=1, lr=0.02)) == pytest.approx(alone.final_loss, rel=1e-10)
