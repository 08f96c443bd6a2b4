"""Rows of the result: what a model says of each input, as a Parquet table."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from nescio import __version__
from nescio.errors import NescioError
from nescio.inference.bulk.sources import Input
from nescio.inference.model import UNKNOWN, TrainedModel
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion

TOO_LARGE = "has values that are too large for the network"
NUMBER = pa.float32()
COLUMNS = {
    "input": pa.string(),
    "answer": pa.string(),
    "best": pa.string(),
    "accepted": pa.bool_(),
    "probability": NUMBER,
    "uncertainty": NUMBER,
    "entropy": NUMBER,
    "probabilities": pa.list_(NUMBER),
    "belief": pa.list_(NUMBER),
    "error": pa.string(),
}


class Table:
    """Makes tables for one model."""

    def __init__(self, model: TrainedModel) -> None:
        self.model = model
        about = {"nescio": json.dumps({"version": __version__, "classes": list(model.classes)})}
        self._schema = pa.schema(list(COLUMNS.items()), metadata=about)

    def parquet(self, inputs: list[Input]) -> bytes:
        """A file with one row for each input, in order."""
        rows = self._rows(inputs)
        columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
        table = pa.table(columns, schema=self._schema)
        file = pa.BufferOutputStream()
        pq.write_table(table, file)
        return file.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def _rows(self, inputs: list[Input]) -> list[dict[str, Any]]:
        readable = [one.values for one in inputs if one.values is not None]
        opinions = iter(self._opinions(torch.stack(readable)) if readable else ())
        return [
            {"input": one.name, "error": one.error, **({} if one.values is None else next(opinions))}
            for one in inputs
        ]

    def _opinions(self, values: torch.Tensor) -> list[dict[str, Any]]:
        """One table for each; halved until those that the network can't take are alone."""
        prediction = self._prediction(values)
        if prediction is None:
            if len(values) == 1:
                return [{"error": TOO_LARGE}]
            return [row for half in values.tensor_split(2) for row in self._opinions(half)]
        names = [self.model.classes[label] for label in prediction.labels.tolist()]
        accepted = self.model.accepts(prediction).tolist()
        belief = prediction.belief.tolist() if isinstance(prediction, Opinion) else [None] * len(values)
        columns = {
            "answer": [name if known else UNKNOWN for name, known in zip(names, accepted, strict=True)],
            "best": names,
            "accepted": accepted,
            "probability": prediction.max_probability().tolist(),
            "uncertainty": prediction.uncertainty.tolist(),
            "entropy": prediction.entropy(normalized=True).tolist(),
            "probabilities": prediction.probabilities.tolist(),
            "belief": belief,
        }
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _prediction(self, values: torch.Tensor) -> Prediction | None:
        try:
            prediction = self.model.predict(values)
        except NescioError:  # inputs are finite and of the right shape: what is not is made of them
            return None
        return prediction if bool(prediction.probabilities.isfinite().all()) else None
