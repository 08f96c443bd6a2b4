"""Killed at random moments: trainings, saves, predictions in bulk and a study, for benchmarks.faults.

Work is done in a fork of this process, which is killed with SIGKILL. Started again as often as it is killed,
it must end with the same bits as one that nobody disturbed, and leave nothing else behind.
"""

import hashlib
import json
import os
import random
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple

import torch

from nescio.data import Table
from nescio.encoders import MLPSpec
from nescio.inference.bulk import predict_to_file
from nescio.inference.model import TrainedModel
from nescio.inference.records import CHUNK
from nescio.methods import EDL
from nescio.studies.measurement import Measurement, Numbers
from nescio.studies.plan import TrainingPlan
from nescio.studies.runner import run, store_in
from nescio.studies.store import PROVENANCE
from nescio.studies.study import Experiment
from nescio.training import TrainingSettings

POLL_SECONDS = 0.001
MOST_SECONDS = 600.0  # for work that is not killed
TIMES = ("seconds", "samples_per_second")  # in metrics: they differ from run to run


class Kills(NamedTuple):
    """What became of work that was killed so often."""

    kills: int
    ended: int  # pieces of work that came to their end
    faults: list[str]


class Work(NamedTuple):
    """Something that is done in a folder, and what must be the same of it in the end."""

    do: Callable[[Path], None]
    result: Callable[[Path], object]


def attempt(do: Callable[[Path], None], folder: Path, seconds: float) -> str:
    """Do it in a process of its own, killed after so many seconds: "killed", "ended" or "failed"."""
    process = os.fork()
    if process == 0:
        code = 3
        try:
            do(folder)
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends here, whatever came
            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(process, os.WNOHANG)
        if done:
            return "ended" if status == 0 else "failed"
        time.sleep(POLL_SECONDS)
    os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    if os.WIFEXITED(status):  # it was quicker than the signal
        return "ended" if os.WEXITSTATUS(status) == 0 else "failed"
    return "killed"


def files_in(folder: Path) -> list[str]:
    """Every file and folder below, by its path."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def killed(work: Work, kills: int, place: Path, seed: int) -> Kills:
    """Begin the work anew until it was killed so often; each piece is brought to its end."""
    moments = random.Random(seed)
    warm = place / "warm"
    warm.mkdir(parents=True)
    work.do(warm)  # in this process: what it imports need not be imported by every fork
    shutil.rmtree(warm)
    whole = place / "whole"
    whole.mkdir()
    start = time.monotonic()
    if attempt(work.do, whole, MOST_SECONDS) != "ended":
        return Kills(0, 0, ["it does not end even where nobody kills it"])
    taken = time.monotonic() - start
    expected = work.result(whole)
    expected_files = files_in(whole)
    faults: list[str] = []
    count = 0
    ended = 0
    while count < kills:
        folder = place / f"killed-{ended}"
        folder.mkdir()
        state = "killed"
        while state == "killed":
            # Once enough were killed, the last one is let to its end.
            seconds = moments.uniform(0, taken) if count < kills else MOST_SECONDS
            state = attempt(work.do, folder, seconds)
            count += state == "killed"
        ended += 1
        if state == "failed":
            faults.append(f"{folder}: started again, it failed")
        elif work.result(folder) != expected:
            faults.append(f"{folder}: another result")
        elif files_in(folder) != expected_files:
            left = sorted(set(files_in(folder)) ^ set(expected_files))
            faults.append(f"{folder}: other files: {', '.join(left[:5])}")
        else:
            shutil.rmtree(folder)
    return Kills(count, ended, faults)


def rows(count: int, seed: int = 0) -> Table:
    """Rows (count, 4) of three classes that lie apart."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    features = torch.randn(count, 4, generator=generator) + 3 * torch.nn.functional.one_hot(labels, 4)
    return Table(features, labels, ("a", "b", "c"), "made")


def trained(folder: Path | None = None, epochs: int = 6) -> TrainedModel:
    """A small network, trained in a second."""
    settings = TrainingSettings(epochs=epochs, batch_size=64, device="cpu")
    return TrainedModel.train(
        rows(300), EDL(), MLPSpec(4, 3, (16,)), settings, held_out=rows(90, seed=1), run_dir=folder
    )


