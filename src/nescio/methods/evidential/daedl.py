"""DAEDL: evidence that is scaled by how dense the training samples lie around an input's features."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from nescio._checks import at_least_float32, require_bool, require_number
from nescio.encoders import Ability, EncoderSpec, features_of
from nescio.errors import InputError
from nescio.functional import _dirichlet, squared_error_risk
from nescio.functional.evidence import exp
from nescio.methods._shared import linear_head, require_built_with
from nescio.methods._spectral import normalise_layers
from nescio.methods.base import Batch, FeatureBatch, Method, mean_loss
from nescio.methods.evidential._gaussians import ClassGaussians
from nescio.methods.second_stage import TwoStage
from nescio.opinions.categorical import Categorical

_COVARIANCES = ("class", "shared")
_LEAST_ALPHA = 1e-6  # is added to exp(z), as in the authors' code
_MOST_NUMBERS = 50_000_000  # in the covariances of all classes: 200 MB of the model file


@dataclass(frozen=True)
class DAEDL(Method):
    """Density aware evidential deep learning: concentration that falls where training samples were rare.

    The logits z of the K classes are the logarithms of a Dirichlet distribution's parameters, alpha = exp(z).
    The loss of a sample is equation 5 of EDL plus `divergence_weight` times KL(Dirichlet(alpha without the
    true class's) || Dirichlet(1, ..., 1)). After the training a Gaussian a class is fitted to the features f,
    and with l = ln sum_c N(f; mu_c, Sigma_c) and its least and greatest value among training samples

        s = (l - min) / (max - min) within [0, 1],  alpha* = exp(s z),  p = alpha* / S,  u = K / S, at most 1

    Parameters below 1 are no evidence for a class, so there are no beliefs: the prediction is a `Categorical`
    with u as its own uncertainty. Its labels are those of the greatest logit, also where s is 0.

    Args:
        divergence_weight: Weight of the KL term.
        spectral_norm: Whether the weights of all layers are divided by their greatest singular value, so that
            unlike inputs keep unlike features.
        covariance: "class" for one of each class, or "shared" for one of all, where samples are few or
            classes many.
        ridge: This share of the mean variance of the features is added to the variance of each.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio.methods import make_method
        >>> make_method("daedl", covariance="shared").divergence_weight
        0.05
    """

    name: ClassVar[str] = "daedl"
    about: ClassVar[str] = "evidential: exp(z) scaled by the density of the features, from one pass"
    paper: ClassVar[str] = "Yoon & Kim 2024, Uncertainty Estimation by Density Aware Evidential Deep Learning"
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    has_second_stage: ClassVar[bool] = True
    takes_soft_labels: ClassVar[bool] = True

    divergence_weight: float = 0.05
    spectral_norm: bool = True
    covariance: str = "class"
    ridge: float = 1e-3

    def __post_init__(self) -> None:
        require_number("divergence_weight", self.divergence_weight)
        require_bool("spectral_norm", self.spectral_norm)
        if self.covariance not in _COVARIANCES:
            raise InputError(f"covariance must be one of {', '.join(_COVARIANCES)}, got {self.covariance!r}")
        require_number("ridge", self.ridge)

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Switch dropout off, as published for MNIST: normalised layers hold the network back enough."""
        return encoder.without_dropout()

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network, its layers normalised, and the Gaussians that are fitted after its training.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K).

        Raises:
            InputError: If the encoder has no features, or too many for a covariance of each class.
        """
        return self._with_gaussians(super().build(encoder), encoder.num_classes, encoder.num_features)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Normalise the layers of a network of the user's own in place, and put the Gaussians beside it.

        Args:
            module: Network with `features(inputs)` and an nn.Linear as its `head`.

        Returns:
            A network from inputs (N, ...) to logits (N, K).

        Raises:
            InputError: If it has no features, or another head.
        """
        if isinstance(module, TwoStage):
            gaussians = cast(ClassGaussians, module.second_stage)
            require_built_with("covariance", gaussians.covariance, self.covariance)
            return module
        head = linear_head(module, self.name)
        return self._with_gaussians(module, head.out_features, head.in_features)

    def _with_gaussians(self, network: nn.Module, num_classes: int, num_features: int) -> nn.Module:
        is_shared = self.covariance == "shared"
        if not is_shared and num_classes * num_features**2 > _MOST_NUMBERS:
            raise InputError(
                f"covariance 'class' keeps {num_classes} x {num_features} x {num_features} numbers, at most "
                f"{_MOST_NUMBERS} are kept; set covariance to 'shared'"
            )
        if self.spectral_norm:
            normalise_layers(network)
        return TwoStage(network, ClassGaussians(num_classes, num_features, is_shared))

    def encoders(self, module: nn.Module) -> list[nn.Module]:
        """List the network itself; normalised layers can't go on from pretrained weights."""
        if self.spectral_norm:
            raise InputError(
                f"the method {self.name} normalises all layers, which pretrained weights are not made for; "
                "set spectral_norm to false, or do not fine-tune"
            )
        return [cast(TwoStage, module).network]

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss () with the density left out, and the logits (N, K)."""
        logits = at_least_float32(module(batch.inputs))
        return mean_loss(self._losses(logits, batch.labels), batch.weights), logits

    def _losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each sample (N,), from logits (N, K) and labels (N,) or soft labels (N, K)."""
        evidence = exp(logits)
        losses = squared_error_risk(evidence, labels, prior=_LEAST_ALPHA)
        if not self.divergence_weight:
            return losses
        targets = labels
        if labels.ndim == 1:
            targets = one_hot(labels, logits.shape[1])
        targets = targets.to(evidence.dtype)
        # alpha~ = y + (1 - y) alpha, less what is added to it again.
        misleading = targets * (1 - _LEAST_ALPHA) + (1 - targets) * evidence
        return losses + self.divergence_weight * divergence_from_uniform(misleading)

    def fit_second_stage(self, module: nn.Module, batches: Iterable[FeatureBatch]) -> None:
        """Fit the Gaussians to the features of all training samples.

        Args:
            module: The trained network, in evaluation mode.
            batches: Features of all training samples, in batches; are gone through three times.
        """
        gaussians = cast(ClassGaussians, cast(TwoStage, module).second_stage)
        gaussians.fit(batches, self.ridge)

    def interpret(self, logits: Tensor) -> Categorical:
        """Turn logits (N, K) into a prediction; what is told of the density is left to `predict`."""
        return _prediction(at_least_float32(logits), logits.detach().argmax(-1))

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """Predict some inputs from their logits and the density of their features.

        Args:
            module: Network in evaluation mode.
            inputs: Inputs (N, ...) as the network takes them.
            generator: Is not used: nothing is drawn.

        Returns:
            The prediction for each, with an uncertainty of its own.
        """
        stages = cast(TwoStage, module)
        features = features_of(stages, inputs)
        logits = at_least_float32(stages.head(features))
        trust = cast(ClassGaussians, stages.second_stage).trust(features)
        return _prediction(trust.to(logits.dtype).unsqueeze(1) * logits, logits.detach().argmax(-1))


def divergence_from_uniform(evidence: Tensor) -> Tensor:
    """KL[D(alpha) || D(1, ..., 1)] of alpha = evidence + 1e-6, which may be below 1, (N,).

    It is the negative entropy of the density D(alpha), less that of the uniform one.
    """
    return -_dirichlet.differential_entropy(evidence, _LEAST_ALPHA) - math.lgamma(evidence.shape[1])


def _prediction(log_alpha: Tensor, raw_labels: Tensor) -> Categorical:
    """From the logarithms of alpha (N, K): probabilities alpha / S, and the uncertainty K / S, at most 1.

    It is 1, no answer at all, only where all alpha are equal: small ones may still tell the classes apart.
    """
    num_classes = log_alpha.shape[1]
    strength = exp(log_alpha).sum(1)
    uncertainty = num_classes / strength.clamp_min(num_classes)
    says_nothing = log_alpha.amax(1) == log_alpha.amin(1)
    just_below_one = 1 - torch.finfo(log_alpha.dtype).eps
    uncertainty = torch.where(says_nothing, uncertainty, uncertainty.clamp_max(just_below_one))
    return Categorical(log_alpha.softmax(1), uncertainty, raw_labels)
