"""`nescio train`, `predict`, `evaluate`, `calibrate`, `threshold`, `sets`, `export`: data to decisions."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli import _training
from nescio.cli._card import Measured, card_after_training, card_of_evaluation
from nescio.cli._console import EVER, counting_progress, epoch_progress, logs_kept_quiet, print_table
from nescio.errors import DataError, InputError, ModelFileError, NescioWarning, TrainingError

if TYPE_CHECKING:
    from nescio.data import Dataset, Table, Texts
    from nescio.inference.model import TrainedModel
    from nescio.opinions.categorical import Prediction
    from nescio.training import TrainingSettings

ModelFile = Annotated[str, typer.Argument(help="A model file, .safetensors, or the folder of a run.")]
Label = Annotated[
    str | None,
    typer.Option(help="The labels' column of a .csv. Default: label, class, target or y, else the last."),
]
UnseenData = Annotated[
    str,
    typer.Option(help="Data that the model was not trained on; held-out for the part that train held out."),
]
_SHOWN_FAILURES = 3
_SHOWN_CLASSES = 5  # of a set, in a table
_SKIPPED = {"all": "temperature and no trust"}  # in words, where nothing could be fitted

DataDir = Annotated[Path | None, typer.Option(help="A folder that holds the files already.")]


def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A data set's name, a folder of class folders (pictures or texts), or a file: "
            ".csv, .tsv, .jsonl, .parquet, .npz."
        ),
    ],
    out: Annotated[Path, typer.Option(help="The folder of the run: model, metrics, checkpoint.")],
    method: Annotated[str, typer.Option(help="What is trained.")] = "edl",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A setting of the method; may be repeated."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            "--encoder",
            "--network",
            help="Default: what fits the data, said in one line.",
        ),
    ] = None,
    fine_tune: Annotated[
        bool,
        typer.Option(
            "--fine-tune", help="Train all of a pretrained encoder, not only a head on its features."
        ),
    ] = False,
    epochs: _training.Epochs = None,
    batch_size: _training.BatchSize = None,
    learning_rate: _training.LearningRate = None,
    schedule: _training.Schedule = "cosine",
    size: Annotated[
        int | None, typer.Option(help="Pictures of a folder are brought to this height and width.")
    ] = None,
    patience: _training.Patience = None,
    posthoc: _training.Posthoc = "all",
    log: _training.Log = None,
    label: Label = None,
    text: Annotated[
        str | None, typer.Option(help="The column of a table that holds texts to learn from.")
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="A column of a table not to learn from; may be repeated.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="A column of a table whose equal values are held out together.")
    ] = None,
    seed: _training.Seed = 0,
    data_dir: DataDir = None,
    optimizer: _training.Optimizer = None,
    weight_decay: _training.WeightDecay = None,
    warmup: _training.Warmup = None,
    clip_norm: _training.ClipNorm = None,
    accumulate: _training.Accumulate = 1,
    ema: _training.Ema = 0.0,
    encoder_rate: _training.EncoderRate = None,
    freeze_epochs: _training.FreezeEpochs = 0,
    class_weight: _training.ClassWeight = None,
    sampler: _training.Sampler = "shuffled",
    shift: _training.Shift = 0,
    flip: _training.Flip = False,
    augment: _training.Augment = "none",
    mixup: _training.Mixup = 0.0,
    device: _training.Device = "auto",
    precision: _training.Precision = "auto",
) -> None:
    """Train a model; started again with the same folder, it goes on where it stopped."""
    from nescio.cli._choices import method_of, name_of_encoder, network_of
    from nescio.cli._sources import HELD_OUT, WATCHED, held_out_digest, open_to_train
    from nescio.data import Table, split
    from nescio.inference._calibration import require_wanted
    from nescio.inference._layers import predict_kept
    from nescio.inference.model import TrainedModel
    from nescio.training import TrainingSettings
    from nescio.training._runtime import is_first_process, require_device
    from nescio.training.loggers import make_loggers

    how = TrainingSettings(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        schedule=schedule,
        shift=shift,
        flip=flip,
        patience=patience,
        seed=seed,
        device=device,
        precision=precision,
        optimizer=optimizer,
        weight_decay=weight_decay,
        warmup=warmup,
        clip_norm=clip_norm,
        accumulate=accumulate,
        ema=ema,
        class_weight=_training.parse_class_weight(class_weight),
        sampler=sampler,
        encoder_rate=encoder_rate,
        freeze_epochs=freeze_epochs,
        augment=augment,
        mixup=mixup,
    )
    require_device(device)
    require_wanted(posthoc)
    loggers = make_loggers(log)
    chosen = method_of(method, settings or [])
    known, test, choice = open_to_train(
        data,
        seed,
        name_of_encoder(network),
        fine_tune,
        size,
        label=label,
        text=text,
        drop=drop,
        group=group,
        data_dir=data_dir,
    )
    spec = choice.spec or network_of(network, known, chosen)
    if is_first_process():
        typer.echo(choice.reason, err=True)
    # What decides when to stop must not be what the result is measured on.
    watched = test
    if patience is not None:
        known, watched = split(known, WATCHED, seed)
    how = how.resolved(len(known), fine_tuned=fine_tune, rows=isinstance(known, Table))
    assert how.epochs is not None
    with (
        logs_kept_quiet(logging.INFO),
        epoch_progress(how.epochs, method, members=chosen.trainings) as report,
    ):
        model = TrainedModel.train(
            known,
            chosen,
            spec,
            how,
            fine_tune=fine_tune,
            held_out=watched,
            run_dir=out,
            report=partial(report, method),
            on_encoding=counting_progress("features"),
            posthoc=posthoc,
            log=loggers,
        )
    if is_first_process():
        _print_posthoc(model)
        model.module.cpu()
        # By this the held-out part is found again, for promises.
        held_out: dict[str, Any] = {"data": data, "label": label, "drop": drop, "text": text, "group": group}
        held_out |= {"seed": seed, "share": HELD_OUT, "sha256": held_out_digest(model, test)}
        model = replace(model, training={**model.training, "held_out": held_out})
        model = _with_promises_of(out / "model.safetensors", model)
        model.save(out / "model.safetensors")
        prediction = predict_kept(model, model.preprocess.inputs_of(test))
        _print_result(out / "model.safetensors", model, test, prediction)
        card_after_training(out, model, test, prediction, data)
        _require_learned(out, model, how)


def _require_learned(out: Path, model: TrainedModel, how: TrainingSettings) -> None:
    """End with an error after a training that has diverged, or never got anywhere."""
    if any(metrics.get("is_guessing") for metrics in model.training["history"]):
        accuracy = model.training["last"]["accuracy"]
        raise TrainingError(
            f"{out} has learned nothing: an accuracy of {accuracy:.3f} on the training data is as "
            f"good as guessing. Train again in another folder with a lower --learning-rate (it was "
            f"{how.learning_rate:g}), or look at the labels"
        )


def _print_posthoc(model: TrainedModel) -> None:
    """One line that says what was fitted after the training, and what was not."""
    summary = model.training.get("posthoc")
    if summary is None:
        return
    parts = []
    for name, what in summary["done"].items():
        parts.append(f"{name} {what}")
    for name, reason in summary["skipped"].items():
        parts.append(f"no {_SKIPPED.get(name, name)}: {reason}")
    what = "; ".join(parts)
    if summary["samples"]:
        what = f"{summary['samples']:,} training inputs set aside for calibration: {what}"
    typer.echo(what, err=True)


def _print_result(
    path: Path, model: TrainedModel, test: Dataset | Table | Texts, prediction: Prediction
) -> None:
    """What the weights in the file reach on data that had no part in the training."""
    from nescio.metrics import summary

    figures = summary(prediction, model.labels_of(test))
    typer.echo(
        f"{path}: held-out accuracy {figures['accuracy']:.4f}, "
        f"mean uncertainty {figures['mean_uncertainty']:.3f}"
    )
    if model.training["settings"]["patience"] is not None:
        for line in _kept_epochs(model.training["history"]):
            typer.echo(line)


def _kept_epochs(history: list[dict[str, float]]) -> Iterator[str]:
    """Which epoch's weights were kept, and how good they are: a line, or one for each member."""
    rows_of: dict[float, list[dict[str, float]]] = {}
    for row in history:
        rows_of.setdefault(row.get("member", 1), []).append(row)
    for member, rows in sorted(rows_of.items()):
        # Of a run that was lengthened, only some earlier epochs have a loss that compares.
        compared = [row for row in rows if "held_out_loss" in row]
        best = min(compared, key=lambda row: row["held_out_loss"])
        whose = f"member {member}: " if len(rows_of) > 1 else ""
        yield (
            f"{whose}kept epoch {best['epoch']} of {len(rows)}, the best on the tenth of the training data "
            f"that was watched: loss {best['held_out_loss']:.4f}, accuracy {best['held_out_accuracy']:.4f}"
        )


