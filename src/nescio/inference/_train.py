"""The steps of `TrainedModel.train`: check the data, compute features, train, calibrate, describe the run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio._checks import listed
from nescio._files import digest
from nescio.data import Dataset, LabelledData, Preprocess, Source, Table, Texts
from nescio.encoders import EncoderSpec, spec_to_dict
from nescio.errors import DataError, InputError, NescioWarning
from nescio.inference._calibration import CALIBRATED_ON, calibrate, summary_of
from nescio.inference._choice import Choice
from nescio.inference._cross_fit import Retraining
from nescio.inference._frozen import OnEncoding, encoded_data, pretrained_encoder
from nescio.inference._seen import LARGEST_SHARE, SeenSamples
from nescio.methods import EDL, Method, make_method, method_to_dict
from nescio.posthoc.state import Posthoc
from nescio.training import Run, Samples, TrainingSettings, fit
from nescio.training.loggers import Logger

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel


def as_method(method: Method | str | None) -> Method:
    """A method by its name, or the default."""
    if method is None:
        return EDL()
    if isinstance(method, str):
        return make_method(method)
    return method


def resolved_settings(
    settings: TrainingSettings,
    data: LabelledData,
    count: int,
    method: Method,
    choice: Choice,
    fine_tune: bool,
) -> TrainingSettings:
    """The settings with a value for all that was left open, by data, method and network.

    count: of samples, by which epochs and the like are chosen.
    """
    is_rows = isinstance(data, Table)
    # A module of the user's own may have parameters that are not to shrink.
    is_own = isinstance(choice.network, nn.Module)
    return settings.resolved(
        count,
        fine_tuned=fine_tune,
        rows=is_rows,
        head_classes=len(data.classes) if choice.is_frozen else None,
        with_weight_decay=is_rows and method.uses_weight_decay and not is_own,
    )


def check_data(data: LabelledData, settings: TrainingSettings, is_frozen: bool) -> None:
    """Refuse data with fewer than two classes present, and settings that do not fit the data.

    is_frozen: whether it gets the features of a frozen encoder instead.
    """
    present = int((data.labels.bincount() > 0).sum())
    if present < 2:
        raise DataError(f"{data.name} has samples of {present} class; a classifier needs two or more")
    weights = settings.class_weight
    if weights is not None and not isinstance(weights, str) and len(weights) != len(data.classes):
        count = len(data.classes)
        raise InputError(f"class_weight must have a number for each of {count} classes, got {len(weights)}")
    chosen = " and ".join(settings.images_only)
    if chosen and not isinstance(data, Dataset):
        raise InputError(f"{chosen}: for images, not for {data.kind.value}")
    if chosen and is_frozen:
        raise InputError(
            f"{chosen}: for networks that are trained on images; here a head is trained on features, which "
            "are computed once from the images as they are. Fine-tune the encoder (--fine-tune), or choose a "
            "network that is trained from the start (--encoder)"
        )


def _check_held_out(held_out: LabelledData, data: LabelledData) -> None:
    """Refuse held-out data of another kind, or with inputs of another shape, than the training data."""
    if held_out.kind is not data.kind:
        raise DataError(
            f"held_out must hold {data.kind.value} like the training data, got {held_out.kind.value}"
        )
    if isinstance(data, Texts) or isinstance(held_out, Texts):
        return
    expected = tuple(data.inputs.shape[1:])
    found = tuple(held_out.inputs.shape[1:])
    if found != expected:
        raise DataError(f"held_out must have inputs {expected} like the training data, got {found}")


def split_off(data: LabelledData, set_aside: Tensor | None) -> tuple[LabelledData, LabelledData | None]:
    """What is trained on, and what is set aside for calibration; None for nothing."""
    if set_aside is None:
        return data, None
    return data.take(~set_aside), data.take(set_aside)


@dataclass(frozen=True)
class EncodedData:
    """Training and held-out data as the features of a pretrained encoder, and what made them."""

    spec: EncoderSpec
    module: nn.Module
    preprocess: Preprocess
    train: Table
    held_out: Table | None

    @classmethod
    def of(
        cls,
        data: LabelledData,
        held_out: LabelledData | Source | None,
        choice: Choice,
        on_encoding: OnEncoding | None,
    ) -> EncodedData:
        """Compute the features, or find them in the cache."""
        assert choice.spec is not None
        assert choice.preprocess is not None
        if isinstance(held_out, Source):
            held_out = held_out.labelled(choice.preprocess)
        if held_out is not None:
            _check_held_out(held_out, data)
        module = pretrained_encoder(choice.spec)
        parts = []
        for part in (data, held_out):
            if part is not None:
                parts.append(encoded_data(choice.spec, module, choice.preprocess, part, on_encoding))
        watched = parts[1] if held_out is not None else None
        return cls(choice.spec, module, choice.preprocess, parts[0], watched)


def train_network(
    model: TrainedModel,
    data: LabelledData,
    settings: TrainingSettings,
    held_out: LabelledData | Source | None,
    run_dir: str | Path | None,
    report: Callable[[dict[str, float]], None] | None,
    encoder: EncoderSpec | None = None,
    log: Sequence[Logger] = (),
    posthoc: str = "none",
) -> TrainedModel:
    """Train the network of a model on data.

    encoder: what made features of the data, where they are features. posthoc: for what samples were set
    aside, which the folder of the run keeps, to name it where a later training sets others aside.
    """
    watched = None
    if isinstance(held_out, Source):
        held_out = held_out.labelled(model.preprocess)
    if held_out is not None:
        _check_held_out(held_out, data)
        watched = samples_of(model, held_out)
    samples = samples_of(model, data)
    description = _describe_run(model, settings, data, samples, watched, encoder)
    run = None
    if run_dir is not None:
        run = Run(run_dir, {"posthoc": posthoc, **description})
    history = fit(
        model.method,
        model.module,
        model.preprocess,
        samples,
        settings,
        held_out=watched,
        run=run,
        report=report,
        log=log,
    )
    training = {**description, "last": history[-1], "history": history}
    if settings.patience is not None and model.method.trainings == 1:
        # Of a run that was lengthened, only some earlier epochs have a loss that compares.
        compared = [metrics for metrics in history if "held_out_loss" in metrics]
        training["best"] = min(compared, key=lambda metrics: metrics["held_out_loss"])
    return replace(model, training=training)


def _describe_run(
    model: TrainedModel,
    settings: TrainingSettings,
    data: LabelledData,
    samples: Samples,
    watched: Samples | None,
    encoder: EncoderSpec | None,
) -> dict[str, Any]:
    """Say what a training depends on, as plain data: runs with the same description are the same run."""
    network: Any = repr(model.module)
    if model.network is not None:
        network = spec_to_dict(model.network)
    held_out_digest = None
    if watched is not None:
        held_out_digest = digest_of(watched)
    description = {
        "method": method_to_dict(model.method),
        "network": network,
        "settings": settings.to_dict(),
        "data": {"name": data.name, "samples": len(data), "classes": list(data.classes)},
        "sha256": {"train": digest_of(samples), "held_out": held_out_digest},
    }
    if encoder is not None:
        description["encoder"] = spec_to_dict(encoder)
    return description


def calibrated_after_training(
    model: TrainedModel,
    training: LabelledData,
    calibration: LabelledData | None,
    posthoc: str,
    is_encoded: bool = False,
    retraining: Retraining | None = None,
) -> TrainedModel:
    """Fit what was asked for to what was set aside; the summary of the training says what was done."""
    if posthoc == "none":
        return model
    held_out = None
    if calibration is not None:
        held_out = samples_of(model, calibration)
    seed = model.training["settings"]["seed"]
    fitted = calibrate(
        model,
        samples_of(model, training),
        held_out,
        posthoc,
        is_encoded=is_encoded,
        groups=training.groups,
        held_out_groups=None if calibration is None else calibration.groups,
        retraining=retraining,
        seed=seed,
    )
    summary = summary_of(fitted, held_out, posthoc)
    return replace(model, posthoc=fitted.posthoc, training={**model.training, "posthoc": summary})


def with_seen(
    model: TrainedModel, data: LabelledData, held_out: LabelledData | Source | None
) -> TrainedModel:
    """Keep digests of what the model was trained on."""
    new = None
    if held_out is not None and not isinstance(held_out, Source):
        new = model.preprocess.inputs_of(held_out)
    return replace(model, seen=SeenSamples.of(model.preprocess.inputs_of(data), new))


def samples_of(model: TrainedModel, data: LabelledData) -> Samples:
    """Make samples for the training loop, with labels that count the model's classes."""
    return Samples(model.preprocess.inputs_of(data), labels_among(model.classes, data))


