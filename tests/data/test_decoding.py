"""Many pictures: in worker processes, in memory, in a file of the cache, or decoded when asked for."""

import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from PIL import Image

from nescio._files import digest
from nescio.data import StoredArray, _decoding, _stored, open_source
from nescio.data._decoding import PictureForm, decode_folder, decode_in_order
from nescio.data._pictures import read_picture
from nescio.errors import DataError, NescioWarning

FORM = PictureForm(3, (16, 16), "crop")


@pytest.fixture
def folder(tmp_path):
    """100 pictures of varied sizes in two classes; the eighth is damaged."""
    random = np.random.default_rng(0)
    for index in range(100):
        path = tmp_path / "photos" / ("cat" if index < 50 else "dog") / f"{index:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = random.integers(10, 40, 2)
        Image.fromarray(random.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)
    damaged = tmp_path / "photos" / "cat" / "007.png"
    damaged.write_bytes(damaged.read_bytes()[:100])
    return tmp_path / "photos"


@pytest.fixture
def few_in_memory(monkeypatch):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 1000)


def files_in(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*.png"))


def expected_of(folder, form=FORM):
    """One by one, in this process."""
    images = []
    for file in files_in(folder):
        if file.name != "007.png":
            images.append(read_picture(folder / file, form.channels, form.size, resize=form.resize))
    return torch.stack(images)


def test_workers_give_the_same_bits(folder, monkeypatch):
    monkeypatch.setattr(_decoding, "BLOCK_BYTES", 40 * FORM.nbytes)  # three blocks
    decoded = decode_folder(folder, files_in(folder), FORM)
    assert isinstance(decoded.images, torch.Tensor)
    assert torch.equal(decoded.images, expected_of(folder))
    assert decoded.kept.tolist() == [index for index in range(100) if index != 7]
    assert list(decoded.unreadable) == [7]
    assert "007.png is damaged" in decoded.unreadable[7]


def test_workers_start_without_torch():
    code = "import sys; import nescio.data._pictures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_few_are_decoded_in_this_process(folder, monkeypatch):
    monkeypatch.setattr(_decoding, "Parallel", None)
    files = files_in(folder)[: _decoding.FEW]
    (block,) = decode_in_order(folder, files, FORM)
    assert len(block) == len(files)


def test_a_script_without_a_main_guard(folder, tmp_path):
    """As people write them: at its top level, where a process that imports it again would start others."""
    script = tmp_path / "script.py"
    script.write_text(
        "from nescio.data import open_source\n"
        f"data = open_source({str(folder)!r}, size=16).labelled()\n"
        "print(len(data))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", script], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.stdout == "99\n", done.stderr


def kill_itself(files, *form):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_a_clear_error(folder, monkeypatch):
    monkeypatch.setattr(_decoding, "decode_some", kill_itself)
    with pytest.raises(DataError, match=r"process that decodes pictures was killed between cat.000\.png and"):
        decode_folder(folder, files_in(folder), FORM)
    monkeypatch.undo()
    assert len(decode_folder(folder, files_in(folder), FORM).images) == 99


def refuse(*_):
    raise AssertionError("pictures were decoded again")


def test_many_are_kept_in_the_cache_and_decoded_once(folder, few_in_memory, empty_cache, monkeypatch, capsys):
    decoded = decode_folder(folder, files_in(folder), FORM)
    assert isinstance(decoded.images, StoredArray)
    assert torch.equal(decoded.images[:], expected_of(folder))
    assert "decoding 100 pictures to 3x16x16-crop, 0.0 GB in" in capsys.readouterr().err
    monkeypatch.setattr(_decoding, "decode_some", refuse)
    again = decode_folder(folder, files_in(folder), FORM)
    assert torch.equal(again.images[:], decoded.images[:])
    assert again.unreadable == decoded.unreadable
    assert digest({"images": again.images}) == digest({"images": decoded.images})
    (kept,) = (empty_cache / "pictures").rglob("*.npy")
    assert kept.stat().st_size == 128 + 100 * FORM.nbytes


def test_the_digest_is_known_without_reading(folder, few_in_memory, empty_cache, monkeypatch):
    images = decode_folder(folder, files_in(folder), FORM).images
    monkeypatch.setattr("nescio.data._npy_rows.FileRows.read", refuse)
    first = digest({"images": images})
    assert first != digest({"images": images.select(torch.arange(98))})
    other = PictureForm(3, (16, 16), "pad")
    monkeypatch.undo()
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 1000)
    monkeypatch.setenv("NESCIO_CACHE", str(empty_cache))
    assert first != digest({"images": decode_folder(folder, files_in(folder), other).images})


def test_a_changed_folder_is_decoded_anew_and_the_former_cache_removed(folder, few_in_memory, empty_cache):
    decode_folder(folder, files_in(folder), FORM)
    decode_folder(folder, files_in(folder), PictureForm(1, (16, 16)))
    assert len(list(empty_cache.rglob("*.npy"))) == 2
    Image.new("RGB", (16, 16), (1, 2, 3)).save(folder / "cat" / "000.png")
    decoded = decode_folder(folder, files_in(folder), FORM)
    assert decoded.images[0][:, 0, 0].tolist() == [1, 2, 3]
    assert len(list(empty_cache.rglob("*.npy"))) == 1
    assert len(list(empty_cache.rglob("*.npy.json"))) == 1


def test_a_file_of_the_same_size_and_time_is_seen_to_be_another(folder, few_in_memory, empty_cache):
    path = folder / "cat" / "000.bmp"
    Image.new("RGB", (16, 16), (1, 2, 3)).save(path)
    files = [*files_in(folder), path.relative_to(folder)]
    state = path.stat()
    assert decode_folder(folder, files, FORM).images[-1][:, 0, 0].tolist() == [1, 2, 3]
    Image.new("RGB", (16, 16), (4, 5, 6)).save(path)
    os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert path.stat().st_size == state.st_size
    assert decode_folder(folder, files, FORM).images[-1][:, 0, 0].tolist() == [4, 5, 6]


