"""Folders of the `datasets` library, as its version 5.2 writes them with save_to_disk."""

import io
import json

import pyarrow as pa
import pytest
from PIL import Image

from nescio.cli._sources import open_to_train
from nescio.data import (
    Dataset,
    ImagePreprocess,
    RowPreprocess,
    StoredArray,
    Table,
    Texts,
    _stored,
    open_source,
    split,
)
from nescio.errors import DataError, InputError
from nescio.inference.model import TrainedModel

TEXT = {"dtype": "string", "_type": "Value"}
NUMBER = {"dtype": "float64", "_type": "Value"}


def save(folder, columns, features, shards=1):
    """One data set in so many Arrow files."""
    folder.mkdir(parents=True)
    table = pa.table(columns)
    names = [f"data-{index:05}-of-{shards:05}.arrow" for index in range(shards)]
    size = -(-table.num_rows // shards)
    for index, name in enumerate(names):
        with pa.OSFile(str(folder / name), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table.slice(index * size, size))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))
    state = {"_data_files": [{"filename": name} for name in names], "_fingerprint": "0", "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    return folder


def save_parts(folder, parts, features):
    for name, columns in parts.items():
        save(folder / name, columns, features)
    (folder / "dataset_dict.json").write_text(json.dumps({"splits": list(parts)}))
    return folder


def png(value, size=(5, 4)):
    out = io.BytesIO()
    Image.new("RGB", size, (value, value, value)).save(out, "PNG")
    return {"bytes": out.getvalue(), "path": None}


IMAGES = {"image": {"_type": "Image"}, "kind": {"names": ["dog", "cat"], "_type": "ClassLabel"}}


@pytest.fixture
def pictures(tmp_path):
    columns = {"image": [png(index) for index in range(10)], "kind": [index % 2 for index in range(10)]}
    return save(tmp_path / "pictures", columns, IMAGES, shards=3)


@pytest.mark.parametrize("resident", [10**9, 100])
def test_pictures(pictures, resident, monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
    source = open_source(pictures)
    data = source.labelled()
    assert isinstance(data, Dataset)
    assert isinstance(data.images, StoredArray) == (resident == 100)
    assert data.images.shape == (10, 3, 4, 5)
    assert data.images[:][:, 0, 0, 0].tolist() == list(range(10))
    assert (data.classes, data.labels.tolist()) == (("dog", "cat"), [0, 1] * 5)
    assert [one.name for one in source.read([2, 0])] == [f"{pictures}:3", f"{pictures}:1"]
    assert source.fingerprint() == open_source(pictures).fingerprint()


def test_pictures_of_one_class_are_not_decoded_to_train(tmp_path, monkeypatch):
    columns = {"image": [png(index) for index in range(4)], "kind": ["dog"] * 4}
    features = {"image": IMAGES["image"], "kind": TEXT}
    folder = save(tmp_path / "dogs", columns, features)
    data = open_source(folder, label="kind").labelled()
    assert (data.classes, data.labels.tolist()) == (("dog",), [0] * 4)

    def decoded(*_, **__):
        raise AssertionError("not before the labels were looked at")

    source = open_source(folder, label="kind")
    monkeypatch.setattr(type(source), "labelled", decoded)
    with pytest.raises(DataError, match="dogs: labels must be of two or more classes, got dog only"):
        TrainedModel.train(source)
    with pytest.raises(DataError, match="dogs: labels must be of two or more classes, got dog only"):
        open_to_train(str(folder), 0, label="kind")


def test_pictures_of_one_size_and_for_a_model(pictures):
    data = open_source(pictures, size=8, resize="pad").labelled()
    assert (data.images.shape, data.resize) == ((10, 3, 8, 8), "pad")
    assert data.images[9, 0].unique().tolist() == [0, 9]
    model = ImagePreprocess((1, 2, 2), (0.0,), (255.0,), resize="crop")
    assert open_source(pictures).labelled(model).images[:, 0, 0, 0].tolist() == list(range(10))
    assert len(open_source(pictures).prepared(model).inputs) == 10
    with pytest.raises(DataError, match="the model takes rows, pictures holds pictures"):
        open_source(pictures).labelled(RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2))


def test_broken_and_missing_pictures(tmp_path):
    (tmp_path / "outside.png").write_bytes(png(7)["bytes"])
    cells = [
        png(1),
        {"bytes": None, "path": str(tmp_path / "outside.png")},
        None,
        {"bytes": b"x", "path": None},
    ]
    folder = save(tmp_path / "broken", {"image": cells, "kind": [0, 1, 0, 1]}, IMAGES)
    prepared = open_source(folder).prepared(ImagePreprocess((1, 4, 5), (0.0,), (255.0,)))
    assert prepared.inputs[:, 0, 0, 0].tolist() == [1, 7]
    assert prepared.unreadable[f"{folder}:3"] == "there is no picture"
    assert "is not a PNG" in prepared.unreadable[f"{folder}:4"]
    with pytest.raises(DataError, match=r"broken:3: there is no picture"):
        open_source(folder).labelled()


def test_labels_of_pictures(tmp_path):
    columns = {"image": [png(1), png(2)], "who": ["ann", "bob"], "text": ["x", "y"]}
    features = {"image": {"_type": "Image"}, "who": TEXT, "text": TEXT}
    folder = save(tmp_path / "named", columns, features)
    data = open_source(folder, label="who", group="text").labelled()
    assert (data.classes, data.groups.tolist()) == (("ann", "bob"), [0, 1])
    with pytest.raises(InputError, match="has no label column 'whom'; its columns: image, who, text"):
        open_source(folder, label="whom")
    only = save(tmp_path / "only", {"image": [png(1)]}, {"image": {"_type": "Image"}})
    with pytest.raises(DataError, match="has no column of labels"):
        open_source(only).labelled()
    gap = save(tmp_path / "gap", {"image": [png(1)], "kind": [-1]}, IMAGES)
    with pytest.raises(DataError, match="gap, row 1, column kind: a label expected, got ''"):
        open_source(gap).labelled()


def test_parts_of_pictures(tmp_path):
    parts = {}
    for name, count in (("train", 6), ("test", 2), ("unsupervised", 3)):
        values = {"image": [png(count) for _ in range(count)], "kind": [index % 2 for index in range(count)]}
        parts[name] = values
    folder = save_parts(tmp_path / "parts", parts, IMAGES)
    rest, test = split(open_source(folder).labelled(), 0.5, 0)
    assert (len(rest), len(test)) == (6, 2)
    assert test.images.unique().tolist() == [2]
    assert len(open_source(folder, split="test").labelled()) == 2
    assert len(open_source(folder, split="unsupervised").labelled()) == 3
    with pytest.raises(DataError, match="parts has no part validation"):
        open_source(folder, split="validation")


def test_texts(tmp_path):
    features = {"question": TEXT, "intent": TEXT}
    part = {"question": ["hello", "bye"], "intent": ["greeting", "end"]}
    folder = save_parts(tmp_path / "texts", {"train": part, "validation": part}, features)
    data = open_source(folder, label="intent").labelled()
    assert isinstance(data, Texts)
    assert data.texts == ("hello", "bye") * 2
    assert data.parts.tolist() == [0, 0, 1, 1]
    named = {"question": TEXT, "intent": {"names": ["greeting", "end"], "_type": "ClassLabel"}}
    coded = save(tmp_path / "coded", {"question": ["hello", "bye"], "intent": [0, 1]}, named)
    assert open_source(coded).labelled().classes == ("end", "greeting")


def test_tables(tmp_path):
    columns = {
        "length": [1.5, 2.5, 3.5, 4.5],
        "vector": [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.5]],
        "colour": ["red", "blue", "red", "blue"],
        "label": ["x", "y", "x", "y"],
    }
    features = {
        "length": NUMBER,
        "vector": {"feature": NUMBER, "_type": "List"},
        "colour": TEXT,
        "label": TEXT,
    }
    folder = save(tmp_path / "table", columns, features)
    table = open_source(folder).labelled()
    assert isinstance(table, Table)
    assert [column.name for column in table.schema.columns] == ["length", "vector.0", "vector.1", "colour"]
    assert table.features[:, 1:3].tolist() == columns["vector"]
    assert table.classes == ("x", "y")
    assert open_source(folder, drop=["colour"], group="colour").labelled().groups.tolist() == [0, 1, 0, 1]
    assert open_source(folder).fingerprint() == open_source(folder).fingerprint()
    with pytest.raises(InputError, match="size goes with a folder of pictures"):
        open_source(folder, size=8)
    columns["vector"][0] = [1.0]
    uneven = save(tmp_path / "uneven", columns, features)
    with pytest.raises(DataError, match="uneven, column vector: lists must be of one length"):
        open_source(uneven)


