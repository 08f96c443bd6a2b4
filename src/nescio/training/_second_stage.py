"""The second stage of a training: what some methods fit on features of the trained network."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import nn

from nescio.encoders import features_of
from nescio.methods import Batch, FeatureBatch, Method


class FeatureBatches:
    """Features of all samples in batches, computed anew in every pass so that they need no memory.

    Args:
        module: The trained network.
        batches: Gives a new pass over the samples, as the network takes them.
    """

    def __init__(self, module: nn.Module, batches: Callable[[], Iterator[Batch]]) -> None:
        self._module = module
        self._batches = batches

    def __iter__(self) -> Iterator[FeatureBatch]:
        for batch in self._batches():
            features = features_of(self._module, batch.inputs)
            yield FeatureBatch(features, batch.labels, batch.weights)


@torch.no_grad()
def fit_second_stage(method: Method, module: nn.Module, batches: Callable[[], Iterator[Batch]]) -> None:
    """Fit a method's second stage, where it has one, in place.

    Args:
        method: Any; nothing is done for one without a second stage.
        module: The trained network. It is left in evaluation mode.
        batches: Gives a new pass over the training samples, in the same order every time.
    """
    if not method.has_second_stage:
        return
    module.eval()
    method.fit_second_stage(module, FeatureBatches(module, batches))
