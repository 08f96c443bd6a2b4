"""The divergence of an opinion from "I do not know", and its gradient, exact and in plain arithmetic.

KL[D(1 + e) || D(1)] for a row e of K values. With E the sum of the row and

    h(e) = e psi(1+e) - lnG(1+e),                g(e) = e - h(e),
    H(E) = E psi(K+E) - lnG(K+E) + lnG(K),       G(E) = E - H(E),

it is sum_k h(e_k) - H(E), which keeps its digits in rows with E <= K ("low"), and G(E) - sum_k g(e_k),
which keeps them in rows with E > K ("high"). h needs one logarithm and two short polynomials, its
derivative e psi'(1+e) a third one; the gamma functions themselves, slow scalar code, are never called.
The evaluation goes over the rows in blocks that fit the processor's cache, with one pass over memory for
each degree of a polynomial. docs/maths.md derives the formulas; tools/fit_divergence.py the coefficients.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from functools import wraps
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from nescio.functional._kernels.coefficients import FLOAT32, FLOAT64, Coefficients

# Of the element-wise formulas: v = (KNEE + POLE) / (e + POLE), s = min(e, KNEE).
POLE = 1.25
KNEE = 0.75
SCALE = 1 / (KNEE + POLE)  # a power of two, so that (e + POLE) * SCALE is rounded once
BLOCK_ELEMENTS = (
    132_000  # for each thread: fewer calls of torch, and five blocks of floats in 2.6 MB of cache
)
FEW_CLASSES = 8  # below, the sums are worst conditioned and are done in float64
MOST_KEPT = 64  # sets of constants: one for each number of classes, type and device
SHORT_ROW = 32  # below, a matrix product sums rows faster than sum()


class Polynomial(NamedTuple):
    """Highest power first; 0-dim tensors, which torch adds faster than Python numbers."""

    lead: float
    others: tuple[Tensor, ...]

    @classmethod
    def of(cls, coefficients: tuple[float, ...], like: Tensor) -> Polynomial:
        """From coefficients with the lowest power first."""
        *others, lead = coefficients
        return cls(lead, tuple(like.new_tensor(c) for c in reversed(others)))

    def at(self, x: Tensor, out: Tensor) -> Tensor:
        """Horner's rule into a buffer of the shape of x, one pass a degree."""
        torch.add(self.others[0], x, alpha=self.lead, out=out)
        for coefficient in self.others[1:]:
            torch.addcmul(coefficient, out, x, out=out)
        return out


class Elements(NamedTuple):
    """Constants of the element-wise part."""

    shift: Tensor  # ()
    p: Polynomial
    q: Polynomial
    slope: Polynomial
    choices: Tensor  # (2, 2): bound and keep of Rows, for low and for high rows


class Rows(NamedTuple):
    """What the element-wise part needs to know of each row; the row's sum decides it."""

    constant: Tensor  # (M,) float64: G or -H
    derivative: Tensor  # (M,) float64: G' or -H'
    bound: Tensor  # (M, 1): what the first term of the gradient is held below; -POLE makes h' - 1 of h'
    keep: Tensor  # (M, 1): whether the value holds the evidence itself


def coefficients(dtype: torch.dtype) -> Coefficients:
    """Those that are exact enough for results of this type."""
    return FLOAT64 if dtype == torch.float64 else FLOAT32


def work_type(dtype: torch.dtype, num_classes: int) -> torch.dtype:
    """The type to compute in for a result of this type."""
    return torch.float64 if num_classes < FEW_CLASSES else dtype


