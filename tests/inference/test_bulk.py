"""Prediction to a file: the rows are what the model says, whatever stops or breaks on the way."""

import csv
import errno
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image

from nescio.cli import app
from nescio.data._pictures import read_picture
from nescio.data.preprocess import Preprocess, RowPreprocess
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import DataError, InputError
from nescio.inference import bulk
from nescio.inference.bulk import predict_to_file
from nescio.inference.model import TrainedModel
from nescio.inference.records import FIELDS, predict_records
from nescio.methods import EDL, Softmax

CLASSES = ("cat", "dog", "owl")


def saved(path, spec, method):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = method.build(spec).eval()
    channels = spec.input_shape[0]
    fields = {"input_shape": spec.input_shape, "mean": (0.0,) * channels, "scale": (64.0,) * channels}
    if channels == 1:
        fields["pixel_range"] = (0.0, 255.0)
    preprocess = Preprocess.from_dict(fields)
    TrainedModel(module, method, CLASSES, preprocess, spec).save(path)
    return path


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """37 pictures, two of them damaged, and what is no picture."""
    folder = tmp_path_factory.mktemp("pictures")
    noise = np.random.default_rng(0).integers(256, size=(37, 16, 16), dtype=np.uint8)
    for index, picture in enumerate(noise):
        path = folder / f"group{index % 3}" / f"{index:02d}.png"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(picture).save(path)
    (folder / "group0" / "00.png").write_bytes(b"no picture")
    cut = (folder / "group1" / "13.png").read_bytes()
    (folder / "group1" / "13.png").write_bytes(cut[:-60])
    (folder / "group1" / "notes.txt").write_text("passed over")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "x.png").write_bytes(b"passed over")
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    spec = LeNetSpec(1, 16, 16, num_classes=3, filters=(4, 4), hidden=8)
    return saved(tmp_path_factory.mktemp("model") / "m.safetensors", spec, EDL())


@pytest.fixture(scope="module")
def rows_model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("model") / "t.safetensors", MLPSpec(3, 3, hidden=(8,)), Softmax())


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(bulk, "CHUNK", 10)


