"""Compiled code is the plain loop: every family, form, rule and precision; one run and many; kept, killed and resumed.

Needs Numba (the extra ``fast``). The rest of the suite runs with compiled code switched off (conftest).
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from iclearn.core.errors import IclearnError
from iclearn.core.recipe import Init, Optimizer, Recipe, Record
from iclearn.core.status import Status
from iclearn.engines.batch.inputs import recipe_of_run, traced_runs
from iclearn.engines.batch.train_batch import How, choose_path, train_batch
from iclearn.engines.batch.unrolled import lengths_of
from iclearn.engines.build import prepare
from iclearn.engines.compiled.switch import SWITCH, THREADS, numba_version, path_name, thread_count
from iclearn.engines.reductions import sample_steps
from iclearn.engines.simulate import simulate, simulate_many
from iclearn.models.attention import Attention
from iclearn.store import Store, dataset_from
from iclearn.tasks.covariance import Covariance
from iclearn.tasks.given import GivenData
from iclearn.tasks.regression import LinearRegression

needs_numba = pytest.mark.skipif(numba_version() is None, reason="needs Numba: pip install 'iclearn[fast]'")
FAMILIES = ("merged", "separate", "merged_reduced", "separate_reduced", "mlp", "conv")


def recipe(family="separate", *, dim=3, heads=2, rank=1, prompts=None, rule="gd", rotate=True, **more) -> Recipe:
    lr = more.pop("lr", {"gd": 0.02, "sgd": 0.02, "momentum": 0.002, "adam": 0.002, "adamw": 0.002, "flow": 0.02}[rule])
    if family in ("merged", "merged_reduced", "mlp"):
        lr *= 0.1
    prior = more.pop("prior", {})
    return Recipe(
        task=LinearRegression(
            dim=dim, context_len=12, num_prompts=prompts, covariance=Covariance.power(1.0, rotate=rotate), **prior
        ),
        model=Attention(family, num_heads=heads, rank=rank),
        init=more.pop("init", Init(0.2)),
        optimizer=Optimizer(rule, lr=lr),
        steps=more.pop("steps", 400),
        record=Record(20, 100),
        **more,
    )


@pytest.fixture
def by(monkeypatch):
    """Simulate by compiled code or by the plain loop."""

    def simulated(made: Recipe, compiled: bool, **more):
        monkeypatch.setenv(SWITCH, "require" if compiled else "off")
        return simulate(made, **more)

    return simulated


def assert_same(compiled, plain, tolerance=1e-12) -> None:
    """Curves to `tolerance` of the loss, weights to the same of their largest, and the same labels and status."""
    assert (compiled.status, compiled.status_step) == (plain.status, plain.status_step)
    assert list(compiled.data.variables) == list(plain.data.variables)
    np.testing.assert_allclose(compiled.loss, plain.loss, rtol=tolerance)
    for name in plain.data:
        mine, its = compiled.data[name], plain.data[name]
        assert (mine.dims, mine.dtype) == (its.dims, its.dtype)
        scale = np.abs(its.values).max()
        np.testing.assert_allclose(mine, its, rtol=tolerance, atol=10 * tolerance * scale, err_msg=str(name))


CASES = {
    "reduced, rotated": recipe("separate_reduced"),
    "reduced, diagonal": recipe("separate_reduced", rotate=False, rank=2),
    "full on infinitely many prompts": recipe("merged"),
    "a prior with a mean": recipe("conv", prior={"prior_mean": (1.0, 0.5, 0.0)}),
    "network, moments": recipe("mlp", prompts=80),
    "full, moments, written out": recipe("separate", dim=2, prompts=80, rank=2),
    "full, moments, loops": recipe("merged", dim=4, heads=3, prompts=80, steps=200),
    "full, moments, loops, separate": recipe("separate", dim=4, heads=3, rank=3, prompts=80, steps=200),
    "full, moments, rank 3, adam": recipe("separate", dim=4, heads=2, rank=3, prompts=80, steps=200, rule="adam"),
    "reduced, moments, loops": recipe("separate_reduced", dim=6, heads=3, rank=2, prompts=80, steps=200),
    "larger, diagonal": recipe("separate_reduced", dim=7, heads=5, rank=3, rotate=False, steps=200),
    "momentum": recipe(rule="momentum", prompts=80),
    "adam": recipe(rule="adam"),
    "adamw, loops": recipe("merged", dim=4, heads=3, rule="adamw", prompts=80, steps=200),
}


SLOW = {
    "full, moments, loops",
    "full, moments, loops, separate",
    "reduced, moments, loops",
    "larger, diagonal",
    "reduced, diagonal",
    "momentum",
}


def chosen(names, slow: set[str]) -> list:
    """The loop in JAX takes seconds to compile for every case: those that add least are marked slow."""
    return [pytest.param(name, marks=[pytest.mark.slow] if name in slow else [], id=name) for name in names]


@needs_numba
@pytest.mark.parametrize("name", chosen(CASES, SLOW))
def test_one_run_is_the_plain_loop(by, name):
    compiled, plain = by(CASES[name], True), by(CASES[name], False)
    assert_same(compiled, plain)
    assert compiled.provenance["path"] == path_name()
    assert plain.provenance["path"] == "xla"
    assert compiled.loss[-1] < 0.9 * compiled.loss[0], "it has learned something"


@needs_numba
def test_a_flow_is_that_of_the_loop_to_its_tolerance(by):
    made = recipe("separate_reduced", rule="flow", lr=2.0, steps=40)
    compiled, plain = by(made, True), by(made, False)
    assert compiled.provenance["path"] != plain.provenance["path"] == "xla"
    assert list(compiled.data.variables) == list(plain.data.variables)
    np.testing.assert_allclose(compiled.loss, plain.loss, rtol=1e-6)
    np.testing.assert_array_equal(compiled.data["record"], plain.data["record"])
    np.testing.assert_allclose(compiled.data["weight_key"], plain.data["weight_key"], rtol=1e-5, atol=1e-7)
    assert compiled.loss[-1] < 0.9 * compiled.loss[0]


@needs_numba
def test_a_flow_that_leaves_floating_point_diverges(by):
    made = recipe("separate_reduced", rule="flow", lr=0.2, steps=300, init=Init(1e80))
    assert by(made, True).status is Status.DIVERGED


@needs_numba
@pytest.mark.slow
def test_float32_stays_within_its_rounding(by):
    made = recipe("separate", prompts=80, dtype="float32")
    narrow, wide = by(made, True), by(made.replace(dtype="float64"), False)
    assert narrow.loss.dtype == np.float32
    np.testing.assert_allclose(narrow.loss, wide.loss, rtol=1e-4)
    np.testing.assert_allclose(narrow.weights()["key"], wide.weights()["key"], rtol=1e-3, atol=1e-4)


@needs_numba
def test_a_divergence_is_at_the_same_step(by):
    compiled, plain = (by(recipe("merged", prompts=80, lr=3.0), which) for which in (True, False))
    assert plain.status is Status.DIVERGED
    assert_same(compiled, plain, 1e-9)  # what blows up blows up rounding too


@needs_numba
@pytest.mark.parametrize("rule", ["gd", pytest.param("adam", marks=pytest.mark.slow)])
@pytest.mark.parametrize(("first", "then"), [(True, True), (True, False), (False, True)])
def test_a_run_goes_on_from_a_checkpoint_by_either_code(by, killed_at_save, rule, first, then):
    made, keeper = recipe(rule=rule, prompts=80), killed_at_save(30)
    with pytest.raises(RuntimeError, match="killed"):
        by(made, first, checkpoint=keeper)
    whole, last = by(made, then), keeper.kept[-1]
    assert 0 < int(last[f"state_{sum(n.startswith('state_') for n in last) - 1}"]) < made.steps
    resumed = by(made, then, checkpoint=keeper)
    if first == then:
        assert resumed.equals(whole), "bit for bit"
    assert_same(resumed, whole)


@needs_numba
@pytest.mark.parametrize("rule", ["gd", "momentum", "adam"])
def test_training_continues_as_if_it_had_been_longer(monkeypatch, rule):
    monkeypatch.setenv(SWITCH, "require")
    short = simulate(recipe(rule=rule, steps=200))
    longer, whole = short.continue_(200), simulate(recipe(rule=rule, steps=400))
    np.testing.assert_array_equal(longer.loss, whole.loss)


KILLED = """
import signal
from iclearn.core import interrupts
from iclearn.store import Store
from test_compiled import recipe
interrupts.check = lambda *_: signal.pause()  # where the first checkpoint has been written
Store({root!r}).run(recipe(prompts=80, steps=4_000_000), checkpoint_seconds=0.0)
"""


@needs_numba
@pytest.mark.slow
def test_a_killed_run_resumes_bit_for_bit(by, tmp_path, monkeypatch):
    made = recipe(prompts=80, steps=4_000_000)
    here = os.path.dirname(__file__)
    environment = {**os.environ, SWITCH: "require", "PYTHONPATH": f"{here}:{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen([sys.executable, "-c", KILLED.format(root=str(tmp_path))], env=environment)
    checkpoint = tmp_path / f".{made.hash[:12]}.checkpoint.npz"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "the run must have been killed, not have finished"
    monkeypatch.setenv(SWITCH, "require")
    assert checkpoint.exists()
    resumed = Store(tmp_path).run(made)
    assert resumed.equals(simulate(made))


@needs_numba
def test_runs_side_by_side_are_runs_alone(monkeypatch):
    monkeypatch.setenv(SWITCH, "require")
    recipes = [recipe(prompts=80, seed=seed, lr=0.01 * (1 + seed)) for seed in range(3)]
    for trace, made in zip(simulate_many(recipes), recipes, strict=True):
        assert trace.equals(simulate(made))
        assert trace.provenance["path"].startswith("compiled")


BATCHES = {name: CASES[name] for name in CASES if name != "a prior with a mean"}
SLOW_BATCHES = {
    *SLOW,
    "full on infinitely many prompts",
    "full, moments, loops, separate",
    "adamw, loops",
    "network, moments",
}


def numbers(base: Recipe, runs: int) -> dict[str, np.ndarray]:
    return {
        "seed": np.arange(5, 5 + runs),
        "init__scale": np.linspace(0.1, 0.2, runs),
        "task__covariance__parameters": np.linspace(0.5, 1.5, runs)[:, None],
        "optimizer__lr": base.optimizer.lr * np.linspace(0.5, 1, runs),
    }


@needs_numba
@pytest.mark.parametrize("name", chosen(BATCHES, SLOW_BATCHES))
def test_a_batch_is_the_plain_loop(monkeypatch, name):
    base, given = BATCHES[name].replace(steps=150), numbers(BATCHES[name], 3)
    plain = train_batch(base, given, samples=20, curve=True, path="vmap")
    monkeypatch.setenv(SWITCH, "auto")
    assert choose_path(base, prepare(base), "auto").path == "compiled"
    found = train_batch(base, given, samples=20, curve=True)
    np.testing.assert_allclose(found["curve"], plain["curve"], rtol=1e-12)
    for key in ("final_loss", "minimum", "status", "status_step", "slow_count"):
        np.testing.assert_allclose(found[key], plain[key], rtol=1e-12, err_msg=key)


@needs_numba
@pytest.mark.parametrize(
    ("rule", "dtype"),
    [
        ("gd", "float32"), pytest.param("adam", "float64", marks=pytest.mark.slow),
        pytest.param("gd", "float64", marks=pytest.mark.slow),
        pytest.param("adam", "float32", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_neither_threads_nor_blocks_change_a_number(monkeypatch, dtype, rule):
    from iclearn.engines.compiled.batches import train_compiled
    from iclearn.engines.compiled.choose import batch_sizes

    monkeypatch.setenv(SWITCH, "auto")
    base = recipe("separate_reduced", rule=rule, dtype=dtype, steps=60)
    given = numbers(base, 37)
    setup = prepare(recipe_of_run(base, given, 0))
    how = batch_sizes(base, setup)
    assert how is not None
    runs, _ = traced_runs(base, setup, given)
    lengths = lengths_of(sample_steps(60, 10), 60)
    one = train_compiled(runs, *how, lengths, threads=1)
    for threads, lanes in ((2, None), (4, None), (1, 16), (2, 32)):
        np.testing.assert_array_equal(train_compiled(runs, *how, lengths, threads=threads, lanes=lanes), one)


@needs_numba
def test_a_run_that_diverges_ends_alone(monkeypatch):
    monkeypatch.setenv(SWITCH, "auto")
    found = train_batch(recipe("separate_reduced"), {"optimizer__lr": np.array([0.02, 50.0])}, path="compiled")
    assert found["status"].tolist() == [0, 2]
    assert 0 < found["status_step"][1] < 400


@needs_numba
def test_what_has_no_compiled_form(monkeypatch):
    monkeypatch.setenv(SWITCH, "require")
    softmax = recipe(prompts=20).replace(model__softmax=True)
    with pytest.raises(IclearnError, match="this run has no compiled form"):
        simulate(softmax)
    monkeypatch.setenv(SWITCH, "auto")
    assert simulate(softmax.replace(steps=3)).provenance["path"] == "xla"
    with pytest.raises(IclearnError, match="these runs have no compiled form"):
        train_batch(softmax, {"seed": np.arange(2)}, path="compiled")
    assert choose_path(softmax, prepare(softmax), "auto") == How("vmap")


@needs_numba
def test_given_features_need_not_be_products_of_two_vectors(monkeypatch):
    """The compiled step of a run on its own prompts uses that cubic features are β x_qᵀ; those of a file may not be."""
    rng = np.random.default_rng(0)
    dataset = dataset_from({"x": rng.normal(size=(20, 9)), "y_q": rng.normal(size=20)})
    weights = {"first": rng.normal(size=(2, 9)), "second": rng.normal(size=(1, 2))}
    monkeypatch.setenv(SWITCH, "auto")
    losses = []
    for engine in ("samples", "moments"):
        given = Recipe(
            task=GivenData.of(dataset), model=Attention("mlp", num_heads=2), init=Init(scheme="given"), steps=20,
            engine=engine,
        )  # fmt: skip
        losses.append(simulate(given, dataset=dataset, weights=weights).loss)
    np.testing.assert_allclose(*losses, rtol=1e-12)


@needs_numba
def test_a_single_run_is_compiled_however_short(monkeypatch):
    monkeypatch.setenv(SWITCH, "auto")
    assert simulate(recipe(steps=3)).provenance["path"] == path_name()


def test_switches(monkeypatch):
    monkeypatch.setenv(SWITCH, "off")
    assert simulate(recipe(steps=3)).provenance["path"] == "xla"
    with pytest.raises(IclearnError, match="path compiled needs Numba"):
        train_batch(recipe(), {"seed": np.arange(2)}, path="compiled")
    monkeypatch.setenv(SWITCH, "perhaps")
    with pytest.raises(IclearnError, match="it must be auto, off or require"):
        simulate(recipe(steps=3))
    monkeypatch.setenv(THREADS, "3")
    assert thread_count() == 3
    monkeypatch.setenv(THREADS, "many")
    with pytest.raises(IclearnError, match="ICLEARN_THREADS is 'many'"):
        thread_count()


def test_without_numba_everything_is_as_before(monkeypatch):
    import iclearn.engines.compiled.switch as switch

    monkeypatch.setattr(switch, "numba_version", lambda: None)
    monkeypatch.setenv(SWITCH, "auto")
    assert simulate(recipe(steps=3)).provenance["path"] == "xla"
    monkeypatch.setenv(SWITCH, "require")
    with pytest.raises(IclearnError, match=r"pip install 'iclearn\[fast\]'"):
        simulate(recipe(steps=3))
