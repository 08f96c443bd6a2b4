"""The grid of experiments: in this process, or as Ray tasks on one machine or a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from nescio._files import write_atomically
from nescio.errors import InputError, MissingExtraError
from nescio.studies.sensoy2018.engine import (
    Told,
    missing,
    require_ready,
    result_lock,
    run_all,
    run_folder,
    run_one,
    trained,
)
from nescio.studies.sensoy2018.experiments import TRANSFER, Experiment
from nescio.studies.sensoy2018.results import Result, present_result, read_result, result_path, write_result

PLACES = ("here", "ray")
Files = dict[str, bytes]

RETRIES = 10  # of a task whose worker or node died


def run_grid(
    experiments: Sequence[Experiment], folder: Path, on: str = "here", told: Told | None = None
) -> list[Result]:
    """All results, computed where they are missing. on: "here" or "ray"."""
    if on not in PLACES:
        raise InputError(f"on must be one of {', '.join(PLACES)}, got {on!r}")
    return run_all(experiments, folder, told) if on == "here" else run_on_ray(experiments, folder, told)


def run_on_ray(experiments: Sequence[Experiment], folder: Path, told: Told | None = None) -> list[Result]:
    """One task for each experiment with something missing; a task whose worker dies is given to another.

    A task gets what is there of its result and of the model that attacks are transferred from, and gives
    both back: the machines of a cluster need share no folder. Where they do, it goes on from the last epoch.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("cluster", "ray") from error
    told = told or Told()
    require_ready(experiments, folder)
    if not ray.is_initialized():
        ray.init(log_to_driver=False, include_dashboard=False)
    threads = torch.get_num_threads()
    most = max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"])  # type: ignore[no-untyped-call]
    task = ray.remote(num_cpus=min(threads, most), max_retries=RETRIES)(_remote)
    tasks: dict[Any, Experiment] = {}
    sources: dict[str, Any] = {}
    for experiment in _sources_first(experiments, folder):
        needed = sources.get(experiment.source.name) if TRANSFER in experiment.parts else None
        known = {one.name: _kept(folder, one) for one in (experiment, experiment.source)}
        reference = task.options(name=experiment.name).remote(
            experiment, str(folder.resolve()), known, needed, threads
        )
        tasks[reference] = experiment
        sources[experiment.name] = reference
    failures: list[Exception] = []
    while tasks:
        (done,), _ = ray.wait(list(tasks), num_returns=1)
        experiment = tasks.pop(done)
        try:
            _keep(folder, experiment, ray.get(done))
            told.say(f"{experiment.name}: done, {len(tasks)} left")
        except Exception as error:  # noqa: BLE001 - it ends the run, but not before the others' results are kept
            told.say(f"{experiment.name}: failed, {len(tasks)} left")
            failures.append(error)
    if failures:
        raise failures[0]
    return [read_result(result_path(folder, experiment)) for experiment in experiments]


def _sources_first(experiments: Sequence[Experiment], folder: Path) -> list[Experiment]:
    """Those with something missing, and before them the trainings that attacks are transferred from."""
    left = {each.name: each for each in experiments if missing(each, present_result(folder, each))}
    first: dict[str, Experiment] = {}
    for source in [each.source for each in left.values() if TRANSFER in each.parts]:
        first.setdefault(source.name, left.pop(source.name, source))
    return [*first.values(), *left.values()]


def _kept(folder: Path, experiment: Experiment) -> Files:
    """The files of an experiment that are here, by their place: its result, its model, its metrics."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in _files(folder, experiment)
        if path.exists()
    }


def _files(folder: Path, experiment: Experiment) -> tuple[Path, ...]:
    run = run_folder(folder, experiment)
    return result_path(folder, experiment), run / "model.safetensors", run / "metrics.jsonl"


def _keep(folder: Path, experiment: Experiment, files: Files) -> None:
    """Put a worker's files in place; parts of the result that are here and not there stay."""
    path = result_path(folder, experiment)
    with result_lock(folder, experiment):
        before = read_result(path) if path.exists() else None
        for place, content in files.items():
            if not (folder / place).exists() or (folder / place).read_bytes() != content:
                write_atomically(folder / place, content)
        if before is not None and path.exists():
            result = read_result(path)
            write_result(path, replace(result, parts={**before.parts, **result.parts}))


def _remote(
    experiment: Experiment, folder: str, known: dict[str, Files], source: Files | None, threads: int
) -> Files:
    """Run in a worker: put the files in place, run the experiment, give its files back."""
    torch.set_num_threads(threads)  # sums are added in another order by another number of threads
    here = Path(folder)
    for files in (*known.values(), source or {}):
        for place, content in files.items():
            if not (here / place).exists():
                write_atomically(here / place, content)
    if experiment.parts:
        run_one(experiment, here)
    else:
        trained(experiment, here)
    return _kept(here, experiment)
