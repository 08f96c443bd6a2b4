"""Mean ranks over data sets, Friedman's test, and which ranks differ by Nemenyi's critical difference.

Demsar 2006, Statistical Comparisons of Classifiers over Multiple Data Sets. On each of N data sets the k
methods are ranked, the best first, equal ones with the mean of their ranks. If all methods were alike,
Friedman's statistic

    12 N / (k (k + 1)) (sum_j R_j^2 - k (k + 1)^2 / 4)

of the mean ranks R_j would have the chi-squared distribution with k - 1 degrees of freedom (ties make it a
little larger than written here). Two methods differ where their mean ranks are further apart than

    CD = q sqrt(k (k + 1) / (6 N))

with q the upper 5 % point of the studentized range of k means, divided by sqrt(2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nescio.studies.successors._results import SuccessorResults, ood_pairs
from nescio.studies.successors._sets import ALL_ARMS, SETS

LEVEL = 0.05
LEAST_METHODS = 3  # Friedman's test is for more than two
LEAST_BLOCKS = 2
LEAST_SHARE = 1 / 3  # of the arms, on a data set that a part of the study is ranked over


@dataclass(frozen=True)
class Criterion:
    """What methods are ranked by.

    Args:
        name: What it is called by programs.
        title: What it is called by people.
        short: The same in the head of a column.
        is_higher_better: Whether the best has the highest value.
        score: The score on known inputs; empty for the AUROC of OOD inputs by the method's own score.
    """

    name: str
    title: str
    short: str
    is_higher_better: bool
    score: str = ""


CRITERIA = (
    Criterion("auroc", "AUROC of OOD inputs, by each method's own score", "AUROC", is_higher_better=True),
    Criterion("accuracy", "accuracy", "accuracy", is_higher_better=True, score="raw_accuracy"),
    Criterion("nll", "negative log-likelihood (NLL)", "NLL", is_higher_better=False, score="nll"),
    Criterion("ece", "calibration error (ECE)", "ECE", is_higher_better=False, score="ece"),
    Criterion(
        "aurc", "area under risk against coverage (AURC)", "AURC", is_higher_better=False, score="aurc"
    ),
)


@dataclass(frozen=True)
class Ranking:
    """Mean ranks of methods over blocks, which are data sets or OOD sets.

    Args:
        mean_ranks: The mean rank of each arm, 1 for the best.
        blocks: The data sets on which all of these arms were measured.
        statistic: Friedman's, corrected for ties.
        p_value: How probable so large a statistic is, if all methods are alike.
        critical_difference: Two mean ranks that are further apart differ at the level of 5 %.
    """

    mean_ranks: Mapping[str, float]
    blocks: Sequence[str]
    statistic: float
    p_value: float
    critical_difference: float

    @property
    def not_ranked(self) -> tuple[str, ...]:
        """The arms of the study that are left out, as they were not measured on all of the blocks."""
        return tuple(arm for arm in ALL_ARMS if arm not in self.mean_ranks)

    def groups(self) -> list[tuple[str, ...]]:
        """The largest groups of arms of which no two are shown to differ, in the order of their ranks."""
        ordered = sorted(self.mean_ranks, key=lambda arm: self.mean_ranks[arm])
        groups: list[tuple[str, ...]] = []
        last_end = 0
        for start, first in enumerate(ordered):
            end = start
            limit = self.mean_ranks[first] + self.critical_difference
            while end < len(ordered) and self.mean_ranks[ordered[end]] <= limit:
                end += 1
            if end - start > 1 and end > last_end:
                groups.append(tuple(ordered[start:end]))
                last_end = end
        return groups


def rank(values: Mapping[str, Mapping[str, float]], is_higher_better: bool) -> Ranking | None:
    """Rank methods over blocks.

    Args:
        values: Value of each arm, by block; the arms are the same in all blocks.
        is_higher_better: Whether the best has the highest value.

    Returns:
        The ranking; None of fewer than three methods or two blocks.
    """
    from scipy.stats import friedmanchisquare, rankdata

    blocks = list(values)
    arms = list(values[blocks[0]]) if blocks else []
    count = len(arms)
    if count < LEAST_METHODS or len(blocks) < LEAST_BLOCKS:
        return None
    sums = dict.fromkeys(arms, 0.0)
    for block in blocks:
        row = [values[block][arm] for arm in arms]
        if is_higher_better:
            row = [-value for value in row]
        ranks = rankdata(row)
        for arm, place in zip(arms, ranks, strict=True):
            sums[arm] += float(place)
    mean_ranks = {arm: total / len(blocks) for arm, total in sums.items()}
    statistic = 0.0
    p_value = 1.0
    # Of equal mean ranks the statistic is 0, but where all values are tied scipy divides 0 by 0.
    if len(set(mean_ranks.values())) > 1:
        columns = []
        for arm in arms:
            columns.append([values[block][arm] for block in blocks])
        tested = friedmanchisquare(*columns)
        statistic = float(tested.statistic)
        p_value = float(tested.pvalue)
    return Ranking(mean_ranks, blocks, statistic, p_value, critical_difference(count, len(blocks)))


def critical_difference(methods: int, blocks: int) -> float:
    """How far apart two mean ranks must be to differ, by Nemenyi's test at the level of 5 %."""
    from scipy.stats import studentized_range

    quantile = float(studentized_range.ppf(1 - LEVEL, methods, math.inf)) / math.sqrt(2)
    return quantile * math.sqrt(methods * (methods + 1) / (6 * blocks))


def ranking(results: SuccessorResults, criterion: Criterion, variant: str) -> Ranking | None:
    """Rank the arms over the data sets on which all of them were measured.

    While there are fewer than two such: over the data sets on which at least a third of the arms were
    measured, those that were measured on all of these, so that what is finished of the study can be read.
    None while there are too few for that too.
    """
    values: dict[str, dict[str, float]] = {}
    for block, study_set, ood in _blocks(criterion):
        row = {}
        for arm in ALL_ARMS:
            if criterion.score:
                value = results.score(study_set, arm, variant, criterion.score)
            else:
                value = results.auroc(study_set, arm, variant, ood)
            if value is not None:
                row[arm] = value
        values[block] = row
    whole = {block: row for block, row in values.items() if len(row) == len(ALL_ARMS)}
    if len(whole) < LEAST_BLOCKS:
        whole = _shared_part(values)
    return rank(whole, criterion.is_higher_better)


def _shared_part(values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Of the blocks with enough of the arms, the arms that all of these have."""
    blocks = [block for block, row in values.items() if len(row) >= LEAST_SHARE * len(ALL_ARMS)]
    arms = [arm for arm in ALL_ARMS if all(arm in values[block] for block in blocks)]
    part = {}
    for block in blocks:
        part[block] = {arm: values[block][arm] for arm in arms}
    return part


def _blocks(criterion: Criterion) -> list[tuple[str, str, str]]:
    """What is ranked over: its name, the data set, and the OOD set where the criterion needs one."""
    blocks = []
    if criterion.score:
        for name, each in SETS.items():
            if each.arms == ALL_ARMS:
                blocks.append((each.title, name, ""))
        return blocks
    for name, ood in ood_pairs():
        if SETS[name].arms == ALL_ARMS:
            blocks.append((f"{SETS[name].title}: {ood}", name, ood))
    return blocks
