"""What the paper claims, and whether our numbers bear it out: verdicts computed by rules that are shown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from nescio.studies._claims import (
    NO_RESULTS,
    NOT_MEASURED,
    NOT_REPRODUCED,
    CheckedClaim,
    Claim,
    Verdict,
    grade,
)
from nescio.studies.sensoy2018._arms import COMPARED, LOSSES, OTHERS, OTHERS_ATTACKED, label, labels
from nescio.studies.sensoy2018._figure45 import estimate_over
from nescio.studies.sensoy2018._results import CIFAR5, MNIST, OOD_TITLES, TITLES, PaperResults
from nescio.studies.sensoy2018._table1 import PUBLISHED
from nescio.studies.sensoy2018.presets import FGSM, KNOWN, OOD, PAPER, PGD, ROTATION

Check = Callable[[PaperResults, str], Verdict | None]

SUBJECTS = ("edl", "edl-printed")
WHERE_MEASURED = ("edl-notebook",)  # checked too, but only where there are results of it
ALLOWED = {MNIST: 0.3, CIFAR5: 2.0}  # points of accuracy below the paper's
NOTEBOOK_ACCURACY = 98.8
NOTEBOOK_EVIDENCE = 56.0
HIGH = 0.9
SURE = 0.7
HALF = 0.5
CLEARLY = 0.05  # of accuracy and of entropy
DETECTED = 0.01  # of AUROC
ENOUGH_SEEDS = 3  # to speak of a standard deviation
ROUNDING = 1e-9
UNSTABLE = 4  # times the standard deviation: with three seeds chance makes it once in 17


def check_all(results: PaperResults) -> list[CheckedClaim]:
    """Check every claim; one without results is marked so."""
    return [_checked(results, claim) for claim in CLAIMS]


def _checked(results: PaperResults, claim: Claim) -> CheckedClaim:
    verdicts = {}
    for subject in claim.subjects or ("",):
        verdict = claim.check(results, subject)
        name = label(subject) if subject else ""
        verdicts[name] = verdict or Verdict(NOT_MEASURED, NO_RESULTS)
    if claim.subjects:
        for subject in WHERE_MEASURED:
            verdict = claim.check(results, subject)
            if verdict is not None:
                verdicts[label(subject)] = verdict
    return CheckedClaim(claim, _stand_in(results, claim), verdicts)


def _stand_in(results: PaperResults, claim: Claim) -> str:
    """The data in words where these are not the paper's, as in the quick run."""
    comparison = results.comparison(claim.topic)
    if comparison is None:
        return f"none, this run has no stand-in for {TITLES[claim.topic]}"
    if comparison == claim.topic:
        return ""
    if claim.shown_in == "figure3":
        return f"{TITLES[comparison]} and {OOD_TITLES[comparison]}"
    return TITLES[comparison]


def _graded_among(
    whole: bool, part: bool, found: str, values: Mapping[str, float], needed: Iterable[str]
) -> Verdict:
    """As `grade`; while some that should be compared are not measured, only a failure is certain."""
    missing = [arm for arm in needed if arm not in values]
    if not missing:
        return grade(whole, part, found)
    found = f"{found}; not measured: {labels(missing)}"
    if whole or part:
        return Verdict(NOT_MEASURED, found)
    return Verdict(NOT_REPRODUCED, found)


def _means(
    results: PaperResults, role: str, arms: Iterable[str], measurement: str, *path: str
) -> dict[str, float]:
    """The mean of each arm that has one."""
    found = {}
    for arm in arms:
        mean = results.mean(results.comparison(role), arm, measurement, *path)
        if mean is not None:
            found[arm] = mean
    return found


def _in_words(values: Mapping[str, float], scale: float = 100.0, digits: int = 1) -> str:
    return ", ".join(f"{label(arm)} {scale * value:.{digits}f}" for arm, value in values.items())


