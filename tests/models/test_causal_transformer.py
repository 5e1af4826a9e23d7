"""The causal transformer: against loops in numpy, exactly causal, all prefixes in one pass, how weights begin."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core.model import mean_loss
from iclearn.core.prompt import full_prompt, prefix_prompt
from iclearn.engines import tried_kernels
from iclearn.engines.samples import samples_engine

DIM, TOKENS, PROMPTS = 3, 5, 4
TASK = icl.tasks.PooledRegression(dim=DIM, context_len=TOKENS - 1, num_tasks=4, num_prompts=PROMPTS, prefixes=True)
OPTIONS = [
    {},
    {"positions": "rotary", "norm": "rms"},
    {"positions": "none", "norm": "none", "entries": "shared"},
    {"entries": "shared", "num_heads": 1},
]
forward = eqx.filter_jit(lambda model, x, y: model.predict_sequences(x, y))


def spec(**options) -> icl.CausalTransformer:
    return icl.CausalTransformer(**{"layers": 2, "width": 8, "num_heads": 2, **options})


def drawn(**options):
    """A model in which every weight matters."""
    made, rng = spec(**options), np.random.default_rng(1)
    return made.rebuild(DIM, {n: 0.4 * rng.normal(size=s) for n, s in made.shapes(DIM, TOKENS).items()})


def sequences(seed: int = 0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(PROMPTS, TOKENS, DIM)), rng.normal(size=(PROMPTS, TOKENS, 1))
    return jnp.asarray(x), jnp.asarray(y)


def naive(model, x, y, *, rotary, norm, shared, heads):
    """One sequence, token by token and head by head; the answers at the inputs."""
    weights = {name: np.asarray(weight) for name, weight in model.weights().items()}
    width = weights["qkv"].shape[1]

    def normalized(h, name, index=None):
        at = lambda kind: weights[f"{name}_{kind}"] if index is None else weights[f"{name}_{kind}"][index]  # noqa: E731
        if norm == "none":
            return h
        h = h - h.mean() if norm == "layer" else h
        h = h / math.sqrt((h**2).mean() + 1e-5) * at("scale")
        return h + at("offset") if norm == "layer" else h

    def turn(row, position):
        half, new = len(row) // 2, row.copy()
        for j in range(half if rotary else 0):
            angle = position * 10_000.0 ** (-j / half)
            new[j] = row[j] * math.cos(angle) - row[j + half] * math.sin(angle)
            new[j + half] = row[j] * math.sin(angle) + row[j + half] * math.cos(angle)
        return new

    hidden = []
    for i in range(TOKENS):
        label = np.zeros(DIM if shared else DIM + 1)
        label[0] = y[i, 0]
        for token in (x[i] if shared else np.append(0.0, x[i]), label):
            h = token @ weights["embed"] + (weights["embed_bias"] if shared else 0)
            hidden.append(h + (weights["position"][len(hidden)] if "position" in weights else 0))
    for layer in range(weights["qkv"].shape[0]):
        rows = [normalized(h, "first", layer) @ weights["qkv"][layer] + weights["qkv_bias"][layer] for h in hidden]
        after = []
        for t, h in enumerate(hidden):
            mixed = np.zeros(width)
            for head in range(heads):
                size = width // heads
                at = slice(head * size, (head + 1) * size)
                query = turn(rows[t][:width][at], t)
                scores = np.array([query @ turn(rows[s][width:][at], s) for s in range(t + 1)]) / math.sqrt(size)
                share = np.exp(scores) / np.exp(scores).sum()
                mixed[at] = sum(p * rows[s][2 * width :][at] for s, p in enumerate(share))
            h = h + mixed @ weights["merge"][layer] + weights["merge_bias"][layer]
            u = normalized(h, "second", layer) @ weights["expand"][layer] + weights["expand_bias"][layer]
            gelu = 0.5 * u * (1 + np.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
            after.append(h + gelu @ weights["contract"][layer] + weights["contract_bias"][layer])
        hidden = after
    ends = np.stack([normalized(h, "final") for h in hidden[::2]]) @ weights["read_out"]
    return ends[:, 0] + (weights["read_bias"] if shared else 0)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_form_is_that_of_loops(options):
    model, (x, y) = drawn(**options), sequences()
    given = {"positions": "learned", "norm": "layer", "entries": "separate", "num_heads": 2, **options}
    named = {"rotary": given["positions"] == "rotary", "norm": given["norm"], "shared": given["entries"] == "shared"}
    wanted = naive(model, np.asarray(x[1]), np.asarray(y[1]), heads=given["num_heads"], **named)
    np.testing.assert_allclose(forward(model, x, y)[1, :, 0], wanted, rtol=1e-12, atol=1e-14)


def test_later_tokens_change_no_earlier_prediction():
    model, (x, y) = drawn(), sequences()
    found = np.asarray(forward(model, x, y))
    for token in range(TOKENS):
        np.testing.assert_array_equal(forward(model, x, y.at[:, token].add(3.0))[:, : token + 1], found[:, : token + 1])
        other = np.asarray(forward(model, x.at[:, token].add(3.0), y))
        np.testing.assert_array_equal(other[:, :token], found[:, :token])
        assert (other[:, token:] != found[:, token:]).all(), "and all later ones"


def test_one_pass_is_a_pass_for_every_prefix():
    model, (x, y) = drawn(layers=1), sequences()
    found = np.asarray(forward(model, x, y))[:, :, 0]
    answer = eqx.filter_jit(lambda prompts: jax.vmap(model.predict)(prompts)[:, 0])
    for count in range(TOKENS):
        masked = answer(prefix_prompt(x, y, jnp.asarray(count)))
        np.testing.assert_allclose(masked, found[:, count], rtol=1e-12, atol=1e-15)
    cut = answer(full_prompt(x[:, :2], y[:, :2], x[:, 2]))
    np.testing.assert_allclose(cut, found[:, 2], rtol=1e-12)
    with pytest.raises(icl.IclearnError, match="positions were learned for 5 inputs, and these sequences have 6"):
        model.predict_prefixes(jnp.ones((6, DIM)), jnp.ones((6, 1)))


def test_the_trained_loss_is_the_mean_over_all_prefixes_the_empty_one_included():
    model = drawn(layers=1)
    engine = samples_engine(TASK, None, 3, jnp.float64, model)
    prompts = TASK.source(3, "float64").sequences()
    answers = np.asarray(forward(model, prompts.x, prompts.y))
    loss = float(eqx.filter_jit(engine.loss)(model, jax.random.key(0)))
    assert loss == pytest.approx(float(np.mean((answers - np.asarray(prompts.y)) ** 2)), rel=1e-12)
    apart = TASK.source(3, "float64").everything(TASK.context_lengths())  # each prefix a prompt of its own
    assert loss == pytest.approx(float(eqx.filter_jit(mean_loss)(model, apart)), rel=1e-12)


def test_weights_begin_as_gpt_2_s():
    model = icl.CausalTransformer(layers=2, width=64).initial(TASK, icl.Init(0.02), 0, "float64")
    weights = {name: np.asarray(weight) for name, weight in model.weights().items()}
    sizes = {"qkv": 0.02, "expand": 0.02, "merge": 0.01, "contract": 0.01}
    for name, size in sizes.items():
        assert weights[name].std() == pytest.approx(size, rel=0.02)
    assert weights["position"].shape == (2 * TOKENS, 64)
    assert weights["embed"].std() == pytest.approx(0.02, rel=0.2)
    assert all((weights[n] == 0).all() for n in weights if n.endswith(("bias", "offset")))
    assert all((weights[n] == 1).all() for n in weights if n.endswith("scale"))
    far, shared = jnp.array([-9.0, 0.0, 9.0]), spec(entries="shared", width=64)
    for name, fan_in in {"embed": DIM, "embed_bias": DIM, "read_out": 64, "read_bias": 64}.items():
        edges = shared.start(name, far, jnp.asarray(0.02), DIM)
        np.testing.assert_allclose(edges, np.array([-1, 0, 1]) / fan_in**0.5, atol=1e-12)


def test_lower_precisions_stay_close_and_belong_to_the_recipe():
    x, y = (a.astype("float32") for a in sequences())
    made = {p: spec(layers=1, precision=p) for p in ("full", "tf32", "bfloat16")}
    assert len({made[p].hash for p in made}) == 3
    start = {n: np.asarray(w, np.float32) for n, w in drawn(layers=1).weights().items()}
    found = {p: np.asarray(forward(made[p].rebuild(DIM, start), x, y)) for p in made}
    size = np.abs(found["full"]).max()
    assert found["bfloat16"].dtype == np.float32
    assert np.abs(found["tf32"] - found["full"]).max() < 5e-3 * size
    assert 0 < np.abs(found["bfloat16"] - found["full"]).max() < 0.05 * size
    with pytest.raises(icl.IclearnError, match="products in bfloat16 are for runs in float32, not float64"):
        made["bfloat16"].initial(TASK, icl.Init(0.02), 0, "float64")


def test_on_a_gpu_kernels_are_tried_out_and_the_provenance_says_so(monkeypatch):
    """Here with an option of the processor's compiler in their place: same numbers, another program."""
    task = TASK.replace(num_prompts=None)
    optimizer = icl.Optimizer("adam", 1e-2, batch_size=4)
    recipe = icl.Recipe(task=task, model=spec(layers=1), optimizer=optimizer, steps=3, dtype="float32")
    plain = icl.simulate(recipe)
    assert plain.provenance["path"] == "xla"
    options = []
    monkeypatch.setattr(
        tried_kernels, "tuning_options", lambda: options.append(1) or {"xla_cpu_enable_fast_math": False}
    )
    tried_kernels.tuned.cache_clear()
    both = [icl.simulate(recipe), *icl.simulate_many([recipe, recipe.replace(seed=1)])]
    tried_kernels.tuned.cache_clear()
    assert options
    assert [trace.provenance["path"] for trace in both] == [tried_kernels.TUNED_PATH] * 3
    for trace in both[:2]:
        np.testing.assert_allclose(trace.loss, plain.loss, rtol=1e-5)
    assert not tried_kernels.is_tuned(icl.Attention("merged").initial(TASK, icl.Init(0.1), 0, "float64"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"width": 9}, "2 heads share a width of 9: choose a multiple"),
        ({"width": 6, "positions": "rotary"}, "rotary positions need an even number of entries a head"),
        ({"layers": 0}, "layers"),
    ],
)
def test_what_cannot_be_is_refused(options, words):
    with pytest.raises(icl.IclearnError, match=words):
        spec(**options)
