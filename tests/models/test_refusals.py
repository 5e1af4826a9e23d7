"""What a user is told about values of a wrong kind.

The test suite itself checks every annotation at run time, which would answer first: so these run in a plain process.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

REFUSED = {
    "Optimizer('newton')": "optimizer rule must be one of gd, sgd, momentum, adam, adamw, flow, not 'newton'",
    "Init(scheme='xavier')": "init scheme must be one of per_head, entries, stacked, given, not 'xavier'",
    "recipe(engine='exact')": "recipe engine must be one of auto, population, moments, samples, gram, not 'exact'",
    "recipe(dtype='float16')": "recipe dtype must be one of float64, float32, not 'float16'",
    "recipe(steps=1e4)": "steps must be a whole number, not 10000.0",
    "recipe(seed=2.5)": "the seed must be a whole number, not 2.5",
    "Optimizer('sgd', batch_size=2.5)": "the batch size must be a whole number, not 2.5",
    "Attention('recurrent')": (
        "attention family must be one of merged, separate, merged_reduced, separate_reduced, mlp, conv, not 'recurrent'"
    ),
    "Attention(normalize='yes')": "attention normalize must be one of none, context, tokens, not 'yes'",
    "Attention(num_heads=2.0)": "num_heads must be a whole number, not 2.0",
    "LinearRegression(dim=4.5)": "dim must be a whole number, not 4.5",
    "LinearRegression(num_prompts=1e4)": ("num_prompts (None for infinitely many) must be a whole number, not 10000.0"),
    "Covariance('cubic')": (
        "covariance shape must be one of linear, white, power, two_level, spiked, eigenvalues, matrix, not 'cubic'"
    ),
    "Attention('merged').rebuild(1, {'value': [[[0, 1j]]], 'kq': [[[1, 0]]]})": (
        "weight value must hold real numbers, not complex128"
    ),
    "Init.given({'value': [1j]})": "weight value must be an array of real numbers, not '[1j]'",
    "theory.zhang2025.read_weights({'value': [1j], 'kq': [[[1]]]})": (
        "weight value must be an array of real numbers, not '[1j]'"
    ),
    "probes.effective_matrices([[1j]])": "the matrices must be an array of real numbers, not '[[1j]]'",
    "predict(recipe(), method='flwo')": "method must be one of formula, flow, not 'flwo'",
    "find_plateaus([1.0] * 9, scale='loglog')": "scale must be one of linear, log, not 'loglog'",
    "predictors.NearestNeighbors(3, weighting='near')": "weighting must be one of uniform, distance, not 'near'",
    "simulate(recipe().replace(task=Init()))": "a recipe's task must be a task, not Init",
    "simulate(recipe().replace(model=Init()))": "a recipe's model must be a model, not Init",
}
# Kinds of numbers that are fine, with what they become.
TAKEN = {
    "LinearRegression(dim=2, prior_mean=[1, 2]).prior_mean": "(1.0, 2.0)",
    "Covariance('eigenvalues', [3, 1]).parameters": "(3.0, 1.0)",
    "hash(LinearRegression(dim=2, prior_mean=numpy.ones(2))) is not None": "True",
    "recipe(seed=numpy.int64(3)).hash == recipe(seed=3).hash": "True",
    "recipe(optimizer=Optimizer(lr=1)).hash == recipe(optimizer=Optimizer(lr=1.0)).hash": "True",
}
SCRIPT = """
import json, sys, numpy
from iclearn import *
def recipe(**changes):
    return Recipe(task=LinearRegression(), model=Attention(), **changes)
said = {}
for text in json.load(sys.stdin):
    try:
        said[text] = repr(eval(text))
    except Exception as error:
        said[text] = f"{type(error).__name__}: {error}"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    expressions = json.dumps([*REFUSED, *TAKEN])
    done = subprocess.run([sys.executable, "-c", SCRIPT], input=expressions, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@pytest.mark.parametrize("expression", REFUSED)
def test_refused(said, expression):
    assert said[expression] == f"IclearnError: {REFUSED[expression]}"


@pytest.mark.parametrize("expression", TAKEN)
def test_taken(said, expression):
    assert said[expression] == TAKEN[expression]
