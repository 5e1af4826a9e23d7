"""A tier of the tests with XLA's optimization on, as users run it; the others switch it off to compile faster."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    "words",
    [
        # with and without softmax, both families, both engines
        ("tests/engines/test_golden.py", "-k", "rank2 or merged_softmax or merged_vary_len-samples"),
        pytest.param(("tests/engines/test_golden.py",), marks=pytest.mark.slow),
        pytest.param(
            ("tests/engines/test_batch.py", "-k", "run_alone and (full or rank or moments)"), marks=pytest.mark.slow
        ),
    ],
)
def test_numbers_hold_with_optimized_programs(words, tmp_path):
    env = {**os.environ, "XLA_FLAGS": "--xla_backend_optimization_level=3", "XDG_CACHE_HOME": str(tmp_path)}
    env.pop("PYTEST_XDIST_WORKER", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "0", *words]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout or " skipped" in done.stdout
