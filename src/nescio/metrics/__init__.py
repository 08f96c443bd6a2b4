"""How good predictions are: calibration, selective prediction, ood detection, rotation, attacks.

Pure functions; scikit-learn is loaded by the first one that needs it, not by this import.
"""

from nescio.metrics.attacks import fgsm, loss_gradient, pgd, probabilities_of, without_gradient
from nescio.metrics.calibration import (
    Reliability,
    accuracy,
    answered_accuracy,
    answered_share,
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    raw_accuracy,
    reliability,
)
from nescio.metrics.classes import ClassMeasures, class_measures, confusion_matrix
from nescio.metrics.detection import (
    Detection,
    EntropyCDF,
    detection,
    detection_by_measure,
    entropy_cdf,
    measures,
)
from nescio.metrics.intervals import Interval, mean_interval, wilson_interval
from nescio.metrics.rotation import narrowest, rotate
from nescio.metrics.selective import (
    RiskCoverage,
    ThresholdCurve,
    accuracy_against_threshold,
    area_under_generalized_risk_coverage,
    area_under_risk_coverage,
    excess_area,
    risk_coverage,
)
from nescio.metrics.summary import detection_summary, summary

__all__ = [
    "ClassMeasures",
    "Detection",
    "EntropyCDF",
    "Interval",
    "Reliability",
    "RiskCoverage",
    "ThresholdCurve",
    "accuracy",
    "accuracy_against_threshold",
    "answered_accuracy",
    "answered_share",
    "area_under_generalized_risk_coverage",
    "area_under_risk_coverage",
    "brier_score",
    "class_measures",
    "confusion_matrix",
    "detection",
    "detection_by_measure",
    "detection_summary",
    "entropy_cdf",
    "excess_area",
    "expected_calibration_error",
    "fgsm",
    "loss_gradient",
    "mean_interval",
    "measures",
    "narrowest",
    "negative_log_likelihood",
    "pgd",
    "probabilities_of",
    "raw_accuracy",
    "reliability",
    "risk_coverage",
    "rotate",
    "summary",
    "wilson_interval",
    "without_gradient",
]
