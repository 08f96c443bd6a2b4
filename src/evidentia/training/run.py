"""Run: the folder of a training, with its settings, its progress and a checkpoint to go on from."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from evidentia.errors import ModelFileError, TrainingError
from evidentia.training.checkpoint import (
    pack_state,
    read_tensors,
    unpack_state,
    write_bytes_safely,
    write_tensors,
)

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
        path = self.folder / "settings.json"
        if not path.exists():
            write_bytes_safely(path, json.dumps(self._settings, indent=1).encode())
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

    def resume(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[list[Metrics], Best]:
        """Put the state back that the last whole epoch left; nothing changes where there is none."""
        if not self.checkpoint.exists():
            return [], Best()
        tensors, header = read_tensors(self.checkpoint)
        try:
            unpack_state(tensors, module, optimizer)
            history, best = header["history"], Best(**header["best"])
        except (KeyError, TypeError, RuntimeError, ValueError) as error:
            raise ModelFileError(f"{self.checkpoint} does not fit this training: {error}") from error
        kept = {k.removeprefix("best."): v for k, v in tensors.items() if k.startswith("best.")}
        best.weights = kept or None
        return history, best

    def save(
        self, module: nn.Module, optimizer: torch.optim.Optimizer, history: list[Metrics], best: Best
    ) -> None:
        """Keep the state of now, and write the metrics for people and programs to follow."""
        tensors = pack_state(module, optimizer)
        tensors |= {f"best.{name}": value for name, value in (best.weights or {}).items()}
        header = {"history": history, "best": {"loss": _or_null(best.loss), "epoch": best.epoch}}
        write_tensors(self.checkpoint, tensors, header)
        lines = "".join(json.dumps(metrics) + "\n" for metrics in history)
        write_bytes_safely(self.folder / "metrics.jsonl", lines.encode())


def _or_null(loss: float) -> float:
    # JSON knows no infinity; a loss that nothing beats yet is as good.
    return min(loss, 1e300)
