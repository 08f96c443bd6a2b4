"""`nescio export`."""

import logging

import numpy as np
import pytest
import torch
from tests.data.preprocess.words import WORDS

from nescio.cli._export import inputs_in_words
from nescio.data import ImagePreprocess, Row, RowPreprocess, TableSchema, TextPreprocess
from nescio.data._columns import CategoryColumn, DateColumn, NumberColumn
from nescio.inference.model import TrainedModel


@pytest.mark.filterwarnings("ignore")
def test_export_says_what_it_wrote_and_nothing_else(run, model, tmp_path, caplog):
    onnx, program = tmp_path / "m.onnx", tmp_path / "m.pt2"
    code, out, err = run("export", model, "--onnx", onnx, "--program", program)
    takes = "inputs: float32 (batch, 1, 28, 28), pixels from 0 to 255, channels before height and width"
    assert (code, out, err) == (0, f"{onnx}: written\n{program}: written\n{takes}\n", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert min(onnx.stat().st_size, program.stat().st_size) > 1000


@pytest.mark.parametrize(("option", "ending"), [("--onnx", ".onnx"), ("--program", ".pt2")])
def test_no_file_of_another_kind_is_overwritten(run, model, tmp_path, option, ending):
    rows = tmp_path / "rows.csv"
    rows.write_text("1,2\n")
    code, _, err = run("export", model, option, rows)
    assert code != 0
    assert f"{option} must name a file that ends in {ending}, got {rows}" in err
    assert rows.read_text() == "1,2\n"


@pytest.mark.filterwarnings("ignore")
def test_what_is_printed_of_a_table_is_what_the_file_takes(run, tmp_path):
    import onnxruntime

    lines = ["length,colour,kind"]
    for number in range(60):
        kind = number % 2
        lines.append(f"{number * 0.1 + 9 * kind:.1f},{('red', 'blue')[number % 3 == 0]},{'ab'[kind]}")
    table = tmp_path / "flowers.csv"
    table.write_text("\n".join(lines) + "\n")
    once = ("--epochs", 1, "--posthoc", "none")
    assert run("train", table, "--out", tmp_path / "run", *once)[0] == 0
    code, out, _ = run("export", tmp_path / "run", "--onnx", tmp_path / "m.onnx")
    assert code == 0
    assert out.splitlines()[1:] == [
        "inputs: float32 (batch, 3), a row as these numbers in this order, not scaled; with = or is: 1 where "
        "it is so, else 0",
        "  1 length",
        "  2 colour = blue",
        "  3 colour = red",
    ]
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    by_hand = np.array([[2.5, 0.0, 1.0]], np.float32)
    found = session.run(["probabilities"], {"inputs": by_hand})[0]
    model = TrainedModel.load(tmp_path / "run")
    row = model.preprocess.prepare(Row(("red", "2.5"), ("colour", "length"), "by name"))
    expected = model.predict(row[None]).probabilities
    torch.testing.assert_close(torch.from_numpy(found), expected, rtol=0, atol=1e-5)


def rows_of(*columns, **options):
    schema = TableSchema(columns, **options)
    count = schema.num_features
    return RowPreprocess((count,), (0.0,) * count, (1.0,) * count, schema)


def test_how_columns_are_coded_is_said():
    lines = inputs_in_words(
        rows_of(
            NumberColumn("time", offset=1.7e9),
            NumberColumn("age", filled=40.0),
            CategoryColumn("colour", ("red",), has_other=True),
            DateColumn("day", origin=19723.0, filled=3.5),
        )
    )
    assert lines[1:7] == [
        "  1 time minus 1700000000.0",
        "  2 age; 40.0 where it is missing",
        "  3 age is missing",
        "  4 colour = red",
        "  5 colour is another",
        "  6 day in days since 1970-01-01 minus 19723.0; 3.5 where it is missing",
    ]
    assert lines[-1] == "  16 day is missing"


def test_of_many_columns_the_first_are_listed():
    preprocess = rows_of(*(NumberColumn(f"c{number}") for number in range(100)))
    lines = inputs_in_words(preprocess)
    assert len(lines) == 42
    assert lines[40] == "  40 c39"
    assert lines[41].startswith(
        "  ... 100 in all, in Python: TrainedModel.load(FILE).preprocess.schema.features;"
    )
    assert preprocess.schema.features[40] == "c40"


@pytest.mark.parametrize(
    ("preprocess", "words"),
    [
        (
            RowPreprocess((2,), (0.0, 0.0), (1.0, 1.0)),
            "float32 (batch, 2), the numbers of a row in the order of training, not scaled",
        ),
        (
            TextPreprocess(WORDS, 4),
            "int64 (batch, 4), the ids of each text's tokens by the model's tokenizer, which is in "
            "nescio.preprocess of the ONNX file's metadata",
        ),
        (
            ImagePreprocess((3, 8, 6), (0.0,) * 3, (1.0,) * 3, white=1.0),
            "float32 (batch, 3, 8, 6), pixels from 0 to 1, channels before height and width",
        ),
        (
            ImagePreprocess((1, 8, 6), (0.0,), (1.0,), white=None),
            "float32 (batch, 1, 8, 6), numbers like those of training, channels before height and width",
        ),
    ],
)
def test_what_other_models_take(preprocess, words):
    assert inputs_in_words(preprocess) == [f"inputs: {words}"]
