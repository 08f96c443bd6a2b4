"""Dropout: Monte Carlo dropout. Units are switched off by chance at prediction too, and passes averaged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from nescio._checks import require_number, require_whole
from nescio.encoders import Ability, EncoderSpec
from nescio.errors import InputError
from nescio.methods._shared import MODE_LOCK, mean_of_softmax, softmax_loss, weight_penalty
from nescio.methods.base import MOST_SAMPLES, Batch, Method
from nescio.opinions.categorical import Categorical, Prediction

_USUAL_SHARE = 0.5


@dataclass(frozen=True)
class Dropout(Method):
    """Monte Carlo dropout: the mean of softmax over passes with units switched off by chance.

    The share that is switched off is the encoder's own; 0.5 where nobody has chosen one.

    Args:
        samples: Number of passes that a prediction averages, at most 10,000.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> Dropout().default_encoder(MLPSpec(4, 3)).dropout
        0.5
    """

    name: ClassVar[str] = "dropout"
    about: ClassVar[str] = "Monte Carlo dropout: the mean of many passes with units switched off by chance"
    paper: ClassVar[str] = "Gal & Ghahramani 2016, Dropout as a Bayesian Approximation"
    takes_soft_labels: ClassVar[bool] = True
    is_stochastic: ClassVar[bool] = True
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.DROPOUT})

    samples: int = 50
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        require_whole("samples", self.samples, most=MOST_SAMPLES)
        require_number("weight_decay", self.weight_decay)

    @property
    def passes(self) -> int:
        """One for each sample; layers before the first dropout are computed once."""
        return self.samples

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Switch dropout on, with a share of 0.5, where the encoder has none."""
        # An encoder that can't have dropout is left alone here and refused, with the reason, by `build`.
        if Ability.DROPOUT in encoder.abilities and not getattr(encoder, "dropout", 0.0):
            return encoder.with_dropout(_USUAL_SHARE)
        return encoder

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network, and refuse one without dropout."""
        return self.check_module(super().build(encoder))

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network without dropout."""
        if not _dropouts(module):
            raise InputError("the method dropout needs a network with dropout; set its dropout above 0")
        return module

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the cross-entropy plus the weight penalty of the dense layers."""
        loss, logits = softmax_loss(module, batch)
        return loss + weight_penalty(module, self.weight_decay), logits

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """Average `samples` passes, each with its own units switched off."""
        fixed, random = _split(module)
        features = fixed(inputs)
        with _dropout_from(module, generator):
            # A copy for each pass: a dropout that works in place would wear the features down.
            return mean_of_softmax(random(features.clone()) for _ in range(self.samples))

    def predict_each(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Prediction:
        """The mean of `samples` passes; in each, the same units are switched off for all inputs."""
        fixed, random = _split(module)
        features = fixed(inputs)
        state = generator.get_state()

        def one_pass(features_of_one: Tensor) -> Tensor:
            logits: Tensor = random(features_of_one[None].clone())
            return logits[0]

        # Inside vmap a layer sees one input, so it draws what it draws for that input alone.
        all_pass = torch.func.vmap(one_pass, randomness="same")
        try:
            with _dropout_from(module, generator):
                return mean_of_softmax(all_pass(features) for _ in range(self.samples))
        except RuntimeError:  # a network whose way depends on values, which vmap does not know
            generator.set_state(state)
            return super().predict_each(module, inputs, generator)


def _dropouts(module: nn.Module) -> list[nn.Module]:
    kinds = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)
    return [layer for layer in module.modules() if isinstance(layer, kinds) and layer.p > 0]


def _split(module: nn.Module) -> tuple[nn.Module, nn.Module]:
    """What comes before the first dropout of a sequence and is the same in every pass, and the rest."""
    # A class that extends nn.Sequential may do more than its layers one after the other.
    if not isinstance(module, nn.Sequential) or type(module).forward is not nn.Sequential.forward:
        return nn.Identity(), module
    layers = list(module)
    first = next(place for place, layer in enumerate(layers) if _dropouts(layer))
    return nn.Sequential(*layers[:first]), nn.Sequential(*layers[first:])


@contextmanager
def _dropout_from(module: nn.Module, generator: torch.Generator) -> Iterator[None]:
    """Dropout switched on, drawing from this generator: torch's layers know only their device's own."""
    layers = _dropouts(module)
    device = next(module.parameters()).device
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    forked = [] if device.type == "cpu" else [device]
    with MODE_LOCK, torch.random.fork_rng(forked, device_type=device.type):
        torch.manual_seed(seed)
        for layer in layers:
            layer.train()
        try:
            yield
        finally:
            for layer in layers:
                layer.eval()
