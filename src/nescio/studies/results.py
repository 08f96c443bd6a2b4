"""ResultSet: the results of a study, to look numbers up in. What was not measured is None, never an error."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nescio.studies.store import Record, Store, of_several_networks
from nescio.studies.study import Experiment


@dataclass(frozen=True)
class Result:
    """What is known of one experiment.

    Args:
        comparison, arm, seed: What tells the experiment from others.
        numbers: What was measured, by the name of the measurement.
        settings: Settings by the name of the measurement.
        training: The description of the training.
        provenance: Where and in what time it was made, by the name of the measurement.
    """

    comparison: str
    arm: str
    seed: int
    numbers: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class ResultSet:
    """The results of experiments.

    Args:
        results: Results in the order of the experiments; those without any measurement are left out.
    """

    results: Sequence[Result]

    def of(self, comparison: str | None, arm: str) -> list[Result]:
        """The results of an arm, one for each seed, in the order of the seeds."""
        found = [each for each in self.results if each.comparison == comparison and each.arm == arm]
        return sorted(found, key=lambda each: each.seed)

    def numbers(self, comparison: str | None, arm: str, measurement: str) -> list[Any]:
        """What was measured, for each seed that has it."""
        results = self.of(comparison, arm)
        return [each.numbers[measurement] for each in results if measurement in each.numbers]

    def values(self, comparison: str | None, arm: str, measurement: str, *path: str) -> list[float]:
        """One number for each seed that has it, found by the names on the path."""
        found = []
        for numbers in self.numbers(comparison, arm, measurement):
            value = find(numbers, path)
            if value is not None:
                found.append(value)
        return found

    def mean(self, comparison: str | None, arm: str, measurement: str, *path: str) -> float | None:
        """The mean over the seeds; None where there is none."""
        values = self.values(comparison, arm, measurement, *path)
        if not values:
            return None
        return statistics.fmean(values)

    def arms(self, comparison: str | None, measurement: str, among: Sequence[str]) -> list[str]:
        """Those of these arms that have results of a measurement."""
        return [arm for arm in among if self.numbers(comparison, arm, measurement)]


def read_results(experiments: Sequence[Experiment], store: Store) -> list[Result]:
    """What the store has of these experiments."""
    results = []
    for experiment in experiments:
        records: dict[str, Record] = {}
        for measurement in experiment.measurements:
            record = store.read(experiment.plan, measurement)
            if record is not None:
                records[measurement.name] = record
        if records:
            results.append(_result(experiment, records))
    return results


def unfinished(experiments: Sequence[Experiment], results: Sequence[Result]) -> list[Experiment]:
    """Those of the experiments whose measurements are not all among the results."""
    measured: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for result in results:
        measured[result.comparison, result.arm, result.seed] = result.numbers
    missing = []
    for experiment in experiments:
        present = measured.get((experiment.comparison, experiment.arm, experiment.plan.seed), {})
        if any(measurement.name not in present for measurement in experiment.measurements):
            missing.append(experiment)
    return missing


def mixed(results: Sequence[Result]) -> list[Result]:
    """Those of the results whose measurements are of different networks, trained with the same settings."""
    return [result for result in results if of_several_networks(list(result.provenance.values()))]


def _result(experiment: Experiment, records: Mapping[str, Record]) -> Result:
    numbers = {}
    settings = {}
    provenance = {}
    for name, record in records.items():
        numbers[name] = record.numbers
        settings[name] = record.measurement
        provenance[name] = record.provenance
    training = experiment.plan.description()
    return Result(
        experiment.comparison, experiment.arm, experiment.plan.seed, numbers, settings, training, provenance
    )


def find(numbers: Any, path: Sequence[str]) -> Any:
    """What is found in nested numbers by the names on the path; None where there is nothing."""
    for name in path:
        if numbers is None:
            return None
        numbers = numbers.get(name)
    return numbers
