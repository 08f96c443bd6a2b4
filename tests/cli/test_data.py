"""Data sets from the command line."""

import errno
import hashlib
import sys

import numpy as np
import pytest
from PIL import Image

from nescio._fetch.files import File
from nescio._fetch.weights import WEIGHTS, Weights
from nescio.cli import app
from nescio.data._catalog import ENTRIES, GENERATED


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["nescio", *words])
        monkeypatch.setattr("warnings.showwarning", None)
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def rows(listed):
    """name -> the rest of its line."""
    return {line.split()[0]: line.partition(" ")[2].strip() for line in listed.splitlines() if line.strip()}


def test_data_list_tells_where_each_set_is(run, empty_cache, tmp_path, monkeypatch):
    (tmp_path / "notMNIST_small.tar.gz").touch()
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path))
    code, out, _ = run("data", "list")
    assert code == 0
    listed = rows(out)
    assert listed["digits"].split()[:5] == ["images", "comes", "installed", "4", "MB"]
    assert " ".join(listed["mnist"].split()[:3]) == "images to fetch"
    assert " ".join(listed["notmnist"].split()[:3]) == "images in NESCIO_DATA"
    assert " ".join(listed["cifar5"].split()[:3]) == "images needs cifar10"
    assert listed["letters"].split()[:2] == ["images", "generated"]
    assert listed["minilm"].split()[:3] == ["weights", "to", "fetch"]
    assert listed["clinc150"].split()[0] == listed["clinc150-oos"].split()[0] == "texts"
    assert listed["letter"].split()[0] == "rows"
    assert run("data", "fetch", "digits")[0] == 0
    assert rows(run("data", "list")[1])["digits"].split()[1] == "here"


