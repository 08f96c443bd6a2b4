"""PaperResults: what has been measured of a preset, by the parts that the paper's data sets play."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nescio.studies._estimates import Estimate, estimate
from nescio.studies.results import Result, ResultSet, read_results
from nescio.studies.runner import store_in
from nescio.studies.sensoy2018._arms import COMPARED
from nescio.studies.sensoy2018.presets import PRESETS, Comparison, study_of
from nescio.studies.study import Experiment, with_more_seeds

MNIST = "mnist"
CIFAR5 = "cifar5"
# What plays the part of each of the paper's data sets. `quick` has nothing for CIFAR5.
ROLES: Mapping[str, Mapping[str, str | None]] = {
    "paper": {MNIST: "mnist", CIFAR5: "cifar5"},
    "quick": {MNIST: "digits", CIFAR5: None},
}
TITLES = {"mnist": "MNIST", "cifar5": "CIFAR5", "digits": "digits", "dead_classes": "digits"}
OOD_TITLES = {"mnist": "notMNIST", "cifar5": "the unseen classes of CIFAR-10", "digits": "letters"}
DIGITS_OF = {MNIST: 2, CIFAR5: 1}  # decimals of an accuracy in percent
# The greatest that a number can be, where that is not 1. "median" and "highest" are of evidence.
MOST = {"nll": math.inf, "brier": 2.0, "median": math.inf, "highest": math.inf}


@dataclass(frozen=True)
class PaperResults(ResultSet):
    """The results of a preset.

    Args:
        results: Results of its experiments.
        preset: "quick" or "paper".
        experiments: All that there should be.
    """

    results: Sequence[Result]
    preset: str
    experiments: Sequence[Experiment] = field(default_factory=tuple)

    @classmethod
    def read(cls, folder: Path, preset: str, seeds: int | None = None) -> PaperResults:
        """What a folder has of a preset.

        Args:
            folder: The folder of the study.
            preset: "quick" or "paper".
            seeds: So many seeds of each arm where these are more than the preset's own number.

        Raises:
            InputError: If there is no such preset.
            DataError: If a record is damaged.
        """
        experiments = with_more_seeds(study_of(preset), None if seeds is None else study_of(preset, seeds))
        return cls(read_results(experiments, store_in(folder)), preset, experiments)

    @property
    def comparisons(self) -> list[str]:
        """The names of the comparisons that play a part of the paper's, in its order."""
        return [name for name in ROLES[self.preset].values() if name is not None]

    def comparison(self, role: str) -> str | None:
        """The comparison that plays a data set's part."""
        return ROLES[self.preset][role]

    def preset_comparisons(self) -> list[Comparison]:
        """As the preset has them, those that play a part of the paper's."""
        return [each for each in PRESETS[self.preset] if each.name in self.comparisons]

    def listed(self, comparison: str | None) -> list[str]:
        """The compared arms that the preset has in a comparison, whether they are measured or not."""
        for each in PRESETS[self.preset]:
            if each.name == comparison:
                present = {entry.arm for entry in each.entries}
                return [arm for arm in COMPARED if arm in present]
        return []

    def compared(self, comparison: str | None, measurement: str) -> list[str]:
        """Those of the compared arms that have results of a measurement."""
        return self.arms(comparison, measurement, COMPARED)

    def share(self, comparison: str | None, arm: str, measurement: str, *path: str) -> Estimate | None:
        """A share of the test images with its interval."""
        values = self.values(comparison, arm, measurement, *path)
        return estimate(values, is_share=True, images=self.images(comparison, arm, measurement))

    def average(self, comparison: str | None, arm: str, measurement: str, *path: str) -> Estimate | None:
        """A number that is no share of images; its interval needs three seeds."""
        most = MOST.get(path[-1], 1.0)
        return estimate(self.values(comparison, arm, measurement, *path), most=most)

    def images(self, comparison: str | None, arm: str, measurement: str) -> int | None:
        """On how many images something was measured; of both sets, the known ones."""
        found = self.numbers(comparison, arm, measurement)
        if not found or "images" not in found[0]:
            return None
        images = found[0]["images"]
        if isinstance(images, Mapping):
            return int(images["known"])
        return int(images)

    def setting(self, comparison: str | None, measurement: str, name: str) -> list[Any]:
        """The values of a setting of a measurement over the compared arms, each once."""
        found: list[Any] = []
        for arm in COMPARED:
            for result in self.of(comparison, arm):
                settings = result.settings.get(measurement, {})
                if name in settings and settings[name] not in found:
                    found.append(settings[name])
        return found