def _with_promises_of(path: Path, model: TrainedModel) -> TrainedModel:
    """With rule and sets of a file of these very weights: a training with nothing left to do keeps them."""
    from nescio.inference.model import TrainedModel

    try:
        present = TrainedModel.load(path)
    except ModelFileError:
        return model  # none there, or what is there is of no use to anyone
    if not _same_posthoc(present, model):
        return model
    before, now = present.module.state_dict(), model.module.state_dict()
    same = before.keys() == now.keys() and all(before[name].equal(now[name].cpu()) for name in now)
    if not same:
        return model
    return model.with_rule(present.rule).with_sets(present.sets)


def _same_posthoc(one: TrainedModel, other: TrainedModel) -> bool:
    """Whether two models make the same of what their methods say: a rule is about what is finally said."""
    if one.posthoc is None or other.posthoc is None:
        return one.posthoc is other.posthoc
    return one.posthoc.same_as(other.posthoc)


def predict(
    model: Annotated[str, typer.Argument(help="A model file or the folder of a run, or NAME=PATH.")],
    files: Annotated[
        list[str],
        typer.Argument(
            help="Pictures, folders of them, .npz, .npy and .csv files, whose rows count from 1. "
            "Before them, more models as NAME=PATH, to be asked side by side."
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line, with the probabilities of all classes.")
    ] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Comma-separated, with a header.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Write .parquet, .csv or .jsonl instead; stopped and started again, it goes on."),
    ] = None,
    on: Annotated[str, typer.Option(help="With --out: here, or ray for the machines of a cluster.")] = "here",
) -> None:
    """Say for each picture or row what it is, or "I do not know".

    What can't be read gets a line with the error, the rest is answered, and the code is 1.
    """
    from nescio.inference._named_paths import has_name, named_paths
    from nescio.inference.model import TrainedModel

    if sum((as_json, as_csv, out is not None)) > 1:
        raise InputError("--json, --csv and --out are three forms of the same; ask for one")
    models = [model]
    while files and has_name(files[0]) and not Path(files[0]).exists():
        models.append(files[0])
        files = files[1:]
    if not files:
        raise InputError("say what to predict: pictures, folders, .npz, .npy or .csv files")
    if out is not None:
        _predict_to_file(named_paths(models), files, out, on)
        return
    if on != "here":
        raise InputError("--on goes with --out, which names the file to write")
    paths = named_paths(models)
    loaded = {name: TrainedModel.load(path) for name, path in paths.items()}
    records = _records_of(loaded, files)
    _print_records(records, as_json, as_csv)
    if not as_json and not as_csv:
        for name, path in paths.items():
            _say_where_nothing_is_refused(path, loaded[name])
    if any(record["error"] is not None for record in records):
        raise typer.Exit(1)


