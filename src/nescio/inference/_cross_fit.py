"""Predictions of few samples by networks that were trained without them.

Of few samples none are set aside for a temperature: those would say too little, and be missed in the
training. Each fifth is predicted instead by a network that is trained on the rest.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nescio._folds import folds_of
from nescio.data._stored import select_rows
from nescio.errors import InputError, NescioWarning, TrainingError
from nescio.methods.base import concatenate
from nescio.opinions.categorical import Prediction
from nescio.training import Samples

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

FOLDS = 5
LEAST_TRAINED_ON = 0.5  # of the samples: with fewer, a network says little of one that is trained on all


# From the places of samples (M,) among the training data to a model without temperature and trust that was
# trained on these alone.
Retraining = Callable[[Tensor], "TrainedModel"]


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions of samples by networks that were trained without them.

    Args:
        prediction: Prediction of M samples.
        rows: Their places among the training data, int64 (M,).
        num_networks: How many networks there were.
    """

    prediction: Prediction
    rows: Tensor
    num_networks: int


def out_of_fold_predictions(
    training: Samples, retraining: Retraining, groups: Tensor | None, seed: int
) -> OutOfFold:
    """Predict each fifth of the training samples by a network that is trained on the others.

    Samples of a class that a network has not seen are left out: the model will know it. So is a part that
    leaves less than half of the samples to train on, such as one large group.

    Args:
        training: All samples.
        retraining: Trains the network again, on a part of them.
        groups: What each sample belongs to, of which none is in two parts, int64 (N,); None where all are on
            their own.
        seed: Seed of the parts.

    Raises:
        InputError: If no sample can be predicted so, as where all are of one group.
        TrainingError: If one of the networks diverges.
    """
    labels = training.labels
    folds = folds_of(len(training), FOLDS, seed, labels=labels, groups=groups)
    predictions = []
    places = []
    for fold in range(FOLDS):
        rest = (folds != fold).nonzero().squeeze(1)
        if len(rest) < LEAST_TRAINED_ON * len(training):
            continue
        is_known = labels[rest].bincount(minlength=int(labels.max()) + 1) > 0
        is_measured = (folds == fold) & is_known[labels]
        if is_known.sum() < 2 or not is_measured.any():
            continue
        with warnings.catch_warnings():
            # Each network would say again what the training of the whole has said.
            warnings.simplefilter("ignore", NescioWarning)
            try:
                model = retraining(rest)
            except TrainingError as error:
                raise TrainingError(f"a network without a part of the data: {error}") from error
        rows = is_measured.nonzero().squeeze(1)
        predictions.append(model.predict(select_rows(training.inputs, rows), independent=True))
        places.append(rows)
    if not predictions:
        raise InputError(
            "no sample can be predicted by a network that is trained on half of the others or more and knows "
            "its class"
        )
    return OutOfFold(concatenate(predictions), torch.cat(places), len(predictions))