def _accuracies(
    results: PaperResults, role: str, arms: Iterable[str]
) -> tuple[dict[str, float], dict[str, str]]:
    """By raw outputs, and for each a text with the strict number beside it where that differs."""
    arms = list(arms)
    raw = _means(results, role, arms, KNOWN, "scores", "raw_accuracy")
    strict = _means(results, role, arms, KNOWN, "scores", "accuracy")
    texts = {}
    for arm, value in raw.items():
        texts[arm] = f"{100 * value:.2f}"
        if strict[arm] != value:
            texts[arm] += f" (strict {100 * strict[arm]:.2f})"
    return raw, texts


def _best_other(values: Mapping[str, float], subject: str) -> float:
    return max(value for arm, value in values.items() if arm != subject)


def _table_is_met(role: str) -> Check:
    def check(results: PaperResults, _: str) -> Verdict | None:
        needed = [arm for arm in results.listed(results.comparison(role)) if arm not in WHERE_MEASURED]
        accuracies, texts = _accuracies(results, role, needed)
        if not accuracies:
            return None
        missed = []
        for arm, value in accuracies.items():
            if 100 * value < PUBLISHED[arm][role] - ALLOWED[role] - ROUNDING:
                missed.append(arm)
        met = len(accuracies) - len(missed)
        said = ", ".join(f"{label(arm)} {text}" for arm, text in texts.items())
        if results.comparison(role) != role:
            return Verdict(NOT_MEASURED, said)  # the paper's numbers are about its own data
        found = f"{met} of {len(accuracies)}: {said}"
        if missed:
            found += f"; missed by {labels(missed)}"
        is_half = 2 * met >= len(accuracies) or len(accuracies) < len(needed)
        return _graded_among(not missed, is_half, found, accuracies, needed)

    return check


def _is_comparable(role: str) -> Check:
    def check(results: PaperResults, subject: str) -> Verdict | None:
        accuracies, texts = _accuracies(results, role, (*OTHERS, subject))
        if subject not in accuracies or len(accuracies) < 2:
            return None
        best = _best_other(accuracies, subject)
        behind = 100 * (best - accuracies[subject])
        published = max(PUBLISHED[arm][role] for arm in OTHERS) - PUBLISHED["edl"][role]
        allowed = published + ALLOWED[role]
        found = f"{texts[subject]}, the best other {100 * best:.2f}"
        is_near = behind <= allowed + ROUNDING
        is_nearly = behind <= 2 * allowed + ROUNDING
        return _graded_among(is_near, is_nearly, found, accuracies, OTHERS)

    return check


def _notebook(results: PaperResults, _: str) -> Verdict | None:
    comparison = results.comparison(MNIST)
    accuracy = results.mean(comparison, "edl-notebook", KNOWN, "scores", "raw_accuracy")
    evidence = results.mean(comparison, "edl-notebook", KNOWN, "evidence", "right")
    if accuracy is None or evidence is None:
        return None
    is_accurate = abs(100 * accuracy - NOTEBOOK_ACCURACY) <= 0.25 + ROUNDING
    has_evidence = abs(evidence - NOTEBOOK_EVIDENCE) <= 6 + ROUNDING
    found = f"{100 * accuracy:.2f}% by raw outputs, a mean evidence of {evidence:.1f} on right answers"
    return grade(is_accurate and has_evidence, is_accurate or has_evidence, found)


def _turning_softmax(results: PaperResults, _: str) -> Verdict | None:
    all_numbers = results.numbers(results.comparison(MNIST), "l2", ROTATION)
    if not all_numbers:
        return None
    wrong = []
    for numbers in all_numbers:
        for probabilities in numbers["probabilities"]:
            if _answer(numbers, probabilities) != "1":
                wrong.append(max(probabilities))
    if not wrong:
        return Verdict(NOT_REPRODUCED, "softmax was right at every angle")
    mean = statistics.fmean(wrong)
    most = max(wrong)
    found = f"mean {100 * mean:.0f}%, at most {100 * most:.0f}%, {len(wrong)} wrong answers"
    return grade(mean >= SURE, most >= SURE, found)


