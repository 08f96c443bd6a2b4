"""What DATA means."""

from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.preprocess.words import WORDS

from nescio.cli._sources import (
    open_for,
    open_for_promise,
    open_held_out,
    open_inputs,
    open_to_train,
    open_training,
    open_unseen,
)
from nescio.data import ImagePreprocess, TextPreprocess, open_source
from nescio.errors import DataError, InputError, NescioWarning


class Model:
    """As much of a model as is needed to read data for it."""

    seen = None
    classes = ()
    training: ClassVar[dict] = {}
    preprocess = ImagePreprocess((1, 8, 8), (0.0,), (255.0,), pixel_range=(0.0, 255.0))

    def was_calibrated_on(self, data):
        return False


def test_a_size_of_nothing_is_refused(tmp_path):
    (tmp_path / "photos").mkdir()
    with pytest.raises(ValueError, match="size: height must be a whole number from 1 on, got 0"):
        open_to_train(str(tmp_path / "photos"), 0, size=0)


def test_a_fifth_of_ones_own_data_is_held_out(tmp_path):
    rows = "".join(f"{index * index % 7},{index % 2}\n" for index in range(50))
    (tmp_path / "a.csv").write_text("x,kind\n" + rows)
    train, held_out, _ = open_to_train(str(tmp_path / "a.csv"), 0)
    assert (len(train), len(held_out)) == (40, 10)
    (tmp_path / "b.csv").write_text("x,kind\n" + "1,5\n2,6\n" * 20)
    assert open_to_train(str(tmp_path / "b.csv"), 0, label="x").train.classes == ("1", "2")


def test_data_of_one_class(tmp_path):
    np.savez(tmp_path / "one.npz", features=np.eye(2), labels=[0, 0], classes=["a", "b"])
    with pytest.raises(DataError, match="labels must be of two or more classes, got a only"):
        open_to_train(str(tmp_path / "one.npz"), 0)


@pytest.mark.parametrize("name", ["0.png", "0.txt"])
def test_a_folder_of_one_class(tmp_path, name):
    (tmp_path / "cat").mkdir()
    if name.endswith("png"):
        Image.new("L", (28, 28)).save(tmp_path / "cat" / name)
    else:
        (tmp_path / "cat" / name).write_text("meow")
    assert open_source(tmp_path).labelled().classes == ("cat",)
    with pytest.raises(DataError, match="labels must be of two or more classes, got cat only"):
        open_to_train(str(tmp_path), 0)


def test_a_data_set_of_the_catalog_has_its_own_split():
    train, test, _ = open_to_train("letters", 0)
    assert (len(train), len(test)) == (10_000, 5_000)


def test_out_of_distribution_inputs_need_no_labels(tmp_path):
    for index in range(3):
        Image.new("RGB", (20, 9), (index, 0, 0)).save(tmp_path / f"{index}.png")
    assert open_inputs(Model(), str(tmp_path), None).shape == (3, 1, 8, 8)
    (tmp_path / "bad.png").write_text("no picture")
    with pytest.warns(
        NescioWarning, match="1 of 4 inputs of .* can't be read and are passed over; the last: .*bad.png"
    ):
        assert open_inputs(Model(), str(tmp_path), None).shape == (3, 1, 8, 8)
    assert open_inputs(Model(), "letters", None).dtype == torch.uint8
    (tmp_path / "a.csv").write_text("1,2\n")
    with pytest.raises(DataError, match="the model takes pictures 1 x 8 x 8, not rows of a table"):
        open_inputs(Model(), str(tmp_path / "a.csv"), None)


def test_labelled_data_comes_as_the_model_needs_it(tmp_path):
    for name in ("cat", "dog"):
        (tmp_path / name).mkdir()
        Image.new("RGB", (20, 9), "red").save(tmp_path / name / "0.png")
    assert open_for(Model(), str(tmp_path), None).images.shape == (2, 1, 8, 8)