def test_rows_are_what_the_model_says(model, pictures, tmp_path, small_chunks):
    seen = []
    outcome = predict_to_file(
        model, [pictures], tmp_path / "o.parquet", report=lambda *what: seen.append(what)
    )
    assert (outcome.inputs, outcome.errors) == (37, 2)
    assert seen == [(0, 37), (10, 37), (20, 37), (30, 37), (37, 37)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.parquet"]
    table = pq.read_table(tmp_path / "o.parquet")
    assert json.loads(table.schema.metadata[b"nescio"])["classes"] == list(CLASSES)
    rows = table.to_pylist()
    assert [row["name"] for row in rows] == sorted(str(path) for path in pictures.glob("group*/*.png"))
    good = [row for row in rows if row["error"] is None]
    trained = TrainedModel.load(model)
    images = torch.stack([read_picture(pictures / row["name"], 1, (16, 16)) for row in good])
    prediction = trained.predict(images)
    accepted = trained.accepts(prediction).tolist()
    assert [row["uncertainty"] for row in good] == pytest.approx(prediction.uncertainty.tolist())
    assert [row["accepted"] for row in good] == accepted
    np.testing.assert_allclose([row["probabilities"] for row in good], prediction.probabilities, rtol=1e-5)
    np.testing.assert_allclose([row["belief"] for row in good], prediction.belief, rtol=1e-5)
    for row, label, known in zip(good, prediction.labels.tolist(), accepted, strict=True):
        assert row["best"] == CLASSES[label]
        assert row["answer"] == (CLASSES[label] if known else "I do not know")
    bad = {row["name"]: row for row in rows if row["error"] is not None}
    assert set(bad) == {str(pictures / "group0" / "00.png"), str(pictures / "group1" / "13.png")}
    assert "is not a PNG" in bad[str(pictures / "group0" / "00.png")]["error"]
    assert bad[str(pictures / "group1" / "13.png")]["answer"] is None


def test_stopped_it_goes_on_and_the_rows_are_the_same(model, pictures, tmp_path, small_chunks):
    predict_to_file(model, [pictures], tmp_path / "whole.parquet")

    def stop(done, _):
        if done >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_to_file(model, [pictures], tmp_path / "o.parquet", report=stop)
    assert not (tmp_path / "o.parquet").exists()
    kept = sorted((tmp_path / "o.parquet.parts").glob("*.parquet"))
    assert len(kept) == 2
    times = [path.stat().st_mtime_ns for path in kept]
    seen = []

    def watch(done, total):
        seen.append((done, total))
        if done == 20:
            assert [path.stat().st_mtime_ns for path in kept] == times

    predict_to_file(model, [pictures], tmp_path / "o.parquet", report=watch)
    assert seen[0] == (20, 37)
    assert pq.read_table(tmp_path / "o.parquet").equals(pq.read_table(tmp_path / "whole.parquet"))
    assert not (tmp_path / "o.parquet.parts").exists()


def test_parts_of_another_scoring_are_refused(model, pictures, rows_model, tmp_path, small_chunks):
    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_to_file(model, [pictures], tmp_path / "o.parquet", report=stop)
    np.savez(tmp_path / "x.npz", features=np.zeros((4, 3)))
    with pytest.raises(DataError, match="holds parts of another prediction"):
        predict_to_file(rows_model, [tmp_path / "x.npz"], tmp_path / "o.parquet")
    (tmp_path / "o.parquet.parts" / "settings.json").write_text("{")
    with pytest.raises(DataError, match=r"settings.json is damaged; remove"):
        predict_to_file(model, [pictures], tmp_path / "o.parquet")


def test_arrays(model, rows_model, tmp_path):
    images = np.random.default_rng(1).integers(256, size=(5, 16, 16), dtype=np.uint8)
    expected = TrainedModel.load(model).predict(torch.from_numpy(images)[:, None]).uncertainty.tolist()
    for name, array in {"a": images, "b": images[:, None], "c": images[..., None]}.items():
        np.savez(tmp_path / f"{name}.npz", images=array, labels=np.zeros(5))
        predict_to_file(model, [tmp_path / f"{name}.npz"], tmp_path / "o.parquet")
        table = pq.read_table(tmp_path / "o.parquet")
        place = tmp_path / f"{name}.npz"
        assert table["name"].to_pylist() == [f"{place}:{number}" for number in range(1, 6)]
        assert table["uncertainty"].to_pylist() == pytest.approx(expected)
    features = np.array([[1.0, 2, 3], [np.inf, 0, 0], [4, 5, 6]])
    np.savez(tmp_path / "f.npz", anything=features)
    assert predict_to_file(rows_model, [tmp_path / "f.npz"], tmp_path / "o.parquet").errors == 1
    table = pq.read_table(tmp_path / "o.parquet")
    assert table["error"].to_pylist() == [None, "has a value that is not finite", None]
    assert table["belief"].to_pylist() == [None] * 3


@pytest.mark.parametrize("method", [EDL(), Softmax()])
def test_rows_that_a_network_can_not_take_cost_the_others_nothing(tmp_path, method):
    path = saved(tmp_path / "m.safetensors", MLPSpec(3, 3, hidden=(8,)), method)
    rows = np.random.default_rng(3).normal(size=(9, 3)).astype(np.float32)
    huge = rows.copy()
    huge[[2, 7]] = [3.4e38, -3.4e38, 3.4e38]
    huge[7] *= -1
    np.savez(tmp_path / "x.npz", features=huge)
    # The weights that a network starts from are small; these are not.
    model = TrainedModel.load(path)
    with torch.no_grad():
        for weights in model.module.parameters():
            weights.mul_(100)
    model.save(path)
    assert predict_to_file(path, [tmp_path / "x.npz"], tmp_path / "o.parquet").errors == 2
    table = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [row["error"] is not None for row in table] == [index in (2, 7) for index in range(9)]
    assert table[2] == dict.fromkeys(table[2]) | {
        "name": f"{tmp_path / 'x.npz'}:3",
        "error": "has values that are too large for the network",
    }
    expected = model.predict(torch.from_numpy(rows)).probabilities
    for index in (0, 1, 3, 4, 5, 6, 8):
        assert table[index]["probabilities"] == pytest.approx(expected[index].tolist(), rel=1e-4)


def test_pixels_have_a_range(model, tmp_path):
    images = np.zeros((4, 16, 16))
    images[1, 2, 3], images[2, 2, 3], images[3, 2, 3] = -5000, 255.5, np.nan
    np.savez(tmp_path / "x.npz", images=images)
    assert predict_to_file(model, [tmp_path / "x.npz"], tmp_path / "o.parquet").errors == 3
    table = pq.read_table(tmp_path / "o.parquet")
    assert table["error"].to_pylist() == [
        None,
        "has pixels that are not 0 to 255",
        "has pixels that are not 0 to 255",
        "has a value that is not finite",
    ]


@pytest.mark.parametrize("header", ["a,b,c", "a,b,c,d", "Label,a,b,c"])
def test_tables_with_and_without_a_label(rows_model, tmp_path, header):
    rows = {"a,b,c": "1,2,3", "a,b,c,d": "1,2,3,cat", "Label,a,b,c": "cat,1,2,3"}
    lines = [header, rows[header], "", rows[header].replace("2", "two"), "1"]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    outcome = predict_to_file(rows_model, [tmp_path / "t.csv"], tmp_path / "o.parquet")
    assert (outcome.inputs, outcome.errors) == (3, 2)
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    expected = TrainedModel.load(rows_model).predict(torch.tensor([[1.0, 2, 3]]))
    assert rows[0]["probabilities"] == pytest.approx(expected.probabilities[0].tolist())
    assert rows[1]["error"].startswith("t.csv, line 4, column ")
    assert rows[1]["error"].endswith(": a finite number expected that float32 can hold, got 'two'")
    assert rows[2]["error"].startswith("t.csv, line 5: ")


def test_what_can_not_be_read_at_all_is_a_row_with_an_error(model, rows_model, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.txt").write_text("x")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    (tmp_path / "none.csv").write_text("a,b,c\n")
    (tmp_path / "bad.npz").write_bytes(b"x")
    np.savez(tmp_path / "two.npz", a=np.zeros(3), b=np.zeros(3))
    np.savez(tmp_path / "words.npz", images=np.array(["a"]))
    np.savez(tmp_path / "small.npz", images=np.zeros((2, 8, 8)))
    cases = [
        (model, "empty", "holds nothing to read"),
        (model, "x.txt", "the model takes pictures 1 x 16 x 16, not texts"),
        (model, "x.csv", "the model takes pictures"),
        (rows_model, "x.csv", "3 columns expected, got 2"),
        (rows_model, "none.csv", "has a header and no rows"),
        (rows_model, "x.txt", "the model takes rows of 3 numbers"),
        (model, "bad.npz", "is not an .npz file"),
        (model, "two.npz", "must hold images or features, got a, b"),
        (model, "words.npz", "inputs must be numbers"),
        (model, "small.npz", "must be 1 x 16 x 16 numbers, got 8 x 8"),
    ]
    for which, name, words in cases:
        outcome = predict_to_file(which, [tmp_path / name], tmp_path / "o.parquet")
        assert outcome.inputs == outcome.errors
        assert all(words in error for error in pq.read_table(tmp_path / "o.parquet")["error"].to_pylist())


def test_arguments_that_do_not_fit(model, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    (tmp_path / "x.csv").write_text("1,2,3\n")
    with pytest.raises(InputError, match="--out must name a file"):
        predict_to_file(model, [tmp_path / "x.csv"], tmp_path / "folder.csv")
    with pytest.raises(InputError, match=r"--out must end in \.parquet, \.csv, \.jsonl, got o\.txt"):
        predict_to_file(model, [tmp_path / "x.csv"], tmp_path / "o.txt")
    with pytest.raises(InputError, match="on must be one of here, ray"):
        predict_to_file(model, [tmp_path / "x.csv"], tmp_path / "o.csv", on="moon")
    with pytest.raises(InputError, match=r"--out must name another file, .*x\.csv is what is read"):
        predict_to_file(model, [tmp_path / "x.csv"], tmp_path / "folder.csv" / ".." / "x.csv")
    with pytest.raises(InputError, match="there is no file or folder"):
        predict_to_file(model, ["no\0file"], tmp_path / "o.csv")
    with pytest.raises(InputError, match="there is no file or folder"):
        predict_to_file(model, [tmp_path / "missing"], tmp_path / "o.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.csv", "x.csv"]
    assert (tmp_path / "x.csv").read_text() == "1,2,3\n"


def test_all_forms_hold_the_same(model, pictures, tmp_path, small_chunks):
    outcomes = [
        predict_to_file(model, [pictures], tmp_path / f"o.{suffix}") for suffix in ("parquet", "csv", "jsonl")
    ]
    assert {(outcome.inputs, outcome.errors) for outcome in outcomes} == {(37, 2)}
    expected = predict_records(TrainedModel.load(model), pictures)
    rows = pq.read_table(tmp_path / "o.parquet").to_pylist()
    assert [list(row) for row in rows] == [list(FIELDS)] * 37
    lines = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
    with (tmp_path / "o.csv").open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert len(cells) == 37
    for row, line, cell, record in zip(rows, lines, cells, expected, strict=True):
        assert row == line
        assert line["name"] == record["name"] == cell["name"]
        assert line["error"] == record["error"] == (cell["error"] or None)
        if record["error"] is None:
            assert line["probabilities"] == pytest.approx(record["probabilities"], rel=1e-5)
            assert json.loads(cell["probabilities"]) == line["probabilities"]
            assert float(cell["uncertainty"]) == line["uncertainty"]


def test_the_command(model, pictures, tmp_path, monkeypatch, capsys):
    words = ["nescio", "predict", str(model), str(pictures), "--out", str(tmp_path / "o.parquet")]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit) as ended:
        app.main()
    assert ended.value.code == 1
    assert capsys.readouterr().out == (
        f"{tmp_path / 'o.parquet'}: 37 inputs, 2 of them without an answer (column error)\n"
    )


def test_ray_writes_the_same_rows(model, tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")  # never the cluster that another test has on this machine
    images = np.random.default_rng(2).integers(256, size=(2500, 16, 16), dtype=np.uint8)
    np.savez(tmp_path / "many.npz", images=images)
    predict_to_file(model, [tmp_path / "many.npz"], tmp_path / "here.parquet")
    start = [sys.executable, "-c", "from nescio.cli.app import main; main()", "predict", model]
    words = [*start, tmp_path / "many.npz", "--out", tmp_path / "ray.parquet", "--on", "ray"]
    ended = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == f"{tmp_path / 'ray'}.parquet: 2,500 inputs\n"
    here, ray = (pq.read_table(tmp_path / f"{name}.parquet") for name in ("here", "ray"))
    assert here.equals(ray)
    assert len(here) == 2500


def test_a_folder_of_somebody_else_is_refused_and_left_alone(rows_model, tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n")
    foreign = tmp_path / "o.jsonl.parts" / "thesis.txt"
    foreign.parent.mkdir()
    foreign.write_text("years of work")
    with pytest.raises(DataError, match=r"o.jsonl.parts holds files that are no parts .* move it away"):
        predict_to_file(rows_model, [tmp_path / "x.csv"], tmp_path / "o.jsonl")
    assert foreign.read_text() == "years of work"


def test_only_what_was_written_is_removed(rows_model, tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n")
    parts = tmp_path / "o.jsonl.parts"
    parts.mkdir()
    killed = "0123456789abcdef" * 2
    (parts / f".settings.json-{killed}").write_text("of a process that was killed")

    def add(*_):
        (parts / "thesis.txt").write_text("years of work")

    predict_to_file(rows_model, [tmp_path / "x.csv"], tmp_path / "o.jsonl", report=add)
    assert [path.name for path in parts.iterdir()] == ["thesis.txt"]
    assert (tmp_path / "o.jsonl").exists()


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_names_that_are_no_utf8(model, tmp_path, ending):
    folder = tmp_path / "pictures"
    folder.mkdir()
    strange = folder / os.fsdecode(b"caf\xe9.png")
    try:
        strange.write_bytes(b"no picture")
    except OSError:
        pytest.skip("this disk takes no such name")
    Image.new("L", (16, 16)).save(folder / "plain.png")
    out = tmp_path / f"o.{ending}"
    assert predict_to_file(model, [folder, strange], out) == bulk.Outcome(inputs=3, errors=2)
    content = str(pq.read_table(out).to_pylist()) if ending == "parquet" else out.read_text("utf-8")
    assert "caf" in content
    assert "plain.png" in content


def stopped_after_a_part(model, places, out):
    def stop(done, _):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        predict_to_file(model, places, out, report=stop)


def test_what_differs_from_the_parts_is_said(model, pictures, tmp_path, small_chunks):
    stopped_after_a_part(model, [pictures], tmp_path / "o.jsonl")
    spec = LeNetSpec(1, 16, 16, num_classes=3, filters=(4, 4), hidden=4)
    other = saved(tmp_path / "other.safetensors", spec, EDL())
    with pytest.raises(DataError, match=r"another prediction \(not the same: model\); remove it"):
        predict_to_file(other, [pictures], tmp_path / "o.jsonl")


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
def test_a_damaged_part_is_said(model, pictures, tmp_path, small_chunks, ending):
    out = tmp_path / f"o.{ending}"
    stopped_after_a_part(model, [pictures], out)
    first = next((tmp_path / f"o.{ending}.parts").glob(f"*-00000000.{ending}"))
    first.write_bytes(b"\xff\xfe{")
    with pytest.raises(DataError, match=r"parts can't be put together: .*; remove it to start anew"):
        predict_to_file(model, [pictures], out)


class KilledError(BaseException):
    """Stands for a kill: nothing catches it on purpose."""


@pytest.mark.parametrize("removed", range(5))
def test_stopped_while_it_removes_its_parts_no_other_model_takes_them(
    model, pictures, tmp_path, small_chunks, monkeypatch, removed
):
    spec = LeNetSpec(1, 16, 16, num_classes=3, filters=(4, 4), hidden=9)
    other = saved(tmp_path / "other.safetensors", spec, EDL())
    predict_to_file(other, [pictures], tmp_path / "expected.csv")
    out = tmp_path / "o.csv"
    left = [removed]
    remove = Path.unlink

    def killed(path, missing_ok=False):
        if path.parent.name == "o.csv.parts" and path.exists():
            if left[0] == 0:
                raise KilledError
            left[0] -= 1
        remove(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KilledError):
            predict_to_file(model, [pictures], out)
    if removed == 0:  # it can still go on, so its parts are not another's to remove
        with pytest.raises(DataError, match="holds parts of another prediction"):
            predict_to_file(other, [pictures], out)
        predict_to_file(model, [pictures], out)
    predict_to_file(other, [pictures], out)
    assert out.read_bytes() == (tmp_path / "expected.csv").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["expected.csv", "o.csv", "other.safetensors"]


def test_a_full_disk_names_the_file_and_keeps_what_is_finished(
    model, pictures, tmp_path, small_chunks, monkeypatch
):
    out = tmp_path / "o.jsonl"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(bulk, "move_atomically", full)
        with pytest.raises(DataError, match=r"o.jsonl can't be written: No space .* what is finished stays"):
            predict_to_file(model, [pictures], out)
    parts = sorted(path.name for path in (tmp_path / "o.jsonl.parts").iterdir())
    assert len(parts) == 5  # four parts and the settings; the whole took room, and is gone
    seen = []
    predict_to_file(model, [pictures], out, report=lambda *what: seen.append(what))
    assert seen == [(37, 37)]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="needs a folder that takes no files")
def test_a_folder_that_takes_no_files_is_not_waited_for(rows_model, tmp_path):
    def waits(line):
        raise AssertionError(line)  # else it would wait forever

    (tmp_path / "x.csv").write_text("1,2,3\n")
    with pytest.raises(DataError, match=r"/proc/o.csv can't be written: No such file or directory"):
        predict_to_file(rows_model, [tmp_path / "x.csv"], "/proc/o.csv", on_wait=waits)


def test_a_read_only_file_is_refused_before_the_work(rows_model, tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n")
    (tmp_path / "o.csv").write_text("precious")
    (tmp_path / "o.csv").chmod(0o444)
    with pytest.raises(DataError, match=r"o.csv can't be written: it is read-only"):
        predict_to_file(rows_model, [tmp_path / "x.csv"], tmp_path / "o.csv")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "x.csv"]


def test_two_at_once_write_one_after_the_other(rows_model, tmp_path):
    (tmp_path / "x.csv").write_text("1,2,3\n4,5,6\n")
    code = """
import sys
from nescio.inference.bulk import predict_to_file
def report(done, total):
    if done == 0:
        print("began", flush=True)
        sys.stdin.readline()
predict_to_file(sys.argv[1], [sys.argv[2]], sys.argv[3], report=report)
"""
    out = tmp_path / "o.csv"
    other = subprocess.Popen(
        [sys.executable, "-c", code, rows_model, tmp_path / "x.csv", out],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout.readline() == "began\n"
    said = []

    def let_go(line):
        said.append(line)
        assert not out.exists()
        other.communicate("\n")

    outcome = predict_to_file(rows_model, [tmp_path / "x.csv"], out, on_wait=let_go)
    assert other.returncode == 0
    assert said == [f"process {other.pid} on {platform.node()} is writing {out}; waiting"]
    assert outcome.inputs == 2
    assert len(out.read_text().splitlines()) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["o.csv", "x.csv"]


def test_the_whole_file_is_on_the_disk_before_it_has_its_name(rows_model, tmp_path, monkeypatch):
    (tmp_path / "x.csv").write_text("1,2,3\n")
    flushed = set()
    flush = os.fsync

    def noted(number):
        flushed.add(os.fstat(number).st_ino)
        flush(number)

    monkeypatch.setattr(os, "fsync", noted)
    predict_to_file(rows_model, [tmp_path / "x.csv"], tmp_path / "o.csv")
    assert (tmp_path / "o.csv").stat().st_ino in flushed


def test_a_cell_with_the_probabilities_of_thousands_of_classes(tmp_path):
    spec = MLPSpec(2, 7000, hidden=(2,))
    module = Softmax().build(spec).eval()
    preprocess = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2)
    classes = tuple(map(str, range(7000)))
    TrainedModel(module, Softmax(), classes, preprocess, spec).save(tmp_path / "m.safetensors")
    (tmp_path / "rows.csv").write_text("1,2\n3,4\n")
    outcome = predict_to_file(tmp_path / "m.safetensors", [tmp_path / "rows.csv"], tmp_path / "out.csv")
    assert (outcome.inputs, outcome.errors) == (2, 0)
    assert len((tmp_path / "out.csv").read_text().splitlines()) == 3
