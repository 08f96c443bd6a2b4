"""Fit the polynomials of the divergence and print them as a module.

python tools/fit_divergence.py > src/nescio/functional/_kernels/coefficients.py

With V = (t + c) / (e + c) and s = min(e, t), t = 3/4, c = 5/4, the fitted functions are

    value_p, value_q    h(e) = s^2 (P(V) + s Q(V)) + (e - s) + log(min(V, 1)) / 2,          e >= 0
    slope               psi'(1 + e) = (1 + V A(V)) / (e + c),                               e >= 0
    row                 lnG(y + 1/2) = y ln y - y + ln(2 pi) / 2 + sum_n a_n (y + b)^-n,    y >= 3/2

where h(e) = e psi(1+e) - lnG(1+e) and g(e) = e - h(e). Each fit is minimax up to little, weighted so that its
error is relative: of h below t and of g above; of g' (three times that for h', which cancels more); of the
derivative of the row part for every K >= 2. Deterministic; needs mpmath.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import mpmath as mp

Number = Any
C, T = mp.mpf("1.25"), mp.mpf("0.75")
DEGREES = {"FLOAT32": (4, 3, 5), "FLOAT64": (13, 12, 17)}  # of P, Q, A
LAWSON_ROUNDS = {"FLOAT32": 60, "FLOAT64": 12}
ROW_POLE = {"FLOAT32": mp.mpf("0.3"), "FLOAT64": mp.mpf("0.5")}  # b
ROW_TERMS = {"FLOAT32": 5, "FLOAT64": 13}
LEAST_Y = mp.mpf(3) / 2

HEADER = '''"""Polynomials for the divergence; tools/fit_divergence.py writes them and says what they fit."""

from __future__ import annotations

from typing import NamedTuple


class Coefficients(NamedTuple):
    """Lowest power first."""

    value_p: tuple[float, ...]
    value_q: tuple[float, ...]
    slope: tuple[float, ...]
    row_pole: float
    row: tuple[float, ...]

'''


def h(e: Number) -> Number:
    """e psi(1+e) - lnG(1+e)."""
    return e * mp.psi(0, 1 + e) - mp.loggamma(1 + e)


def chebyshev_points(low: Number, high: Number, count: int) -> list[Number]:
    """Strictly inside (low, high), ascending."""
    middle, radius = (low + high) / 2, (high - low) / 2
    return [middle - radius * mp.cos(mp.pi * (2 * i + 1) / (2 * count)) for i in range(count)]


def weighted_errors(
    rows: Sequence[Sequence[Number]], values: Sequence[Number], weights: Sequence[Number], fit: list[Number]
) -> list[Number]:
    """weight * (fit - value) at every point."""
    return [w * (mp.fdot(fit, row) - v) for row, v, w in zip(rows, values, weights, strict=True)]


def lawson(
    rows: Sequence[Sequence[Number]], values: Sequence[Number], weights: Sequence[Number], rounds: int
) -> list[Number]:
    """Nearly minimax for any basis (rows: its values at the points), by reweighted least squares."""
    best, least = [], mp.inf
    emphasis = [mp.mpf(1)] * len(rows)
    columns = list(zip(*rows, strict=True))
    for _ in range(rounds):
        squares = [m * w**2 for m, w in zip(emphasis, weights, strict=True)]
        scaled = [[q * x for q, x in zip(squares, column, strict=True)] for column in columns]
        normal = mp.matrix([[mp.fdot(a, b) for b in columns] for a in scaled])
        right = mp.matrix([mp.fdot(a, values) for a in scaled])
        fit = list(mp.lu_solve(normal, right))
        errors = [abs(error) for error in weighted_errors(rows, values, weights, fit)]
        if max(errors) < least:
            best, least = fit, max(errors)
        emphasis = [m * (e / max(errors) + mp.mpf("1e-6")) for m, e in zip(emphasis, errors, strict=True)]
        total = mp.fsum(emphasis)
        emphasis = [m / total for m in emphasis]
    return best


def remez(
    rows: Sequence[Sequence[Number]], values: Sequence[Number], weights: Sequence[Number]
) -> list[Number]:
    """Minimax by exchange of the points where the error is largest, with alternating sign."""
    terms = len(rows[0])
    chosen = [round(mp.mpf(len(rows) - 1) * (1 - mp.cos(mp.pi * i / terms)) / 2) for i in range(terms + 1)]
    best, least = [], mp.inf
    for _ in range(30):
        system = mp.matrix([[*rows[p], (-1) ** i / weights[p]] for i, p in enumerate(chosen)])
        *fit, level = mp.lu_solve(system, mp.matrix([values[p] for p in chosen]))
        errors = weighted_errors(rows, values, weights, fit)
        worst = max(abs(error) for error in errors)
        if worst < least:
            best, least = fit, worst
        chosen = alternating_extremes(errors, terms + 1)
        if worst <= abs(level) * mp.mpf("1.001") or len(chosen) < terms + 1:
            break
    return best


def alternating_extremes(errors: Sequence[Number], count: int) -> list[int]:
    """Positions of the largest errors of each run of one sign, the least of them dropped down to count."""
    extremes = [0]
    for i in range(1, len(errors)):
        if mp.sign(errors[i]) != mp.sign(errors[extremes[-1]]):
            extremes.append(i)
        elif abs(errors[i]) > abs(errors[extremes[-1]]):
            extremes[-1] = i
    while len(extremes) > count:
        if len(extremes) == count + 1:
            extremes.pop(0 if abs(errors[extremes[0]]) < abs(errors[extremes[-1]]) else -1)
        else:
            pairs = [max(abs(errors[a]), abs(errors[b])) for a, b in pairwise(extremes)]
            at = pairs.index(min(pairs))
            del extremes[at : at + 2]
    return extremes


def fit_value(of_p: int, of_q: int, rounds: int, size: int = 60) -> tuple[list[Number], list[Number]]:
    """P and Q."""
    below = [T * x for x in chebyshev_points(mp.mpf(0), mp.mpf(1), size)]
    above = [(T + C) / x - C for x in chebyshev_points(mp.mpf(0), mp.mpf(1), size)]
    rows, values, weights = [], [], []
    for e in below + above:
        s, v = min(e, T), (T + C) / (e + C)
        rows.append([s**2 * v**i for i in range(of_p + 1)] + [s**3 * v**i for i in range(of_q + 1)])
        values.append(h(e) if e < T else T - (e - h(e)) - mp.log(v) / 2)
        weights.append(1 / h(e) if e < T else 1 / (e - h(e)))
    fit = lawson(rows, values, weights, rounds)
    return fit[: of_p + 1], fit[of_p + 1 :]


def fit_slope(degree: int) -> list[Number]:
    """A."""
    points = chebyshev_points(mp.mpf(0), (T + C) / C, 20 * degree)
    values, weights = [], []
    for x in points:
        e = (T + C) / x - C
        slope = mp.psi(1, 1 + e)
        values.append(((e + C) * slope - 1) / x)
        of_h = 3 * x / ((e + C) * slope)
        weights.append(max(of_h, e / (e + C) * x / (1 - e * slope)) if e > T else of_h)
    return remez([[x**n for n in range(degree + 1)] for x in points], values, weights)


def fit_row(pole: Number, count: int) -> list[Number]:
    """The a_n, through the second derivative of the series."""
    points = chebyshev_points(mp.mpf(0), 1 / (LEAST_Y + pole), 20 * count)
    values, weights = [], []
    for x in points:
        y = 1 / x - pole
        values.append((mp.psi(1, y + mp.mpf(1) / 2) - 1 / y) / x**3)
        weights.append(x**3 * max(y**2 / LEAST_Y - y / 2, y))
    return remez([[n * (n + 1) * x ** (n - 1) for n in range(1, count + 1)] for x in points], values, weights)


def as_tuple(name: str, values: Sequence[Number]) -> str:
    """Source text of one field."""
    lines = "".join(f"        {float(value)!r},\n" for value in values)
    return f"    {name}=(\n{lines}    ),\n"


def main() -> None:
    """Print the module."""
    mp.mp.dps = 60
    print(HEADER)
    for kind, (of_p, of_q, of_a) in DEGREES.items():
        p, q = fit_value(of_p, of_q, LAWSON_ROUNDS[kind])
        fields = as_tuple("value_p", p) + as_tuple("value_q", q) + as_tuple("slope", fit_slope(of_a))
        pole = ROW_POLE[kind]
        row = as_tuple("row", fit_row(pole, ROW_TERMS[kind]))
        print(f"{kind} = Coefficients(\n{fields}    row_pole={float(pole)!r},\n{row})")


if __name__ == "__main__":
    main()
