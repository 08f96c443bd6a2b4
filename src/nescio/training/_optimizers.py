"""Optimisers by their names, what each part of a network learns at, and the learning rate over the epochs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn

from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.training.settings import TrainingSettings

# Without gradients of their own: one needs a function that computes the loss again, the other sparse ones.
_UNFIT = ("LBFGS", "SparseAdam")
_MOMENTUM = {"sgd": {"momentum": 0.9}}
# In a group of parameters: what the learning rate is multiplied by, and whether the group is the head.
RATE_FACTOR = "rate_factor"
IS_HEAD = "is_head"


def optimizer_names() -> dict[str, type[torch.optim.Optimizer]]:
    """The optimisers of this torch that can be chosen, by their names in lower case."""
    found = {}
    for name in dir(torch.optim):
        value = getattr(torch.optim, name)
        is_optimizer = isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
        if is_optimizer and value is not torch.optim.Optimizer and name not in _UNFIT:
            found[name.lower()] = value
    return found


def require_optimizer(name: object, weight_decay: float) -> type[torch.optim.Optimizer]:
    """The optimiser of this name; one that takes no weight decay must be asked for none."""
    known = optimizer_names()
    if not isinstance(name, str) or name.lower() not in known:
        raise InputError(f"optimizer must be one of {', '.join(sorted(known))}, got {name!r}")
    if weight_decay and not takes_weight_decay(name):
        raise InputError(f"optimizer {name} takes no weight_decay, got {weight_decay!r}; set it to 0")
    return known[name.lower()]


def takes_weight_decay(name: str) -> bool:
    """Whether the optimiser of this name has one."""
    return "weight_decay" in inspect.signature(optimizer_names()[name.lower()]).parameters


def make_optimizer(module: nn.Module, settings: TrainingSettings) -> torch.optim.Optimizer:
    """The optimiser of resolved settings for the parameters of a network, in one group or two."""
    assert settings.optimizer is not None
    assert settings.weight_decay is not None
    chosen = require_optimizer(settings.optimizer, settings.weight_decay)
    takes = inspect.signature(chosen).parameters
    options: dict[str, Any] = {"lr": settings.learning_rate, **_MOMENTUM.get(settings.optimizer.lower(), {})}
    if "weight_decay" in takes:
        # A zero too: AdamW has a default of its own, 0.01.
        options["weight_decay"] = settings.weight_decay
    if "fused" in takes:
        options["fused"] = True
    try:
        return chosen(parameter_groups(module, settings), **options)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"optimizer {settings.optimizer} can't train this network: {error}") from error


def parameter_groups(module: nn.Module, settings: TrainingSettings) -> list[dict[str, Any]]:
    """All parameters in one group; where the encoder is treated apart, its parameters and then the head's."""
    is_apart = settings.encoder_rate != 1 or settings.freeze_epochs > 0
    if not is_apart:
        return [{"params": list(module.parameters()), RATE_FACTOR: 1.0, IS_HEAD: True}]
    head = getattr(module, "head", None)
    if not isinstance(head, nn.Module):
        raise InputError(
            f"encoder_rate and freeze_epochs need a network with a head, and {type(module).__name__} has "
            "none; set encoder_rate to 1 and freeze_epochs to 0"
        )
    of_head = {id(parameter) for parameter in head.parameters()}
    below = [parameter for parameter in module.parameters() if id(parameter) not in of_head]
    groups: list[dict[str, Any]] = [
        {"params": below, RATE_FACTOR: settings.encoder_rate, IS_HEAD: False},
        {"params": list(head.parameters()), RATE_FACTOR: 1.0, IS_HEAD: True},
    ]
    return [group for group in groups if group["params"]]


def set_learning_rate(
    groups: Iterable[dict[str, Any]], epoch: float, step_length: float, settings: TrainingSettings
) -> None:
    """Give each group of parameters its learning rate at a (fractional) epoch."""
    rate = learning_rate_at(epoch, step_length, settings)
    for group in groups:
        group["lr"] = rate * group.get(RATE_FACTOR, 1.0)


def drop_gradients_below_head(groups: Iterable[dict[str, Any]]) -> None:
    """Leave the encoder as it is in this step: what has no gradient is not changed, nor are its moments."""
    for group in groups:
        if not group[IS_HEAD]:
            for parameter in group["params"]:
                parameter.grad = None


def keep_statistics_below_head(module: nn.Module) -> None:
    """Let batch normalisations of the encoder use their running statistics, and not change them."""
    of_head = set(cast(nn.Module, module.head).modules())
    for each in module.modules():
        if isinstance(each, nn.modules.batchnorm._BatchNorm) and each not in of_head:
            each.eval()


def learning_rate_at(epoch: float, step_length: float, settings: TrainingSettings) -> float:
    """Growing in the warm-up; then constant, or falling to zero like a cosine.

    epoch: fractions included, at the beginning of a step. step_length: of a step, in epochs: the first step
    of a warm-up has a rate above zero, as it would be in vain otherwise.
    """
    assert settings.epochs is not None
    assert settings.learning_rate is not None
    warm_epochs = (settings.warmup or 0.0) * settings.epochs
    if epoch < warm_epochs:
        return settings.learning_rate * min((epoch + step_length) / warm_epochs, 1.0)
    if settings.schedule == "constant":
        return settings.learning_rate
    done = math.pi * (epoch - warm_epochs) / (settings.epochs - warm_epochs)
    return settings.learning_rate * 0.5 * (1 + math.cos(done))
