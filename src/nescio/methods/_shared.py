"""What methods share: the loss of a softmax output, the mean over several passes, weight decay, heads."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from nescio._checks import at_least_float32
from nescio.encoders import require_features
from nescio.errors import InputError
from nescio.methods.base import Batch, mean_loss
from nescio.opinions.categorical import Categorical

# Held while layers are switched to training for a prediction, so that one in another thread does not meet or
# end that. Their draws come from torch's own generator, which all threads share.
MODE_LOCK = threading.RLock()


def softmax_loss(module: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
    """Compute the mean cross-entropy of a batch (), and the logits (N, K)."""
    logits = at_least_float32(module(batch.inputs))
    if batch.weights is None:
        return cross_entropy(logits, batch.labels), logits
    return mean_loss(cross_entropy(logits, batch.labels, reduction="none"), batch.weights), logits


def mean_of_softmax(passes: Iterable[Tensor]) -> Categorical:
    """Average the probabilities of several passes' logits (N, K), one at a time in memory."""
    total: Tensor | None = None
    count = 0
    for logits in passes:
        probabilities = at_least_float32(logits).softmax(-1)
        total = probabilities if total is None else total + probabilities
        count += 1
    assert total is not None  # every method has at least one pass
    return Categorical(total / count)


def weight_penalty(module: nn.Module, decay: float) -> Tensor | float:
    """Compute decay / 2 times the squared weights of the dense layers."""
    if not decay:
        return 0.0
    squares = []
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            squares.append(layer.weight.square().sum())
    if not squares:
        raise InputError("weight_decay is for dense layers, and the network has none; set it to 0")
    return 0.5 * decay * torch.stack(squares).sum()


def linear_head(module: nn.Module, method: str) -> nn.Linear:
    """Find the head of a network of the user's own, from whose shape the number of its features is told.

    Raises:
        InputError: If the network has no features, or its head is no nn.Linear.
    """
    require_features(module)
    head = module.head
    if not isinstance(head, nn.Linear):
        raise InputError(
            f"the method {method} needs an nn.Linear as the head of a module of your own, got a "
            f"{type(head).__name__}"
        )
    return head


def require_built_with(setting: str, built_with: object, wanted: object) -> None:
    """Refuse a network that a method of this name built with another setting, which it would keep."""
    if built_with != wanted:
        raise InputError(
            f"the network was built with {setting}={built_with!r}, and the method has {wanted!r}; give a "
            "method with the same, or a new network"
        )
