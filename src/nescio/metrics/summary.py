"""All the figures at once, as flat dictionaries: one row of a table."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from nescio.metrics._inputs import flat
from nescio.metrics.calibration import (
    accuracy,
    answered_accuracy,
    answered_share,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    raw_accuracy,
    right_answers,
)
from nescio.metrics.detection import detection_by_measure
from nescio.metrics.selective import area_under_risk_coverage
from nescio.opinions.categorical import Prediction


def summary(prediction: Prediction, labels: Tensor) -> dict[str, float]:
    """How right, how calibrated and how uncertain predictions are.

    Args:
        prediction: Prediction of inputs (...) of the known classes.
        labels: Their true classes (...).

    Returns:
        accuracy, raw_accuracy, answered_accuracy, answered, nll, brier, ece, aurc, mean_uncertainty and
        mean_entropy, which is a share of ln K.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import summary
        >>> row = summary(Categorical(torch.tensor([[0.5, 0.5], [1.0, 0.0]])), torch.tensor([1, 0]))
        >>> row["accuracy"], row["mean_entropy"], row["brier"]
        (0.5, 0.5, 0.25)
    """
    right = right_answers(prediction, labels)
    return {
        "accuracy": accuracy(prediction, labels),
        "raw_accuracy": raw_accuracy(prediction, labels),
        "answered_accuracy": answered_accuracy(prediction, labels),
        "answered": answered_share(prediction),
        "nll": negative_log_likelihood(prediction, labels),
        "brier": brier_score(prediction, labels),
        "ece": expected_calibration_error(prediction, labels),
        "aurc": area_under_risk_coverage(flat(prediction.uncertainty), right),
        "mean_uncertainty": float(flat(prediction.uncertainty).double().mean()),
        "mean_entropy": float(flat(prediction.entropy(normalized=True)).double().mean()),
    }


def detection_summary(known: Prediction, ood: Prediction) -> dict[str, float]:
    """How well ood inputs are detected among known ones, by every measure of doubt.

    Args:
        known: Prediction of inputs of the known classes.
        ood: Prediction of inputs that are out of distribution; of the same kind and classes.

    Returns:
        `<measure>_auroc`, `<measure>_aupr` and `<measure>_fpr95` for every measure; ood_mean_entropy and
        ood_median_entropy, shares of ln K.

    Raises:
        InputError: If the predictions are of different kinds or classes, or hold no sample.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import detection_summary
        >>> known = Opinion(torch.tensor([[9.0, 0.0], [0.0, 7.0]]))
        >>> row = detection_summary(known, ood=Opinion(torch.zeros(2, 2)))
        >>> row["uncertainty_auroc"], row["ood_mean_entropy"]
        (1.0, 1.0)
    """
    row = {}
    for name, found in detection_by_measure(known, ood).items():
        row[f"{name}_auroc"] = found.auroc
        row[f"{name}_aupr"] = found.aupr
        row[f"{name}_fpr95"] = found.fpr95
    entropy = flat(ood.entropy(normalized=True)).double().numpy()
    row["ood_mean_entropy"] = float(entropy.mean())
    row["ood_median_entropy"] = float(np.median(entropy))
    return row
