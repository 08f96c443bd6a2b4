"""Records: the one way out. What a model says of an input, the same in tables, JSON, CSV, Parquet, HTTP.

A record is a dict with the keys of `FIELDS`:

- `name`: of the input: a file, or a file and the number of a row from 1 on.
- `answer`: the class, or "I do not know".
- `label`: the class, or None where the model does not know.
- `best`: the most probable class, whatever the doubt.
- `accepted`: whether the model stands by its answer.
- `probability`: of the most probable class.
- `probabilities`: of all classes, in the order of the model's classes.
- `belief`: of all classes likewise; None for a model without evidence.
- `uncertainty`: from 0 to 1.
- `entropy`: of the probabilities, as a part of the most there can be, from 0 to 1.
- `p_value`: how usual the input is, from 0 to 1: of inputs like the training data, at most a share a has a
  p-value of a or less, for every a. None for a model without trust.
- `set`: the classes that the input may be of, the most probable first, where the model has conformal sets;
  empty where the input is unlike all of them; None for a model without.
- `error`: why there is no answer, on one line; None where there is one. With an error, the rest is None.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data import Dataset, LabelledData, Table, Texts
from nescio.data.sources import Input, MemorySource, Place, Source, TextSource, open_sources
from nescio.errors import DataError, InputError, NescioError, NotFiniteError
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion
from nescio.posthoc.state import WithPValues

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

Record = dict[str, Any]
Inputs = Source | LabelledData | Tensor | str | Path | Sequence[str | Path | Place]

FIELDS = (
    "name",
    "answer",
    "label",
    "best",
    "accepted",
    "probability",
    "probabilities",
    "belief",
    "uncertainty",
    "entropy",
    "p_value",
    "set",
    "error",
)
NO_ANSWER = "I do not know"  # what is said where a model does not stand by its answer
TOO_LARGE = "has values that are too large for the network"
_CSV_END = "\r\n"
CHUNK = 1024  # inputs that are read and predicted at a time


def predict_records(model: TrainedModel, inputs: Inputs) -> list[Record]:
    """What a model says of inputs, as the command line, files and the service say it.

    Args:
        model: The model.
        inputs: A source; tensors (N, ...); or paths: pictures, folders of them, .npz and .npy files, tables,
            files and folders of texts. To a model of texts, a string at which there is no file is a text.
            One that can't be read gets a record with an error, and the others are answered.

    Returns:
        A record for each input, in order; see `FIELDS`.

    Raises:
        InputError: If there is no file at a path.

    Example:
        >>> import torch, nescio
        >>> table = nescio.data.Table(torch.eye(2).repeat(8, 1), torch.arange(16) % 2, ("a", "b"), "eye")
        >>> model = nescio.TrainedModel.train(table, settings=nescio.TrainingSettings(epochs=1))
        >>> records = predict_records(model, torch.tensor([[1.0, 0.0], [0.0, float("nan")]]))
        >>> records[0]["name"], records[0]["best"] in model.classes, len(records[0]["probabilities"])
        ('1', True, 2)
        >>> records[1]["error"]
        'has a value that is not finite'
    """
    return list(iterate_records(model, _as_source(inputs, takes_texts(model))))


def takes_texts(model: TrainedModel) -> bool:
    """Whether the inputs of a model are texts."""
    return model.preprocess.kind == InputKind.TEXTS


def _as_source(inputs: Inputs, takes_texts: bool) -> Source:
    """Whatever `predict_records` takes, as a source."""
    if isinstance(inputs, Source):
        return inputs
    if isinstance(inputs, Dataset | Table):
        return MemorySource.of(inputs)
    if isinstance(inputs, Texts):
        return TextSource.of(inputs)
    if isinstance(inputs, Tensor):
        return MemorySource(inputs)
    if isinstance(inputs, str | Path):
        return open_sources([inputs], takes_texts=takes_texts)
    if isinstance(inputs, Sequence):
        return open_sources(inputs, takes_texts=takes_texts)
    raise InputError(f"inputs must be a source, tensors or paths, got {type(inputs).__name__}")


def iterate_records(model: TrainedModel, source: Source) -> Iterator[Record]:
    """The records of a source one after the other; a chunk of it is in memory at a time."""
    for start in range(0, len(source), CHUNK):
        yield from records_of(model, source.read(range(start, min(start + CHUNK, len(source)))))


def records_of(model: TrainedModel, inputs: Sequence[Input]) -> list[Record]:
    """A record for each input that a source has read."""
    records: list[Record] = []
    prepared: list[Tensor] = []
    answered: list[Record] = []
    for one in inputs:
        record = dict.fromkeys(FIELDS) | {"name": one.name, "error": one.error}
        records.append(record)
        if one.value is None:
            continue
        try:
            prepared.append(model.preprocess.prepare(one.value))
        except DataError as error:
            record["error"] = _reason(error)
        else:
            answered.append(record)
    if prepared:
        for record, answer in zip(answered, answers_of(model, _stacked(prepared)), strict=True):
            record.update(answer)
    return records


def _stacked(prepared: list[Tensor]) -> Tensor:
    """(N, ...); bytes stay bytes unless there are other numbers too."""
    if len({tensor.dtype for tensor in prepared}) > 1:
        prepared = [tensor.float() for tensor in prepared]
    return torch.stack(prepared)


def answers_of(model: TrainedModel, inputs: Tensor) -> list[Record]:
    """What a model says of prepared inputs (N, *input_shape): records without a name.

    Inputs that the model can't answer, as its network overflows on them, are found by halves: they alone get
    an error.
    """
    try:
        return _answers(model, _finite_prediction(model, inputs))
    except NescioError as error:
        if len(inputs) == 1:
            return [{"error": _reason(error)}]
    half = len(inputs) // 2
    return answers_of(model, inputs[:half]) + answers_of(model, inputs[half:])


def _finite_prediction(model: TrainedModel, inputs: Tensor) -> WithPValues:
    said = model.predict_with_p_values(inputs, independent=True)
    if not bool(said.prediction.probabilities.isfinite().all()):
        raise NotFiniteError("probabilities must be finite, got NaN or infinity")
    return said


def _reason(error: NescioError) -> str:
    # The inputs are finite: what is not is what the network makes of them.
    if isinstance(error, NotFiniteError):
        return TOO_LARGE
    return " ".join(str(error).split())


def _answers(model: TrainedModel, said: WithPValues) -> list[Record]:
    prediction = said.prediction
    accepted = model.accepts(prediction).tolist()
    probability = prediction.max_probability().tolist()
    probabilities = prediction.probabilities.tolist()
    belief = [None] * len(accepted)
    if isinstance(prediction, Opinion):
        belief = prediction.belief.tolist()
    uncertainty = prediction.uncertainty.tolist()
    entropy = prediction.entropy(normalized=True).tolist()
    p_values = [None] * len(accepted)
    if said.p_values is not None:
        p_values = said.p_values.tolist()
    sets = _sets(model, prediction)
    answers = []
    for place, label in enumerate(prediction.labels.tolist()):
        best = model.classes[label]
        # Not `known or NO_ANSWER`: the name of a class may be the empty string.
        known = best if accepted[place] else None
        answer = best if accepted[place] else NO_ANSWER
        answers.append(
            {
                "answer": answer,
                "label": known,
                "best": best,
                "accepted": accepted[place],
                "probability": probability[place],
                "probabilities": probabilities[place],
                "belief": belief[place],
                "uncertainty": uncertainty[place],
                "entropy": entropy[place],
                "p_value": p_values[place],
                "set": sets[place],
                "error": None,
            }
        )
    return answers


def _sets(model: TrainedModel, prediction: Prediction) -> list[list[str] | None]:
    """The names of the classes in the set of each input, the most probable first."""
    if model.sets is None:
        return [None] * len(prediction)
    inside = model.sets.contains(prediction)
    order = prediction.probabilities.sort(dim=-1, descending=True, stable=True).indices
    sets: list[list[str] | None] = []
    for members, places in zip(inside.tolist(), order.tolist(), strict=True):
        sets.append([model.classes[place] for place in places if members[place]])
    return sets


def to_json_lines(records: Iterable[Mapping[str, Any]]) -> str:
    """One JSON object a line.

    Example:
        >>> to_json_lines([{"name": "a.png", "error": "a.png is damaged"}])
        '{"name": "a.png", "error": "a.png is damaged"}\\n'
    """
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


def to_csv(records: Iterable[Mapping[str, Any]], header: bool = True) -> str:
    """Comma-separated lines, lists as JSON in their cell, None as an empty cell.

    Args:
        records: All with the same fields.
        header: Whether the first line names the fields.

    Example:
        >>> print(to_csv([{"name": "a.png", "probabilities": [0.5, 0.5], "error": None}]), end="")
        name,probabilities,error
        a.png,"[0.5, 0.5]",
    """
    lines: list[str] = []
    writer = csv.writer(_Ending(lines), lineterminator=_CSV_END)
    for number, record in enumerate(records):
        if header and number == 0:
            writer.writerow(record)
        cells = []
        for value in record.values():
            cells.append(json.dumps(value) if isinstance(value, list) else value)
        writer.writerow(cells)
    return "".join(lines)


class _Ending:
    """Ends lines by a newline alone: a writer told to do so leaves a carriage return in a cell unquoted."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def write(self, line: str) -> None:
        self._lines.append(line.removesuffix(_CSV_END) + "\n")
