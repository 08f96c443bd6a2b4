"""How much `AbstentionRule.for_error` accepts, beside the rule before it: python -m benchmarks.abstention

The rule before chose its candidates by the target, so that more allowed errors could accept less. Data are
drawn from five kinds of classifiers; a number is the mean accepted share of 100 draws of each kind.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable

import torch
from scipy.special import betaincc
from torch import Tensor

from nescio import AbstentionRule, Categorical

DRAWS = 100
DELTA = 0.05
SIZES = (60, 80, 100, 150, 200, 400, 1000, 3000, 10_000)
TARGETS = (0.01, 0.02, 0.05, 0.1, 0.2)

# How often the input at each share of the scores is wrong.
KINDS: dict[str, Callable[[Tensor], Tensor]] = {
    "sharp": lambda u: torch.where(u > 0.9, 0.35, 0.002),
    "mild": lambda u: 0.3 * u**3,
    "hard": lambda u: 0.02 + 0.6 * u**2,
    "good": lambda u: 0.05 * u**6,
    "flat": lambda u: torch.full_like(u, 0.03),
}


def former_counts(size: int, target: float) -> list[int]:
    """The candidates of the rule before: from the fewest that could certify the target to all."""
    for candidates in range(32, 1, -1):
        fewest = math.ceil(math.log(DELTA / candidates) / math.log1p(-target))
        first = max(fewest, math.ceil(0.05 * size))
        if first * 1.05 ** (candidates - 1) <= size:
            ratio = size / first
            return sorted({round(first * ratio ** (i / (candidates - 1))) for i in range(candidates)})
    return [size]


def former_coverage(wrong: Tensor, target: float) -> float:
    """What the rule before accepts, of errors in the order of the scores (n,)."""
    size = len(wrong)
    counts = former_counts(size, target)
    errors = wrong.cumsum(0)
    for count in reversed(counts):
        seen = int(errors[count - 1])
        if seen < count and betaincc(seen + 1, count - seen, target) <= DELTA / len(counts):
            return count / size
    return 0.0


def coverage(score: Tensor, wrong: Tensor, target: float) -> float:
    """What the rule accepts."""
    prediction = Categorical(torch.stack((1 - score / 2, score / 2), 1))
    rule = AbstentionRule.for_error(prediction, wrong.long(), target, 1 - DELTA, "max_probability")
    return rule.held_out_coverage


def main() -> None:
    """Print a table: the accepted share of the rule before and of the rule, by samples and target."""
    warnings.simplefilter("ignore")
    generator = torch.Generator().manual_seed(0)
    print("| samples |" + "|".join(f" {target:.0%} " for target in TARGETS) + "|")
    print("|---|" + "---|" * len(TARGETS))
    for size in SIZES:
        cells = []
        for target in TARGETS:
            former = now = 0.0
            for rate in KINDS.values():
                for _ in range(DRAWS):
                    score = torch.rand(size, generator=generator, dtype=torch.float64).sort().values
                    wrong = torch.rand(size, generator=generator) < rate(score)
                    former += former_coverage(wrong, target)
                    now += coverage(score, wrong, target)
            total = DRAWS * len(KINDS)
            cells.append(f" {100 * former / total:.1f} -> {100 * now / total:.1f} ")
        print(f"| {size:,} |" + "|".join(cells) + "|")


if __name__ == "__main__":
    main()