def test_folders_that_are_damaged(tmp_path, pictures):
    with pytest.raises(InputError, match="split goes with a data set of several parts, not with pictures"):
        open_source(pictures, split="train")
    arrow = pictures / "data-00000-of-00003.arrow"
    arrow.write_bytes(arrow.read_bytes()[:100])
    with pytest.raises(DataError, match=r"data-00000-of-00003\.arrow is not an Arrow file that can be read"):
        open_source(pictures)
    arrow.unlink()
    with pytest.raises(DataError, match="is not an Arrow file that can be read"):
        open_source(pictures)
    (pictures / "state.json").write_text('{"_indices_files": [{"filename": "indices.arrow"}]}')
    with pytest.raises(DataError, match="holds a selection of rows; save it again after flatten_indices"):
        open_source(pictures)
    (pictures / "state.json").write_text("{}")
    with pytest.raises(DataError, match="holds no rows"):
        open_source(pictures)
    (pictures / "state.json").write_text("[]")
    with pytest.raises(DataError, match="must hold an object, got list"):
        open_source(pictures)
    (pictures / "dataset_info.json").write_text("{")
    with pytest.raises(DataError, match=r"dataset_info\.json can't be read"):
        open_source(pictures)


def test_parts_that_do_not_fit(tmp_path):
    folder = save_parts(
        tmp_path / "two", {"train": {"a": [1.0], "label": ["x"]}}, {"a": NUMBER, "label": TEXT}
    )
    save(folder / "test", {"b": [1.0], "label": ["x"]}, {"b": NUMBER, "label": TEXT})
    (folder / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match="two: the parts do not fit together"):
        open_source(folder)


def test_a_folder_of_pictures_with_another_json_is_one(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.png").write_bytes(png(3)["bytes"])
    (tmp_path / "dataset_info.json").write_text("{}")
    assert open_source(tmp_path).labelled().classes == ("a", "b")


def test_what_the_headers_say(pictures):
    assert str(open_source(pictures).header_summary()) == "10 pictures of 4 x 5 pixels, colour"
