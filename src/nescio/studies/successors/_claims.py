"""What papers claim of their methods, and we of ours, and whether the numbers bear it out, by rules shown."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from nescio.studies._claims import NOT_MEASURED, CheckedClaim, Claim, Verdict, grade
from nescio.studies.successors._arms import label
from nescio.studies.successors._results import (
    OWN,
    PLAIN,
    POSTHOC,
    TEMPERATURE,
    SuccessorResults,
    detection_path,
    ood_pairs,
)
from nescio.studies.successors._sets import ALL_ARMS, SCORED, SETS

AUROC_MARGIN = 0.005  # below it a difference is none
ACCURACY_MARGIN = 0.002
NLL_MARGIN = 0.005  # of the NLL before, relative: test inputs are others than those it was fitted to
ECE_ALLOWED = 0.003
KNOWN_TABLES = "letter-known"  # the first of the tables of known inputs, one for each data set
OUTPUT_SCORES = ("max_probability", "entropy", "max_logit", "energy")  # of a network's outputs alone
LEAST_SETS = 2  # a claim about methods in general is not checked on one data set

BEATS_RULE = (
    f"on every OOD set that both were measured on, at least {LEAST_SETS}, AUROC by each method's own score, "
    f"mean of the seeds that both have: higher by more than {AUROC_MARGIN} counts as won, lower by more as "
    "lost. Reproduced: more than half won and none lost; partly: more won than lost"
)
ACCURACY_RULE = (
    f"on every data set that both were measured on, at least {LEAST_SETS}, mean accuracy of the seeds "
    f"that both have: higher by more than {100 * ACCURACY_MARGIN:g} points counts as won, lower by more "
    "as lost. Reproduced: more than half won and none lost; partly: more won than lost"
)


@dataclass
class _Comparison:
    """Values of a method and of what it is compared with, by data set: means of the seeds that both have."""

    ours: dict[str, float] = field(default_factory=dict)
    theirs: dict[str, float] = field(default_factory=dict)
    seeds: dict[str, str] = field(default_factory=dict)  # how many, in words, where these are not all

    def add(self, name: str, ours: Mapping[int, float], theirs: Mapping[int, float], planned: int) -> None:
        """Add a data set, unless no seed is shared.

        Args:
            name: The name of the data set.
            ours, theirs: Values by seed.
            planned: The number of seeds that the study has there.
        """
        shared = [seed for seed in ours if seed in theirs]
        if not shared:
            return
        self.ours[name] = statistics.fmean(ours[seed] for seed in shared)
        self.theirs[name] = statistics.fmean(theirs[seed] for seed in shared)
        if len(shared) < planned:
            self.seeds[name] = f"{len(shared)} of {planned} seeds"

    def won(self, margin: float) -> int:
        """On how many data sets the method is higher."""
        return sum(self.ours[name] - self.theirs[name] > margin for name in self.ours)

    def lost(self, margin: float) -> int:
        """On how many data sets the method is lower."""
        return sum(self.theirs[name] - self.ours[name] > margin for name in self.ours)

    def verdict(self, margin: float, digits: int, scale: float = 1.0) -> Verdict | None:
        """By how many are won and lost; None of too few data sets."""
        if len(self.ours) < LEAST_SETS:
            return None
        won = self.won(margin)
        lost = self.lost(margin)
        whole = lost == 0 and won > len(self.ours) / 2
        found = f"{won} of {len(self.ours)} won, {lost} lost: {self.in_words(digits, scale)}"
        return grade(whole, won > lost, found)

    def in_words(self, digits: int, scale: float = 1.0, is_relative: bool = False) -> str:
        """Both values on each data set.

        Args:
            digits: Digits after the point.
            scale: What values are multiplied with.
            is_relative: Whether the change is said too, in percent.
        """
        said = []
        for name, value in self.ours.items():
            other = self.theirs[name]
            text = f"{name} {scale * value:.{digits}f} against {scale * other:.{digits}f}"
            notes = []
            if is_relative:
                notes.append(f"{100 * (value / other - 1):+.2f} %")
            if name in self.seeds:
                notes.append(self.seeds[name])
            if notes:
                text += f" ({', '.join(notes)})"
            said.append(text)
        return ", ".join(said)


def check_all(results: SuccessorResults) -> list[CheckedClaim]:
    """Check every claim; one without enough results is marked so."""
    checked = []
    for claim in CLAIMS:
        verdicts = {}
        for subject in claim.subjects or ("",):
            verdict = claim.check(results, subject)
            name = label(subject) if subject else ""
            verdicts[name] = verdict or Verdict(NOT_MEASURED, "too few results")
        checked.append(CheckedClaim(claim, "", verdicts))
    return checked


def _aurocs(
    results: SuccessorResults,
    ours: tuple[str, str],
    theirs: tuple[str, str],
    by: str = OWN,
) -> _Comparison:
    """AUROC of two arms, each with its variant, on the OOD sets that both have."""
    compared = _Comparison()
    for name, ood in ood_pairs():
        mine = results.by_seed(name, *ours, *detection_path(ours[0], ood, by))
        other = results.by_seed(name, *theirs, *detection_path(theirs[0], ood, by))
        compared.add(f"{SETS[name].title} / {ood}", mine, other, SETS[name].seeds)
    return compared


def _scores(
    results: SuccessorResults, ours: tuple[str, str], theirs: tuple[str, str], score: str
) -> _Comparison:
    """A score on known inputs of two arms, each with its variant, on the data sets that both have."""
    compared = _Comparison()
    for name, each in SETS.items():
        mine = results.by_seed(name, *ours, "scores", score)
        other = results.by_seed(name, *theirs, "scores", score)
        compared.add(each.title, mine, other, each.seeds)
    return compared


Check = Callable[[SuccessorResults, str], Verdict | None]


def _beats(method: str, other: str) -> Check:
    def check(results: SuccessorResults, _: str) -> Verdict | None:
        return _aurocs(results, (method, PLAIN), (other, PLAIN)).verdict(AUROC_MARGIN, 3)

    return check


def _is_more_accurate(method: str, other: str) -> Check:
    def check(results: SuccessorResults, _: str) -> Verdict | None:
        compared = _scores(results, (method, PLAIN), (other, PLAIN), "raw_accuracy")
        return compared.verdict(ACCURACY_MARGIN, 1, 100)

    return check


def _mends(results: SuccessorResults, method: str) -> Verdict | None:
    """Better detection and better selective prediction than one network of the library's EDL."""
    detected = _aurocs(results, (method, PLAIN), ("edl", PLAIN))
    selected = _scores(results, (method, PLAIN), ("edl", PLAIN), "aurc")
    if len(selected.ours) < LEAST_SETS:
        return None
    won = detected.won(AUROC_MARGIN)
    lost = detected.lost(AUROC_MARGIN)
    lower = selected.lost(0.0)  # a lower AURC is the better one
    found = (
        f"AUROC {won} of {len(detected.ours)} won, {lost} lost: {detected.in_words(3)}; AURC in 1e-3 lower "
        f"on {lower} of {len(selected.ours)}: {selected.in_words(2, 1000)}"
    )
    detects = lost == 0 and won > len(detected.ours) / 2
    selects = lower > len(selected.ours) / 2
    return grade(detects and selects, won > lost or selects, found)


