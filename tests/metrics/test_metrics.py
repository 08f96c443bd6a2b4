import subprocess
import sys

import pytest

from nescio import metrics

PUBLIC = [
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


def test_the_public_list():
    assert sorted(metrics.__all__) == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_function_hides_the_module_of_its_name(name):
    assert callable(getattr(metrics, name))


def test_the_import_loads_no_metrics_package():
    code = "import sys, nescio.metrics; print({'sklearn', 'torchmetrics', 'scipy'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "set()"
