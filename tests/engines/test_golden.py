"""All golden traces of an independent implementation, from their own data and weights, over the whole curve."""

import json

import numpy as np
import pytest

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
