"""Sixty awkward inputs and more give the same records by every way out: Python, the command line, HTTP."""

import asyncio
import csv
import io
import json
import struct
import sys
import zlib
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from PIL import Image
from tests.data.preprocess.words import WORDS
from tests.inference.small_texts import BagOfWordsSpec

from nescio.cli import app
from nescio.data import ImagePreprocess, RowPreprocess, TableSchema, TextPreprocess
from nescio.data._columns import CategoryColumn, DateColumn, NumberColumn
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.inference.model import TrainedModel
from nescio.inference.records import FIELDS, predict_records
from nescio.methods import EDL, Softmax
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

# What is read with a warning is read all the same.
pytestmark = [
    pytest.mark.filterwarnings("ignore:latin-1.(csv|txt) is not in UTF-8"),
    pytest.mark.filterwarnings("ignore:columns that the model was not trained with are ignored"),
    pytest.mark.filterwarnings("ignore:a text is longer than"),
]

NOISE = np.random.default_rng(0)
GREY = NOISE.integers(256, size=(20, 12), dtype=np.uint8)
COLOUR = NOISE.integers(256, size=(20, 12, 3), dtype=np.uint8)
ORIENTATION = 0x0112


def encoded(picture, form="PNG", **options):
    content = io.BytesIO()
    picture.save(content, form, **options)
    return content.getvalue()


def turned(orientation):
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return encoded(Image.fromarray(COLOUR), "JPEG", exif=exif)


def claiming(width, height):
    """A PNG whose header says so, and that holds next to nothing."""

    def chunk(kind, content):
        checksum = struct.pack(">I", zlib.crc32(kind + content))
        return struct.pack(">I", len(content)) + kind + content + checksum

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def animated(form):
    frames = [Image.fromarray(np.roll(GREY, shift, 0)) for shift in range(3)]
    return encoded(frames[0], form, save_all=True, append_images=frames[1:])


def wide(form):
    """16 bits a channel."""
    return encoded(Image.fromarray(GREY.astype(np.uint16) * 257), form)


def palette(**options):
    return encoded(Image.fromarray(COLOUR).quantize(16), **options)


def pictures():
    grey, colour = Image.fromarray(GREY), Image.fromarray(COLOUR)
    alpha = Image.fromarray(np.dstack([COLOUR, GREY]))
    good = encoded(grey)
    return {
        "grey.png": good,
        "grey.jpg": encoded(grey, "JPEG"),
        "grey.bmp": encoded(grey, "BMP"),
        "grey.webp": encoded(grey, "WEBP"),
        "colour.png": encoded(colour),
        "colour.jpeg": encoded(colour, "JPEG"),
        "UPPER.PNG": good,
        "name with spaces, and a comma.png": good,
        "Umlaut-ä-文.png": good,
        "bilevel.png": encoded(grey.convert("1")),
        "palette.png": palette(),
        "palette-transparent.png": palette(transparency=0),
        "rgba.png": encoded(alpha),
        "grey-alpha.png": encoded(alpha.convert("LA")),
        "sixteen-bits.png": wide("PNG"),
        "cmyk.jpg": encoded(colour.convert("CMYK"), "JPEG"),
        "turned-6.jpg": turned(6),
        "turned-3.jpg": turned(3),
        "turned-wrongly.jpg": turned(77),
        "animated.webp": animated("WEBP"),
        "animated.png": animated("PNG"),
        "one-pixel.png": encoded(Image.new("L", (1, 1), 200)),
        "very-wide.png": encoded(Image.new("L", (900, 1), 90)),
        "exact-size.png": encoded(Image.fromarray(NOISE.integers(256, size=(16, 16), dtype=np.uint8))),
        "png-named.jpg": good,
        "jpeg-named.png": encoded(colour, "JPEG"),
        "empty.png": b"",
        "text.png": b"this is a text",
        "cut.png": encoded(Image.fromarray(NOISE.integers(256, size=(64, 64), dtype=np.uint8)))[:-900],
        "cut.jpg": encoded(Image.fromarray(COLOUR), "JPEG")[:200],
        "too-large.png": claiming(60_000, 60_000),
        "a-gif.png": animated("GIF"),
        "no-suffix": good,
        "a-picture.txt": good,
        "notes.txt": b"a text",
    }


