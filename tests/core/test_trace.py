"""Traces on disk and in other programs' formats: whole or not at all, and equal when read back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from iclearn.core.errors import IclearnError
from iclearn.core.status import Status
from iclearn.core.trace import Trace


def trace(*, tests: bool = True, loss=None, status=Status.FINISHED, step=5, note="τ ≤ 1") -> Trace:
    rng = np.random.default_rng(7)
    loss = rng.random(5) if loss is None else loss
    variables = {
        "loss": ("step", loss, {"long_name": "training loss"}),
        "weight_value": (("record", "head"), rng.normal(size=(3, 2))),
        "loss_minimum": ((), 0.125),
    }
    coords = {"step": np.arange(5), "time": ("step", 0.1 * np.arange(5)), "record": [0, 2, 5], "head": [0, 1]}
    if tests:
        variables["test_loss"] = (("step", "test_set"), rng.random((5, 2)))
        coords["test_set"] = np.array(["in_weight", "in_context"], dtype=object)
    provenance = {"recipe_hash": "0123456789abcdef", "recipe": {"steps": 5}, "note": note}
    return Trace(xr.Dataset(variables, coords), status, step, provenance)


def names(folder: Path) -> set[str]:
    return {p.name for p in folder.iterdir()}


@pytest.mark.parametrize("tests", [False, True])
def test_saved_and_loaded_is_equal(tmp_path, tests):
    before = trace(tests=tests, status=Status.CONVERGED)
    path = before.save(tmp_path / "deep" / "run.zarr")
    after = Trace.load(path)
    assert after.equals(before)
    assert before.equals(after)
    assert after.provenance == before.provenance
    assert (after.status, after.status_step) == (Status.CONVERGED, 5)
    assert after.data["loss"].dtype == np.float64
    assert after.data["loss"].attrs == {"long_name": "training loss"}
    assert "provenance" not in after.data.attrs, "the attributes that hold it are not data"


def test_equal_means_the_same_bits_names_and_outcome():
    one = trace()
    nudged = np.array(one.loss)
    nudged[3] = np.nextafter(nudged[3], 1)
    assert one.equals(trace())
    assert one.equals(trace(note="another time and place"))
    assert not one.equals(trace(loss=nudged))
    assert not one.equals(trace(tests=False))
    assert not one.equals(trace(status=Status.CONVERGED))
    assert not one.equals(trace(step=4))
    renamed = Trace(one.data.rename(head="kopf"), one.status, one.status_step, one.provenance)
    assert not one.equals(renamed)


def test_saving_over_a_run_replaces_it_and_leaves_nothing_else(tmp_path):
    path = tmp_path / "run.zarr"
    trace().save(path)
    new = trace(loss=np.arange(5.0))
    new.save(path)
    assert Trace.load(path).equals(new)
    assert names(tmp_path) == {"run.zarr"}


def test_a_failed_save_leaves_the_old_run_and_nothing_half_written(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    old = trace()
    old.save(path)

    def breaks(self, store, **_):
        Path(store).mkdir()
        (Path(store) / "half").write_text("written")
        raise OSError("disk full")

    monkeypatch.setattr(xr.Dataset, "to_zarr", breaks)
    monkeypatch.setattr(xr.Dataset, "to_netcdf", breaks)
    with pytest.raises(OSError, match="disk full"):
        trace(loss=np.zeros(5)).save(path)
    with pytest.raises(OSError, match="disk full"):
        trace().save(tmp_path / "new.zarr")
    assert names(tmp_path) == {"run.zarr"}
    assert Trace.load(path).equals(old)


def test_loading_what_is_not_a_run(tmp_path):
    with pytest.raises(IclearnError, match="no stored run at "):
        Trace.load(tmp_path / "missing.zarr")
    (tmp_path / "empty.zarr").mkdir()
    with pytest.raises(IclearnError, match=r"empty\.zarr is not a stored run: "):
        Trace.load(tmp_path / "empty.zarr")
    xr.Dataset({"a": ("x", [1.0])}).to_zarr(tmp_path / "foreign.zarr", consolidated=False)
    with pytest.raises(IclearnError, match=r"foreign\.zarr is not a stored run: "):
        Trace.load(tmp_path / "foreign.zarr")
    future = xr.Dataset({"a": ("x", [1.0])}, attrs={"iclearn_format": 99})
    future.to_zarr(tmp_path / "future.zarr", consolidated=False)
    with pytest.raises(IclearnError, match="has format 99; this version of iclearn reads formats 1, 2, 3"):
        Trace.load(tmp_path / "future.zarr")


def test_text_as_the_public_code_writes_it(tmp_path):
    plain, tested = trace(tests=False), trace()
    np.testing.assert_array_equal(np.loadtxt(plain.export(tmp_path / "a.txt")), plain.loss)
    table = np.loadtxt(tested.export(tmp_path / "b.txt"))
    assert table.shape == (5, 3)
    np.testing.assert_array_equal(table[:, 0], tested.loss)
    np.testing.assert_array_equal(table[:, 1], tested.data["test_loss"].sel(test_set="in_weight"))
    np.testing.assert_array_equal(table[:, 2], tested.data["test_loss"].sel(test_set="in_context"))


def test_csv_has_a_header_and_every_digit(tmp_path):
    one = trace()
    path = one.export(tmp_path / "curve.csv")
    assert path.read_text().splitlines()[0] == "step,loss,in_weight,in_context"
    table = np.genfromtxt(path, delimiter=",", names=True)
    np.testing.assert_array_equal(table["step"], np.arange(5))
    np.testing.assert_array_equal(table["loss"], one.loss)
    np.testing.assert_array_equal(table["in_context"], one.data["test_loss"].sel(test_set="in_context"))


def test_netcdf_holds_the_whole_trace(tmp_path):
    one = trace()
    with xr.open_dataset(one.export(tmp_path / "run.nc"), engine="scipy") as file:
        back = file.load()
    assert back.attrs["status"] == "finished"
    xr.testing.assert_equal(back["loss"], one.data["loss"])
    xr.testing.assert_equal(back["weight_value"], one.data["weight_value"])
    assert [str(t) for t in back["test_set"].values] == ["in_weight", "in_context"]


def test_exporting_to_an_unknown_ending_is_refused_and_writes_nothing(tmp_path):
    with pytest.raises(IclearnError, match=r"cannot export to a\.xlsx: the name must end in \.csv, \.nc or \.txt"):
        trace().export(tmp_path / "new" / "a.xlsx")
    assert names(tmp_path) == set()


@pytest.mark.parametrize("ending", ["csv", "nc", "txt"])
def test_a_failed_export_leaves_the_old_file(tmp_path, monkeypatch, ending):
    path = tmp_path / f"curve.{ending}"
    path.write_text("old")

    def breaks(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr(np, "savetxt", breaks)
    monkeypatch.setattr(xr.Dataset, "to_netcdf", breaks)
    with pytest.raises(OSError, match="disk full"):
        trace().export(path)
    assert names(tmp_path) == {path.name}
    assert path.read_text() == "old"


def test_what_a_user_reads():
    one = trace(loss=np.array([1.0, 0.5, 0.25, 0.2, 0.125]))
    assert one.run_id == "0123456789ab"
    assert one.final_loss == 0.125
    assert repr(one) == "Trace(0123456789ab, ran all its steps; the loss may still fall, final loss 0.125)"
    assert trace(status=Status.DIVERGED, step=17).sentence == "diverged at step 17"
    np.testing.assert_array_equal(one.weights()["value"], one.data["weight_value"][-1])
    np.testing.assert_array_equal(one.weights(record=1)["value"], one.data["weight_value"].sel(record=2))
