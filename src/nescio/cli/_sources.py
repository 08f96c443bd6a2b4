"""What a command's DATA means: a name of the catalog, a folder, a file, or a source of another package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nescio.errors import DataError, NescioWarning

if TYPE_CHECKING:
    from torch import Tensor

    from nescio.data import Dataset, Source, StoredArray, Table, Texts
    from nescio.inference.model import TrainedModel

HELD_OUT = 0.2
WATCHED = 0.1
SAMPLES_PER_CLASS = 2  # of a table, at least and on average


def open_pair(
    name: str, data_dir: Path | None, size: int | None, seed: int, label: str | None = None
) -> tuple[Dataset | Table, Dataset | Table]:
    """Training and held-out part: the two splits of a catalog name, or a fifth of your own data held out."""
    from nescio.data import open_source, split
    from nescio.data._catalog import in_catalog
    from nescio.data.sources._tables import TableFile

    def opened(part: str | None) -> Source:
        return open_source(name, split=part, data_dir=data_dir, size=size, label=label)

    if in_catalog(name):
        return _numbers_of(opened("train").labelled()), _numbers_of(opened("test").labelled())
    source = opened(None)
    whole = _numbers_of(source.labelled())
    found = [whole.classes[index] for index in sorted(set(whole.labels.tolist()))]
    if len(found) < 2:
        only = ", ".join(found) or "none"
        raise DataError(f"{name}: labels must be of two or more classes, got {only} only")
    if isinstance(source, TableFile) and len(whole) < SAMPLES_PER_CLASS * len(found):
        raise DataError(
            f"{name}: the labels were taken from column {source.label_name}, which has {len(found)} "
            f"different values in {len(whole)} rows, as a measured number has and no class; name the column "
            "of the labels with --label"
        )
    return split(whole, HELD_OUT, seed)


def open_for(
    model: TrainedModel, name: str, data_dir: Path | None, label: str | None = None
) -> Dataset | Table:
    """Labelled data to test a model on: the test split of a catalog name, or your own."""
    from nescio.data import open_source

    return _numbers_of(open_source(name, data_dir=data_dir, label=label).labelled(model.preprocess))


def _numbers_of(data: Dataset | Table | Texts) -> Dataset | Table:
    from nescio.data import Texts

    if isinstance(data, Texts):
        raise DataError(f"{data.name} holds texts, where images or rows of numbers were expected")
    return data


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
