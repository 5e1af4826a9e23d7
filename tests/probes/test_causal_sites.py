"""Looking inside the causal transformer: interventions, scores of heads, lens, probes with their controls."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.probes import (
    alone,
    averaged,
    clamped_pattern,
    controlled_probe,
    neighbor_scores,
    pairing_pattern,
    pairing_scores,
    patched,
    prefix_scores,
    read_out_lens,
    run_sites,
    silenced,
    site_names,
    tempered,
    together,
)

DIM, TOKENS, PROMPTS = 3, 5, 6
OPTIONS = [{}, {"positions": "rotary", "norm": "rms"}, {"positions": "none", "norm": "none", "entries": "shared"}]


def drawn(seed=0, **options):
    """A model in which every weight matters."""
    spec = icl.CausalTransformer(**{"layers": 2, "width": 8, "num_heads": 2, **options})
    rng = np.random.default_rng(seed)
    return spec.rebuild(DIM, {n: 0.4 * rng.normal(size=s) for n, s in spec.shapes(DIM, TOKENS).items()})


@pytest.fixture(scope="module")
def sequences():
    rng = np.random.default_rng(5)
    return jnp.asarray(rng.normal(size=(PROMPTS, TOKENS, DIM))), jnp.asarray(rng.normal(size=(PROMPTS, TOKENS, 1)))


@pytest.fixture(scope="module")
def model():
    return drawn()


@pytest.fixture(scope="module")
def sites(model, sequences):
    return run_sites(model, *sequences)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_without_interventions_it_is_the_model(options, sequences):
    made = drawn(**options)
    found = run_sites(made, *sequences)
    np.testing.assert_allclose(found["answers"], made.predict_sequences(*sequences)[..., 0], rtol=1e-12, atol=1e-13)
    assert tuple(found) == site_names(made)


def test_patching(model, sites, sequences):
    own = run_sites(model, *sequences, patched(sites))
    for name in sites:
        np.testing.assert_allclose(own[name], sites[name], rtol=1e-12, atol=1e-13)
    other = drawn(seed=1)
    theirs = run_sites(other, *sequences)
    assert float(abs(theirs["answers"] - sites["answers"]).max()) > 0.01
    np.testing.assert_array_equal(run_sites(model, *sequences, patched(theirs))["answers"], theirs["answers"])
    everything = [name for name in theirs if name != "answers"]
    read = {name: getattr(other, name) for name in ("read_out", "final_scale", "final_offset")}
    host = replace(model, **read)  # all that comes after the last residual stream
    np.testing.assert_allclose(
        run_sites(host, *sequences, patched(theirs, everything))["answers"], theirs["answers"], rtol=1e-12
    )


def test_silenced_heads_are_those_without_values(model, sites, sequences):
    size = model.qkv.shape[1] // model.num_heads
    for layer, head in ((0, 1), (1, 0)):
        merge = model.merge.at[layer, head * size : (head + 1) * size].set(0)
        cut = replace(model, merge=merge).predict_sequences(*sequences)[..., 0]
        found = run_sites(model, *sequences, silenced(model, layer, head))["answers"]
        np.testing.assert_allclose(found, cut, rtol=1e-11, atol=1e-12)
    np.testing.assert_array_equal(
        run_sites(model, *sequences, alone(model, 0, 0))["answers"],
        run_sites(model, *sequences, silenced(model, 0, 1))["answers"],
    )
    mean = run_sites(model, *sequences, averaged(model, sites, 0, [0, 1]))["0.mixed"]
    np.testing.assert_allclose(mean, np.broadcast_to(sites["0.mixed"].mean(0), mean.shape), rtol=1e-12)


def test_patterns_can_be_clamped_frozen_and_tempered(model, sites, sequences):
    pattern, rows = pairing_pattern(TOKENS)
    found = run_sites(model, *sequences, clamped_pattern(model, 0, 1, pattern, rows))
    assert pairing_scores(found)[0, 1] == 1
    np.testing.assert_array_equal(found["0.pattern"][:, :, ::2], sites["0.pattern"][:, :, ::2])
    np.testing.assert_array_equal(found["0.pattern"][:, 0], sites["0.pattern"][:, 0])
    hot = run_sites(model, *sequences, tempered(model, 0, 0, 1e9))["0.pattern"]
    np.testing.assert_allclose(hot[:, 0, 5, :6], 1 / 6, rtol=1e-6)
    np.testing.assert_array_equal(hot[:, 1], sites["0.pattern"][:, 1])
    frozen = together(patched(sites, ["1.pattern"]), silenced(model, 0, 0))
    direct = run_sites(model, *sequences, frozen)
    np.testing.assert_array_equal(direct["1.pattern"], sites["1.pattern"])
    moved = run_sites(model, *sequences, silenced(model, 0, 0))
    assert float(abs(moved["1.pattern"] - sites["1.pattern"]).max()) > 1e-4
    assert float(abs(moved["answers"] - direct["answers"]).max()) > 1e-6


def test_what_is_not_there_is_refused(model, sites, sequences):
    for call, message in (
        (lambda: run_sites(model, *sequences, {"7.mixed": (True, 0.0)}), r"no site 7\.mixed; sites are embed, 0\.quer"),
        (lambda: silenced(model, 0, 4), "heads are 0 to 1"),
        (lambda: silenced(model, 3, 0), "layers are 0 to 1"),
        (lambda: tempered(model, 0, 0, 0.0), "above 0"),
        (lambda: patched(sites, ["nothing"]), "no site nothing"),
        (lambda: pairing_scores({}), "need the patterns"),
        (lambda: read_out_lens(sites, np.zeros((2, 2))), "targets have shape"),
    ):
        with pytest.raises(icl.IclearnError, match=message):
            call()


def test_scores_of_heads_see_what_they_should():
    x = np.array([[[0.0], [5.0], [0.0], [4.9]]])
    pattern = np.zeros((1, 2, 8, 8))
    pattern[0, 0, 4, 1] = 1  # the third input, equal to the first, attends to its label
    pattern[0, 0, 6, 3] = 1  # the fourth to the label of the second, its nearest
    pattern[0, 0, 2, 1] = 1  # the second to the label of the only one before it
    pattern[0, 1, ::2, 0] = 1  # the other head to the first input
    sites = {"0.pattern": pattern}
    assert prefix_scores(sites, x).tolist() == [[1.0, 0.0]]
    assert neighbor_scores(sites, x).tolist() == [[1.0, 0.0]]
    assert np.isnan(prefix_scores(sites, np.arange(4.0).reshape(1, 4, 1))).all()


def test_the_lens_reads_what_is_there(model, sequences):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(80, TOKENS, DIM)))
    y = jnp.zeros((80, TOKENS, 1))
    bare = drawn(positions="none", norm="none")
    lens = read_out_lens(run_sites(bare, x, y), np.asarray(x[..., 0] - 2 * x[..., 1]))
    assert lens.errors.shape == (3, 40, TOKENS)
    assert lens.mean_square[0].max() < 1e-20, "a linear function of the input is in the embedding"
    assert lens.mean_square[1].max() > 1e-4


def test_probes_stand_beside_all_four_controls():
    rng = np.random.default_rng(0)
    w, q = rng.normal(size=(2, 600, 3))
    shared = rng.normal(size=(600, 3))
    states = np.concatenate([q, (w * q).sum(1, keepdims=True)], 1)
    found = controlled_probe(
        states, (w * q).sum(1), untrained=q, shared_states=shared, shared_target=shared.sum(1), seed=1
    )
    assert found.score > 0.99
    assert max(found.shuffled, found.untrained) < 0.1
    assert found.shared > 0.99
    assert found.selectivity == pytest.approx(found.score - max(found.shuffled, found.untrained))
    weights = controlled_probe(q, q[:, 0] * q[:, 1], untrained=w, shared_states=shared, shared_target=shared[:, 0])
    assert weights.score < 0.1 < 0.5 < weights.nonlinear


def test_the_golden_ablations(golden):
    from iclearn.papers.raventos2023.golden_transformer import _garg_weights

    arrays = golden("functions/gpt2_d5")
    dim, _, width, layers, heads = (int(size) for size in arrays["sizes"])
    spec = icl.CausalTransformer(layers=layers, width=width, num_heads=heads, entries="shared")
    made = spec.rebuild(dim, _garg_weights(arrays, layers))
    x, y = jnp.asarray(arrays["x"]), jnp.asarray(arrays["y"])[..., None]
    for layer in range(layers):
        for head in range(heads):
            found = run_sites(made, x, y, silenced(made, layer, head))["answers"]
            np.testing.assert_allclose(found, arrays["ablated"][layer, head], atol=1e-11)


def test_of_two_interventions_the_later_one_holds(model, sites, sequences):
    both = together(silenced(model, 0, [0, 1]), {"0.mixed": (np.array([True, False])[:, None], 2.0)})
    found = run_sites(model, *sequences, both)["0.mixed"]
    assert float(abs(found[:, :, 0] - 2).max()) == 0
    assert float(abs(found[:, :, 1]).max()) == 0
