"""`nescio predict` in all of its forms."""

import csv
import io
import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_iris

from nescio.data import open_source
from nescio.inference.model import TrainedModel


def test_predict_rows_with_labels_or_without(run, flowers, rows_model, tmp_path):
    X = load_iris().data
    np.savez(tmp_path / "some.npz", features=X[:3])
    (tmp_path / "bare.csv").write_text("a,b,c,d\n" + ",".join(map(str, X[140])) + "\n")
    code, out, _ = run("predict", rows_model, flowers, tmp_path / "some.npz", tmp_path / "bare.csv", "--json")
    rows = {row["name"]: row for row in map(json.loads, out.splitlines())}
    assert code == 0
    assert len(rows) == 154
    expected = TrainedModel.load(rows_model).predict(torch.from_numpy(X))
    names = np.array(["setosa", "versicolor", "virginica"])[expected.labels.numpy()]
    assert [rows[f"{flowers}:{number}"]["best"] for number in range(1, 151)] == names.tolist()
    doubt = [rows[f"{flowers}:{number}"]["uncertainty"] for number in range(1, 151)]
    np.testing.assert_allclose(doubt, expected.uncertainty.numpy(), atol=1e-4)
    shares = [rows[f"{flowers}:{number}"]["probabilities"] for number in range(1, 151)]
    np.testing.assert_allclose(shares, expected.probabilities.numpy(), atol=1e-4)
    for place, same in (("some.npz:2", 2), ("bare.csv:1", 141)):
        found, known = rows[f"{tmp_path / place}"], rows[f"{flowers}:{same}"]
        assert found.pop("probabilities") == pytest.approx(known["probabilities"], abs=1e-6)
        assert (found["best"], found["answer"]) == (known["best"], known["answer"])


def test_predict_images_of_an_npz(run, model, photos, tmp_path):
    pictures = open_source(photos).labelled()
    np.savez(tmp_path / "p.npz", images=pictures.images[:2, 0].numpy())
    first = photos / pictures.classes[0] / "0.png"
    out = run("predict", model, tmp_path / "p.npz", first, "--json")[1]
    one, two, again = map(json.loads, out.splitlines())
    assert [one["name"], two["name"]] == [f"{tmp_path / 'p.npz'}:1", f"{tmp_path / 'p.npz'}:2"]
    assert one | {"name": ""} == again | {"name": ""}


