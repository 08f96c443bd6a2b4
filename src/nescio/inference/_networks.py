"""Networks for data: built by what a method needs, and refused where they do not fit the inputs."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nescio.encoders import EncoderSpec, make_encoder
from nescio.errors import InputError
from nescio.inference._layers import shape_text
from nescio.methods import Method


def new_module(
    method: Method,
    network: EncoderSpec | str | nn.Module | None,
    input_shape: tuple[int, ...],
    num_classes: int,
) -> tuple[nn.Module, EncoderSpec | None]:
    """Make a network for the method; return it with its spec, or with None for the user's own module."""
    if isinstance(network, nn.Module):
        return method.check_module(network), None
    if network is None or isinstance(network, str):
        network = method.default_encoder(make_encoder(network, input_shape, num_classes))
    return method.build(network), network


def require_network(module: nn.Module, spec: EncoderSpec | None, example: Tensor, num_classes: int) -> None:
    """Refuse a network that does not turn inputs like the example (1, ...) into logits (1, num_classes)."""
    if spec is not None and spec.input_shape != tuple(example.shape[1:]):
        raise InputError(f"network takes inputs {spec.input_shape}, the data has {tuple(example.shape[1:])}")
    parameter = next(module.parameters())
    was_training = module.training
    try:
        with torch.no_grad():
            logits = module.eval()(example.to(parameter.device, parameter.dtype))
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        expected = shape_text(example.shape[1:])
        raise InputError(f"network can't take inputs (N, {expected}): {reason}") from error
    finally:
        module.train(was_training)
    if tuple(logits.shape) != (1, num_classes):
        raise InputError(
            f"network must give logits (N, {num_classes}), one for each class, got {('N', *logits.shape[1:])}"
        )
