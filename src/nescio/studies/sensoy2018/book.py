"""Book: all results of a preset, to look numbers up in. What was not measured is None, never an error."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nescio.errors import InputError
from nescio.studies.sensoy2018.engine import missing
from nescio.studies.sensoy2018.experiments import COMPARED, PRESETS, VARIANTS, Experiment, Study
from nescio.studies.sensoy2018.results import Result, differing, plain, read_results

MNIST, CIFAR5 = "mnist", "cifar5"
# What plays the part of each of the paper's data sets. `quick` has nothing for CIFAR5.
ROLES: Mapping[str, Mapping[str, str | None]] = {
    "paper": {MNIST: "mnist", CIFAR5: "cifar5"},
    "quick": {MNIST: "digits", CIFAR5: None},
}
TITLES = {"mnist": "MNIST", "cifar5": "CIFAR5", "digits": "digits", "deaths": "digits"}
STRANGERS_OF = {"mnist": "notMNIST", "cifar5": "the unseen classes of CIFAR-10", "digits": "letters"}


@dataclass(frozen=True)
class Book:
    """The results of one preset. left_out: the names of what else is in its folder."""

    preset: str
    results: Sequence[Result]
    left_out: Sequence[str] = ()

    @classmethod
    def read(cls, folder: Path, preset: str) -> Book:
        """What in a folder was trained and measured with the preset's settings."""
        if preset not in PRESETS:
            raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
        studies = {study.name: study for study in PRESETS[preset]}
        kept, left_out = [], []
        for result in read_results(folder):
            name = f"{result.study}/{result.variant}-{result.seed}"
            experiment = _experiment(result, studies.get(result.study))
            if experiment is None:
                left_out.append(name)
                continue
            stale = [part for part in missing(experiment, result) if part in result.parts]
            left_out += [f"{name}: {part}" for part in stale]
            parts = {part: found for part, found in result.parts.items() if part not in stale}
            kept.append(replace(result, parts=parts))
        return cls(preset, kept, left_out)

    @property
    def studies(self) -> list[str]:
        """The names of the studies that play a part of the paper's, in its order."""
        return [study for study in ROLES[self.preset].values() if study is not None]

    def study(self, role: str) -> str | None:
        """The study that plays a data set's part."""
        return ROLES[self.preset][role]

    def of(self, study: str | None, variant: str) -> list[Result]:
        """A variant's results in a study, one for each seed, in order."""
        found = [each for each in self.results if (each.study, each.variant) == (study, variant)]
        return sorted(found, key=lambda each: each.seed)

    def numbers(self, study: str | None, variant: str, part: str) -> list[Any]:
        """Of a part, for each seed that has it."""
        return [found for each in self.of(study, variant) if (found := each.numbers(part)) is not None]

    def values(self, study: str | None, variant: str, part: str, *path: str) -> list[float]:
        """One number for each seed that has it, found in the part by the names on the path."""
        found = [at(numbers, path) for numbers in self.numbers(study, variant, part)]
        return [value for value in found if value is not None]

    def mean(self, study: str | None, variant: str, part: str, *path: str) -> float | None:
        """Over the seeds; None where there is none."""
        values = self.values(study, variant, part, *path)
        return statistics.fmean(values) if values else None

    def variants(self, study: str | None, part: str, among: Sequence[str] = COMPARED) -> list[str]:
        """Those with results of a part, in the order of the tables."""
        return [name for name in among if self.numbers(study, name, part)]


def _experiment(result: Result, study: Study | None) -> Experiment | None:
    """Of which it is a result; None where it was trained with other settings, or is none of the study's."""
    if study is None or result.variant not in {line.variant for line in study.lines}:
        return None
    experiment = Experiment(VARIANTS[result.variant], study, result.seed)
    return None if differing(result.trained, plain(experiment.description())) else experiment


def at(numbers: Any, path: Sequence[str]) -> Any:
    """What is found in nested numbers by the names on the path; None where there is nothing."""
    for name in path:
        if numbers is None:
            return None
        numbers = numbers.get(name)
    return numbers


def label(variant: str) -> str:
    """A variant's name for people."""
    return VARIANTS[variant].label


def percent(value: float | None, digits: int = 1) -> str:
    """A share for people."""
    return "-" if value is None else f"{100 * value:.{digits}f}"


def spread(values: Sequence[float], digits: int = 1, scale: float = 100.0) -> str:
    """A mean over seeds with its standard deviation, times the scale; a dash for none."""
    if not values:
        return "-"
    text = f"{scale * statistics.fmean(values):.{digits}f}"
    return text if len(values) == 1 else f"{text} ± {scale * statistics.stdev(values):.{digits}f}"
