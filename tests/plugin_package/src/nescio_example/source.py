"""A source: rows of numbers as lines of JSON, {"numbers": [...], "label": "..."}."""

import json
from typing import ClassVar

import torch

from nescio.data.sources import Input, Labels, Place, Source


class LinesOfRows(Source):
    kind: ClassVar[str] = "numbers"
    about: ClassVar[str] = ".numbers files"

    def __init__(self, place: Place) -> None:
        self.name = place.path.stem
        self._place = place
        self._rows = [json.loads(line) for line in place.read_bytes().splitlines()]

    @classmethod
    def recognises(cls, place):
        return place.is_file() and place.suffix == ".numbers"

    @classmethod
    def open(cls, place, **options):
        return cls(place)

    def __len__(self):
        return len(self._rows)

    def read(self, indices):
        return [Input(f"{self.name}:{i + 1}", torch.tensor(self._rows[i]["numbers"])) for i in indices]

    def fingerprint(self):
        return self._place.digest()

    @property
    def labels(self):
        classes = sorted({row["label"] for row in self._rows})
        return Labels(torch.tensor([classes.index(row["label"]) for row in self._rows]), tuple(classes))
