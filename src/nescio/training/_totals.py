"""What an epoch came to: loss, accuracy, uncertainty and evidence, summed over its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nescio.methods import Batch, Method
from nescio.opinions.opinion import Opinion

if TYPE_CHECKING:
    from lightning_fabric import Fabric

TINY = 1e-300  # instead of a sum of weights that is zero


class EpochTotals:
    """Sums over an epoch, kept on the device so that nothing waits for them."""

    def __init__(self) -> None:
        self.sums = torch.zeros(5)  # loss, weight; correct, uncertainty, samples
        self.greatest_evidence: Tensor | None = None

    def add(self, method: Method, loss: Tensor, logits: Tensor, batch: Batch, counts: bool = True) -> None:
        """One batch; one that does not count adds only what evidence it had."""
        prediction = method.interpret(logits.detach())
        if counts:
            samples = loss.new_tensor(len(batch.labels))
            weight = samples
            if batch.weights is not None:
                weight = batch.weights.sum()
            labels = batch.labels
            if labels.ndim == 2:  # mixed: the class with the greatest share is the right one
                labels = labels.argmax(1)
            correct = (prediction.labels == labels).sum()
            found = [loss.detach() * weight, weight, correct, prediction.uncertainty.sum(), samples]
            self.sums = self.sums.to(loss.device) + torch.stack(found)
        if isinstance(prediction, Opinion):
            greatest = prediction.evidence.amax(0)
            if self.greatest_evidence is not None:
                greatest = self.greatest_evidence.maximum(greatest)
            self.greatest_evidence = greatest

    def means(self, fabric: Fabric) -> dict[str, float]:
        """Loss, accuracy and mean uncertainty, over all processes."""
        sums = _reduced(fabric, self.sums.to(fabric.device), "sum").tolist()
        loss, weight, correct, uncertainty, samples = sums
        return {
            "loss": loss / max(weight, TINY),
            "accuracy": correct / samples,
            "uncertainty": uncertainty / samples,
        }

    def greatest(self, fabric: Fabric) -> Tensor | None:
        """The greatest evidence of each class (K,), over all processes; None without evidence."""
        if self.greatest_evidence is None:
            return None
        return _reduced(fabric, self.greatest_evidence, "max")


def _reduced(fabric: Fabric, values: Tensor, operation: str) -> Tensor:
    return torch.as_tensor(fabric.all_reduce(values, reduce_op=operation))
