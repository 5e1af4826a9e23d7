"""Programs kept on disk give the numbers of the plain ones, and nothing wrong or foreign is taken for one."""

from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import iclearn as icl
from iclearn.core import jax_settings, kept_programs
from iclearn.core.kept_programs import compile_ahead, kept
from iclearn.engines.quadratic import _streamed, remembered_moments_engine
from iclearn.models import Cubic


@pytest.fixture
def folder(tmp_path):
    before = jax_settings.configure().compile_cache
    jax_settings.configure(compile_cache=tmp_path)
    kept_programs.keep_programs()
    yield tmp_path / "kept"
    kept_programs.keep_programs(False)
    jax_settings.configure(compile_cache=False if before is None else before)


class Scaled(eqx.Module):
    weight: jax.Array
    power: int = eqx.field(static=True)


Scaled.__module__ = "iclearn.core.scaled"  # as a class whose source is hashed


def powers(scaled, x):
    return Scaled(scaled.weight * x**scaled.power, scaled.power), {"sum": x.sum(), "name": "a word"}


powers.__module__ = "iclearn.core.scaled"


def forget():
    """As a new process."""
    kept_programs.keep_programs()


def test_a_kept_program_gives_the_same_and_is_loaded_without_tracing(folder, monkeypatch):
    monkeypatch.setattr(kept_programs, "_pickled", lambda tree: repr(tree).encode())
    monkeypatch.setattr(kept_programs.pickle, "dumps", pytest.importorskip("cloudpickle").dumps)
    traced = []

    def counted(scaled, x):
        traced.append(1)
        return powers(scaled, x)

    call, x = kept(counted), jnp.arange(3.0)
    plain, more = powers(Scaled(jnp.asarray(2.0), 2), x)
    for _ in range(2):
        result, found = call(Scaled(jnp.asarray(2.0), 2), x)
        np.testing.assert_array_equal(result.weight, plain.weight)
        assert result.power == 2
        assert float(found["sum"]) == float(more["sum"])
        assert found["name"] == "a word"
        forget()
    assert len(traced) == 1
    assert len(list(folder.iterdir())) == 1
    cubes, _ = call(Scaled(jnp.asarray(2.0), 3), x)  # another static number is another program
    np.testing.assert_array_equal(cubes.weight, 2 * np.arange(3.0) ** 3)
    assert len(list(folder.iterdir())) == 2
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-100])
    forget()
    np.testing.assert_array_equal(call(Scaled(jnp.asarray(2.0), 2), x)[0].weight, plain.weight)
    assert len(traced) == 3


def test_what_other_packages_bring_is_not_kept(folder):
    class Foreign(eqx.Module):
        weight: jax.Array

    assert float(kept(lambda own: own.weight)(Foreign(jnp.asarray(3.0)))) == 3.0
    assert not folder.exists()
    assert float(jax.jit(kept(jnp.sin))(0.5)) == pytest.approx(np.sin(0.5))  # inside another program


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_runs_by_kept_programs_are_those_without(folder, noise):
    task = icl.LinearRegression(dim=2, context_len=5, num_prompts=40, noise=noise, center=True, whiten=True)
    recipe = icl.Recipe(task=task, model=icl.Attention("merged", num_heads=2), steps=30)
    kept_programs.keep_programs(False)
    remembered_moments_engine.cache_clear()
    plain = icl.simulate(recipe)
    for hits in (False, True):
        forget()
        remembered_moments_engine.cache_clear()
        again = icl.simulate(recipe)
        assert again.equals(plain)
        assert (again.provenance["compile_cache_hits"] == again.provenance["programs_compiled"]) is hits
    assert len(list(folder.iterdir())) == 3  # normals of weights, normals of prompts, the loop


@pytest.fixture
def compiled(monkeypatch):
    """Names of the programs that are compiled."""
    names, make = [], kept_programs._make

    def noted(function, *args):
        names.append(function.__name__)
        return make(function, *args)

    monkeypatch.setattr(kept_programs, "_make", noted)
    return names


def test_threads_that_ask_for_the_same_program_compile_it_once(folder, compiled):
    source = icl.LinearRegression(dim=2, context_len=5, num_prompts=40).source(0, "float64")
    features = Cubic(2, 1, "context")
    compile_ahead(_streamed, source, features, 1, 0)
    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: _streamed(source, features, 1, 0).second, range(3)))
    assert compiled.count("_streamed") == 1
    kept_programs.keep_programs(False)
    for second in found:
        np.testing.assert_array_equal(_streamed(source, features, 1, 0).second, second)
