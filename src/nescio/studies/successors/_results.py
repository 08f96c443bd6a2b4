"""SuccessorResults: what has been measured of the study, by data set, arm and variant."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nescio.studies.results import Result, ResultSet, find, read_results
from nescio.studies.runner import store_in
from nescio.studies.study import Experiment, with_more_seeds
from nescio.studies.successors._arms import ARMS
from nescio.studies.successors._sets import SETS
from nescio.studies.successors.experiments import study_of

PLAIN = "plain"
TEMPERATURE = "temperature"
POSTHOC = "posthoc"
# A variant is what is said of an input: where its numbers are in the records.
VARIANTS: Mapping[str, tuple[str, ...]] = {
    PLAIN: ("plain",),
    TEMPERATURE: ("posthoc", "temperature"),
    POSTHOC: ("posthoc", "all"),
}
VARIANT_TITLES = {
    PLAIN: "as trained",
    TEMPERATURE: "with temperature",
    POSTHOC: "with temperature and trust",
}
OWN = "own"  # the measure of doubt of a method's authors


@dataclass(frozen=True)
class SuccessorResults(ResultSet):
    """The results of the study.

    Args:
        results: Results of its experiments.
        experiments: All that there should be.
    """

    results: Sequence[Result]
    experiments: Sequence[Experiment] = field(default_factory=tuple)

    @classmethod
    def read(cls, folder: Path, seeds: int | None = None) -> SuccessorResults:
        """What a folder has of the study.

        Args:
            folder: The folder of the study.
            seeds: So many seeds of each arm where these are more than the study's own number.

        Raises:
            DataError: If a record is damaged.
        """
        experiments = with_more_seeds(study_of(), None if seeds is None else study_of(seeds))
        return cls(read_results(experiments, store_in(folder)), experiments)

    def seeds(self, study_set: str, arm: str, variant: str, *path: str) -> list[float]:
        """A number of a variant, one for each seed that has it."""
        measurement, *parents = VARIANTS[variant]
        return self.values(study_set, arm, measurement, *parents, *path)

    def by_seed(self, study_set: str, arm: str, variant: str, *path: str) -> dict[int, float]:
        """A number of a variant, by the seed of the training."""
        measurement, *parents = VARIANTS[variant]
        found = {}
        for result in self.of(study_set, arm):
            value = find(result.numbers.get(measurement), (*parents, *path))
            if value is not None:
                found[result.seed] = value
        return found

    def scored(self, study_set: str, arm: str, ood: str, score: str) -> dict[int, float]:
        """The AUROC of an OOD score of the literature, by the seed of the training."""
        found = {}
        for result in self.of(study_set, arm):
            value = find(result.numbers.get("scores"), ("ood", ood, score, "auroc"))
            if value is not None:
                found[result.seed] = value
        return found

    def score(self, study_set: str, arm: str, variant: str, name: str) -> float | None:
        """The mean over the seeds of a score on known inputs, such as "nll"."""
        return _mean(self.seeds(study_set, arm, variant, "scores", name))

    def detections(
        self, study_set: str, arm: str, variant: str, ood: str, by: str = OWN, figure: str = "auroc"
    ) -> list[float]:
        """How well OOD inputs are detected, one number for each seed.

        Args:
            study_set, arm, variant: What was trained, and what is said of an input.
            ood: The name of the OOD set.
            by: The measure of doubt, or OWN for that of the method's authors.
            figure: "auroc", "aupr" or "fpr95".
        """
        return self.seeds(study_set, arm, variant, *detection_path(arm, ood, by, figure))

    def auroc(self, study_set: str, arm: str, variant: str, ood: str, by: str = OWN) -> float | None:
        """The mean AUROC over the seeds."""
        return _mean(self.detections(study_set, arm, variant, ood, by))

    def has(self, study_set: str, arm: str, variant: str = PLAIN) -> bool:
        """Whether there is a result of an arm on a data set."""
        return self.score(study_set, arm, variant, "nll") is not None

    def measured_sets(self) -> list[str]:
        """The data sets of which there is any result."""
        return [name for name, each in SETS.items() if any(self.has(name, arm) for arm in each.arms)]


def detection_path(arm: str, ood: str, by: str = OWN, figure: str = "auroc") -> tuple[str, ...]:
    """Where the numbers of a variant have how well OOD inputs are detected.

    Args:
        arm: The arm, whose authors' measure of doubt OWN is.
        ood: The name of the OOD set.
        by: The measure of doubt, or OWN.
        figure: "auroc", "aupr" or "fpr95".
    """
    if by == OWN:
        by = ARMS[arm].score
    return ("ood", ood, "by", by, figure)


def ood_pairs() -> list[tuple[str, str]]:
    """Every data set with each of its OOD sets."""
    pairs = []
    for name, each in SETS.items():
        for ood in each.ood:
            pairs.append((name, ood))
    return pairs


def _mean(values: Sequence[float]) -> float | None:
    if not values:
        return None
    return statistics.fmean(values)
