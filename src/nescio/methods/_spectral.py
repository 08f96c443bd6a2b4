"""Spectral normalisation of a network's layers, for methods that read distances from its features."""

from __future__ import annotations

from torch import nn
from torch.nn.utils.parametrizations import spectral_norm
from torch.nn.utils.parametrize import is_parametrized

_NORMALISED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def normalise_layers(module: nn.Module) -> None:
    """Divide the weights of all dense layers and convolutions by their greatest singular value, in place.

    That value is followed by one step of power iteration in every training pass. In evaluation mode nothing
    changes any more: its vectors are buffers, and so are saved and loaded with the weights.
    """
    for layer in list(module.modules()):
        if isinstance(layer, _NORMALISED) and not is_parametrized(layer, "weight"):
            spectral_norm(layer)
