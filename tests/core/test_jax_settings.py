"""Double precision, the compile cache and its switch, and the meter of compilations."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp

from iclearn.core.jax_settings import compile_cache_dir, compile_meter


def test_double_precision_is_on():
    assert jnp.asarray(1.0).dtype == jnp.float64


def test_float32_products_keep_their_bits_unless_the_user_chose_otherwise():
    tell = "import jax, iclearn.core.jax_settings; print(jax.config.jax_default_matmul_precision)"
    for chosen, expected in ((None, "highest"), ("bfloat16", "bfloat16")):
        env = os.environ | ({"JAX_DEFAULT_MATMUL_PRECISION": chosen} if chosen else {})
        done = subprocess.run([sys.executable, "-c", tell], env=env, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == expected


def test_where_compiled_programs_are_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("ICLEARN_COMPILE_CACHE", raising=False)
    assert compile_cache_dir() == tmp_path / "iclearn" / "compiled"
    monkeypatch.setenv("ICLEARN_COMPILE_CACHE", str(tmp_path / "elsewhere"))
    assert compile_cache_dir() == tmp_path / "elsewhere"
    for off in ("off", "0", "no", "False"):
        monkeypatch.setenv("ICLEARN_COMPILE_CACHE", off)
        assert compile_cache_dir() is None
    monkeypatch.delenv("ICLEARN_COMPILE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert compile_cache_dir() == Path.home() / ".cache" / "iclearn" / "compiled"


def test_meter_counts_each_program_once():
    def fresh(x):
        return jnp.sin(x) * 1.2345 + 3

    jitted = jax.jit(fresh)
    x = jnp.ones(7)
    with compile_meter() as first:
        jitted(x)
    with compile_meter() as second:
        jitted(x)
    assert first.programs == 1
    assert first.seconds > 0
    assert (second.programs, second.seconds) == (0, 0.0)


SCRIPT = """
import jax.numpy as jnp, jax
from iclearn.core.jax_settings import compile_meter
with compile_meter() as spent:
    jax.jit(lambda x: jnp.cos(x) * 7.25)(jnp.arange(11.0)).block_until_ready()
print(spent.cache_hits)
"""


def _hits(folder: Path | str) -> int:
    environment = {**os.environ, "ICLEARN_COMPILE_CACHE": str(folder), "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def test_a_second_process_takes_programs_from_disk_unless_switched_off(tmp_path):
    assert _hits(tmp_path) == 0
    assert any(tmp_path.iterdir())
    assert _hits(tmp_path) >= 1
    assert _hits("off") == 0