def _trust_helps(results: SuccessorResults, method: str) -> Verdict | None:
    compared = _aurocs(results, (method, POSTHOC), (method, PLAIN), by="uncertainty")
    return compared.verdict(AUROC_MARGIN, 3)


def _temperature_lowers(results: SuccessorResults, method: str) -> Verdict | None:
    compared = _scores(results, (method, TEMPERATURE), (method, PLAIN), "nll")
    if len(compared.ours) < LEAST_SETS:
        return None
    raised = 0
    for name, value in compared.ours.items():
        raised += value > (1 + NLL_MARGIN) * compared.theirs[name]
    found = f"raised on {raised} of {len(compared.ours)}: {compared.in_words(4, is_relative=True)}"
    return grade(raised == 0, 2 * raised < len(compared.ours), found)


def _is_as_calibrated(variant: str) -> Check:
    def check(results: SuccessorResults, method: str) -> Verdict | None:
        compared = _scores(results, (method, variant), (SCORED, variant), "ece")
        if len(compared.ours) < LEAST_SETS:
            return None
        above = compared.won(ECE_ALLOWED)
        found = f"above on {above} of {len(compared.ours)}, in %: {compared.in_words(2, 100)}"
        return grade(above == 0, 2 * above < len(compared.ours), found)

    return check


ECE_RULE = (
    f"ECE at most {100 * ECE_ALLOWED:g} points above softmax's on every data set, mean of the seeds that "
    "both have; partly: on more than half of them"
)

BEST_SCORE_RULE = (
    f"AUROC on every OOD set that both were measured on, at least {LEAST_SETS}, against the greatest of "
    "those by softmax's maximum probability, entropy, max-logit and energy, mean of the seeds that both "
    f"have: higher by more than {AUROC_MARGIN} counts as won, lower by more as lost. Reproduced: more than "
    "half won and none lost; partly: more won than lost"
)

