"""F-EDL: a flexible Dirichlet distribution over the probabilities, from three heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from nescio._checks import at_least_float32, require_bool, require_whole
from nescio._precision import widest
from nescio.encoders import Ability, EncoderSpec, features_of, replace_head
from nescio.errors import InputError
from nescio.functional import _dirichlet
from nescio.functional.evidence import exp, softplus
from nescio.methods._shared import linear_head, require_built_with
from nescio.methods._spectral import normalise_layers
from nescio.methods.base import Batch, Method, mean_loss
from nescio.opinions.categorical import Categorical


@dataclass(frozen=True)
class FEDL(Method):
    """Flexible evidential deep learning: a mixture of Dirichlet distributions, one for each class.

    Three heads on the same features give alpha = exp(g1), p = softmax(g2) and tau = softplus(g3), which are
    the flexible Dirichlet distribution sum_k p_k Dirichlet(alpha + tau e_k). With alpha0 the sum of alpha and
    T = alpha0 + tau its mean and variances are

        mu = (alpha + tau p) / T,  V = mu (1 - mu) / (T + 1) + tau^2 p (1 - p) / (T (T + 1))

    The loss of a sample is sum (y - mu)^2 + sum V + sum (y - p)^2.

    Between the parts of a mixture there is variance that no amount of evidence stands for, so the prediction
    is no opinion: it is a `Categorical` of the probabilities mu, and its own uncertainty is the paper's
    epistemic one, sum V, as a share of the most that it can be: u = K / (K - 1) sum V, from 0 to 1.

    Args:
        spectral_norm: Whether the weights of the encoder and of g1 are divided by their greatest singular
            value.
        head_hidden: Number of hidden units of g2 and of g3; g1 has none.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> from nescio.methods import make_method
        >>> method = make_method("f-edl", head_hidden=8)
        >>> network = method.build(MLPSpec(4, 3))
        >>> prediction = method.predict(network.eval(), torch.zeros(2, 4), torch.Generator())
        >>> prediction.probabilities.shape, prediction.uncertainty.shape
        (torch.Size([2, 3]), torch.Size([2]))
    """

    name: ClassVar[str] = "f-edl"
    about: ClassVar[str] = "evidential: a flexible Dirichlet distribution from three heads, one pass"
    paper: ClassVar[str] = "Yoon & Kim 2025, Uncertainty Estimation by Flexible Evidential Deep Learning"
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    takes_soft_labels: ClassVar[bool] = True

    spectral_norm: bool = True
    head_hidden: int = 256

    def __post_init__(self) -> None:
        require_bool("spectral_norm", self.spectral_norm)
        require_whole("head_hidden", self.head_hidden)

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Switch dropout off, as published for MNIST: normalised layers hold the network back enough."""
        return encoder.without_dropout()

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network with its three heads.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K), which are the logarithms of mu.

        Raises:
            InputError: If the encoder has no features.
        """
        return self._with_heads(super().build(encoder), encoder.num_classes, encoder.num_features)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Put two more heads beside the one of a network of the user's own, in place.

        Args:
            module: Network with `features(inputs)` and an nn.Linear as its `head`.

        Returns:
            A network from inputs (N, ...) to logits (N, K).

        Raises:
            InputError: If it has no features, or another head.
        """
        if isinstance(module, FlexibleNetwork):
            require_built_with("head_hidden", cast(_ThreeHeads, module.head).hidden, self.head_hidden)
            return module
        head = linear_head(module, self.name)
        return self._with_heads(module, head.out_features, head.in_features)

    def _with_heads(self, network: nn.Module, num_classes: int, num_features: int) -> nn.Module:
        if self.spectral_norm:
            normalise_layers(network)
        alpha = cast(nn.Module, network.head)
        replace_head(network, _ThreeHeads(alpha, num_classes, num_features, self.head_hidden))
        return FlexibleNetwork(network)

    def encoders(self, module: nn.Module) -> list[nn.Module]:
        """List the network below the heads; normalised layers can't go on from pretrained weights."""
        if self.spectral_norm:
            raise InputError(
                f"the method {self.name} normalises the encoder, which pretrained weights are not made for; "
                "set spectral_norm to false, or do not fine-tune"
            )
        return [cast(FlexibleNetwork, module).network]

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss (), and the logits (N, K), the logarithms of mu."""
        outputs = at_least_float32(module(batch.inputs, all_heads=True))
        moments = flexible_moments(outputs)
        losses = flexible_loss(moments, batch.labels).to(outputs.dtype)
        logits = moments.mean.log().to(outputs.dtype)
        return mean_loss(losses, batch.weights), logits

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Categorical:
        """Predict some inputs.

        Args:
            module: Network in evaluation mode.
            inputs: Inputs (N, ...) as the network takes them.
            generator: Is not used: nothing is drawn.

        Returns:
            The prediction for each, with an uncertainty of its own.
        """
        outputs = at_least_float32(module(inputs, all_heads=True))
        moments = flexible_moments(outputs)
        num_classes = moments.mean.shape[1]
        uncertainty = moments.variance.sum(1) * num_classes / (num_classes - 1)
        probabilities = moments.mean.to(outputs.dtype)
        return Categorical(probabilities, uncertainty.clamp_max(1).to(outputs.dtype))


class Moments(NamedTuple):
    """Of flexible Dirichlet distributions, each (N, K); `rest` is 1 less what it is the rest of."""

    mean: Tensor
    mean_rest: Tensor
    variance: Tensor
    share: Tensor  # p
    share_rest: Tensor


def flexible_moments(outputs: Tensor) -> Moments:
    """Mean and variance of flexible Dirichlet distributions, from the outputs of three heads.

    Args:
        outputs: (N, 2 K + 1): g1 of K classes, g2 of K classes, g3.
    """
    wide = widest(outputs)
    num_classes = (outputs.shape[1] - 1) // 2
    alpha = exp(wide[:, :num_classes])
    share = wide[:, num_classes:-1].softmax(1)
    tau = widest(softplus(outputs[:, -1:]))
    counts = alpha + tau * share
    total = alpha.sum(1, keepdim=True) + tau
    # 1 - mu and 1 - p as sums of the others: a difference would lose its digits next to 1.
    mean = counts / total
    mean_rest = _dirichlet.others(counts, 0.0) / total
    share_rest = _dirichlet.others(share, 0.0)
    within = mean * mean_rest / (total + 1)
    between = (tau / total) * (tau / (total + 1)) * share * share_rest
    return Moments(mean, mean_rest, within + between, share, share_rest)


def flexible_loss(moments: Moments, labels: Tensor) -> Tensor:
    """sum (y - mu)^2 + sum V + sum (y - p)^2 of each sample (N,).

    Args:
        moments: Moments of N samples and K classes.
        labels: Class indices (N,), or soft labels (N, K).
    """
    targets = labels
    if labels.ndim == 1:
        targets = one_hot(labels, moments.mean.shape[1])
    targets = targets.to(moments.mean.dtype)
    # y - mu = y (1 - mu) - (1 - y) mu
    of_mean = targets * moments.mean_rest - (1 - targets) * moments.mean
    of_share = targets * moments.share_rest - (1 - targets) * moments.share
    return (of_mean.square() + moments.variance + of_share.square()).sum(1)


class _ThreeHeads(nn.Module):
    """From features (N, F) to the outputs of g1, g2 and g3 side by side, (N, 2 K + 1)."""

    def __init__(self, alpha: nn.Module, num_classes: int, num_features: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.alpha = alpha
        self.share = _perceptron(num_features, hidden, num_classes)
        self.tau = _perceptron(num_features, hidden, 1)

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat((self.alpha(features), self.share(features), self.tau(features)), 1)


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


class FlexibleNetwork(nn.Module):
    """A network with three heads; its logits are the logarithms of the mean.

    Args:
        network: Module from inputs (N, ...) to the outputs of the heads (N, 2 K + 1).
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor, all_heads: bool = False) -> Tensor:
        """Logits (N, K) for inputs (N, ...); or the outputs of all heads, (N, 2 K + 1)."""
        outputs: Tensor = self.network(inputs)
        if all_heads:
            return outputs
        return flexible_moments(at_least_float32(outputs)).mean.log().to(outputs.dtype)

    def features(self, inputs: Tensor) -> Tensor:
        """The features (N, F) of the network for inputs (N, ...)."""
        return features_of(self.network, inputs)

    @property
    def head(self) -> nn.Module:
        """The three heads."""
        return cast(nn.Module, self.network.head)
