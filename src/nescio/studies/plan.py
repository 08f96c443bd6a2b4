"""TrainingPlan: everything that trained weights depend on, as plain data with a digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from nescio.data import Dataset, load
from nescio.encoders import spec_from_dict
from nescio.errors import InputError
from nescio.methods import Method, method_from_dict
from nescio.training import TrainingSettings

Settings = Mapping[str, Any]

HELD_OUT_SEED = 0  # the same images are kept apart from every training
DIGEST_LENGTH = 20  # hexadecimal digits: no two of a thousand million settings are likely to share them


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
        return {
            "data": self.data,
            "held_out": self.held_out,
            "method": dict(self.method),
            "encoder": dict(self.encoder),
            "training": dict(self.training),
        }

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

    def load_data(self) -> tuple[Dataset, Dataset | None]:
        """The images to train on, and those that are kept apart; None where there are none."""
        data = load(self.data)
        if not self.held_out:
            return data, None
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(HELD_OUT_SEED))
        kept_apart = order[: self.held_out].sort().values
        trained_on = order[self.held_out :].sort().values
        return data.take(trained_on), data.take(kept_apart)


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
