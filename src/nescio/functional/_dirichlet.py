"""Quantities of a Dirichlet distribution, given by its evidence (..., K) and prior; alpha = prior + evidence.

Differences that cancel are never formed: log S - log alpha and psi(S) - psi(alpha) come from S - alpha,
which is a sum. Computed in the widest type of the device, returned in the type of the evidence.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from nescio._checks import at_least_float32
from nescio._precision import widest
from nescio.functional._kernels.any_prior import DIGAMMA_SERIES, DIGAMMA_SHIFT
from nescio.functional._kernels.autograd import row_loss
from nescio.functional._kernels.rowwise import RowLoss

MANY = 20.0  # from here on three terms of an asymptotic series are all of a float32
FEW = 1 << 13  # numbers of a row that are shifted all at once: each call of torch costs more than its work
PAIRS_AT_ONCE = 1 << 22  # pairs of classes compared at a time: bounds the memory


def divergence(evidence: Tensor, prior: float = 1.0) -> Tensor:
    """KL[D(alpha) || D(prior)], how far an opinion is from "I do not know", (...)."""
    rows = at_least_float32(evidence).reshape(-1, evidence.shape[-1])
    result = row_loss(rows, None, RowLoss(divergence_weight=1.0, prior=prior))
    return result.view(evidence.shape[:-1])


def others(evidence: Tensor, prior: float = 1.0) -> Tensor:
    """S - alpha_k for every class, a sum without alpha_k, (..., K)."""
    top = evidence.argmax(-1, keepdim=True)
    # Taking a class from the total cancels only where it holds most of it: that one is summed apart.
    without_top = evidence.scatter(-1, top, 0.0).sum(-1, keepdim=True)
    rest = evidence.sum(-1, keepdim=True) - evidence
    return rest.scatter(-1, top, without_top) + (evidence.shape[-1] - 1) * prior


def digamma_difference(x: Tensor, step: Tensor, steps: int = DIGAMMA_SHIFT) -> Tensor:
    """psi(x + step) - psi(x) for x > 0 and step >= 0, without cancellation.

    steps: up the recurrence, to where the series converges; fewer are enough for a float32.
    """
    end = x + step
    if _is_short(end):
        shifts = _shifts(end, steps)
        climbed = (step / ((x + shifts) * (end + shifts))).sum(0)
    else:
        climbed = torch.zeros_like(end)
        for shift in range(steps):
            climbed = climbed + step / ((x + shift) * (end + shift))
    low = x + (steps - 0.5)
    high = end + (steps - 0.5)
    # low^(-2n) - high^(-2n) = (low^-2 - high^-2) * sum_i low^(-2i) high^(-2(n-1-i))
    p = low.square().reciprocal()
    q = high.square().reciprocal()
    series = torch.zeros_like(end)
    partial = torch.ones_like(end)
    power = torch.ones_like(end)
    for coefficient in DIGAMMA_SERIES:
        series = series + coefficient * partial
        power = power * q
        partial = partial * p + power
    between = step * (low + high) * p * q  # low^-2 - high^-2
    return climbed + torch.log1p(step / low) - between * series


def _is_short(x: Tensor) -> bool:
    """Whether (M,) is so short that its shifts fit into memory together; a compiler fuses them anyway."""
    return x.ndim == 1 and x.numel() <= FEW and not torch.compiler.is_compiling()


def _shifts(x: Tensor, steps: int) -> Tensor:
    """0, 1, 2, ... (steps, 1) in the type of x."""
    return torch.arange(steps, dtype=x.dtype, device=x.device).unsqueeze(1)


def digamma_differences(alpha: Tensor, strength: Tensor, steps: int, num_terms: int) -> tuple[Tensor, Tensor]:
    """psi(S) - psi(alpha) and psi'(alpha), both (M, K), not differentiable.

    Exact where alpha is not nearly all of S. alpha (M, K) may be in float32, strength S (M, 1) in float64.
    steps: as of `digamma_difference`. num_terms: how many of the series.
    """
    y, rest, slopes = _digamma_without_log(alpha, steps, num_terms)
    y_of_strength, rest_of_strength, _ = _digamma_without_log(strength, steps, num_terms)
    # The logarithm of a quotient: a difference of logarithms would keep the digits of the larger one.
    logs = y.mul_(y_of_strength.reciprocal_().to(y.dtype)).log_()
    return rest_of_strength.to(y.dtype) - rest.add_(logs), slopes


def _digamma_without_log(x: Tensor, steps: int, num_terms: int) -> tuple[Tensor, Tensor, Tensor]:
    """y, psi(x) - ln y and psi'(x), y where the series begins."""
    inverse = x.reciprocal()
    psi = -inverse
    slope = inverse * inverse
    for shift in range(1, steps):
        torch.add(x, shift, out=inverse).reciprocal_()
        psi.sub_(inverse)
        slope.addcmul_(inverse, inverse)
    y = x + (steps - 0.5)
    torch.reciprocal(y, out=inverse)
    square = inverse * inverse
    # psi(y + 1/2) = ln y + sum_n c_n y^(-2n), and term by term its derivative.
    numbers = [square.new_tensor(coefficient) for coefficient in DIGAMMA_SERIES[:num_terms]]
    # In place: new memory for every step would cost more than the arithmetic.
    series = numbers[-1].expand_as(square).clone()
    slopes = series * (-2 * num_terms)
    for n in range(num_terms - 1, 0, -1):
        torch.addcmul(numbers[n - 1], series, square, out=series)
        torch.addcmul(numbers[n - 1] * (-2 * n), slopes, square, out=slopes)
    psi.addcmul_(series, square)
    slope.add_(inverse).addcmul_(slopes.mul_(square), inverse)
    return y, psi, slope


