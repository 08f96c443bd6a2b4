"""Store: measurements as small JSON files, each under the digest of all that it depends on.

A file says first what was measured and trained, then the numbers and a digest of them, then where and when
they were made, which is no part of a digest. It is written in one step: a measurement with other settings
lies elsewhere. It is replaced in one case alone, where its network is gone and another one was trained with
the same settings: then all records of that training are made anew, so that they are of one network. What is
not there has not been measured.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from nescio._files import write_atomically
from nescio._hardware import processor_name
from nescio.errors import DataError
from nescio.studies.measurement import Measurement
from nescio.studies.plan import TrainingPlan, as_plain, digest_of

FORMAT = 3
PROVENANCE = "made"  # its key in files of this format
NUMBERS_DIGEST = "numbers_digest"
VERSIONS_OF = ("nescio", "torch", "numpy", "scikit-learn")
# What tells networks that were trained with the same settings apart, by its key in the provenance.
WEIGHTS = "weights"  # a digest of them
TRAINING_SECONDS = "training_seconds"  # for records from before digests of weights were kept


@dataclass(frozen=True)
class Record:
    """One measurement of one training.

    Args:
        measurement: The settings of the measurement.
        training: The description of the training.
        numbers: What was measured.
        provenance: Which experiment it was for, of which network, where it was made, and how long it took.
    """

    measurement: Mapping[str, Any]
    training: Mapping[str, Any]
    numbers: Mapping[str, Any]
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def file_name(self) -> str:
        """The name of the measurement and the digest of all that its numbers depend on."""
        return _file_name_of(self.measurement, self.training)


class Store:
    """A folder of records.

    Args:
        folder: Folder of the records; it need not exist yet.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, plan: TrainingPlan, measurement: Measurement) -> Path:
        """Where a measurement of a training is, or will be."""
        return self.folder / _file_name_of(measurement.settings(), plan.description())

    def has(self, plan: TrainingPlan, measurement: Measurement) -> bool:
        """Whether it is there."""
        return self.path(plan, measurement).exists()

    def read(self, plan: TrainingPlan, measurement: Measurement) -> Record | None:
        """The record, else that of a former version which may be read, or None where there is none.

        Raises:
            DataError: If the file is damaged or was edited.
        """
        path = self.path_to_read(plan, measurement)
        return None if path is None else _read_record(path)

    def path_to_read(self, plan: TrainingPlan, measurement: Measurement) -> Path | None:
        """Where the record is that `read` gives."""
        for version in (measurement.version, *measurement.former_versions):
            settings = measurement.settings() | {"version": version}
            path = self.folder / _file_name_of(settings, plan.description())
            if path.exists():
                return path
        return None

    def write(self, record: Record, replace: bool = False) -> Path:
        """Keep a record; one that is there already stays as it is. Gives its path.

        Args:
            record: What is kept.
            replace: Whether it takes the place of one that is there, which is of another network.
        """
        path = self.folder / record.file_name
        if replace or not path.exists():
            write_atomically(path, _to_json(record).encode())
        return path

    def paths(self) -> list[Path]:
        """All records that are there, by name."""
        return sorted(self.folder.glob("*.json"))


def of_other_network(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two measurements of one training are of two networks.

    By the digests of the weights, else by the seconds of the training; where one of them says neither, they
    count as being of the same.

    Args:
        one, other: The provenance of each.

    Example:
        >>> of_other_network({"weights": "a", "training_seconds": 1.0}, {"training_seconds": 2.0})
        True
    """
    for key in (WEIGHTS, TRAINING_SECONDS):
        if key in one and key in other:
            return bool(one[key] != other[key])
    return False


def of_several_networks(provenances: Sequence[Mapping[str, Any]]) -> bool:
    """Whether measurements of one training are of more than one network."""
    for place, one in enumerate(provenances):
        for other in provenances[:place]:
            if of_other_network(one, other):
                return True
    return False


def _file_name_of(measurement: Mapping[str, Any], training: Mapping[str, Any]) -> str:
    """Under which name a record lies."""
    digest = digest_of({"measurement": measurement, "training": training})
    return f"{measurement['name']}-{digest}.json"


def _read_record(path: Path) -> Record:
    """A record from its file; its settings must have the digest of its name, its numbers the one beside them.

    Raises:
        DataError: If it can't be read, is damaged, was edited, or is of another format.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        found = content.pop("format")
        if found != FORMAT:
            raise DataError(f"{path} has format {found!r}, this version of nescio reads {FORMAT}")
        numbers_digest = content.pop(NUMBERS_DIGEST)
        record = Record(provenance=content.pop(PROVENANCE, {}), **content)
        expected = record.file_name
        is_intact = numbers_digest == digest_of(record.numbers)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it to have it measured again") from error
    if expected != path.name:
        raise DataError(f"{path} is not what its name says, its settings belong to {expected}; remove it")
    if not is_intact:
        raise DataError(
            f"{path} is damaged or was edited: its numbers do not have the digest that it says; remove it to "
            "have them measured again"
        )
    return record


def _to_json(record: Record) -> str:
    """A record as the text of its file, with every list of numbers on one line."""
    content = {
        "format": FORMAT,
        "measurement": record.measurement,
        "training": record.training,
        "numbers": record.numbers,
        NUMBERS_DIGEST: digest_of(record.numbers),
        PROVENANCE: record.provenance,
    }
    text = json.dumps(as_plain(content), indent=1, allow_nan=False)
    return re.sub(r'\[\s+([^][{}"]*?)\s+\]', _on_one_line, text) + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return f"[{' '.join(found[1].split())}]"


def surroundings() -> dict[str, Any]:
    """Versions and hardware: what numbers may depend on beside their settings."""
    versions = {"python": platform.python_version()}
    for name in VERSIONS_OF:
        versions[name] = importlib.metadata.version(name)
    hardware = {"processor": processor_name(), "cores": os.cpu_count(), "threads": torch.get_num_threads()}
    return {"versions": versions, "hardware": hardware}
