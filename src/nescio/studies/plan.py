"""TrainingPlan: everything that trained weights depend on, as plain data with a digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from nescio.data import LabelledData, Table, load
from nescio.encoders import spec_from_dict
from nescio.errors import InputError
from nescio.inference._frozen import encoded_data, preprocess_for, pretrained_encoder
from nescio.methods import Method, method_from_dict
from nescio.training import TrainingSettings

Settings = Mapping[str, Any]

HELD_OUT_SEED = 0  # the same images are kept apart from every training
DIGEST_LENGTH = 20  # hexadecimal digits: no two of a thousand million settings are likely to share them


@dataclass(frozen=True)
class DataPart:
    """Some classes of a data set, as they are or as the features that a pretrained encoder gives of them.

    Features are computed once for the whole data set, and kept in the cache for all trainings.

    Args:
        data: The name of a data set.
        classes: The names of its classes that belong to the part; empty for all.
        features: `kind` and the settings of the encoder; None for the data as they are.

    Example:
        >>> part = DataPart("letters", classes=("A", "B"))
        >>> part.load("test").classes
        ('A', 'B')
    """

    data: str
    classes: tuple[str, ...] = ()
    features: Settings | None = None

    def load(self, split: str) -> LabelledData:
        """The part of a split, "train" or "test"."""
        whole: LabelledData
        if self.features is None:
            whole = load(self.data, split)
        else:
            whole = _features_of(self.data, split, json.dumps(as_plain(self.features), sort_keys=True))
        if not self.classes:
            return whole
        return whole.only(self.classes)

    def description(self) -> dict[str, Any]:
        """What the part is, as plain data; what it does not have is left out."""
        description: dict[str, Any] = {"data": self.data}
        if self.classes:
            description["classes"] = list(self.classes)
        if self.features is not None:
            description["features"] = dict(self.features)
        return description


@lru_cache(maxsize=8)
def _features_of(data: str, split: str, encoder: str) -> Table:
    """The features of a whole data set; encoder: its settings as JSON."""
    spec = spec_from_dict(json.loads(encoder))
    raw = load(data, split)
    if isinstance(raw, Table):
        raise InputError(f"features are for images and texts, {data} holds rows")
    return encoded_data(spec, pretrained_encoder(spec), preprocess_for(spec, raw), raw)


@dataclass(frozen=True)
class TrainingPlan:
    """What is trained, on what and how, every setting written out.

    Args:
        data: The name of a data set.
        held_out: So many of its training images are kept apart, to follow the training by.
        method: `name` and the settings of the method.
        encoder: `kind` and the settings of the network.
        training: The fields of TrainingSettings, `seed` among them.
        later: Settings of "method", "encoder" and "training" that the library got after results of this plan
            were made, with the values that stand for what was done then. They are used, but are no part of
            the description: results stay where they are.
        classes: It is trained on these classes alone; empty for all.
        features: The encoder whose features of the data are trained on; None for the data as they are.
        calibration: So many training samples are set aside, for what is fitted after the training.

    Example:
        >>> plan = TrainingPlan(
        ...     data="digits",
        ...     held_out=0,
        ...     method={"name": "softmax", "weight_decay": 0.0},
        ...     encoder={"kind": "lenet", "dropout": 0.0},
        ...     training={"epochs": 1, "seed": 3},
        ... )
        >>> plan.seed, plan.settings().epochs
        (3, 1)
    """

    data: str
    held_out: int
    method: Settings
    encoder: Settings
    training: Settings
    later: Mapping[str, Settings] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    features: Settings | None = None
    calibration: int = 0

    @property
    def part(self) -> DataPart:
        """The data that it is trained on, those that are set aside among them."""
        return DataPart(self.data, self.classes, self.features)

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return int(self.training["seed"])

    @property
    def digest(self) -> str:
        """What tells this training from any other."""
        return digest_of(self.description())

    def description(self) -> dict[str, Any]:
        """Everything that the weights depend on, as plain data."""
        description = {
            **self.part.description(),
            "held_out": self.held_out,
            "method": dict(self.method),
            "encoder": dict(self.encoder),
            "training": dict(self.training),
        }
        if self.calibration:
            description["calibration"] = self.calibration
        return description

    def build_method(self) -> Method:
        """The method with these settings."""
        return method_from_dict({**self.later.get("method", {}), **self.method})

    def build_encoder(self) -> Any:
        """What the network is built from."""
        return spec_from_dict({**self.later.get("encoder", {}), **self.encoder})

    def settings(self) -> TrainingSettings:
        """How it is trained.

        Raises:
            InputError: If there is no such setting.
        """
        try:
            return TrainingSettings(**{**self.later.get("training", {}), **self.training})
        except TypeError as error:
            raise InputError(f"settings do not fit TrainingSettings: {error}") from error

    def load_data(self) -> tuple[LabelledData, LabelledData | None]:
        """The samples to train on, and those that are kept apart; None where there are none."""
        data = self.part.load("train")
        set_aside = self.held_out + self.calibration
        if not set_aside:
            return data, None
        order = _order(len(data))
        trained_on = data.take(order[set_aside:].sort().values)
        if not self.held_out:
            return trained_on, None
        return trained_on, data.take(order[: self.held_out].sort().values)

    def load_calibration(self) -> LabelledData:
        """The samples that are set aside for what is fitted after the training.

        Raises:
            InputError: If there are none.
        """
        if not self.calibration:
            raise InputError("calibration must be above 0 for what is fitted after the training, got 0")
        data = self.part.load("train")
        places = _order(len(data))[self.held_out : self.held_out + self.calibration]
        return data.take(places.sort().values)


def _order(count: int) -> torch.Tensor:
    """The order in which samples are set aside, the same for every training."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(HELD_OUT_SEED))


def as_plain(value: Any) -> Any:
    """As JSON knows it: tensors and tuples become lists, NaN and infinity null."""
    if isinstance(value, torch.Tensor):
        return as_plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): as_plain(each) for name, each in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, Iterable):
        return [as_plain(each) for each in value]
    if math.isfinite(value):
        return float(value)
    return None


def digest_of(settings: Settings) -> str:
    """The digest of settings; neither their order nor 10 against 10.0 matters."""
    text = json.dumps(_canonical(as_plain(settings)), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _canonical(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_canonical(each) for each in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value
