"""Write the numbers of the documents from the committed results.

python tools/result_numbers.py            rewrites README.md, docs/methods.md and docs/limits.md

A number stands between two comments that Markdown does not show, the first of which says where it comes from:

    <!-- = mnist/edl known scores.ece % 1 -->2.0%<!-- / -->

that is the arm `edl` of the comparison `mnist`, its measurement `known`, the path to the number, and how it
is written: `% 1` in percent with one decimal, `. 3` with three decimals, `e 1` as 1.1e-4. A number of a list
is named by another list beside it: `curve.accuracy[epsilon=0.08]`. Numbers are means over the seeds. Instead
of a path there are also the names of WORDS. A test writes them anew and compares.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nescio.studies._claims import MARKS
from nescio.studies._estimates import text_of
from nescio.studies.results import find
from nescio.studies.sensoy2018 import _dead_classes as dead_classes
from nescio.studies.sensoy2018._arms import ARMS, COMPARED
from nescio.studies.sensoy2018._claims import check_all
from nescio.studies.sensoy2018._results import PaperResults
from nescio.studies.sensoy2018._table1 import PUBLISHED
from nescio.studies.sensoy2018.presets import KNOWN, OOD

ROOT = Path(__file__).parents[1]
DOCUMENTS = ("README.md", "docs/methods.md", "docs/limits.md")
MARKED = re.compile(r"(<!-- = (.*?) -->)(.*?)(<!-- / -->)", flags=re.DOTALL)
NOT_MEASURED = "(not measured yet)"
HEADER = (
    "method",
    "accuracy, %",
    "paper, %",
    "NLL",
    "ECE, %",
    "mean entropy on notMNIST, %",
    "median, %",
    "AUROC",
    "training",
    "prediction",
)
LIBRARY_NAMES = {"l2": "softmax"}  # what the library calls an arm, where that is not its name


def main() -> None:
    """Rewrite the documents, and name those that changed."""
    results = PaperResults.read(ROOT / "results" / "paper", "paper")
    for name in DOCUMENTS:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = rewrite(before, results)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name} rewritten")


def rewrite(text: str, results: PaperResults) -> str:
    """A document with every marked number written anew."""

    def replaced(found: re.Match[str]) -> str:
        return found[1] + value_of(found[2], results) + found[4]

    return MARKED.sub(replaced, text)


def value_of(source: str, results: PaperResults) -> str:
    """What stands between the comments."""
    words = source.split()
    if words[0] in WORDS:
        return WORDS[words[0]](results, *words[1:])
    if len(words) != 5:
        sys.exit(f"this is no number of the results: {source!r}")
    place, measurement, path, form, digits = words
    comparison, arm = place.split("/")
    found = []
    for numbers in results.numbers(comparison, arm, measurement):
        found.append(_number(numbers, path))
    if not found:
        return NOT_MEASURED
    return _written(sum(found) / len(found), form, int(digits))


def _number(numbers: Any, path: str) -> float:
    """The number at a path, as scores.ece or curve.accuracy[epsilon=0.08]."""
    listed = re.fullmatch(r"(.*)\[(\w+)=(.*)\]", path)
    if listed is None:
        return float(find(numbers, path.split(".")))
    *parents, name = listed[1].split(".")
    table = find(numbers, parents)
    place = table[listed[2]].index(float(listed[3]))
    return float(table[name][place])


def _written(value: float, form: str, digits: int) -> str:
    if form == "%":
        return f"{100 * value:.{digits}f}%"
    if form == "e":
        mantissa, power = f"{value:.{digits}e}".split("e")
        return f"{mantissa}e{int(power)}"
    return f"{value:.{digits}f}"


def _verdicts(results: PaperResults) -> str:
    counts = dict.fromkeys(MARKS, 0)
    for checked in check_all(results):
        for verdict in checked.verdicts.values():
            counts[verdict.mark] += 1
    said = ", ".join(f"{count} {mark}" for mark, count in counts.items() if count)
    return f"{sum(counts.values())} verdicts: {said}"


def _dead(results: PaperResults, arm: str) -> str:
    """In how many trainings a class died."""
    counts = dead_classes.dead_counts(results, arm)
    if not counts:
        return NOT_MEASURED
    return f"{sum(count > 0 for count in counts)} of {len(counts)}"


def _methods_table(results: PaperResults) -> str:
    """The table of docs/methods.md; the costs come from `python -m benchmarks.methods`."""
    speed = json.loads((ROOT / "benchmarks" / "results" / "methods.json").read_text())["ratios"]
    lines = [HEADER, ("---",) * len(HEADER)]
    for arm in COMPARED:
        if arm in ("edl-printed", "edl-notebook"):
            continue
        lines.append(_methods_row(results, arm, speed))
    return "\n\n" + "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n\n"


def _methods_row(results: PaperResults, arm: str, speed: dict[str, float]) -> tuple[str, ...]:
    name = LIBRARY_NAMES.get(arm, arm)
    key = name if f"{name} step" in speed else arm
    epochs = results.of("mnist", arm)[0].training["training"]["epochs"]
    usual = results.of("mnist", "l2")[0].training["training"]["epochs"]
    cost = speed[f"{key} step"] * epochs / usual
    return (
        f"`{name}`",
        text_of(results.share("mnist", arm, KNOWN, "scores", "raw_accuracy"), 2, 100),
        f"{PUBLISHED[arm]['mnist']:g}",
        text_of(results.average("mnist", arm, KNOWN, "scores", "nll"), 3),
        text_of(results.average("mnist", arm, KNOWN, "scores", "ece"), 2, 100),
        text_of(results.average("mnist", arm, OOD, "scores", "ood_mean_entropy"), 0, 100),
        text_of(results.average("mnist", arm, OOD, "scores", "ood_median_entropy"), 0, 100),
        text_of(results.average("mnist", arm, OOD, "scores", "entropy_auroc"), 3),
        f"{cost:.1f}",
        f"{speed[f'{key} prediction']:.1f}",
    )


def _epochs(results: PaperResults, place: str) -> str:
    comparison, arm = place.split("/")
    assert arm in ARMS
    found = results.of(comparison, arm)
    return str(found[0].training["training"]["epochs"]) if found else NOT_MEASURED


WORDS: dict[str, Callable[..., str]] = {
    "verdicts": _verdicts,
    "dead": _dead,
    "methods-table": _methods_table,
    "epochs": _epochs,
}


if __name__ == "__main__":
    main()
