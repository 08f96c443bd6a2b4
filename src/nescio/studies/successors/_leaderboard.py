"""The leaderboard page of the documentation, written from the committed results."""

from __future__ import annotations

from collections.abc import Sequence

from nescio.studies._claims import MARKS, NOT_MEASURED
from nescio.studies.successors._arms import label, labels
from nescio.studies.successors._claims import check_all
from nescio.studies.successors._notices import to_measure_again
from nescio.studies.successors._ranks import CRITERIA, Criterion, Ranking, ranking
from nescio.studies.successors._results import (
    PLAIN,
    POSTHOC,
    VARIANT_TITLES,
    SuccessorResults,
)
from nescio.studies.successors._sets import ALL_ARMS, SCORED, SETS
from nescio.studies.successors._tables import SCORE_LABELS, cost, spread

HEAD = """# Leaderboard

Every evidential method of the library and every baseline under one protocol, as trained and with temperature
and trust: the study `successors`. `nescio study successors` trains and measures what is missing, and
[its report](../results/successors/report.md) has every number, the settings, and a verdict on each claim.
This page is written from the committed results by `python tools/leaderboard.py`; a test compares.

Means over the seeds ± standard deviation. AUROC is that of the OOD inputs by u, the uncertainty that the
library reports; for softmax and the other methods without evidence u is the normalised entropy. Where it says
"own score" it is by the score of the method's authors: the greatest probability of softmax, the entropy of
methods that draw and of Deep Ensemble, u of the evidential ones. Lower is better for ECE, NLL and AURC. A
table is sorted by AUROC, the mean over its OOD sets. What a method is, and its formula:
[methods.md](methods.md). The library's default has the divergence weight of today's rule on CLINC150;
`letter` and 20 Newsgroups keep the one that the study was begun with
([decision 22](decisions/0022-the-default-loss.md)); `letter` is trained by Adam without the weight decay that
`nescio train` takes for rows ([decision 35](decisions/0035-weight-decay-for-rows.md)).
"""
FOOT = """## A method of your own

Write it as [CONTRIBUTING.md](../CONTRIBUTING.md) says, add an arm with all of its settings to
`src/nescio/studies/successors/_arms.py`, and call `nescio study successors --methods NAME`: only what is
missing is trained. Then `python tools/leaderboard.py`.
"""


def leaderboard(results: SuccessorResults) -> str:
    """The whole page as Markdown."""
    parts = [HEAD]
    for heading, text in to_measure_again(results):
        parts.append(f"**{heading}** {text}\n")
    parts += [_verdicts(results), _ranks(results)]
    for name in SETS:
        parts.append(_set_part(results, name))
    parts.append(FOOT)
    return "\n".join(parts)


def _verdicts(results: SuccessorResults) -> str:
    """What became of each claim, in a line each."""
    lines = ["## Claims", ""]
    for checked in check_all(results):
        counts = dict.fromkeys(MARKS, 0)
        for verdict in checked.verdicts.values():
            counts[verdict.mark] += 1
        verdicts = list(checked.verdicts.values())
        if len(verdicts) == 1:
            said = verdicts[0].mark
        else:
            said = ", ".join(f"{mark} for {count}" for mark, count in counts.items() if count)
        lines.append(f"- {checked.claim.says}: **{said}**")
    return "\n".join([*lines, ""])


def _ranks(results: SuccessorResults) -> str:
    lines = ["## Mean ranks", ""]
    for variant in (PLAIN, POSTHOC):
        columns = []
        for criterion in CRITERIA:
            found = ranking(results, criterion, variant)
            if found is not None:
                columns.append((criterion, found))
        if not columns:
            lines += [f"{VARIANT_TITLES[variant].capitalize()}: {NOT_MEASURED}.", ""]
            continue
        rankings = [found for _, found in columns]
        ranked = _ranked_arms(rankings)
        rows = [_rank_row(arm, rankings) for arm in ranked]
        header = [VARIANT_TITLES[variant], *(_heading(criterion) for criterion, _ in columns)]
        lines += [*_table(header, rows), ""]
        differences = []
        for criterion, found in columns:
            difference = f"{found.critical_difference:.1f} over {len(found.blocks)}"
            differences.append(f"{_heading(criterion)} {difference}")
        listed = "; ".join(differences)
        said = f"1 is the best. Ranks may differ by less than this by chance: {listed} data sets."
        not_ranked = [arm for arm in ALL_ARMS if arm not in ranked]
        if not_ranked:
            said += f" Not ranked, as not measured on all of these: {labels(not_ranked)}."
        lines += [said, ""]
    return "\n".join(lines)


