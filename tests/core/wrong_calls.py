"""Calls with values of the wrong kind, one a line of output: run apart, without the type checks of the tests.

What a researcher may try. Each must end in a sentence (an IclearnError, a TypeError or a ValueError of one line that
names what is wrong), not somewhere inside in an AttributeError.
"""

import json

import numpy as np
import optax

import iclearn as icl
from iclearn.models.features import AbstractFeatureMap, Cubic
from iclearn.store import Store, dataset_from

TASK, MODEL = icl.LinearRegression(dim=2, context_len=4, num_prompts=20), icl.Attention()


def recipe(**changes):
    return icl.Recipe(**{"task": TASK, "model": MODEL, "steps": 3, **changes})


CALLS = {
    "lr word": lambda: icl.Optimizer(lr="0.1"),
    "lr array": lambda: icl.Optimizer(lr=np.ones(2)),
    "lr none": lambda: icl.Optimizer(lr=None),
    "lr true": lambda: icl.Optimizer(lr=True),
    "momentum word": lambda: icl.Optimizer("momentum", momentum="a"),
    "batch size float": lambda: icl.Optimizer("sgd", batch_size=2.5),
    "rule number": lambda: icl.Optimizer(rule=3),
    "covariance matrix": lambda: icl.LinearRegression(covariance=np.eye(3)),
    "covariance list": lambda: icl.LinearRegression(covariance=[0.5, 0.3, 0.2]),
    "covariance word": lambda: icl.LinearRegression(covariance="white"),
    "covariance parameters": lambda: icl.Covariance("power", ("a",)),
    "covariance nested": lambda: icl.Covariance.eigenvalues([[1.0, 2.0]]),
    "covariance number": lambda: icl.Covariance.eigenvalues(1.0),
    "matrix ragged": lambda: icl.Covariance.matrix([[1.0], [2.0, 3.0]]),
    "matrix words": lambda: icl.Covariance.matrix([["a"]]),
    "prior mean number": lambda: icl.LinearRegression(prior_mean=1.0),
    "prior mean array": lambda: icl.LinearRegression(dim=2, prior_mean=np.ones((2, 2))),
    "noise none": lambda: icl.LinearRegression(noise=None),
    "dim float": lambda: icl.LinearRegression(dim=2.5),
    "dim none": lambda: icl.LinearRegression(dim=None),
    "prompts word": lambda: icl.LinearRegression(num_prompts="many"),
    "prompts inf": lambda: icl.LinearRegression(num_prompts=float("inf")),
    "replace inf": lambda: icl.LinearRegression(num_prompts=5).replace(num_prompts=np.inf),
    "tasks inf": lambda: icl.tasks.FunctionClass(num_tasks=np.inf, num_prompts=5),
    "prompts minus inf": lambda: icl.LinearRegression(num_prompts=-float("inf")),
    "dim inf": lambda: icl.LinearRegression(dim=float("inf")),
    "prefixes word": lambda: icl.LinearRegression(prefixes="no"),
    "softmax word": lambda: icl.Attention("merged", softmax="no"),
    "heads word": lambda: icl.Attention("merged", num_heads="two"),
    "family number": lambda: icl.Attention(3),
    "lsa heads": lambda: icl.LSA("two"),
    "zero blocks word": lambda: icl.Init(zero_blocks="no"),
    "init word": lambda: icl.Init("a"),
    "init none": lambda: icl.Init(None),
    "given list": lambda: icl.Init.given([1, 2]),
    "given numbers": lambda: icl.Init.given({"a": "b"}),
    "record word": lambda: icl.Record("a"),
    "record float": lambda: icl.Record(2.5, 10),
    "optimizer word": lambda: recipe(optimizer="adam"),
    "init number": lambda: recipe(init=0.1),
    "record number": lambda: recipe(record=10),
    "task table": lambda: recipe(task={"dim": 2}),
    "model class": lambda: recipe(model=icl.Attention),
    "steps word": lambda: recipe(steps="many"),
    "seed none": lambda: recipe(seed=None),
    "british": lambda: icl.Recipe(task=TASK, model=MODEL, optimiser=icl.Optimizer()),
    "optimizer of optax": lambda: recipe(optimizer=optax.adam(0.1)),
    "field missing": lambda: icl.Recipe(task=TASK),
    "field twice": lambda: icl.Init(0.1, scale=0.2),
    "fields too many": lambda: icl.Init(0.1, "per_head", True, "", 5),
    "task abstract": lambda: icl.AbstractTask(),
    "features abstract": lambda: AbstractFeatureMap(2, 1),
    "features missing": lambda: Cubic(2),
    "predict pairs": lambda: icl.predictors.LeastSquares().predict(np.ones((3, 2)), np.ones((3, 1))),
    "predict array": lambda: icl.Attention("separate").initial(TASK, icl.Init(), 0, "float64").predict(np.ones((3, 2))),
    "evaluate table": lambda: icl.evaluate(task={"dim": 2}),
    "progress word": lambda: icl.simulate(recipe(), progress="yes"),
    "progress of a paper": lambda: icl.reproduce("zhang2025", ["fig6"], progress="yes"),
    "british class": lambda: icl.Optimiser(),
    "replace flat": lambda: recipe().replace(lr=0.1),
    "replace into a number": lambda: recipe().replace(steps__lr=0.1),
    "simulate text": lambda: icl.simulate(recipe().to_json()),
    "simulate nothing": lambda: icl.simulate(None),
    "simulate dataset": lambda: icl.simulate(recipe(), dataset={"x": 1}),
    "simulate weights": lambda: icl.simulate(recipe(init=icl.Init(scheme="given")), weights=[1, 2]),
    "simulate many one": lambda: icl.simulate_many(recipe()),
    "simulate many words": lambda: icl.simulate_many(["a"]),
    "store run table": lambda: Store("nowhere").run({}),
    "store get text": lambda: Store("nowhere").get("abc"),
    "from json list": lambda: icl.Recipe.from_json("[]"),
    "from json word": lambda: icl.Recipe.from_json('"a"'),
    "from json init": lambda: icl.Recipe.from_json('{"kind": "init"}'),
    "from json none": lambda: icl.Recipe.from_json(None),
    "from dict word": lambda: icl.Recipe.from_dict("a"),
    "from dict none": lambda: icl.Recipe.from_dict(None),
    "dataset words": lambda: dataset_from({"x": np.array([["a"]]), "y_q": np.array(["b"])}),
    "dataset list": lambda: dataset_from([1, 2]),
    "predict nothing": lambda: icl.predict(None),
    "predict word": lambda: icl.predict("zhang2025"),
    "plateaus word": lambda: icl.find_plateaus("abc"),
    "plateaus table": lambda: icl.find_plateaus(np.ones((2, 3))),
    "model of a word": lambda: icl.simulate(recipe()).model("a"),
    "weights of a word": lambda: icl.simulate(recipe()).weights("a"),
    "load number": lambda: icl.Trace.load(3),
    "load missing": lambda: icl.Trace.load("nowhere.zarr"),
    "reproduce word": lambda: icl.reproduce("nosuch2025"),
    "reproduce number": lambda: icl.reproduce(3),
    "reproduce figures": lambda: icl.reproduce("zhang2025", 4),
    "sweep nothing": lambda: icl.sweep(None, {}),
    "sweep axes list": lambda: icl.sweep(recipe(), [1, 2]),
    "sweep axis none": lambda: icl.sweep(recipe(), {"optimizer.lr": None}),
    "sweep axis object": lambda: icl.sweep(recipe(), {"optimizer.lr": [object()]}),
    "sweep seeds word": lambda: icl.sweep(recipe(), {}, seeds="three"),
    "sweep chunk word": lambda: icl.sweep(recipe(), {}, seeds=2, chunk="a"),
    "sweep workers word": lambda: icl.sweep(recipe(), {}, seeds=2, workers="a"),
}

if __name__ == "__main__":
    for name, call in CALLS.items():
        try:
            made = call()
            print(json.dumps([name, "accepted", repr(made)[:200]]))
        except Exception as error:
            print(json.dumps([name, type(error).__name__, str(error)]))
