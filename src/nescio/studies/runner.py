"""Run experiments: train what is not trained, measure what is not measured, here or on Ray.

A training lies in a folder of its own under its digest and goes on where it stopped. Every measurement is in
the store as soon as it is made. Processes may work side by side on one folder: of those that need the same
model one trains it, and the others wait. Where a model is gone and trained again, what was measured of the
former one is measured again too: all numbers of an experiment are of one network.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nescio._files import digest, write_atomically
from nescio._locks import one_at_a_time
from nescio._ray import require_place, start_ray
from nescio.data import load
from nescio.data._folders import RUN_MODEL
from nescio.errors import NescioWarning
from nescio.inference.model import TrainedModel
from nescio.studies.measurement import Measurement
from nescio.studies.plan import DIGEST_LENGTH, TrainingPlan
from nescio.studies.store import (
    TRAINING_SECONDS,
    WEIGHTS,
    Record,
    Store,
    of_other_network,
    of_several_networks,
    surroundings,
)
from nescio.studies.study import Experiment

RETRIES = 10  # of a task whose worker or node died

Files = dict[str, bytes]  # the content of files by their place in the study's folder


@dataclass(frozen=True)
class Progress:
    """Callbacks that follow a run.

    Args:
        say: Function that is called with lines for people.
        epoch: Function that is called with the name of an experiment and the metrics of an epoch.
        finished: Function that is called with the name of an experiment of which nothing is missing any more.
    """

    say: Callable[[str], None] = lambda line: None
    epoch: Callable[[str, dict[str, float]], None] = lambda name, metrics: None
    finished: Callable[[str], None] = lambda name: None


def store_in(folder: Path) -> Store:
    """The store of a study's folder."""
    return Store(folder / "store")


def run(
    experiments: Sequence[Experiment], folder: Path, on: str = "here", progress: Progress | None = None
) -> None:
    """Train and measure whatever is not in the folder's store yet.

    Args:
        experiments: What is to be there afterwards.
        folder: The folder of the study.
        on: "here", one after the other in this process, or "ray", one task for each on a cluster.
        progress: Callbacks that follow it.

    Raises:
        InputError: If on is neither, or a data set does not exist.
    """
    require_place(on)
    progress = progress or Progress()
    _require_data(experiments, folder)
    if on == "ray":
        _run_on_ray(experiments, folder, progress)
        return
    for experiment in experiments:
        _run_one(experiment, folder, progress)


def missing(experiment: Experiment, folder: Path) -> list[Measurement]:
    """The measurements of an experiment that are not in the store.

    Where those that are there are of several networks, all of them: what is of the network at hand stays.

    Raises:
        DataError: If a record is damaged.
    """
    records = _records(experiment, folder)
    if of_several_networks([record.provenance for record in records.values()]):
        return list(experiment.measurements)
    return [each for each in experiment.measurements if each.name not in records]


def _records(experiment: Experiment, folder: Path) -> dict[str, Record]:
    """What the store has of an experiment in the present versions, by the name of the measurement."""
    store = store_in(folder)
    records = {}
    for measurement in experiment.measurements:
        if store.has(experiment.plan, measurement):
            record = store.read(experiment.plan, measurement)
            assert record is not None
            records[measurement.name] = record
    return records


def is_trained(plan: TrainingPlan, folder: Path) -> bool:
    """Whether the model of a training is there."""
    return _model_path(folder, plan).exists()


def _require_data(experiments: Sequence[Experiment], folder: Path) -> None:
    """Load what will be needed, so that data that can't be had are refused before any work."""
    needed = {}
    for experiment in experiments:
        for measurement in missing(experiment, folder):
            needed[experiment.plan.data, "train"] = True
            for data, split in measurement.data.items():
                needed[data, split] = True
    for data, split in needed:
        load(data, split)


