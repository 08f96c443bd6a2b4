"""The passes of a network over inputs, and the outputs of the layer at which distances are measured."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio.data import StoredArray
from nescio.data._stored import row_chunks
from nescio.encoders import EncoderSpec, features_of
from nescio.encoders.base import FEATURES, INPUTS
from nescio.errors import InputError
from nescio.inference._frozen import OnEncoding, batch_of, kept_features
from nescio.methods import Method
from nescio.methods._shared import MODE_LOCK
from nescio.opinions.categorical import Prediction
from nescio.training import as_input

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

_BATCH = 1024  # inputs in the network at a time
_NUMBERS = 2**22  # of the inputs of a batch, at most: what layers make of large images takes much memory


def prepared_parts(
    model: TrainedModel, inputs: Tensor | StoredArray, batch_size: int, check: Callable[[Tensor], None]
) -> Iterator[Tensor]:
    """Raw inputs (N, ...) as the network takes them, on its device, a batch at a time.

    check: is called with every batch of inputs that lie on the disk. Of large inputs fewer are taken.
    """
    device = next(model.module.parameters()).device
    with MODE_LOCK:
        if any(part.training for part in model.module.modules()):  # to look is quicker than to set them all
            model.module.eval()
    batch_size = max(1, min(batch_size, _NUMBERS // max(1, math.prod(inputs.shape[1:]))))
    if model.encoder is not None:
        model.encoder.module.to(device)
        batch_size = min(batch_size, batch_of(model.encoder.spec, model.encoder.module))
    for part in row_chunks(inputs, batch_size):
        if isinstance(inputs, StoredArray):
            check(part)
        yield network_inputs(model, as_input(part.to(device), model.preprocess))


def network_inputs(model: TrainedModel, prepared: Tensor) -> Tensor:
    """Preprocessed inputs as the network takes them: of a frozen encoder its features."""
    if model.encoder is not None:
        prepared = model.encoder(prepared)
    if prepared.is_floating_point():  # ids of tokens stay whole numbers
        prepared = prepared.to(next(model.module.parameters()).dtype)
    return prepared


def predict_kept(
    model: TrainedModel, inputs: Tensor | StoredArray, on_encoding: OnEncoding | None = None
) -> Prediction:
    """What a model says of raw inputs (N, ...), each by itself; features of a frozen encoder are kept.

    For data that are predicted again, as those that models are measured on: encoding takes most of the time.
    """
    if model.encoder is not None:
        frozen = model.encoder
        require_inputs(inputs, model.input_shape)
        inputs = kept_features(frozen.spec, frozen.module, model.preprocess, inputs, on_encoding)
        # The head by itself is a model of features.
        model = replace(model, preprocess=frozen.scaling, encoder=None)
    return model.predict(inputs, independent=True)


def features_at(model: TrainedModel, inputs: Tensor | StoredArray, layer: str) -> Tensor:
    """The outputs of a layer for raw inputs (N, ...), float32 (N, F) in memory."""
    parts = []
    with torch.inference_mode():
        for prepared in prepared_parts(model, inputs, _BATCH, require_finite_inputs):
            parts.append(_features_in_own_pass(model.method, model.module, layer, prepared).float().cpu())
    return torch.cat(parts)


class NetworkOutputs(NamedTuple):
    """What a network makes of inputs, before it is read as a prediction.

    Args:
        features: What the head takes, float32 (N, F).
        logits: What it gives, float32 (N, K).

    Example:
        >>> NetworkOutputs(torch.zeros(2, 5), torch.zeros(2, 3)).logits.shape
        torch.Size([2, 3])
    """

    features: Tensor
    logits: Tensor


def outputs_of(model: TrainedModel, inputs: Tensor | StoredArray) -> NetworkOutputs:
    """Features and logits for raw inputs (N, ...), in memory; see `TrainedModel.outputs`."""
    network: Any = _network_with(FEATURES, model.method, model.module)
    if network is None:
        raise InputError(
            "the network has no features below a head; nescio.encoders.with_features names a layer"
        )
    features = []
    logits = []
    with torch.inference_mode(), torch.random.fork_rng([]):
        torch.manual_seed(0)  # for layers that draw in evaluation too
        for prepared in prepared_parts(model, inputs, _BATCH, require_finite_inputs):
            # What the network gives, which is more than its head does where that has several outputs.
            with _caught(network, FEATURES) as caught:
                logits.append(network(prepared).float().cpu())
            features.append(caught[-1].flatten(1).float().cpu())
    return NetworkOutputs(torch.cat(features), torch.cat(logits))


def require_inputs(inputs: object, input_shape: Sequence[int]) -> None:
    """Refuse what are no raw inputs (N, *input_shape); in memory they must also be finite."""
    expected = shape_text(input_shape)
    if not isinstance(inputs, Tensor | StoredArray):
        got = type(inputs).__name__
        raise InputError(f"inputs must be one or more of shape (N, {expected}), got {got}")
    if inputs.ndim != 1 + len(input_shape) or len(inputs) == 0:
        found = tuple(inputs.shape)
        raise InputError(f"inputs must be one or more of shape (N, {expected}), got {found}")
    if tuple(inputs.shape[1:]) != tuple(input_shape):
        raise InputError(f"inputs must be (N, {expected}), got {tuple(inputs.shape)}")
    if isinstance(inputs, Tensor):
        require_finite_inputs(inputs)


def shape_text(shape: Sequence[int]) -> str:
    """3, 28, 28."""
    return ", ".join(str(size) for size in shape)


def require_finite_inputs(inputs: Tensor) -> None:
    """Refuse inputs that are not finite."""
    if inputs.is_floating_point() and not bool(inputs.isfinite().all()):
        raise InputError("inputs must be finite, got NaN or infinity")


def distance_layer(method: Method, module: nn.Module, spec: EncoderSpec | None) -> str | None:
    """The name of the layer: as the encoder says, or the features of a user's own; None for none."""
    layer = FEATURES
    if spec is not None:
        layer = spec.distance_layer
    if layer == INPUTS:
        return layer
    network = _network_with(layer, method, module)
    return None if network is None else layer


