"""What a command's DATA and FILES mean: catalog names, folders, files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from evidentia.errors import DataError, InputError

if TYPE_CHECKING:
    import torch

    from evidentia.data import Dataset, Table
    from evidentia.model import TrainedModel

HELD_OUT = 0.2


def is_path(name: str) -> bool:
    """Whether DATA is a folder or a file; the name of a data set is one all the same."""
    from evidentia.data.catalog import in_catalog

    return not in_catalog(name) and Path(name).exists()


def open_pair(
    name: str, data_dir: Path | None, size: int | None, seed: int
) -> tuple[Dataset | Table, Dataset | Table]:
    """Training and held-out part: the two splits of a catalog name, or a fifth of your own data held out."""
    import torch

    from evidentia.data import from_path, load

    if not is_path(name):
        if size is not None:
            raise InputError(f"--size goes with a folder of pictures, not with {name}")
        return load(name, data_dir=data_dir), load(name, "test", data_dir=data_dir)
    whole = from_path(name, size=size) if size else from_path(name)
    order = torch.randperm(len(whole), generator=torch.Generator().manual_seed(seed))
    count = int(len(whole) * HELD_OUT)
    if count < 1:
        raise DataError(f"{name} has {len(whole)} samples; a training needs five or more")
    return whole.take(order[count:]), whole.take(order[:count])


def open_for(model: TrainedModel, name: str, data_dir: Path | None) -> Dataset | Table:
    """Data to test a model on: the test split of a catalog name, or your own, in the model's size."""
    from evidentia.data import from_path, load

    if not is_path(name):
        return load(name, "test", data_dir=data_dir)
    if Path(name).is_dir() and len(model.input_shape) == 3:
        return from_path(name, size=model.input_shape[1:])
    return from_path(name)


def read_files(model: TrainedModel, files: list[Path]) -> tuple[list[str], torch.Tensor]:
    """Pictures, or folders of them, as inputs of the model, with their names."""
    import torch

    from evidentia.data.pictures import SUFFIXES, read_picture

    if len(model.input_shape) != 3:
        raise InputError("this model takes rows of numbers; `evidentia predict` takes pictures")
    channels, height, width = model.input_shape
    paths = []
    for file in files:
        inside = (
            sorted(p for p in file.rglob("*") if p.suffix.lower() in SUFFIXES) if file.is_dir() else [file]
        )
        if not inside:
            raise DataError(f"{file} holds no picture")
        paths += inside
    pictures = [read_picture(path, channels, (height, width)) for path in paths]
    return [str(path) for path in paths], torch.stack(pictures)