def test_data_list_fits_80_columns(run, empty_cache, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    table = run("data", "list")[1].splitlines()[:-1]
    assert len(table) == 1 + len(ENTRIES) + len(GENERATED) + len(WEIGHTS)
    assert max(map(len, table)) <= 80


def test_data_fetch_counts_what_it_brought(run, session_cache):
    code, out, _ = run("data", "fetch", "digits")
    assert (code, out) == (0, f"digits: 5,000 images, verified, in {session_cache / 'digits'}\n")


def test_data_fetch_brings_weights_too(run, empty_cache, tmp_path, monkeypatch):
    content = b"weights"
    file = File("made.pth", hashlib.sha256(content).hexdigest(), len(content))
    made = Weights("made", "made here", "MIT", (file,), ())
    monkeypatch.setattr("nescio._fetch.weights.WEIGHTS", {"made": made})
    (tmp_path / "made.pth").write_bytes(content)
    code, out, _ = run("data", "fetch", "made", "--data-dir", str(tmp_path))
    assert (code, out) == (0, f"made: weights, verified, in {empty_cache / 'made'}\n")
    assert (empty_cache / "made" / "made.pth").read_bytes() == content


def test_data_fetch_verifies_what_is_here(run, empty_cache):
    run("data", "fetch", "digits")
    labels = empty_cache / "digits" / "t10k-labels-idx1-ubyte"
    labels.write_bytes(bytes(labels.stat().st_size))
    code, out, err = run("data", "fetch", "digits")
    assert code == 0
    assert err.startswith(f"warning: {labels} is damaged; it is fetched anew\n")
    assert out.startswith("digits: 5,000 images, verified")
    assert run("data", "fetch", "digits")[2] == ""


def test_data_fetch_from_a_folder_that_is_not_there(run, tmp_path):
    code, _, err = run("data", "fetch", "digits", "--data-dir", str(tmp_path / "nowhere"))
    assert (code, len(err.splitlines())) == (1, 1)
    assert "there is no folder" in err


def test_data_fetch_of_what_is_made(run):
    code, _, err = run("data", "fetch", "letters")
    assert code == 1
    assert "can't fetch letters; to fetch: digits" in err


def test_data_show_writes_a_png(run, tmp_path):
    code, out, _ = run("data", "show", "digits", "--out", str(tmp_path / "new" / "d.png"), "--split", "test")
    assert code == 0
    assert "1000 images" in out
    assert np.asarray(Image.open(tmp_path / "new" / "d.png")).shape[2] == 3


@pytest.fixture
def photos(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "photos" / name / "0.png")
    return tmp_path / "photos"


def test_data_show_of_a_folder_warns_in_one_line(run, photos, tmp_path):
    (photos / "a" / "1.png").write_text("text")
    code, _, err = run("data", "show", str(photos), "--out", str(tmp_path / "sheet.png"))
    assert code == 0
    assert err.startswith("warning: 1 of 3 files")
    code, _, err = run("data", "show", str(photos), "--strict")
    assert code == 1
    assert err.startswith("error: 1 of 3 files")


def test_data_show_of_the_current_folder(run, photos, monkeypatch):
    monkeypatch.chdir(photos)
    assert run("data", "show", ".")[:2] == (
        0,
        "Dataset('photos', 2 images 1x8x8, 2 classes): samples in photos.png\n",
    )
    assert (photos / "photos.png").is_file()
    assert run("data", "show", ".")[0] == 0  # over its own


def test_data_show_writes_over_no_other_picture(run, photos, monkeypatch):
    monkeypatch.chdir(photos)
    for content in (b"precious", (photos / "a" / "0.png").read_bytes()):
        (photos / "photos.png").write_bytes(content)
        code, _, err = run("data", "show", ".")
        assert code == 1
        assert err == "error: there is another photos.png here already; --out names the file to write\n"
        assert (photos / "photos.png").read_bytes() == content
    assert run("data", "show", ".", "--out", "photos.png")[0] == 0


def test_a_name_of_the_catalog_wins_over_a_folder(run, photos, tmp_path, monkeypatch):
    photos.rename(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert "Dataset('digits', 4000 images" in run("data", "show", "digits")[1]
    assert "Dataset('digits', 2 images" in run("data", "show", "./digits")[1]


def test_data_show_of_files(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("d.npz", images=np.zeros((2, 8, 8), np.uint8), labels=[0, 1])
    assert run("data", "show", "d.npz")[0] == 0
    assert (tmp_path / "d.png").is_file()
    (tmp_path / "t.csv").write_text("x,label\n1,a\n2,b\n")
    code, _, err = run("data", "show", "t.csv")
    assert (code, err) == (1, "error: a contact sheet needs images, got Table('t', 2 rows x 1, 2 classes)\n")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["digits", "--strict"], "--strict goes with a folder of pictures"),
        (["photos", "--split", "test"], "photos has no folder test of class folders"),
        (["photos", "--data-dir", "."], "--data-dir goes with a data set of the catalog"),
    ],
)
def test_data_show_refuses_what_would_be_ignored(run, photos, monkeypatch, words, reason):
    monkeypatch.chdir(photos.parent)
    code, _, err = run("data", "show", *words)
    assert (code, len(err.splitlines())) == (1, 1)
    assert reason in err


@pytest.mark.parametrize("out", ["x.xyz", "x", ".", "folder.png"])
def test_data_show_writes_nothing_but_png(run, tmp_path, monkeypatch, out):
    (tmp_path / "folder.png").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("nescio.data.load", None)  # not even asked
    code, _, err = run("data", "show", "digits", "--out", out)
    assert (code, err) == (1, f"error: --out must name a .png file, got {out}\n")


def test_a_full_disk_leaves_no_half_picture(run, photos, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.chdir(photos.parent)
    monkeypatch.setattr("os.fsync", full)
    code, _, err = run("data", "show", "photos")
    assert (code, err) == (1, "error: photos.png can't be written: No space left on device\n")
    assert [path.name for path in photos.parent.iterdir()] == ["photos"]


def test_a_picture_below_a_file(run, photos):
    (photos.parent / "file").touch()
    code, _, err = run("data", "show", str(photos), "--out", str(photos.parent / "file" / "x.png"))
    assert code == 1
    assert "file/x.png can't be written" in err
