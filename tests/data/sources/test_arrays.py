"""Arrays of .npz and .npy files."""

import hashlib
import io
import pickle
import zipfile

import numpy as np
import pytest
import torch

from nescio.data import (
    Dataset,
    ImagePreprocess,
    RowPreprocess,
    StoredArray,
    Table,
    _npy_rows,
    _stored,
    open_source,
)
from nescio.data.sources import _arrays
from nescio.errors import DataError


def from_npz(path):
    return open_source(path).labelled()


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 6, 5), (4, 1, 6, 5)), ((4, 6, 5, 3), (4, 3, 6, 5)), ((4, 1, 6, 5), (4, 1, 6, 5))],
)
def test_npz_of_images(tmp_path, shape, expected):
    images = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    np.savez(tmp_path / "d.npz", images=images, labels=["b", "a", "b", "a"])
    data = from_npz(tmp_path / "d.npz")
    assert isinstance(data, Dataset)
    assert data.images.shape == expected
    assert (data.classes, data.labels.tolist()) == (("a", "b"), [1, 0, 1, 0])


def test_npz_of_features_with_class_names(tmp_path):
    np.savez(tmp_path / "d.npz", features=np.eye(3), labels=[2, 0, 2], classes=["x", "y", "z"])
    data = from_npz(tmp_path / "d.npz")
    assert isinstance(data, Table)
    assert (data.classes, data.labels.tolist()) == (("x", "y", "z"), [2, 0, 2])


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": [0, 1]}, "must hold images or features, got labels"),
        ({"images": np.zeros((2, 3, 3)), "labels": [0, 1]}, "must be uint8"),
        ({"images": np.zeros((2, 3), np.uint8), "labels": [0, 1]}, "must be .N, H, W."),
        ({"images": np.zeros((3, 3, 3), np.uint8), "labels": [0, 1]}, "3 samples but 2 labels"),
        ({"features": np.array([[np.nan], [0]]), "labels": [0, 1]}, "finite"),
        ({"features": np.zeros((2, 3)), "labels": [0, 3], "classes": ["a", "b"]}, r"labels must be 0\.\.1"),
        ({"features": np.zeros((2, 3)), "labels": [[0], [1]]}, r"labels must be one-dimensional"),
        ({"features": np.array([["a"], ["b"]]), "labels": [0, 1]}, "inputs must be numbers"),
        ({"features": np.array([[1e39], [0]]), "labels": [0, 1]}, "finite"),
        ({"features": np.eye(2), "labels": [0, np.nan]}, r"labels\[1\]: a label expected, got 'nan'"),
        ({"features": np.eye(2), "labels": ["a", ""]}, r"labels\[1\]: a label expected, got ''"),
        ({"features": np.eye(2), "labels": [b"\xff", b"a"]}, "is not UTF-8"),
        ({"features": np.eye(2), "labels": [1j, 0]}, "labels must be one-dimensional numbers or names"),
        ({"features": np.eye(2), "labels": [0.0, 1.0], "classes": ["a", "b"]}, r"labels must be 0\.\.1"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": [7, 8]}, "classes must be two or more names"),
        ({"features": np.eye(2), "labels": [0, 0], "classes": ["a"]}, "classes must be two or more names"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": [["a", "b"]]}, "classes must be two or more"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": "ab"}, "classes must be two or more names"),
    ],
)
def test_npz_that_does_not_fit(tmp_path, arrays, reason):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=reason):
        from_npz(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        ([b"dog", b"cat"], ("cat", "dog"), [1, 0]),
        ([10.0, 9.0], ("9", "10"), [1, 0]),
        ([0.5, 2.0], ("0.5", "2"), [0, 1]),
        ([True, False], ("False", "True"), [1, 0]),
    ],
)
def test_npz_labels_of_every_kind(tmp_path, labels, classes, numbers):
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=labels)
    data = from_npz(tmp_path / "d.npz")
    assert (data.classes, data.labels.tolist()) == (classes, numbers)


def test_npz_class_names_in_bytes(tmp_path):
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[1, 0], classes=[b"x", b"y"])
    assert from_npz(tmp_path / "d.npz").classes == ("x", "y")


def test_npz_reads_only_what_is_needed(tmp_path):
    pickled = np.array([{"a": 1}])
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1], notes=pickled)
    assert len(from_npz(tmp_path / "d.npz")) == 2


def test_npz_that_claims_more_than_there_is_memory(tmp_path):
    header = io.BytesIO()
    form = {"descr": "|u1", "fortran_order": False, "shape": (1 << 45, 28, 28)}
    np.lib.format.write_array_header_1_0(header, form)
    np.savez(tmp_path / "d.npz", labels=[0, 1])
    with zipfile.ZipFile(tmp_path / "d.npz", "a") as packed:
        packed.writestr("images.npy", header.getvalue())
    with pytest.raises(DataError, match=r"d\.npz is not an \.npz file of plain arrays"):
        from_npz(tmp_path / "d.npz")


