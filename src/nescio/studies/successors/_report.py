"""The report of the study: every table, figure and claim, from the results alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from nescio.studies.report import (
    Report,
    Table,
    machines,
    settings_table,
    settings_text,
    training_columns,
    write_report,
)
from nescio.studies.results import Result, mixed, unfinished
from nescio.studies.successors._arms import label, labels
from nescio.studies.successors._claims import check_all
from nescio.studies.successors._figures import draw
from nescio.studies.successors._measurements import ComparisonScores, WithPosthoc
from nescio.studies.successors._results import SuccessorResults
from nescio.studies.successors._sets import SETS
from nescio.studies.successors._tables import tables
from nescio.studies.successors.experiments import NAME

TITLE = "After EDL: its successors side by side"
INTRODUCTION = (
    "Every evidential method of the library and every baseline, as trained and with temperature and trust, "
    "under one protocol, with as many seeds as the tables say: one network, one optimiser and one number of "
    "steps on a data set, the same training data, and the same test and OOD inputs for all.",
    "Methods have the settings of their authors, those for CIFAR-10 on CIFAR5 and those for MNIST elsewhere; "
    "nothing was tuned on what is reported here. Settings of this library were chosen on other data: the "
    "default loss on parts of the training data of penbased, satimage, digits, CIFAR-10 and CLINC150 and on "
    "rendered characters (docs/decisions/0022); trust on changed digits, rendered characters, crops of "
    "CIFAR-10, noise, and classes left out of CLINC150, CIFAR5, penbased and satimage (docs/decisions/0021). "
    "What DAEDL and F-EDL call their uncertainty is theirs (docs/decisions/0020). The OOD sets below had no "
    "part in any choice.",
)
DIFFERENCES = (
    "Papers train their own networks, longer, with their own early stopping. Here all methods share a "
    "network and a number of steps, so numbers are lower or higher than published; what is compared is "
    "methods.",
    "The networks of all arms, also of those without temperature and trust, are trained without the tenth of "
    "the data that these are fitted to.",
    "Papers report AUPR with known inputs as the positive class; here OOD inputs are, as in the rest of the "
    "library.",
    "The CIFAR5 features are of an ImageNet network, which has seen classes like the unseen five: the "
    "numbers say how well methods tell them by such features, not how well by CIFAR5 alone.",
    "Held-out classes are the last ones in alphabetical order, U to Z of `letter` and the last five "
    "newsgroups; alt.atheism is known, and soc.religion.christian and talk.religion.misc are not, so these "
    "are near.",
    "The three OOD sets of MNIST share its networks: ranks over OOD sets count them as three, though they "
    "are not independent.",
    "The posts of 20 Newsgroups that are tested are later than those that are trained on, of which the data "
    "that temperature and trust are fitted to are a part: what was set aside is easier than what is tested.",
    "The divergence weight of the library's default is on CLINC150 that of the rule of today; on `letter` "
    "and 20 Newsgroups it is a little lower, by the rule that the study was begun with "
    "(docs/decisions/0022).",
    "DAEDL divides the weights of each layer by their greatest singular value, as its authors do for "
    "images; on the 16 columns of `letter` its loss then does not come to tell the letters apart. All 26, "
    "one seed: `nescio train letter --method daedl --epochs 20 --posthoc none --out run` has 51 % right, "
    "with `--set spectral_norm=false` 84 %.",
    "DAEDL has one covariance for all classes on CLINC150 and 20 Newsgroups, where a class has fewer samples "
    "than there are features.",
)
NOTHING = "nothing"
# What differs in numbers of a former version, by the name of the measurement.
FORMERLY = {
    WithPosthoc.name: "The scale of the temperature was fitted with one more sample of any class, not yet "
    "with the prior of docs/decisions/0021, on",
    ComparisonScores.name: "The Mahalanobis and ViM scores were computed with fewer digits on",
}


def make_report(results: SuccessorResults) -> Report:
    """From results to all that is shown."""
    return Report(
        title=TITLE,
        introduction=INTRODUCTION,
        command=f"nescio study {NAME} --out DIR",
        notices=_notices(results),
        claims=check_all(results),
        tables=tables(results),
        figures=draw(results),
        differences=DIFFERENCES,
        settings=_settings(results),
        hardware=machines(results.results),
        claims_title="What is claimed, and what we find",
        says_title="the claim",
        differences_title="What to know about the numbers",
    )


def write(folder: Path, seeds: int | None = None) -> Path:
    """Write the report from what is in a folder; gives the path of report.html.

    Args:
        folder: The folder of the study.
        seeds: So many seeds of each arm where these are more than the study's own number.

    Raises:
        DataError: If a record is damaged, or the folder can't be written to.
    """
    return write_report(make_report(SuccessorResults.read(folder, seeds)), folder)


def missing_results(results: SuccessorResults) -> dict[str, dict[str, list[str]]]:
    """By data set, the arms whose measurements are not all there, by what is there of them.

    Returns:
        For each data set lists of arms under words such as "2 of 3 seeds", the most seeds first.
    """
    planned = Counter((experiment.comparison, experiment.arm) for experiment in results.experiments)
    done = planned.copy()
    for experiment in unfinished(results.experiments, results.results):
        done[experiment.comparison, experiment.arm] -= 1
    missing: dict[str, dict[str, list[str]]] = {}
    for (study_set, arm), there in sorted(done.items(), key=lambda item: -item[1]):
        count = planned[study_set, arm]
        if there < count:
            said = f"{there} of {count} seeds" if there else NOTHING
            missing.setdefault(study_set, {}).setdefault(said, []).append(arm)
    return missing


def _notices(results: SuccessorResults) -> list[tuple[str, str]]:
    return _of_missing(results) + _of_former(results) + _of_mixed(results)


def _of_mixed(results: SuccessorResults) -> list[tuple[str, str]]:
    """The arms whose numbers are of several networks, with the seeds of these."""
    seeds: dict[str, dict[str, list[str]]] = {}
    for result in mixed(results.results):
        seeds.setdefault(result.comparison, {}).setdefault(result.arm, []).append(str(result.seed))
    said = []
    for name, each in SETS.items():
        arms = [f"{label(arm)} ({', '.join(found)})" for arm, found in seeds.get(name, {}).items()]
        if arms:
            said.append(f"{each.title}: {', '.join(arms)}")
    if not said:
        return []
    text = (
        "these were trained again with the same settings after a part of their numbers had been measured, so "
        "that what is said of them as trained and with temperature and trust is of two networks, here with "
        f"their seeds: {'; '.join(said)}. `nescio study {NAME} --out DIR` measures them again."
    )
    return [("Of two networks:", text)]


def _of_former(results: SuccessorResults) -> list[tuple[str, str]]:
    """What was measured by a former version of a measurement, and not yet by the present one."""
    versions = {each.name: each.version for each in (WithPosthoc, ComparisonScores)}
    titles: dict[str, list[str]] = {}
    for result in results.results:
        for name, version in versions.items():
            title = SETS[result.comparison].title
            if result.settings.get(name, {}).get("version", version) != version:
                known = titles.setdefault(name, [])
                if title not in known:
                    known.append(title)
    said = [f"{FORMERLY[name]} {', '.join(found)}" for name, found in titles.items()]
    if not said:
        return []
    return [("To be measured again:", f"{'. '.join(said)}.")]


def _of_missing(results: SuccessorResults) -> list[tuple[str, str]]:
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


def _settings(results: SuccessorResults) -> Table | None:
    rows = []
    for name, each in SETS.items():
        for arm in each.arms:
            found = results.of(name, arm)
            if found:
                rows.append(_settings_row(found))
    caption = "Times are by the clock, of all networks of a training, whatever else the machine was doing."
    return settings_table(caption, rows)


def _settings_row(found: Sequence[Result]) -> dict[str, str]:
    first = found[0]
    settings = dict(first.training["method"])
    del settings["name"]
    settings["dropout of the network"] = first.training["encoder"]["dropout"]
    return {
        "data": SETS[first.comparison].title,
        "method": label(first.arm),
        **training_columns(found),
        "settings": settings_text(settings),
    }
