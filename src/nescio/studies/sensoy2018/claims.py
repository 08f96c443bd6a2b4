"""What the paper claims, and whether our numbers bear it out: verdicts computed by rules that are shown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nescio.studies.sensoy2018.book import CIFAR5, MNIST, STRANGERS_OF, TITLES, Book, label
from nescio.studies.sensoy2018.experiments import COMPARED, FGSM, KNOWN, LOSSES, PGD, ROTATION, STRANGERS
from nescio.studies.sensoy2018.figure45 import over_epsilons
from nescio.studies.sensoy2018.table1 import PUBLISHED

MARKS = REPRODUCED, PARTLY, NOT, MISSING = "reproduced", "partly", "not reproduced", "not measured"
OURS = ("edl", "edl-paper")
OTHERS = tuple(variant for variant in COMPARED if variant not in OURS)
ALLOWED = {MNIST: 0.3, CIFAR5: 2.0}  # points of accuracy below the paper's
HIGH, SURE, HALF = 0.9, 0.7, 0.5
CLEARLY = 0.05  # of accuracy and of entropy
DETECTED = 0.01  # of AUROC
ENOUGH_SEEDS = 3  # to speak of a standard deviation
ROUNDING = 1e-9
UNSTABLE = 4  # times the standard deviation: with three seeds chance makes it once in 17


@dataclass(frozen=True)
class Verdict:
    """A mark and the numbers that it comes from."""

    mark: str
    found: str


@dataclass(frozen=True)
class Claim:
    """What the paper says, where it can be seen, the rule, and a check of one variant of EDL.

    subjects: the variants that it is checked for; empty where it is about no variant of EDL. role: the
    paper's data set that it is about.
    """

    says: str
    shown_in: str
    rule: str
    check: Callable[[Book, str], Verdict | None]
    subjects: tuple[str, ...] = OURS
    role: str = MNIST


@dataclass(frozen=True)
class Checked:
    """A claim, the data it was checked on, and its verdicts, by the name of what was checked."""

    claim: Claim
    on: str
    verdicts: dict[str, Verdict]


def check_all(book: Book) -> list[Checked]:
    """Every claim; one without results is marked so."""
    missing = Verdict(MISSING, "no results")
    return [
        Checked(
            claim,
            _measured_on(book, claim),
            {label(one) if one else "": claim.check(book, one) or missing for one in claim.subjects or ("",)},
        )
        for claim in CLAIMS
    ]


def _measured_on(book: Book, claim: Claim) -> str:
    """The data in words: in the quick run these are not the paper's."""
    study = book.study(claim.role)
    if study is None:
        return f"none, this run has no stand-in for {TITLES[claim.role]}"
    return f"{TITLES[study]} and {STRANGERS_OF[study]}" if claim.shown_in == "figure3" else TITLES[study]


def _marked(whole: bool, part: bool, found: str) -> Verdict:
    return Verdict(REPRODUCED if whole else PARTLY if part else NOT, found)


def _among(whole: bool, part: bool, found: str, values: Mapping[str, float], of: Iterable[str]) -> Verdict:
    """As `_marked`; while some that should be compared are not measured, only a failure is certain."""
    missing = ", ".join(label(name) for name in of if name not in values)
    if not missing:
        return _marked(whole, part, found)
    return Verdict(MISSING if whole or part else NOT, f"{found}; not measured: {missing}")


def _values(book: Book, role: str, variants: Iterable[str], part: str, *path: str) -> dict[str, float]:
    study = book.study(role)
    found = {name: book.mean(study, name, part, *path) for name in variants}
    return {name: value for name, value in found.items() if value is not None}


def _said(values: Mapping[str, float], scale: float = 100.0, digits: int = 1) -> str:
    """The values in words."""
    return ", ".join(f"{label(name)} {scale * value:.{digits}f}" for name, value in values.items())


