"""Columns are stored as xarray would store them, byte by byte, and a Trace of them is the Trace of the dataset."""

import subprocess
import sys

import numpy as np
import pytest

import iclearn as icl
from iclearn.core.columns import Columns
from iclearn.core.trace import Trace


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(("dtype", "steps"), [("float32", 3), ("float64", 300_000)])  # the second is cut into chunks
def test_the_folder_is_the_one_xarray_writes(tmp_path, dtype, steps):
    rng = np.random.default_rng(0)
    columns = Columns(
        {
            "loss": ("step", rng.normal(size=steps).astype(dtype), {"long_name": "training loss"}),
            "weight": (("record", "head"), np.zeros((2, 3), dtype)),
            "least": ((), 0.5),
        },
        {
            "step": ("step", np.arange(steps), {"long_name": "step"}),
            "time": ("step", 0.1 * np.arange(steps), {"units": "tau"}),
            "record": ("record", np.array([0, 7])),
            "level": ("level", np.array([0.5, 1.5])),
        },
        {"mark": 3, "text": "words"},
    )
    assert columns.plain
    columns.write(tmp_path / "own")
    columns.dataset().to_zarr(tmp_path / "xarray", mode="w", consolidated=False)
    assert files(tmp_path / "own") == files(tmp_path / "xarray")


def test_words_are_left_to_xarray(tmp_path):
    task = icl.LinearRegression(dim=2, context_len=4, num_prompts=10, test_prompts=10)
    trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=3))
    assert not trace.__dict__["columns"].plain
    assert Trace.load(trace.save(tmp_path / "run.zarr")) == trace


def test_a_trace_of_columns_is_that_of_its_dataset(tmp_path):
    task = icl.LinearRegression(dim=2, context_len=4, num_prompts=None)
    trace = icl.simulate(icl.Recipe(task=task, model=icl.Attention("merged_reduced"), steps=5))
    assert "data" not in trace.__dict__
    assert trace.num_losses == 5
    assert trace.has("loss")
    assert not trace.has("test_loss")
    stored = Trace.load(trace.save(tmp_path / "a.zarr"))
    whole = Trace(trace.data, trace.status, trace.status_step, trace.provenance)
    assert stored == trace == whole
    whole.save(tmp_path / "b.zarr")
    assert files(tmp_path / "a.zarr") == files(tmp_path / "b.zarr")
    with pytest.raises(AttributeError):
        trace.nothing  # noqa: B018


def test_training_from_a_shell_does_not_wait_for_xarray(tmp_path):
    command = ["train", "--model", "merged_reduced", "--prompts", "inf", "--steps", "5", "--quiet"]
    code = (
        "import sys; from iclearn.cli import main; code = main(sys.argv[1:]); "
        "sys.exit(code or bool({'xarray', 'pandas', 'scipy.linalg', 'dask'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code, *command], cwd=tmp_path, check=False).returncode == 0