def test_interrupted_it_goes_on(folder, few_in_memory, empty_cache, monkeypatch):
    monkeypatch.setattr(_decoding, "FEW", 1000)  # in this process
    monkeypatch.setattr(_decoding, "BLOCK_BYTES", 32 * FORM.nbytes)
    monkeypatch.setattr("nescio.data._row_writer.FLUSH_BYTES", 1)
    decoded = []
    real = _decoding.decode_some

    def interrupted(files, *form):
        if len(decoded) >= 70:
            raise KeyboardInterrupt
        decoded.extend(files)
        return real(files, *form)

    monkeypatch.setattr(_decoding, "decode_some", interrupted)
    with pytest.raises(KeyboardInterrupt):
        decode_folder(folder, files_in(folder), FORM)
    assert list(empty_cache.rglob("*.npy")) == []
    assert len(decoded) == 80
    decoded.clear()
    monkeypatch.setattr(
        _decoding, "decode_some", lambda files, *form: decoded.extend(files) or real(files, *form)
    )
    whole = decode_folder(folder, files_in(folder), FORM)
    assert [file.name for file in decoded] == [f"{index:03}.png" for index in range(64, 100)]
    assert torch.equal(whole.images[:], expected_of(folder))
    assert list(whole.unreadable) == [7]  # found before the interruption


def left_in(cache):
    return [path for path in cache.rglob("*") if path.is_file() and path.suffix in (".npy", ".part", ".json")]


def test_a_disk_without_room_means_decoding_each_time(folder, few_in_memory, empty_cache, monkeypatch):
    monkeypatch.setattr(_decoding, "free_bytes", lambda folder: 100)
    with pytest.warns(NescioWarning, match=r"no room on the disk: .*NESCIO_CACHE.* decoded anew each time"):
        decoded = decode_folder(folder, files_in(folder), FORM)
    assert [path.suffix for path in left_in(empty_cache)] == [".json"]  # which pictures are damaged
    assert isinstance(decoded.images, StoredArray)
    assert decoded.images.shape == (99, 3, 16, 16)
    expected = expected_of(folder)
    chosen = torch.tensor([98, 3, 7, 7])
    assert torch.equal(decoded.images[chosen], expected[chosen])
    assert torch.equal(decoded.images[:], expected)
    monkeypatch.setattr(_decoding, "decode_some", refuse)  # the damage is known the second time
    with pytest.warns(NescioWarning, match="no room"):
        again = decode_folder(folder, files_in(folder), FORM)
    assert digest({"images": again.images}) == digest({"images": decoded.images})


def test_a_picture_that_is_damaged_later(folder, few_in_memory, empty_cache, monkeypatch):
    monkeypatch.setattr(_decoding, "free_bytes", lambda folder: 100)
    with pytest.warns(NescioWarning, match="no room"):
        images = decode_folder(folder, files_in(folder), FORM).images
    (folder / "cat" / "002.png").unlink()
    with pytest.raises(DataError, match=r"cat.002\.png can't be read"):
        images[2]


def test_a_disk_that_fills_up_while_pictures_are_written(folder, empty_cache):
    """With a real limit of the system, in a process of its own."""
    code = f"""
        import resource, signal, sys, warnings
        from pathlib import Path
        from nescio.data import open_source, StoredArray
        from nescio.data import _decoding, _stored
        _stored.RESIDENT_BYTES = 1000
        _decoding.FEW = 1000
        _decoding.BLOCK_BYTES = 20_000
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            data = open_source({str(folder)!r}, size=16).labelled()
        assert any("no room on the disk" in str(one.message) for one in told), told
        assert isinstance(data.images, StoredArray)
        assert len(data.images[:]) == 99
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in left_in(empty_cache)] == [".json"]


def test_a_cache_that_can_not_be_written(folder, few_in_memory, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "file"))
    with pytest.raises(DataError, match=r"can't be written: .*NESCIO_CACHE"):
        decode_folder(folder, files_in(folder), FORM)


def test_a_cache_of_another_length_is_refused(folder, few_in_memory, empty_cache):
    decode_folder(folder, files_in(folder), FORM)
    (path,) = empty_cache.rglob("*.npy")
    StoredArray.write(path, torch.zeros(3, *FORM.shape, dtype=torch.uint8))
    with pytest.raises(DataError, match="holds 3 pictures, 100 were expected; remove it"):
        decode_folder(folder, files_in(folder), FORM)


def test_damage_that_was_not_kept_well_is_looked_for_again(folder, few_in_memory, empty_cache, monkeypatch):
    monkeypatch.setattr(_decoding, "free_bytes", lambda folder: 100)
    for _ in range(2):
        with pytest.warns(NescioWarning, match="no room"):
            assert list(decode_folder(folder, files_in(folder), FORM).unreadable) == [7]
        (path,) = empty_cache.rglob("*-checked.json")
        assert list(json.loads(path.read_text())) == ["7"]
        path.write_text("{")


def test_a_labelled_folder_has_the_same_images_wherever_they_are(folder, empty_cache, monkeypatch):
    data = []
    for resident in (10**9, 1000):
        monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
        with pytest.warns(NescioWarning, match="1 of 100 files can't be read"):
            data.append(open_source(folder, size=(8, 10), resize="pad").labelled())
    assert isinstance(data[1].images, StoredArray)
    assert torch.equal(data[0].images, data[1].images[:])
    assert torch.equal(data[0].labels, data[1].labels)
    assert data[0].labels.bincount().tolist() == [49, 50]
