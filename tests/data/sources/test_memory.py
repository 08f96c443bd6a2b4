"""Tensors in memory, and data sets of the catalog."""

import pytest
import torch

from nescio.data import Dataset, Labels, MemorySource, Table, TableSchema, open_source
from nescio.errors import DataError


def test_a_data_set_as_a_source_and_back():
    images = torch.arange(2 * 3 * 4, dtype=torch.uint8).view(2, 1, 3, 4)
    data = Dataset(images, torch.tensor([1, 0]), ("a", "b"), "pictures")
    source = MemorySource.of(data)
    assert [one.name for one in source.read([1, 0])] == ["pictures:2", "pictures:1"]
    assert torch.equal(source.read([1])[0].value, images[1])
    again = source.labelled()
    assert again.images.data_ptr() == images.data_ptr()
    assert (again.labels.tolist(), again.classes, again.name) == ([1, 0], ("a", "b"), "pictures")
    assert isinstance(
        MemorySource.of(Table(torch.eye(2), torch.tensor([0, 1]), ("a", "b"), "t")).labelled(), Table
    )


def test_the_fingerprint_is_of_the_values():
    rows = torch.eye(3)
    assert MemorySource(rows).fingerprint() == MemorySource(rows.clone(), "named").fingerprint()
    assert MemorySource(rows).fingerprint() != MemorySource(2 * rows).fingerprint()


def test_without_labels_there_is_nothing_to_train_on():
    with pytest.raises(DataError, match="t has no labels"):
        MemorySource(torch.eye(3), "t").labelled()
    assert MemorySource(torch.eye(3)).labels is None
    labels = Labels(torch.tensor([0, 1, 0]), ("a", "b"))
    assert MemorySource(torch.eye(3), "t", labels).labels is labels


def test_a_data_set_of_the_catalog():
    letters = open_source("letters")
    assert (len(letters), letters.labels.classes) == (5000, tuple("ABCDEFGHIJ"))
    assert letters.read([0])[0].name == "letters:1"


def test_a_table_keeps_what_it_knows_of_its_columns():
    table = Table(torch.eye(2), torch.tensor([0, 1]), ("a", "b"), "t", TableSchema.of_numbers(("x", "z")))
    again = MemorySource.of(table).labelled()
    assert again.schema == table.schema
