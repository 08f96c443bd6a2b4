"""Results: one JSON file for each experiment, written part by part.

A file holds what was trained, the numbers of each part with the settings they were measured with, and,
apart from these, `made`: versions, hardware and times of the training and, where they differ, of the parts
measured elsewhere. All but `made` is the same in every run.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nescio._files import write_atomically
from nescio.errors import DataError, TrainingError
from nescio.studies.sensoy2018.experiments import Experiment

FORMAT = 1
VERSIONS_OF = ("nescio", "torch", "numpy", "scikit-learn")
TRAINING = "training"


@dataclass(frozen=True)
class Result:
    """One training and what was measured of it.

    trained: the description of its experiment; parts: name -> {"settings", "numbers"}.
    """

    study: str
    variant: str
    seed: int
    trained: Mapping[str, Any]
    parts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    made: Mapping[str, Any] = field(default_factory=dict)

    def numbers(self, part: str) -> Mapping[str, Any] | None:
        """Of a part; None where it was not measured."""
        found = self.parts.get(part)
        return None if found is None else found["numbers"]

    def with_part(self, name: str, settings: Mapping[str, Any], numbers: Any, seconds: float) -> Result:
        """The same with a part more, measured here and now in so many seconds."""
        here = surroundings()
        made = {**here, **self.made}  # where it was trained
        made["seconds"] = {**made.get("seconds", {}), name: round(seconds, 2)}
        elsewhere = {part: at for part, at in made.pop("elsewhere", {}).items() if part != name}
        if any(made[key] != here[key] for key in here):
            elsewhere[name] = here
        if elsewhere:
            made["elsewhere"] = elsewhere
        parts = {**self.parts, name: {"settings": plain(settings), "numbers": plain(numbers)}}
        return replace(self, parts=parts, made=made)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "format": FORMAT,
            "study": self.study,
            "variant": self.variant,
            "seed": self.seed,
            "trained": self.trained,
            "parts": self.parts,
            "made": self.made,
        }


def result_path(folder: Path, experiment: Experiment) -> Path:
    """Where an experiment's result is."""
    return folder / "results" / f"{experiment.name}.json"


def present_result(folder: Path, experiment: Experiment) -> Result:
    """As far as it has come: what is there, or a new one. One of another training is refused, not mixed."""
    path, new = result_path(folder, experiment), new_result(experiment)
    if not path.exists():
        return new
    result = read_result(path)
    if names := differing(result.trained, new.trained):
        raise TrainingError(
            f"{path} was trained with other settings ({', '.join(names)} differ); use another --out, or "
            f"remove it and checkpoints/{experiment.name} beside the results"
        )
    return result


def write_result(path: Path, result: Result) -> None:
    """Replace the file in one step."""
    content = json.dumps(result.to_dict(), indent=1, allow_nan=False)
    write_atomically(path, (_short_lists(content) + "\n").encode())


def read_result(path: Path) -> Result:
    """Back from such a file."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        found = data.pop("format")
        if found != FORMAT:
            raise DataError(f"{path} has format {found!r}, this version of nescio reads {FORMAT}")
        return Result(**data)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it to have it made again") from error


def read_results(folder: Path) -> list[Result]:
    """All results below a folder, by name."""
    return [read_result(path) for path in sorted((folder / "results").glob("*/*.json"))]


def new_result(experiment: Experiment) -> Result:
    """With nothing measured yet."""
    variant, study = experiment.variant.name, experiment.study.name
    return Result(study, variant, experiment.seed, plain(experiment.description()))


def differing(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """The names of settings that differ.

    A setting that the older file does not know, or has as null, has its default: that was done then.
    """
    names = []
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            names += differing(old, new, f"{prefix}{name}.")
        elif old != new and not (old is None and _is_default(name, new, now)):
            names.append(prefix + name)
    return names


def _is_default(name: str, value: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a method's setting has the value that it has unless told otherwise."""
    from nescio.methods import METHODS, make_method, method_to_dict

    method = settings.get("name")
    if not isinstance(method, str) or method not in METHODS:
        return False
    return bool(plain(method_to_dict(make_method(method))).get(name) == value)


def plain(value: Any) -> Any:
    """As JSON knows it: tensors and tuples as lists, NaN as null."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, str | bool | int) or value is None:
        return value
    if isinstance(value, Iterable):
        return [plain(each) for each in value]
    return float(value) if math.isfinite(value) else None


def surroundings() -> dict[str, Any]:
    """Versions and hardware: what the numbers may depend on beside the settings."""
    return {
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in VERSIONS_OF},
        },
        "hardware": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
        },
    }


def processor() -> str:
    """Its name, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _short_lists(text: str) -> str:
    """Lists of numbers on one line each: a file of a few hundred lines that can be read and compared."""
    return re.sub(r'\[\s+([^][{}"]*?)\s+\]', lambda found: f"[{' '.join(found[1].split())}]", text)
