"""The report of the study: every table, figure and claim, from the results alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nescio.studies._figures import Figure
from nescio.studies.report import (
    Report,
    Table,
    machines,
    settings_table,
    settings_text,
    training_columns,
    write_report,
)
from nescio.studies.results import Result, unfinished
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
from nescio.studies.sensoy2018.presets import FGSM, KNOWN, OOD, PRESETS

DRAWINGS = (_figure1.draw, _figure2.draw, _figure3.draw, _figure45.draw, _losses.draw)
INTRODUCTION = (
    "Sensoy, Kaplan and Kandemir, Evidential Deep Learning to Quantify Classification Uncertainty, NeurIPS "
    "2018: its table, its figures and its claims, with seven methods trained here. EDL stands more than "
    "once: as this library trains it, as printed in the paper, and as in its author's notebook.",
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
    missing = ", ".join(each.name for each in unfinished(results.experiments, results.results))
    if missing:
        text = (
            f"{missing}. These are computed by `nescio reproduce --preset {results.preset} --out "
            "DIR`, where DIR is the folder of this report."
        )
        notices.append(("Not measured yet:", text))
    return notices


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


def _settings(results: PaperResults) -> Table | None:
    rows = []
    for comparison in PRESETS[results.preset]:
        for entry in comparison.entries:
            found = results.of(comparison.name, entry.arm)
            if found:
                rows.append(_settings_row(found))
    caption = (
        "Kept apart: training images to follow the training by. Samples: draws that a prediction is the "
        "mean of, when measured / when attacked. Times are by the clock, whatever else the machine was "
        "doing."
    )
    return settings_table(caption, rows)


def _settings_row(found: Sequence[Result]) -> dict[str, str]:
    first = found[0]
    return {
        "data": first.comparison,
        "method": label(first.arm),
        **training_columns(found),
        "kept apart": str(first.training["held_out"]),
        "samples": _samples(first.settings),
        "settings": settings_text(_method_settings(first.training)),
    }


def _samples(settings: Mapping[str, Mapping[str, Any]]) -> str:
    """Draws when measured and when attacked; a dash for a method that does not draw."""
    found = []
    for measurement in (KNOWN, FGSM):
        samples = settings.get(measurement, {}).get("samples")
        if samples is not None:
            found.append(str(samples))
    return " / ".join(found) or "-"


def _method_settings(training: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the method that have no column, and what differs between the networks."""
    settings = {}
    for name, value in training["method"].items():
        if name not in ("name", "samples"):
            settings[name] = value
    for name in ("dropout", "padding", "initialisation"):
        settings[name] = training["encoder"][name]
    return settings


def _stand_ins(results: PaperResults) -> list[str]:
    found = []
    for role, comparison in ROLES[results.preset].items():
        if comparison is not None and comparison != role:
            data = f"{TITLES[comparison]} for {TITLES[role]}"
            found.append(f"{data}, {OOD_TITLES[comparison]} for {OOD_TITLES[role]}")
    return found
