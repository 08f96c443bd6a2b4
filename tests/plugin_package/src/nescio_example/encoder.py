"""An encoder: one convolution for images of any size, and how strongly each of its filters answers."""

from dataclasses import dataclass
from typing import ClassVar

from torch import nn

from nescio.encoders import Ability, EncoderSpec, InputKind, SequentialEncoder


@dataclass(frozen=True)
class FiltersSpec(EncoderSpec):
    """num_filters: of the convolution, and so of the features."""

    kind: ClassVar[str] = "filters"
    about: ClassVar[str] = "one convolution and the mean answer of each filter"
    inputs: ClassVar[InputKind] = InputKind.IMAGES
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    input_shape: tuple[int, ...]
    num_classes: int
    num_filters: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", tuple(self.input_shape))  # JSON gives a list

    @property
    def num_features(self) -> int:
        """One for each filter."""
        return self.num_filters

    @classmethod
    def fields_for(cls, input_shape, num_classes):
        """Both as they are."""
        return {"input_shape": tuple(input_shape), "num_classes": num_classes}

    def build(self, layers=None) -> nn.Module:
        """A new network."""
        filters = nn.Conv2d(self.input_shape[0], self.num_filters, 3, padding=1)
        head = nn.Linear(self.num_filters, self.num_classes)
        return SequentialEncoder(filters, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
