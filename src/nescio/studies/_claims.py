"""Claims: what a paper says, a rule that can be computed, and the verdict on our numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

REPRODUCED = "reproduced"
PARTLY = "partly"
NOT_REPRODUCED = "not reproduced"
NOT_MEASURED = "not measured"
NO_RESULTS = "no results"  # found where there is nothing to judge
MARKS = (REPRODUCED, PARTLY, NOT_REPRODUCED, NOT_MEASURED)


@dataclass(frozen=True)
class Verdict:
    """A mark of MARKS, and the numbers that it comes from in words."""

    mark: str
    found: str


@dataclass(frozen=True)
class Claim:
    """What a paper says.

    Args:
        says: The claim.
        shown_in: The table or figure that shows it.
        rule: When it counts as reproduced, and when as partly.
        check: Function from results and an arm to a verdict; None where there are no results.
        subjects: The arms that it is checked for; empty where it is about no arm in particular.
        topic: What it is about, for the study's own use.
    """

    says: str
    shown_in: str
    rule: str
    check: Callable[[Any, str], Verdict | None]
    subjects: tuple[str, ...] = ()
    topic: str = ""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its verdicts.

    Args:
        claim: What was checked.
        stand_in: The data that stand in for the paper's, in words; empty where they are the paper's own.
        verdicts: Verdicts by the label of the arm that was checked; without a label where it is about none.
    """

    claim: Claim
    stand_in: str
    verdicts: Mapping[str, Verdict]


def grade(whole: bool, part: bool, found: str) -> Verdict:
    """Reproduced, partly or not."""
    if whole:
        return Verdict(REPRODUCED, found)
    if part:
        return Verdict(PARTLY, found)
    return Verdict(NOT_REPRODUCED, found)
