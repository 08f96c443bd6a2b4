"""Calibration of a trained model: temperature and trust, by data set aside, or by few training data."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data import LabelledData
from nescio.data._stored import select_rows
from nescio.data.splits import held_out_rows, named_rows
from nescio.encoders.base import INPUTS
from nescio.errors import DataError, InputError, TrainingError
from nescio.inference._cross_fit import Retraining, out_of_fold_predictions
from nescio.inference._layers import distance_layer, features_at
from nescio.opinions.categorical import Prediction
from nescio.posthoc._distances import MOST_PROTOTYPES, Gaussians
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import (
    LEAST_CROSS_FITTED,
    LEAST_HELD_OUT,
    Trust,
    cross_fitted_distances,
    half_at_for,
)
from nescio.training import Samples

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

# Where the summary of a training keeps the digest of the data that `calibrated` was given: no promise may be
# made from them again.
CALIBRATED_ON = "calibrated_on"
WANTED = ("all", "temperature", "trust", "none")

SHARE = 0.1  # of the training data that is set aside
MOST_SET_ASIDE = 5000
LEAST_SET_ASIDE = 25  # fewer say less of a temperature than its usual value, 1, does
FEW = 400  # of fewer samples nothing is set aside; of so many, as many as trust needs, at most an eighth
_TRUSTED_AT_ONCE = 1024
MOST_VALUES = 4096  # of an input that is compared as it is: the model file keeps 64 directions of them


@dataclass(frozen=True, eq=False)
class Calibration:
    """What was fitted, and in words what was done and what was not.

    Args:
        posthoc: What was fitted; None where nothing was.
        done: What was fitted, in words, by name.
        skipped: What was asked for and can't be, by name with the reason.
    """

    posthoc: Posthoc | None
    done: dict[str, str]
    skipped: dict[str, str]

    @property
    def is_by_training_alone(self) -> bool:
        """Whether nothing of it was fitted to held-out samples."""
        if self.posthoc is None:
            return False
        trust = self.posthoc.trust
        return self.posthoc.temperature is None and trust is not None and trust.is_cross_fitted


def require_wanted(posthoc: object) -> str:
    """Refuse what is none of the words that say what is to be fitted."""
    if posthoc not in WANTED:
        raise InputError(f"posthoc must be {', '.join(WANTED[:-1])} or {WANTED[-1]}, got {posthoc!r}")
    return str(posthoc)


def rows_set_aside(data: LabelledData, posthoc: str, seed: int, is_repeatable: bool) -> Tensor | None:
    """Where the samples lie that are set aside for calibration, bool (N,); None where there are too few.

    Of every class alike, whole groups where the data has groups, and what the data calls its validation part
    where that is large enough.

    is_repeatable: whether the network can be trained again, on parts of few samples.
    """
    if posthoc == "none" or len(data) == 0:
        return None
    # Trust by held-out samples needs more than a temperature; without them it is by those of training.
    least = LEAST_HELD_OUT if posthoc == "trust" else LEAST_SET_ASIDE
    named = _named_rows(data)
    if named is not None and named.sum() >= least:
        return named
    # Of few, trust is measured on the training data, and networks that are trained again tell how sure the
    # model may be.
    is_small = len(data) < FEW
    if is_small and (posthoc == "trust" or is_repeatable):
        return None
    share = min(SHARE, MOST_SET_ASIDE / len(data))
    if not is_small:
        share = max(share, (LEAST_HELD_OUT + 0.5) / len(data))  # which is rounded down
    try:
        rows = held_out_rows(replace(data, parts=None), share, seed)
    except DataError:  # too few samples of a class, or too few groups
        return None
    return rows if rows.sum() >= least else None


def takes_more_networks(data: LabelledData, posthoc: str, seed: int, is_repeatable: bool) -> bool:
    """Whether the temperature will be fitted to networks that are trained on parts of few samples."""
    if posthoc not in ("all", "temperature") or not is_repeatable:
        return False
    return _are_few(len(data)) and rows_set_aside(data, posthoc, seed, is_repeatable) is None


def _are_few(count: int) -> bool:
    """Whether networks are trained again on parts of so many samples to fit a temperature."""
    return LEAST_SET_ASIDE <= count < FEW


def _named_rows(data: LabelledData) -> Tensor | None:
    """What the data calls its validation part, or else its test part; None where it names none."""
    try:
        return named_rows(data, ("validation", "test"))
    except DataError:  # a class would be missing
        return None


@dataclass(frozen=True, eq=False)
class _Material:
    """What temperature and trust of a model are fitted to; fields are those of `calibrate`."""

    model: TrainedModel
    training: Samples
    held_out: Samples | None
    prediction: Prediction | None  # of what was held out
    kind: str | None
    is_encoded: bool
    groups: Tensor | None
    held_out_groups: Tensor | None
    retraining: Retraining | None
    seed: int

    def trust(self) -> Trust:
        """The trust; an InputError says why it can't be fitted."""
        if self.held_out is None or len(self.held_out) < LEAST_HELD_OUT:
            return self._cross_fitted_trust()
        assert self.prediction is not None
        layer = distance_layer(self.model.method, self.model.module, self.model.network)
        if layer is None:
            raise InputError(
                "the network has no features at which distances could be measured; "
                "nescio.encoders.with_features names a layer"
            )
        rows = _sampled_rows(self.training.labels, self.seed)
        num_wrong = int((self.prediction.labels.cpu() != self.held_out.labels.cpu()).sum())
        network = self.model.network
        trust = Trust.fit(
            features_at(self.model, select_rows(self.training.inputs, rows), layer),
            features_at(self.model, self.held_out.inputs, layer),
            labels=self.training.labels[rows],
            kind=self.kind,
            # What a head makes of an encoder's features counts by its direction, as those do themselves.
            is_unit=self.is_encoded or network is None or network.compares_directions,
            half_at=half_at_for(num_wrong, len(self.held_out)),
            groups=self.held_out_groups,
            seed=self.seed,
        )
        return replace(trust, layer=layer)

    def _cross_fitted_trust(self) -> Trust:
        """The trust by the training samples themselves.

        At what the network takes: its layers have been formed by these samples, and would have them nearer to
        one another than to new ones.
        """
        needed = self._too_few(LEAST_HELD_OUT)
        if self.kind == Gaussians.kind:
            raise InputError(f"{needed}; of few, kind neighbours is measured on the training inputs")
        if len(self.training) < LEAST_CROSS_FITTED:
            raise InputError(f"{needed}; of few, {LEAST_CROSS_FITTED} training inputs would do")
        preprocess = self.model.preprocess
        if not self.is_encoded:
            is_text = preprocess.kind is InputKind.TEXTS
            if is_text or math.prod(preprocess.input_shape) > MOST_VALUES:
                raise InputError(f"{needed}; of few, only rows, small images and features are compared")
        rows = _sampled_rows(self.training.labels, self.seed)
        inputs = features_at(self.model, select_rows(self.training.inputs, rows), INPUTS)
        groups = None
        if self.groups is not None:
            groups = self.groups[rows]
        try:
            trust = Trust.cross_fit(inputs, is_unit=self.is_encoded, groups=groups, seed=self.seed)
        except InputError as error:
            raise InputError(f"{needed}; of few, the training inputs are measured: {error}") from error
        return replace(trust, layer=INPUTS)

    def temperature(self, trust: Trust | None) -> tuple[Temperature, str]:
        """The temperature, and in words what it was fitted to; an error says why it can't be fitted."""
        if self.prediction is None or len(self.prediction) < LEAST_SET_ASIDE:
            return self._cross_fitted_temperature(trust)
        assert self.held_out is not None
        factors = None
        if trust is not None:
            assert trust.layer is not None
            factors = _trust_at(trust, features_at(self.model, self.held_out.inputs, trust.layer))
        return Temperature.fit(self.prediction, self.held_out.labels, factors), ""

    def _cross_fitted_temperature(self, trust: Trust | None) -> tuple[Temperature, str]:
        """The temperature by the training samples themselves.

        Each was predicted by a network that was trained without it, and is trusted as far as it is usual
        among the others.
        """
        needed = self._too_few(LEAST_SET_ASIDE)
        if self.retraining is None or not _are_few(len(self.training)):
            raise InputError(needed)
        unseen = out_of_fold_predictions(self.training, self.retraining, self.groups, self.seed)
        if len(unseen.rows) < LEAST_SET_ASIDE:
            raise InputError(f"{needed}, and networks without them know the class of {len(unseen.rows)}")
        factors = None
        if trust is not None:
            inputs = features_at(self.model, self.training.inputs, INPUTS)
            distances = cross_fitted_distances(
                inputs, is_unit=self.is_encoded, seed=self.seed, groups=self.groups
            )
            factors = trust.at(distances[unseen.rows])
        fitted = Temperature.fit(unseen.prediction, self.training.labels[unseen.rows], factors)
        return fitted, f", fitted to {unseen.num_networks} networks, each trained without a part of the data"

    def _too_few(self, least: int) -> str:
        """Why nothing can be fitted to held-out samples."""
        if self.held_out is not None:
            return f"it needs {least} held-out inputs, got {len(self.held_out)}"
        known = f"{len(self.training):,} training inputs"
        if self.groups is not None:
            known += f" of {len(torch.unique(self.groups)):,} groups"
        return f"it needs {least} held-out inputs, and {known} are too few to set so many aside"