def trigamma(x: Tensor, steps: int = DIGAMMA_SHIFT) -> Tensor:
    """psi'(x) for x > 0; torch's own is right to nine digits only. steps: as of `digamma_difference`."""
    climbed, inverse, series = _trigamma_parts(x, steps)
    return climbed + inverse * (1 + series)


def fisher_information(evidence: Tensor, prior: float = 1.0) -> tuple[Tensor, Tensor]:
    """psi'(alpha) (..., K) and ln |I| (...) of the information I = diag(psi'(alpha)) - psi'(S) of D(alpha).

    ln |I| = sum_k ln psi'(alpha_k) + ln psi'(S) + ln [sum_k r(alpha_k) - r(S)], r(x) = x - 1 / psi'(x), which
    goes from 0 to 1/2: the printed 1 - sum_k psi'(S) / psi'(alpha_k) is rounding alone where alpha is large.
    """
    alpha = widest(evidence) + prior
    strength = alpha.sum(-1)
    information, gaps = _trigamma_and_gap(alpha)
    of_strength, gap_of_strength = _trigamma_and_gap(strength)
    value = information.log().sum(-1) + of_strength.log() + (gaps.sum(-1) - gap_of_strength).log()
    return information.to(evidence.dtype), value.to(evidence.dtype)


def _trigamma_and_gap(x: Tensor) -> tuple[Tensor, Tensor]:
    """psi'(x) and x - 1 / psi'(x), the second as [x psi'(x) - 1] / psi'(x) without the one."""
    climbed, inverse, series = _trigamma_parts(x)
    value = climbed + inverse * (1 + series)
    # x psi'(x) - 1, where x * inverse - 1 = -(n - 1/2) * inverse.
    excess = x * climbed + inverse * (x * series - (DIGAMMA_SHIFT - 0.5))
    return value, excess / value


def _trigamma_parts(x: Tensor, steps: int = DIGAMMA_SHIFT) -> tuple[Tensor, Tensor, Tensor]:
    """c, y^-1 and s of psi'(x) = c + y^-1 (1 + s): n steps of the recurrence, then the series at y."""
    if _is_short(x):
        climbed = (x + _shifts(x, steps)).reciprocal().square().sum(0)
    else:
        climbed = torch.zeros_like(x)
        for shift in range(steps):
            climbed = climbed + (x + shift).reciprocal().square()
    inverse = (x + (steps - 0.5)).reciprocal()
    square = inverse * inverse
    series = torch.zeros_like(x)
    for n in range(len(DIGAMMA_SERIES), 0, -1):
        series = (series - 2 * n * DIGAMMA_SERIES[n - 1]) * square
    return climbed, inverse, series


def entropy(evidence: Tensor, normalized: bool = False, prior: float = 1.0) -> Tensor:
    """-sum_k p_k ln p_k of the mean p = alpha / S, (...); normalized: as a part of ln K."""
    e = widest(evidence)
    alpha = e + prior
    rest = others(e, prior)
    value = (alpha / (alpha + rest) * torch.log1p(rest / alpha)).sum(-1)
    if normalized:
        value = value / math.log(e.shape[-1])
    return value.to(evidence.dtype)


def expected_entropy(evidence: Tensor, prior: float = 1.0) -> Tensor:
    """-sum_k p_k (psi(alpha_k + 1) - psi(S + 1)), (...)."""
    e = widest(evidence)
    alpha = e + prior
    rest = others(e, prior)
    value = (alpha / (alpha + rest) * digamma_difference(alpha + 1, rest)).sum(-1)
    return value.to(evidence.dtype)


