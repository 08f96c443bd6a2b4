"""`nescio train`, `predict`, `evaluate`, `threshold`, `export`: from data to decisions."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from nescio.cli.console import epochs_shown, logs_kept_quiet, print_table
from nescio.errors import DataError, InputError, ModelFileError, NescioWarning

if TYPE_CHECKING:
    from nescio.data import Dataset, Table
    from nescio.inference.model import TrainedModel
    from nescio.posthoc.abstention import AbstentionRule

ModelFile = Annotated[Path, typer.Argument(help="A model file, .safetensors.")]
DataDir = Annotated[Path | None, typer.Option(help="A folder that holds the files already.")]


class Command(TyperCommand):
    """A command whose help says which methods and encoders there are: it alone waits for torch."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The usual help, the methods and encoders filled in."""
        for option in self.params:
            if option.name == "method":
                from nescio.methods import METHODS

                option.help = f"One of {', '.join(METHODS)}."  # type: ignore[attr-defined]
            if option.name == "network":
                from nescio.encoders import ENCODERS

                option.help = (  # type: ignore[attr-defined]
                    f"One of {', '.join(ENCODERS)}, or its fields as JSON or a JSON file. "
                    "Default: what fits the data."
                )
        super().format_help(ctx, formatter)


def train(
    data: Annotated[str, typer.Argument(help="A data set's name, a folder of class folders, .npz or .csv.")],
    out: Annotated[Path, typer.Option(help="The folder of the run: model, metrics, checkpoint.")],
    method: str = "edl",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option("--network", "--encoder", help="Default: what fits the data."),
    ] = None,
    epochs: int = 15,
    batch_size: int = 256,
    learning_rate: float = 1e-3,
    schedule: Annotated[str, typer.Option(help="Of the learning rate: cosine or constant.")] = "cosine",
    size: Annotated[
        int | None, typer.Option(help="Pictures of a folder are made this wide and high.")
    ] = None,
    shift: Annotated[int, typer.Option(help="Move images by up to so many pixels in training.")] = 0,
    flip: Annotated[bool, typer.Option(help="Mirror images by chance in training.")] = False,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Watch a tenth of the training data; stop after so many epochs without gain on it, "
            "and keep the best."
        ),
    ] = None,
    seed: int = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, float32, bfloat16 or float64.")] = "auto",
    data_dir: DataDir = None,
) -> None:
    """Train a model; started again with the same folder, it goes on where it stopped."""
    from nescio.cli.choices import method_of, network_of
    from nescio.cli.sources import WATCHED, open_pair, split
    from nescio.inference.model import TrainedModel
    from nescio.training import TrainingSettings
    from nescio.training.runtime import is_first_process, require_device

    how = TrainingSettings(
        epochs, batch_size, learning_rate, schedule, shift, flip, patience, seed, device, precision
    )
    require_device(device)
    chosen = method_of(method, settings or [])
    known, test = open_pair(data, data_dir, size, seed)
    spec = network_of(network, known, chosen)
    # What decides when to stop must not be what the result is measured on.
    known, watched = (known, test) if patience is None else split(known, WATCHED, seed)
    with logs_kept_quiet(logging.INFO), epochs_shown(epochs, method, members=chosen.trainings) as report:
        model = TrainedModel.train(
            known, chosen, spec, how, held_out=watched, run_dir=out, report=partial(report, method)
        )
    if is_first_process():
        model.module.cpu()
        model.with_rule(_rule_of(out / "model.safetensors", model)).save(out / "model.safetensors")
        _tell_result(out / "model.safetensors", model, test)


def _tell_result(path: Path, model: TrainedModel, test: Dataset | Table) -> None:
    """What the weights in the file reach on data that had no part in the training."""
    from nescio.metrics import summary

    figures = summary(model.predict(test.inputs), model.labels_of(test))
    typer.echo(
        f"{path}: held-out accuracy {figures['accuracy']:.4f}, "
        f"mean uncertainty {figures['mean_uncertainty']:.3f}"
    )
    if model.training["settings"]["patience"] is not None:
        for line in _kept_epochs(model.training["history"]):
            typer.echo(line)


