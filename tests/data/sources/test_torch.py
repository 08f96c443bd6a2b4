"""Data of PyTorch programs: data sets, loaders and batches."""

import gc

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset
from torch.utils.data import Dataset as TorchDataset

from nescio.data import Dataset, StoredArray, Table, Texts, _row_writer, _stored, from_torch, split
from nescio.errors import DataError, InputError
from nescio.inference.model import TrainedModel
from nescio.training import TrainingSettings

IMAGES = torch.randint(0, 256, (150, 3, 6, 5), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
LABELS = torch.arange(150) % 3


class Samples(TorchDataset):
    """As people write them: item by item, of whatever kind they are."""

    def __init__(self, items, classes=None):
        self.items = items
        if classes:
            self.classes = classes

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Stream(IterableDataset):
    def __init__(self, items):
        self.items = items

    def __iter__(self):
        return iter(self.items)


PAIRS = list(zip(IMAGES, LABELS, strict=True))


def batches():
    for first in range(0, 150, 40):
        yield IMAGES[first : first + 40], LABELS[first : first + 40]


def batches_of_lists():
    for images, labels in batches():
        yield list(images), labels.tolist()


def dicts():
    return Samples([{"image": image, "label": label} for image, label in PAIRS])


# Functions: a generator is read once, and a test must not depend on who has read before.
KINDS = {
    "tensors": lambda: TensorDataset(IMAGES, LABELS),
    "map": lambda: Samples(PAIRS),
    "stream": lambda: Stream(PAIRS),
    "loader": lambda: DataLoader(TensorDataset(IMAGES, LABELS), batch_size=32),
    "shuffled": lambda: DataLoader(
        TensorDataset(IMAGES, LABELS), batch_size=32, shuffle=True, drop_last=True
    ),
    "loader of a stream": lambda: DataLoader(Stream(PAIRS), batch_size=32),
    "dicts": lambda: DataLoader(dicts(), batch_size=7),
    "batches": batches,
    "list": lambda: list(batches()),
    "lists": batches_of_lists,
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resident", [10**9, 3000])
def test_every_kind_of_data_is_the_same(kind, resident, monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
    taken = from_torch(KINDS[kind](), name="samples")
    assert isinstance(taken, Dataset)
    assert isinstance(taken.images, StoredArray) == (resident == 3000)
    assert torch.equal(taken.images[:], IMAGES)
    assert torch.equal(taken.labels, LABELS)
    assert (taken.classes, taken.name) == (("0", "1", "2"), "samples")


def test_what_was_kept_is_removed_when_nobody_uses_it(monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 3000)
    rest, held_out = split(from_torch(TensorDataset(IMAGES, LABELS)), 0.2, 0)
    assert len(list(empty_cache.rglob("*.npy"))) == 1
    assert len(held_out.images[:]) == 30
    del rest, held_out
    gc.collect()
    assert [path for path in empty_cache.rglob("*.npy*") if not path.name.endswith(".lock")] == []


def test_with_a_fingerprint_it_is_read_once(monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 3000)
    data = from_torch(TensorDataset(IMAGES, LABELS), fingerprint="version 1")
    known = data.images.fingerprint()
    del data
    gc.collect()

    class Unread(Samples):
        def __getitem__(self, index):
            raise AssertionError("read again")

    again = from_torch(Unread(PAIRS), fingerprint="version 1")
    assert torch.equal(again.images[:], IMAGES)
    assert torch.equal(again.labels, LABELS)
    assert again.images.fingerprint() == known
    with pytest.raises(AssertionError, match="read again"):
        from_torch(Unread(PAIRS), fingerprint="version 2")


def test_an_interrupted_reading_begins_anew(monkeypatch, empty_cache):
    monkeypatch.setattr(_stored, "RESIDENT_BYTES", 3000)
    monkeypatch.setattr(_row_writer, "FLUSH_BYTES", 1)

    def stopped():
        yield from list(batches())[:3]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        from_torch(stopped(), fingerprint="one")
    taken = from_torch(batches(), fingerprint="one")
    assert torch.equal(taken.images[:], IMAGES)
    assert torch.equal(taken.labels, LABELS)


def test_pictures_arrays_and_floats():
    pixels = IMAGES[0].permute(1, 2, 0).numpy()
    colour = from_torch(Samples([(Image.fromarray(pixels), "a"), (Image.fromarray(pixels), "b")]))
    assert torch.equal(colour.images[1], IMAGES[0])
    grey = from_torch(Samples([(Image.new("L", (4, 3), 7), "a"), (Image.new("L", (4, 3), 8), "b")]))
    assert grey.images.shape == (2, 1, 3, 4)
    palette = from_torch(Samples([(Image.new("P", (4, 3)), "a"), (Image.new("P", (4, 3)), "b")]))
    assert palette.images.shape == (2, 3, 3, 4)
    arrays = from_torch(Samples([(pixels, 0), (pixels, 1)]))
    assert torch.equal(arrays.images[0], IMAGES[0])
    floats = from_torch([(IMAGES.double() / 255, LABELS)])
    assert floats.images.dtype == torch.float32
    assert float(floats.images.max()) == 1
    matrices = from_torch(Samples([(np.zeros((4, 3), np.uint8), 0), (np.zeros((4, 3), np.uint8), 1)]))
    assert matrices.images.shape == (2, 1, 4, 3)


def test_rows_and_texts():
    rows = from_torch(TensorDataset(torch.arange(8).view(4, 2), torch.tensor([True, False, True, False])))
    assert isinstance(rows, Table)
    assert rows.features.dtype == torch.float32
    texts = from_torch(Samples([("hello", "greeting"), ("bye", "end"), ("hi", "greeting")]))
    assert isinstance(texts, Texts)
    assert (texts.texts, texts.classes) == (("hello", "bye", "hi"), ("end", "greeting"))
    loaded = from_torch(DataLoader(Samples([("hello", "greeting"), ("bye", "end")]), batch_size=2))
    assert loaded.texts == ("hello", "bye")


def test_names_of_the_classes():
    named = Samples(PAIRS, classes=["cat", "dog", "owl"])
    assert from_torch(named).classes == ("cat", "dog", "owl")
    assert from_torch(DataLoader(Subset(named, range(10)), batch_size=4)).classes == ("cat", "dog", "owl")
    assert from_torch(named, classes=("x", "y", "z", "w")).classes == ("x", "y", "z", "w")
    texts = Samples([("hello", "b"), ("bye", "a")])
    assert from_torch(texts, classes=("b", "a")).labels.tolist() == [0, 1]
    assert from_torch(Samples(PAIRS, classes=["cat"])).classes == ("0", "1", "2")  # not the names of these
    assert from_torch(Samples([("hello", "b"), ("bye", "a")], classes=["b"])).classes == ("a", "b")
    with pytest.raises(InputError, match="classes must name the labels 0 to 2, got 2 names"):
        from_torch(named, classes=("x", "y"))
    with pytest.raises(InputError, match="classes must hold every label, they lack a"):
        from_torch(texts, classes=("b", "c"))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            Samples([torch.zeros(3)]),
            r"a pair of an input and a label, got torch.float32 \(3,\)",
        ),
        (Samples([{"picture": 1, "kind": 2}]), "a sample must have an input .* got picture, kind"),
        (
            Samples([(torch.zeros(3), 0), (torch.zeros(4), 1)]),
            "one shape, got .* resize them in a transform",
        ),
        (
            [(torch.zeros(2, 3), [0, 1]), (torch.zeros(1, 4), [0])],
            r"samples 3 and on: inputs .* \(3,\)",
        ),
        ([(torch.zeros(2, 3), torch.zeros(2))], "a label must be a whole number or a name, got 0.0"),
        ([(torch.zeros(2, 3), torch.eye(2))], "a label must be a whole number or a name, got list"),
        ([(torch.zeros(2, 3), 1)], "labels must be one for each input, got 1"),
        ([(torch.zeros(2, 3), [1])], "2 inputs, 1 labels"),
        ([(torch.zeros(2, 3, 4, 5, 6), [0, 1])], "images or rows of numbers, got"),
        ([(torch.tensor([[torch.nan], [1.0]]), [0, 1])], "features must be finite"),
        (Samples([(object(), 0)]), "an input must be numbers, a picture or a text, got object"),
        ([(torch.zeros(2, 3), [0, 1]), (["a", "b"], [0, 1])], "texts among numbers"),
        ([(["a", "b"], [0, 1]), (torch.zeros(2, 3), [0, 1])], "texts or numbers, got both"),
        ([], "data holds no samples"),
    ],
)
def test_samples_that_are_none(data, message):
    with pytest.raises(DataError, match=message):
        from_torch(data)


def test_samples_of_one_class_are_no_training_data():
    data = from_torch([(torch.zeros(2, 3), ["a", "a"])])
    assert (data.classes, data.labels.tolist()) == (("a",), [0, 0])
    with pytest.raises(DataError, match="samples of 1 class; a classifier needs two or more"):
        TrainedModel.train(data)


@pytest.mark.parametrize("data", [3, "folder", {"a": 1}])
def test_what_is_no_data(data):
    with pytest.raises(InputError, match="data must be a data set, a loader or batches"):
        from_torch(data)


def test_it_is_trained_on(monkeypatch, empty_cache):
    """The same model whether the data lies in memory or on the disk."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(200, 4, generator=generator)
    labels = (rows[:, 0] > 0).long()
    settings = TrainingSettings(epochs=2, batch_size=32)
    outputs = []
    for resident in (10**9, 500):
        monkeypatch.setattr(_stored, "RESIDENT_BYTES", resident)
        data = from_torch(DataLoader(TensorDataset(rows, labels), batch_size=50, shuffle=True))
        assert isinstance(data.features, StoredArray) == (resident == 500)
        model = TrainedModel.train(data, settings=settings)
        outputs.append(model.predict(data.features).probabilities)
    assert torch.equal(outputs[0], outputs[1])