def packed(name, **arrays):
    content = io.BytesIO()
    if name.endswith(".npy"):
        np.save(content, next(iter(arrays.values())))
    else:
        np.savez(content, **arrays)
    return content.getvalue()


def image_arrays():
    images = NOISE.integers(256, size=(3, 16, 16), dtype=np.uint8)
    floats = images.astype(np.float64)
    odd = floats.copy()
    odd[0, 0, 0], odd[1, 0, 0], odd[2, 0, 0] = np.nan, 255.5, -1
    infinite = floats.copy()
    infinite[1, 0, 0] = np.inf
    arrays = {
        "bytes.npz": {"images": images},
        "with-labels.npz": {"images": images, "labels": [0, 1, 2]},
        "with-bad-labels.npz": {"images": images, "labels": [0]},
        "channels-first.npz": {"images": images[:, None]},
        "channels-last.npz": {"images": images[..., None]},
        "floats.npz": {"images": floats},
        "float16.npz": {"images": images.astype(np.float16)},
        "int64.npz": {"images": images.astype(np.int64)},
        "out-of-range.npz": {"images": odd},
        "infinite.npz": {"images": infinite},
        "other-size.npz": {"images": images[:, :8]},
        "bare.npy": {"images": images},
        "words.npz": {"images": np.array(["a", "b"])},
        "empty.npz": {"images": images[:0]},
        "nothing-of-use.npz": {"labels": [0, 1]},
    }
    files = {name: packed(name, **content) for name, content in arrays.items()}
    files["broken.npz"] = files["bytes.npz"][:-100]
    files["text.npy"] = b"a text"
    return files


TABLES = {
    "header.csv": "a,b,c\n1,2,3\n4,5,6\n",
    "no-header.csv": "1,2,3\n4,5,6\n",
    "with-labels.csv": "a,b,c,label\n1,2,3,cat\n4,5,6,dog\n",
    "labels-first.csv": "label,a,b,c\ncat,1,2,3\n",
    "no-header-with-labels.csv": "1,2,3,cat\n4,5,6,dog\n",
    "other-order.csv": "c,id,a,b\n3,7,1,2\n",
    "quotes.csv": '"a","b","c"\n"1","2"," 3 "\n',
    "semicolons.csv": "a;b;c\n1;2;3\n",
    "tabs.tsv": "a\tb\tc\n1\t2\t3\n",
    "decimal-commas.csv": "a;b;c\n1,5;2;3\n",
    "blank-lines.csv": "\n\na,b,c\n\n1,2,3\n , , \n4,5,6\n\n",
    "windows.csv": "\ufeffa,b,c\r\n1,2,3\r\n",
    "last-line-cut.csv": "a,b,c\n1,2,3\n4,5",
    "words-and-gaps.csv": "a,b,c\n1,two,3\n4,,6\n7,8,9\n",
    "not-finite.csv": "a,b,c\nnan,2,3\n1,inf,3\n1,2,1e39\n1,2,3\n",
    "too-wide.csv": "1,2,3,4,5\n",
    "other-names.csv": "x,y,z\n1,2,3\n",
    "header-only.csv": "a,b,c\n",
    "empty.csv": "",
    "latin-1.csv": "a,b,c,label\n1,2,3,Bär\n".encode("latin-1"),
}


def row_arrays():
    rows = NOISE.normal(size=(3, 3))
    huge = rows.copy()
    huge[1] = [3.4e38, -3.4e38, 3.4e38]
    arrays = {
        "rows.npz": {"features": rows},
        "integers.npz": {"features": np.arange(6).reshape(2, 3)},
        "huge.npz": {"features": huge},
        "beyond.npz": {"features": np.array([[1e39, 0, 0], [1, 2, 3]])},
        "wide.npz": {"features": np.zeros((2, 4))},
        "flat.npy": {"features": np.zeros(3)},
    }
    return {name: packed(name, **content) for name, content in arrays.items()}