def test_npz_of_a_few_bytes_that_would_fill_the_memory(tmp_path, monkeypatch):
    path = tmp_path / "zeros.npz"
    np.savez_compressed(path, images=np.zeros((1000, 100, 100), np.uint8), labels=np.arange(1000) % 2)
    assert len(open_source(path)) == 1000  # ten megabytes are nothing
    monkeypatch.setattr(_arrays, "MOST_UNPACKED", 1_000_000)
    with pytest.raises(DataError, match=r"zeros.npz: images would take 10,000,128 bytes"):
        open_source(path)
    random = np.random.default_rng(0).integers(0, 9, (1000, 100, 100), dtype=np.uint8)
    np.savez_compressed(path, images=random, labels=np.arange(1000) % 2)
    assert len(open_source(path)) == 1000  # as tight as data is


def test_npz_never_unpickles(tmp_path):
    np.savez(tmp_path / "d.npz", images=np.array([{"a": 1}, None]), labels=[0, 1])
    with pytest.raises(DataError, match=r"not an .npz file of plain arrays"):
        from_npz(tmp_path / "d.npz")


def test_npz_that_is_something_else(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"not an .npz file"):
        from_npz(tmp_path / "d.npz")
    np.save(tmp_path / "one.npy", np.eye(2))
    with pytest.raises(DataError, match="must hold labels beside its inputs"):
        from_npz(tmp_path / "one.npy")


def values_of(path):
    source = open_source(path)
    return [one.value for one in source.read(range(len(source)))]


def test_inputs_need_no_labels(tmp_path):
    images = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
    np.savez(tmp_path / "i.npz", images=images)
    np.savez(tmp_path / "f.npz", features=np.eye(3), labels=[0, 0, 0])
    np.save(tmp_path / "a.npy", np.eye(2))
    np.savez(tmp_path / "only.npz", anything=np.eye(2))
    assert [value.dtype for value in values_of(tmp_path / "i.npz")] == [torch.uint8] * 2
    assert torch.equal(torch.stack(values_of(tmp_path / "i.npz")), torch.from_numpy(images))
    for name, size in (("f.npz", 3), ("a.npy", 2), ("only.npz", 2)):
        assert torch.equal(torch.stack(values_of(tmp_path / name)), torch.eye(size))
    names = [one.name for one in open_source(tmp_path / "a.npy").read([1, 0])]
    assert names == [f"{tmp_path / 'a.npy'}:2", f"{tmp_path / 'a.npy'}:1"]
    assert open_source(tmp_path / "a.npy").labels is None


@pytest.mark.parametrize("kind", [np.float64, np.float16, np.int64, np.uint64, np.int8, bool])
def test_numbers_of_every_kind_become_float32(tmp_path, kind):
    np.save(tmp_path / "a.npy", np.array([[1, 0]], kind))
    (value,) = values_of(tmp_path / "a.npy")
    assert value.tolist() == [1, 0]
    assert value.dtype == torch.float32


def test_what_float32_can_not_hold_is_not_finite(tmp_path):
    np.save(tmp_path / "a.npy", np.array([[1e39, 0], [1, 1]]))
    first, second = values_of(tmp_path / "a.npy")
    preprocess = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2)
    with pytest.raises(DataError, match="has a value that is not finite"):
        preprocess.prepare(first)
    assert preprocess.prepare(second).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": [0, 1]}, "a.npz must hold images or features, got labels"),
        ({"a": [0], "b": [0]}, "a.npz must hold images or features, got a, b"),
        ({"features": np.array(["a"])}, "inputs must be numbers"),
        ({"features": np.zeros((0, 3))}, "one or more inputs expected"),
        ({"features": np.float64(3)}, "one or more inputs expected"),
    ],
)
def test_files_without_inputs(tmp_path, arrays, reason):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=reason):
        open_source(tmp_path / "a.npz")


def test_a_file_as_bytes(tmp_path):
    content = io.BytesIO()
    np.savez(content, features=np.eye(2))
    source = open_source("sent.npz", content.getvalue())
    assert [one.name for one in source.read([0, 1])] == ["sent.npz:1", "sent.npz:2"]
    (tmp_path / "b.npz").write_bytes(content.getvalue())
    assert open_source(tmp_path / "b.npz").fingerprint() == source.fingerprint()


def test_broken_labels_do_not_matter_where_none_are_asked_for(tmp_path):
    np.savez(tmp_path / "a.npz", features=np.eye(2), labels=[0, 0, 0])
    assert len(values_of(tmp_path / "a.npz")) == 2
    with pytest.raises(DataError, match="2 samples but 3 labels"):
        from_npz(tmp_path / "a.npz")


def test_images_as_a_model_takes_them(tmp_path):
    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    np.savez(tmp_path / "a.npz", images=images, labels=["x", "y"])
    preprocess = ImagePreprocess((3, 4, 5), (0.0,) * 3, (255.0,) * 3)
    data = open_source(tmp_path / "a.npz").labelled(preprocess)
    assert torch.equal(data.images, torch.from_numpy(images).permute(0, 3, 1, 2))


