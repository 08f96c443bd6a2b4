"""Study: the experiments that belong together. An experiment is one training and what is measured of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nescio.errors import InputError
from nescio.studies.measurement import Measurement
from nescio.studies.plan import TrainingPlan


@dataclass(frozen=True)
class Experiment:
    """One training and what is measured of it.

    Args:
        comparison: The comparison that it is part of, as "mnist".
        arm: What is compared there with other arms, as "edl".
        plan: What is trained.
        measurements: What is measured, each under a name of its own.
    """

    comparison: str
    arm: str
    plan: TrainingPlan
    measurements: tuple[Measurement, ...] = ()

    @property
    def name(self) -> str:
        """For people: comparison/arm-seed."""
        return f"{self.comparison}/{self.arm}-{self.plan.seed}"

    def measuring(self, names: Sequence[str]) -> Experiment:
        """The same experiment with only the measurements of these names."""
        kept = tuple(each for each in self.measurements if each.name in names)
        return replace(self, measurements=kept)


@dataclass(frozen=True)
class Study:
    """All experiments of a study.

    Args:
        name: What it is called.
        experiments: Experiments in the order in which they are run.
    """

    name: str
    experiments: tuple[Experiment, ...]

    def select(self, comparisons: Sequence[str] = (), arms: Sequence[str] = ()) -> Study:
        """The part of the study with these comparisons and arms; nothing named means all of them."""
        selected = []
        for experiment in self.experiments:
            is_wanted = not comparisons or experiment.comparison in comparisons
            if is_wanted and (not arms or experiment.arm in arms):
                selected.append(experiment)
        return replace(self, experiments=tuple(selected))


def with_more_seeds(study: Study, other: Study | None) -> tuple[Experiment, ...]:
    """The experiments of a study, and those that the same study with another number of seeds has beside."""
    experiments = {each.name: each for each in study.experiments}
    if other is not None:
        for each in other.experiments:
            experiments.setdefault(each.name, each)
    return tuple(experiments.values())


def require_names(argument: str, given: Sequence[str], known: Sequence[str]) -> None:
    """Refuse names that are not known."""
    for name in given:
        if name not in known:
            raise InputError(f"{argument} must be of {', '.join(known)}, got {name!r}")
