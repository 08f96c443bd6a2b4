"""TwoStage: a network, and beside it what a method fits on its features after the training."""

from __future__ import annotations

from torch import Tensor, nn

from nescio.encoders import features_of, require_features


class TwoStage(nn.Module):
    """A network with a second stage that is saved with it, for methods with `has_second_stage`.

    Args:
        network: Module with `features(inputs)` and `head`, as an encoder with `Ability.FEATURES` builds it.
        second_stage: A module whose buffers hold what `fit_second_stage` fits.

    Raises:
        InputError: If the network has no features.

    Example:
        >>> import torch
        >>> from nescio.encoders import MLPSpec
        >>> means = nn.Module()
        >>> means.register_buffer("of_classes", torch.zeros(3, 256))
        >>> module = TwoStage(MLPSpec(4, 3).build(), means)
        >>> module(torch.zeros(2, 4)).shape, module.features(torch.zeros(2, 4)).shape
        (torch.Size([2, 3]), torch.Size([2, 256]))
        >>> "second_stage.of_classes" in module.state_dict()
        True
    """

    def __init__(self, network: nn.Module, second_stage: nn.Module) -> None:
        super().__init__()
        require_features(network)
        self.network = network
        self.second_stage = second_stage

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (N, K) of the network for inputs (N, ...)."""
        logits: Tensor = self.network(inputs)
        return logits

    def features(self, inputs: Tensor) -> Tensor:
        """The features (N, F) of the network for inputs (N, ...)."""
        return features_of(self.network, inputs)

    @property
    def head(self) -> nn.Module:
        """The network's own, from features (N, F) to logits (N, K)."""
        head = self.network.head
        assert isinstance(head, nn.Module)
        return head
