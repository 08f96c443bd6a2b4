"""From a trained softmax network to an evidential one, to be fine-tuned."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from evidentia.errors import InputError

START_EVIDENCE = 10.0  # times K: as much evidence as an opinion with u = 1/11 holds


def from_softmax(
    network: nn.Module, sample: Tensor | None = None, *, num_classes: int | None = None
) -> nn.Module:
    """A copy of a softmax network whose logits can be read as evidence; train it on for a few epochs.

    Softmax does not change when all logits move by one number, evidence does: with `sample`, typical inputs
    (N, ...) as the network takes them, the head's bias is moved so that the total evidence starts at a sound
    size. num_classes: replace the head by a new one for so many classes instead of keeping it.
    """
    converted = copy.deepcopy(network)
    name, head = _last_linear(converted)
    if num_classes is not None:
        fresh = nn.Linear(head.in_features, num_classes, device=head.weight.device, dtype=head.weight.dtype)
        parent, _, attribute = name.rpartition(".")
        setattr(converted.get_submodule(parent), attribute, fresh)
        head = fresh
    if sample is not None:
        _move_bias(converted, head, sample)
    return converted


def _last_linear(network: nn.Module) -> tuple[str, nn.Linear]:
    found = [(name, layer) for name, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not found or not found[-1][0]:
        raise InputError("network must be a module whose last nn.Linear inside it gives the logits")
    return found[-1]


@torch.no_grad()
def _move_bias(network: nn.Module, head: nn.Linear, sample: Tensor) -> None:
    was_training = network.training
    logits = network.eval()(sample).double()
    network.train(was_training)
    if logits.ndim != 2 or logits.shape[1] != head.out_features:
        raise InputError(f"the head must give the logits (N, {head.out_features}), got {tuple(logits.shape)}")
    if head.bias is None:
        raise InputError("the head must have a bias to move; give no sample, or replace the head")
    head.bias.add_(math.log(START_EVIDENCE * head.out_features) - float(logits.logsumexp(1).median()))
