"""from_torch: what a PyTorch program has already, a data set, a loader or batches, as data to train on."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, RandomSampler
from torch.utils.data import Dataset as TorchDataset

from nescio._checks import listed
from nescio._fetch.progress import say
from nescio._fetch.store import cache_dir
from nescio.data._labels import counted
from nescio.data._row_writer import StoredArrayWriter, read_notes
from nescio.data._stored import StoredArray, is_resident, stored_once
from nescio.data.dataset import Dataset, LabelledData, Table, Texts
from nescio.errors import DataError, InputError

CHANNELS = (1, 3)  # of an image: grey, or colour
AT_ONCE = 64  # samples that are read one by one are put together to so many
INPUT_NAMES = ("input", "inputs", "image", "images", "pixel_values", "x", "features", "text")
LABEL_NAMES = ("label", "labels", "target", "targets", "class", "y")

Label = int | str


class _Batch(NamedTuple):
    """Some samples: inputs (B, ...), or texts, with their labels."""

    inputs: Tensor | list[str]
    labels: list[Label]


def from_torch(
    data: TorchDataset[Any] | DataLoader[Any] | Iterable[Any],
    *,
    classes: Sequence[str] | None = None,
    name: str = "data",
    fingerprint: str | None = None,
) -> LabelledData:
    """Take over data of a PyTorch program: every sample is read once; many are kept on the disk.

    A sample is a pair of an input and its label, or a dictionary of both. Inputs are images (bytes, or
    numbers as they are), PIL pictures, rows of numbers, or texts, all of one shape. What a transform draws by
    chance is drawn once: leave augmentation to the training.

    Args:
        data: A data set with a length, one to iterate over, a DataLoader, or batches (inputs, labels). A
            loader that shuffles is read in the order of its data set.
        classes: Names of the classes in the order of their numbers. Default: the data set's own `classes`,
            else the labels themselves.
        name: Name of the data, for messages.
        fingerprint: A text of your own that is another one whenever the data is. With it, what was kept of
            large data is used again the next time; without, it is removed when it is no longer used.

    Returns:
        A Dataset of images, a Table of rows, or Texts.

    Raises:
        DataError: If samples are no pairs, differ in shape, or have labels that are none.
        InputError: If data is nothing that can be read, or classes do not fit the labels.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> from_torch(TensorDataset(torch.eye(4), torch.tensor([0, 1, 1, 0])), name="four rows")
        Table('four rows', 4 rows x 4, 2 classes)
        >>> batches = [(torch.zeros(2, 1, 8, 8), ["cat", "dog"]), (torch.ones(1, 1, 8, 8), ["cat"])]
        >>> from_torch(batches, name="batches").classes
        ('cat', 'dog')
    """
    path = None
    if fingerprint is not None:
        key = hashlib.sha256(f"torch\0{name}\0{fingerprint}".encode()).hexdigest()
        path = cache_dir() / "inputs" / f"{key}.npy"
        if path.is_file():
            known = read_notes(path)["labels"]
            return _as_data(name, StoredArray.open(path, path.name), known, data, classes)
    batches = _checked(name, _batches_of(data))
    few: list[_Batch] = []
    few_labels: list[Label] = []
    nbytes = 0
    for batch in batches:
        few.append(batch)
        few_labels += batch.labels
        if isinstance(batch.inputs, Tensor):
            nbytes += batch.inputs.nbytes
        if not is_resident(nbytes):
            many = chain(few, batches)
            inputs, labels = _stored(many, few[0], path)
            return _as_data(name, inputs, labels, data, classes)
    if not few:
        raise DataError(f"{name} holds no samples")
    return _as_data(name, _together(few), few_labels, data, classes)


def _stored(batches: Iterable[_Batch], first: _Batch, path: Any) -> tuple[StoredArray, list[Label]]:
    """All inputs in a file, and their labels; a file without a name of its own is removed when unused."""
    assert isinstance(first.inputs, Tensor)
    is_kept = path is not None
    if not is_kept:
        path = cache_dir() / "inputs" / f"{uuid.uuid4().hex}.npy"

    def fill(writer: StoredArrayWriter) -> None:
        writer.restart()  # what cannot be read from the middle is read anew
        labels: list[Label] = []
        for batch in batches:
            assert isinstance(batch.inputs, Tensor)
            labels += batch.labels
            writer.append(batch.inputs)
        writer.notes["labels"] = labels

    stored = stored_once(path, first.inputs.shape[1:], first.inputs.dtype, fill, _tell_who_reads)
    labels = read_notes(path)["labels"]
    if not is_kept:
        stored = StoredArray.open(path, is_temporary=True)
    return stored, labels


def _as_data(
    name: str,
    inputs: Tensor | StoredArray | tuple[str, ...],
    labels: list[Label],
    data: object,
    classes: Sequence[str] | None,
) -> LabelledData:
    indices, names = _counted_labels(name, labels, classes, _own_classes(data))
    if isinstance(inputs, tuple):
        return Texts(inputs, indices, names, name)
    if inputs.ndim == 4:
        return Dataset(inputs, indices, names, name)
    return Table(inputs, indices, names, name)


def _counted_labels(
    name: str, labels: list[Label], given: Sequence[str] | None, own: Sequence[str] | None
) -> tuple[Tensor, tuple[str, ...]]:
    """Labels counted from 0 (N,), and the names of the classes."""
    classes = given if given is not None else own
    if classes is None:
        return counted(name, labels)
    names = tuple(str(one) for one in classes)
    numbers = [label for label in labels if isinstance(label, int)]
    if len(numbers) == len(labels):
        least = min(numbers)
        most = max(numbers)
        if least >= 0 and most < len(names):
            return torch.tensor(numbers), names
        if given is None:  # what the data set calls its classes is something else
            return counted(name, labels)
        raise InputError(f"classes must name the labels {least} to {most}, got {len(names)} names")
    unknown = sorted({str(label) for label in labels} - set(names))
    if unknown:
        if given is None:
            return counted(name, labels)
        raise InputError(f"classes must hold every label, they lack {listed(unknown)}")
    position = {one: index for index, one in enumerate(names)}
    return torch.tensor([position[str(label)] for label in labels]), names


def _own_classes(data: object) -> Sequence[str] | None:
    """What a data set calls its classes, also below a loader or a subset."""
    while data is not None:
        classes = getattr(data, "classes", None)
        if isinstance(classes, list | tuple) and all(isinstance(one, str) for one in classes):
            return classes
        data = getattr(data, "dataset", None)
    return None


def _batches_of(data: Any) -> Iterator[Any]:
    """Batches (inputs, labels) as they come."""
    has_samples = hasattr(data, "__getitem__") and hasattr(data, "__len__")
    if isinstance(data, str | bytes | Mapping) or not (has_samples or isinstance(data, Iterable)):
        raise InputError(f"data must be a data set, a loader or batches, got {type(data).__name__}")
    if isinstance(data, DataLoader):
        yield from _in_order(data)
    elif isinstance(data, IterableDataset):
        yield from _put_together(iter(data))
    elif has_samples and not isinstance(data, list | tuple):
        yield from _put_together(data[index] for index in range(len(data)))
    else:
        yield from data


def _in_order(loader: DataLoader[Any]) -> Iterable[Any]:
    """A loader that reads in the order of its data set: the same data has the same fingerprint every time."""
    sampler = loader.sampler
    if loader.batch_size is None or not isinstance(sampler, RandomSampler) or sampler.replacement:
        return loader
    return DataLoader(
        loader.dataset,
        loader.batch_size,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
    )


def _put_together(samples: Iterable[Any]) -> Iterator[tuple[list[Any], list[Any]]]:
    inputs: list[Any] = []
    labels: list[Any] = []
    for sample in samples:
        value, label = _pair(sample)
        inputs.append(value)
        labels.append(label)
        if len(inputs) == AT_ONCE:
            yield inputs, labels
            inputs = []
            labels = []
    if inputs:
        yield inputs, labels


def _pair(sample: Any) -> tuple[Any, Any]:
    """Input and label of a sample or a batch."""
    if isinstance(sample, Mapping):
        inputs = [name for name in INPUT_NAMES if name in sample]
        labels = [name for name in LABEL_NAMES if name in sample]
        if inputs and labels:
            return sample[inputs[0]], sample[labels[0]]
        raise DataError(
            f"a sample must have an input ({', '.join(INPUT_NAMES[:4])}, ...) and a label "
            f"({', '.join(LABEL_NAMES[:4])}, ...), got {', '.join(map(str, sample))}"
        )
    if isinstance(sample, list | tuple) and len(sample) == 2:
        return sample[0], sample[1]
    raise DataError(f"a sample must be a pair of an input and a label, got {_in_words(sample)}")


def _checked(name: str, batches: Iterator[Any]) -> Iterator[_Batch]:
    """Every batch in the form of the first one."""
    shape: tuple[int, ...] | None = None
    dtype: torch.dtype | None = None
    done = 0
    for batch in batches:
        values, labels = _pair(batch)
        inputs = _as_inputs(values, f"{name}, samples {done + 1} and on")
        named = _as_labels(labels, f"{name}, samples {done + 1} and on")
        if len(inputs) != len(named):
            raise DataError(f"{name}, samples {done + 1} and on: {len(inputs)} inputs, {len(named)} labels")
        if isinstance(inputs, Tensor):
            form = (tuple(inputs.shape[1:]), inputs.dtype)
            if shape is None:
                shape, dtype = form
            if form != (shape, dtype):
                raise DataError(
                    f"{name}, samples {done + 1} and on: inputs must be {dtype} {shape} like the first, "
                    f"got {form[1]} {form[0]}; bring them to one size in the transform"
                )
        elif shape is not None:
            raise DataError(f"{name}, samples {done + 1} and on: texts among numbers")
        done += len(inputs)
        if len(inputs):
            yield _Batch(inputs, named)


def _as_inputs(values: Any, where: str) -> Tensor | list[str]:
    """Images (B, C, H, W) or rows (B, F), as bytes or in float32; or texts."""
    if isinstance(values, list | tuple):
        if values and all(isinstance(value, str) for value in values):
            return list(values)
        tensors = [_as_image_or_row(value, where) for value in values]
        shapes = {tuple(tensor.shape) for tensor in tensors}
        if len(shapes) > 1:
            found = " and ".join(str(shape) for shape in sorted(shapes)[:2])
            raise DataError(f"{where}: inputs must be of one shape, got {found}; resize them in a transform")
        batch = torch.stack(tensors)
    else:
        batch = _as_tensor(values, where)
    if batch.ndim == 3:
        batch = batch.unsqueeze(1)  # (B, H, W) -> (B, 1, H, W)
    if batch.ndim not in (2, 4):
        raise DataError(f"{where}: inputs must be images or rows of numbers, got {tuple(batch.shape)}")
    if batch.dtype == torch.uint8 and batch.ndim == 4:
        return batch
    return batch.float()


def _as_image_or_row(value: Any, where: str) -> Tensor:
    """One input; of a picture the channels are brought to the front."""
    if isinstance(value, Image.Image):
        pixels = np.asarray(value if value.mode in ("L", "RGB") else value.convert("RGB"))
        return torch.from_numpy(pixels.reshape(*pixels.shape[:2], -1).transpose(2, 0, 1).copy())
    tensor = _as_tensor(value, where)
    if isinstance(value, np.ndarray) and tensor.ndim == 3:
        first, _, last = value.shape
        if last in CHANNELS and first not in CHANNELS:
            return tensor.permute(2, 0, 1)
    return tensor


def _as_tensor(value: Any, where: str) -> Tensor:
    try:
        tensor = value if isinstance(value, Tensor) else torch.as_tensor(np.asarray(value))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{where}: an input must be numbers, a picture or a text, got {_in_words(value)}"
        ) from error
    return tensor.detach().cpu()


def _as_labels(labels: Any, where: str) -> list[Label]:
    values = labels.tolist() if isinstance(labels, Tensor | np.ndarray) else labels
    if not isinstance(values, list | tuple):
        raise DataError(f"{where}: labels must be one for each input, got {_in_words(labels)}")
    found: list[Label] = []
    for value in values:
        plain = value.item() if isinstance(value, Tensor | np.generic) and value.ndim == 0 else value
        if isinstance(plain, bool):
            plain = int(plain)
        if not isinstance(plain, int | str):
            raise DataError(f"{where}: a label must be a whole number or a name, got {_in_words(value)}")
        found.append(plain)
    return found


def _in_words(value: object) -> str:
    if isinstance(value, Tensor | np.ndarray):
        return f"{value.dtype} {tuple(value.shape)}"
    return f"{value!r:.50}" if isinstance(value, int | float | str) else type(value).__name__


def _together(batches: Sequence[_Batch]) -> Tensor | tuple[str, ...]:
    tensors = []
    texts: list[str] = []
    for batch in batches:
        if isinstance(batch.inputs, Tensor):
            tensors.append(batch.inputs)
        else:
            texts += batch.inputs
    if texts and tensors:
        raise DataError("inputs must be texts or numbers, got both")
    return tuple(texts) if texts else torch.cat(tensors)


def _tell_who_reads(who: str) -> None:
    say(f"{who} is reading this data; waiting")