def _say_where_nothing_is_refused(path: Path, model: TrainedModel) -> None:
    """Without a threshold a class is named however small the belief in it: not what people expect."""
    if model.rule is None:
        typer.echo(
            f"{path} has no threshold yet and names a class wherever there is any evidence. For "
            f'"I do not know": nescio threshold {path} --data held-out --max-error 0.05, or, without a '
            "promise, --coverage 0.9, which answers the surest nine in ten",
            err=True,
        )


def _records_of(models: dict[str, TrainedModel], files: list[str]) -> list[dict[str, Any]]:
    """Of all files; with several models, all of the first and then of the next, each with its name."""
    from nescio.data import open_sources
    from nescio.inference.records import iterate_records, takes_texts

    source = open_sources(files, takes_texts=all(takes_texts(model) for model in models.values()))
    records: list[dict[str, Any]] = []
    for name, trained in models.items():
        for record in iterate_records(trained, source):
            records.append(record if len(models) == 1 else {"model": name, **record})
    return records


def _predict_to_file(models: dict[str, Path], files: list[str], out: Path, on: str) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from nescio.inference.bulk import predict_to_file

    if len(models) > 1:
        raise InputError("--out takes one model; call it once for each")
    (path,) = models.values()
    console = Console(stderr=True)
    columns = (TextColumn("predicting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    has_bar = console.is_terminal
    bars = Progress(*columns, console=console, disable=not has_bar, speed_estimate_period=EVER)
    say = counting_progress("predicted")
    with bars as progress:
        task = progress.add_task("predicting", total=None)

        def show(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)
            if not has_bar and done < total:
                say(done, total)

        outcome = predict_to_file(path, files, out, on=on, report=show, on_wait=console.print)
    unread = f", {outcome.errors:,} of them without an answer (column error)" if outcome.errors else ""
    typer.echo(f"{out}: {outcome.inputs:,} inputs{unread}")
    if outcome.errors:
        raise typer.Exit(1)


def _print_records(records: list[dict[str, Any]], as_json: bool, as_csv: bool) -> None:
    from nescio.inference.records import to_csv, to_json_lines

    if as_json:
        typer.echo(to_json_lines(records), nl=False)
        return
    if as_csv:
        typer.echo(to_csv(records), nl=False)
        return
    if len(records) > _SHOWN_FAILURES and all(record["error"] is not None for record in records):
        _print_failures(records)
        return
    header = ["name", "answer", "best", "probability", "uncertainty"]
    if "model" in records[0]:
        header = ["model", *header]
    if any(record["p_value"] is not None for record in records):
        header = [*header, "p_value"]
    if any(record["set"] is not None for record in records):
        header = [*header, "set"]
    if any(record["error"] is not None for record in records):
        header = [*header, "error"]
    rows = []
    for record in records:
        cells = []
        for name in header:
            cells.append(_set_cell(record["set"]) if name == "set" else _cell(record[name]))
        rows.append(cells)
    print_table(header, rows)


def _print_failures(records: list[dict[str, Any]]) -> None:
    """Where nothing could be answered: how many there are, and the first few."""
    typer.echo(f"none of the {len(records):,} inputs can be answered; the first {_SHOWN_FAILURES}:")
    for record in records[:_SHOWN_FAILURES]:
        typer.echo(f"  {record['name']}: {record['error']}")


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _set_cell(members: list[str] | None) -> str:
    """The classes of a set; a long one is cut."""
    if members is None:
        return ""
    if not members:
        return "none: unlike all classes"
    shown = ", ".join(members[:_SHOWN_CLASSES])
    if len(members) > _SHOWN_CLASSES:
        shown = f"{shown} and {len(members) - _SHOWN_CLASSES} more"
    return shown


def score(words: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
    """Say what this command is called now."""
    raise InputError("score is now a part of predict: nescio predict MODEL FILES... --out FILE.parquet")


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...", help="A model file or the folder of a run; several as NAME=PATH, to compare."
        ),
    ],
    data: Annotated[str, typer.Option(help="A data set's name, a folder, .npz or .csv, with labels.")],
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
    from nescio.cli._sources import HELD_OUT_NAME, open_for, open_held_out, open_inputs, warn_of_seen
    from nescio.inference._layers import predict_kept
    from nescio.metrics import detection_summary, summary

    if data == HELD_OUT_NAME and not Path(data).exists():
        known = open_held_out(model, data_dir)
    else:
        known = open_for(model, data, data_dir, label)
        warn_of_seen(model, model.preprocess.inputs_of(known), data)
    prediction = predict_kept(model, model.preprocess.inputs_of(known), counting_progress("features"))
    result: dict[str, Any] = dict(summary(prediction, model.labels_of(known)))
    ood_prediction = None
    if ood is not None:
        ood_inputs = open_inputs(model, ood, data_dir)
        ood_prediction = predict_kept(model, ood_inputs, counting_progress("features"))
        result["ood"] = detection_summary(prediction, ood_prediction)
    return Measured(model, known, prediction, ood_prediction, result)


def _print_measures(results: dict[str, dict[str, Any]]) -> None:
    """A table of the measures, and one of those with out-of-distribution data; a column for each model."""
    tables = {"measure": list(results.values())}
    if all("ood" in result for result in results.values()):
        tables["ood measure"] = [result["ood"] for result in results.values()]
    columns = ["value"] if len(results) == 1 else list(results)
    for title, measured in tables.items():
        # Of all models: an evidential one has measures that softmax has not.
        rows: dict[str, list[str]] = {}
        for each in measured:
            for name, value in each.items():
                if isinstance(value, float):
                    rows[name] = [name]
        for name, row in rows.items():
            for each in measured:
                row.append(_rounded(each.get(name)))
        print_table([title, *columns], list(rows.values()))


def _rounded(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def threshold(
    model: ModelFile,
    data: UnseenData,
    max_error: Annotated[
        float | None, typer.Option(help="The error allowed among accepted inputs. Default: 0.01.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="How sure that promise is to be. Default: 0.95.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Instead: the share of inputs to accept, without a promise.")
    ] = None,
    measure: Annotated[str, typer.Option(help="The measure of doubt that decides.")] = "uncertainty",
    label: Label = None,
    data_dir: DataDir = None,
    risk: Annotated[float | None, typer.Option(hidden=True, help="The former name of --max-error.")] = None,
) -> None:
    """Take a threshold with a promise from held-out data, and keep it in the model file."""
    from nescio.cli._sources import open_for_promise
    from nescio.inference._layers import predict_kept
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel
    from nescio.posthoc.abstention import AbstentionRule

    if max_error is None:
        max_error = risk
    if coverage is not None and not max_error is confidence is None:
        raise InputError("--coverage makes no promise; it goes without --max-error and --confidence")
    if coverage is not None and not 0 < coverage <= 1:
        raise InputError(f"--coverage must be above 0 and at most 1, got {coverage:g}")
    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_for_promise(trained, data, data_dir, label)
    # As `predict` and the service will ask it: the promise is about their answers.
    prediction = predict_kept(trained, trained.preprocess.inputs_of(held_out), counting_progress("features"))
    labels = trained.labels_of(held_out)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NescioWarning)
        if coverage is not None:
            rule = AbstentionRule.for_coverage(prediction, labels, coverage, measure)
        else:
            target = 0.01 if max_error is None else max_error
            sure = 0.95 if confidence is None else confidence
            rule = AbstentionRule.for_error(prediction, labels, target, sure, measure)
    if not rule.met:
        raise DataError(
            f"{said[-1].message}; or --coverage 0.9, which answers the surest nine in ten and promises "
            f"nothing. {path} stays as it was"
        )
    trained.with_rule(rule).save(path)
    typer.echo(f"{path}: {rule.describe()}")


def calibrate(
    model: ModelFile,
    data: UnseenData,
    training: Annotated[
        str | None, typer.Option(help="What the model was trained on; needed for trust, not for temperature.")
    ] = None,
    posthoc: _training.Posthoc = "all",
    log: _training.Log = None,
    label: Label = None,
    data_dir: DataDir = None,
) -> None:
    """Fit temperature and trust of a model to held-out data, and keep them in its file.

    A rule and sets that the model had are taken away: they promise for what the model said before. New ones
    need other data than these.
    """
    from nescio.cli._sources import CALIBRATED_ON, held_out_digest, open_training, open_unseen
    from nescio.inference._calibration import require_wanted
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel

    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_unseen(trained, data, data_dir, label)
    if require_wanted(posthoc) in ("all", "trust") and training is None:
        raise InputError(
            "--training must name what the model was trained on: trust is by the distance to it; "
            "--posthoc temperature needs none"
        )
    known = held_out
    if training is not None:
        known = open_training(trained, training, data_dir, label)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NescioWarning)
        calibrated = trained.calibrated(known, held_out, posthoc)
    if calibrated.posthoc is not None:
        # No promise may be made from the same data again.
        calibrated_on = held_out_digest(trained, held_out)
        calibrated = replace(calibrated, training={**calibrated.training, CALIBRATED_ON: calibrated_on})
    calibrated.save(path)
    for warning in said:
        typer.echo(str(warning.message), err=True)
    fitted = "no temperature, no trust"
    if calibrated.posthoc is not None:
        fitted = calibrated.posthoc.describe()
    typer.echo(f"{path}: {fitted}")


def sets(
    model: ModelFile,
    data: UnseenData,
    coverage: Annotated[
        float, typer.Option(help="The share of inputs whose set is to hold the true class.")
    ] = 0.95,
    score: Annotated[
        str, typer.Option(help="lac: the smallest sets; aps: larger ones for harder inputs; raps: between.")
    ] = "lac",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Promise it for the inputs of each class, not only on average.")
    ] = False,
    randomized: Annotated[
        bool,
        typer.Option("--randomized", help="Smaller sets of aps and raps, drawn by a digest of the input."),
    ] = False,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="Leave the set of an input that is unlike all classes empty."),
    ] = False,
    label: Label = None,
    data_dir: DataDir = None,
) -> None:
    """Make sets of classes that hold the true one as often as promised, and keep them in the model file."""
    from nescio.cli._sources import open_for_promise
    from nescio.inference._layers import predict_kept
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel
    from nescio.posthoc.conformal import ConformalSets

    if not 0 < coverage < 1:
        raise InputError(f"--coverage must be between 0 and 1, got {coverage:g}")
    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_for_promise(trained, data, data_dir, label)
    # As `predict` and the service will ask it: the promise is about their answers.
    prediction = predict_kept(trained, trained.preprocess.inputs_of(held_out), counting_progress("features"))
    try:
        made = ConformalSets.fit(
            prediction,
            trained.labels_of(held_out),
            coverage,
            score,
            by_class=by_class,
            randomized=randomized,
            allow_empty=allow_empty,
            classes=trained.classes,
        )
    except DataError as error:
        raise DataError(f"{error}. {path} stays as it was") from error
    trained.with_sets(made).save(path)
    low, high = made.coverage_interval()
    typer.echo(f"{path}: {made.describe()}")
    typer.echo(
        f"for 95% of all draws of so many held-out samples, that share is in truth {low:.1%} to {high:.1%}"
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