@pytest.fixture
def on_the_disk(monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 200)


IMAGES = np.random.default_rng(0).integers(0, 256, (12, 4, 5), dtype=np.uint8)


def saved(path, kind, **arrays):
    save = np.savez_compressed if kind == "compressed" else np.savez
    save(path, **arrays)
    return path


@pytest.mark.parametrize("kind", ["stored", "compressed"])
@pytest.mark.parametrize(
    "images",
    [IMAGES, np.stack([IMAGES] * 3, 1), np.stack([IMAGES] * 3, 3), np.asfortranarray(IMAGES)],
    ids=["grey", "first", "last", "by columns"],
)
def test_images_of_a_large_file_are_the_same(tmp_path, kind, images, monkeypatch, empty_cache):
    path = saved(tmp_path / "d.npz", kind, images=images, labels=np.arange(12) % 3)
    resident = open_source(path).labelled()
    read_before = [one.value for one in open_source(path).read([3, 7])]
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 200)
    data = open_source(path).labelled()
    in_place = kind == "stored" and images.flags.c_contiguous
    assert isinstance(data.images, StoredArray) == in_place
    assert torch.equal(data.images[:], resident.images)
    assert torch.equal(data.images[torch.tensor([5, 1])], resident.images[[5, 1]])
    for one, before in zip(open_source(path).read([3, 7]), read_before, strict=True):
        assert torch.equal(one.value, before)
    assert torch.equal(pickle.loads(pickle.dumps(data.images))[2], resident.images[2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_rows_of_a_large_file_are_the_same(tmp_path, dtype, monkeypatch, empty_cache):
    rows = (np.random.default_rng(1).random((40, 6)) * 9).astype(dtype)
    path = saved(tmp_path / "d.npz", "stored", features=rows, labels=np.arange(40) % 2)
    resident = open_source(path).labelled()
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 200)
    table = open_source(path).labelled()
    assert isinstance(table.features, StoredArray)
    assert torch.equal(table.features[:], resident.features)
    assert torch.equal(pickle.loads(pickle.dumps(table.features))[2], resident.features[2])
    np.save(tmp_path / "d.npy", rows)
    source = open_source(tmp_path / "d.npy")
    (one,) = source.read([5])
    assert one.value.dtype == (torch.uint8 if dtype == np.uint8 else torch.float32)
    assert torch.equal(one.value.float(), resident.features[5])
    assert source.fingerprint() == hashlib.sha256((tmp_path / "d.npy").read_bytes()).hexdigest()


def test_large_files_are_not_read_as_a_whole(tmp_path, on_the_disk, monkeypatch):
    path = saved(tmp_path / "d.npz", "stored", images=IMAGES, labels=np.arange(12) % 3)
    read = []
    real = _npy_rows.FileRows.read
    monkeypatch.setattr(
        _npy_rows.FileRows, "read", lambda self, rows: read.append(list(rows)) or real(self, rows)
    )
    data = open_source(path).labelled()
    assert read == []
    data.images[torch.tensor([4, 5])]
    assert read == [[4, 5]]


def test_large_files_for_a_model(tmp_path, on_the_disk):
    path = saved(tmp_path / "d.npz", "stored", images=IMAGES, labels=np.arange(12) % 3)
    data = open_source(path).labelled(ImagePreprocess((1, 4, 5), (0.0,), (255.0,)))
    assert isinstance(data.images, StoredArray)
    assert np.array_equal(data.images[:][:, 0].numpy(), IMAGES)


def test_large_files_that_do_not_fit(tmp_path, on_the_disk):
    path = saved(tmp_path / "d.npz", "stored", images=IMAGES.astype(np.float32), labels=np.arange(12) % 3)
    with pytest.raises(DataError, match=r"images must be uint8 0\.\.255, got float32"):
        open_source(path).labelled()
    path = saved(tmp_path / "e.npz", "stored", images=np.stack([IMAGES] * 2, 3), labels=np.arange(12) % 3)
    with pytest.raises(DataError, match=r"images must be \(N, H, W\), .*got \(12, 4, 5, 2\)"):
        open_source(path).labelled()
    path = saved(tmp_path / "f.npz", "stored", features=np.full((40, 6), np.nan), labels=np.arange(40) % 2)
    with pytest.raises(DataError, match="features must be finite"):
        open_source(path).labelled()


def test_a_large_file_that_is_cut(tmp_path, on_the_disk):
    np.save(tmp_path / "d.npy", IMAGES)
    content = (tmp_path / "d.npy").read_bytes()
    (tmp_path / "d.npy").write_bytes(content[:300])
    with pytest.raises(DataError, match=r"d\.npy is not an \.npz file of plain arrays"):
        open_source(tmp_path / "d.npy")