def _answer(numbers: Any, probabilities: Sequence[float]) -> str:
    place = probabilities.index(max(probabilities))
    return str(numbers["classes"][place])


def _turning_edl(results: PaperResults, subject: str) -> Verdict | None:
    all_numbers = results.numbers(results.comparison(MNIST), subject, ROTATION)
    if not all_numbers:
        return None
    sideways = []
    upright_only = []
    for numbers in all_numbers:
        upright_only.append(numbers["uncertainty"][0])
        for degrees, uncertainty in zip(numbers["degrees"], numbers["uncertainty"], strict=True):
            if 60 <= degrees <= 120:
                sideways.append(uncertainty)
    upright = statistics.fmean(upright_only)
    mean = statistics.fmean(sideways)
    found = f"u is {upright:.2f} upright and {mean:.2f} between 60 and 120 degrees"
    return grade(upright <= 0.3 and mean >= 0.8, upright <= 0.3 and mean >= HALF, found)


def _threshold_to_one(results: PaperResults, subject: str) -> Verdict | None:
    found = _most_certain(results, MNIST, subject)
    if found is None:
        return None
    kept, errors, text = found
    return grade(kept >= 0.9995 - ROUNDING, errors <= 1 / 2 + ROUNDING, text)


def _threshold_gains(results: PaperResults, subject: str) -> Verdict | None:
    found = _most_certain(results, CIFAR5, subject)
    if found is None:
        return None
    _, errors, text = found
    return grade(errors <= 1 / 2 + ROUNDING, errors <= 3 / 4 + ROUNDING, text)


def _most_certain(results: PaperResults, role: str, subject: str) -> tuple[float, float, str] | None:
    """At the least threshold that answers at least half of the images: accuracy, errors as a part of those
    among all, and both in words."""
    accuracies = []
    shares = []
    all_accuracies = []
    for numbers in results.numbers(results.comparison(role), subject, KNOWN):
        curve = numbers["threshold"]
        place = next(index for index, share in enumerate(curve["coverage"]) if share >= HALF)
        accuracies.append(curve["accuracy"][place])
        shares.append(curve["coverage"][place])
        all_accuracies.append(curve["accuracy"][-1])
    if not accuracies:
        return None
    kept = statistics.fmean(accuracies)
    share = statistics.fmean(shares)
    whole = statistics.fmean(all_accuracies)
    errors = (1 - kept) / (1 - whole) if whole < 1 else 1.0
    text = f"{100 * kept:.2f}% on the most certain {100 * share:.0f}%, {100 * whole:.2f}% on all"
    return kept, errors, text


def _doubts_notmnist(results: PaperResults, subject: str) -> Verdict | None:
    values = _means(results, MNIST, (*OTHERS, subject), OOD, "scores", "ood_median_entropy")
    if subject not in values or len(values) < 2:
        return None
    ours = values[subject]
    is_highest = ours > _best_other(values, subject)
    return _graded_among(ours >= HIGH and is_highest, is_highest, _in_words(values), values, OTHERS)


def _doubts_unseen_classes(results: PaperResults, subject: str) -> Verdict | None:
    values = _means(results, CIFAR5, (*OTHERS, subject), OOD, "scores", "ood_mean_entropy")
    if subject not in values or len(values) < 2:
        return None
    ours = values[subject]
    best = _best_other(values, subject)
    is_clear = ours >= best + CLEARLY - ROUNDING
    return _graded_among(is_clear, ours > best, _in_words(values), values, OTHERS)