def calibrate(
    model: TrainedModel,
    training: Samples,
    held_out: Samples | None,
    posthoc: str,
    *,
    kind: str | None = None,
    is_encoded: bool = False,
    groups: Tensor | None = None,
    held_out_groups: Tensor | None = None,
    retraining: Retraining | None = None,
    seed: int = 0,
) -> Calibration:
    """Fit temperature and trust to what a model without them says of held-out samples.

    Args:
        model: The model; its own temperature and trust are left out of account.
        training: What it was trained on; a part of it is read.
        held_out: Samples that had no part in the training; None where there are too few to have some.
        posthoc: "all", "temperature" or "trust".
        kind: The kind of distance, see `Trust.fit`; None for Gaussians, or neighbours of few samples.
        is_encoded: Whether what the network takes are features of a frozen encoder.
        groups: What each training sample belongs to, int64 (N,); None where all are on their own.
        held_out_groups: The same of what is held out.
        retraining: How the network is trained again on a part of the training samples, to fit the
            temperature of few; None where it can't be.
        seed: Seed of what is drawn.
    """
    prediction = None
    if held_out is not None:
        # As `predict` and the service will ask it: what is fitted is for their answers.
        prediction = replace(model, posthoc=None).predict(held_out.inputs, independent=True)
    material = _Material(
        model,
        training,
        held_out,
        prediction,
        kind,
        is_encoded,
        groups,
        held_out_groups,
        retraining,
        seed,
    )
    done = {}
    skipped = {}
    trust = None
    if posthoc in ("all", "trust"):
        try:
            trust = material.trust()
            done["trust"] = trust.describe()
        except InputError as error:
            skipped["trust"] = str(error)
    temperature = None
    if posthoc in ("all", "temperature"):
        try:
            temperature, fitted_to = material.temperature(trust)
            done["temperature"] = temperature.describe() + fitted_to
        except (InputError, DataError, TrainingError) as error:
            skipped["temperature"] = str(error)
    fitted = None
    if temperature is not None or trust is not None:
        fitted = Posthoc(temperature, trust)
    return Calibration(fitted, done, skipped)


def _trust_at(trust: Trust, features: Tensor) -> Tensor:
    """The trust of many features (N, F), a part at a time in memory."""
    return torch.cat([trust(part) for part in torch.split(features, _TRUSTED_AT_ONCE)])


def _sampled_rows(labels: Tensor, seed: int) -> Tensor:
    """Places of the training samples that distances are fitted to: of every class in its share."""
    count = len(labels)
    if count <= MOST_PROTOTYPES:
        return torch.arange(count)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(seed))
    order = order[labels[order].argsort(stable=True)]
    evenly = (2 * torch.arange(MOST_PROTOTYPES) + 1) * count // (2 * MOST_PROTOTYPES)
    return order[evenly].sort().values


def summary_of(calibration: Calibration, held_out: Samples | None, posthoc: str) -> dict[str, Any]:
    """What the model file says of it, plain data."""
    return {
        "wanted": posthoc,
        "samples": 0 if held_out is None else len(held_out),
        "done": calibration.done,
        "skipped": calibration.skipped,
    }
