"""One run on eight (virtual) devices: the numbers of one device, prompts really spread."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from iclearn.engines.simulate import simulate

PROGRAM = """
import json, sys
import jax
from iclearn.core.spec import Spec
from iclearn.engines.build import prepare
from iclearn.engines.simulate import simulate

found = []
for text in json.load(sys.stdin):
    recipe = Spec.from_json(text)
    setup = prepare(recipe)
    places = {len(a.sharding.device_set) for a in jax.tree.leaves(setup.engine.train)}
    split = {str(a.sharding.is_fully_replicated) for a in jax.tree.leaves(setup.engine.train)}
    found.append({"devices": jax.device_count(), "places": max(places), "replicated": sorted(split),
                  "loss": simulate(recipe).loss.values.tolist()})
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def recipes():
    from iclearn.core.recipe import Init, Optimizer, Recipe, Record
    from iclearn.models.attention import Attention
    from iclearn.tasks.regression import LinearRegression

    def of(model, prompts, **more):
        task = LinearRegression(dim=2, context_len=5, num_prompts=prompts, center=True, whiten=True)
        return Recipe(
            task=task, model=model, init=Init(0.2), optimizer=Optimizer(**more), steps=30, record=Record(weights=0)
        )

    return [
        of(Attention("merged", num_heads=2), 9001, lr=0.01),  # moments: three blocks for eight devices
        of(Attention("merged", num_heads=2, softmax=True), 203, lr=0.1),  # samples: 203 prompts do not divide by 8
        of(Attention("merged", num_heads=2, softmax=True), 203, rule="sgd", lr=0.1, batch_size=32),
    ]


def test_eight_devices_give_the_numbers_of_one(recipes):
    # the same flags otherwise: how far programs are optimized moves the last digits of float32 draws
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    environment = {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], input=json.dumps([r.to_json() for r in recipes]), text=True,
        capture_output=True, env=environment, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    for recipe, there in zip(recipes, found, strict=True):
        assert there["devices"] == 8
        np.testing.assert_allclose(there["loss"], simulate(recipe).loss.values, rtol=1e-11)
    assert [there["places"] for there in found[1:]] == [8, 8]
    assert found[1]["replicated"] == ["False"]
