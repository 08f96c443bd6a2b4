"""What a command's DATA means: a name of the catalog, a folder, a file, or a source of another package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from nescio.errors import DataError, InputError, NescioWarning

if TYPE_CHECKING:
    from torch import Tensor

    from nescio.data import LabelledData, Source, StoredArray
    from nescio.inference._choice import Choice
    from nescio.inference.model import TrainedModel


HELD_OUT = 0.2
HELD_OUT_NAME = "held-out"  # what --data calls the part that `train` held out
WATCHED = 0.1
_HOW_OPENED = ("label", "drop", "text", "group")  # options of `train` that the held-out part is found by
SAMPLES_PER_CLASS = 2  # of a table, at least and on average
LEAST_TOLD_APART = 10  # rows from which on so many classes are no classes


class Opened(NamedTuple):
    """What is trained on, what is held out, and which network was chosen for it."""

    train: LabelledData
    held_out: LabelledData
    choice: Choice


def open_to_train(
    name: str,
    seed: int,
    encoder: tuple[str | None, dict[str, Any]] = (None, {}),
    fine_tune: bool = False,
    size: int | None = None,
    **options: Any,
) -> Opened:
    """Training and held-out part: the two splits of a catalog name, or a fifth of your own data held out.

    Pictures are read in the size that suits the encoder. options: as for `open_source`.
    """
    from nescio.data import open_source, split
    from nescio.data._catalog import in_catalog
    from nescio.data._labels import require_two_classes
    from nescio.data.sources._pictures import PictureSource
    from nescio.data.sources._tables import TableFile
    from nescio.inference._choice import choose_network

    kind, fields = encoder
    if in_catalog(name):
        train = open_source(name, split="train", size=size, **options).labelled()
        test = open_source(name, split="test", size=size, **options).labelled()
        return Opened(train, test, choose_network(train, kind, fine_tune, fields=fields))
    source = open_source(name, size=size, **options)
    if isinstance(source, PictureSource):
        if len(source) == 0:
            source.labelled()  # which says what is missing
        if source.labels is not None:  # before all pictures are decoded
            require_two_classes(name, source.labels.indices, source.labels.classes)
        choice = choose_network(source, kind, fine_tune, size, fields)
        pictures = source.labelled(choice.preprocess)
        whole: LabelledData = pictures
        if choice.preprocess is None:
            height, width = pictures.images.shape[2:]
            choice = replace(choice, reason=f"{choice.reason}, brought to {height} x {width}")
    else:
        whole = source.labelled()
        label_column = source.label_name if isinstance(source, TableFile) else None
        choice = choose_network(whole, kind, fine_tune, fields=fields, label_column=label_column)
    _require_classes(name, source, whole)
    train, held_out = split(whole, HELD_OUT, seed)
    return Opened(train, held_out, choice)


def _require_classes(name: str, source: Source, whole: LabelledData) -> None:
    """Refuse labels that are of one class only, or no classes at all."""
    from nescio.data._labels import require_two_classes
    from nescio.data.sources._tables import TableFile

    require_two_classes(name, whole.labels, whole.classes)
    num_found = len(set(whole.labels.tolist()))
    is_measured = LEAST_TOLD_APART <= len(whole) < SAMPLES_PER_CLASS * num_found
    if isinstance(source, TableFile) and is_measured:
        raise DataError(
            f"{name}: the labels were taken from column {source.label_name}, which has {num_found} "
            f"different values in {len(whole)} rows, as a measured number has and no class; name the column "
            "of the labels with --label"
        )


def open_for(model: TrainedModel, name: str, data_dir: Path | None, label: str | None = None) -> LabelledData:
    """Labelled data to test a model on: the test split of a catalog name, or your own.

    The labels of a table are in the column in which they were in training, unless another is named.
    """
    from nescio.data import open_source
    from nescio.data.preprocess import TextPreprocess
    from nescio.data.sources._tables import TableFile

    source = open_source(name, data_dir=data_dir, label=label)
    # What rows become says itself where the labels were.
    if isinstance(source, TableFile) and isinstance(model.preprocess, TextPreprocess):
        made = model.training.get("held_out") or {}
        label = made.get("label_column") or made.get("label")  # files from before have the option alone
        source = source.with_label_of_training(label, (model.preprocess.column,))
    return source.labelled(model.preprocess)


def open_training(
    model: TrainedModel, name: str, data_dir: Path | None, label: str | None = None
) -> LabelledData:
    """What a model was trained on: a catalog name's training split, or your own without what was held out.

    A copy of your own data under another name is known by what would be held out of it.
    """
    from nescio.data import open_source
    from nescio.data._catalog import in_catalog

    if in_catalog(name):
        return open_source(name, split="train", data_dir=data_dir).labelled(model.preprocess)
    made = model.training.get("held_out")
    if made is None:
        return open_for(model, name, data_dir, label)
    if Path(made["data"]).resolve() == Path(name).resolve():
        trained_on, _ = _split_again(model, made, data_dir)
        return trained_on
    try:
        trained_on, held_out = _split_again(model, {**made, "data": name}, data_dir)
        if held_out_digest(model, held_out) == made["sha256"]:
            return trained_on
    except (DataError, InputError):
        pass  # no copy: it has other columns, or can't be split so
    return open_for(model, name, data_dir, label)


def open_held_out(model: TrainedModel, data_dir: Path | None) -> LabelledData:
    """The part of the data that `train` held out, found again by what the model file says of it."""
    from nescio.data import open_source
    from nescio.data._catalog import in_catalog

    made = model.training.get("held_out")
    if made is None:
        raise DataError(
            f"{HELD_OUT_NAME} is not known: the model file does not say what was held out, as those of "
            "`nescio train` do. Give data that the model was not trained on"
        )
    place = made["data"]
    if not in_catalog(place) and not Path(place).exists():
        raise DataError(
            f"{HELD_OUT_NAME} was a part of {place}, which is not here; call it from the folder in which "
            "`nescio train` was called, or give other data that the model was not trained on"
        )
    if in_catalog(place):
        options = {name: made[name] for name in _HOW_OPENED}
        part = open_source(place, split="test", data_dir=data_dir, **options).labelled(model.preprocess)
    else:
        _, part = _split_again(model, made, data_dir)
    if held_out_digest(model, part) != made["sha256"]:
        raise DataError(
            f"{HELD_OUT_NAME} can't be had again: {place} has changed since the training. Give other data "
            "that the model was not trained on"
        )
    return part


def _split_again(
    model: TrainedModel, made: Mapping[str, Any], data_dir: Path | None
) -> tuple[LabelledData, LabelledData]:
    """The user's own data in two as `train` split them: what was trained on, and what was held out.

    made: what the model file says of it.
    """
    from nescio.data import open_source, split

    options = {name: made[name] for name in _HOW_OPENED}
    whole = open_source(made["data"], data_dir=data_dir, **options).labelled(model.preprocess)
    return split(whole, made["share"], made["seed"])


def held_out_digest(model: TrainedModel, part: LabelledData) -> str:
    """What tells held-out data from any other, as the model takes it."""
    from nescio.inference._train import digest_of, samples_of

    return digest_of(samples_of(model, part))


def open_unseen(
    model: TrainedModel, name: str, data_dir: Path | None, label: str | None = None
) -> LabelledData:
    """Labelled data that had no part in the training: what `train` held out, or others that are not known."""
    if name == HELD_OUT_NAME and not Path(name).exists():
        return open_held_out(model, data_dir)
    data = open_for(model, name, data_dir, label)
    inputs = model.preprocess.inputs_of(data)
    if model.seen is not None and model.seen.are_seen(inputs):
        raise DataError(
            f"{name}: {model.seen.share_of(inputs):.0%} of these data were trained on, and what is fitted to "
            f"them or promised by them would not hold for others. Give other data, or --data {HELD_OUT_NAME} "
            "for the part that `nescio train` held out"
        )
    warn_of_seen(model, inputs, name)
    return data


def open_for_promise(
    model: TrainedModel, name: str, data_dir: Path | None, label: str | None = None
) -> LabelledData:
    """Labelled data to make a promise from, which had no part in what the model says."""
    data = open_unseen(model, name, data_dir, label)
    if model.was_calibrated_on(data):
        raise DataError(
            f"{name}: temperature and trust of the model were fitted to these data, or to a part of them, "
            "and no promise made from them would hold. Give other data that the model was not trained on"
        )
    _warn_of_promise(model, data, name)
    return data


def _warn_of_promise(model: TrainedModel, data: LabelledData, name: str) -> None:
    """Say where held-out data may not be new inputs: copies of one another, or without some classes."""
    import warnings

    from nescio.inference._seen import LARGEST_SHARE, share_repeated
    from nescio.inference._train import absent_classes, labels_among

    repeated = share_repeated(model.preprocess.inputs_of(data))
    # As many as in the training data may be equal without being copies.
    usual = 0.0 if model.seen is None else model.seen.chance
    if repeated > usual + LARGEST_SHARE:
        warnings.warn(
            f"{name}: {repeated:.0%} of the inputs are equal to another one. A promise counts each as a new "
            "one: if they are copies, leave them out",
            NescioWarning,
            stacklevel=3,
        )
    absent = absent_classes(model.classes, labels_among(model.classes, data))
    if absent is not None:
        message = f"{name}: {absent}; the promise is about inputs like these"
        warnings.warn(message, NescioWarning, stacklevel=3)


def warn_of_calibrated(model: TrainedModel, data: LabelledData, name: str) -> None:
    """Say where temperature and trust were fitted to these data, or to a part of them."""
    import warnings

    if model.was_calibrated_on(data):
        warnings.warn(
            f"{name}: temperature and trust of the model were fitted to these data, or to a part of them; "
            "what is measured on them is a little too good",
            NescioWarning,
            stacklevel=2,
        )


def warn_of_seen(model: TrainedModel, inputs: Tensor | StoredArray, name: str) -> None:
    """Say how much of some data the model was trained on, if that is more than chance."""
    import warnings

    share = 0.0 if model.seen is None else model.seen.share_of(inputs)
    if share > 0:
        warnings.warn(
            f"{name}: {share:.1%} of these data were trained on; what is measured on them is too good",
            NescioWarning,
            stacklevel=2,
        )


def open_inputs(model: TrainedModel, name: str, data_dir: Path | None) -> Tensor | StoredArray:
    """Inputs for a model (N, ...), labelled or not; what can't be read is passed over with a warning."""
    import warnings

    from nescio.data import open_source

    source = open_source(name, data_dir=data_dir)
    prepared = source.prepared(model.preprocess)
    missing = len(prepared.unreadable)
    if missing:
        last, reason = list(prepared.unreadable.items())[-1]
        message = f"{missing} of {len(source)} inputs of {name} can't be read and are passed over"
        warnings.warn(f"{message}; the last: {last}: {reason}", NescioWarning, stacklevel=2)
    return prepared.inputs
