"""Whether trainings have levelled off: how much the last epoch gained on images that were kept apart."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import COMPARED, label
from nescio.studies.sensoy2018._results import TITLES, PaperResults
from nescio.studies.sensoy2018.presets import TRAINING

BACK = 3  # epochs
ENOUGH = 0.3  # points: a training that gains less has levelled off
HEADER = ("training", "epochs", "held-out accuracy, %", "gain, points", "greatest gain", "levelled off")


def table(results: PaperResults) -> Table:
    """A line for each arm; one that was trained without images kept apart is marked."""
    rows = []
    for comparison in results.comparisons:
        for arm in COMPARED:
            curves = results.numbers(comparison, arm, TRAINING)
            if curves:
                rows.append((f"{label(arm)} on {TITLES[comparison]}", *_cells(curves)))
    caption = (
        f"How much the accuracy on training images kept apart rose from {BACK} epochs before the last to the "
        f"last: the mean of all seeds and members, and the greatest. A training has levelled off when the "
        f"greatest is below {ENOUGH:g} points, and on average when the mean is: that of one network goes up "
        "and down by some images from epoch to epoch. Not known: trained on all images, none kept apart."
    )
    return Table("level-off", "Were the trainings long enough?", caption, HEADER, rows)


def _cells(curves: Sequence[Any]) -> tuple[str, ...]:
    epochs = max(curves[0]["epoch"])
    if any("held_out_accuracy" not in curve for curve in curves):
        return str(epochs), "-", "-", "-", "not known"
    gains: list[float] = []
    lasts: list[float] = []
    for curve in curves:
        for member in members(curve):
            gains.append(100 * gain(member))
            lasts.append(100 * member[-1])
    greatest = max(gains)
    mean = statistics.fmean(gains)
    verdict = "no"
    if greatest < ENOUGH:
        verdict = "yes"
    elif mean < ENOUGH:
        verdict = "on average"
    return str(epochs), f"{statistics.fmean(lasts):.2f}", f"{mean:+.2f}", f"{greatest:+.2f}", verdict


def members(curve: Any) -> list[list[float]]:
    """The held-out accuracy after each epoch, for each member of an ensemble; one list for other methods."""
    by_member: dict[int, list[float]] = {}
    numbers = curve.get("member", [1] * len(curve["epoch"]))
    for member, accuracy in zip(numbers, curve["held_out_accuracy"], strict=True):
        by_member.setdefault(member, []).append(accuracy)
    return list(by_member.values())


def gain(accuracies: Sequence[float]) -> float:
    """From so many epochs before the last to the last; from the first where there are fewer."""
    return accuracies[-1] - accuracies[max(0, len(accuracies) - 1 - BACK)]
