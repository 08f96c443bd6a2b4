"""Annealing: the weight of the divergence as a function of the (fractional) epoch."""

from __future__ import annotations

from nescio._checks import require_number


def linear(epoch: float, epochs: float) -> float:
    """lambda_t = min(1, t / epochs), the paper's with epochs = 10; no annealing (1) with epochs = 0."""
    require_number("epoch", epoch)
    return min(1.0, epoch / epochs) if epochs else 1.0
