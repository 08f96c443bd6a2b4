"""The report of the study: every table, figure and claim, from the results alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nescio.studies._figures import Figure
from nescio.studies.report import Report, Table, machines, write_report
from nescio.studies.sensoy2018 import (
    _calibration,
    _dead_classes,
    _figure1,
    _figure2,
    _figure3,
    _figure45,
    _level_off,
    _losses,
    _table1,
)
from nescio.studies.sensoy2018._arms import label
from nescio.studies.sensoy2018._claims import check_all
from nescio.studies.sensoy2018._differences import differences
from nescio.studies.sensoy2018._results import OOD_TITLES, ROLES, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import FGSM, KNOWN, OOD, PRESETS, Comparison

DRAWINGS = (_figure1.draw, _figure2.draw, _figure3.draw, _figure45.draw, _losses.draw)
INTRODUCTION = (
    "Sensoy, Kaplan and Kandemir, Evidential Deep Learning to Quantify Classification Uncertainty, NeurIPS "
    "2018: its table, its figures and its claims, with seven methods trained here. EDL stands more than "
    "once: as this library trains it, as printed in the paper, and as in its author's notebook.",
)
SETTINGS_HEADER = (
    "data",
    "method",
    "seeds",
    "epochs",
    "batch",
    "rate",
    "kept apart",
    "samples",
    "settings",
    "training, s",
)


def make_report(results: PaperResults) -> Report:
    """From results to all that is shown."""
    figures: list[Figure] = []
    for draw in DRAWINGS:
        figures += draw(results)
    return Report(
        title="The paper, reproduced",
        introduction=INTRODUCTION,
        command=f"nescio reproduce --preset {results.preset} --out DIR",
        notices=_notices(results),
        claims=check_all(results),
        tables=list(_tables(results)),
        figures=figures,
        differences=differences(results),
        settings=_settings(results),
        hardware=machines(results.results),
        files={"table1": _table1.rows(results), "dead_classes": _dead_classes.rows(results)},
    )


def write(folder: Path, preset: str, seeds: int | None = None) -> Path:
    """Write the report of a preset from what is in a folder; gives the path of report.html.

    Args:
        folder: The folder of the study.
        preset: "quick" or "paper".
        seeds: So many seeds of each arm where these are more than the preset's own number.

    Raises:
        InputError: If there is no such preset.
        DataError: If a record is damaged, or the folder can't be written to.
    """
    return write_report(make_report(PaperResults.read(folder, preset, seeds)), folder)


def _notices(results: PaperResults) -> list[tuple[str, str]]:
    notices = []
    stand_ins = _stand_ins(results)
    if stand_ins:
        text = f"{'; '.join(stand_ins)}. It shows that everything works; its numbers are not the paper's."
        notices.append(("This is the quick run, not the paper's experiment:", text))
    missing = missing_results(results)
    if missing:
        text = (
            f"{', '.join(missing)}. These are computed by `nescio reproduce --preset {results.preset} --out "
            "DIR`, where DIR is the folder of this report."
        )
        notices.append(("Not measured yet:", text))
    return notices


def missing_results(results: PaperResults) -> list[str]:
    """The experiments without a result, or without all of their measurements."""
    found: dict[tuple[str, str, int], Mapping[str, Any]] = {}
    for result in results.results:
        found[result.comparison, result.arm, result.seed] = result.numbers
    missing = []
    for experiment in results.experiments:
        present = found.get((experiment.comparison, experiment.arm, experiment.plan.seed), {})
        if not all(measurement.name in present for measurement in experiment.measurements):
            missing.append(experiment.name)
    return missing


def _tables(results: PaperResults) -> Iterator[Table]:
    yield from _table1.tables(results)
    yield _level_off.table(results)
    for comparison in results.comparisons:
        if results.compared(comparison, KNOWN):
            yield _calibration.table(results, comparison)
        if results.compared(comparison, OOD):
            yield _figure3.table(results, comparison)
        if results.compared(comparison, FGSM):
            yield _figure45.table(results, comparison)
    yield _losses.table(results)
    yield _dead_classes.table(results)


def _settings(results: PaperResults) -> Table:
    rows = []
    for comparison in PRESETS[results.preset]:
        for entry in comparison.entries:
            row = _settings_row(results, comparison, entry.arm)
            if row is not None:
                rows.append(row)
    caption = (
        "Kept apart: training images to follow the training by. Samples: draws that a prediction is the "
        "mean of, when measured / when attacked. Times are by the clock, whatever else the machine was "
        "doing."
    )
    return Table("settings", "Settings, seeds and time", caption, SETTINGS_HEADER, rows)


def _settings_row(results: PaperResults, comparison: Comparison, arm: str) -> tuple[str, ...] | None:
    found = results.of(comparison.name, arm)
    if not found:
        return None
    training = found[0].training["training"]
    seeds = []
    seconds = []
    for result in found:
        seeds.append(str(result.seed))
        provenance = next(iter(result.provenance.values()), {})
        if provenance.get("training_seconds") is not None:
            seconds.append(provenance["training_seconds"])
    return (
        comparison.name,
        label(arm),
        ", ".join(seeds),
        str(training["epochs"]),
        str(training["batch_size"]),
        f"{training['learning_rate']:g}, {training['schedule']}",
        str(found[0].training["held_out"]),
        _samples(found[0].settings),
        _described(found[0].training),
        f"{statistics.fmean(seconds):.0f}" if seconds else "-",
    )


def _samples(settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Draws when measured and when attacked; a dash for a method that does not draw."""
    found = []
    for measurement in (KNOWN, FGSM):
        samples = settings.get(measurement, {}).get("samples")
        if samples is not None:
            found.append(str(samples))
    return " / ".join(found) or "-"


def _described(training: Mapping[str, Any]) -> str:
    """The settings of the method that have no column, and what differs between the networks."""
    settings = {}
    for name, value in training["method"].items():
        if name not in ("name", "samples"):
            settings[name] = value
    for name in ("dropout", "padding", "initialisation"):
        settings[name] = training["encoder"][name]
    return ", ".join(f"{name} {_short(value)}" for name, value in settings.items())


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _stand_ins(results: PaperResults) -> list[str]:
    found = []
    for role, comparison in ROLES[results.preset].items():
        if comparison is not None and comparison != role:
            data = f"{TITLES[comparison]} for {TITLES[role]}"
            found.append(f"{data}, {OOD_TITLES[comparison]} for {OOD_TITLES[role]}")
    return found