def _table_is_met(role: str) -> Callable[[Book, str], Verdict | None]:
    def check(book: Book, _: str) -> Verdict | None:
        ours = _values(book, role, COMPARED, KNOWN, "scores", "accuracy")
        if not ours:
            return None
        least = {name: PUBLISHED[name][role] - ALLOWED[role] for name in ours}
        met = {name: 100 * ours[name] >= least[name] - ROUNDING for name in ours}
        found = f"{sum(met.values())} of {len(met)}: {_said(ours, digits=2)}"
        if missed := [label(name) for name in met if not met[name]]:
            found += f"; missed by {', '.join(missed)}"
        half = 2 * sum(met.values()) >= len(met)
        return _among(all(met.values()), half or len(ours) < len(COMPARED), found, ours, COMPARED)

    return check


def _is_comparable(role: str) -> Callable[[Book, str], Verdict | None]:
    def check(book: Book, subject: str) -> Verdict | None:
        values = _values(book, role, (*OTHERS, subject), KNOWN, "scores", "accuracy")
        ours = values.pop(subject, None)
        if ours is None or not values:
            return None
        behind = 100 * (max(values.values()) - ours)
        published = max(PUBLISHED[name][role] for name in OTHERS) - PUBLISHED["edl"][role]
        allowed = published + ALLOWED[role]
        found = f"{100 * ours:.2f}, the best other {100 * max(values.values()):.2f}"
        near = behind <= allowed + ROUNDING, behind <= 2 * allowed + ROUNDING
        return _among(*near, found, values, OTHERS)

    return check


def _turning_softmax(book: Book, _: str) -> Verdict | None:
    numbers = book.numbers(book.study(MNIST), "l2", ROTATION)
    if not numbers:
        return None
    wrong = [max(row) for each in numbers for row in each["probabilities"] if _answer(each, row) != "1"]
    if not wrong:
        return Verdict(NOT, "softmax was right at every angle")
    mean, most = statistics.fmean(wrong), max(wrong)
    found = f"mean {100 * mean:.0f}%, at most {100 * most:.0f}%, {len(wrong)} wrong answers"
    return _marked(mean >= SURE, most >= SURE, found)


def _answer(numbers: Any, probabilities: Sequence[float]) -> str:
    return str(numbers["classes"][max(range(len(probabilities)), key=probabilities.__getitem__)])


def _turning_edl(book: Book, subject: str) -> Verdict | None:
    numbers = book.numbers(book.study(MNIST), subject, ROTATION)
    if not numbers:
        return None
    sideways = [
        u
        for each in numbers
        for degrees, u in zip(each["degrees"], each["uncertainty"], strict=True)
        if 60 <= degrees <= 120
    ]
    upright = statistics.fmean(each["uncertainty"][0] for each in numbers)
    mean = statistics.fmean(sideways)
    found = f"u is {upright:.2f} upright and {mean:.2f} between 60 and 120 degrees"
    return _marked(upright <= 0.3 and mean >= 0.8, upright <= 0.3 and mean >= HALF, found)


def _threshold_to_one(book: Book, subject: str) -> Verdict | None:
    return _selective(
        book, MNIST, subject, lambda whole, kept: kept >= 0.9995 - ROUNDING, _errors_fall_to(1 / 2)
    )


def _threshold_gains(book: Book, subject: str) -> Verdict | None:
    return _selective(book, CIFAR5, subject, _errors_fall_to(1 / 2), _errors_fall_to(3 / 4))


Enough = Callable[[float, float], bool]


def _errors_fall_to(part: float) -> Enough:
    """Whether the share of errors among those kept is at most so much of that among all."""
    return lambda whole, kept: 1 - kept <= part * (1 - whole) + ROUNDING