def _detects(role: str) -> Check:
    def check(results: PaperResults, subject: str) -> Verdict | None:
        values = _means(results, role, (*OTHERS, subject), OOD, "scores", "entropy_auroc")
        if subject not in values or len(values) < 2:
            return None
        ours = values[subject]
        best = _best_other(values, subject)
        is_clear = ours >= best + DETECTED - ROUNDING
        return _graded_among(is_clear, ours > best, _in_words(values, 1.0, 3), values, OTHERS)

    return check


def _attacked(
    results: PaperResults, role: str, measure: str, arms: Iterable[str], attack: str = FGSM
) -> dict[str, float]:
    """The mean over all epsilons above 0 of each arm that has one."""
    values = {}
    for arm in arms:
        found = estimate_over(results, results.comparison(role), arm, attack, measure)
        if found is not None:
            values[arm] = found.mean
    return values


def _dropout_withstands(results: PaperResults, _: str) -> Verdict | None:
    needed = (*OTHERS_ATTACKED, *SUBJECTS)
    values = _attacked(results, MNIST, "accuracy", needed)
    if "dropout" not in values or len(values) < 2:
        return None
    better = sum(value > values["dropout"] for value in values.values())
    return _graded_among(better == 0, better == 1, _in_words(values), values, needed)


def _dropout_is_overconfident(results: PaperResults, _: str) -> Verdict | None:
    needed = ("dropout", *SUBJECTS)
    values = _attacked(results, MNIST, "entropy_when_wrong", needed)
    if "dropout" not in values or len(values) < 2:
        return None
    ours = values["dropout"]
    is_lowest = ours < min(values[arm] for arm in values if arm != "dropout")
    is_low = ours < HALF
    return _graded_among(is_low and is_lowest, is_low or is_lowest, _in_words(values), values, needed)


def _doubts_when_wrong(role: str, high: float) -> Check:
    def check(results: PaperResults, subject: str) -> Verdict | None:
        needed = (*OTHERS_ATTACKED, subject)
        values = _attacked(results, role, "entropy_when_wrong", needed)
        if subject not in values or len(values) < 2:
            return None
        ours = values[subject]
        is_highest = ours > _best_other(values, subject)
        return _graded_among(ours >= high and is_highest, is_highest, _in_words(values), values, needed)

    return check


def _others_are_overconfident(results: PaperResults, _: str) -> Verdict | None:
    values = _attacked(results, CIFAR5, "entropy_when_wrong", OTHERS_ATTACKED)
    if not values:
        return None
    below = sum(value < HALF for value in values.values())
    is_half = 2 * below >= len(values) or len(values) < len(OTHERS_ATTACKED)
    return _graded_among(below == len(values), is_half, _in_words(values), values, OTHERS_ATTACKED)


def _withstands_pgd(role: str) -> Check:
    def check(results: PaperResults, subject: str) -> Verdict | None:
        accuracy = _attacked(results, role, "accuracy", ("l2", subject), PGD)
        doubt = _attacked(results, role, "entropy_when_wrong", ("l2", subject), PGD)
        if len(accuracy) < 2 or len(doubt) < 2:
            return None
        is_righter = accuracy[subject] >= accuracy["l2"] + CLEARLY - ROUNDING
        doubts_more = doubt[subject] >= doubt["l2"] + CLEARLY - ROUNDING
        stuck = _attacked(results, role, "without_gradient", (subject,), PGD)
        found = (
            f"accuracy: {_in_words(accuracy)}; entropy when wrong: {_in_words(doubt)}; gradient exactly "
            f"zero: {_in_words(stuck)}"
        )
        return grade(is_righter and doubts_more, is_righter or doubts_more, found)

    return check


def _excessive_belief(results: PaperResults, _: str) -> Verdict | None:
    values = _means(results, MNIST, LOSSES, KNOWN, "evidence", "belief_when_wrong")
    if set(values) != set(LOSSES):
        return None
    enough = values["edl"] + CLEARLY - ROUNDING
    higher = sum(value >= enough for arm, value in values.items() if arm != "edl")
    return grade(higher == 2, higher == 1, _in_words(values))