def mutual_information(evidence: Tensor, prior: float = 1.0) -> Tensor:
    """Entropy less expected entropy, sum_k p_k d(alpha_k) - d(S) with d(x) = psi(x + 1) - ln x, (...)."""
    e = widest(evidence)
    alpha = e + prior
    strength = alpha.sum(-1)
    value = (alpha * _digamma_excess(alpha)).sum(-1) / strength - _digamma_excess(strength)
    return value.clamp_min(0).to(evidence.dtype)


def _digamma_excess(x: Tensor) -> Tensor:
    """psi(x + 1) - ln x for x > 0: about 1 / (2 x) for a large x, so the logarithm must not be in it."""
    climbed = torch.zeros_like(x)
    for shift in range(1, DIGAMMA_SHIFT):
        climbed = climbed + 1 / (x + shift)
    inverse = (x + (DIGAMMA_SHIFT - 0.5)).square().reciprocal()
    power = torch.ones_like(x)
    series = torch.zeros_like(x)
    for coefficient in DIGAMMA_SERIES:
        power = power * inverse
        series = series + coefficient * power
    excess = torch.log1p((DIGAMMA_SHIFT - 0.5) / x) + series - climbed
    if x.dtype == torch.float64:
        return excess
    # In float32 this loses a digit where x is large, and there the asymptotic series is short.
    inverse = 1 / x
    asymptotic = inverse * (0.5 - inverse * (1 / 12 - inverse.square() * (1 / 120)))
    return torch.where(x > MANY, asymptotic, excess)


def differential_entropy(evidence: Tensor, prior: float = 1.0) -> Tensor:
    """ln B(alpha) + (S - K) psi(S) - sum_k (alpha_k - 1) psi(alpha_k), (...).

    As -KL[D(alpha) || D(prior)] less the mean of ln D(prior); with prior 1 that is lnG(K).
    """
    num_classes = evidence.shape[-1]
    constant = math.lgamma(num_classes * prior) - num_classes * math.lgamma(prior)
    if prior == 1:
        return -divergence(evidence) - constant
    # The mean of ln D(prior) under D(alpha): it is a constant for prior 1 only.
    e = widest(evidence)
    mean_logs = -digamma_difference(e + prior, others(e, prior)).sum(-1)
    value = -divergence(e, prior) - (constant + (prior - 1) * mean_logs)
    return value.to(evidence.dtype)


def dissonance(belief: Tensor) -> Tensor:
    """sum_i b_i (sum_{j != i} b_j Bal(i, j)) / (sum_{j != i} b_j), (...).

    Bal(i, j) = 1 - |b_i - b_j| / (b_i + b_j), and 0 between classes without belief.
    """
    num_classes = belief.shape[-1]
    rows = belief.reshape(-1, num_classes)
    if torch.compiler.is_compiling():  # a loop would fix the size of the batch
        return _dissonance_of(rows, rows, 0).view(belief.shape[:-1])
    at_once = max(1, PAIRS_AT_ONCE // num_classes**2)
    classes_at_once = max(1, min(num_classes, PAIRS_AT_ONCE // num_classes))
    total = torch.zeros_like(rows[:, 0])
    for start in range(0, len(rows), at_once):
        block = rows[start : start + at_once]
        for first in range(0, num_classes, classes_at_once):
            ones = block[:, first : first + classes_at_once]
            total[start : start + at_once] += _dissonance_of(ones, block, first)
    return total.view(belief.shape[:-1])


def _dissonance_of(ones: Tensor, belief: Tensor, first: int) -> Tensor:
    """The terms of the classes `ones` (M, I), which start at class `first` of all (M, K), summed, (M,)."""
    one = ones.unsqueeze(2)  # (M, I, 1)
    other = belief.unsqueeze(1)  # (M, 1, K)
    numbers = torch.arange(belief.shape[1], device=belief.device)
    apart = (numbers[first : first + ones.shape[1], None] != numbers).to(belief.dtype)  # (I, K)
    balance = 2 * torch.minimum(one, other) / _or_one(one + other)
    weighted = (other * balance * apart).sum(2)
    rest = (other * apart).sum(2)
    return (ones * weighted / _or_one(rest)).sum(1)


def _or_one(divisor: Tensor) -> Tensor:
    """One for zero: what is divided is zero too, and so stays, with a finite gradient."""
    return torch.where(divisor > 0, divisor, 1.0)
