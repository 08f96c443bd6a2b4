"""Run experiments: train what is not trained, measure what is not measured, keep everything at once."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from nescio.data import load
from nescio.errors import NescioWarning, TrainingError
from nescio.inference.model import TrainedModel
from nescio.studies.sensoy2018.experiments import STRANGERS, TRANSFER, Experiment
from nescio.studies.sensoy2018.measuring import Numbers, measure, part_settings
from nescio.studies.sensoy2018.results import (
    TRAINING,
    Result,
    differing,
    plain,
    present_result,
    result_path,
    write_result,
)

Epoch = Callable[[str, dict[str, float]], None]


@dataclass(frozen=True)
class Told:
    """Who is told of the progress: lines for people, and the metrics of each epoch by experiment."""

    say: Callable[[str], None] = lambda line: None
    epoch: Epoch = lambda name, metrics: None


def run_all(experiments: Sequence[Experiment], folder: Path, told: Told | None = None) -> list[Result]:
    """All results, those that are there already as they are; one after the other, in this process."""
    told = told or Told()
    require_ready(experiments, folder)
    return [run_one(experiment, folder, told) for experiment in experiments]


def run_one(experiment: Experiment, folder: Path, told: Told | None = None) -> Result:
    """The result of one experiment, with every part that it asks for; written after each part."""
    told, run = told or Told(), run_folder(folder, experiment)
    result = present_result(folder, experiment)
    if not missing(experiment, result):
        return result
    model = trained(experiment, folder, told)
    result = present_result(folder, experiment)  # another process may have been at it meanwhile
    left = missing(experiment, result)
    for part in left:
        if part == TRAINING:
            numbers, seconds = training_numbers(run)
        else:
            source = trained(experiment.source, folder, told) if part == TRANSFER else None
            start = time.perf_counter()
            numbers, seconds = measure(part, experiment, model, source), time.perf_counter() - start
        with result_lock(folder, experiment):  # another process may have added parts meanwhile
            result = present_result(folder, experiment)
            result = result.with_part(part, settings_of(part, experiment), numbers, seconds)
            write_result(result_path(folder, experiment), result)
    if left:
        told.say(f"{experiment.name}: {', '.join(left)} measured")
    return result


def settings_of(part: str, experiment: Experiment) -> dict[str, object]:
    """What a part's numbers depend on beside what was trained: nothing, for those of the training."""
    return {} if part == TRAINING else part_settings(part, experiment)


def missing(experiment: Experiment, result: Result) -> list[str]:
    """The parts that are not there, or that were measured with other settings."""
    return [
        part
        for part in (TRAINING, *experiment.parts)
        if part not in result.parts or result.parts[part]["settings"] != plain(settings_of(part, experiment))
    ]


def require_ready(experiments: Sequence[Experiment], folder: Path) -> None:
    """Refuse, before any work, what would fail on the way: other settings, or data that can't be had."""
    left = [(each, missing(each, present_result(folder, each))) for each in experiments]
    needed = {each.study.data: "train" for each, parts in left if parts}
    needed |= {each.study.strangers: "test" for each, parts in left if STRANGERS in parts}
    for data, split in needed.items():
        load(data, split)


def run_folder(folder: Path, experiment: Experiment) -> Path:
    """Where a training keeps its progress and its model."""
    return folder / "checkpoints" / experiment.name


def result_lock(folder: Path, experiment: Experiment) -> BaseFileLock:
    """Held while a result is read and written again."""
    run = run_folder(folder, experiment)
    run.mkdir(parents=True, exist_ok=True)
    return FileLock(run / "result.lock")


def trained(experiment: Experiment, folder: Path, told: Told | None = None) -> TrainedModel:
    """The experiment's model: read, or trained to the end from wherever it stopped."""
    told, run = told or Told(), run_folder(folder, experiment)
    run.mkdir(parents=True, exist_ok=True)
    with _alone(run / "lock", lambda: told.say(f"{experiment.name}: another process is at it; waiting")):
        path = run / "model.safetensors"
        if path.exists():
            return _same_model(TrainedModel.load(path), experiment, run)
        told.say(f"{experiment.name}: training, {experiment.training.epochs} epochs")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NescioWarning)
            model = TrainedModel.train(
                load(experiment.study.data),
                experiment.method,
                experiment.network,
                experiment.training,
                run_dir=run,
                report=lambda metrics: told.epoch(experiment.name, metrics),
            )
        for message in dict.fromkeys(str(each.message) for each in caught):
            told.say(f"{experiment.name}: {message}")
        model.save(path)
        return model


@contextmanager
def _alone(path: Path, waits: Callable[[], None]) -> Iterator[None]:
    """Of the processes that need the same model one trains it. waits: called by those that have to."""
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waits()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _same_model(model: TrainedModel, experiment: Experiment, run: Path) -> TrainedModel:
    description = plain(experiment.description())
    before = {name: model.training[key] for name, key in (("method", "method"), ("network", "network"))}
    before |= {"training": model.training["settings"], "data": model.training["data"]["name"]}
    names = differing(plain(before), description)
    if names:
        raise TrainingError(
            f"{run} holds another training ({', '.join(names)} differ); use another --out, or remove it"
        )
    return model


def training_numbers(run: Path) -> tuple[Numbers, float]:
    """Loss and accuracy after each epoch as the training went, and its seconds."""
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    numbers = {name: [row[name] for row in rows] for name in ("loss", "accuracy", "uncertainty")}
    return numbers, sum(row["seconds"] for row in rows)