def _less_stable(results: PaperResults, _: str) -> Verdict | None:
    accuracies = {}
    counts = {}
    for arm in LOSSES:
        accuracies[arm] = results.values(results.comparison(MNIST), arm, KNOWN, "scores", "accuracy")
        counts[arm] = len(accuracies[arm])
    if not any(counts.values()):
        return None
    if len(set(counts.values())) > 1 or min(counts.values()) < ENOUGH_SEEDS:
        said = ", ".join(f"{LOSSES[arm]} {count}" for arm, count in counts.items())
        return Verdict(NOT_MEASURED, f"seeds: {said}")
    spreads = {arm: statistics.stdev(values) for arm, values in accuracies.items()}
    usual = spreads["edl"]
    higher = 0
    for arm in LOSSES:
        if arm != "edl" and usual < spreads[arm] and spreads[arm] >= UNSTABLE * usual - ROUNDING:
            higher += 1
    return grade(higher == 2, higher == 1, _in_words(spreads, digits=3))


def _over(role: str, attack: str) -> str:
    """What a mean under attack is over, in words: the epsilons and the seeds of the paper's preset."""
    (comparison,) = [each for each in PAPER if each.name == role]
    epsilons = comparison.evaluation.fgsm
    if attack == PGD:
        epsilons = comparison.evaluation.pgd
    above_zero = [epsilon for epsilon in epsilons if epsilon > 0]
    repeated = []
    for entry in comparison.entries:
        if entry.arm in COMPARED and entry.seeds > 1:
            repeated.append(entry.arm)
    seeds = comparison.entry(repeated[0]).seeds
    return (
        f"{attack.upper()}, over epsilons from {min(above_zero):g} to {max(above_zero):g} and {seeds} seeds "
        f"of {labels(repeated)}, one seed of each other"
    )


