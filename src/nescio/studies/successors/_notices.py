"""What must not be overlooked about the results: what is missing, and what is to be measured again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nescio.studies.results import Result, mixed
from nescio.studies.successors._arms import ARMS, label, labels
from nescio.studies.successors._measurements import (
    AsTrained,
    ComparisonScores,
    WithPosthoc,
    WithPosthocOfOpinions,
)
from nescio.studies.successors._results import PLAIN, POSTHOC, VARIANT_TITLES, SuccessorResults
from nescio.studies.successors._sets import SETS
from nescio.studies.successors.experiments import NAME

NOTHING = "nothing"
# What a measurement says, in words, by its name.
MEASURED = {
    AsTrained.name: VARIANT_TITLES[PLAIN],
    WithPosthoc.name: VARIANT_TITLES[POSTHOC],
    ComparisonScores.name: "by scores of the literature",
}
# What differs in numbers of a former version.
FORMERLY = (
    "The temperature was a scale of the log-evidence alone; the probabilities had none of their own "
    "(docs/decisions/0037), on"
)

Notice = tuple[str, str]  # a heading and a text


def notices(results: SuccessorResults) -> list[Notice]:
    """Of what is missing, and of what is to be measured again."""
    return _of_missing(results) + to_measure_again(results)


def to_measure_again(results: SuccessorResults) -> list[Notice]:
    """Of what is there, but by a former version of a measurement, or of two networks."""
    return _of_former(results) + _of_mixed(results)


def missing_results(results: SuccessorResults) -> dict[str, dict[str, list[str]]]:
    """By data set, the arms whose measurements are not all there, by what is there of them.

    Returns:
        For each data set lists of arms under words such as "2 of 3 seeds", the most results first.
    """
    present: dict[tuple[str, str, int], Mapping[str, object]] = {}
    for result in results.results:
        present[result.comparison, result.arm, result.seed] = result.numbers
    counts: dict[tuple[str, str], dict[str, int]] = {}
    planned: dict[tuple[str, str], int] = {}
    for experiment in results.experiments:
        key = (experiment.comparison, experiment.arm)
        planned[key] = planned.get(key, 0) + 1
        numbers = present.get((*key, experiment.plan.seed), {})
        count = counts.setdefault(key, {})
        for measurement in experiment.measurements:
            count[measurement.name] = count.get(measurement.name, 0) + (measurement.name in numbers)
    missing: dict[str, dict[str, list[str]]] = {}
    for key in sorted(counts, key=lambda each: -sum(counts[each].values())):
        study_set, arm = key
        if min(counts[key].values()) < planned[key]:
            said = _what_is_there(counts[key], planned[key])
            missing.setdefault(study_set, {}).setdefault(said, []).append(arm)
    return missing


def _what_is_there(counts: Mapping[str, int], planned: int) -> str:
    """In words; counts: of seeds, by measurement."""
    if not any(counts.values()):
        return NOTHING
    if len(set(counts.values())) == 1:
        return f"{next(iter(counts.values()))} of {planned} seeds"
    said = []
    for name, count in counts.items():
        said.append(f"{count or 'none'} of {planned} seeds {MEASURED[name]}")
    return " and ".join(said)


def _of_missing(results: SuccessorResults) -> list[Notice]:
    said = []
    missing = missing_results(results)
    for name, each in SETS.items():
        listed = []
        for there, arms in missing.get(name, {}).items():
            of_whom = "" if len(arms) == len(each.arms) else f" of {labels(arms)}"
            listed.append(f"{there}{of_whom}")
        if listed:
            said.append(f"{each.title}: {', '.join(listed)}")
    if not said:
        return []
    text = (
        f"{'; '.join(said)}. `nescio study {NAME} --out DIR` computes what is missing, where DIR is the "
        "folder of this report."
    )
    return [("Not measured yet, or in part:", text)]


def _of_former(results: SuccessorResults) -> list[Notice]:
    """What was measured by a former version of a measurement, and not yet by the present one."""
    former = []
    for result in results.results:
        version = result.settings.get(WithPosthoc.name, {}).get("version")
        if version in WithPosthocOfOpinions.former_versions and ARMS[result.arm].gives_opinions:
            former.append(result)
    if not former:
        return []
    return [("To be measured again:", f"{FORMERLY} {_listed(former, results)}.")]


def _of_mixed(results: SuccessorResults) -> list[Notice]:
    """What is of several networks."""
    found = mixed(results.results)
    if not found:
        return []
    text = (
        "These were trained again with the same settings after a part of their numbers had been measured, so "
        "that their numbers as trained and with temperature and trust are of two networks: "
        f"{_listed(found, results)}. `nescio study {NAME} --out DIR` measures them again."
    )
    return [("Of two networks:", text)]


def _listed(found: Sequence[Result], results: SuccessorResults) -> str:
    """Results by data set and method, with their seeds where these are not all that the method has."""
    said = []
    for name, each in SETS.items():
        arms = []
        is_whole = True
        for arm in each.arms:
            seeds = [result.seed for result in found if (result.comparison, result.arm) == (name, arm)]
            is_all = len(seeds) == len(results.of(name, arm))
            is_whole = is_whole and bool(seeds) and is_all
            if seeds and is_all:
                arms.append(label(arm))
            elif seeds:
                arms.append(f"{label(arm)} [seed {', '.join(map(str, seeds))}]")
        if is_whole:
            said.append(f"{each.title}: all methods")
        elif arms:
            said.append(f"{each.title}: {', '.join(arms)}")
    return "; ".join(said)