def digest_of(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def weights_in(path: Path) -> dict[str, list[float]]:
    """The weights of a model file, as plain numbers."""
    state = TrainedModel.load(path).module.state_dict()
    return {name: tensor.flatten().tolist() for name, tensor in state.items()}


def train_and_save(folder: Path) -> None:
    """A run, and its model beside it."""
    trained(folder / "run").save(folder / "run" / "model.safetensors")


def metrics_of(folder: Path) -> list[dict[str, float]]:
    """What was measured in each epoch of a run, times left out."""
    found = []
    for line in (folder / "metrics.jsonl").read_text().splitlines():
        found.append({name: value for name, value in json.loads(line).items() if name not in TIMES})
    return found


def of_training(folder: Path) -> object:
    """The weights, and a row for every epoch."""
    return weights_in(folder / "run" / "model.safetensors"), metrics_of(folder / "run")


def kill_trainings(kills: int, place: Path) -> Kills:
    """Same bits, and a row of metrics for every epoch."""
    return killed(Work(train_and_save, of_training), kills, place, seed=1)


def kill_saves(kills: int, place: Path) -> Kills:
    """A file is the old or the new one, whenever its writer is killed; what is left of it goes."""
    place.mkdir(parents=True)
    models = [trained(epochs=1), trained(epochs=2)]
    path = place / "model.safetensors"
    digests = []
    for model in models:
        model.save(path)
        digests.append(digest_of(path))

    def save_for_ever(folder: Path) -> None:
        while True:
            for model in models:
                model.save(folder / "model.safetensors")

    start = time.monotonic()
    models[0].save(path)
    taken = time.monotonic() - start
    moments = random.Random(2)
    faults = []
    for number in range(kills):
        # From within the first save to some saves later.
        if attempt(save_for_ever, place, moments.uniform(0, 4 * taken) + POLL_SECONDS) != "killed":
            faults.append(f"kill {number}: it failed")
        if digest_of(path) not in digests:
            faults.append(f"kill {number}: {path} is neither the old nor the new file")
    models[0].save(path)
    if files_in(place) != [path.name]:
        faults.append(f"files were left: {', '.join(files_in(place))}")
    return Kills(kills, 1, faults)


class Bulk:
    """Predictions for two parts of rows: same rows, and neither parts nor locks in the end."""

    def __init__(self, place: Path) -> None:
        place.mkdir(parents=True)
        self.model = place / "model.safetensors"
        self.inputs = place / "rows.csv"
        trained(epochs=1).save(self.model)
        lines = ["w,x,y,z"]
        for row in rows(CHUNK + 100).inputs[:].tolist():
            lines.append(",".join(f"{value:.4f}" for value in row))
        self.inputs.write_text("\n".join(lines) + "\n")

    def do(self, folder: Path) -> None:
        """To a file of each kind. What was killed is called again, also in its last steps."""
        for ending in ("csv", "jsonl", "parquet"):
            out = folder / f"answers.{ending}"
            is_ended = [path for path in folder.iterdir() if out.name in path.name] == [out]
            if not is_ended:
                predict_to_file(self.model, [self.inputs], out)

    def result(self, folder: Path) -> object:
        """The bytes of the files."""
        return [digest_of(path) for path in sorted(folder.glob("answers.*")) if path.is_file()]


def kill_bulk(kills: int, place: Path) -> Kills:
    """Same rows."""
    bulk = Bulk(place / "inputs")
    return killed(Work(bulk.do, bulk.result), kills, place, seed=3)


class Evidence(Measurement):
    """The mean uncertainty on noise: a number that the weights decide."""

    name: ClassVar[str] = "evidence"

    def run(self, model: TrainedModel, sources: object = ()) -> Numbers:
        """One number."""
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(0, 256, (64, *model.preprocess.input_shape), generator=generator)
        return {"uncertainty": float(model.predict(images.to(torch.uint8)).uncertainty.mean())}


def experiments() -> list[Experiment]:
    """Two trainings on some digits, and a measurement of each."""
    found = []
    for seed in (0, 1):
        plan = TrainingPlan(
            data="digits",
            held_out=0,
            method={"name": "edl"},
            encoder={"kind": "lenet", "num_classes": 2, "filters": [2, 4], "hidden": 8},
            training={"epochs": 3, "batch_size": 128, "device": "cpu", "seed": seed},
            classes=("0", "1"),
        )
        found.append(Experiment("digits", "edl", plan, (Evidence(),)))
    return found


def do_study(folder: Path) -> None:
    """All of it."""
    run(experiments(), folder)


def of_study(folder: Path) -> object:
    """Every record of the store but when and where it was made."""
    found = {}
    for path in store_in(folder).paths():
        record = json.loads(path.read_text())
        del record[PROVENANCE]
        found[path.name] = record
    return found


def kill_studies(kills: int, place: Path) -> Kills:
    """Same results."""
    return killed(Work(do_study, of_study), kills, place, seed=4)


KILLED: dict[str, Callable[[int, Path], Kills]] = {
    "training": kill_trainings,
    "saving": kill_saves,
    "predicting in bulk": kill_bulk,
    "a study": kill_studies,
}