def _selective(book: Book, role: str, subject: str, enough: Enough, part: Enough) -> Verdict | None:
    """Accuracy at the least threshold that answers at least half of the images, against that of all."""
    curves = [each["threshold"] for each in book.numbers(book.study(role), subject, KNOWN)]
    if not curves:
        return None
    points = [
        next(pair for pair in zip(each["accuracy"], each["coverage"], strict=True) if pair[1] >= HALF)
        for each in curves
    ]
    kept, share = (statistics.fmean(values) for values in zip(*points, strict=True))
    whole = statistics.fmean(each["accuracy"][-1] for each in curves)
    found = f"{100 * kept:.2f}% on the most certain {100 * share:.0f}%, {100 * whole:.2f}% on all"
    return _marked(enough(whole, kept), part(whole, kept), found)


def _strangers_mnist(book: Book, subject: str) -> Verdict | None:
    values = _values(book, MNIST, (*OTHERS, subject), STRANGERS, "scores", "unknown_median_entropy")
    ours = values.get(subject)
    if ours is None or len(values) < 2:
        return None
    best = max(value for name, value in values.items() if name != subject)
    return _among(ours >= HIGH and ours > best, ours > best, _said(values), values, OTHERS)


def _strangers_cifar5(book: Book, subject: str) -> Verdict | None:
    values = _values(book, CIFAR5, (*OTHERS, subject), STRANGERS, "scores", "unknown_mean_entropy")
    ours = values.get(subject)
    if ours is None or len(values) < 2:
        return None
    best = max(value for name, value in values.items() if name != subject)
    clearly = ours >= best + CLEARLY - ROUNDING
    return _among(clearly, ours > best, _said(values), values, OTHERS)


def _detection(role: str) -> Callable[[Book, str], Verdict | None]:
    def check(book: Book, subject: str) -> Verdict | None:
        values = _values(book, role, (*OTHERS, subject), STRANGERS, "scores", "entropy_auroc")
        ours = values.get(subject)
        if ours is None or len(values) < 2:
            return None
        best = max(value for name, value in values.items() if name != subject)
        return _among(ours >= best + DETECTED - ROUNDING, ours > best, _said(values, 1.0, 3), values, OTHERS)

    return check


def _attacked(
    book: Book, role: str, measure: str, variants: Iterable[str], part: str = FGSM
) -> dict[str, float]:
    found = {name: over_epsilons(book, book.study(role), name, part, measure) for name in variants}
    return {name: value for name, value in found.items() if value is not None}


def _dropout_withstands(book: Book, _: str) -> Verdict | None:
    shown = [name for name in COMPARED if name != "ensemble"]
    values = _attacked(book, MNIST, "accuracy", shown)
    if "dropout" not in values or len(values) < 2:
        return None
    better = sum(value > values["dropout"] for value in values.values())
    return _among(better == 0, better == 1, _said(values), values, shown)


def _dropout_is_overconfident(book: Book, _: str) -> Verdict | None:
    shown = ("dropout", *OURS)
    values = _attacked(book, MNIST, "entropy_when_wrong", shown)
    ours = values.get("dropout")
    if ours is None or len(values) < 2:
        return None
    lowest = ours < min(value for name, value in values.items() if name != "dropout")
    return _among(ours < HALF and lowest, ours < HALF or lowest, _said(values), values, shown)


def _doubts_when_wrong(role: str, high: float) -> Callable[[Book, str], Verdict | None]:
    def check(book: Book, subject: str) -> Verdict | None:
        variants = [*(name for name in OTHERS if name != "ensemble"), subject]
        values = _attacked(book, role, "entropy_when_wrong", variants)
        ours = values.get(subject)
        if ours is None or len(values) < 2:
            return None
        best = max(value for name, value in values.items() if name != subject)
        return _among(ours >= high and ours > best, ours > best, _said(values), values, variants)

    return check


def _others_are_overconfident(book: Book, _: str) -> Verdict | None:
    shown = [name for name in OTHERS if name != "ensemble"]
    values = _attacked(book, CIFAR5, "entropy_when_wrong", shown)
    if not values:
        return None
    below = sum(value < HALF for value in values.values())
    half = 2 * below >= len(values) or len(values) < len(shown)
    return _among(below == len(values), half, _said(values), values, shown)


