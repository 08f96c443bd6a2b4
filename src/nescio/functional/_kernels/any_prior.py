"""The divergence from Dir(prior, ..., prior) for any prior, in plain differentiable float64.

KL[D(prior + e) || D(prior)] for a row e of K values is, with E the sum of the row and

    h(e; p) = e psi(p + e) - lnG(p + e) + lnG(p),        g(e; p) = e - h(e; p),

both sum_k h(e_k; prior) - h(E; K prior), which keeps its digits while E is small, and
g(E; K prior) - sum_k g(e_k; prior), which keeps them where E is large. The kernel in divergence.py does the
same for prior 1, many times faster.
"""

from __future__ import annotations

import torch
from torch import Tensor

# psi(y + 1/2) = ln y + sum_n c_n y^(-2n): the series of digamma about the half-integer.
DIGAMMA_SERIES = (
    1 / 24,
    -7 / 960,
    31 / 8064,
    -127 / 30720,
    511 / 67584,
    -1414477 / 67092480,
    8191 / 98304,
)
DIGAMMA_SHIFT = 8  # steps up the recurrence psi(x) = psi(x + 1) - 1/x, to where the series converges
SMALL = 0.1  # below, log1p(r) - r / (1 + r) comes from its series
SERIES_TERMS = 16  # 0.1^16: nothing is left of float64


def divergence_from(evidence: Tensor, prior: float) -> Tensor:
    """KL[D(prior + e) || D(prior)] (M,) of rows (M, K) in float64."""
    total = evidence.sum(1)
    prior_strength = evidence.shape[1] * prior
    small, large = _gamma_excess(evidence, prior)
    total_small, total_large = _gamma_excess(total, prior_strength)
    low = small.sum(1) - total_small
    high = total_large - large.sum(1)
    # What is left of a difference of equal numbers may be a rounding below zero.
    return torch.where(total > prior_strength, high, low).clamp_min(0)


def _gamma_excess(e: Tensor, p: float) -> tuple[Tensor, Tensor]:
    """h(e; p) and g(e; p), elementwise.

    With y0 = p + n - 1/2 and y = y0 + e after n steps of the recurrences,

        h = [e - y0 log1p(e / y0)] + [e C(y) + D(y0) - D(y)] + sum_{i<n} [log1p(r_i) - r_i / (1 + r_i)],

    r_i = e / (p + i), C(y) = sum_n c_n y^(-2n) the series of digamma and D its integral.
    """
    climbed = torch.zeros_like(e)
    for step in range(DIGAMMA_SHIFT):
        climbed = climbed + _log_gap(e / (p + step))
    start = p + DIGAMMA_SHIFT - 0.5
    ratio = e / start
    rest = climbed + _series_rest(e, start)
    share = ratio / (1 + ratio)
    log = torch.log1p(ratio)
    # r - log1p(r), which cancels for a small r.
    curve = torch.where(ratio < SMALL, ratio * share - _log_gap(ratio), ratio - log)
    return start * curve + rest, start * log - rest


def _log_gap(r: Tensor) -> Tensor:
    """log1p(r) - r / (1 + r) for r >= 0, about r^2 / 2 near 0."""
    share = r / (1 + r)
    series = torch.zeros_like(r)
    for power in range(SERIES_TERMS, 1, -1):
        series = (series + 1 / power) * share  # after the last: sum_n share^(n - 1) / n
    return torch.where(r < SMALL, series * share, torch.log1p(r) - share)


def _series_rest(e: Tensor, start: float) -> Tensor:
    """e C(y) + D(start) - D(y) with y = start + e.

    The n-th term is c_n e y^(-2n) [1 - mean of (y / start)^i over i = 1 .. 2n - 1].
    """
    inverse = 1 / (start + e)
    if e.dtype == torch.float32:
        return _series_rest_of_inverses(e, inverse, 1 / start)
    ratio = (start + e) / start
    total = torch.zeros_like(e)
    power = ratio  # ratio^i
    powers = ratio  # their sum up to i = 2n - 1
    for n, coefficient in enumerate(DIGAMMA_SERIES, start=1):
        mean = powers / (2 * n - 1)
        total = total + coefficient * (e * inverse ** (2 * n)) * (1 - mean)
        powers = powers + power * ratio + power * ratio * ratio
        power = power * ratio * ratio
    return total


def _series_rest_of_inverses(e: Tensor, inverse: Tensor, of_start: float) -> Tensor:
    """The same by powers of 1 / y and 1 / start, which can't overflow as those of y / start do in float32."""
    square = inverse * inverse
    total = torch.zeros_like(e)
    power = square  # y^(-2n)
    powers = inverse * of_start  # the sum of y^(i - 2n) start^(-i) over i = 1 .. 2n - 1
    for n, coefficient in enumerate(DIGAMMA_SERIES, start=1):
        total = total + coefficient * e * (power - powers / (2 * n - 1))
        powers = square * (powers + of_start ** (2 * n)) + inverse * of_start ** (2 * n + 1)
        power = power * square
    return total