def _run_one(experiment: Experiment, folder: Path, progress: Progress | None = None) -> None:
    """Measure what is missing of one experiment, training its model first where that is not there."""
    progress = progress or Progress()
    if not missing(experiment, folder):
        return
    model = train(experiment.plan, folder, experiment.name, progress)
    network = _network_of(model)
    # Asked after the training: another process may have measured while this one waited for the model.
    records = _records(experiment, folder)
    former = [name for name, record in records.items() if of_other_network(record.provenance, network)]
    if former:
        progress.say(
            f"{experiment.name}: {', '.join(former)} in the store of another network than the one at hand, "
            "measuring again"
        )
    measured = []
    for measurement in experiment.measurements:
        if measurement.name in records and measurement.name not in former:
            continue
        source_name = f"{experiment.name}, source of {measurement.name}"
        sources = [train(plan, folder, source_name, progress) for plan in measurement.sources]
        start = time.perf_counter()
        numbers = measurement.run(model, sources)
        seconds = time.perf_counter() - start
        provenance = {"for": experiment.name, **surroundings(), "seconds": round(seconds, 2), **network}
        record = Record(measurement.settings(), experiment.plan.description(), numbers, provenance)
        store_in(folder).write(record, replace=measurement.name in former)
        measured.append(measurement.name)
    progress.finished(experiment.name)
    if measured:
        progress.say(f"{experiment.name}: {', '.join(measured)} measured")


def _network_of(model: TrainedModel) -> dict[str, Any]:
    """What tells a network from others that were trained with the same settings."""
    tensors = {name: tensor.cpu() for name, tensor in model.module.state_dict().items()}
    training_seconds = sum(row["seconds"] for row in model.training["history"])
    return {TRAINING_SECONDS: round(training_seconds, 2), WEIGHTS: digest(tensors)[:DIGEST_LENGTH]}


def _run_folder(folder: Path, plan: TrainingPlan) -> Path:
    """Where a training keeps its progress and its model."""
    return folder / "checkpoints" / plan.digest


def _model_path(folder: Path, plan: TrainingPlan) -> Path:
    return _run_folder(folder, plan) / RUN_MODEL


def train(plan: TrainingPlan, folder: Path, name: str = "", progress: Progress | None = None) -> TrainedModel:
    """The model of a plan: read, or trained to the end from wherever its training stopped.

    Args:
        plan: What is trained.
        folder: The folder of the study.
        name: What the training is called in messages.
        progress: Callbacks that follow it.
    """
    progress = progress or Progress()
    own_folder = _run_folder(folder, plan)
    path = _model_path(folder, plan)

    def say_who(holder: str) -> None:
        progress.say(f"{name}: {holder} is at it; waiting")

    with one_at_a_time(own_folder / "lock", say_who):
        if path.exists():
            return TrainedModel.load(path)
        settings = plan.settings()
        progress.say(f"{name}: training, {settings.epochs} epochs")
        data, held_out = plan.load_data()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", NescioWarning)
            model = TrainedModel.train(
                data,
                plan.build_method(),
                plan.build_encoder(),
                settings,
                held_out=held_out,
                run_dir=own_folder,
                report=lambda metrics: progress.epoch(name, metrics),
            )
        reported = set()
        for warning in caught:
            message = str(warning.message)
            if message not in reported:
                progress.say(f"{name}: {message}")
                reported.add(message)
        model.save(path)
        return model


def _run_on_ray(experiments: Sequence[Experiment], folder: Path, progress: Progress | None = None) -> None:
    """One task for each experiment with something missing; a task whose worker dies is given to another.

    A task gets the models that are there and gives its files back: the machines of a cluster need share no
    folder. Where they do, a training goes on from its last epoch.

    Raises:
        MissingExtraError: If Ray is not installed.
    """
    ray = start_ray()
    progress = progress or Progress()
    threads = torch.get_num_threads()
    most = _most_processors(ray)
    task = ray.remote(num_cpus=min(threads, most), max_retries=RETRIES)(_remote)
    running: dict[Any, Experiment] = {}
    training: dict[str, Any] = {}  # by the digest of its plan, the task that makes a model
    for experiment in _sources_first(experiments, folder):
        plans = [experiment.plan, *_sources(experiment.measurements)]
        known = _models(folder, plans) | _record_files(folder, experiment)
        # The task of another experiment with the same plan is waited for too: both measure one network.
        needed = [training[plan.digest] for plan in plans if plan.digest in training]
        reference = task.options(name=experiment.name).remote(
            experiment, str(folder.resolve()), known, threads, *needed
        )
        running[reference] = experiment
        training[experiment.plan.digest] = reference
    failures: list[Exception] = []
    while running:
        (done,), _ = ray.wait(list(running), num_returns=1)
        experiment = running.pop(done)
        try:
            replaced = _write_files(folder, ray.get(done), replace=True)
            progress.finished(experiment.name)
            if replaced:
                progress.say(f"{experiment.name}: of another network, replaced: {', '.join(replaced)}")
            progress.say(f"{experiment.name}: done, {len(running)} left")
        except Exception as error:  # noqa: BLE001 - it ends the run, but not before the others' results are kept
            progress.say(f"{experiment.name}: failed, {len(running)} left")
            failures.append(error)
    if failures:
        raise failures[0]


