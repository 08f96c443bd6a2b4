"""The tables of the report: mean ranks, and of each data set the scores on known and on OOD inputs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from nescio.studies.report import Table
from nescio.studies.successors._arms import ARMS, label
from nescio.studies.successors._ranks import CRITERIA, ranking
from nescio.studies.successors._results import (
    OWN,
    PLAIN,
    POSTHOC,
    TEMPERATURE,
    VARIANT_TITLES,
    SuccessorResults,
)
from nescio.studies.successors._sets import ALL_ARMS, SCORED, SETS

NOT_MEASURED = "not measured"
KNOWN_HEADER = (
    "method",
    "what is said",
    "seeds",
    "accuracy, %",
    "ECE, %",
    "NLL",
    "AURC, 1e-3",
    "AUGRC, 1e-3",
    "mean u",
    "passes",
    "trainings",
)
OOD_HEADER = (
    "method",
    "what is said",
    "AUROC, own score",
    "AUPR, own score",
    "FPR95, own score, %",
    "AUROC, u",
    "AUPR, u",
    "FPR95, u, %",
    "median u",
)
SCORE_LABELS = {
    "max_probability": "maximum probability",
    "entropy": "entropy",
    "max_logit": "max-logit",
    "energy": "energy",
    "knn": "kNN",
    "mahalanobis": "Mahalanobis",
    "vim": "ViM",
}
SHOWN = (PLAIN, POSTHOC)
SHOWN_OF_KNOWN = (PLAIN, TEMPERATURE, POSTHOC)  # what is claimed of a temperature alone is of known inputs


def spread(values: Sequence[float], digits: int, scale: float = 1.0) -> str:
    """The mean over the seeds and their standard deviation, as 96.41 ± 0.12; of one seed its number."""
    if not values:
        return NOT_MEASURED
    mean = f"{scale * statistics.fmean(values):.{digits}f}"
    if len(values) == 1:
        return mean
    return f"{mean} ± {scale * statistics.stdev(values):.{digits}f}"


def cost(results: SuccessorResults, name: str, arm: str, kind: str) -> str:
    """The "passes" or "trainings" of an arm on a data set; "-" where it was not measured as trained."""
    values = results.seeds(name, arm, PLAIN, kind)
    if not values:
        return "-"
    return f"{values[0]:.0f}"


def tables(results: SuccessorResults) -> list[Table]:
    """Mean ranks, and all data sets that have any result."""
    found = [_ranks_table(results)]
    for name in results.measured_sets():
        found.append(_known_table(results, name))
        for ood in SETS[name].ood:
            found.append(_ood_table(results, name, ood))
    return found


def _known_table(results: SuccessorResults, name: str) -> Table:
    rows = []
    for arm in SETS[name].arms:
        for variant in SHOWN_OF_KNOWN:
            rows.append(_known_row(results, name, arm, variant))
    caption = (
        f"{SETS[name].network}; means over the seeds ± standard deviation. AURC and AUGRC by u, the "
        "uncertainty that the library reports; of methods without evidence it is the normalised entropy. "
        "Passes: forward passes of a prediction as trained; trust needs one more of methods that draw, and "
        "time for its distances: on the LeNet of MNIST at most 0.3 of a pass (`benchmarks/trust.py`), on a "
        "small network, as that of letter, several passes. Trainings: networks that are trained."
    )
    return Table(f"{name}-known", f"{SETS[name].title}: known inputs", caption, KNOWN_HEADER, rows)


def _known_row(results: SuccessorResults, name: str, arm: str, variant: str) -> tuple[str, ...]:
    def of(score: str, digits: int, scale: float = 1.0) -> str:
        return spread(results.seeds(name, arm, variant, "scores", score), digits, scale)

    return (
        label(arm),
        VARIANT_TITLES[variant],
        str(len(results.seeds(name, arm, variant, "scores", "nll"))),
        of("raw_accuracy", 2, 100),
        of("ece", 2, 100),
        of("nll", 4),
        of("aurc", 2, 1000),
        of("augrc", 2, 1000),
        of("mean_uncertainty", 3),
        cost(results, name, arm, "passes"),
        cost(results, name, arm, "trainings"),
    )


def _ood_table(results: SuccessorResults, name: str, ood: str) -> Table:
    rows = []
    for arm in SETS[name].arms:
        for variant in SHOWN:
            rows.append(_ood_row(results, name, arm, variant, ood))
    for score, title in SCORE_LABELS.items():
        rows.append(_score_row(results, name, ood, score, title))
    caption = (
        "Means over the seeds ± standard deviation; OOD inputs are the positive class. Own score: maximum "
        "probability for softmax, the entropy of the mean for methods that draw and for Deep Ensemble, u for "
        "evidential methods. The last rows are OOD scores of the literature, of the softmax network."
    )
    title = f"{SETS[name].title} against {ood}"
    return Table(f"{name}-{ood.replace(' ', '-')}", title, caption, OOD_HEADER, rows)


def _ood_row(results: SuccessorResults, name: str, arm: str, variant: str, ood: str) -> tuple[str, ...]:
    def of(by: str, figure: str, digits: int, scale: float = 1.0) -> str:
        return spread(results.detections(name, arm, variant, ood, by, figure), digits, scale)

    return (
        label(arm),
        VARIANT_TITLES[variant],
        of(OWN, "auroc", 4),
        of(OWN, "aupr", 4),
        of(OWN, "fpr95", 1, 100),
        of("uncertainty", "auroc", 4),
        of("uncertainty", "aupr", 4),
        of("uncertainty", "fpr95", 1, 100),
        spread(results.seeds(name, arm, variant, "ood", ood, "median_uncertainty"), 3),
    )


def _score_row(results: SuccessorResults, name: str, ood: str, score: str, title: str) -> tuple[str, ...]:
    def of(figure: str, digits: int, scale: float = 1.0) -> str:
        return spread(results.values(name, SCORED, "scores", "ood", ood, score, figure), digits, scale)

    return (
        f"{label(SCORED)}: {title}",
        "score alone",
        of("auroc", 4),
        of("aupr", 4),
        of("fpr95", 1, 100),
        "-",
        "-",
        "-",
        "-",
    )


def _ranks_table(results: SuccessorResults) -> Table:
    columns: list[tuple[str, dict[str, float]]] = []
    for variant in SHOWN:
        for criterion in CRITERIA:
            found = ranking(results, criterion, variant)
            ranks = dict(found.mean_ranks) if found is not None else {}
            columns.append((f"{criterion.short}, {VARIANT_TITLES[variant]}", ranks))
    rows = []
    for arm in ALL_ARMS:
        cells = []
        for _, ranks in columns:
            cells.append(f"{ranks[arm]:.1f}" if arm in ranks else NOT_MEASURED)
        rows.append((label(arm), ARMS[arm].source, *cells))
    header = ("method", "source", *(title for title, _ in columns))
    caption = (
        "1 is the best; AUROC is by each method's own score. Ranked over the data sets (for AUROC: OOD sets) "
        "on which all methods were measured; while fewer than two are, those methods that were measured on "
        "every data set with at least a third of them. The figures say which, and which differences chance "
        "may have made."
    )
    return Table("ranks", "Mean ranks", caption, header, rows)