def predict_at_layer(
    method: Method, module: nn.Module, layer: str, inputs: Tensor, predict: Callable[[], Prediction]
) -> tuple[Prediction, Tensor]:
    """What predicts, and the outputs of a layer (N, F), from one pass where the method does not draw.

    Args:
        method: The method.
        module: The network that it has built, in evaluation mode.
        layer: The name of the layer, as `distance_layer` gives it.
        inputs: Inputs (N, ...) as the network takes them.
        predict: Function that predicts these inputs.
    """
    if layer == INPUTS or method.is_stochastic:
        # A pass in which nothing is drawn: beside the many passes of a method that draws it is little.
        return predict(), _features_in_own_pass(method, module, layer, inputs)
    network = _required_network(layer, method, module)
    with _caught(network, layer) as caught:
        prediction = predict()
    if not caught:  # a head that is made anew for every pass
        return prediction, features_of(network, inputs)
    return prediction, caught[-1].flatten(1)


def _features_in_own_pass(method: Method, module: nn.Module, layer: str, inputs: Tensor) -> Tensor:
    if layer == INPUTS:
        return inputs.flatten(1)
    network = _required_network(layer, method, module)
    if layer == FEATURES:
        return features_of(network, inputs)
    with torch.random.fork_rng([]), _caught(network, layer) as caught:
        torch.manual_seed(0)  # for layers that draw in evaluation too
        network(inputs)
    return caught[-1].flatten(1)


def _required_network(layer: str, method: Method, module: nn.Module) -> nn.Module:
    network = _network_with(layer, method, module)
    if network is None:
        raise InputError(f"the network has no layer {layer!r}, at which its trust was fitted")
    return network


def _network_with(layer: str, method: Method, module: nn.Module) -> nn.Module | None:
    """The first network that the method has built, or the one inside it, which has the layer.

    Of an ensemble it is the first member: distances are measured in one network.
    """
    network: Any = method.members(module)[0]
    while isinstance(network, nn.Module):
        if layer == FEATURES and _has_features(network):
            return network
        if layer != FEATURES and _has_layer(network, layer):
            return network
        network = getattr(network, "network", None)
    return None


def _has_layer(network: nn.Module, layer: str) -> bool:
    try:  # a walk over all modules takes longer than the rest of a single prediction's trust
        network.get_submodule(layer)
    except AttributeError:
        return False
    return True


def _has_features(network: nn.Module) -> bool:
    has_head = isinstance(getattr(network, "head", None), nn.Module)
    return has_head and callable(getattr(network, "features", None))


@contextmanager
def _caught(network: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """What the layer gives, or the head takes, while the block runs in this thread."""
    caught: list[Tensor] = []
    thread = threading.get_ident()

    def catch(value: Tensor) -> None:
        if threading.get_ident() == thread:
            caught.append(value.clone())  # the next layer may work in place

    if layer == FEATURES:
        head = network.head
        assert isinstance(head, nn.Module)
        handle = head.register_forward_pre_hook(lambda _, given: catch(given[0]))
    else:
        place = network.get_submodule(layer)
        handle = place.register_forward_hook(lambda _, __, output: catch(output))
    try:
        yield caught
    finally:
        handle.remove()
