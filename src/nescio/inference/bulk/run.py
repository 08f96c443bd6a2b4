"""The run: chunks become parts, and the parts, once all are there, one file."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nescio._ray import start_ray
from nescio.errors import DataError, InputError, MissingExtraError
from nescio.inference.bulk.sources import open_source
from nescio.inference.model import TrainedModel

CHUNK = 1024  # inputs of a part
PLACES = ("here", "ray")


@dataclass(frozen=True)
class Outcome:
    """How many inputs there were, and how many could not be read."""

    inputs: int
    errors: int


@dataclass(frozen=True)
class Plan:
    """What is scored by what, and the folder for the parts until they are whole. Plain data: it travels."""

    model: Path
    source: Path
    out: Path

    @property
    def folder(self) -> Path:
        """Beside the file that is to be."""
        return self.out.with_name(f"{self.out.name}.parts")

    def part(self, chunk: int) -> Path:
        """The file of a chunk."""
        return self.folder / f"{chunk:08d}.parquet"


def score(
    model: str | Path,
    source: str | Path,
    out: str | Path,
    *,
    on: str = "here",
    report: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Write a Parquet file with one row for each input; begun before and stopped, it goes on.

    on: "here", or "ray" for Ray Data on the machines of a cluster, which must all see the files.
    report: called with the inputs done so far and their number in all.
    """
    _require_extra("pyarrow")
    if on not in PLACES:
        raise InputError(f"on must be one of {', '.join(PLACES)}, got {on!r}")
    if on == "ray":
        _require_extra("ray")
    plan = Plan(Path(model).resolve(), Path(source).resolve(), Path(out).resolve())
    total = _claim(plan)
    chunks = range(math.ceil(total / CHUNK))
    missing = [chunk for chunk in chunks if not plan.part(chunk).exists()]
    done = total - sum(_size(chunk, total) for chunk in missing)
    if report:
        report(done, total)
    for chunk in _on_ray(plan, missing) if on == "ray" else _here(plan, missing):
        done += _size(chunk, total)
        if report:
            report(done, total)
    errors = _put_together(plan, chunks)
    return Outcome(total, errors)


def _size(chunk: int, total: int) -> int:
    return min(CHUNK, total - chunk * CHUNK)


def _require_extra(package: str) -> None:
    try:
        __import__(package)
    except ImportError as error:
        raise MissingExtraError("cluster", package) from error


def _claim(plan: Plan) -> int:
    """Make the folder for the parts, or know it again; the number of inputs."""
    if plan.out.is_dir():
        raise InputError(f"--out must name a file, {plan.out} is a folder")
    trained = TrainedModel.load(plan.model)
    source = open_source(plan.source, trained.input_shape)
    settings = {
        "model": hashlib.sha256(plan.model.read_bytes()).hexdigest(),
        "inputs": source.fingerprint(),
        "chunk": CHUNK,
    }
    path = plan.folder / "settings.json"
    try:
        present = json.loads(path.read_text()) if path.exists() else None
    except ValueError as error:
        raise DataError(f"{path} is damaged; remove {plan.folder} to start anew") from error
    if present not in (None, settings):
        raise DataError(
            f"{plan.folder} holds parts of another scoring (model or inputs differ); remove it to start anew"
        )
    _write(path, json.dumps(settings).encode())
    return len(source)


def _write(path: Path, content: bytes) -> None:
    from nescio._files import write_atomically

    try:
        write_atomically(path, content)
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror or error}") from error


class Scorer:
    """Scores chunks of a plan with a model that is loaded once; here, or as an actor of Ray."""

    def __init__(self, plan: Plan) -> None:
        from nescio.inference.bulk.rows import Table

        self._plan, self._table = plan, Table(TrainedModel.load(plan.model))
        self._source = open_source(plan.source, self._table.model.input_shape)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """{"chunk": number}: the part is written, the row is given back."""
        start = int(row["chunk"]) * CHUNK
        content = self._table.parquet(self._source.read(start, start + CHUNK))
        _write(self._plan.part(int(row["chunk"])), content)
        return row


def _here(plan: Plan, chunks: list[int]) -> Iterator[int]:
    if chunks:
        scorer = Scorer(plan)
        for chunk in chunks:
            scorer({"chunk": chunk})
            yield chunk


def _on_ray(plan: Plan, chunks: list[int]) -> Iterator[int]:
    if not chunks:
        return
    import ray.data

    start_ray()
    ray.data.DataContext.get_current().enable_progress_bars = False
    todo = ray.data.from_items([{"chunk": chunk} for chunk in chunks], override_num_blocks=len(chunks))
    cores = int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
    actors = max(1, min(len(chunks), cores))
    scored = todo.map(Scorer, fn_constructor_args=(plan,), concurrency=(1, actors))  # type: ignore[arg-type]
    for row in scored.iter_rows():
        yield int(row["chunk"])


def _put_together(plan: Plan, chunks: range) -> int:
    """All parts in order as one file, moved into place whole; then the parts are gone. The errors in it."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    aside, errors, writer = plan.folder / "whole.parquet", 0, None
    try:
        for chunk in chunks:
            part = pq.read_table(plan.part(chunk))
            errors += pc.sum(pc.is_valid(part["error"])).as_py() or 0
            writer = writer or pq.ParquetWriter(aside, part.schema)
            writer.write_table(part)
    except OSError as error:
        raise DataError(f"{plan.folder} can't be put together: {error}; remove it to start anew") from error
    finally:
        if writer is not None:
            writer.close()
    os.replace(aside, plan.out)
    shutil.rmtree(plan.folder)
    return errors
