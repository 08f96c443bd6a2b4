"""Sub-folders that are classes, or say what files are for: of texts as of pictures."""

import pytest
from PIL import Image

from nescio.data import open_source, split
from nescio.data.dataset import PARTS
from nescio.errors import DataError, InputError


def write(path, number):
    """A text or a small picture."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".txt":
        path.write_text(f"text {number}")
    else:
        Image.new("L", (8, 8), number).save(path)


@pytest.fixture(params=[".txt", ".png"])
def ending(request):
    return request.param


@pytest.fixture
def folder(tmp_path, ending):
    number = 0
    for part in ("train", "test"):
        for name in ("neg", "pos"):
            for index in range(3):
                write(tmp_path / "data" / part / name / f"{index}{ending}", number := number + 1)
    return tmp_path / "data"


def test_folders_for_training_and_test_are_no_classes(folder):
    source = open_source(folder)
    assert source.labels.classes == ("neg", "pos")
    data = source.labelled()
    assert data.classes == ("neg", "pos")
    kept, held_out = split(data, 0.2, seed=0)
    assert (len(kept), len(held_out)) == (6, 6)
    assert set(held_out.parts.tolist()) == {PARTS.index("test")}


def test_one_part_alone(folder):
    source = open_source(folder, split="test")
    assert len(source) == 6
    assert source.labelled().labels.tolist() == [0, 0, 0, 1, 1, 1]
    with pytest.raises(DataError, match="has no folder validation of class folders; it has test, train"):
        open_source(folder, split="val")
    with pytest.raises(InputError, match="split must be one of train, validation, test, got 'half'"):
        open_source(folder, split="half")


def test_a_class_of_the_test_part_alone_can_not_be_learned(folder, ending):
    write(folder / "test" / "new" / f"0{ending}", 77)
    data = open_source(folder).labelled()
    with pytest.raises(DataError, match="nothing to train on is of the class new"):
        split(data, 0.2, seed=0)


def test_classes_may_be_called_train_and_test(tmp_path, ending):
    for name in ("test", "train"):
        write(tmp_path / "vehicles" / name / f"a{ending}", 5)
    assert open_source(tmp_path / "vehicles").labelled().classes == ("test", "train")


def test_the_folder_of_a_training_is_no_class(folder, ending):
    folder = folder / "train"
    write(folder / "run" / "figures" / f"a{ending}", 9)
    (folder / "run" / "settings.json").write_text("{}")
    assert open_source(folder).labels.classes == ("neg", "pos", "run")
    (folder / "run" / "checkpoint.safetensors").write_bytes(b"")
    source = open_source(folder)
    assert len(source) == 6
    assert source.labelled().classes == ("neg", "pos")
