"""Annealing: the weight of the divergence as a function of the (fractional) epoch."""

from __future__ import annotations

import math

from evidentia.errors import InputError


def linear(epoch: float, epochs: float) -> float:
    """lambda_t = min(1, t / epochs), the paper's with epochs = 10; no annealing (1) with epochs = 0."""
    if not (math.isfinite(epoch) and epoch >= 0):
        raise InputError(f"epoch must be a number from 0 on, got {epoch}")
    return min(1.0, epoch / epochs) if epochs else 1.0