def written(folder, files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def saved(path, spec, method):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = method.build(spec).eval()
        with torch.no_grad():
            for weights in module.parameters():
                weights.mul_(8)  # so that some inputs are answered and some are not
    size = spec.input_shape[0]
    is_image = len(spec.input_shape) == 3
    if isinstance(spec, BagOfWordsSpec):
        preprocess = TextPreprocess(WORDS, spec.max_length, column="question")
    elif size == FLOWERS.num_features:
        preprocess = RowPreprocess(spec.input_shape, (0.0,) * size, (1.0,) * size, FLOWERS)
    elif is_image:
        preprocess = ImagePreprocess(spec.input_shape, (0.0,) * size, (255.0,) * size, (0.0, 255.0))
    else:
        schema = TableSchema.of_numbers(("a", "b", "c"))
        preprocess = RowPreprocess(spec.input_shape, (0.0,) * size, (1.0,) * size, schema)
    TrainedModel(module, method, ("cat", "dog", "owl"), preprocess, spec).save(path)
    return path


FLOWERS = TableSchema(
    (
        NumberColumn("height", filled=5.0),
        CategoryColumn("colour", ("blue", "red"), has_gaps=True),
        DateColumn("picked", origin=19_723.0),
        NumberColumn("petals"),
    ),
    num_columns=4,
    ignored=("id",),
    label="kind",
)
NAMES = ["height", "colour", "picked", "petals"]


def flowers():
    """Tables with categories, dates and gaps, in every format."""
    rows = [
        {"height": 4.5, "colour": "red", "picked": "2024-05-01", "petals": 5},
        {"height": None, "colour": None, "picked": "2024-05-02 12:30", "petals": 6},
        {"height": 7, "colour": "green", "picked": "2024-05-03", "petals": 12345678901234567890},
        {"height": 7, "colour": True, "picked": "2024-05-03", "petals": None},
    ]
    table = pa.table({name: pa.array([str(row[name] or "") for row in rows]) for name in NAMES})
    as_parquet = io.BytesIO()
    pq.write_table(table, as_parquet)
    line = "red,3,2024-05-01,7"
    return {
        "all.jsonl": "\n".join(json.dumps(row) for row in rows),
        "all.parquet": as_parquet.getvalue(),
        "other-order.csv": f"colour,petals,picked,height\n{line}\n?,3,2024-05-01,NA\n",
        "unseen-category.csv": "colour,petals,picked,height\nviolet,3,2024-05-01,7\n",
        "new-column.csv": f"colour,petals,picked,height,smell\n{line},sweet\n",
        "known-columns.csv": f"colour,petals,picked,height,id,kind\n{line},x1,rose\n",
        "missing-column.csv": "colour,petals,picked\nred,3,2024-05-01\n",
        "gap-that-is-new.csv": "colour,petals,picked,height\nred,,2024-05-01,7\nred,3,,7\n",
        "no-date.csv": "colour,petals,picked,height\nred,3,yesterday,7\n",
        "no-header.csv": "7,red,2024-05-01,3\n,red,2024-05-01,3\n",
        "too-narrow.csv": "7,red,3\n",
        "quoted.csv": 'colour,petals,picked,height\n"red\nish",3,2024-05-01,7\n',
        "broken.jsonl": '{"height": 1}\nno JSON\n[1]\n{"height": [1]}\n',
        "empty.jsonl": "\n",
        "broken.parquet": b"PAR1",
        "utf-16.csv": f"colour,petals,picked,height\n{line}\n".encode("utf-16"),
    }


TEXTS = {
    "lines.txt": "hello you\n\n  bye \nsomething else entirely and far too long\n",
    "blank.txt": " \n\n",
    "latin-1.txt": "gr\u00fc\u00df dich\n".encode("latin-1"),
    "binary.txt": b"\0\1\2",
    "mark.txt": "\ufeffhello\n",
    "questions.csv": "number,question,intent\n1,hello you,greet\n2,,leave\n3,bye,leave\n",
    "one-column.csv": "words\nhello\nbye\n",
    "other-columns.csv": "a,b\nx,y\n",
    "questions.jsonl": '{"question": "hello"}\n{"question": null}\n{"question": 7}\n{"other": "x"}\n',
    "long.txt": "bye " * 100_000,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("awkward")
    written(folder / "pictures", pictures())
    written(folder / "images", image_arrays())
    written(folder / "tables", TABLES)
    written(folder / "rows", row_arrays())
    good = pictures()["grey.png"]
    written(
        folder / "folder",
        {"b.png": good, "deep/er/a.png": good, ".hidden.png": good, ".trash/c.png": good, "Thumbs.db": good}
        | {"bad.png": b"no picture", "notes.txt": b"a text", "table.csv": "1,2,3\n"},
    )
    saved(folder / "grey.safetensors", LeNetSpec(1, 16, 16, 3, filters=(4, 4), hidden=8), EDL())
    saved(folder / "colour.safetensors", LeNetSpec(3, 16, 16, 3, filters=(4, 4), hidden=8), Softmax())
    saved(folder / "rows.safetensors", MLPSpec(3, 3, hidden=(8,)), EDL())
    written(folder / "flowers", flowers())
    written(folder / "texts", TEXTS)
    saved(folder / "flowers.safetensors", MLPSpec(FLOWERS.num_features, 3, hidden=(8,)), EDL())
    saved(folder / "texts.safetensors", BagOfWordsSpec(), EDL())
    return folder


def files_of(home, *folders):
    """Paths as a user in this folder types them, in a fixed order."""
    found = []
    for folder in folders:
        found += sorted(path.relative_to(home).as_posix() for path in (home / folder).iterdir())
    return found


CASES = {
    "grey": ("pictures", "images", "tables"),
    "colour": ("pictures",),
    "rows": ("tables", "rows"),
    "flowers": ("flowers", "tables", "texts"),
    "texts": ("texts", "flowers"),
}


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["nescio", *(str(word) for word in words)])
    with pytest.raises(SystemExit) as ended:
        app.main()
    return ended.value.code, capsys.readouterr().out


def by_python(model, files, *_):
    return predict_records(TrainedModel.load(model), files)


def by_json(model, files, tmp_path, monkeypatch, capsys):
    code, out = command(monkeypatch, capsys, "predict", model, *files, "--json")
    assert code == 1
    return [json.loads(line) for line in out.splitlines()]


def by_csv(model, files, tmp_path, monkeypatch, capsys):
    code, out = command(monkeypatch, capsys, "predict", model, *files, "--csv")
    assert code == 1
    return from_csv(out)


def from_csv(text):
    """Back from text, by what each field is."""
    records = []
    for row in csv.DictReader(io.StringIO(text)):
        record = {name: cell or None for name, cell in row.items()}
        if record["error"] is None:
            record["accepted"] = record["accepted"] == "True"
            for name in ("probability", "uncertainty", "entropy"):
                record[name] = float(record[name])
            for name in ("probabilities", "belief"):
                record[name] = json.loads(record[name] or "null")
        records.append(record)
    return records


def by_file(suffix, read):
    def predict(model, files, tmp_path, monkeypatch, capsys):
        path = tmp_path / f"out{suffix}"
        code, _ = command(monkeypatch, capsys, "predict", model, *files, "--out", path)
        assert code == 1
        return read(path)

    return predict


def by_http(model, files, *_):
    """All files in one form, each under the name that a user types."""
    app = create_app({"asked": TrainedModel.load(model)}, Limits(batch_size=1024))
    sent = [("files", (file, Path(file).read_bytes())) for file in files]

    async def exchange():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/opinions", files=sent)

    response = asyncio.run(exchange())
    assert response.status_code == 200, response.text
    (result,) = response.json()["results"]
    return result["opinions"]


WAYS = {
    "HTTP": by_http,
    "--json": by_json,
    "--csv": by_csv,
    "--out .parquet": by_file(".parquet", lambda path: pq.read_table(path).to_pylist()),
    "--out .jsonl": by_file(
        ".jsonl", lambda path: [json.loads(line) for line in path.read_text().splitlines()]
    ),
    "--out .csv": by_file(".csv", lambda path: from_csv(path.read_text())),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("model", CASES)
def test_every_way_gives_the_same_records(home, tmp_path, monkeypatch, capsys, model, way):
    monkeypatch.chdir(home)
    files = files_of(home, *CASES[model])
    path = f"{model}.safetensors"
    expected = by_python(path, files)
    assert WAYS[way](path, files, tmp_path, monkeypatch, capsys) == expected
    assert all(list(record) == list(FIELDS) for record in expected)


def test_there_are_sixty_of_them(home):
    assert sum(len(files_of(home, folder)) for folder in ("pictures", "images", "tables", "rows")) >= 60


def errors_by_file(home, model, *folders):
    """For each file, which of its records have an error."""
    found = {}
    for record in by_python(
        home / f"{model}.safetensors", [home / file for file in files_of(home, *folders)]
    ):
        name = record["name"].removeprefix(f"{home}/").partition("/")[2]
        file = name.rpartition(":")[0] or name
        found.setdefault(file, []).append(record["error"])
    return found


BAD_PICTURES = {"empty.png", "text.png", "cut.png", "cut.jpg", "too-large.png", "a-gif.png", "notes.txt"}


@pytest.mark.parametrize("model", ["grey", "colour"])
def test_which_pictures_are_answered(home, model):
    errors = errors_by_file(home, model, "pictures")
    assert {name for name, found in errors.items() if found != [None]} == BAD_PICTURES
    for name in BAD_PICTURES:
        assert errors[name][0].startswith(name) or name == "notes.txt"  # which is a text


def test_which_arrays_of_images_are_answered(home):
    errors = errors_by_file(home, "grey", "images")
    bad = {name: found for name, found in errors.items() if set(found) != {None}}
    assert bad["out-of-range.npz"] == [
        "has a value that is not finite",
        *["has pixels that are not 0 to 255"] * 2,
    ]
    assert bad["infinite.npz"] == [None, "has a value that is not finite", None]
    assert bad["other-size.npz"] == ["must be 1 x 16 x 16 numbers, got 8 x 16"] * 3
    whole = {"words.npz", "empty.npz", "nothing-of-use.npz", "broken.npz", "text.npy"}
    assert bad.keys() == whole | {"out-of-range.npz", "infinite.npz", "other-size.npz"}
    assert all(bad[name][0].startswith(name) for name in whole)


def test_images_in_every_form_get_the_same_answer(home):
    names = ("bytes", "with-labels", "with-bad-labels", "channels-first", "channels-last", "floats")
    answers = [
        predict_records(TrainedModel.load(home / "grey.safetensors"), home / "images" / f"{name}.npz")
        for name in (*names, "float16", "int64")
    ]
    answers.append(
        predict_records(TrainedModel.load(home / "grey.safetensors"), home / "images" / "bare.npy")
    )
    for answer in answers:
        assert [record["probabilities"] for record in answer] == [one["probabilities"] for one in answers[0]]


ANSWERED = {
    "header.csv": [True, True],
    "no-header.csv": [True, True],
    "with-labels.csv": [True, True],
    "labels-first.csv": [True],
    "no-header-with-labels.csv": [True, True],
    "other-order.csv": [True],
    "quotes.csv": [True],
    "semicolons.csv": [True],
    "tabs.tsv": [True],
    "decimal-commas.csv": [False],
    "blank-lines.csv": [True, False, True],  # a row of gaps is a row, and has no answer
    "windows.csv": [True],
    "last-line-cut.csv": [True, False],
    "words-and-gaps.csv": [False, False, True],
    "not-finite.csv": [False, False, False, True],
    "too-wide.csv": [False],
    "other-names.csv": [False],
    "header-only.csv": [False],
    "empty.csv": [False],
    "latin-1.csv": [True],
    "rows.npz": [True] * 3,
    "integers.npz": [True] * 2,
    "huge.npz": [True, False, True],
    "beyond.npz": [False, True],
    "wide.npz": [False] * 2,
    "flat.npy": [False] * 3,
}


def test_which_rows_are_answered(home):
    errors = errors_by_file(home, "rows", "tables", "rows")
    assert {name: [error is None for error in found] for name, found in errors.items()} == ANSWERED


def test_the_same_row_in_every_table_gets_the_same_answer(home):
    model = TrainedModel.load(home / "rows.safetensors")
    expected = predict_records(model, torch.tensor([[1.0, 2, 3]]))[0]["probabilities"]
    for name in (
        "header",
        "labels-first",
        "no-header-with-labels",
        "other-order",
        "quotes",
        "semicolons",
        "windows",
    ):
        (first, *_) = predict_records(model, home / "tables" / f"{name}.csv")
        assert first["probabilities"] == pytest.approx(expected, rel=1e-5), name


def test_a_folder_leaves_out_what_is_hidden_or_not_named_as_a_picture(home, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(home)
    expected = by_python("grey.safetensors", ["folder"])
    assert [record["name"] for record in expected] == [
        "folder/b.png",
        "folder/bad.png",
        "folder/deep/er/a.png",
    ]
    assert [record["error"] is None for record in expected] == [True, False, True]
    for way, predict in WAYS.items():
        if way == "HTTP":
            continue  # which takes files, not folders
        assert predict("grey.safetensors", ["folder"], tmp_path, monkeypatch, capsys) == expected, way


ANSWERED_FLOWERS = {
    "all.jsonl": [True, True, True, False],
    "all.parquet": [True, True, True, False],
    "other-order.csv": [True, True],
    "unseen-category.csv": [True],
    "new-column.csv": [True],
    "known-columns.csv": [True],
    "missing-column.csv": [False],
    "gap-that-is-new.csv": [False, False],
    "no-date.csv": [False],
    "no-header.csv": [True, True],
    "too-narrow.csv": [False],
    "quoted.csv": [True],
    "broken.jsonl": [False] * 4,
    "empty.jsonl": [False],
    "broken.parquet": [False],
    "utf-16.csv": [True],
}
ANSWERED_TEXTS = {
    "lines.txt": [True] * 3,
    "blank.txt": [False],
    "latin-1.txt": [True],
    "binary.txt": [False],
    "mark.txt": [True],
    "questions.csv": [True, False, True],
    "one-column.csv": [True, True],
    "other-columns.csv": [False],
    "questions.jsonl": [True, False, True, False],
    "long.txt": [True],
}


@pytest.mark.parametrize("model", ["flowers", "texts"])
def test_which_flowers_and_texts_are_answered(home, model):
    errors = errors_by_file(home, model, model)
    expected = ANSWERED_FLOWERS if model == "flowers" else ANSWERED_TEXTS
    assert {name: [error is None for error in found] for name, found in errors.items()} == expected


def test_what_is_wrong_with_a_row_is_said(home):
    errors = errors_by_file(home, "flowers", "flowers")
    assert errors["missing-column.csv"] == ["missing-column.csv, line 2: the model needs the columns height"]
    assert errors["gap-that-is-new.csv"][0].startswith("gap-that-is-new.csv, line 2, column petals: a finite")
    assert errors["no-date.csv"][0].endswith("picked: a date expected, year-month-day, got 'yesterday'")
    assert errors["too-narrow.csv"] == ["too-narrow.csv, line 1: 4 columns expected, got 3 columns"]


def test_the_same_table_in_every_format_gets_the_same_answer(home):
    model = TrainedModel.load(home / "flowers.safetensors")
    lines = predict_records(model, home / "flowers" / "all.jsonl")
    table = predict_records(model, home / "flowers" / "all.parquet")
    assert [record["probabilities"] for record in lines] == [record["probabilities"] for record in table]


def test_texts_by_themselves(home, tmp_path, monkeypatch, capsys):
    """Strings where there is no file, by every way that takes them."""
    monkeypatch.chdir(home)
    texts = ["hello you", "", "bye", "what now?"]
    expected = by_python("texts.safetensors", texts)
    assert [record["name"] for record in expected] == ["hello you", "an empty text", "bye", "what now?"]
    assert [record["error"] for record in expected] == [None, "is an empty text", None, None]
    for way, predict in WAYS.items():
        if way != "HTTP":
            assert predict("texts.safetensors", texts, tmp_path, monkeypatch, capsys) == expected, way
    numbered = [record | {"name": str(number)} for number, record in enumerate(expected, start=1)]
    assert sent_as_json("texts.safetensors", texts) == numbered


def test_rows_as_objects(home, monkeypatch):
    """The rows of a file of JSON lines, each as an object in the body: the same answers and reasons."""
    monkeypatch.chdir(home)
    rows = [json.loads(line) for line in (home / "flowers" / "all.jsonl").read_text().splitlines()]
    del rows[0]["height"]
    rows.append(rows[1] | {"height": [1]})
    (home / "objects.jsonl").write_text("\n".join(json.dumps(row) for row in rows[1:]))
    expected = by_python("flowers.safetensors", ["objects.jsonl"])
    found = sent_as_json("flowers.safetensors", rows)
    assert found[0]["error"] == "input 1: the model needs the columns height"
    for number, (one, other) in enumerate(zip(found[1:], expected, strict=True), start=1):
        place = f"objects.jsonl, line {number}"
        if other["error"] is not None:
            other["error"] = other["error"].replace(place, f"input {number + 1}")
        assert one == other | {"name": str(number + 1)}


def sent_as_json(model, inputs):
    app = create_app({"asked": TrainedModel.load(model)})

    async def exchange():
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/opinions", json={"inputs": inputs})

    response = asyncio.run(exchange())
    assert response.status_code == 200, response.text
    (result,) = response.json()["results"]
    return result["opinions"]
