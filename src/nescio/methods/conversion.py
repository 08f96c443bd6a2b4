"""From a trained softmax network to an evidential one, to be fine-tuned."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from nescio._checks import listed, require_whole
from nescio._precision import to_float64
from nescio.errors import InputError

_START_EVIDENCE = 10.0  # times K: as much evidence as an opinion with u = 1/11 holds


def from_softmax(
    network: nn.Module,
    sample: Tensor | None = None,
    *,
    head: str | None = None,
    num_classes: int | None = None,
) -> nn.Module:
    """A copy of a softmax network whose logits can be read as evidence; train it on for a few epochs.

    Softmax does not change when all logits move by one number, evidence does: with a sample the head's bias
    is moved so that the total evidence, by "exp", starts at a sound size.

    Args:
        network: Module from inputs (N, ...) to logits (N, K), with an nn.Linear inside it as its head.
        sample: Typical inputs (N, ...) as the network takes them, one tensor.
        head: The name of the nn.Linear that gives the logits, as in `network.named_modules()`; without it the
            sample finds it.
        num_classes: Replace the head by a new one for so many classes.

    Returns:
        The copy; the network itself is left alone.

    Raises:
        InputError: If the head can't be told or moved, or the sample is no tensor that the network takes.

    Example:
        >>> softmax = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> converted = from_softmax(softmax, torch.zeros(5, 4))
        >>> evidence = converted(torch.zeros(1, 4)).detach().exp()
        >>> round(float(evidence.sum()), 3)  # ten times the number of classes
        30.0
    """
    if num_classes is not None:
        require_whole("num_classes", num_classes, least=2)
    if sample is not None:
        _require_tensor(sample)
    converted = copy.deepcopy(network)
    name = _head_name(converted, head, sample)
    layer = _linear(converted, name)
    if num_classes is not None:
        layer = _new_head(converted, name, num_classes)
    if sample is not None:
        _move_bias(converted, layer, sample)
    return converted


def _require_tensor(sample: object) -> None:
    if isinstance(sample, Tensor):
        if not len(sample):
            raise InputError("sample must have one input or more, got none")
        return
    if isinstance(sample, Mapping):
        # A tokenizer gives several tensors by name, and a network for text takes them as keywords.
        names = ", ".join(str(name) for name in sample)
        raise InputError(
            f"sample must be one tensor (N, ...), got a {type(sample).__name__} of {names}; for a network "
            "that takes several inputs leave sample out and say head=, the name of its last nn.Linear"
        )
    raise InputError(f"sample must be a tensor (N, ...), got {type(sample).__name__}")


def _head_name(network: nn.Module, head: str | None, sample: Tensor | None) -> str:
    modules: dict[str, nn.Module] = dict(network.named_modules())
    names = [name for name, layer in modules.items() if name and isinstance(layer, nn.Linear)]
    if head is not None and head not in names:
        raise InputError(f"head must name an nn.Linear of the network, {listed(names)}, got {head!r}")
    if not names:
        raise InputError("network must hold an nn.Linear that gives the logits, got none inside it")
    if sample is not None:
        return _find_head(network, head, sample)
    if head is not None:
        return head
    # Without a run nothing but the order of a Sequential, or there being one only, tells which is last.
    if len(names) > 1 and names[-1] != _last_in_order(network):
        raise InputError(
            f"network has more than one nn.Linear, {listed(names)}: give a sample, or head= its name"
        )
    return names[-1]


def _last_in_order(network: nn.Module) -> str:
    """The name of the layer that a Sequential, and each Sequential in it, runs last."""
    path: list[str] = []
    while isinstance(network, nn.Sequential) and len(network):
        name, network = list(network.named_children())[-1]
        path.append(name)
    return ".".join(path)


def _find_head(network: nn.Module, head: str | None, sample: Tensor) -> str:
    """The nn.Linear, the one named or the last to run, whose output is the network's output."""
    logits, given = _run(network, sample)
    if not isinstance(logits, Tensor):
        raise InputError(f"network must give a tensor of logits, got {type(logits).__name__}")
    if not bool(logits.isfinite().all()):
        raise InputError("the logits for the sample must be finite, got NaN or infinity")
    tried = []
    for name, output in reversed(given):
        if head is None or head == name:
            tried.append((name, output))
    for name, output in tried:
        if output.ndim == 2 and torch.equal(output, logits):
            return name
    if not tried:
        raise InputError(f"the head {head or 'of the network'} took no part when the sample was run")
    last, output = tried[0]
    raise InputError(
        f"the head must give the logits (N, K): the output of {last}, {tuple(output.shape)}, is not the "
        f"network's own, {tuple(logits.shape)}; take off what comes after it, or say head="
    )


@torch.no_grad()
def _run(network: nn.Module, sample: Tensor) -> tuple[object, list[tuple[str, Tensor]]]:
    """What the network gives for the sample, and what each nn.Linear in it gave, in the order they ran."""
    given: list[tuple[str, Tensor]] = []

    def note_output_of(name: str, layer: nn.Linear) -> RemovableHandle:
        # A copy: what comes after may change the output in place.
        return layer.register_forward_hook(lambda _, __, output: given.append((name, output.clone())))

    hooks = []
    for name, layer in network.named_modules():
        if name and isinstance(layer, nn.Linear):
            hooks.append(note_output_of(name, layer))
    modes = [(module, module.training) for module in network.modules()]  # parts may be held in evaluation
    try:
        logits = network.eval()(sample)
    except (RuntimeError, TypeError, ValueError, AttributeError, IndexError) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"the network can't take the sample {tuple(sample.shape)}: {reason}") from error
    finally:
        for module, mode in modes:
            module.training = mode
        for hook in hooks:
            hook.remove()
    return logits, given


def _linear(network: nn.Module, name: str) -> nn.Linear:
    layer = network.get_submodule(name)
    assert isinstance(layer, nn.Linear)
    return layer


def _new_head(network: nn.Module, name: str, num_classes: int) -> nn.Linear:
    old = _linear(network, name)
    fresh = nn.Linear(old.in_features, num_classes, device=old.weight.device, dtype=old.weight.dtype)
    parent, _, attribute = name.rpartition(".")
    setattr(network.get_submodule(parent), attribute, fresh)
    return fresh


@torch.no_grad()
def _move_bias(network: nn.Module, head: nn.Linear, sample: Tensor) -> None:
    if head.bias is None:
        raise InputError("the head must have a bias to move; give no sample, or replace the head")
    logits, _ = _run(network, sample)
    assert isinstance(logits, Tensor)
    total = float(to_float64(logits).logsumexp(1).median())
    head.bias.add_(math.log(_START_EVIDENCE * head.out_features) - total)