def test_a_model_of_texts_is_tested_on_a_folder_and_on_a_table_with_another_name(tmp_path):
    model = SimpleNamespace(preprocess=TextPreprocess(WORDS, 4, "question"), training={})
    for place, text in (("greet/1.txt", "hello"), ("leave/2.txt", "bye")):
        (tmp_path / "texts" / place).parent.mkdir(parents=True)
        (tmp_path / "texts" / place).write_text(text)
    (tmp_path / "q.csv").write_text("intent,words\ngreet,hello\nleave,bye\n")
    (tmp_path / "same.csv").write_text("intent,number,question\ngreet,1,hello\nleave,2,bye\n")
    assert open_for(model, str(tmp_path / "texts"), None).texts == ("hello", "bye")
    found = open_for(model, str(tmp_path / "q.csv"), None, label="intent")
    assert (found.texts, found.classes) == (("hello", "bye"), ("greet", "leave"))
    found = open_for(model, str(tmp_path / "same.csv"), None, label="intent")
    assert (found.texts, found.classes) == (("hello", "bye"), ("greet", "leave"))


def held_out_of_digits(model, name, data_dir):
    how_opened = dict.fromkeys(("label", "drop", "text", "group"))
    trained = SimpleNamespace(
        preprocess=model.preprocess, training={"held_out": {"data": name, **how_opened}}
    )
    return open_held_out(trained, data_dir)


@pytest.mark.parametrize(
    "opened",
    [
        lambda model, name, data_dir: open_to_train(name, 0, data_dir=data_dir),
        open_for,
        open_training,
        open_inputs,
        open_unseen,
        open_for_promise,
        held_out_of_digits,
    ],
)
def test_files_are_looked_for_in_the_folder_given(tmp_path, opened):
    with pytest.raises(InputError, match=r"data_dir must name a folder; there is no folder .*nowhere"):
        opened(Model(), "digits", tmp_path / "nowhere")


@pytest.mark.parametrize("opened", [open_for, open_training, open_unseen, open_for_promise])
def test_labels_are_taken_from_the_column_named(tmp_path, opened):
    model = Model()
    model.preprocess = TextPreprocess(WORDS, 4, "question")
    (tmp_path / "q.csv").write_text("intent,question,label\ngreet,hello,x\nleave,bye,y\n")
    model.classes = ("x", "y")
    assert opened(model, str(tmp_path / "q.csv"), None).classes == ("x", "y")
    model.classes = ("greet", "leave")
    assert opened(model, str(tmp_path / "q.csv"), None, "intent").classes == ("greet", "leave")


@pytest.mark.parametrize("opened", [open_for, open_training, open_unseen, open_for_promise])
def test_labels_of_texts_are_where_they_were_in_training(tmp_path, opened):
    how = {"label_column": "intent", "label": None, "drop": None, "text": None, "group": None}
    model = SimpleNamespace(
        preprocess=TextPreprocess(WORDS, 4, "question"),
        training={"held_out": {"data": "elsewhere.csv", "share": 0.2, "seed": 0, "sha256": "", **how}},
        seen=None,
        classes=("greet", "leave"),
        was_calibrated_on=lambda data: False,
    )
    (tmp_path / "q.csv").write_text("intent,question,number\ngreet,hello,1\nleave,bye,2\n")
    assert opened(model, str(tmp_path / "q.csv"), None).classes == ("greet", "leave")
    model.classes = ("1", "2")
    assert opened(model, str(tmp_path / "q.csv"), None, "number").classes == ("1", "2")
    (tmp_path / "bare.csv").write_text("number,question\n1,hello\n2,bye\n")
    with pytest.raises(
        DataError, match=r"bare.csv has no column 'intent', which held the labels in training"
    ):
        opened(model, str(tmp_path / "bare.csv"), None)


@pytest.mark.parametrize(
    ("table", "column", "held_out"),
    [
        # Of a table without a header the model knows a number, which a header has not.
        ("question,intent\nhello,greet\nbye,leave\n", None, {"label_column": "2"}),
        # Files from before have the option alone.
        ("intent,question,number\ngreet,hello,1\nleave,bye,2\n", "question", {"label": "intent"}),
    ],
)
def test_labels_of_texts_are_found_whatever_the_model_knows(tmp_path, table, column, held_out):
    (tmp_path / "new.csv").write_text(table)
    model = SimpleNamespace(
        preprocess=TextPreprocess(WORDS, 4, column), training={"held_out": {"data": "x.csv", **held_out}}
    )
    assert open_for(model, str(tmp_path / "new.csv"), None).classes == ("greet", "leave")
