"""Calibration of a trained model: temperature and trust, from data that are set aside from the training."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from nescio.data import Dataset, Table, Texts
from nescio.data._stored import select_rows
from nescio.data.splits import held_out_rows
from nescio.errors import DataError, InputError
from nescio.inference._layers import distance_layer, features_at
from nescio.opinions.categorical import Prediction
from nescio.posthoc._distances import MOST_PROTOTYPES
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


def rows_set_aside(data: Dataset | Table | Texts, posthoc: str, seed: int) -> Tensor | None:
    """Where the samples lie that are set aside for calibration, bool (N,); None where there are too few.

    Of every class alike, whole groups where the data has groups, and what the data calls its validation part
    where it has one.
    """
    if posthoc == "none":
        return None
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
    held_out: Samples,
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
        held_out: Samples that had no part in the training.
        posthoc: "all", "temperature" or "trust".
        kind: The kind of distance, see `Trust.fit`; None for Gaussians.
        is_encoded: Whether what the network takes are features of a frozen encoder.
        seed: Seed of what is drawn.
    """
    done = {}
    skipped = {}
    # As `predict` and the service will ask it: what is fitted is for their answers.
    said = replace(model, posthoc=None).predict(held_out.inputs, independent=True)
    trust = None
    layer = None
    if posthoc in ("all", "trust"):
        layer = distance_layer(model.method, model.module, model.network)
        reason = _why_no_trust(layer, held_out)
        if reason is None:
            assert layer is not None
            try:
                # What a head makes of an encoder's features counts by its direction, as those do themselves.
                is_unit = is_encoded or model.network is None or model.network.compares_directions
                trust = _fit_trust(model, training, held_out, said, layer, kind, is_unit, seed)
                done["trust"] = trust.describe()
            except InputError as error:
                reason = str(error)
        if reason is not None:
            skipped["trust"] = reason
    temperature = None
    if posthoc in ("all", "temperature"):
        if len(held_out) < LEAST_SET_ASIDE:
            skipped["temperature"] = f"it needs {LEAST_SET_ASIDE} held-out inputs, got {len(held_out)}"
        else:
            temperature = _fit_temperature(model, held_out, said, trust)
            done["temperature"] = temperature.describe()
    fitted = None
    if temperature is not None or trust is not None:
        fitted = Posthoc(temperature, trust)
    return Calibration(fitted, done, skipped)


def _why_no_trust(layer: str | None, held_out: Samples) -> str | None:
    if layer is None:
        return (
            "the network has no features at which distances could be measured; nescio.encoders.with_features "
            "names a layer"
        )
    if len(held_out) < LEAST_HELD_OUT:
        return f"it needs {LEAST_HELD_OUT} held-out inputs, got {len(held_out)}"
    return None


def _fit_trust(
    model: TrainedModel,
    training: Samples,
    held_out: Samples,
    said: Prediction,
    layer: str,
    kind: str | None,
    is_unit: bool,
    seed: int,
) -> Trust:
    rows = _sampled_rows(training.labels, seed)
    num_wrong = int((said.labels.cpu() != held_out.labels.cpu()).sum())
    trust = Trust.fit(
        features_at(model, select_rows(training.inputs, rows), layer),
        features_at(model, held_out.inputs, layer),
        labels=training.labels[rows],
        kind=kind,
        is_unit=is_unit,
        half_at=half_at_for((num_wrong + 1) / (len(held_out) + 2)),
        seed=seed,
    )
    return replace(trust, layer=layer)


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


def summary_of(calibration: Calibration, held_out: Samples, posthoc: str) -> dict[str, Any]:
    """What the model file says of it, plain data."""
    return {
        "wanted": posthoc,
        "samples": len(held_out),
        "done": calibration.done,
        "skipped": calibration.skipped,
    }
