"""All the figures at once, as flat dictionaries: one row of a table."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
from torch import Tensor

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
from nescio.metrics.inputs import flat
from nescio.metrics.selective import area_under_risk_coverage
from nescio.opinions.categorical import Prediction


def summary(prediction: Prediction, labels: Tensor) -> dict[str, float]:
    """How right, how calibrated and how uncertain; mean_entropy is a part of ln K."""
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


def detection_summary(known: Prediction, unknown: Prediction) -> dict[str, float]:
    """`<measure>_auroc`, `_aupr`, `_fpr95` for every measure; the unknown's entropy as a part of ln K."""
    found = detection_by_measure(known, unknown)
    row = {f"{name}_{key}": value for name, by in found.items() for key, value in asdict(by).items()}
    entropy = flat(unknown.entropy(normalized=True)).double().numpy()
    means = {"unknown_mean_entropy": entropy.mean(), "unknown_median_entropy": np.median(entropy)}
    return row | {name: float(value) for name, value in means.items()}
