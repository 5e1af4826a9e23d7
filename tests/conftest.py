"""Shared by all tests: shape annotations are checked at run time, and golden files are found where they are."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path


def xla_starts(flags: str) -> bool:
    """Whether the installed XLA knows these flags: at one that it does not know it ends the process."""
    start = "from jaxlib import xla_client; xla_client.make_cpu_client()"
    environment = {**os.environ, "XLA_FLAGS": flags}
    return not subprocess.run([sys.executable, "-c", start], env=environment, capture_output=True).returncode


# A shell starts what it puts into the background with Ctrl-C ignored, and processes inherit that: tests that interrupt
# one would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `pytest -m gpu` asks for the accelerator; xdist's workers inherit the answer.
if ("-m", "gpu") in pairwise(sys.argv):
    os.environ["ICLEARN_TEST_DEVICE"] = "gpu"
ON_GPU = os.environ.get("ICLEARN_TEST_DEVICE") == "gpu"
if ON_GPU:
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # several workers share the memory
else:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("ICLEARN_TRACEBACK", "1")  # a bug is a traceback here, and not one line
# Most of the suite's time is XLA compiling programs that run for milliseconds: it optimizes nothing here, takes its
# older and quicker emitter of fused loops, and leaves the other core alone. `test_optimized.py` has what users have.
if "XLA_FLAGS" not in os.environ and not ON_GPU:
    quick = ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
    known = [flag for flag in quick if xla_starts(flag)]
    os.environ["XLA_FLAGS"] = " ".join(["--xla_backend_optimization_level=0", *known])
# Most tests are of the plain loop, in few steps; those of compiled code switch it on and compare it with that.
os.environ.setdefault("ICLEARN_COMPILED", "off")
if "XDG_CACHE_HOME" not in os.environ:  # compiled programs of this run, shared by its workers and gone with it
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="iclearn-test-cache-")
    atexit.register(shutil.rmtree, os.environ["XDG_CACHE_HOME"], ignore_errors=True)

from jaxtyping import install_import_hook

install_import_hook("iclearn", "typecheck.typechecker")

import numpy as np
import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"
ROOM = 1 << 30  # bytes of the compile cache and of what tests write
MOST_MAPS = 25_000  # memory maps of a process: at 65,530 XLA crashes
MOST_MEMORY = 2 << 30  # resident bytes of a process, two of which fit into 8 GB with what a module adds


class Golden:
    """The golden files of a folder: ``golden("merged")`` is a dict of arrays."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, name: str) -> Path:
        path = self.folder / f"{name}.npz"
        if not path.exists():
            pytest.skip(f"{name}.npz has no small version in tests/golden, and its large one is in no repository")
        return path

    def __call__(self, name: str) -> dict[str, np.ndarray]:
        with np.load(self.path(name), allow_pickle=False) as file:
            return {key: file[key] for key in file.files}


LARGE = SHARED / "golden"


@pytest.fixture(scope="session", params=["small", *(["large"] if LARGE.is_dir() else [])])
def golden(request) -> Golden:
    """The small golden files of this repository, and then the large ones where they are."""
    return Golden(LARGE if request.param == "large" else Path(__file__).parent / "golden")


def pytest_configure(config):
    """Stop at once where the temporary folder is too small."""
    folder = tempfile.gettempdir()
    if (free := shutil.disk_usage(folder).free) < ROOM and not hasattr(config, "workerinput"):
        raise pytest.UsageError(
            f"the tests need {ROOM >> 20} MB in the temporary folder, and {folder} has {free >> 20} MB left: "
            "free some, or set TMPDIR to a folder with more"
        )


def pytest_runtest_setup(item):
    """A test of the accelerator says where there is none."""
    if item.get_closest_marker("gpu"):
        import jax

        if jax.default_backend() == "cpu":
            pytest.skip("JAX found no accelerator: run `pytest -m gpu` on a machine with one and JAX's package for it")


@pytest.fixture(autouse=True)
def no_open_figures():
    """Close what a test drew: pyplot keeps figures, and warns (an error here) at the 21st of a process."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@pytest.fixture(scope="module", autouse=True)
def few_compiled_programs():
    """Forget compiled programs where a process holds too many memory maps, or too much memory."""
    yield
    process = Path("/proc/self")
    if not process.exists():
        return
    resident = int((process / "statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    if resident > MOST_MEMORY or (process / "maps").read_bytes().count(b"\n") > MOST_MAPS:
        import ctypes
        import gc

        import jax

        jax.clear_caches()
        gc.collect()
        if hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
            libc.malloc_trim(0)
