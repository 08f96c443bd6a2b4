"""Answers as JSON: encoded by the thread that computes them; the event loop only puts the pieces together.

A record is a dict of some twenty objects, its text a tenth of that: of a large request only texts are held.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from nescio.data._pictures import TooManyPixelsError
from nescio.inference.records import FIELDS, Record
from nescio.serve._errors import RequestError

encode_json = msgspec.json.Encoder().encode
_NOTHING = b"}"


class Answer(NamedTuple):
    """A record without its name: the text of its fields with the brace behind them, and its error."""

    fields: bytes
    error: str | None


def encode_records(records: Iterable[Record], wanted: Sequence[str]) -> list[Answer]:
    """Records without a name as answers with the wanted fields.

    One that has an error says so, whatever fields are wanted.
    """
    has_all = len(wanted) == len(FIELDS)
    answers = []
    for record in records:
        error = record["error"]
        chosen = record
        if error is not None or not has_all:
            chosen = {field: record.get(field) for field in wanted if field != "name"}
        if error is not None:
            chosen["error"] = error
        answers.append(Answer(encode_json(chosen)[1:], error))
    return answers


def encode_results(results: Iterable[bytes]) -> bytes:
    """The whole answer to a request, of what each model says."""
    return b'{"results":[' + b",".join(results) + b"]}"


def encode_result(
    model: str,
    names: Sequence[str],
    answers: Iterable[Answer],
    wanted: Sequence[str],
    notes: Mapping[int, str],
) -> bytes:
    """What one model says: its answers in the order of the names of the inputs.

    notes: what is to be said of an input beside its answer, by position.
    """
    opinions = []
    for name, answer in zip(names, answers, strict=True):
        if "name" not in wanted:
            opinions.append(b"{" + answer.fields)
        elif answer.fields == _NOTHING:
            opinions.append(b'{"name":' + encode_json(name) + _NOTHING)
        else:
            opinions.append(b'{"name":' + encode_json(name) + b"," + answer.fields)
    listed: list[dict[str, Any]] = [{"name": names[place], "note": note} for place, note in notes.items()]
    parts = (
        b'{"model":',
        encode_json(model),
        b',"opinions":[',
        b",".join(opinions),
        b'],"notes":',
        encode_json(listed),
        b"}",
    )
    return b"".join(parts)


def require_answer(model: str, name: str, error: object) -> None:
    """Refuse a request with one input that a model can't answer; of several, each has a record."""
    if error is None:
        return
    status = 413 if isinstance(error, TooManyPixelsError) else 422
    reason = " ".join(str(error).split())
    which = "the input" if name == "1" else name
    raise RequestError(status, f"the model {model} can't answer {which}: {reason}")