def _heading(criterion: Criterion) -> str:
    if not criterion.score:
        return f"{criterion.short}, own score"
    return criterion.short


def _ranked_arms(rankings: Sequence[Ranking]) -> list[str]:
    """All arms that have a rank, in the order of the first ranking that has them."""
    arms: dict[str, None] = {}
    for found in rankings:
        ranks = found.mean_ranks
        arms |= dict.fromkeys(sorted(ranks, key=ranks.__getitem__))
    return list(arms)


def _rank_row(arm: str, rankings: Sequence[Ranking]) -> list[str]:
    cells = [label(arm)]
    for found in rankings:
        # Of unfinished results a criterion may have arms that another one lacks.
        cells.append(f"{found.mean_ranks[arm]:.1f}" if arm in found.mean_ranks else "-")
    return cells


def _set_part(results: SuccessorResults, name: str) -> str:
    each = SETS[name]
    lines = [f"## {each.title}", "", f"{each.network}; OOD: {', '.join(each.ood)}.", ""]
    rows: list[tuple[float, list[str]]] = []
    missing = []
    for arm in each.arms:
        absent = []
        for variant in (PLAIN, POSTHOC):
            if results.has(name, arm, variant):
                rows.append(_row(results, name, arm, variant))
            else:
                absent.append(VARIANT_TITLES[variant])
        if len(absent) == 1:
            missing.append(f"{label(arm)} {absent[0]}")
        elif absent:
            missing.append(label(arm))
    if not rows:
        return "\n".join([*lines, f"{NOT_MEASURED.capitalize()}.", ""])
    rows.sort(key=lambda row: -row[0])
    header = ["method", "", "seeds", "accuracy, %", "ECE, %", "NLL", "AURC, 1e-3"]
    header += [f"AUROC, {ood}" for ood in each.ood]
    header.append("passes")
    lines += _table(header, [row for _, row in rows])
    lines.append("")
    scores = _scores(results, name)
    if scores:
        lines += [f"OOD scores of the literature on the softmax network, AUROC: {scores}.", ""]
    if missing:
        lines += [f"{NOT_MEASURED.capitalize()}: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def _row(results: SuccessorResults, name: str, arm: str, variant: str) -> tuple[float, list[str]]:
    """What the row is sorted by, and its cells."""
    aurocs = []
    cells = []
    for ood in SETS[name].ood:
        values = results.detections(name, arm, variant, ood, "uncertainty")
        if values:
            aurocs.append(sum(values) / len(values))
        cells.append(spread(values, 3))

    def of(score: str, digits: int, scale: float = 1.0) -> str:
        return spread(results.seeds(name, arm, variant, "scores", score), digits, scale)

    seeds = len(results.seeds(name, arm, variant, "scores", "nll"))
    row = [
        label(arm),
        VARIANT_TITLES[variant],
        str(seeds),
        of("raw_accuracy", 1, 100),
        of("ece", 1, 100),
        of("nll", 3),
        of("aurc", 1, 1000),
        *cells,
        cost(results, name, arm, "passes"),
    ]
    if not aurocs:
        return 0.0, row
    return sum(aurocs) / len(aurocs), row


def _scores(results: SuccessorResults, name: str) -> str:
    said = []
    for ood in SETS[name].ood:
        found = []
        for score, title in SCORE_LABELS.items():
            values = results.values(name, SCORED, "scores", "ood", ood, score, "auroc")
            if values:
                found.append(f"{title} {sum(values) / len(values):.3f}")
        if found:
            said.append(f"{ood}: {', '.join(found)}")
    return "; ".join(said)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] * len(header), *rows]
    return [f"| {' | '.join(cells)} |" for cells in lines]