def _withstands_pgd(role: str) -> Callable[[Book, str], Verdict | None]:
    def check(book: Book, subject: str) -> Verdict | None:
        accuracy = _attacked(book, role, "accuracy", ("l2", subject), PGD)
        doubt = _attacked(book, role, "entropy_when_wrong", ("l2", subject), PGD)
        if len(accuracy) < 2 or len(doubt) < 2:
            return None
        more = accuracy[subject] >= accuracy["l2"] + CLEARLY - ROUNDING
        doubts = doubt[subject] >= doubt["l2"] + CLEARLY - ROUNDING
        stuck = _attacked(book, role, "without_gradient", (subject,), PGD)
        found = f"accuracy: {_said(accuracy)}; entropy when wrong: {_said(doubt)}; "
        found += f"gradient exactly zero: {_said(stuck)}"
        return _marked(more and doubts, more or doubts, found)

    return check


def _excessive_belief(book: Book, _: str) -> Verdict | None:
    values = _values(book, MNIST, LOSSES, KNOWN, "evidence", "belief_when_wrong")
    if set(values) != set(LOSSES):
        return None
    enough = values["edl"] + CLEARLY - ROUNDING
    higher = sum(values[name] >= enough for name in LOSSES if name != "edl")
    return _marked(higher == 2, higher == 1, _said(values))


def _less_stable(book: Book, _: str) -> Verdict | None:
    seeds = {name: book.values(book.study(MNIST), name, KNOWN, "scores", "accuracy") for name in LOSSES}
    counts = {name: len(values) for name, values in seeds.items()}
    if len(set(counts.values())) > 1 or min(counts.values()) < ENOUGH_SEEDS:
        found = ", ".join(f"{LOSSES[name]} {count}" for name, count in counts.items())
        return Verdict(MISSING, f"seeds: {found}") if any(counts.values()) else None
    values = {name: statistics.stdev(each) for name, each in seeds.items()}
    usual = values.pop("edl")
    higher = sum(usual < value >= UNSTABLE * usual - ROUNDING for value in values.values())
    return _marked(higher == 2, higher == 1, _said({"edl": usual, **values}, digits=3))