def block_rows(num_classes: int, device: torch.device) -> int:
    """How many rows to do at a time. Only a CPU has a cache to mind."""
    if device.type != "cpu":
        return 1 << 62
    return max(1, BLOCK_ELEMENTS * torch.get_num_threads() // num_classes)


Value = TypeVar("Value")


def _kept(make: Callable[..., Value]) -> Callable[..., Value]:
    """Make once for each argument list.

    Not while a program is traced: tensors made there belong to the trace. And never as inference tensors,
    which training could not use later.
    """
    kept: dict[tuple[object, ...], Value] = {}

    @wraps(make)
    def get(*key: object) -> Value:
        if torch.compiler.is_compiling():
            return make(*key)
        value = kept.get(key)
        if value is None:
            if len(kept) >= MOST_KEPT:
                kept.clear()
            with torch.inference_mode(False):
                value = kept[key] = make(*key)
        return value

    return get


@_kept
def element_constants(result: torch.dtype, work: torch.dtype, device: torch.device) -> Elements:
    """Fitted for results of one type, for computing in another."""
    like = torch.empty((), dtype=work, device=device)
    fitted = coefficients(result)
    return Elements(
        like.new_tensor(POLE * SCALE),
        Polynomial.of(fitted.value_p, like),
        Polynomial.of(fitted.value_q, like),
        Polynomial.of(fitted.slope, like),
        like.new_tensor([[math.inf, -POLE], [1.0, 0.0]]),
    )


class RowNumbers(NamedTuple):
    """Numbers of the row part for one number of classes; polynomials with the lowest power first."""

    kappa: float
    value: tuple[float, ...]  # in rho
    slope: tuple[float, ...]  # in rho
    log_limit: float
    log_series: tuple[float, ...]  # of (log1p(r) - r) / r^2


def row_numbers(num_classes: int, result: torch.dtype) -> RowNumbers:
    """From lnG(y + 1/2) = y ln y - y + const + sum_n a_n (y + b)^-n, the a_n fitted for y >= 3/2."""
    fitted = coefficients(result)
    kappa = num_classes - 0.5 + fitted.row_pole
    negligible = 1e-9
    log_limit = 1e-5
    log_terms = 2
    if result == torch.float64:
        negligible = 1e-16
        log_limit = 0.02
        log_terms = 8
    scaled = [a * kappa**-n for n, a in enumerate(fitted.row, start=1)]
    while len(scaled) > 2 and len(scaled) ** 2 * abs(scaled[-1]) < negligible * kappa:
        scaled.pop()
    value = tuple(-(i + 1) * math.fsum(scaled[i:]) for i in range(len(scaled)))
    slope = tuple(-n * (n + 1) * a / kappa for n, a in enumerate(scaled, start=1))
    series = tuple((-1) ** (i + 1) / (i + 2) for i in range(log_terms))
    return RowNumbers(kappa=kappa, value=value, slope=slope, log_limit=log_limit, log_series=series)


class RowConstants(NamedTuple):
    """The same as tensors on a device."""

    kappa: float
    value: Polynomial
    slope: Polynomial
    log_limit: float
    log_series: Polynomial


@_kept
def row_constants(num_classes: int, result: torch.dtype, device: torch.device) -> RowConstants:
    """The numbers of the row part, ready to compute with."""
    numbers = row_numbers(num_classes, result)
    like = torch.empty((), dtype=torch.float64, device=device)
    return RowConstants(
        kappa=numbers.kappa,
        value=Polynomial.of(numbers.value, like),
        slope=Polynomial.of(numbers.slope, like),
        log_limit=numbers.log_limit,
        log_series=Polynomial.of(numbers.log_series, like),
    )


def row_terms(total: Tensor, num_classes: int, result: torch.dtype, constants: Elements) -> Rows:
    """What the sum E of each row, (M,) in float64, decides.

    With y = K - 1/2, r = E / y, rho = kappa / (kappa + E), delta = 1 - rho:
    H = y (r - log1p(r)) + R and G = y log1p(r) - R, where R is delta^2 times a polynomial in rho.
    """
    kappa, value, slope, log_limit, log_series = row_constants(num_classes, result, total.device)
    y = num_classes - 0.5
    high = total > num_classes
    r = total / y
    log = r.log1p()
    scratch = log_series.at(r, torch.empty_like(r)).mul_(r).mul_(r)
    constant = torch.where(high, log, torch.where(r < log_limit, scratch, log - r))
    inverse = (total + kappa).reciprocal_()
    rho = inverse * kappa
    delta = inverse.mul_(total)
    constant.mul_(y).addcmul_(value.at(rho, scratch), delta * delta)
    derivative = torch.where(high, y, -total).div_(total + y)
    derivative.addcmul_(slope.at(rho, scratch).mul_(delta), rho.square_())
    bound, keep = constants.choices.index_select(1, high.int()).unsqueeze(2).unbind()
    return Rows(constant, derivative, bound, keep)


@_kept
def _ones(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.ones(count, dtype=dtype, device=device)


def row_sum(x: Tensor, out: Tensor) -> None:
    """Sum over the classes of (M, K) into (M,)."""
    if x.shape[1] < SHORT_ROW:
        out.copy_(x.mv(_ones(x.shape[1], x.dtype, x.device)))
    else:
        torch.sum(x, 1, dtype=out.dtype, out=out)


class Buffers(NamedTuple):
    """Room for one block (m, K)."""

    v: Tensor
    a: Tensor
    b: Tensor
    s: Tensor

    def cut(self, rows: int) -> Buffers:
        """For a block of fewer rows."""
        if rows == self.v.shape[0]:
            return self
        return Buffers(self.v[:rows], self.a[:rows], self.b[:rows], self.s[:rows])


_of_thread = threading.local()


def buffers_for(evidence: Tensor, rows: int) -> Buffers:
    """Buffers for blocks of so many rows; on the CPU a thread keeps its last ones.

    New memory costs more than the arithmetic: every page is touched for the first time. What is kept is
    about a megabyte for each of torch's own threads.
    """
    shape = (rows, evidence.shape[1])
    if evidence.device.type != "cpu" or evidence.is_inference() or torch.compiler.is_compiling():
        return _new_buffers(evidence, shape)
    last: Buffers | None = getattr(_of_thread, "buffers", None)
    if last is None or last.v.shape != shape or last.v.dtype != evidence.dtype:
        last = _new_buffers(evidence, shape)
        _of_thread.buffers = last
    return last


def _new_buffers(like: Tensor, shape: tuple[int, int]) -> Buffers:
    return Buffers(
        v=like.new_empty(shape), a=like.new_empty(shape), b=like.new_empty(shape), s=like.new_empty(shape)
    )


def value_sums(evidence: Tensor, keep: Tensor, constants: Elements, buffers: Buffers, out: Tensor) -> None:
    """Two sums (m, 2) over the rows of a block (m, K), from which `divergence` is made.

    With s = min(e, KNEE): h = (e - s) + s^2 (P(v) + s Q(v)) - log(max(x, 1)) / 2, x = 1 / v. For e below
    the knee all but the second term is an exact zero, which keeps the digits of a small e.
    """
    v, a, b, s = buffers
    rest, logs = out.unbind(1)
    torch.add(constants.shift, evidence, alpha=SCALE, out=v)
    torch.clamp_min(v, 1.0, out=a).log_()
    row_sum(a, logs)
    v.reciprocal_()
    torch.clamp_max(evidence, KNEE, out=s)
    constants.q.at(v, a)
    constants.p.at(v, b).addcmul_(a, s).mul_(s)
    # First (s - e), which is exact, then the small term: the other order would lose it.
    torch.addcmul(s, evidence, keep, value=-1, out=a)
    a.addcmul_(b, s, value=-1)
    row_sum(a, rest)


def gradient(
    evidence: Tensor, bound: Tensor, offset: Tensor, weight: float, constants: Elements, buffers: Buffers
) -> Tensor:
    """offset + weight * (the part of the gradient that differs within a row) of a block (m, K), in s.

    After `value_sums` of the same block, whose v it uses. psi'(1+e) = (1 + v A(v)) / (e + POLE). The offset
    may be in s, too.
    """
    v, a, b, s = buffers
    constants.slope.at(v, a).mul_(v)
    torch.minimum(evidence, bound, out=b)
    b.addcmul_(evidence, a)
    return torch.addcmul(offset, v, b, value=SCALE * weight, out=s)


def divergence(rows: Rows, sums: Tensor) -> Tensor:
    """The divergence (M,) in float64 from the row part and the sums (M, 2) of the element-wise part."""
    return (rows.constant - sums[:, 0]).sub_(sums[:, 1], alpha=0.5).clamp_min_(0)
