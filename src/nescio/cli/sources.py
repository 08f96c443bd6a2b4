"""What a command's DATA and FILES mean: catalog names, folders, files."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from nescio.errors import DataError, InputError, NescioWarning

if TYPE_CHECKING:
    from torch import Tensor

    from nescio.data import Dataset, Table
    from nescio.inference.model import TrainedModel

HELD_OUT = 0.2
WATCHED = 0.1
ARRAYS = (".npz", ".csv")


def is_path(name: str) -> bool:
    """Whether DATA is a folder or a file, which a data set's name never is; an error where it is neither."""
    from nescio.data.catalog import in_catalog

    if in_catalog(name):
        return False
    if not Path(name).exists():
        raise InputError(
            f"there is no data set {name!r}, nor a folder or file of that name; "
            "nescio data list names the data sets"
        )
    return True


def open_pair(
    name: str, data_dir: Path | None, size: int | None, seed: int
) -> tuple[Dataset | Table, Dataset | Table]:
    """Training and held-out part: the two splits of a catalog name, or a fifth of your own data held out."""
    from nescio.data import from_path, load

    if not is_path(name):
        if size is not None:
            raise InputError(f"--size goes with a folder of pictures, not with {name}")
        return load(name, data_dir=data_dir), load(name, "test", data_dir=data_dir)
    whole = from_path(name, size=size)
    found = [whole.classes[label] for label in set(whole.labels.tolist())]
    if len(found) < 2:
        raise DataError(
            f"{name}: labels must be of two or more classes, got {', '.join(found) or 'none'} only"
        )
    return split(whole, HELD_OUT, seed)


def split(data: Dataset | Table, share: float, seed: int) -> tuple[Dataset | Table, Dataset | Table]:
    """The data without a share of it, and that share: by chance, of every class alike.

    The first part keeps one sample or more of each class: what is held out is never all there is of one.
    """
    import torch

    count = int(len(data) * share)
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(seed))
    order = order[data.labels[order].argsort(stable=True)]
    first = data.labels[order].diff(prepend=torch.tensor([-1])) != 0
    spare = order[~first]
    if not 1 <= count <= len(spare):
        raise DataError(f"{data.name} has {len(data)} samples, too few to hold {share:.0%} of them out")
    held_out = torch.zeros(len(data), dtype=torch.bool)
    held_out[spare[(2 * torch.arange(count) + 1) * len(spare) // (2 * count)]] = True  # evenly spread
    return data.take(~held_out), data.take(held_out)


def open_for(model: TrainedModel, name: str, data_dir: Path | None) -> Dataset | Table:
    """Data to test a model on: the test split of a catalog name, or your own, in the model's size."""
    from nescio.data import from_path, load

    if not is_path(name):
        return load(name, "test", data_dir=data_dir)
    if Path(name).is_dir() and len(model.input_shape) == 3:
        return from_path(name, size=model.input_shape[1:])
    return from_path(name)


def read_files(model: TrainedModel, files: list[Path]) -> tuple[list[str], Tensor]:
    """Pictures, folders of them, and the rows of .npz and .csv files, as inputs of the model with names."""
    import torch

    names: list[str] = []
    parts: list[Tensor] = []
    for file in files:
        if not file.exists():
            raise InputError(f"there is no file {file}")
        if file.suffix.lower() in ARRAYS and not file.is_dir():
            rows = _read_rows(model, file)
            names += [f"{file}:{number}" for number in range(1, len(rows) + 1)]
            parts.append(rows)
        else:
            found = _read_pictures(model, _pictures(file), in_folder=file.is_dir())
            names += [str(path) for path in found]
            parts.append(torch.stack(list(found.values())))
    return names, torch.cat(parts)


def _read_rows(model: TrainedModel, file: Path) -> Tensor:
    """(N, ...) from a file of many inputs."""
    from nescio.data._user_data import inputs_from_csv, inputs_from_npz

    shape = model.input_shape
    if file.suffix.lower() == ".npz":
        rows = inputs_from_npz(file)
    elif len(shape) == 1:
        rows = inputs_from_csv(file, shape[0])
    else:
        raise InputError(f"this model takes pictures, and {file} holds rows of numbers")
    if tuple(rows.shape[1:]) != shape or len(rows) == 0:
        raise InputError(
            f"{file} must hold inputs of shape (N, {', '.join(map(str, shape))}), got {tuple(rows.shape)}"
        )
    return rows


def _pictures(file: Path) -> list[Path]:
    """The file itself, or all pictures in a folder."""
    from nescio.data._pictures import SUFFIXES

    if not file.is_dir():
        return [file]
    inside = sorted(path for path in file.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not inside:
        raise DataError(f"{file} holds no picture")
    return inside


def _read_pictures(model: TrainedModel, paths: list[Path], in_folder: bool) -> dict[Path, Tensor]:
    """uint8 (C, H, W) each, in the model's own size; in a folder, what is none is passed over."""
    from nescio.data._pictures import read_picture

    if len(model.input_shape) != 3:
        raise InputError(f"this model takes rows of numbers, from .csv or .npz files, got {paths[0]}")
    channels, height, width = model.input_shape
    found = {}
    for path in paths:
        try:
            found[path] = read_picture(path, channels, (height, width))
        except DataError as error:
            if not in_folder:
                raise
            warnings.warn(f"{path} is passed over: {error}", NescioWarning, stacklevel=2)
    if not found:
        raise DataError(f"{paths[0].parent} holds no picture that can be read")
    return found