def test_predict_in_three_forms(run, model, photos):
    code, out, _ = run("predict", model, photos / "one", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(rows) == 40
    assert sum(row["best"] == "one" for row in rows) > 35
    assert all(row["answer"] in ("one", "two", "zero", "I do not know") for row in rows)
    code, out, _ = run("predict", model, photos / "one" / "0.png", photos / "two" / "1.png", "--csv")
    table = list(csv.DictReader(io.StringIO(out)))
    assert [row["name"] for row in table] == [str(photos / "one" / "0.png"), str(photos / "two" / "1.png")]
    code, out, err = run("predict", model, photos / "zero" / "0.png")
    assert code == 0
    assert "uncertainty" in out
    assert err.startswith(f'{model} has no rule of its own yet: it says "I do not know" from an uncert')
    assert f"nescio threshold {model} --data held-out --max-error 0.05" in err


@pytest.mark.parametrize("form", ["folder", "files"])
def test_what_is_no_picture_has_an_error_and_the_rest_is_answered(run, model, photos, tmp_path, form):
    shutil.copytree(photos / "zero", tmp_path / "new")
    (tmp_path / "new" / "text.png").write_text("text")
    (tmp_path / "new" / ".hidden.png").write_text("text")
    files = [tmp_path / "new"]
    if form == "files":
        files = sorted(path for path in files[0].iterdir() if path.name[0] != ".")
    code, out, err = run("predict", model, *files, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, err, len(rows)) == (1, "", 41)
    assert [row["name"] for row in rows if row["error"]] == [str(tmp_path / "new" / "text.png")]
    assert rows[-1]["error"] == "text.png is not a PNG, JPEG, BMP or WebP picture"
    assert {key for key, value in rows[-1].items() if value is not None} == {"name", "error"}
    code, out, _ = run("predict", model, *files)
    assert code == 1
    assert "text.png is not a PNG, JPEG, BMP or WebP picture" in out
    for suffix in ("jsonl", "csv", "parquet"):
        code, out, _ = run("predict", model, *files, "--out", tmp_path / f"all.{suffix}")
        assert code == 1
        assert out == f"{tmp_path / 'all'}.{suffix}: 41 inputs, 1 of them without an answer (column error)\n"
    assert [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()] == rows


def test_a_piped_table_is_not_folded(run, model, photos, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    out = run("predict", model, photos / "zero")[1]
    assert sum(str(photos / "zero") in line for line in out.splitlines()) == 40


def test_models_side_by_side(run, model, photos):
    picture = photos / "one" / "0.png"
    code, out, _ = run("predict", f"a={model}", f"b={model.parent}", picture, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert (code, [row.pop("model") for row in rows]) == (0, ["a", "b"])
    assert rows[0] == rows[1]
    assert rows[0]["name"] == str(picture)
    code, out, _ = run("evaluate", f"a={model}", f"b={model.parent}", "--data", photos, "--json")
    results = json.loads(out)
    assert (code, list(results)) == (0, ["a", "b"])
    assert results["a"] == results["b"] == json.loads(run("evaluate", model, "--data", photos, "--json")[1])
    assert "  measure" in run("evaluate", f"a={model}", f"b={model}", "--data", photos)[1]
    code, _, err = run("evaluate", model, model, "--data", photos)
    assert code == 1
    assert "two models are named model: " in err
    code, _, err = run("predict", f"a={model}", f"b={model}", picture, "--out", "x.csv")
    assert (code, err) == (1, "error: --out takes one model; call it once for each\n")


def test_the_folder_of_a_run_stands_for_its_model(run, model, photos):
    picture = photos / "one" / "0.png"
    assert run("predict", model.parent, picture, "--json") == run("predict", model, picture, "--json")
    code, _, err = run("predict", photos, picture)
    assert (code, err) == (
        1,
        f"error: {photos} is a folder without a model.safetensors; a run has one once it has ended\n",
    )
    code, _, err = run("predict", model.parent / "checkpoint.safetensors", picture)
    assert code == 1
    assert "checkpoint.safetensors is the checkpoint of a training, not a model" in err


def test_score_says_what_it_is_called_now(run):
    code, out, err = run("score", "m.safetensors", "photos/", "--out", "x.parquet")
    assert (code, out) == (1, "")
    assert err == (
        "error: score is now a part of predict: nescio predict MODEL FILES... --out FILE.parquet\n"
    )


def test_noise_is_not_known_better_than_a_digit(run, model, photos, tmp_path):
    noise = torch.randint(256, (28, 28), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    Image.fromarray(noise.numpy()).save(tmp_path / "noise.png")
    rows = run("predict", model, tmp_path / "noise.png", photos / "zero" / "0.png", "--json")[1].splitlines()
    strange, familiar = (json.loads(row)["uncertainty"] for row in rows)
    assert strange > familiar


def test_where_nothing_can_be_answered_the_first_few_are_shown(run, rows_model, tmp_path):
    for number in range(8):
        (tmp_path / f"{number}.png").write_bytes(b"no picture")
    code, out, _ = run("predict", rows_model, *sorted(tmp_path.glob("*.png")))
    assert code == 1
    lines = out.splitlines()
    assert lines[0] == "none of the 8 inputs can be answered; the first 3:"
    assert len(lines) == 4
    assert lines[1].startswith(f"  {tmp_path / '0.png'}: ")
    code, out, _ = run("predict", rows_model, *sorted(tmp_path.glob("*.png")), "--json")
    assert code == 1
    assert len(out.splitlines()) == 8
