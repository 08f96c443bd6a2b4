"""Calibration of a trained model: temperature and trust, from data that are set aside from the training."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data import LabelledData
from nescio.data._stored import select_rows
from nescio.data.splits import held_out_rows
from nescio.encoders.base import INPUTS
from nescio.errors import DataError, InputError
from nescio.inference._layers import distance_layer, features_at
from nescio.opinions.categorical import Prediction
from nescio.posthoc._distances import MOST_PROTOTYPES, Gaussians
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import LEAST_HELD_OUT, Trust, half_at_for
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
LEAST_FOR_TRUST = 400  # of so many samples, as many are set aside as trust needs, at most an eighth
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


def require_wanted(posthoc: object) -> str:
    """Refuse what is none of the words that say what is to be fitted."""
    if posthoc not in WANTED:
        raise InputError(f"posthoc must be {', '.join(WANTED[:-1])} or {WANTED[-1]}, got {posthoc!r}")
    return str(posthoc)


def rows_set_aside(data: LabelledData, posthoc: str, seed: int) -> Tensor | None:
    """Where the samples lie that are set aside for calibration, bool (N,); None where there are too few.

    Of every class alike, whole groups where the data has groups, and what the data calls its validation part
    where it has one.
    """
    if posthoc == "none" or (posthoc == "trust" and len(data) < LEAST_FOR_TRUST):
        return None  # trust of few samples is measured on the training data
    share = min(SHARE, MOST_SET_ASIDE / len(data))
    if len(data) >= LEAST_FOR_TRUST:
        share = max(share, (LEAST_HELD_OUT + 0.5) / len(data))  # which is rounded down
    if int(share * len(data)) < LEAST_SET_ASIDE:
        return None
    try:
        return held_out_rows(data, share, seed)
    except DataError:  # too few samples of a class, or too few groups
        return None


def calibrate(
    model: TrainedModel,
    training: Samples,
    held_out: Samples | None,
    posthoc: str,
    *,
    kind: str | None = None,
    is_encoded: bool = False,
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
        seed: Seed of what is drawn.
    """
    done = {}
    skipped = {}
    said = None
    if held_out is not None:
        # As `predict` and the service will ask it: what is fitted is for their answers.
        said = replace(model, posthoc=None).predict(held_out.inputs, independent=True)
    trust = None
    if posthoc in ("all", "trust"):
        try:
            if held_out is None or len(held_out) < LEAST_HELD_OUT:
                trust = _cross_fit_trust(model, training, held_out, kind, is_encoded, seed)
            else:
                assert said is not None
                trust = _fit_trust(model, training, held_out, said, kind, is_encoded, seed)
            done["trust"] = trust.describe()
        except InputError as error:
            skipped["trust"] = str(error)
    temperature = None
    if posthoc in ("all", "temperature"):
        if held_out is None or len(held_out) < LEAST_SET_ASIDE:
            skipped["temperature"] = _too_few(LEAST_SET_ASIDE, held_out, training)
        else:
            assert said is not None
            temperature = _fit_temperature(model, held_out, said, trust)
            done["temperature"] = temperature.describe()
    fitted = None
    if temperature is not None or trust is not None:
        fitted = Posthoc(temperature, trust)
    return Calibration(fitted, done, skipped)


def _count(samples: Samples | None) -> int:
    return 0 if samples is None else len(samples)


def _too_few(least: int, held_out: Samples | None, training: Samples) -> str:
    """Why nothing can be fitted to held-out samples."""
    if held_out is None:
        return (
            f"it needs {least} held-out inputs, and {len(training):,} training inputs are too few to set so "
            "many aside"
        )
    return f"it needs {least} held-out inputs, got {len(held_out)}"


def _fit_trust(
    model: TrainedModel,
    training: Samples,
    held_out: Samples,
    said: Prediction,
    kind: str | None,
    is_encoded: bool,
    seed: int,
) -> Trust:
    """The trust by held-out samples; an InputError says why it can't be fitted."""
    layer = distance_layer(model.method, model.module, model.network)
    if layer is None:
        raise InputError(
            "the network has no features at which distances could be measured; nescio.encoders.with_features "
            "names a layer"
        )
    rows = _sampled_rows(training.labels, seed)
    num_wrong = int((said.labels.cpu() != held_out.labels.cpu()).sum())
    trust = Trust.fit(
        features_at(model, select_rows(training.inputs, rows), layer),
        features_at(model, held_out.inputs, layer),
        labels=training.labels[rows],
        kind=kind,
        # What a head makes of an encoder's features counts by its direction, as those do themselves.
        is_unit=is_encoded or model.network is None or model.network.compares_directions,
        half_at=half_at_for(num_wrong, len(held_out)),
        seed=seed,
    )
    return replace(trust, layer=layer)


def _cross_fit_trust(
    model: TrainedModel,
    training: Samples,
    held_out: Samples | None,
    kind: str | None,
    is_encoded: bool,
    seed: int,
) -> Trust:
    """The trust by the training samples themselves; an InputError says why it can't be fitted.

    At what the network takes: its layers have been formed by these samples, and would have them nearer to one
    another than to new ones.
    """
    needed = _too_few(LEAST_HELD_OUT, held_out, training)
    if kind == Gaussians.kind:
        raise InputError(f"{needed}; of few, kind neighbours is measured on the training inputs")
    if len(training) < LEAST_HELD_OUT:
        raise InputError(f"{needed}; of few, {LEAST_HELD_OUT} training inputs would do")
    if not is_encoded:
        num_values = math.prod(model.preprocess.input_shape)
        if model.preprocess.kind is InputKind.TEXTS or num_values > MOST_VALUES:
            raise InputError(f"{needed}; of few, only rows, small images and features are compared")
    rows = _sampled_rows(training.labels, seed)
    inputs = features_at(model, select_rows(training.inputs, rows), INPUTS)
    return replace(Trust.cross_fit(inputs, is_unit=is_encoded, seed=seed), layer=INPUTS)


def _fit_temperature(
    model: TrainedModel, held_out: Samples, said: Prediction, trust: Trust | None
) -> Temperature:
    device = said.probabilities.device
    factors = None
    if trust is not None:
        assert trust.layer is not None
        factors = trust(features_at(model, held_out.inputs, trust.layer)).to(device)
    return Temperature.fit(said, held_out.labels.to(device), factors)


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
        "samples": _count(held_out),
        "done": calibration.done,
        "skipped": calibration.skipped,
    }
