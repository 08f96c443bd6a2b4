"""The model card that `train` and `evaluate` leave behind."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from nescio.errors import NescioError

if TYPE_CHECKING:
    from nescio.data import LabelledData
    from nescio.inference.model import TrainedModel
    from nescio.opinions.categorical import Prediction


class Measured(NamedTuple):
    """A model, the data it was measured on, what it says of it and of OOD inputs, and the measures."""

    model: TrainedModel
    data: LabelledData
    prediction: Prediction
    ood: Prediction | None
    measures: dict[str, Any]


def card_after_training(
    out: Path, model: TrainedModel, held_out: LabelledData, prediction: Prediction, data: str
) -> None:
    """Write the card beside the model; where that can't be, one line says why, and the model stays.

    data: what the command was given.
    """
    from nescio.reports import CardContext, write_card

    context = CardContext(name=_name_of(out.resolve()), split=_split_text(held_out, data), command=_command())
    try:
        path = write_card(model, held_out, out, prediction=prediction, context=context)
    except NescioError as error:
        typer.echo(f"no model card was written: {error}", err=True)
    else:
        typer.echo(f"{path}: the model card; card.md is the same for a model hub", err=True)


def card_of_evaluation(folder: Path, path: Path, measured: Measured, ood_name: str | None) -> None:
    """Write the card of a model that was measured; path: that of its file, or of the folder of its run.

    Raises:
        NescioError: If it can't be written.
    """
    from nescio.data._folders import RUN_MODEL
    from nescio.inference._model_file import model_path
    from nescio.reports import CardContext, write_card

    path = model_path(path).resolve()
    name = path.stem
    if path.name == RUN_MODEL:
        name = _name_of(path.parent)  # all runs call the file alike
    context = CardContext(
        name=name,
        model_file=path.name,
        split="as given; the figures hold for new inputs only if the model was not trained on it",
        ood_name=ood_name or "",
        command=_command(),
    )
    written = write_card(
        measured.model,
        measured.data,
        folder,
        prediction=measured.prediction,
        ood=measured.ood,
        context=context,
    )
    typer.echo(f"{written}: the model card; card.md is the same for a model hub", err=True)


def _name_of(run: Path) -> str:
    """A folder's name; that of all examples says nothing, and the card then names data and method."""
    return "" if run.name == "run" else run.name


def _split_text(held_out: LabelledData, data: str) -> str:
    """How what is held out was chosen, as `open_to_train` and `split` do it."""
    from nescio.data._catalog import in_catalog
    from nescio.data.dataset import PARTS

    if in_catalog(data):
        return "the test part of the data set"
    if held_out.parts is not None:
        found = list(set(held_out.parts.tolist()))
        if len(found) == 1 and PARTS[found[0]] != "train":
            return f"what the data itself names its {PARTS[found[0]]} part"
    if held_out.groups is not None:
        return "whole groups, drawn by chance, and held out from the training"
    return "drawn by chance from every class alike, and held out from the training"


def _command() -> str:
    return shlex.join(["nescio", *sys.argv[1:]])
