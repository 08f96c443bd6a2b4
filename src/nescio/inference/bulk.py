"""Prediction of many inputs to one file: in chunks that are kept, here or on the machines of a Ray cluster.

Each chunk becomes a part in a folder beside the file that is to be. Stopped and started again, what is there
is not computed again; once all parts are there, they become one file, and the folder is gone.

The names of parts begin with the digest of the settings: those of another model are never taken for ours.
Where the folder has no settings, its prediction has ended, or never began, and what is left of it is removed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from nescio import __version__
from nescio._files import (
    is_written_aside,
    move_atomically,
    require_writable,
    sync_folder,
    why_not_written,
    write_atomically,
)
from nescio._locks import one_at_a_time
from nescio._memory import freed_memory_kept
from nescio._ray import require_place, start_ray
from nescio.data._table_files import LARGEST_CELL
from nescio.data.sources import Place, Source, open_sources
from nescio.errors import DataError, InputError, MissingExtraError
from nescio.inference._model_file import model_path
from nescio.inference.model import TrainedModel
from nescio.inference.records import CHUNK, Record, records_of, takes_texts, to_csv, to_json_lines

SETTINGS = "settings.json"
# A part, the whole before it is moved into place, and a part that is being written.
_DIGEST_LENGTH = 16
_OF_A_PREDICTION = re.compile(r"\.?[0-9a-f]{16}-([0-9]{8}\.[a-z]+(-[0-9a-f]{32})?|[0-9a-f]{32}\.whole)")


@dataclass(frozen=True)
class Outcome:
    """What was written: for how many inputs, and how many of them have an error instead of an answer.

    Args:
        inputs: How many there were.
        errors: How many of them could not be answered.

    Example:
        >>> Outcome(inputs=3, errors=1).errors
        1
    """

    inputs: int
    errors: int


def predict_to_file(
    model: str | Path,
    places: Sequence[str | Path],
    out: str | Path,
    *,
    on: str = "here",
    report: Callable[[int, int], None] | None = None,
    on_wait: Callable[[str], None] | None = None,
) -> Outcome:
    """Write a file with a record for each input; begun before and stopped, it goes on.

    Of several processes that write the same file, one works and the others wait for it.

    Args:
        model: A model file, or the folder of a run.
        places: Pictures, texts, folders of them, .npz and .npy files, tables, names of data sets.
        out: The file to write: .parquet, .csv, or .jsonl with a JSON object a line.
        on: "here", or "ray" for Ray Data on the machines of a cluster, which must all see the files.
        report: Function that is called with the inputs done so far and their number in all.
        on_wait: Function that is called with one line for people, where another process writes the same file.

    Returns:
        How many inputs there were, and how many of them could not be answered.

    Raises:
        InputError: If an argument does not fit, or there is nothing at a place.
        DataError: If the folder for the parts holds parts of another prediction, or can't be written.
        MissingExtraError: If pyarrow is needed and not installed, or Ray.

    Example:
        >>> import tempfile
        >>> from nescio.inference.model import untrained_model
        >>> model = untrained_model(torch.eye(3), ("a", "b"))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.safetensors")
        ...     _ = Path(f"{folder}/rows.csv").write_text("1,2,3\\n4,five,6\\n")
        ...     outcome = predict_to_file(folder, [f"{folder}/rows.csv"], f"{folder}/answers.jsonl")
        ...     lines = Path(f"{folder}/answers.jsonl").read_text().splitlines()
        >>> outcome, len(lines)
        (Outcome(inputs=2, errors=1), 2)
    """
    require_place(on)
    plan = _Plan(
        model_path(model).resolve(), tuple(str(place) for place in places), Path.cwd(), Path(out).resolve()
    )
    plan.form()  # refuses an ending that is none
    if plan.out.is_dir():
        raise InputError(f"--out must name a file, {plan.out} is a folder")
    if plan.out == plan.model or any(_is_file(place, plan.out) for place in plan.places):
        raise InputError(f"--out must name another file, {plan.out} is what is read")
    if on == "ray":
        start_ray()

    def say_who(holder: str) -> None:
        if on_wait:
            on_wait(f"{holder} is writing {out}; waiting")

    with ExitStack() as held:
        try:
            held.enter_context(
                one_at_a_time(plan.out.with_name(f".{plan.out.name}.lock"), say_who, keep=False)
            )
        except OSError as error:
            raise _not_written(plan.out, error) from error
        return _predict_alone(plan, on, report)


def _is_file(place: str, path: Path) -> bool:
    """Whether a place, which may be a text, is this file."""
    try:
        return Path(place).resolve() == path
    except (OSError, ValueError):  # no file has such a name
        return False


def _predict_alone(plan: _Plan, on: str, report: Callable[[int, int], None] | None) -> Outcome:
    source = plan.source(TrainedModel.load(plan.model))  # what is wrong with it is said now
    total = len(source)
    settings = {
        "model": Place(str(plan.model)).digest(),
        "places": list(plan.places),
        "inputs": source.fingerprint(),
        "chunk": CHUNK,
    }
    digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    plan = replace(plan, digest=digest[:_DIGEST_LENGTH])
    _claim(plan, settings)
    chunks = range(math.ceil(total / CHUNK))
    missing = [chunk for chunk in chunks if not plan.part(chunk).exists()]
    done = total - sum(_size(chunk, total) for chunk in missing)
    if report:
        report(done, total)
    finished = _on_ray(plan, missing) if on == "ray" else _here(plan, missing)
    for chunk in finished:
        done += _size(chunk, total)
        if report:
            report(done, total)
    return Outcome(total, _put_together(plan, chunks))


@dataclass(frozen=True)
class _Plan:
    """What is predicted by what, and where the parts are until they are whole. Plain data: it travels."""

    model: Path
    places: tuple[str, ...]
    current_folder: Path  # what the places are relative to: another machine's may be another
    out: Path
    digest: str = ""  # of the settings, once they are known

    @property
    def parts(self) -> Path:
        """The folder beside the file that is to be."""
        return self.out.with_name(f"{self.out.name}.parts")

    def part(self, chunk: int) -> Path:
        """The file of a chunk."""
        return self.parts / f"{self.digest}-{chunk:08d}{self.out.suffix.lower()}"

    def source(self, model: TrainedModel) -> Source:
        """What is to be predicted."""
        places = [Place(place, folder=self.current_folder) for place in self.places]
        return open_sources(places, takes_texts=takes_texts(model))

    def form(self) -> _Form:
        """How the file is written, by its ending."""
        suffix = self.out.suffix.lower()
        if suffix not in _FORMS:
            raise InputError(f"--out must end in {', '.join(_FORMS)}, got {self.out.name}")
        return _FORMS[suffix]()


def _size(chunk: int, total: int) -> int:
    return min(CHUNK, total - chunk * CHUNK)


def _claim(plan: _Plan, settings: dict[str, Any]) -> None:
    """Make the folder for the parts, or know it again."""
    try:
        require_writable(plan.out)
    except OSError as error:
        raise _not_written(plan.out, error) from error
    path = plan.parts / SETTINGS
    if plan.parts.is_dir() and not path.exists():
        if not all(_is_ours(name) for name in os.listdir(plan.parts)):
            raise DataError(f"{plan.parts} holds files that are no parts of a prediction; move it away")
        _remove_parts(plan.parts)
    try:
        present = json.loads(path.read_text()) if path.exists() else None
    except ValueError as error:
        raise DataError(f"{path} is damaged; remove {plan.parts} to start anew") from error
    if present not in (None, settings):
        known = present if isinstance(present, dict) else {}
        others = ", ".join(name for name, value in settings.items() if known.get(name) != value)
        raise DataError(
            f"{plan.parts} holds parts of another prediction (not the same: {others}); "
            "remove it to start anew, or write to another file"
        )
    _write(path, json.dumps(settings).encode())


def _write(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise _not_written(path, error) from error


def _not_written(path: Path, error: OSError) -> DataError:
    return DataError(f"{path} can't be written: {why_not_written(error)}")


class _Worker:
    """Predicts chunks of a plan with a model that is loaded once; here, or as an actor of Ray."""

    def __init__(self, plan: _Plan) -> None:
        self._plan = plan
        self._model = TrainedModel.load(plan.model)
        self._source = plan.source(self._model)
        self._form = plan.form()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """{"chunk": number}: the part is written, the row is given back."""
        chunk = int(row["chunk"])
        start = chunk * CHUNK
        end = min(start + CHUNK, len(self._source))
        records = records_of(self._model, self._source.read(range(start, end)))
        _write(self._plan.part(chunk), self._form.part(records, self._model, is_first=chunk == 0))
        return row


def _here(plan: _Plan, chunks: list[int]) -> Iterator[int]:
    if chunks:
        worker = _Worker(plan)
        with freed_memory_kept():
            for chunk in chunks:
                worker({"chunk": chunk})
                yield chunk


def _on_ray(plan: _Plan, chunks: list[int]) -> Iterator[int]:
    if not chunks:
        return
    import ray.data

    ray.data.DataContext.get_current().enable_progress_bars = False
    todo = ray.data.from_items([{"chunk": chunk} for chunk in chunks], override_num_blocks=len(chunks))
    cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    actors = max(1, min(len(chunks), cores))
    done = todo.map(_Worker, fn_constructor_args=(plan,), concurrency=(1, actors))  # type: ignore[arg-type]
    for row in done.iter_rows():
        yield int(row["chunk"])


def _put_together(plan: _Plan, chunks: range) -> int:
    """All parts in order as one file, moved into place whole; then the parts are gone. The errors in it."""
    aside = plan.parts / f"{plan.digest}-{uuid.uuid4().hex}.whole"
    try:
        errors = plan.form().join([plan.part(chunk) for chunk in chunks], aside)
        move_atomically(aside, plan.out)
    except (OSError, ValueError, LookupError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise _not_written(plan.out, error) from error
        # Not the disk: a part is damaged.
        raise DataError(f"{plan.parts} can't be put together: {error}; remove it to start anew") from error
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(plan.out.parent)
    # First of all: parts without settings are those of a prediction that has ended.
    (plan.parts / SETTINGS).unlink()
    _remove_parts(plan.parts)
    with suppress(OSError):  # somebody else's files stay
        plan.parts.rmdir()
    return errors


def _remove_parts(folder: Path) -> None:
    for name in os.listdir(folder):
        if _is_ours(name):
            (folder / name).unlink()


def _is_ours(name: str) -> bool:
    """Whether a file is one of ours, or what a process that was killed while it wrote one left behind."""
    is_part = _OF_A_PREDICTION.fullmatch(name) is not None
    return is_part or name == SETTINGS or is_written_aside(name, SETTINGS)


class _Form(ABC):
    """How records are written: each part by itself, and the parts as one file."""

    @abstractmethod
    def part(self, records: list[Record], model: TrainedModel, is_first: bool) -> bytes:
        """The content of a part."""

    @abstractmethod
    def join(self, parts: list[Path], whole: Path) -> int:
        """Write all parts as one file; the number of records with an error."""


class _Lines(_Form):
    """Text: the parts one after the other."""

    def part(self, records: list[Record], model: TrainedModel, is_first: bool) -> bytes:
        return self.text(records, is_first).encode()

    @abstractmethod
    def text(self, records: list[Record], is_first: bool) -> str:
        """The lines of a part."""

    @abstractmethod
    def errors_in(self, part: Path) -> int:
        """The records of a part with an error."""

    def join(self, parts: list[Path], whole: Path) -> int:
        errors = 0
        with whole.open("wb") as file:
            for part in parts:
                errors += self.errors_in(part)
                file.write(part.read_bytes())
        return errors


class _JSONLines(_Lines):
    def text(self, records: list[Record], is_first: bool) -> str:
        return to_json_lines(records)

    def errors_in(self, part: Path) -> int:
        with part.open(encoding="utf-8") as lines:
            return sum(json.loads(line)["error"] is not None for line in lines)


class _CSV(_Lines):
    def text(self, records: list[Record], is_first: bool) -> str:
        return to_csv(records, header=is_first)

    def errors_in(self, part: Path) -> int:
        import csv

        csv.field_size_limit(LARGEST_CELL)  # the probabilities of thousands of classes are one cell
        with part.open(encoding="utf-8", newline="") as lines:
            rows = csv.reader(lines)
            return sum(row[-1] not in ("", "error") for row in rows)


class _Parquet(_Form):
    def __init__(self) -> None:
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("tables", "pyarrow") from error

    def part(self, records: list[Record], model: TrainedModel, is_first: bool) -> bytes:
        import pyarrow as pa
        import pyarrow.parquet as pq

        is_double = next(model.module.parameters()).dtype == torch.float64
        number = pa.float64() if is_double else pa.float32()
        columns = {
            "name": pa.string(),
            "answer": pa.string(),
            "label": pa.string(),
            "best": pa.string(),
            "accepted": pa.bool_(),
            "probability": number,
            "probabilities": pa.list_(number),
            "belief": pa.list_(number),
            "uncertainty": number,
            "entropy": number,
            "p_value": number,
            "set": pa.list_(pa.string()),
            "error": pa.string(),
        }
        about = {"nescio": json.dumps({"version": __version__, "classes": list(model.classes)})}
        table = pa.Table.from_pylist(records, schema=pa.schema(list(columns.items()), metadata=about))
        file = pa.BufferOutputStream()
        pq.write_table(table, file)
        return file.getvalue().to_pybytes()  # type: ignore[no-any-return]

    def join(self, parts: list[Path], whole: Path) -> int:
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        errors = 0
        writer = None
        try:
            for part in parts:
                table = pq.read_table(part)
                errors += pc.sum(pc.is_valid(table["error"])).as_py() or 0
                writer = writer or pq.ParquetWriter(whole, table.schema)
                writer.write_table(table)
        finally:
            if writer is not None:
                writer.close()
        return errors


_FORMS: dict[str, type[_Form]] = {".parquet": _Parquet, ".csv": _CSV, ".jsonl": _JSONLines}
