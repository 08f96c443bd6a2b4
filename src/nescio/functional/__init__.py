"""The risks and the divergence as functions of evidence, per sample, without reduction."""

from nescio.functional.annealing import default_divergence_weight, linear_annealing
from nescio.functional.correct_evidence import correct_evidence_regularizer
from nescio.functional.fisher import fisher_log_determinant, fisher_risk
from nescio.functional.risks import (
    brier_risk,
    cross_entropy_risk,
    divergence,
    misleading_divergence,
    squared_error_risk,
    type2_likelihood,
)

__all__ = [
    "brier_risk",
    "correct_evidence_regularizer",
    "cross_entropy_risk",
    "default_divergence_weight",
    "divergence",
    "fisher_log_determinant",
    "fisher_risk",
    "linear_annealing",
    "misleading_divergence",
    "squared_error_risk",
    "type2_likelihood",
]
