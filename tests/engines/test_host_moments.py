"""Moments of fixed sets by numpy: the prompts and the sums of the compiled program, and when they are taken."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from iclearn.core import drawn_normals
from iclearn.engines import quadratic, stream_moments
from iclearn.engines.quadratic import RememberedEngines, host_moments, moments_engine
from iclearn.models.features import Cubic, GramQuery
from iclearn.models.label_gram import LabelGram
from iclearn.tasks import Covariance, LinearRegression, VariedRegression, regression_source
from iclearn.tasks.regression_source import RegressionSource

PRIOR = {"prior_mean": (0.5, -1.0, 2.0), "prior_covariance": Covariance.linear()}
FORMS = {
    "plain": {},
    "white": {"covariance": Covariance.white()},
    "centered": {"center": True, "noise": 0.3},
    "whitened": {"center": True, "whiten": True, **PRIOR},
    "two outputs": {"out_dim": 2, "center": True, "whiten": True, "noise": 0.2},
    "mixed": {"in_context": 0.6, "center": True, "noise": 0.1, "test_prompts": 21},
    "noise for labels": {"in_context": 0.0, "out_dim": 2},
    "two blocks": {"num_prompts": 4100, "in_context": 0.999, "noise": 0.5},
}


def task_of(form: str, **changes) -> LinearRegression:
    sizes = {"dim": 3, "context_len": 5, "num_prompts": 37, "covariance": Covariance.linear()}
    return LinearRegression(**{**sizes, **FORMS[form], **changes})  # type: ignore[arg-type]


@pytest.fixture
def by_programs(monkeypatch):
    """Build a source whose sums are those of the program."""

    def build(task: LinearRegression, dtype: str = "float64", which: str = "train") -> RegressionSource:
        with monkeypatch.context() as patch:
            patch.setattr(RegressionSource, "_on_host", lambda self: False)
            return task.source(3, dtype, which)

    return build


def whole(source: RegressionSource) -> tuple[np.ndarray, ...]:
    """Inputs, labels and true labels of all prompts by numpy, prompts first."""
    blocks = source.host_blocks()
    assert blocks is not None
    found = [(block.tokens, block.truth) for block in blocks]
    tokens, truth = (np.moveaxis(np.concatenate(parts, -1), -1, 0) for parts in zip(*found, strict=True))
    dim = source.inputs.shape[0]
    return tokens[..., :dim], tokens[..., dim:], truth


def far(found, expected) -> float:
    """The largest difference, as a share of the largest entry of its array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return max(float(np.abs(np.asarray(a, float) - np.asarray(b, float)).max() / np.abs(b).max()) for a, b in pairs)


@pytest.mark.parametrize("form", FORMS)
def test_the_prompts_are_those_of_the_program(form, by_programs):
    task = task_of(form)
    labeled = eqx.filter_jit(RegressionSource.labeled)
    for which in ("train", *task.tests):
        source = by_programs(task, which=which)
        parts = [labeled(source, jnp.asarray(index)) for index in range(source.num_blocks)]
        expected = [np.concatenate(arrays)[: source.num_prompts] for arrays in zip(*parts, strict=True)][:3]
        assert far(whole(task.source(3, "float64", which)), tuple(expected)) < 1e-13


CASES = [
    ("two outputs", GramQuery, "none", 0),
    ("two outputs", Cubic, "context", 3),
    ("mixed", GramQuery, "tokens", range(0, 4)),
    ("whitened", Cubic, "none", range(2, 6)),
    ("two blocks", GramQuery, "context", 0),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[1].__name__}, {case[2]}, {case[3]}")
def test_the_moments_are_those_of_the_program(case, by_programs):
    form, kind, normalize, contexts = case
    task = task_of(form)
    features = kind(task.dim, task.out_dim, normalize)
    expected = quadratic._streamed(by_programs(task), features, task.out_dim, contexts)
    assert far(host_moments(task.source(3, "float64"), features, task.out_dim, contexts), expected) < 1e-12


def test_single_precision_is_as_near_to_double_as_the_program(by_programs):
    task, features = task_of("two blocks"), GramQuery(3, 1, "context")
    exact = host_moments(task.source(3, "float64"), features, 1, 0)
    found = host_moments(task.source(3, "float32"), features, 1, 0)
    program = quadratic._streamed(by_programs(task, "float32"), features, 1, 0)
    assert found is not None
    assert found.second.dtype == np.float64  # summed in it
    assert far(found, exact) < 5e-7
    assert far(program, exact) < 5e-7


@pytest.mark.parametrize("normalize", ["context", "tokens"])
def test_an_empty_context_as_the_program_has_it(normalize, by_programs):
    task, features = task_of("plain"), Cubic(3, 1, normalize)
    found = host_moments(task.source(3, "float64"), features, 1, range(0, 1))
    assert found is not None
    expected = quadratic._streamed(by_programs(task), features, 1, range(0, 1))
    np.testing.assert_array_equal(found.second, expected.second)  # 0 times 1/0, or 0
    assert np.isnan(found.second).all() == (normalize == "context")


def test_numbers_beyond_floating_point_as_the_program_has_them(by_programs):
    task, features = task_of("plain", prior_mean=(1e200, 0.0, 0.0), center=True), Cubic(3, 1, "none")
    found = host_moments(task.source(3, "float64"), features, 1, 0)
    expected = quadratic._streamed(by_programs(task), features, 1, 0)
    assert found is not None
    assert np.isinf(found.constant)
    assert np.isinf(expected.constant)
    np.testing.assert_array_equal(np.isfinite(found.second), np.isfinite(expected.second))


