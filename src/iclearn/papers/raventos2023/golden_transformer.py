"""Golden files ``gpt2*`` and ``small*``: the public transformer of raventos2023 (and Garg et al. 2022), and curves of small ones.

``gpt2.npz`` was made by the public code in double precision but for one thing: inside its compiled step the triangle
schedule is evaluated in float32, from an int32 count, so the rates it trained with are not the doubles that the file
keeps under ``lr``. They are rounded here in the same way (`float32_triangle`); with the doubles the losses differ by up to
9.8e-9. ``small_transformer.npz`` holds curves of one seed: of these, identities and directions are compared and no digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ...core.errors import IclearnError
from ...core.model import mean_loss
from ...core.prompt import SequenceBatch
from ...core.recipe import Optimizer
from ...engines.base import AbstractEngine
from ...engines.loop import initial_state, take_step
from ...engines.optimizers import Hyper, triangle
from ...models.causal_blocks import CausalModel
from ...models.causal_transformer import CausalTransformer
from ..verifying import Quantity, Recomputed

Arrays = Mapping[str, np.ndarray]
ATOL = 1e-10  # of predictions and gradients
IDENTITY = 0.05  # of error(f) = error(best) + Δ(f, best), which holds in the mean over infinitely many prompts
AWAY = {32: 1, 64: 1, 128: 1, 1024: -1}  # whether four times the training leads away from ridge on new tasks
PASSING = {16: 1, 32: 1, 64: 1, 128: 1, 256: 0, 1024: 0}  # whether the distance to ridge has a minimum on the way

_BLOCK = {
    "first_scale": "ln_1/scale", "first_offset": "ln_1/bias", "qkv": "attn/c_attn/kernel",
    "qkv_bias": "attn/c_attn/bias", "merge": "attn/c_proj/kernel", "merge_bias": "attn/c_proj/bias",
    "second_scale": "ln_2/scale", "second_offset": "ln_2/bias", "expand": "mlp/c_fc/kernel",
    "expand_bias": "mlp/c_fc/bias", "contract": "mlp/c_proj/kernel", "contract_bias": "mlp/c_proj/bias",
}  # fmt: skip
_ENDS = {
    "embed": "_in/kernel", "position": "_h/wpe/embedding", "final_scale": "_h/ln_f/scale",
    "final_offset": "_h/ln_f/bias", "read_out": "_out/kernel",
}  # fmt: skip


def recompute(arrays: Arrays) -> Recomputed:
    """Every quantity of a file ``gpt2*`` or ``small*``; its arrays tell which.

    Args:
        arrays: of the file.

    Returns:
        The quantities beside ours.
    """
    kinds = {"param/_in/kernel": _flax, "weight/_read_in.weight": _torch, "run_10k": _curves}
    for name, compute in kinds.items():
        if name in arrays:
            return compute(arrays)
    raise IclearnError(f"none of the arrays {', '.join(kinds)} is there, one of which tells what the file is")


def public_weights(values: Arrays, layers: int) -> dict[str, np.ndarray]:
    """Weights (or their gradients) under the names of `CausalModel`, from those of the public code of raventos2023.

    Args:
        values: name in the public code, such as ``_in/kernel``, → array.
        layers: blocks of the model.

    Returns:
        Name → array.
    """
    blocks = {name: [values[f"_h/hs_{i}/{path}"] for i in range(layers)] for name, path in _BLOCK.items()}
    ends = {name: values[path] for name, path in _ENDS.items()}
    return ends | {name: np.stack(parts) for name, parts in blocks.items()}


def _public_names(weights: Arrays, layers: int) -> dict[str, np.ndarray]:
    """The way back: name in the public code → array."""
    found = {path: weights[name] for name, path in _ENDS.items()}
    return found | {f"_h/hs_{i}/{path}": weights[name][i] for name, path in _BLOCK.items() for i in range(layers)}


def float32_triangle(peak: float, steps: int) -> list[float]:
    """The rates of the public schedule as its compiled step rounds them: in float32, with fused multiply-adds.

    Args:
        peak: the largest rate.
        steps: of the training.

    Returns:
        The rate of every step.

    >>> float32_triangle(0.01, 20)[1]
    0.0010000001639127731
    """
    half = steps // 2
    one, top, share = np.float32(1), np.float32(peak), np.float32(1 / half)
    rates = []
    for count in range(steps):
        up = count < half
        left = np.float32(float(one) - (count if up else count - half) * float(share))
        rates.append(float(np.float32((-float(top) if up else float(top)) * float(left) + (float(top) if up else 0.0))))
    return rates


def _flax(arrays: Arrays) -> Recomputed:
    layers, heads, width = (int(arrays[name]) for name in ("n_layer", "n_head", "n_embd"))
    spec = CausalTransformer(layers=layers, width=width, num_heads=heads)
    x, y, peak = arrays["x"], arrays["y"], float(arrays["peak_lr"])
    if x.ndim != 4 or y.shape != x.shape[:3]:
        raise IclearnError(f"x {x.shape} and y {y.shape} must be (step, prompt, token, dim) and (step, prompt, token)")
    given = [name for name in arrays if name.startswith("param/")]
    start = public_weights({name.removeprefix("param/"): arrays[name] for name in given}, layers)
    model, steps = spec.rebuild(x.shape[-1], start), len(x)
    ours = [peak * float(triangle(steps, "float64")(count)) for count in range(steps)]
    losses, _ = _trained(model, x, y, float32_triangle(peak, steps))
    found = [
        Quantity("lr", arrays["lr"], np.asarray(ours), "start", 1e-12),
        Quantity("preds", arrays["preds"], _answers(model, x[0], y[0]), "start", ATOL, least=1.0),
        Quantity("loss", arrays["loss"], losses, "path", 1e-9),
    ]
    for name, values in _public_names(_gradient(model, x[0], y[0]), layers).items():
        found.append(Quantity(f"grad/{name}", arrays[f"grad/{name}"], values, "start", ATOL, least=1.0))
    return Recomputed(tuple(found), ("x", "y", "n_layer", "n_head", "n_embd", "peak_lr", *given), ("pool",))


def _torch(arrays: Arrays) -> Recomputed:
    dim, _, width, layers, heads = (int(size) for size in arrays["sizes"])
    spec = CausalTransformer(layers=layers, width=width, num_heads=heads, entries="shared")
    model = spec.rebuild(dim, _garg_weights(arrays, layers))
    x, y = arrays["train/x"], arrays["train/y"]
    losses, after = _trained(model, x, y, [float(arrays["train/lr"])] * len(x))
    gradient = _gradient(model, x[0], y[0])
    grads = {
        "_read_in.weight": gradient["embed"].T, "_backbone.wpe.weight": gradient["position"],
        "_backbone.h.0.attn.c_attn.weight": gradient["qkv"][0], "_backbone.ln_f.bias": gradient["final_offset"],
        "_read_out.weight": gradient["read_out"].T,
    }  # fmt: skip
    end = _answers(after, arrays["x"], arrays["y"])
    found = [
        Quantity("prediction", arrays["prediction"], _answers(model, arrays["x"], arrays["y"]), "start", ATOL),
        *(Quantity(f"gradient/{n}", arrays[f"gradient/{n}"], g, "start", ATOL, least=1.0) for n, g in grads.items()),
        Quantity("train/loss", arrays["train/loss"], losses, "path", 1e-9),
        Quantity("train/prediction_after", arrays["train/prediction_after"], end, "end", 1e-9),
    ]
    given = ("x", "y", "train/x", "train/y", "train/lr", "sizes", *(n for n in arrays if n.startswith("weight/")))
    return Recomputed(tuple(found), given)


def _garg_weights(arrays: Arrays, layers: int) -> dict[str, np.ndarray]:
    """The weights of Garg et al.'s file; PyTorch's Linear holds (out, in), its Conv1D (in, out)."""
    names = {"embed": "_read_in.weight", "embed_bias": "_read_in.bias", "read_out": "_read_out.weight"}
    names |= {"read_bias": "_read_out.bias", "position": "_backbone.wpe.weight"}
    names |= {"final_scale": "_backbone.ln_f.weight", "final_offset": "_backbone.ln_f.bias"}
    found = {name: _turned(name, arrays[f"weight/{path}"]) for name, path in names.items()}
    for name, path in _BLOCK.items():
        spelled = path.replace("/", ".").replace("kernel", "weight").replace("scale", "weight")
        found[name] = np.stack([arrays[f"weight/_backbone.h.{index}.{spelled}"] for index in range(layers)])
    return found


def _turned(name: str, weight: np.ndarray) -> np.ndarray:
    return weight.T if name in ("embed", "read_out") else weight


@eqx.filter_jit
def _pass(model: CausalModel, x: jax.Array, y: jax.Array) -> jax.Array:
    return model.predict_sequences(x, y[..., None])[..., 0]


def _answers(model: CausalModel, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(_pass(model, jnp.asarray(x), jnp.asarray(y)))


def _batch(x: Any, y: Any) -> SequenceBatch:
    labels = jnp.asarray(y)[..., None]
    return SequenceBatch(jnp.asarray(x), labels, labels, jnp.full(len(x), 1 / len(x)))


_gradients = eqx.filter_jit(jax.grad(mean_loss))


def _gradient(model: CausalModel, x: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    found: Any = _gradients(model, _batch(x, y))
    return {name: np.asarray(weight) for name, weight in found.weights().items()}


class _OneBatch(AbstractEngine[CausalModel]):
    """The loss on one given batch."""

    batch: SequenceBatch

    @property
    def stochastic(self) -> bool:
        return False

    def loss(self, model: CausalModel, key: Any) -> jax.Array:
        return mean_loss(model, self.batch)

    def test_losses(self, model: CausalModel) -> jax.Array:
        return jnp.zeros(0)

    def minimum(self) -> None:
        return None


_step = eqx.filter_jit(lambda engine, hyper, state, key: take_step(engine, hyper.transformation(), state, key))


def _trained(model: CausalModel, x: np.ndarray, y: np.ndarray, rates: list[float]) -> tuple[np.ndarray, Any]:
    """The losses before each Adam step on given batches, and the model after them."""
    state = initial_state(model, Hyper.of(Optimizer("adam"), "float64"))
    losses = []
    for inputs, labels, rate in zip(x, y, rates, strict=True):
        hyper = Hyper.of(Optimizer("adam").unchecked(lr=rate), "float64")  # the first rate is 0
        state, loss = _step(_OneBatch(_batch(inputs, labels)), hyper, state, jax.random.key(0))
        losses.append(float(loss))
    return np.asarray(losses), state.model


def _curves(arrays: Arrays) -> Recomputed:
    """Errors of a predictor exceed those of the best one by its distance to it; directions; and nothing about digits."""
    columns, base = ([str(c) for c in arrays[name]] for name in ("columns", "base_columns"))
    found, final = [], {}
    for run in ("10k", "40k"):
        curves, bases = arrays[f"run_{run}"].astype(float), arrays[f"base_{run}"].astype(float)
        at = {name: curves[..., columns.index(name)] for name in columns}
        best = {name: bases[:, base.index(name)] for name in base}
        new, pool = best["ridge-true|new"] + at["ridge|new"], best["dmmse-true|pretrain"] + at["dmmse|pretrain"]
        there = np.isfinite(best["dmmse-true|pretrain"])  # of the largest pools it was not computed
        found.append(Quantity(f"run_{run}.new", at["true|new"], new, "value", IDENTITY))
        found.append(Quantity(f"run_{run}.pool", at["true|pretrain"][:, there], pool[:, there], "value", IDENTITY))
        final[run] = dict(zip(arrays[f"M_{run}"].tolist(), at["ridge|new"].T, strict=True))
    both = [k for k in AWAY if k in final["10k"] and k in final["40k"]]
    moved = [np.sign(final["40k"][k][-1] - final["10k"][k][-1]) for k in both]
    found.append(Quantity("away_from_ridge", np.asarray(moved), np.asarray([AWAY[k] for k in both]), "value", 0.0))
    passed = [float(final["40k"][k].min() < 0.9 * final["40k"][k][-1]) for k in PASSING if k in final["40k"]]
    wanted = [PASSING[k] for k in PASSING if k in final["40k"]]
    found.append(Quantity("minimum_on_the_way", np.asarray(passed), np.asarray(wanted), "value", 0.0))
    inputs = (
        "columns",
        "base_columns",
        *(f"{name}_{run}" for name in ("M", "steps", "base") for run in ("10k", "40k")),
    )
    return Recomputed(tuple(found), inputs)
