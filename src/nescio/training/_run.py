"""Run: the folder of a training, with its settings, its progress and a checkpoint to go on from."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio._files import (
    create_atomically,
    json_text,
    named,
    read_tensors,
    remove_leftovers,
    why_not_written,
    write_atomically,
    write_tensors,
)
from nescio.data._folders import RUN_CHECKPOINT, RUN_SETTINGS
from nescio.errors import ModelFileError, NescioWarning, TrainingError
from nescio.training._average import WeightAverage
from nescio.training._checkpoint import pack_optimizer, unpack_optimizer
from nescio.training._runtime import is_first_process
from nescio.training.settings import TrainingSettings, former_settings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Metrics = dict[str, float]

_LARGEST_LOSS = 1e300  # in a file, for a loss that is still infinite: JSON knows no infinity
_EPOCHS = "settings.epochs"
_POSTHOC = "posthoc"
# What a calibration changes by the samples that it sets aside from the training.
_CHANGED_BY_POSTHOC = ("data.samples", "sha256.train")
_SHOWN_DIFFERENCES = 5
_SHOWN_LENGTH = 60


@dataclass
class _BestWeights:
    """The weights with the lowest held-out loss so far."""

    loss: float = float("inf")
    epoch: int = 0
    patient_from: int = 0  # the epoch at which a longer training began to compare
    weights: dict[str, Tensor] | None = None

    def offer(self, loss: float, epoch: int, module: nn.Module) -> None:
        if loss < self.loss:
            self.loss = loss
            self.epoch = epoch
            self.weights = copy.deepcopy(module.state_dict())

    def restore(self, module: nn.Module) -> None:
        if self.weights is not None:
            module.load_state_dict(self.weights)


@dataclass
class TrainingState:
    """How far a training is: the metrics of every epoch, and of the member being trained the rest."""

    module: nn.Module
    history: list[Metrics] = field(default_factory=list)
    member: int = 0
    best: _BestWeights = field(default_factory=_BestWeights)
    optimizer: torch.optim.Optimizer | None = None
    average: WeightAverage | None = None
    # What a checkpoint held, until the optimiser and the average are there to take it.
    saved_optimizer: Mapping[str, Tensor] = field(default_factory=dict)
    saved_average: Mapping[str, Tensor] = field(default_factory=dict)
    is_lengthened: bool = False  # its held-out losses were measured with the end of a shorter training

    @property
    def member_history(self) -> list[Metrics]:
        """The metrics of the member being trained."""
        return [metrics for metrics in self.history if metrics.get("member", 1) == self.member + 1]

    @property
    def epochs_done(self) -> int:
        """Epochs that the member being trained has had."""
        return len(self.member_history)

    def start_member(
        self, member: int, optimizer: torch.optim.Optimizer, average: WeightAverage | None = None
    ) -> None:
        """Go on with this member, or begin it."""
        if member != self.member:
            self.member = member
            self.best = _BestWeights()
            self.saved_optimizer = {}
            self.saved_average = {}
        self.optimizer = optimizer
        unpack_optimizer(self.saved_optimizer, optimizer)
        self.average = average
        if average is not None:
            average.unpack(self.saved_average)

    def compare_anew(self, measure: Callable[[], float], module: nn.Module) -> None:
        """Measure the best weights of a shorter training by the loss of the longer one.

        The loss of held-out samples is that of the training's end, where the divergence weighs what its
        annealing says: other epochs, other loss. What can't be measured again is kept under another name.
        """
        for metrics in self.member_history:
            if "held_out_loss" in metrics:
                metrics["former_held_out_loss"] = metrics.pop("held_out_loss")
        self.is_lengthened = False
        if self.best.weights is None:
            return
        latest = copy.deepcopy(module.state_dict())
        self.best.restore(module)
        self.best.loss = measure()
        module.load_state_dict(latest)
        self.member_history[self.best.epoch - 1]["held_out_loss"] = self.best.loss
        self.best.patient_from = self.epochs_done

    def is_done(self, settings: TrainingSettings) -> bool:
        """Whether the member has had its epochs, or nothing got better for longer than the patience."""
        assert settings.epochs is not None
        if self.epochs_done >= settings.epochs:
            return True
        if settings.patience is None or self.best.weights is None:
            return False
        since = max(self.best.epoch, self.best.patient_from)
        return self.epochs_done - since >= settings.patience


class Run:
    """The folder of a training: settings.json, metrics.jsonl, checkpoint.safetensors.

    A training that is started with the folder of an earlier one goes on from its last whole epoch. Nothing
    but the number of epochs may have changed, and only to a higher one.

    Args:
        folder: Is made where it is not there.
        settings: All that the training depends on, as plain data. Its entry "settings" holds the
            `TrainingSettings`, with the epochs; its entry "posthoc" says what is fitted afterwards, which
            counts only where samples are set aside for it.

    Raises:
        TrainingError: If the folder holds another training, the message names what differs; or if it can't
            be written.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> _ = Run(folder, {"settings": {"epochs": 3, "seed": 0}})
        >>> Run(folder, {"settings": {"epochs": 3, "seed": 1}})  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        nescio.errors.TrainingError: ... holds another training: --seed was 0 and is now 1; ...
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any]) -> None:
        self.folder = Path(folder)
        # As JSON gives them back, so that a tuple is not taken for another setting than its list.
        self._settings = json.loads(json_text(settings))
        self._former_epochs: int | None = None
        if is_first_process():  # which keeps the folder; the others may not even see it
            self._claim()

    @property
    def settings(self) -> dict[str, Any]:
        """All that the training depends on, as plain data."""
        return dict(self._settings)

    @property
    def checkpoint(self) -> Path:
        """Where the state after the last whole epoch is."""
        return self.folder / RUN_CHECKPOINT

    @property
    def _epochs(self) -> Any:
        return self._settings.get("settings", {}).get("epochs")

    @property
    def _settings_file(self) -> Path:
        return self.folder / RUN_SETTINGS

    @property
    def _metrics_file(self) -> Path:
        return self.folder / "metrics.jsonl"

    def _claim(self) -> None:
        path = self._settings_file
        if self.checkpoint.exists() and not path.exists():
            raise TrainingError(
                f"{self.checkpoint} is of a training whose {path.name} is missing, so that nobody knows of "
                "which; use another folder, or remove this one to start anew"
            )
        with _explaining(path):
            if not path.exists() and create_atomically(path, self._settings_text()):
                return
        for written in (path, self.checkpoint, self._metrics_file):
            remove_leftovers(written)
        try:
            present = json.loads(path.read_text())
        except (ValueError, RecursionError) as error:  # no UTF-8, or no JSON
            raise TrainingError(f"{path} is damaged; remove {self.folder} to start anew") from error
        changes = _changes(_with_later_settings(present, self._settings), self._settings)
        changes = _explained_by_posthoc(changes)
        if not changes:
            return
        if list(changes) == [_EPOCHS] and _is_longer(*changes[_EPOCHS]):
            self._former_epochs = changes[_EPOCHS][0]
            return
        raise TrainingError(
            f"{self.folder} holds another training: {_in_words(changes)}; "
            "use another folder, or remove this one to start anew"
        )

    def _settings_text(self) -> bytes:
        return json.dumps(self._settings, indent=1).encode()

    def resume(self, module: nn.Module, fabric: Fabric) -> TrainingState:
        """Put the state back that the last whole epoch left; the first process reads it for all.

        Raises:
            ModelFileError: If the checkpoint is damaged or of another network.
            TrainingError: If the run is to be lengthened and can't be.
        """
        found = None
        if fabric.is_global_zero and self.checkpoint.exists():
            found = read_tensors(self.checkpoint)
            if self._former_epochs is not None:
                self._lengthen(found.header, self._former_epochs)
            # A process that was killed after the checkpoint may not have come to write its metrics.
            self._write_metrics(found.header.get("history", []))
        if self._former_epochs is not None:
            with _explaining(self._settings_file):
                write_atomically(self._settings_file, self._settings_text())
        found = fabric.broadcast(found)
        if found is None:
            return TrainingState(module)
        tensors, header = found
        try:
            module.load_state_dict(named(tensors, "module"))
            best = _BestWeights(**header["best"], weights=named(tensors, "best") or None)
            return TrainingState(
                module,
                header["history"],
                header["member"],
                best,
                saved_optimizer=named(tensors, "optimizer"),
                saved_average=named(tensors, "average"),
                is_lengthened=header.get("epochs", self._epochs) != self._epochs,
            )
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise ModelFileError(f"{self.checkpoint} does not fit this training: {error}") from error

    def _lengthen(self, header: dict[str, Any], former: int) -> None:
        """Go on to more epochs than the run was started for, where that is possible."""
        header.setdefault("epochs", former)  # checkpoints from before do not say it
        if header["epochs"] == self._epochs:
            return  # what was started for fewer had no whole epoch yet when it was lengthened
        if header.get("member", 0) > 0:
            raise TrainingError(
                f"{self.folder} can't be lengthened from {former} epochs: members of the ensemble are "
                "finished already; use another folder"
            )
        epochs = self._epochs
        if self._settings["settings"].get("schedule") == "cosine":
            warnings.warn(
                f"{self.folder} is lengthened from {former} to {epochs} epochs: the epochs so far had the "
                f"learning rates of a cosine over {former}, the rest follow one over {epochs}, so it ends "
                f"elsewhere than a training of {epochs} epochs from the start",
                NescioWarning,
                stacklevel=4,
            )

    def save(self, state: TrainingState) -> None:
        """Keep the state of now, and write the metrics for people and programs to follow."""
        assert state.optimizer is not None
        tensors: dict[str, Tensor] = {}
        for name, value in state.module.state_dict().items():
            tensors[f"module.{name}"] = value
        for name, value in pack_optimizer(state.optimizer).items():
            tensors[f"optimizer.{name}"] = value
        if state.average is not None:
            for name, value in state.average.pack().items():
                tensors[f"average.{name}"] = value
        for name, value in (state.best.weights or {}).items():
            tensors[f"best.{name}"] = value
        best = {
            "loss": min(state.best.loss, _LARGEST_LOSS),
            "epoch": state.best.epoch,
            "patient_from": state.best.patient_from,
        }
        header = {
            "history": state.history,
            "member": state.member,
            "best": best,
            "epochs": self._epochs,
        }
        write_tensors(self.checkpoint, tensors, header)
        self._write_metrics(state.history)

    def _write_metrics(self, history: list[Metrics]) -> None:
        lines = [json.dumps(metrics) + "\n" for metrics in history]
        with _explaining(self._metrics_file):
            write_atomically(self._metrics_file, "".join(lines).encode())


