"""Run: the folder of a training, with its settings, its progress and a checkpoint to go on from."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from nescio._files import named, read_tensors, write_atomically, write_tensors
from nescio.errors import ModelFileError, TrainingError
from nescio.training.checkpoint import pack_optimizer, unpack_optimizer
from nescio.training.runtime import is_first_process
from nescio.training.settings import TrainingSettings

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Metrics = dict[str, float]


@dataclass
class Best:
    """The weights with the lowest held-out loss so far."""

    loss: float = float("inf")
    epoch: int = 0
    weights: dict[str, Tensor] | None = None

    def offer(self, loss: float, epoch: int, module: nn.Module) -> None:
        """Keep these weights if they are better."""
        if loss < self.loss:
            self.loss, self.epoch, self.weights = loss, epoch, copy.deepcopy(module.state_dict())

    def is_enough(self, epochs: int, patience: int | None) -> bool:
        """Whether nothing got better for longer than the patience."""
        return patience is not None and self.weights is not None and epochs - self.epoch >= patience

    def restore(self, module: nn.Module) -> None:
        """Give the module the best weights."""
        if self.weights is not None:
            module.load_state_dict(self.weights)


@dataclass
class State:
    """How far a training is: the metrics of every epoch, and of the member being trained the rest."""

    module: nn.Module
    history: list[Metrics] = field(default_factory=list)
    member: int = 0
    best: Best = field(default_factory=Best)
    optimizer: torch.optim.Optimizer | None = None
    saved: Mapping[str, Tensor] = field(default_factory=dict)  # of the optimiser, until it is there

    @property
    def rows(self) -> list[Metrics]:
        """The metrics of the member being trained."""
        return [row for row in self.history if row.get("member", 1) == self.member + 1]

    @property
    def epochs(self) -> int:
        """That the member has had."""
        return len(self.rows)

    def start(self, member: int, optimizer: torch.optim.Optimizer) -> None:
        """Go on with this member, or begin it."""
        if member != self.member:
            self.member, self.best, self.saved = member, Best(), {}
        self.optimizer = optimizer
        unpack_optimizer(self.saved, optimizer)

    def add(self, metrics: Metrics, offered: nn.Module | None) -> None:
        """An epoch's metrics, and the member if the best of it is to be kept."""
        self.history.append(metrics)
        if offered is not None:
            self.best.offer(metrics["held_out_loss"], self.epochs, offered)

    def is_done(self, settings: TrainingSettings) -> bool:
        """Whether the member has had its epochs, or enough of them."""
        return self.epochs >= settings.epochs or self.best.is_enough(self.epochs, settings.patience)


class Run:
    """A folder: settings.json, metrics.jsonl, checkpoint.safetensors.

    A run whose settings differ from those in its folder is refused: it would go on with something else.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any]) -> None:
        self.folder = Path(folder)
        self._settings = json.loads(json.dumps(settings))
        self._claim()

    @property
    def checkpoint(self) -> Path:
        """Where the state after the last whole epoch is."""
        return self.folder / "checkpoint.safetensors"

    def _claim(self) -> None:
        if not is_first_process():
            return  # the first of the processes keeps the folder, the others may not even see it
        path = self.folder / "settings.json"
        if not path.exists():
            write_atomically(path, json.dumps(self._settings, indent=1).encode())
            return
        try:
            present = json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise TrainingError(f"{path} is damaged; remove {self.folder} to start anew") from error
        if present != self._settings:
            names = [k for k in {**present, **self._settings} if present.get(k) != self._settings.get(k)]
            raise TrainingError(
                f"{self.folder} holds another training ({', '.join(sorted(names))} differ); "
                "use another folder, or remove this one to start anew"
            )

    def resume(self, module: nn.Module, fabric: Fabric) -> State:
        """Put the state back that the last whole epoch left; the first process reads it for all."""
        found = read_tensors(self.checkpoint) if fabric.is_global_zero and self.checkpoint.exists() else None
        found = fabric.broadcast(found)
        if found is None:
            return State(module)
        tensors, header = found
        try:
            module.load_state_dict(named(tensors, "module"))
            best = Best(**header["best"], weights=named(tensors, "best") or None)
            return State(module, header["history"], header["member"], best, saved=named(tensors, "optimizer"))
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise ModelFileError(f"{self.checkpoint} does not fit this training: {error}") from error

    def save(self, state: State) -> None:
        """Keep the state of now, and write the metrics for people and programs to follow."""
        assert state.optimizer is not None
        parts = {
            "module": state.module.state_dict(),
            "optimizer": pack_optimizer(state.optimizer),
            "best": state.best.weights or {},
        }
        tensors = {f"{part}.{name}": value for part, held in parts.items() for name, value in held.items()}
        best = {"loss": _or_null(state.best.loss), "epoch": state.best.epoch}
        write_tensors(
            self.checkpoint, tensors, {"history": state.history, "member": state.member, "best": best}
        )
        lines = "".join(json.dumps(metrics) + "\n" for metrics in state.history)
        write_atomically(self.folder / "metrics.jsonl", lines.encode())


def _or_null(loss: float) -> float:
    # JSON knows no infinity; a loss that nothing beats yet is as good.
    return min(loss, 1e300)
