"""A network of the user's own, with its features and its head made known by their names."""

from __future__ import annotations

import difflib
import threading
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from nescio.errors import InputError


def with_features(module: nn.Module, layer: str | None = None, head: str | None = None) -> nn.Module:
    """A network of your own with `features(inputs)` and `head`, as caches and post-hoc tools need it.

    The network itself stays as it is: its outputs and its weights are the same. Features are what the layer
    gives, in one row for each input; what comes after the layer is the head. Whether the head makes the
    network's outputs of the features is checked when they are first computed in evaluation mode.

    Args:
        module: A network from inputs (N, ...) to logits (N, K).
        layer: The name of the layer whose output are the features, as `named_modules()` has it: "avgpool".
            None for what goes into the head.
        head: The name of the layer that makes logits of features: "fc". None for all that comes after the
            layer where the network is a `torch.nn.Sequential`, and for its last `torch.nn.Linear` elsewhere.

    Returns:
        The wrapped network; one that has features and a head already as it is, if nothing is named.

    Raises:
        InputError: If there is no layer of that name, or no head can be told.

    Example:
        >>> body = (nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        >>> network = nn.Sequential(*body, nn.Linear(8, 5))
        >>> wrapped = with_features(network, layer="1")
        >>> images = torch.zeros(2, 3, 16, 16)
        >>> wrapped.features(images).shape
        torch.Size([2, 8])
        >>> torch.equal(wrapped(images), network(images))
        True
    """
    if not isinstance(module, nn.Module):
        raise InputError(f"module must be a torch.nn.Module, got a {type(module).__name__}")
    if layer is None and head is None and _has_both(module):
        return module
    for name in (layer, head):
        if name is not None:
            _require_layer(module, name)
    if layer is not None and head is None and isinstance(module, nn.Sequential) and "." not in layer:
        return _SequenceWithFeatures(module, layer)
    if head is None:
        head = _last_dense_layer(module)
    return _NetworkWithFeatures(module, layer, head)


class _WithFeatures(nn.Module):
    """A network whose features are caught while it computes."""

    head: nn.Module

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.training = network.training
        self._is_checked = False

    def forward(self, inputs: Tensor) -> Tensor:
        """(N, ...) to logits (N, K), as the network gives them."""
        logits: Tensor = self.network(inputs)
        return logits

    def _require_same(self, features: Tensor, logits: Tensor) -> None:
        """The head must make the network's logits of the features; one look is enough."""
        if self._is_checked or self.training:
            return
        try:
            with torch.no_grad():
                made = self.head(features)
            is_same = torch.allclose(made, logits, rtol=1e-3, atol=1e-4)
        except (RuntimeError, ValueError):  # of shapes that the head does not take
            is_same = False
        if not is_same:
            raise InputError(
                f"{self._names()} do not go together: the head does not make the network's outputs of the "
                "features; name the layer right before the head, or the head alone"
            )
        self._is_checked = True

    @abstractmethod
    def _names(self) -> str:
        """What was named, for messages."""


class _SequenceWithFeatures(_WithFeatures):
    """A sequence: features up to a layer, and the rest as the head."""

    def __init__(self, network: nn.Sequential, layer: str) -> None:
        super().__init__(network)
        self._layer = layer
        self._place = [name for name, _ in network.named_children()].index(layer)
        if self._place == len(network) - 1:
            raise InputError(
                f"layer must not be the last of the network, as {layer!r} is: no head would be left"
            )

    def features(self, inputs: Tensor) -> Tensor:
        """(N, ...) to features (N, F)."""
        values = inputs
        for part in list(self._parts())[: self._place + 1]:
            values = part(values)
        features = values.flatten(1)
        if not (self._is_checked or self.training):
            self._require_same(features, self.network(inputs))
        return features

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        """All layers behind that of the features."""
        return nn.Sequential(*list(self._parts())[self._place + 1 :])

    def _parts(self) -> Iterator[nn.Module]:
        return self.network.children()

    def _names(self) -> str:
        return f"layer={self._layer!r} and what comes after it"


class _NetworkWithFeatures(_WithFeatures):
    """Any network: features are what a layer gives, or what goes into the head."""

    def __init__(self, network: nn.Module, layer: str | None, head: str) -> None:
        super().__init__(network)
        self._layer = layer
        self._head = head

    def features(self, inputs: Tensor) -> Tensor:
        """(N, ...) to features (N, F)."""
        with self._catching() as caught:
            logits = self.network(inputs)
        if not caught:
            raise InputError(
                f"{self._names()}: the network computed without this layer, so it has no features"
            )
        features = self._in_rows(caught[-1])
        self._require_same(features, logits)
        return features

    @property
    def head(self) -> nn.Module:  # type: ignore[override]
        """The layer that was named, or found."""
        return self.network.get_submodule(self._head)

    @contextmanager
    def _catching(self) -> Iterator[list[Any]]:
        """What the layer gives, or the head takes, while the block runs in this thread."""
        caught: list[Any] = []
        thread = threading.get_ident()

        def catch(value: Any) -> None:
            if threading.get_ident() == thread:
                caught.append(value)

        if self._layer is None:
            handle = self.head.register_forward_pre_hook(lambda _, given: catch(given[0]))
        else:
            place = self.network.get_submodule(self._layer)
            handle = place.register_forward_hook(lambda _, __, output: catch(output))
        try:
            yield caught
        finally:
            handle.remove()

    def _in_rows(self, values: Any) -> Tensor:
        """What was caught as (N, F): maps (N, C, H, W) are averaged where the head takes C features."""
        if not isinstance(values, Tensor) or values.ndim < 2:
            got = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise InputError(f"{self._names()}: features must be a tensor (N, ...), got {got}")
        expected = getattr(self.head, "in_features", None)
        if values.ndim > 2 and expected == values.shape[1]:
            return values.flatten(2).mean(2)
        return values.flatten(1)

    def _names(self) -> str:
        if self._layer is None:
            return f"head={self._head!r} and what goes into it"
        return f"layer={self._layer!r} and head={self._head!r}"


def _has_both(module: nn.Module) -> bool:
    return callable(getattr(module, "features", None)) and isinstance(
        getattr(module, "head", None), nn.Module
    )


def _require_layer(module: nn.Module, name: str) -> None:
    known = [found for found, _ in module.named_modules() if found]
    if name not in known:
        similar = difflib.get_close_matches(name, known, n=5, cutoff=0.3) or known[-5:]
        raise InputError(f"the network has no layer {name!r}; it has, among others: {', '.join(similar)}")


def _last_dense_layer(module: nn.Module) -> str:
    dense: list[str] = []
    for name, layer in module.named_modules():
        if name and isinstance(layer, nn.Linear):
            dense.append(name)
    if not dense:
        raise InputError(
            "no head can be told: the network has no torch.nn.Linear; name the layer that makes logits of "
            'features, as head="fc"'
        )
    return dense[-1]
