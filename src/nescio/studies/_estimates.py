"""Estimates: a number with its 95 % interval, over the seeds or, for a share, over the images of one seed."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from nescio.metrics import Interval, mean_interval, wilson_interval

ENOUGH_SEEDS = 3  # for an interval over the seeds; with fewer Student's is too wide to say anything
LARGE = 1e4


@dataclass(frozen=True)
class Estimate:
    """A mean over the seeds and, where it can be had, its 95 % interval.

    Args:
        mean: Mean over the seeds.
        interval: Student's over three seeds or more that differ; else Wilson's over the images, for a share.
    """

    mean: float
    interval: Interval | None = None

    def text(self, digits: int, scale: float = 1.0) -> str:
        """For a table: 99.35 [99.17, 99.49]; large numbers as 2.5e9.

        Example:
            >>> Estimate(0.9935, Interval(0.9917, 0.9949)).text(2, 100)
            '99.35 [99.17, 99.49]'
        """
        is_large = scale * self.mean >= LARGE
        mean = _short(scale * self.mean, digits, is_large)
        if self.interval is None:
            return mean
        low, high = (_short(scale * end, digits, is_large) for end in self.interval)
        return f"{mean} [{low}, {high}]"


def estimate(
    values: Sequence[float], is_share: bool = False, images: int | None = None, most: float = 1.0
) -> Estimate | None:
    """The mean of one value for each seed, with its interval.

    Args:
        values: One for each seed, none below 0.
        is_share: Whether they are shares of images.
        images: Number of images of which each value is a share.
        most: The greatest that a value can be; the interval ends there, and at 0.

    Returns:
        The estimate, or None where there is no value.
    """
    if not values:
        return None
    mean = statistics.fmean(values)
    has_spread = len(set(values)) > 1 or not is_share  # a share of 0 in every seed is not known exactly
    if len(values) >= ENOUGH_SEEDS and has_spread:
        low, high = mean_interval(values)
        return Estimate(mean, Interval(max(0.0, low), min(most, high)))
    if is_share and images:
        return Estimate(mean, wilson_interval(min(1.0, mean), images))
    return Estimate(mean)


def text_of(found: Estimate | None, digits: int, scale: float = 1.0) -> str:
    """An estimate for a table; a dash for none."""
    if found is None:
        return "-"
    return found.text(digits, scale)


def _short(value: float, digits: int, is_large: bool) -> str:
    if not is_large:
        return f"{value:.{digits}f}"
    mantissa, power = f"{value:.1e}".split("e")
    return f"{mantissa}e{int(power)}"
