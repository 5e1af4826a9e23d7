"""All golden traces of an independent implementation, from their own data and weights, over the whole curve."""

import json

import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core.prompt import full_prompt
from iclearn.core.recipe import Init, Optimizer, Recipe
from iclearn.engines import simulate
from iclearn.models import Attention
from iclearn.store import dataset_from, weights_from
from iclearn.tasks import GivenData

LINEAR = ["merged", "separate_rank1", "separate_rank2", "mlp_cubic", "merged_vary_len", "merged_icl_mix"]
SOFTMAX = ["merged_softmax", "separate_softmax"]
CASES = [(name, engine) for name in LINEAR for engine in ("moments", "samples")] + [
    (name, "samples") for name in SOFTMAX
]


@pytest.mark.parametrize(("name", "engine"), CASES)
def test_golden_trace(golden, name, engine):
    arrays = golden(name)
    args = json.loads(str(arrays["args"]))
    dataset = dataset_from(arrays)
    family, weights = weights_from(arrays)
    recipe = Recipe(
        task=GivenData.of(dataset, prefixes=args["vary_len"]),
        model=Attention(
            family,  # type: ignore[arg-type]
            num_heads=args["head_num"],
            rank=args["rank"],
            softmax=args["softmax"],
            normalize="tokens" if args["vary_len"] else "none",
        ),
        init=Init(scheme="given"),
        optimizer=Optimizer(lr=args["lr"]),
        steps=len(arrays["loss"]),
        engine=engine,
    )
    trace = simulate(recipe, dataset=dataset, weights=weights)
    np.testing.assert_allclose(trace.loss, arrays["loss"], rtol=1e-9)
    if "test_loss" in arrays:
        got = trace.data["test_loss"].sel(test_set=["in_weight", "in_context"])
        np.testing.assert_allclose(got, arrays["test_loss"], rtol=1e-9)


@pytest.mark.parametrize(("name", "rows"), [("merged", {"kq": 5}), ("separate", {"key": 2, "query": 2})])
def test_a_checkpoint_of_torch_is_split_into_heads(tmp_path, name, rows):
    """As docs/from-linattn-icl.md does it: the heads of the public code's layers are stacked along the rows."""
    torch = pytest.importorskip("torch", reason="torch is not installed (pip install 'iclearn[bench]')")
    heads, dim = 3, 4
    sizes = rows | {"value": dim + 1}
    layers = {n: torch.nn.Linear(dim + 1, heads * size, bias=False, dtype=torch.float64) for n, size in sizes.items()}
    torch.save(torch.nn.ModuleDict(layers).state_dict(), tmp_path / "network.pt")
    x, y, query = (torch.randn(*shape, dtype=torch.float64) for shape in ((6, dim), (6, 1), (dim,)))
    tokens = torch.cat([torch.cat([x, y], 1), torch.cat([query, torch.zeros(1, dtype=torch.float64)])[None]])
    each = {n: layer(tokens).view(7, heads, -1).transpose(0, 1) for n, layer in layers.items()}
    asks, is_asked = (tokens, each["kq"]) if name == "merged" else (each["query"], each["key"])
    expected = (asks @ is_asked.transpose(1, 2) @ each["value"]).sum(0)[-1, -1]

    state = {n: w.double().numpy() for n, w in torch.load(tmp_path / "network.pt", map_location="cpu").items()}
    arrays = {f"weights_{n.removesuffix('.weight')}": w.reshape(heads, -1, dim + 1) for n, w in state.items()}
    family, weights = weights_from(arrays)
    assert family == name
    spec = Attention(family, num_heads=heads, rank=rows.get("key", 1), normalize="none")  # type: ignore[arg-type]
    prompt = full_prompt(*(jnp.asarray(part.numpy()) for part in (x, y, query)))
    np.testing.assert_allclose(spec.rebuild(dim, weights).predict(prompt)[0], expected.item(), rtol=1e-12)
