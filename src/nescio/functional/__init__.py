"""The risks and the divergence as functions of evidence, per sample, without reduction."""

from nescio.functional.annealing import default_divergence_weight, linear_annealing
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
    "cross_entropy_risk",
    "default_divergence_weight",
    "divergence",
    "linear_annealing",
    "misleading_divergence",
    "squared_error_risk",
    "type2_likelihood",
]
