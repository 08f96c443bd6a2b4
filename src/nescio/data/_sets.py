"""The texts and tables of the catalog, from verified files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import torch

from nescio.data._labels import counted
from nescio.data._schema import TableSchema
from nescio.data._table_files import read_table
from nescio.data.dataset import Table, Texts
from nescio.data.splits import split as hold_out
from nescio.errors import DataError

OUT_OF_SCOPE = "oos"
HELD_OUT = 0.2  # of a table that comes in one part
_ORANGE_HEADER = 3  # lines: names, types, roles


def read_clinc(path: Path, name: str, split: str) -> Texts:
    """CLINC150: the questions of a split, train, val or test."""
    return _questions(path, name, split)


def read_clinc_out_of_scope(path: Path, name: str, split: str) -> Texts:
    """CLINC150: the questions of a split that are of none of the 150 intents."""
    return _questions(path, name, f"{OUT_OF_SCOPE}_{split}")


def _questions(path: Path, name: str, part: str) -> Texts:
    try:
        pairs = json.loads(path.read_bytes())[part]
        texts = tuple(text for text, _ in pairs)
        intents = [intent for _, intent in pairs]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{path.name}: questions and intents expected under {part!r}") from error
    classes = sorted(set(intents))
    position = {intent: index for index, intent in enumerate(classes)}
    labels = torch.tensor([position[intent] for intent in intents])
    return Texts(texts, labels, tuple(classes), name)


def read_orange(path: Path, name: str, split: str) -> Texts:
    """A .tab file of the program Orange: after three lines of header, a class and a text a line."""
    lines = path.read_text(encoding="utf-8").split("\n")[_ORANGE_HEADER:]
    labels: list[object] = []
    texts = []
    for line in lines:
        label, _, text = line.partition("\t")
        if text.strip():
            labels.append(label)
            texts.append(text)
    return Texts(tuple(texts), *counted(path.name, labels), name)


def read_keel(path: Path, name: str, split: str) -> Table:
    """Numbers and a label a line, without a header; one row in five is held out for testing."""
    content = read_table(path.read_bytes(), path.name, ".csv")
    columns = [content.column(position) for position in range(content.width)]
    try:
        features = np.array(columns[:-1], dtype=np.float32).T
    except ValueError as error:
        raise DataError(f"{path.name}: numbers expected, and a label at the end of each line") from error
    labels, classes = counted(path.name, columns[-1])
    schema = TableSchema.of_numbers(count=content.width - 1)
    whole = Table(torch.from_numpy(features.copy()), labels, classes, name, schema)
    train, test = hold_out(whole, HELD_OUT, seed=0)
    chosen = train if split == "train" else test
    assert isinstance(chosen, Table)
    return chosen
