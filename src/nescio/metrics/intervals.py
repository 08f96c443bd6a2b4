"""Confidence intervals: how far a share or a mean may be off, given how much was measured."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from nescio._checks import require_whole
from nescio.errors import InputError


class Interval(NamedTuple):
    """From low to high, both included.

    Args:
        low: The lower end.
        high: The upper end.

    Example:
        >>> Interval(low=0.98, high=0.99).high
        0.99
    """

    low: float
    high: float


def wilson_interval(share: float, count: int, level: float = 0.95) -> Interval:
    """Wilson's score interval of a share of so many independent samples.

    Args:
        share: The share found, from 0 to 1; a mean of shares of the same samples may be given too, whose
            interval is then not too narrow.
        count: The number of samples that it is a share of, 1 or more.
        level: How often such an interval holds the true share, between 0 and 1.

    Returns:
        The ends of the interval, within [0, 1].

    Raises:
        InputError: If an argument is out of its range.

    Example:
        >>> low, high = wilson_interval(0.9935, 10_000)
        >>> round(100 * low, 2), round(100 * high, 2)
        (99.17, 99.49)
    """
    from scipy.special import ndtri

    require_whole("count", count)
    if not 0 <= share <= 1:
        raise InputError(f"share must be from 0 to 1, got {share!r}")
    z = float(ndtri(0.5 + _checked_level(level) / 2))
    shrink = 1 / (1 + z**2 / count)
    centre = shrink * (share + z**2 / (2 * count))
    reach = shrink * z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return Interval(max(0.0, centre - reach), min(1.0, centre + reach))


def mean_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's interval of the mean of two or more independent values, as of several seeds.

    Args:
        values: One number for each seed.
        level: How often such an interval holds the true mean, between 0 and 1.

    Returns:
        The ends of the interval, the mean being in its middle.

    Raises:
        InputError: If there are fewer than two values, or level is out of its range.

    Example:
        >>> low, high = mean_interval([0.992, 0.993, 0.994])
        >>> round(low, 4), round(high, 4)
        (0.9905, 0.9955)
    """
    from scipy.special import stdtrit

    if len(values) < 2:
        raise InputError(f"values must be two or more, got {len(values)}")
    mean = statistics.fmean(values)
    freedom = len(values) - 1
    quantile = float(stdtrit(freedom, 0.5 + _checked_level(level) / 2))
    reach = quantile * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean - reach, mean + reach)


def _checked_level(level: float) -> float:
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level!r}")
    return level