def labels_among(classes: Sequence[str], data: LabelledData) -> Tensor:
    """Translate the labels of a data set (N,) to places among these classes."""
    unknown = [name for name in data.classes if name not in classes]
    if unknown:
        raise DataError(
            f"{data.name} has classes that the model never saw: {listed(unknown)}; leave them out, or "
            "give their inputs as OOD data"
        )
    return torch.tensor([classes.index(name) for name in data.classes])[data.labels]


def absent_classes(classes: Sequence[str], labels: Tensor) -> str | None:
    """In words, which classes no label (N,) is of; None where there are labels of all."""
    counts = labels.bincount(minlength=len(classes)).tolist()
    absent = [name for name, count in zip(classes, counts, strict=True) if count == 0]
    if not absent:
        return None
    return f"{len(absent)} of {len(classes)} classes are absent: {listed(absent)}"


def digest_of(samples: Samples) -> str:
    """Compute what tells samples, as a model takes them, from any others."""
    return digest({"inputs": samples.inputs, "labels": samples.labels})


def is_calibrated_on(model: TrainedModel, samples: Samples) -> bool:
    """Whether `calibrated` fitted temperature and trust of a model to these samples, or to a part of them."""
    if model.calibrated_on is not None and model.calibrated_on.are_seen(samples.inputs):
        return True
    # Where too many samples are equal to tell by them, all together do.
    return bool(model.training.get(CALIBRATED_ON) == digest_of(samples))


def warn_of_odd_calibration(
    model: TrainedModel, fitted: Posthoc, training: Samples, held_out: Samples
) -> None:
    """Say what makes it unlikely that a model was given the data that `calibrated` asks for."""
    absent = absent_classes(model.classes, held_out.labels)
    if absent is not None:
        _warn(f"the held-out data: {absent}; what is fitted is for inputs like these")
    if fitted.temperature is not None and fitted.temperature.is_at_bound:
        _warn(
            "the temperature is at its bound, as if the labels of the held-out data had little to do with "
            "their inputs: are they in the same order and units as those of training?"
        )
    seen = model.seen
    if fitted.trust is None or seen is None or seen.chance > LARGEST_SHARE:
        return
    if seen.share_of(training.inputs) == 0:
        _warn("the model was trained on none of the training data that were given: trust needs those")


def _warn(message: str) -> None:
    warnings.warn(message, NescioWarning, stacklevel=4)
