"""Deep linear transformers: the Gram form against the tokens, gradient descent, and its residual form."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.prompt import Prompt, full_prompt
from iclearn.models import SparseTransformer

DIM, CONTEXT = 3, 7
CASES = [
    icl.LinearTransformer(layers=layers, num_heads=heads, blocks=blocks, tied=tied, scalar=scalar, normalize=normalize)  # type: ignore[arg-type]
    for blocks, heads, scalar, layers, tied, normalize in [
        ("gd", 2, False, 3, False, "context"),
        ("gd", 1, True, 3, True, "context"),
        ("sparse", 2, False, 3, True, "context"),
        ("sparse", 2, False, 3, False, "none"),
        ("sparse", 1, True, 1, False, "context"),
        ("full", 2, False, 3, False, "none"),
        ("full", 1, False, 3, True, "context"),
        ("diag", 1, False, 3, False, "context"),
        ("diag", 1, False, 3, True, "none"),
    ]
]


def some_prompt(seed: int = 0, context: int = CONTEXT) -> Prompt:
    rng = np.random.default_rng(seed)
    x, w = rng.normal(size=(context + 1, DIM)), rng.normal(size=(DIM, 1))
    return full_prompt(jnp.asarray(x[:-1]), jnp.asarray(x[:-1] @ w), jnp.asarray(x[-1]))


def drawn(spec: icl.LinearTransformer, size: float = 0.3):
    """Weights of order one, whatever the init of the blocks is."""
    rng = np.random.default_rng(1)
    return spec.rebuild(DIM, {name: size * rng.normal(size=shape) for name, shape in spec.shapes(DIM).items()})


@pytest.mark.parametrize("spec", CASES, ids=lambda s: f"{s.describe()} {s.normalize}")
def test_the_gram_form_is_the_token_form(spec):
    model, prompt = drawn(spec, 0.3 if spec.normalize == "context" else 0.1), some_prompt()
    tokens = eqx.filter_jit(model.predict_tokens)(prompt)
    np.testing.assert_allclose(eqx.filter_jit(model.predict)(prompt), tokens, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(eqx.filter_jit(model.predict)(model.summarize(prompt)), tokens, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("blocks", ["gd", "sparse", "full", "diag"])
def test_a_prefix_is_the_prompt_without_its_later_pairs(blocks):
    prompt = some_prompt()
    masked = Prompt(prompt.x, prompt.y, prompt.query, jnp.arange(CONTEXT) < 4)
    short = full_prompt(prompt.x[:4], prompt.y[:4], prompt.query)
    model = drawn(icl.LinearTransformer(layers=2, blocks=blocks))
    np.testing.assert_allclose(model.predict(masked), model.predict(short), rtol=1e-13)
    np.testing.assert_allclose(model.predict_tokens(masked), model.predict(short), rtol=1e-13)


def test_layers_of_gd_are_steps_of_gradient_descent():
    prompt, lr, steps = some_prompt(), 0.3, 4
    model = icl.LinearTransformer(layers=steps, blocks="gd", scalar=True, tied=True).rebuild(DIM, {"a": [[lr]]})
    descent = icl.predictors.GradientDescent(jnp.zeros((DIM, 1)), steps=steps, lr=lr)
    np.testing.assert_allclose(model.predict(prompt), descent.predict(prompt), rtol=1e-12)
    np.testing.assert_allclose(model.readouts(prompt)[-1], model.predict(prompt)[0])
    assert model.readouts(prompt).shape == (steps,)


def test_a_looped_model_runs_for_more_loops_than_it_was_trained_for():
    prompt = some_prompt()
    two = drawn(icl.LinearTransformer(layers=2, blocks="sparse", tied=True))
    six = icl.LinearTransformer(layers=6, blocks="sparse", tied=True).rebuild(DIM, two.weights())
    np.testing.assert_allclose(two.looped(6).predict(prompt), six.predict(prompt), rtol=1e-13)
    np.testing.assert_allclose(two.looped(6).readouts(prompt)[:2], two.readouts(prompt), rtol=1e-13)
    untied = drawn(icl.LinearTransformer(layers=2, blocks="sparse"))
    again = {name: np.concatenate([w, w]) for name, w in untied.weights().items()}
    four = icl.LinearTransformer(layers=4, blocks="sparse").rebuild(DIM, again)
    np.testing.assert_allclose(untied.looped(4).predict(prompt), four.predict(prompt), rtol=1e-13)


def test_the_residual_form_gives_the_error():
    """y_q − ŷ = x_q·(R_L w), T_{l+1} = (I − B T S Tᵀ A) T, R_{l+1} = (I − Tᵀ Aᵀ T S) R (noise-free labels)."""
    prompt = some_prompt()
    model = drawn(icl.LinearTransformer(layers=3, blocks="sparse"))
    assert isinstance(model, SparseTransformer)
    x, eye = np.asarray(prompt.x), np.eye(DIM)
    w = np.linalg.lstsq(x, np.asarray(prompt.y)[:, 0], rcond=None)[0]
    s, t, r = x.T @ x / CONTEXT, eye, eye
    for a, b in zip(np.asarray(model.a)[:, 0], np.asarray(model.b)[:, 0], strict=True):
        t, r = (eye - b @ t @ s @ t.T @ a) @ t, (eye - t.T @ a.T @ t @ s) @ r
    error = np.asarray(prompt.query) @ w - np.asarray(model.predict(prompt))[0]
    np.testing.assert_allclose(error, np.asarray(prompt.query) @ r @ w, rtol=1e-11)


def test_diag_with_two_of_its_numbers_is_gdpp_and_the_last_b_never_matters():
    prompt, eta, b = some_prompt(), [0.4, 0.7], [0.2, 5.0]
    sparse = icl.LinearTransformer(layers=2, scalar=True).rebuild(DIM, {"a": [[v] for v in eta], "b": [[v] for v in b]})
    omega = [[-e * c, 0.0, -e, 0.0] for e, c in zip(eta, b, strict=True)]
    diag = icl.LinearTransformer(layers=2, blocks="diag").rebuild(DIM, {"omega": omega})
    np.testing.assert_allclose(diag.predict(prompt), sparse.predict(prompt), rtol=1e-12)
    other = sparse.looped(2)
    other = icl.LinearTransformer(layers=2, scalar=True).rebuild(DIM, {"a": other.weights()["a"], "b": [[0.2], [-9.0]]})
    np.testing.assert_allclose(other.predict(prompt), sparse.predict(prompt), rtol=1e-13)


def test_deep_attention_without_its_options_is_the_full_linear_transformer():
    rng, prompt = np.random.default_rng(3), some_prompt()
    full = icl.LinearTransformer(layers=2, num_heads=2, blocks="full", key_size=5, normalize="none")
    weights = {name: 0.1 * rng.normal(size=shape) for name, shape in full.shapes(DIM).items()}
    joined = {n: np.concatenate([w[:, 0], w[:, 1]], -2 if n == "output" else -1) for n, w in weights.items()}
    deep = icl.DeepAttention(layers=2, num_heads=2, key_size=5).rebuild(DIM, joined)
    np.testing.assert_allclose(deep.predict(prompt), full.rebuild(DIM, weights).predict(prompt), rtol=1e-12)


def test_masked_pairs_are_not_there_for_softmax_and_interleaved_tokens_either():
    prompt = some_prompt()
    masked = Prompt(prompt.x, prompt.y, prompt.query, jnp.arange(CONTEXT) < 4)
    short = full_prompt(prompt.x[:4], prompt.y[:4], prompt.query)
    for spec in (
        icl.DeepAttention(layers=2, softmax=True, layer_norm=True, mlp=True, bias=True),
        icl.DeepAttention(layers=2, first_softmax=True, interleaved=True),
    ):
        rng = np.random.default_rng(2)
        model = spec.rebuild(DIM, {name: 0.3 * rng.normal(size=shape) for name, shape in spec.shapes(DIM).items()})
        predict = eqx.filter_jit(model.predict)
        np.testing.assert_allclose(predict(masked), predict(short), rtol=1e-12)


def test_activations_are_clipped_beyond_three_layers_only():
    prompt = some_prompt()
    for layers, clipped in [(3, False), (4, True)]:
        spec = icl.DeepAttention(layers=layers, tied=True)
        weights = {name: 2 * np.ones(shape) for name, shape in spec.shapes(DIM).items()}
        free = spec.replace(clip=False).rebuild(DIM, weights).predict(prompt)
        assert (float(abs(spec.rebuild(DIM, weights).predict(prompt)[0])) <= 10) == clipped
        assert abs(float(free[0])) > 10


def test_weights_begin_as_the_public_codes_draw_them():
    task = icl.LinearRegression(dim=30, context_len=40)
    sparse = icl.LinearTransformer(layers=3).initial(task, icl.Init(1e-4), 0, "float64")
    assert sparse.a.shape == (3, 1, 30, 30)  # type: ignore[attr-defined]
    assert float(jnp.std(sparse.a)) == pytest.approx(1e-4, rel=0.05)  # type: ignore[attr-defined]
    full = icl.LinearTransformer(layers=2, blocks="full").initial(task, icl.Init(0.001), 0, "float64")
    size = np.asarray(full.query) / (np.sqrt(0.001 / 31) / 0.87962566)  # type: ignore[attr-defined]
    assert np.abs(size).max() < 2.01
    assert size.std() == pytest.approx(0.8796, rel=0.05)


def test_training_lowers_the_loss_and_frozen_weights_stay():
    task = icl.LinearRegression(dim=2, context_len=6, num_prompts=100, covariance=icl.Covariance.white())
    model = icl.LinearTransformer(layers=2)
    recipe = icl.Recipe(task=task, model=model, init=icl.Init(0.1), steps=100, optimizer=icl.Optimizer("adam", lr=0.02))
    trace = icl.simulate(recipe)
    assert trace.final_loss < 0.5 * float(trace.loss[0])
    frozen = icl.simulate(recipe.replace(optimizer__frozen=("b",), optimizer__rule="adamw", optimizer__lr=0.01))
    np.testing.assert_array_equal(frozen.weights(-1)["b"], frozen.weights(0)["b"])
    assert np.abs(frozen.weights(-1)["a"] - frozen.weights(0)["a"]).max() > 0.1
    with pytest.raises(icl.IclearnError, match="frozen weights p: this model has a, b"):
        icl.simulate(recipe.replace(optimizer__frozen=("p",)))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: icl.LinearTransformer(blocks="diag", num_heads=2), "blocks diag have one head"),
        (lambda: icl.LinearTransformer(normalize="tokens"), "no source of attention"),
        (lambda: icl.LinearTransformer(blocks="full", scalar=True), "scalar weights are those of blocks gd and sparse"),
        (lambda: icl.LinearTransformer(blocks="gd", key_size=3), "key_size is the width"),
        (lambda: icl.LinearTransformer(layers=0), "layers"),
        (lambda: icl.DeepAttention(dampening=0.0), "dampening"),
        (lambda: icl.Optimizer("gd", betas=(0.9, 0.9)), "betas and eps are those of adam"),
        (lambda: icl.Optimizer("adam", betas=(0.9, 1.0)), "betas are two numbers"),
        (lambda: icl.Optimizer("flow", clip=1.0), "a gradient flow has no"),
        (lambda: icl.Optimizer("adam", clip_each=0.0), "clip_each must be positive"),
    ],
)
def test_what_cannot_be_is_refused(make, words):
    with pytest.raises(icl.IclearnError, match=words):
        make()


def test_specs_survive_json_and_older_recipes_keep_their_hash():
    recipe = icl.Recipe(
        task=icl.LinearRegression(dim=2),
        model=icl.LinearTransformer(layers=3, blocks="gd", tied=True),
        optimizer=icl.Optimizer("adam", betas=(0.9, 0.98), clip_each=0.01, halve_every=120),
    )
    assert icl.Recipe.from_json(recipe.to_json()) == recipe
    assert "betas" not in icl.Optimizer("adam").to_dict(), "a recipe of before has the hash of before"
    assert icl.Optimizer("adam", betas=(0.9, 0.98)).hash != icl.Optimizer("adam").hash


def test_gradients_are_clipped_and_learning_rates_halved():
    from iclearn.engines.optimizers import Hyper

    gradient = {"m": jnp.stack([jnp.eye(4), 10 * jnp.eye(4)]), "v": jnp.asarray([3.0, 4.0])}
    rule = Hyper.of(icl.Optimizer("gd", lr=1.0, clip_each=5.0, halve_every=2), "float64").transformation()
    state = rule.init(gradient)
    sizes = []
    for _ in range(5):
        update, state = rule.update(gradient, state)
        sizes.append(float(jnp.linalg.norm(update["m"][1])))  # type: ignore[index]
    assert sizes == [5.0, 5.0, 2.5, 2.5, 1.25]
    whole = Hyper.of(icl.Optimizer("gd", lr=1.0, clip=1.0), "float64").transformation()
    update, _ = whole.update(gradient, whole.init(gradient))
    total = sum(float(jnp.sum(leaf**2)) for leaf in jax.tree.leaves(update))
    assert total == pytest.approx(1.0)


@pytest.mark.parametrize("spec", [icl.DeepAttention(layers=1, softmax=True), icl.DeepAttention(layers=2, mlp=True)])
def test_deep_attention_stays_in_its_precision(spec):
    task = icl.LinearRegression(dim=2, context_len=3, num_prompts=4)
    model = spec.initial(task, icl.Init(0.1), 0, "float32")
    prompt = jax.tree.map(lambda a: a[0], task.source(0, "float32").everything().prompt)
    assert model.predict(prompt).dtype == "float32"


def test_products_of_matrices_or_of_vectors_give_the_same(monkeypatch):
    """Whether G is multiplied out for no layer, for some or for all but the last."""
    task = icl.LinearRegression(dim=3, context_len=5, num_prompts=4)
    spec = icl.LinearTransformer(layers=4, num_heads=2, blocks="full", normalize="none")
    model = spec.initial(task, icl.Init(0.3), 0, "float64")
    prompt = jax.tree.map(lambda a: a[0], task.source(0, "float64").everything().prompt)
    found = []
    for whole in range(4):
        monkeypatch.setattr("iclearn.models.transformer_forms.products_first", lambda depth, entry, heads, n=whole: n)
        found.append(np.asarray(model.readouts(prompt)))
    np.testing.assert_allclose(found[1:], [found[0]] * 3, rtol=1e-12)
    np.testing.assert_allclose(found[0][-1:], model.predict_tokens(prompt), rtol=1e-12)


@pytest.mark.parametrize("blocks", ["gd", "sparse"])
def test_the_loss_given_second_moments_integrates_task_query_and_noise(blocks):
    """ŷ is linear in the labels and in the query, so sums over bases are the expectations."""
    model, prompt = drawn(icl.LinearTransformer(layers=3, num_heads=2, blocks=blocks)), some_prompt()
    rng = np.random.default_rng(3)
    queries, tasks = jnp.asarray(rng.normal(size=(DIM, DIM))), jnp.asarray(rng.normal(size=(DIM, DIM)))

    def answers(labels):
        return jax.vmap(lambda q: model.predict(full_prompt(prompt.x, labels[:, None], q))[0])(queries)

    by_label = jax.jit(jax.jacobian(answers))(jnp.zeros(CONTEXT))  # (query, context)
    left = queries @ tasks - by_label @ prompt.x @ tasks
    noise = 0.7
    expected = float(jnp.sum(left**2) + noise * jnp.sum(by_label**2))
    second = prompt.x.T @ prompt.x / CONTEXT
    found = model.conditional_loss(second, queries.T @ queries, tasks @ tasks.T, jnp.asarray(noise / CONTEXT))
    assert float(found) == pytest.approx(expected, rel=1e-12)
