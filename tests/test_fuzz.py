"""A short run of the fuzzer; the long one is `python -m tests.fuzz --count 100000`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_nothing_random_ends_in_a_traceback():
    """Apart, without the type checks of the tests: what a user would see."""
    command = [sys.executable, "-m", "tests.fuzz", "--count", "300", "--seed", "7"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert told.returncode == 0, told.stderr[-4000:]
    assert '"failures": 0' in told.stdout
