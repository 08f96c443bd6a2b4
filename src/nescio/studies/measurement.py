"""Measurement: an object that holds its settings and measures a trained model."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nescio.inference.model import TrainedModel
from nescio.studies.plan import DataPart, TrainingPlan

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Measurement(ABC):
    """What is measured of a trained model, and with which settings.

    A measurement is a frozen dataclass whose fields are all that its numbers depend on beside the weights.

    Attributes:
        name: What it is called in a study, and its results in the store.
        version: Number that is raised when the same settings come to give other numbers.
        former_versions: Versions whose numbers are still read where the present one has not been measured;
            the report says which these are.

    Example:
        >>> class NumberOfClasses(Measurement):
        ...     name = "classes"
        ...
        ...     def run(self, model, sources=()):
        ...         return {"classes": len(model.classes)}
        >>> NumberOfClasses().settings()
        {'name': 'classes', 'version': 1}
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    former_versions: ClassVar[tuple[int, ...]] = ()

    @abstractmethod
    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """The numbers, by name; whatever `as_plain` makes JSON of.

        Args:
            model: The trained model.
            sources: The models of `self.sources`, in that order.
        """

    @property
    def data(self) -> Mapping[str, str]:
        """The data sets that it reads, each with its split: they are looked for before any work."""
        return {}

    @property
    def sources(self) -> tuple[TrainingPlan, ...]:
        """Other trainings whose models it needs."""
        return ()

    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on beside the model, as plain data."""
        settings: dict[str, Any] = {"name": self.name, "version": self.version}
        for each in dataclasses.fields(self):
            settings[each.name] = _described(getattr(self, each.name))
        return settings


def _described(value: Any) -> Any:
    """A setting as plain data: what has a description is described, also within a mapping."""
    if isinstance(value, TrainingPlan | DataPart):
        return value.description()
    if isinstance(value, Mapping):
        return {name: _described(each) for name, each in value.items()}
    return value


@dataclass(frozen=True)
class TrainingCurve(Measurement):
    """Loss, accuracy and uncertainty after each epoch, on the training images and on those kept apart."""

    name: ClassVar[str] = "training"

    def run(self, model: TrainedModel, sources: Sequence[TrainedModel] = ()) -> Numbers:
        """A list for each metric; of an ensemble, the epochs of one member after those of another."""
        rows = model.training["history"]
        lists: dict[str, list[float]] = {}
        for row in rows:
            for name, value in row.items():
                if name != "seconds":
                    lists.setdefault(name, []).append(value)
        return lists