CLAIMS = (
    Claim("I-EDL beats EDL in OOD detection", "ranks", BEATS_RULE, _beats("i-edl", "edl-paper")),
    Claim("R-EDL beats EDL in OOD detection", "ranks", BEATS_RULE, _beats("r-edl", "edl-paper")),
    Claim("Re-EDL beats R-EDL in OOD detection", "ranks", BEATS_RULE, _beats("re-edl", "r-edl")),
    Claim("DAEDL beats EDL in OOD detection", "ranks", BEATS_RULE, _beats("daedl", "edl-paper")),
    Claim("F-EDL beats DAEDL in OOD detection", "ranks", BEATS_RULE, _beats("f-edl", "daedl")),
    Claim("RED is more accurate than EDL", "ranks", ACCURACY_RULE, _is_more_accurate("red", "edl-paper")),
    Claim(
        "Fused ensembles and their distillation mend what EDL lacks",
        "ranks",
        "against one network of the library's EDL: AUROC as in the claims above, and AURC. Reproduced: more "
        "than half of the OOD sets won and none lost, and a lower AURC on more than half of the data sets; "
        "partly: more OOD sets won than lost, or the lower AURC",
        _mends,
        subjects=("edl-ensemble", "edl-distilled"),
    ),
    Claim(
        "Of this library: the default loss is better than the paper's in OOD detection",
        "ranks",
        BEATS_RULE,
        _beats("edl", "edl-paper"),
    ),
    Claim(
        "Of this library: the default loss is as accurate as the cross-entropy of softmax",
        "ranks",
        "mean accuracy of the seeds that both have at most 0.5 points below softmax's on every data set that "
        f"both were measured on, at least {LEAST_SETS}; partly: on more than half of them",
        lambda results, _: _loses_nothing(results),
    ),
    Claim(
        "Of this library: the default's u tells OOD inputs better than softmax's best score, as trained",
        "ranks",
        BEST_SCORE_RULE,
        lambda results, _: _tells_better(results, PLAIN),
    ),
    Claim(
        "Of this library: the default's u tells OOD inputs better than softmax's best score, with "
        "temperature and trust",
        "ranks",
        BEST_SCORE_RULE,
        lambda results, _: _tells_better(results, POSTHOC),
    ),
    Claim(
        "Of this library: temperature and trust help every method to tell OOD inputs",
        "trust",
        f"AUROC by u with them against without, mean of the seeds: higher by more than {AUROC_MARGIN} counts "
        "as won, lower by more as lost. Reproduced: more than half of the OOD sets won and none lost; "
        "partly: more won than lost",
        _trust_helps,
        subjects=ALL_ARMS,
    ),
    Claim(
        "Of this library: the temperature never raises the NLL",
        KNOWN_TABLES,
        f"NLL on test inputs with the temperature alone, mean of the seeds, at most {100 * NLL_MARGIN:g} % "
        "above that without it on every data set; partly: on more than half of them",
        _temperature_lowers,
        subjects=ALL_ARMS,
    ),
    Claim(
        "Of this library: with the temperature every method is about as calibrated as softmax with it",
        KNOWN_TABLES,
        ECE_RULE,
        _is_as_calibrated(TEMPERATURE),
        subjects=tuple(arm for arm in ALL_ARMS if arm != SCORED),
    ),
    Claim(
        "Of this library: with temperature and trust every method is about as calibrated as softmax with "
        "them",
        KNOWN_TABLES,
        ECE_RULE,
        _is_as_calibrated(POSTHOC),
        subjects=tuple(arm for arm in ALL_ARMS if arm != SCORED),
    ),
)


def _loses_nothing(results: SuccessorResults) -> Verdict | None:
    compared = _scores(results, ("edl", PLAIN), (SCORED, PLAIN), "raw_accuracy")
    if len(compared.ours) < LEAST_SETS:
        return None
    lost = compared.lost(0.005)
    found = f"below on {lost} of {len(compared.ours)}: {compared.in_words(1, 100)}"
    return grade(lost == 0, 2 * lost < len(compared.ours), found)


def _tells_better(results: SuccessorResults, variant: str) -> Verdict | None:
    compared = _Comparison()
    for name, ood in ood_pairs():
        ours = results.by_seed(name, "edl", variant, *detection_path("edl", ood, "uncertainty"))
        of_scores = []
        for score in OUTPUT_SCORES:
            found = results.scored(name, SCORED, ood, score)
            if found:
                of_scores.append(found)
        if of_scores:
            # Of the seeds that are compared: those that both have.
            shared = ours.keys() & of_scores[0].keys() or of_scores[0].keys()
            best = max(of_scores, key=lambda found: statistics.fmean(found[seed] for seed in shared))
            compared.add(f"{SETS[name].title} / {ood}", ours, best, SETS[name].seeds)
    return compared.verdict(AUROC_MARGIN, 4)
