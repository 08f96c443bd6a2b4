"""`evidentia train`, `predict`, `evaluate`, `threshold`, `export`: from data to decisions."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evidentia.cli.shown import epochs_shown, print_table

if TYPE_CHECKING:
    from evidentia.abstention import AbstentionRule
    from evidentia.model import TrainedModel

ModelFile = Annotated[Path, typer.Argument(help="A model file, .safetensors.")]
DataDir = Annotated[Path | None, typer.Option(help="A folder that holds the files already.")]
UNKNOWN = "I do not know"


def train(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder of class folders, .npz or .csv.")],
    out: Annotated[Path, typer.Option(help="The folder of the run: model, metrics, checkpoint.")],
    method: Annotated[str, typer.Option(help="edl or l2.")] = "edl",
    epochs: int = 15,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    size: Annotated[
        int | None, typer.Option(help="Pictures of a folder are made this wide and high.")
    ] = None,
    shift: Annotated[int, typer.Option(help="Move images by up to so many pixels in training.")] = 0,
    flip: Annotated[bool, typer.Option(help="Mirror images by chance in training.")] = False,
    patience: Annotated[int | None, typer.Option(help="Stop after so many epochs without gain.")] = None,
    seed: int = 0,
    device: str = "auto",
    precision: str = "auto",
    data_dir: DataDir = None,
) -> None:
    """Train a model; started again with the same folder, it goes on where it stopped."""
    from evidentia.cli.sources import open_pair
    from evidentia.methods import make_method
    from evidentia.model import TrainedModel
    from evidentia.training import TrainingSettings

    settings = TrainingSettings(
        epochs, batch_size, learning_rate, "cosine", shift, flip, patience, seed, device, precision
    )
    chosen = make_method(method)
    known, held_out = open_pair(data, data_dir, size, seed)
    with epochs_shown(epochs, method) as report:
        model = TrainedModel.train(
            known, chosen, None, settings, held_out=held_out, run_dir=out, report=partial(report, method)
        )
    if os.environ.get("RANK", "0") != "0":
        return  # of the processes that torchrun started, one speaks for all
    model.with_rule(_rule_of(out / "model.safetensors", model)).save(out / "model.safetensors")
    last = model.training["last"]
    typer.echo(
        f"{out / 'model.safetensors'}: held-out accuracy {last['held_out_accuracy']:.4f}, "
        f"mean uncertainty {last['held_out_uncertainty']:.3f}"
    )


def _rule_of(path: Path, model: TrainedModel) -> AbstentionRule | None:
    """The rule that a file of these very weights has: a training that had nothing left to do keeps it."""
    from evidentia.model import TrainedModel

    if not path.exists():
        return None
    present = TrainedModel.load(path)
    before, now = present.module.state_dict(), model.module.state_dict()
    same = before.keys() == now.keys() and all(before[name].equal(now[name].cpu()) for name in now)
    return present.rule if same else None


def predict(
    model: ModelFile,
    files: Annotated[list[Path], typer.Argument(help="Pictures, or folders of them.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a header.")] = False,
) -> None:
    """Say for each picture what it is, or "I do not know"."""
    from evidentia.cli.sources import read_files
    from evidentia.model import TrainedModel

    trained = TrainedModel.load(model)
    names, inputs = read_files(trained, files)
    prediction = trained.predict(inputs)
    accepted = trained.accepts(prediction)
    best = prediction.max_probability().tolist()
    rows = [
        {
            "file": name,
            "answer": trained.classes[label] if known else UNKNOWN,
            "best": trained.classes[label],
            "probability": round(probability, 4),
            "uncertainty": round(uncertainty, 4),
        }
        for name, label, known, probability, uncertainty in zip(
            names,
            prediction.labels.tolist(),
            accepted.tolist(),
            best,
            prediction.uncertainty.tolist(),
            strict=True,
        )
    ]
    _print_rows(rows, as_json, as_csv)


def evaluate(
    model: ModelFile,
    data: Annotated[str, typer.Option(help="A data set's name, a folder, .npz or .csv.")],
    ood: Annotated[str | None, typer.Option(help="A data set of things the model can't know.")] = None,
    as_json: Annotated[bool, typer.Option("--json")] = False,
    data_dir: DataDir = None,
) -> None:
    """Measure accuracy, calibration and selective prediction; with --ood, how well strangers are told."""
    from evidentia.cli.sources import open_for
    from evidentia.evaluation import detection_summary, summary
    from evidentia.model import TrainedModel, raw_inputs

    trained = TrainedModel.load(model)
    known = open_for(trained, data, data_dir)
    prediction = trained.predict(raw_inputs(known))
    result: dict[str, object] = dict(summary(prediction, trained.labels_of(known)))
    if ood is not None:
        strangers = trained.predict(raw_inputs(open_for(trained, ood, data_dir)))
        result["ood"] = detection_summary(prediction, strangers)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _print_nested(result)


def threshold(
    model: ModelFile,
    data: Annotated[str, typer.Option(help="Held-out data that the model was not trained on.")],
    risk: Annotated[float, typer.Option(help="The error allowed among accepted inputs.")] = 0.01,
    confidence: float = 0.95,
    data_dir: DataDir = None,
) -> None:
    """Take a threshold with a promise from held-out data, and keep it in the model file."""
    from evidentia.abstention import AbstentionRule
    from evidentia.cli.sources import open_for
    from evidentia.model import TrainedModel, raw_inputs

    trained = TrainedModel.load(model)
    held_out = open_for(trained, data, data_dir)
    prediction = trained.predict(raw_inputs(held_out))
    rule = AbstentionRule.for_error(prediction, trained.labels_of(held_out), risk, confidence)
    trained.with_rule(rule).save(model)
    typer.echo(f"{model}: {rule.describe()}")


def export(
    model: ModelFile,
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file.")] = None,
    program: Annotated[Path | None, typer.Option(help="Write a torch.export program.")] = None,
) -> None:
    """Write the model for production: raw inputs to probabilities, belief and uncertainty."""
    from evidentia.errors import InputError
    from evidentia.model import TrainedModel

    if onnx is None and program is None:
        raise InputError("say what to write: --onnx FILE or --program FILE")
    trained = TrainedModel.load(model)
    if onnx is not None:
        trained.export_onnx(onnx)
        typer.echo(f"{onnx}: written")
    if program is not None:
        trained.export_program(program)
        typer.echo(f"{program}: written")


def _print_rows(rows: list[dict[str, object]], as_json: bool, as_csv: bool) -> None:
    import csv
    import sys

    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, ensure_ascii=False))
    elif as_csv:
        writer = csv.DictWriter(sys.stdout, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    else:
        print_table(list(rows[0]), ([str(cell) for cell in row.values()] for row in rows))


def _print_nested(result: dict[str, object]) -> None:
    for title, values in {"measure": result, "strangers": result.get("ood") or {}}.items():
        assert isinstance(values, dict)
        rows = [[name, f"{value:.4f}"] for name, value in values.items() if isinstance(value, float)]
        if rows:
            print_table([title, "value"], rows)