def test_the_size_of_parts_does_not_count(monkeypatch):
    task, features = task_of("two outputs", num_prompts=100), GramQuery(3, 2, "none")
    expected = stream_moments(task.source(0, "float64"), features, 2, 0)
    monkeypatch.setattr(regression_source, "DRAWN", 1)  # 16 prompts at a time
    monkeypatch.setattr(regression_source, "HOST_NUMBERS", 1)
    assert far(stream_moments(task.source(0, "float64"), features, 2, 0), expected) < 1e-13


def test_millions_of_prompts_are_never_there_at_once():
    blocks = LinearRegression(dim=8, num_prompts=10**7).source(0, "float64").host_blocks()
    assert blocks is not None
    assert next(blocks).tokens.nbytes < 2**21


@pytest.fixture
def programs(monkeypatch):
    """Names of what was computed by a program: moments, or the sums for centering."""
    names: list[str] = []
    for owner, name in ((quadratic, "_streamed"), (RegressionSource, "_sums")):
        real = getattr(owner, name)

        def noted(*args, real=real, name=name):
            names.append(name)
            return real(*args)

        monkeypatch.setattr(owner, name, noted)
    return names


CENTERED = LinearRegression(dim=2, context_len=3, num_prompts=20, center=True)
CUBIC = Cubic(2, 1, "context")


def collect(task=CENTERED, features=CUBIC, seed=0):
    return moments_engine(task, features, seed, "float64").train


def test_known_prompts_of_one_processor_need_no_program(programs):
    collect()
    assert not programs


@pytest.mark.parametrize(("name", "value"), [("device_count", 2), ("default_backend", "gpu")])
def test_other_devices_take_the_program(name, value, programs, monkeypatch):
    source = CENTERED.source(0, "float64")
    with monkeypatch.context() as patch:
        patch.setattr(regression_source.jax, name, lambda: value)
        assert source.host_blocks() is None
        assert host_moments(source, CUBIC, 1, 0) is None


def test_traced_seeds_take_the_program(programs):
    both = jax.vmap(lambda seed: collect(seed=seed))(jnp.arange(2))
    assert programs == ["_sums", "_streamed"]
    assert far(jax.tree.map(lambda a: a[1], both), collect(seed=1)) < 1e-12


def test_tasks_and_features_without_a_form_for_numpy_take_the_program(programs):
    collect(VariedRegression(dim=2, context_len=3, num_prompts=20, noise_range=0.5))
    assert programs == ["_streamed"]
    collect(features=LabelGram(2, 1, "context"))
    assert programs == ["_streamed"] * 2
    assert dataclasses.replace(CENTERED.source(0, "float64"), paired=True).host_blocks() is None


def test_known_prompts_while_something_else_is_traced():
    source = CENTERED.source(0, "float64")
    inside = jax.jit(lambda factor: stream_moments(source, CUBIC, 1, 0).second * factor)(2.0)
    np.testing.assert_allclose(inside, 2 * stream_moments(source, CUBIC, 1, 0).second, rtol=1e-13)


def test_a_set_is_drawn_once_where_it_fits(monkeypatch):
    calls: list[int] = []
    real = drawn_normals._some_rows

    def noted(words, start, lanes, count, stride):
        calls.append(count * lanes)
        return real(words, start, lanes, count, stride)

    monkeypatch.setattr(drawn_normals, "_some_rows", noted)
    whitened = LinearRegression(dim=2, context_len=3, num_prompts=20, center=True, whiten=True)
    once = collect(whitened)
    assert len(calls) == 2  # inputs and task vectors
    assert drawn_normals._draws.get() is None
    monkeypatch.setattr(drawn_normals, "KEPT_DRAWS", 32 * 4 * 4)  # the task vectors of 32 prompts, and not their inputs
    assert far(collect(whitened), once) == 0
    assert len(calls) == 2 + 3


def test_engines_are_remembered_while_they_fit(monkeypatch):
    built: list[int] = []

    def build(task, features, seed, dtype):
        built.append(seed)
        return moments_engine(task, features, seed, dtype)

    monkeypatch.setattr(quadratic, "moments_engine", build)
    remembered = RememberedEngines(2 * 8 * (16 + 4 + 1))  # two of these
    with ThreadPoolExecutor(3) as pool:
        same = list(pool.map(lambda _: remembered(CENTERED, CUBIC, 0, "float64"), range(3)))
    assert built == [0]
    assert same[0] is same[1] is same[2]
    for seed in (1, 0, 2, 0, 1):  # 1 is forgotten for 2, because 0 was asked for after it
        remembered(CENTERED, CUBIC, seed, "float64")
    assert built == [0, 1, 2, 1]
    small = RememberedEngines(0)
    assert small(CENTERED, CUBIC, 5, "float64") is small(CENTERED, CUBIC, 5, "float64")


def test_an_engine_that_fails_is_tried_again(monkeypatch):
    remembered = RememberedEngines(1000)
    with monkeypatch.context() as patch:
        patch.setattr(quadratic, "moments_engine", lambda *args: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            remembered(CENTERED, CUBIC, 0, "float64")
    assert remembered(CENTERED, CUBIC, 0, "float64").tests == ()
