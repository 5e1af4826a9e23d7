"""`CausalTransformer`: which GPT-2 that answers every prefix of a prompt, how large, and how its weights begin.

A training of raventos2023 (small model, one pool) is written so; recipes that differ in `num_tasks` and `seed` alone
are one program of `simulate_many` and see the same inputs, noise and initial weights where their seeds agree:

>>> import iclearn as icl
>>> task = icl.tasks.PooledRegression(dim=8, context_len=15, num_tasks=64, noise=0.25, prefixes=True)
>>> steps, model = 10_000, CausalTransformer(layers=4, width=64, num_heads=2, precision="tf32")
>>> optimizer = icl.Optimizer("adam", lr=1e-3, batch_size=256, triangle=steps)
>>> recipe = icl.Recipe(
...     task=task, model=model, init=icl.Init(0.02), optimizer=optimizer, steps=steps, seed=0, dtype="float32",
...     engine="samples", record=icl.Record(weights=21, candidates=20),
... )
>>> recipe.describe()
'causal transformer L=4 E=64 H=2 tf32 on D=8 N=15 K=64 P=∞, 10000 steps'

With weight decay on the matrices of the blocks alone: ``Optimizer("adamw", …, weight_decay=0.01,
decayed=CausalTransformer.matrices)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr
from jaxtyping import Array

from ..core.checks import check_int, require
from ..core.model import AbstractModelSpec, checked_weights
from ..core.prompt import Prompt
from ..core.recipe import Init
from ..core.rng import standard_normals, stream
from ..core.task import AbstractTask
from .causal_blocks import CausalModel, Norm, Positions, Products

Entries = Literal["separate", "shared"]


@dataclass(frozen=True)
class CausalTransformer(AbstractModelSpec, kind="causal_transformer"):
    """A transformer of GPT-2's form on the tokens x_1, y_1, x_2, …, which answers at every x: one pass, all prefixes.

    Blocks are h ← h + Attn(norm h), h ← h + W₂ gelu(W₁ norm h) with a hidden layer of 4 · width and gelu in its tanh
    form; attention is a softmax over the token itself and those before it of q·k/√(width/heads); a last norm, and a
    linear read-out at the input tokens.

    Args:
        layers: L.
        width: E, a multiple of `num_heads`.
        num_heads: H.
        positions: ``learned`` (added to the embedding), ``rotary`` (queries and keys are turned; heads of even size) or
            ``none``.
        norm: ``layer`` (LayerNorm, ε = 1e-5), ``rms`` (without mean and offset) or ``none``.
        entries: ``separate``: tokens (0, x) and (y, 0, …, 0) of dim + 1 entries, no bias on embedding and read-out
            (raventos2023); ``shared``: x and (y, 0, …, 0) of dim entries, with both biases, and both matrices start
            uniform on ±1/√fan_in (Garg et al. 2022).
        precision: of the matrix products: ``full`` (that of the recipe's dtype), ``tf32`` (float32 numbers with
            products of 10 bits, where a GPU has them; elsewhere as ``full``) or ``bfloat16`` (8 bits, sums in float32;
            norms, softmax and the residual stream stay in float32).

    Matrices and positions start N(0, scale²) with `Init.scale` (GPT-2: .02), the two output matrices of a block with
    scale/√(2L), biases at 0, norms at 1.

    >>> CausalTransformer().shapes(8, 16)["qkv"]
    (4, 64, 192)
    """

    matrices: ClassVar[tuple[str, ...]] = ("qkv", "merge", "expand", "contract")  # what decays in raventos2023

    layers: int = 4
    width: int = 64
    num_heads: int = 2
    positions: Positions = "learned"
    norm: Norm = "layer"
    entries: Entries = "separate"
    precision: Products = "full"

    def __post_init__(self) -> None:
        for name in ("layers", "width", "num_heads"):
            check_int(name, getattr(self, name), 1)
        heads = f"{self.num_heads} heads share a width of {self.width}"
        require(self.width % self.num_heads == 0, f"{heads}: choose a multiple")
        even = self.positions != "rotary" or self.width // self.num_heads % 2 == 0
        require(even, f"{heads}: rotary positions need an even number of entries a head")

    def describe(self) -> str:
        sizes = f"L={self.layers} E={self.width} H={self.num_heads}"
        changed = [value for name, value in self.changed_fields().items() if isinstance(value, str)]
        return " ".join(["causal transformer", sizes, *changed])

    def shapes(self, dim: int, tokens: int) -> dict[str, tuple[int, ...]]:
        """The shapes of the weights.

        Args:
            dim: dimension of the inputs.
            tokens: inputs of a sequence, the query included.

        Returns:
            Name → shape.
        """
        depth, width, hidden, shared = self.layers, self.width, 4 * self.width, self.entries == "shared"
        unit = (depth, width)
        found: dict[str, tuple[int, ...]] = {"embed": (dim if shared else dim + 1, width)}
        found |= {"qkv": (depth, width, 3 * width), "qkv_bias": (depth, 3 * width)}
        found |= {"merge": (depth, width, width), "merge_bias": unit}
        found |= {"expand": (depth, width, hidden), "expand_bias": (depth, hidden)}
        found |= {"contract": (depth, hidden, width), "contract_bias": unit, "read_out": (width, 1)}
        if self.positions == "learned":
            found["position"] = (2 * tokens, width)
        if shared:
            found |= {"embed_bias": (width,), "read_bias": (1,)}
        for name, shape in (("first", unit), ("second", unit), ("final", (width,))):
            if self.norm != "none":
                found[f"{name}_scale"] = shape
            if self.norm == "layer":
                found[f"{name}_offset"] = shape
        return found

    def products(self) -> str:
        return self.precision

    def initial(self, task: AbstractTask, init: Init, seed: int | Array, dtype: Any) -> CausalModel:
        require(task.out_dim == 1, f"a causal transformer has one output; this task has {task.out_dim}")
        require(task.prompt_type is Prompt, f"a causal transformer reads pairs, not prompts of {task.kind}")
        drawn = "a causal transformer draws its weights as init scheme per_head"
        require(init.scheme in ("per_head", "given"), f"{drawn}, not {init.scheme}")
        lower = self.precision == "full" or jnp.dtype(dtype) == jnp.float32
        require(lower, f"products in {self.precision} are for runs in float32, not {jnp.dtype(dtype).name}")
        longest = max([task.context_len, *(task.context_lengths(which)[-1] for which in task.tests)])
        scale = jnp.asarray(init.scale, jnp.float64)
        return self.rebuild(task.dim, _drawn(self, stream(seed, "init"), scale, task.dim, longest + 1, dtype))

    def start(self, name: str, normals: Array, scale: Array, dim: int) -> Array:
        """One weight at initialization.

        Args:
            name: of the weight.
            normals: standard normals of its shape.
            scale: () of the matrices.
            dim: dimension of the inputs.

        Returns:
            The weight.
        """
        if name.endswith("scale"):
            return jnp.ones_like(normals)
        if self.entries == "shared" and name.startswith(("embed", "read")):  # uniform, whatever the scale
            return (2 * ndtr(normals) - 1) / (dim if name.startswith("embed") else self.width) ** 0.5
        if name.endswith(("bias", "offset")):
            return jnp.zeros_like(normals)
        output = (2 * self.layers) ** -0.5 if name in ("merge", "contract") else 1.0
        return scale * output * normals

    def rebuild(self, dim: int, weights: Mapping[str, Any]) -> CausalModel:
        table = np.shape(weights["position"])[0] if "position" in weights else 2
        arrays = checked_weights(self.shapes(dim, table // 2), weights, "this causal transformer")
        return CausalModel(
            **arrays, num_heads=self.num_heads, precision=self.precision, rotary=self.positions == "rotary",
            centered=self.norm == "layer", shared_entries=self.entries == "shared",
        )  # fmt: skip


@eqx.filter_jit  # one program for all weights
def _drawn(spec: CausalTransformer, key: Array, scale: Array, dim: int, tokens: int, dtype: Any) -> dict[str, Array]:
    shapes = spec.shapes(dim, tokens)
    normals = standard_normals(key, tuple(shapes.values()))
    return {n: spec.start(n, z, scale, dim).astype(dtype) for n, z in zip(shapes, normals, strict=True)}
