"""Files users bring: the public layout and our own, and what is said about files that hold neither."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from iclearn.core.dataset import Arrays, FeatureArrays
from iclearn.core.errors import IclearnError
from iclearn.store import dataset_from, read_npz, weights_from

RNG = np.random.default_rng(0)


def tokens(prompts=6, num=5, entries=3):
    return RNG.normal(size=(prompts, num, entries))


def test_npz_files_are_read_as_they_are(tmp_path):
    arrays = {"x": tokens(), "y_q": RNG.normal(size=6), "args": np.array("{}")}
    np.savez(tmp_path / "a.npz", **arrays)
    back = read_npz(tmp_path / "a.npz")
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(back[name], array)


def truncated(path):
    np.savez(path, x=tokens(200))
    path.write_bytes(path.read_bytes()[:5000])


def corrupted(path):
    np.savez_compressed(path, x=tokens(200))
    raw = bytearray(path.read_bytes())
    raw[1000:1200] = bytes(200)
    path.write_bytes(bytes(raw))


def no_arrays(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("x.npy", "not an array")


BROKEN = {
    "text": lambda path: path.write_text("x, y\n1, 2\n"),
    "empty": lambda path: path.write_bytes(b""),
    "bare array": lambda path: path.write_bytes(_npy()),
    "objects": lambda path: np.savez(path, x=np.array([{}], dtype=object)),
    "truncated": truncated,
    "corrupted": corrupted,
    "a zip of something else": no_arrays,
}


def _npy() -> bytes:
    import io

    held = io.BytesIO()
    np.save(held, np.zeros(3))
    return held.getvalue()


@pytest.mark.parametrize("kind", BROKEN)
def test_files_that_cannot_be_read(tmp_path, kind):
    path = tmp_path / "bad.npz"
    BROKEN[kind](path)
    with pytest.raises(IclearnError, match=r"bad\.npz is not a readable \.npz file: ") as caught:
        read_npz(path)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(IclearnError, match="no file "):
        read_npz(tmp_path / "missing.npz")


def test_tokens_are_split_into_inputs_and_labels():
    x, y_q, y_all = tokens(), RNG.normal(size=6), RNG.normal(size=(6, 5))
    data = dataset_from({"x": x, "y_q": y_q, "y_all": y_all})
    assert isinstance(data.train, Arrays)
    np.testing.assert_array_equal(data.train.x, x[:, :, :2])
    np.testing.assert_array_equal(data.train.y, x[:, :, 2:])
    np.testing.assert_array_equal(data.train.y_query, y_q[:, None])
    assert data.train.labels is not None
    np.testing.assert_array_equal(data.train.labels, y_all[:, :, None])
    two = dataset_from({"x": tokens(entries=4), "y_q": RNG.normal(size=(6, 2))})
    assert isinstance(two.train, Arrays)
    assert two.train.x.shape == (6, 5, 2)
    assert two.train.y.shape == (6, 5, 2)


def test_test_sets_come_by_their_public_names():
    sets = {"x": tokens(), "y_q": np.zeros(6), "x_icl": tokens(4), "y_q_icl": np.ones(4)}
    data = dataset_from(sets | {"x_iwl": tokens(3), "y_q_iwl": np.ones(3)})
    assert {name: test.num_prompts for name, test in data.tests.items()} == {"in_weight": 3, "in_context": 4}
    assert dataset_from({"x": sets["x"], "y_q": sets["y_q"]}).tests == {}


def test_public_cubic_features_run_row_by_row():
    beta, query = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
    rows = np.einsum("pi,pj->pij", beta, query).reshape(6, 4)
    data = dataset_from({"x": rows, "y_q": np.zeros(6)})
    assert isinstance(data.train, FeatureArrays)
    np.testing.assert_array_equal(data.train.features, np.einsum("pi,pj->pji", beta, query).reshape(6, 4))


DATASETS = [
    ({"x": tokens()}, "a dataset needs the arrays x and y_q; missing y_q"),
    ({}, "a dataset needs the arrays x and y_q; missing x and y_q"),
    ({"x": tokens(), "y_q": np.zeros(5)}, "x (6, 5, 3) and y_q (5, 1) do not belong together"),
    ({"x": np.zeros(6), "y_q": np.zeros(6)}, "x (6,) and y_q (6, 1) do not belong together"),
    ({"x": tokens(), "y_q": np.zeros((6, 3))}, "tokens of 3 entries leave no input beside 3 outputs"),
    ({"x": np.zeros((6, 5)), "y_q": np.zeros(6)}, "cubic features come in dim² columns; 5 is no square"),
    ({"x": tokens(), "y_q": np.zeros(6), "x_icl": tokens()}, "test set x_icl needs its targets y_q_icl"),
]


@pytest.mark.parametrize(("arrays", "message"), DATASETS, ids=[m[:40] for _, m in DATASETS])
def test_arrays_that_are_no_dataset(arrays, message):
    with pytest.raises(IclearnError) as caught:
        dataset_from(arrays)
    assert str(caught.value) == message


def test_public_weights_become_ours():
    """Only the rows that reach the output are kept. (That they predict the same: tests/models/test_families.py.)"""
    kq, value = RNG.normal(size=(2, 5, 3, 3))
    family, merged = weights_from({"weights_kq": kq, "weights_value": value})
    assert family == "merged"
    np.testing.assert_array_equal(merged["kq"], kq[:, :2])
    np.testing.assert_array_equal(merged["value"], value[:, 2:])
    key, query = RNG.normal(size=(2, 5, 2, 3))
    family, separate = weights_from({"weights_key": key, "weights_query": query, "weights_value": value})
    assert family == "separate"
    np.testing.assert_array_equal(separate["key"], key)
    np.testing.assert_array_equal(separate["query"], query[:, :, :2])
    first, second = RNG.normal(size=(5, 4)), RNG.normal(size=5)
    family, mlp = weights_from({"weights_first": first, "weights_second": second})
    assert family == "mlp"
    np.testing.assert_array_equal(mlp["first"], first[:, [0, 2, 1, 3]])
    np.testing.assert_array_equal(mlp["second"], second[None])


WEIGHTS = [
    ({"a": np.zeros(3)}, "no weights found among a; expected merged: weights_kq, weights_value; separate: "),
    ({}, "no weights found among no arrays; expected merged"),
    ({"weights_kq": np.zeros((3, 3)), "weights_value": np.zeros((2, 3, 3))}, "weights_kq must have 3 axes, not (3, 3)"),
    (
        {"weights_first": np.zeros((3, 5)), "weights_second": np.zeros(3)},
        "cubic features come in dim² columns; 5 is no square",
    ),
    ({"value": np.zeros(()), "kq": np.zeros(())}, "weight kq is a single number, not an array with named axes"),
]


@pytest.mark.parametrize(("arrays", "message"), WEIGHTS, ids=[m[:40] for _, m in WEIGHTS])
def test_arrays_that_are_no_weights(arrays, message):
    with pytest.raises(IclearnError) as caught:
        weights_from(arrays)
    assert str(caught.value).startswith(message)


def bomb(path, shape, dtype="<f8", data=b""):
    """An .npz that declares an array of any size and holds next to nothing."""
    import io
    import zipfile

    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype, "fortran_order": False, "shape": shape})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", header.getvalue() + data)
        archive.writestr("y_q.npy", header.getvalue() + data)


@pytest.mark.parametrize(
    ("shape", "dtype", "words"),
    [
        ((10**9, 10**6, 4), "<f8", "its arrays take 64 PB"),
        ((10**11,), "<f8", "half of the free memory here"),
        ((3,), "|O", "it holds Python objects or no arrays"),
        ((5, 4, 3), "<f8", "is not a readable .npz file"),
    ],
)
def test_what_declares_more_than_there_is_is_refused_before_memory_is_taken(tmp_path, shape, dtype, words):
    bomb(tmp_path / "bomb.npz", shape, dtype)
    with pytest.raises(IclearnError, match=r"bomb\.npz is not a readable") as caught:
        read_npz(tmp_path / "bomb.npz")
    assert words in str(caught.value)


def test_nothing_in_a_dataset_or_weights_is_dropped_in_silence():
    x, y = np.ones((6, 5, 3)), np.ones(6)
    with pytest.raises(IclearnError, match="test targets y_q_icl need their prompts x_icl"):
        dataset_from({"x": x, "y_q": y, "y_q_icl": y})
    with pytest.raises(IclearnError, match="a dataset has no array 'x_test'; its arrays are x, y_q, y_all"):
        dataset_from({"x": x, "y_q": y, "x_test": x})
    kq = np.ones((2, 4, 4))
    with pytest.raises(IclearnError, match="weight weights_kq must hold real numbers, not complex128"):
        weights_from({"weights_kq": kq + 1j, "weights_value": kq})
    with pytest.raises(IclearnError, match="weight weights_kq must hold real numbers, not <U3"):
        weights_from({"weights_kq": kq.astype(str), "weights_value": kq})
