"""`nescio train`: data to a model file, its model card and what it reaches on held-out data."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nescio.cli import _training
from nescio.cli._card import card_after_training
from nescio.cli._console import counting_progress, epoch_progress, logs_kept_quiet
from nescio.cli._options import DataDir, Label
from nescio.errors import InputError, ModelFileError, TrainingError

if TYPE_CHECKING:
    from nescio.data import LabelledData
    from nescio.inference.model import TrainedModel
    from nescio.opinions.categorical import Prediction
    from nescio.training import TrainingSettings


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
        str | None,
        typer.Option(help="A column of a table, or the level of sub-folders of pictures, held out together."),
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
    from nescio.cli._choices import encoder_of, method_of, network_of
    from nescio.cli._sources import HELD_OUT, WATCHED, held_out_digest, open_to_train
    from nescio.data import split
    from nescio.inference._calibration import require_wanted, takes_more_networks
    from nescio.inference._cross_fit import FOLDS
    from nescio.inference._train import resolved_settings
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
    if is_first_process():
        _require_own_folder(out)
    loggers = make_loggers(log)
    chosen = method_of(method, settings or [])
    known, test, choice = open_to_train(
        data,
        seed,
        encoder_of(network),
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
    if is_first_process() and takes_more_networks(known, posthoc, seed, is_repeatable=not fine_tune):
        typer.echo(
            f"Then, for the temperature, {FOLDS} more networks, each without a part of the data", err=True
        )
    how = resolved_settings(how, known, len(known), chosen, choice, fine_tune)
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
        # By this the held-out part is found again, for promises.
        where: dict[str, Any] = {"data": data, "label": label, "drop": drop, "text": text, "group": group}
        where |= {
            "label_column": choice.label_column,
            "seed": seed,
            "share": HELD_OUT,
            "sha256": held_out_digest(model, test),
        }
        model = replace(model, training={**model.training, "held_out": where})
        _save_and_tell(out, model, test, data)
        _require_learned(out, model, how)


def _require_own_folder(out: Path) -> None:
    """Refuse a folder in which a training would write over files that are not of one."""
    from nescio.data._folders import RUN_MODEL, RUN_SETTINGS

    if (out / RUN_SETTINGS).exists():
        return
    for name in (RUN_MODEL, "report.html", "card.md"):
        if (out / name).is_file():
            raise InputError(f"--out {out} holds a {name} that no training put there; use another folder")


def _save_and_tell(out: Path, model: TrainedModel, test: LabelledData, data: str) -> None:
    """Write the model file, say what it reaches on the held-out part, and write its card."""
    from nescio.data._folders import RUN_MODEL
    from nescio.inference._layers import predict_kept

    model.module.cpu()
    path = out / RUN_MODEL
    model = _with_what_was_fitted(path, model)
    _print_posthoc(model)
    model.save(path)
    prediction = predict_kept(model, model.preprocess.inputs_of(test))
    _print_result(path, model, test, prediction)
    card_after_training(out, model, test, prediction, data)


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
    from nescio.inference._calibration import CALIBRATED_ON

    summary = model.training.get("posthoc")
    if summary is None:
        return
    parts = []
    for name, what in summary["done"].items():
        parts.append(f"{name} {what}")
    for name, reason in summary["skipped"].items():
        parts.append(f"no {name}: {reason}")
    if "trust" in summary["skipped"]:
        parts.append("without trust, inputs unlike all that it was trained on may be answered surely")
    what = "; ".join(parts)
    if CALIBRATED_ON in model.training:
        what = f"calibrated since, on {summary['samples']:,} inputs: {what}"
    elif summary["samples"]:
        what = f"{summary['samples']:,} training inputs set aside for calibration: {what}"
    typer.echo(what, err=True)


def _print_result(path: Path, model: TrainedModel, test: LabelledData, prediction: Prediction) -> None:
    """What the weights in the file reach on data that had no part in the training."""
    from nescio.metrics import summary
    from nescio.reports._results import is_no_better_than_guessing

    labels = model.labels_of(test)
    figures = summary(prediction, labels)
    typer.echo(
        f"{path}: held-out accuracy {figures['accuracy']:.4f}, "
        f"mean uncertainty {figures['mean_uncertainty']:.3f}"
    )
    if is_no_better_than_guessing(figures["accuracy"], labels):
        typer.echo(
            "No better than guessing: on the held-out data, always giving the most frequent class could be "
            "as good"
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


def _with_what_was_fitted(path: Path, model: TrainedModel) -> TrainedModel:
    """With temperature, trust, rule and sets of a file of these very weights.

    A training with nothing left to do takes nothing away that was fitted since.
    """
    from nescio.inference._calibration import CALIBRATED_ON
    from nescio.inference.model import TrainedModel

    try:
        present = TrainedModel.load(path)
    except ModelFileError:
        return model  # none there, or what is there is of no use to anyone
    before, now = present.module.state_dict(), model.module.state_dict()
    same = before.keys() == now.keys() and all(before[name].equal(now[name].cpu()) for name in now)
    if not same or not (CALIBRATED_ON in present.training or _fitted_alike(present, model)):
        _say_what_is_lost(present, model)
        return model
    # Temperature and trust may be of a later `nescio calibrate`; rule and sets are about what they make.
    training = {**model.training}
    for said_of_posthoc in ("posthoc", CALIBRATED_ON):
        if said_of_posthoc in present.training:
            training[said_of_posthoc] = present.training[said_of_posthoc]
        else:
            training.pop(said_of_posthoc, None)
    return replace(
        model,
        posthoc=present.posthoc,
        rule=present.rule,
        sets=present.sets,
        training=training,
        calibrated_on=present.calibrated_on,
    )


def _say_what_is_lost(before: TrainedModel, now: TrainedModel) -> None:
    """What was fitted to what the model said before, and is not of the one that takes its place."""
    lost = []
    if before.posthoc is not None:
        kept = () if now.posthoc is None else now.posthoc.parts()
        lost += [name for name in before.posthoc.parts() if name not in kept]
    if before.rule is not None:
        lost.append("rule")
    if before.sets is not None:
        lost.append("sets")
    if lost:
        typer.echo(f"Taken away, as the model says something else now: {', '.join(lost)}", err=True)


def _fitted_alike(one: TrainedModel, other: TrainedModel) -> bool:
    """Whether the same was fitted to two models of the same weights, but for another machine's rounding."""
    wanted = [model.training.get("posthoc", {}).get("wanted") for model in (one, other)]
    if one.posthoc is None or other.posthoc is None:
        return wanted[0] == wanted[1] and one.posthoc is other.posthoc
    return wanted[0] == wanted[1] and one.posthoc.is_fitted_like(other.posthoc)