def _kept_epochs(history: list[dict[str, float]]) -> Iterator[str]:
    """Which epoch's weights were kept, and how good they are: a line, or one for each member."""
    members = sorted({row.get("member", 1) for row in history})
    for member in members:
        rows = [row for row in history if row.get("member", 1) == member]
        best = min(rows, key=lambda row: row["held_out_loss"])
        whose = f"member {member}: " if len(members) > 1 else ""
        yield (
            f"{whose}kept epoch {best['epoch']} of {len(rows)}, the best on the tenth of the training data "
            f"that was watched: loss {best['held_out_loss']:.4f}, accuracy {best['held_out_accuracy']:.4f}"
        )


def _rule_of(path: Path, model: TrainedModel) -> AbstentionRule | None:
    """The rule that a file of these very weights has: a training that had nothing left to do keeps it."""
    from nescio.inference.model import TrainedModel

    try:
        present = TrainedModel.load(path)
    except ModelFileError:
        return None  # none there, or what is there is of no use to anyone
    before, now = present.module.state_dict(), model.module.state_dict()
    same = before.keys() == now.keys() and all(before[name].equal(now[name].cpu()) for name in now)
    return present.rule if same else None


def predict(
    model: ModelFile,
    files: Annotated[
        list[Path],
        typer.Argument(help="Pictures, folders of them, or .npz and .csv files, whose rows count from 1."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a header.")] = False,
) -> None:
    """Say for each picture or row what it is, or "I do not know"."""
    from nescio.cli.sources import read_files
    from nescio.inference.model import UNKNOWN, TrainedModel

    if as_json and as_csv:
        raise InputError("--json and --csv are two forms of the same; ask for one")
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
    from nescio.cli.sources import open_for
    from nescio.inference.model import TrainedModel
    from nescio.metrics import detection_summary, summary

    trained = TrainedModel.load(model)
    known = open_for(trained, data, data_dir)
    prediction = trained.predict(known.inputs)
    result: dict[str, object] = dict(summary(prediction, trained.labels_of(known)))
    if ood is not None:
        strangers = trained.predict(open_for(trained, ood, data_dir).inputs)
        result["ood"] = detection_summary(prediction, strangers)
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _print_nested(result)


def threshold(
    model: ModelFile,
    data: Annotated[str, typer.Option(help="Held-out data that the model was not trained on.")],
    risk: Annotated[
        float | None, typer.Option(help="The error allowed among accepted inputs. Default: 0.01.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="How sure that promise is to be. Default: 0.95.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Instead: the share of inputs to accept, without a promise.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Take a threshold with a promise from held-out data, and keep it in the model file."""
    from nescio.cli.sources import open_for
    from nescio.inference.model import TrainedModel

    if coverage is not None and not risk is confidence is None:
        raise InputError("--coverage makes no promise; it goes without --risk and --confidence")
    trained = TrainedModel.load(model)
    held_out = open_for(trained, data, data_dir)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NescioWarning)
        rule = _rule_from(trained, held_out, risk, confidence, coverage)
    if not rule.met:
        raise DataError(f"{said[-1].message}. {model} stays as it was")
    trained.with_rule(rule).save(model)
    typer.echo(f"{model}: {rule.describe()}")


def _rule_from(
    model: TrainedModel,
    held_out: Dataset | Table,
    risk: float | None,
    confidence: float | None,
    coverage: float | None,
) -> AbstentionRule:
    from nescio.posthoc.abstention import AbstentionRule

    prediction, labels = model.predict(held_out.inputs), model.labels_of(held_out)
    if coverage is not None:
        return AbstentionRule.for_coverage(prediction, labels, coverage)
    return AbstentionRule.for_error(
        prediction, labels, 0.01 if risk is None else risk, 0.95 if confidence is None else confidence
    )


def export(
    model: ModelFile,
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file.")] = None,
    program: Annotated[Path | None, typer.Option(help="Write a torch.export program, .pt2.")] = None,
) -> None:
    """Write the model for production: raw inputs to probabilities, belief and uncertainty."""
    from nescio.inference.model import TrainedModel

    if onnx is None and program is None:
        raise InputError("say what to write: --onnx FILE or --program FILE")
    for file in (onnx, program):
        if file is not None:
            _require_place(file)
    trained = TrainedModel.load(model)
    for file, write in ((onnx, trained.export_onnx), (program, trained.export_program)):
        if file is not None:
            with logs_kept_quiet():
                write(file)
            typer.echo(f"{file}: written")


def _require_place(file: Path) -> None:
    if not file.parent.is_dir():
        raise InputError(f"{file} can't be written: there is no folder {file.parent}")
    if file.is_dir():
        raise InputError(f"{file} can't be written: it is a folder")


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