NOBODY: tuple[str, ...] = ()
CLAIMS = (
    Claim(
        "The accuracies of Table 1 on MNIST",
        "table1",
        "each method at most 0.3 points below the paper's number; partly: half of them",
        _table_is_met(MNIST),
        NOBODY,
    ),
    Claim(
        "The accuracies of Table 1 on CIFAR5",
        "table1",
        "each method at most 2 points below the paper's number; partly: half of them",
        _table_is_met(CIFAR5),
        NOBODY,
        role=CIFAR5,
    ),
    Claim(
        "EDL's accuracy on MNIST is comparable to that of the others",
        "table1",
        "behind the best other by no more than in the paper and 0.3 points; partly: twice that",
        _is_comparable(MNIST),
    ),
    Claim(
        "EDL's accuracy on CIFAR5 is comparable to that of the others",
        "table1",
        "behind the best other by no more than in the paper and 2 points; partly: twice that",
        _is_comparable(CIFAR5),
        role=CIFAR5,
    ),
    Claim(
        "Softmax keeps a high confidence in wrong classes for the turning 1",
        "figure1",
        "where softmax is wrong, its mean probability is at least 70%; partly: its highest is",
        _turning_softmax,
        NOBODY,
    ),
    Claim(
        "EDL's uncertainty rises sharply when the 1 is turned",
        "figure1",
        "u at most 0.3 upright and at least 0.8 on average from 60 to 120 degrees; partly: at least 0.5",
        _turning_edl,
    ),
    Claim(
        "On MNIST, accuracy becomes 1 as the uncertainty allowed falls",
        "figure2",
        "at least 99.95% on the most certain images, half of all or more; partly: errors at most half as "
        "frequent as among all",
        _threshold_to_one,
    ),
    Claim(
        "On CIFAR5, predictions are much more accurate as the uncertainty falls",
        "figure2",
        "on the most certain images, half of all or more, errors at most half as frequent as among all; "
        "partly: at most three quarters",
        _threshold_gains,
        role=CIFAR5,
    ),
    Claim(
        "On notMNIST, EDL's uncertainty is significantly better than all others'",
        "figure3",
        "median entropy at least 90% of its maximum and the highest; partly: the highest",
        _strangers_mnist,
    ),
    Claim(
        "On the unseen classes of CIFAR-10, EDL is much more uncertain than all others",
        "figure3",
        "mean entropy at least 5 points of its maximum above that of every other; partly: the highest",
        _strangers_cifar5,
        role=CIFAR5,
    ),
    Claim(
        "Unprecedented success in detecting strangers, MNIST",
        "figure3",
        "AUROC by entropy at least 0.01 above that of every other; partly: the highest",
        _detection(MNIST),
    ),
    Claim(
        "Unprecedented success in detecting strangers, CIFAR5",
        "figure3",
        "AUROC by entropy at least 0.01 above that of every other; partly: the highest",
        _detection(CIFAR5),
        role=CIFAR5,
    ),
    Claim(
        "Under attack on MNIST, Dropout has the highest accuracy",
        "figure4",
        "the highest mean accuracy over all epsilons above 0, Deep Ensemble left out; partly: the second "
        "highest",
        _dropout_withstands,
        NOBODY,
    ),
    Claim(
        "Under attack on MNIST, Dropout is overconfident in its wrong answers",
        "figure4",
        "mean entropy of all wrong images below 50% of the maximum and below EDL's; partly: one of both",
        _dropout_is_overconfident,
        NOBODY,
    ),
    Claim(
        "Under attack on MNIST, EDL gives its wrong answers very high uncertainty",
        "figure4",
        "mean entropy of all wrong images at least 90% of the maximum and the highest; partly: the highest",
        _doubts_when_wrong(MNIST, HIGH),
    ),
    Claim(
        "Under attack on CIFAR5, EDL gives its wrong answers higher uncertainty",
        "figure5",
        "the highest mean entropy of all wrong images, and at least 50% of the maximum; partly: the highest",
        _doubts_when_wrong(CIFAR5, HALF),
        role=CIFAR5,
    ),
    Claim(
        "Under attack on CIFAR5, the others are overconfident in their wrong answers",
        "figure5",
        "mean entropy of all wrong images below 50% of the maximum for each of them; partly: for half",
        _others_are_overconfident,
        NOBODY,
        role=CIFAR5,
    ),
    Claim(
        "Endurance against attacks, MNIST",
        "figure4-honest",
        "under PGD, which the paper does not use: accuracy, and entropy of all wrong images, both at least 5 "
        "points above those of L2; partly: one of both",
        _withstands_pgd(MNIST),
    ),
    Claim(
        "Endurance against attacks, CIFAR5",
        "figure5-honest",
        "under PGD, which the paper does not use: accuracy, and entropy of all wrong images, both at least 5 "
        "points above those of L2; partly: one of both",
        _withstands_pgd(CIFAR5),
        role=CIFAR5,
    ),
    Claim(
        "The losses of equations 3 and 4 give excessively high belief",
        "losses",
        "mean belief when wrong at least 5 points above that of equation 5 for both; partly: for one",
        _excessive_belief,
        NOBODY,
    ),
    Claim(
        "The losses of equations 3 and 4 are less stable",
        "losses",
        "standard deviation of the accuracy over the same number of seeds, 3 or more, at least four times "
        "that of equation 5 for both, which chance seldom makes; partly: for one",
        _less_stable,
        NOBODY,
    ),
)
