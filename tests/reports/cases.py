"""Small models and data of every kind to make cards of."""

import torch
from tests.studies.page import Page

from nescio.data import Dataset, Table, TableSchema
from nescio.inference.model import TrainedModel
from nescio.training import TrainingSettings

NASTY = ("<script>alert(1)</script>", "a | b * c_d $x_{", "名前 😀", "n" * 120)


def corners(count=120, classes=("red", "green", "blue"), noise=0.05, seed=0):
    """Rows near the corners of a cube, one for each class."""
    labels = torch.arange(count) % len(classes)
    generator = torch.Generator().manual_seed(seed)
    rows = torch.nn.functional.one_hot(labels, len(classes)).float()
    rows += noise * torch.randn(rows.shape, generator=generator)
    schema = TableSchema.of_numbers([f"column {place}" for place in range(len(classes))])
    return Table(rows, labels, tuple(classes), "corners", schema)


def images(count=30, side=16, channels=3):
    """Images of one colour each, whose class is the channel that is bright."""
    labels = torch.arange(count) % channels
    pictures = torch.zeros(count, channels, side, side, dtype=torch.uint8)
    pictures[torch.arange(count), labels] = 200
    return Dataset(pictures, labels, tuple("rgbxyz"[:channels]), "colours")


def trained(data, method="edl", epochs=15):
    settings = TrainingSettings(epochs=epochs, batch_size=16, learning_rate=0.01)
    network = "mlp" if isinstance(data, Table) else "lenet"
    return TrainedModel.train(data, method, network, settings)


def page_of(path):
    """A page that is whole, and takes nothing from elsewhere."""
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    addresses = page.values("src") + page.values("href") + page.values("xlink:href")
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
    assert not {"script", "link", "iframe"} & set(page.tags)
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    return text, page