CLAIMS = (
    Claim(
        "The accuracies of Table 1 on MNIST",
        "table1-mnist",
        "each method by raw outputs at most 0.3 points below the paper's number; partly: half of them",
        _table_is_met(MNIST),
        topic=MNIST,
    ),
    Claim(
        "The accuracies of Table 1 on CIFAR5",
        "table1-cifar5",
        "each method by raw outputs at most 2 points below the paper's number; partly: half of them",
        _table_is_met(CIFAR5),
        topic=CIFAR5,
    ),
    Claim(
        "EDL's accuracy on MNIST is comparable to that of the others",
        "table1-mnist",
        "by raw outputs behind the best other by no more than in the paper and 0.3 points; partly: twice "
        "that",
        _is_comparable(MNIST),
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "EDL's accuracy on CIFAR5 is comparable to that of the others",
        "table1-cifar5",
        "by raw outputs behind the best other by no more than in the paper and 2 points; partly: twice that",
        _is_comparable(CIFAR5),
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "The author's notebook prints 98.8% on MNIST with equation 5, and a mean evidence of 56 on right "
        "answers",
        "table1-mnist",
        "the accuracy by raw outputs within 0.25 points, and the evidence within 6; partly: one of both",
        _notebook,
        topic=MNIST,
    ),
    Claim(
        "Softmax keeps a high confidence in wrong classes for the turning 1",
        "figure1",
        "where softmax is wrong, its mean probability is at least 70%; partly: its highest is",
        _turning_softmax,
        topic=MNIST,
    ),
    Claim(
        "EDL's uncertainty rises sharply when the 1 is turned",
        "figure1",
        "u at most 0.3 upright and at least 0.8 on average from 60 to 120 degrees; partly: at least 0.5",
        _turning_edl,
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "On MNIST, accuracy becomes 1 as the uncertainty allowed falls",
        "figure2",
        "at least 99.95% on the most certain images, half of all or more; partly: errors at most half as "
        "frequent as among all",
        _threshold_to_one,
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "On CIFAR5, predictions are much more accurate as the uncertainty falls",
        "figure2",
        "on the most certain images, half of all or more, errors at most half as frequent as among all; "
        "partly: at most three quarters",
        _threshold_gains,
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "On notMNIST, EDL's uncertainty is significantly better than all others'",
        "figure3",
        "median entropy at least 90% of its maximum and the highest; partly: the highest",
        _doubts_notmnist,
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "On the unseen classes of CIFAR-10, EDL is much more uncertain than all others",
        "figure3",
        "mean entropy at least 5 points of its maximum above that of every other; partly: the highest",
        _doubts_unseen_classes,
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "Unprecedented success in detecting out-of-distribution images, MNIST networks",
        "figure3",
        "AUROC by entropy at least 0.01 above that of every other; partly: the highest",
        _detects(MNIST),
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "Unprecedented success in detecting out-of-distribution images, CIFAR5 networks",
        "figure3",
        "AUROC by entropy at least 0.01 above that of every other; partly: the highest",
        _detects(CIFAR5),
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "Under attack on MNIST, Dropout has the highest accuracy",
        "figure4",
        "the highest mean accuracy, Deep Ensemble left out; partly: the second highest "
        f"({_over(MNIST, FGSM)})",
        _dropout_withstands,
        topic=MNIST,
    ),
    Claim(
        "Under attack on MNIST, Dropout is overconfident in its wrong answers",
        "figure4-honest",
        "mean entropy of all wrong images below 50% of the maximum and below EDL's; partly: one of both "
        f"({_over(MNIST, FGSM)})",
        _dropout_is_overconfident,
        topic=MNIST,
    ),
    Claim(
        "Under attack on MNIST, EDL gives its wrong answers very high uncertainty",
        "figure4-honest",
        "mean entropy of all wrong images at least 90% of the maximum and the highest; partly: the highest "
        f"({_over(MNIST, FGSM)})",
        _doubts_when_wrong(MNIST, HIGH),
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "Under attack on CIFAR5, EDL gives its wrong answers higher uncertainty",
        "figure5-honest",
        "the highest mean entropy of all wrong images, and at least 50% of the maximum; partly: the highest "
        f"({_over(CIFAR5, FGSM)})",
        _doubts_when_wrong(CIFAR5, HALF),
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "Under attack on CIFAR5, the others are overconfident in their wrong answers",
        "figure5-honest",
        "mean entropy of all wrong images below 50% of the maximum for each of them; partly: for half "
        f"({_over(CIFAR5, FGSM)})",
        _others_are_overconfident,
        topic=CIFAR5,
    ),
    Claim(
        "Endurance against attacks, MNIST",
        "figure4-honest",
        "under PGD, which the paper does not use: accuracy, and entropy of all wrong images, both at least 5 "
        f"points above those of L2; partly: one of both ({_over(MNIST, PGD)})",
        _withstands_pgd(MNIST),
        SUBJECTS,
        MNIST,
    ),
    Claim(
        "Endurance against attacks, CIFAR5",
        "figure5-honest",
        "under PGD, which the paper does not use: accuracy, and entropy of all wrong images, both at least 5 "
        f"points above those of L2; partly: one of both ({_over(CIFAR5, PGD)})",
        _withstands_pgd(CIFAR5),
        SUBJECTS,
        CIFAR5,
    ),
    Claim(
        "The losses of equations 3 and 4 give excessively high belief",
        "losses",
        "mean belief when wrong at least 5 points above that of equation 5 for both; partly: for one",
        _excessive_belief,
        topic=MNIST,
    ),
    Claim(
        "The losses of equations 3 and 4 are less stable",
        "losses",
        "standard deviation of the accuracy over the same number of seeds, 3 or more, at least four times "
        "that of equation 5 for both, which chance seldom makes; partly: for one",
        _less_stable,
        topic=MNIST,
    ),
)