def _most_processors(ray: Any) -> float:
    """Of the machine of a cluster that has most."""
    most = 1.0
    for node in ray.nodes():
        if node["Alive"]:
            most = max(most, node["Resources"].get("CPU", 1))
    return most


def _sources_first(experiments: Sequence[Experiment], folder: Path) -> list[Experiment]:
    """Those with something missing, and before them the trainings whose models they need."""
    left = []
    sources: dict[str, tuple[Experiment, TrainingPlan]] = {}
    for experiment in experiments:
        to_measure = missing(experiment, folder)
        if not to_measure:
            continue
        left.append(experiment)
        if not is_trained(experiment.plan, folder):
            # Of a network that is trained again nothing is there, whatever there is of a former one.
            to_measure = list(experiment.measurements)
        for plan in _sources(to_measure):
            sources.setdefault(plan.digest, (experiment, plan))
    by_plan = {each.plan.digest: each for each in left}
    first: list[Experiment] = []
    for digest_of_plan, (experiment, plan) in sources.items():
        if digest_of_plan in by_plan:
            first.append(by_plan[digest_of_plan])
        elif not is_trained(plan, folder):
            first.append(Experiment(experiment.comparison, f"source of {experiment.arm}", plan))
    # By identity: two experiments may have the same plan, and both are run.
    rest = [each for each in left if not any(each is other for other in first)]
    return [*first, *rest]


def _sources(measurements: Sequence[Measurement]) -> list[TrainingPlan]:
    found: dict[str, TrainingPlan] = {}
    for measurement in measurements:
        for plan in measurement.sources:
            found[plan.digest] = plan
    return list(found.values())


def _models(folder: Path, plans: Sequence[TrainingPlan]) -> Files:
    """The models of these plans that are here."""
    files = {}
    for plan in plans:
        path = _model_path(folder, plan)
        if path.exists():
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def _record_files(folder: Path, experiment: Experiment) -> Files:
    """The records of an experiment that are here."""
    files = {}
    for measurement in experiment.measurements:
        path = store_in(folder).path(experiment.plan, measurement)
        if path.exists():
            files[str(path.relative_to(folder))] = path.read_bytes()
    return files


def _write_files(folder: Path, files: Files, replace: bool = False) -> list[str]:
    """Put files in place.

    Args:
        folder: The folder of the study.
        files: What is put there.
        replace: Whether files that are there and differ are replaced; else they stay.

    Returns:
        The names of the files that were replaced.
    """
    replaced = []
    for place, content in files.items():
        path = folder / place
        if not path.exists():
            write_atomically(path, content)
        elif replace and path.read_bytes() != content:
            write_atomically(path, content)
            replaced.append(path.name)
    return replaced


def _remote(experiment: Experiment, folder: str, known: Files, threads: int, *needed: Files) -> Files:
    """Run in a worker: put the files in place, run the experiment, give its model and its records back."""
    torch.set_num_threads(threads)  # sums are added in another order by another number of threads
    here = Path(folder)
    for files in (known, *needed):
        _write_files(here, files)
    train(experiment.plan, here, experiment.name)
    _run_one(experiment, here)
    return _models(here, [experiment.plan]) | _record_files(here, experiment)