@contextmanager
def _explaining(path: Path) -> Iterator[None]:
    """What the disk says of a file that can't be written becomes the training's own error."""
    try:
        yield
    except OSError as error:
        raise TrainingError(f"{path} can't be written: {why_not_written(error)}") from error


def _with_later_settings(before: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run from before some of those of now could be set, with what they were then."""
    given = before.get("settings")
    expected = now.get("settings")
    if not isinstance(given, dict) or not isinstance(expected, dict):
        return before
    settings = dict(given)
    for name, value in former_settings().items():
        if name in expected:
            settings.setdefault(name, value)
    return {**before, "settings": settings}


def _changes(before: object, now: object, name: str = "") -> dict[str, tuple[Any, Any]]:
    """What differs between two nested tables, by dotted names: the value before and now."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        return {} if before == now else {name: (before, now)}
    changes: dict[str, tuple[Any, Any]] = {}
    for key in [*before, *(key for key in now if key not in before)]:
        inner = f"{name}.{key}" if name else str(key)
        changes |= _changes(before.get(key), now.get(key), inner)
    return changes


def _explained_by_posthoc(changes: dict[str, tuple[Any, Any]]) -> dict[str, tuple[Any, Any]]:
    """The changes, where another calibration is named in the place of what it changes, or not at all.

    Another one of the same samples, or of none, is no other training. Runs from before do not say it: they
    are compared by their data.
    """
    if _POSTHOC not in changes:
        return changes
    before, now = changes[_POSTHOC]
    others = {name: change for name, change in changes.items() if name != _POSTHOC}
    has_other_samples = any(name in others for name in _CHANGED_BY_POSTHOC)
    if before is None or not has_other_samples:
        return others
    if "none" not in (before, now):
        return changes  # of few data none are set aside for trust alone: either may be the reason
    named = {_POSTHOC: (before, now)}
    for name, change in others.items():
        if name not in _CHANGED_BY_POSTHOC:
            named[name] = change
    return named


def _is_longer(before: object, now: object) -> bool:
    return isinstance(before, int) and isinstance(now, int) and now > before


def _in_words(changes: Mapping[str, tuple[Any, Any]]) -> str:
    """Each change with its value before and now; data are known by a digest that tells people nothing."""
    parts = []
    for whole in ("method.name", "network.kind"):
        if whole in changes:
            # Another method or network has other settings: that they differ too says nothing.
            group = whole.partition(".")[0]
            others = [name for name in changes if name.startswith(f"{group}.") and name != whole]
            changes = {name: change for name, change in changes.items() if name not in others}
    for name, (before, now) in changes.items():
        if name.startswith("sha256."):
            part = name.removeprefix("sha256.").replace("_", "-")
            parts.append(f"the {part} data has another content")
        else:
            shown_before = _shortened(before)
            shown_now = _shortened(now)
            name = _as_option(name)
            if shown_before == shown_now:
                parts.append(f"{name} is another one")
            else:
                parts.append(f"{name} was {shown_before} and is now {shown_now}")
    if len(parts) > _SHOWN_DIFFERENCES:
        more = len(parts) - _SHOWN_DIFFERENCES
        parts = [*parts[:_SHOWN_DIFFERENCES], f"and {more} more"]
    return ", ".join(parts)


def _as_option(name: str) -> str:
    """A setting as the command line calls it; its fields are called otherwise."""
    if name == _POSTHOC:
        return "--posthoc"
    group, _, setting = name.partition(".")
    if group == "settings":
        return f"--{setting.replace('_', '-')}"
    if name in ("method.name", "network.kind"):
        return f"--{group}"
    if group == "method" and setting:
        return f"--set {setting}"
    return name


def _shortened(value: object) -> str:
    """On one line, and no longer than fits into a message: a module of the user's own is many lines."""
    text = " ".join(str(value).split())
    if len(text) > _SHOWN_LENGTH:
        text = text[:_SHOWN_LENGTH] + "..."
    return text
