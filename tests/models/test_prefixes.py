"""Every prefix of a sequence in one pass: the prompts cut there, and the causal form against a naive one."""

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.prompt import full_prompt
from iclearn.models.predictors import Ridge

DIM, TOKENS = 3, 6
BLOCKS = [("gd", "context"), ("sparse", "none"), ("full", "context"), ("diag", "context")]


def sequence(seed: int = 0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(TOKENS, DIM))
    return jnp.asarray(x), jnp.asarray(x @ rng.normal(size=(DIM, 1)) + 0.1 * rng.normal(size=(TOKENS, 1)))


def drawn(blocks: str, normalize: str, layers: int = 3):
    spec = icl.LinearTransformer(layers=layers, blocks=blocks, normalize=normalize)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    return spec.rebuild(DIM, {name: 0.15 * rng.normal(size=shape) for name, shape in spec.shapes(DIM).items()})


def naive_causal(model, x: np.ndarray, y: np.ndarray, query: np.ndarray) -> float:
    """Loops over layers, tokens and sources: context token i reads tokens up to i, the query all of the context."""
    tokens = [np.append(a, b) for a, b in zip(x, y[:, 0], strict=True)]
    asked = np.append(query, 0.0)
    layers = [(np.asarray(layer.value), np.asarray(layer.key)) for layer in model.layer_maps()]
    for value, key in layers:

        def update(token, sources, value=value, key=key):
            scale = 1 / max(len(sources), 1) if model.normalize == "context" else 1.0
            read = sum((v @ s * (s @ k @ token) for s in sources for v, k in zip(value, key, strict=True)), 0 * token)
            return token + scale * read

        asked = update(asked, tokens)
        tokens = [update(token, tokens[: i + 1]) for i, token in enumerate(tokens)]
    return -asked[-1]


@pytest.mark.parametrize(("blocks", "normalize"), BLOCKS)
def test_prefixes_are_the_prompts_cut_there(blocks, normalize):
    model, (x, y) = drawn(blocks, normalize), sequence()
    found = np.asarray(model.predict_prefixes(x, y))[:, 0]
    alone = [float(model.predict(full_prompt(x[:n], y[:n], x[n]))[0]) for n in range(1, TOKENS)]
    assert found[0] == 0, "without a context there is nothing to attend to"
    np.testing.assert_allclose(found[1:], alone, rtol=1e-12)
    np.testing.assert_array_equal(found, model.predict_prefixes(x, y.at[-1].set(9.0))[:, 0])


@pytest.mark.parametrize(("blocks", "normalize"), BLOCKS)
def test_the_causal_form_is_each_prefix_of_a_causally_masked_transformer(blocks, normalize):
    model, (x, y) = drawn(blocks, normalize), sequence()
    found = np.asarray(model.predict_prefixes(x, y, causal=True))[:, 0]
    naive = [naive_causal(model, np.asarray(x[:n]), np.asarray(y[:n]), np.asarray(x[n])) for n in range(TOKENS)]
    np.testing.assert_allclose(found, naive, rtol=1e-12, atol=1e-14)
    cut = np.asarray(model.predict_prefixes(x[:4], y[:4], causal=True))[:, 0]
    np.testing.assert_allclose(found[:4], cut, rtol=1e-13, atol=1e-15)
    other = np.asarray(model.predict_prefixes(x, y))[:, 0]
    assert np.abs(found - other).max() > 1e-4 * np.abs(found).max(), "context tokens read less"
    one = drawn(blocks, normalize, 1)
    np.testing.assert_allclose(one.predict_prefixes(x, y, causal=True), one.predict_prefixes(x, y), rtol=1e-12)


def test_any_model_has_prefixes():
    x, y = sequence()
    found = np.asarray(Ridge(0.5).predict_prefixes(x, y))[:, 0]
    alone = [float(Ridge(0.5).predict(full_prompt(x[:n], y[:n], x[n]))[0]) for n in range(1, TOKENS)]
    np.testing.assert_allclose(found, [0.0, *alone], rtol=1e-12, atol=1e-15)
