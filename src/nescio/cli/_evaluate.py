"""`nescio evaluate`: how good models are, and how well they tell out-of-distribution data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli._card import Measured, card_of_evaluation
from nescio.cli._console import counting_progress, print_table
from nescio.cli._options import DataDir, Label
from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

# What the rows of measures say that are not called so everywhere. {}: by what the model decides.
IN_WORDS = {
    "answered_accuracy": "right where there is any evidence at all",
    "answered": "inputs with any evidence at all",
    "accepted_share": "inputs answered by {}",
    "accepted_error": "wrong ones among these answers",
}
OOD_IN_WORDS = {"accepted_share": "OOD inputs answered by {}"}
EACH_RULE = "its rule or the default"  # of models of which each has another


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="A model file or the folder of a run; several as NAME=PATH, to compare."
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            help="A data set's name, a folder or a file, with labels; held-out for the part that train held "
            "out."
        ),
    ],
    ood: Annotated[
        str | None, typer.Option(help="Out-of-distribution data, of other classes; needs no labels.")
    ] = None,
    label: Label = None,
    as_json: Annotated[bool, typer.Option("--json", help="The measures as a JSON object.")] = False,
    data_dir: DataDir = None,
    card: Annotated[
        Path | None, typer.Option(help="Write a model card, card.md and report.html, into this folder.")
    ] = None,
) -> None:
    """Measure accuracy, calibration and selective prediction; with --ood, OOD detection."""
    from nescio.inference._named_paths import named_paths
    from nescio.inference.model import TrainedModel

    paths = named_paths(models)
    if card is not None:
        _require_one_card(card, paths)
    results = {}
    for name, path in paths.items():
        measured = _measure(TrainedModel.load(path), data, ood, label, data_dir)
        results[name] = measured.measures
        if card is not None:
            card_of_evaluation(card, path, measured, ood)
    if as_json:
        only = next(iter(results.values()))
        typer.echo(json.dumps(only if len(results) == 1 else results))
    else:
        _print_measures(results)


def _require_one_card(folder: Path, paths: dict[str, Path]) -> None:
    """Refuse before anything is measured what no card can be written for."""
    from nescio.reports._page import require_extras

    if len(paths) > 1:
        raise InputError(f"--card is for one model, got {len(paths)}; call it once for each")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--card must be a folder, got the file {folder}")
    require_extras()


def _measure(
    model: TrainedModel, data: str, ood: str | None, label: str | None, data_dir: Path | None
) -> Measured:
    from nescio.cli._sources import (
        HELD_OUT_NAME,
        open_for,
        open_held_out,
        open_inputs,
        warn_of_calibrated,
        warn_of_seen,
    )
    from nescio.inference._layers import predict_kept
    from nescio.reports._results import measure
    from nescio.reports._words import rule_text

    if data == HELD_OUT_NAME and not Path(data).exists():
        known = open_held_out(model, data_dir)
    else:
        known = open_for(model, data, data_dir, label)
        warn_of_seen(model, model.preprocess.inputs_of(known), data)
    labels = model.labels_of(known)  # before the work of predicting: a class may be unknown
    warn_of_calibrated(model, known, data)
    prediction = predict_kept(model, model.preprocess.inputs_of(known), counting_progress("features"))
    ood_prediction = None
    if ood is not None:
        ood_inputs = open_inputs(model, ood, data_dir)
        ood_prediction = predict_kept(model, ood_inputs, counting_progress("features"))
    found = measure(model, prediction, labels, ood_prediction)
    accuracy = found.accepted_accuracy
    result: dict[str, Any] = {
        **found.measures,
        "accepted_by": rule_text(model),
        "accepted_share": found.accepted_share,
        "accepted_error": None if accuracy is None else 1 - accuracy,
    }
    if ood_prediction is not None:
        result["ood"] = {**found.ood_measures, "accepted_share": found.ood_accepted_share}
    return Measured(model, known, prediction, ood_prediction, result)


def _print_measures(results: dict[str, dict[str, Any]]) -> None:
    """A table of the measures, and one of those with out-of-distribution data; a column for each model."""
    columns = ["value"] if len(results) == 1 else list(results)
    measured = list(results.values())
    rules = {result["accepted_by"] for result in measured}
    rule = rules.pop() if len(rules) == 1 else EACH_RULE
    rows = _rows_of(measured, IN_WORDS, rule)
    print_table(["measure", *columns], rows)
    if all("ood" in result for result in measured):
        rows = _rows_of([result["ood"] for result in measured], OOD_IN_WORDS, rule)
        print_table(["ood measure", *columns], rows)
    if rule == EACH_RULE:
        for name, result in results.items():
            typer.echo(f"{name} answers by {result['accepted_by']}")


def _rows_of(measured: list[dict[str, Any]], in_words: dict[str, str], rule: str) -> list[list[str]]:
    """A row for each measure that any model has: an evidential one has measures that softmax has not."""
    rows: dict[str, list[str]] = {}
    for each in measured:
        for name, value in each.items():
            if value is None or isinstance(value, float):
                label = name
                if name in in_words:
                    label = f"{name}: {in_words[name].format(rule)}"
                rows[name] = [label]
    for name, row in rows.items():
        for each in measured:
            row.append(_rounded(each.get(name)))
    return list(rows.values())


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
