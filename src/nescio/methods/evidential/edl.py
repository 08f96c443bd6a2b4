"""EDL: evidential deep learning, the paper's method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import nn
from torch.nn import init

from nescio._checks import require_finite
from nescio.encoders import EncoderSpec
from nescio.errors import InputError
from nescio.losses import AUTO, EvidentialLoss
from nescio.methods.evidential._base import EvidentialMethod


@dataclass(frozen=True)
class EDL(EvidentialMethod):
    """Evidential deep learning: belief for every class and uncertainty from one pass.

    The logits of the K classes become evidence, and the evidence a Dirichlet distribution over probabilities:

        e = f(logits),  alpha = e + 1,  S = sum of alpha,  belief = e / S,  uncertainty u = K / S

    The loss of a sample is its risk under Dirichlet(alpha), plus a weight that grows over the first epochs
    times KL(Dirichlet(alpha without the true class's evidence) || Dirichlet(1, ..., 1)).

    Args:
        risk: What fits the labels: "cross_entropy" (equation 4 of the paper), "squared_error" (5),
            "type2" (3) or "brier" (5 without its variance).
        evidence: The function f from logits to evidence, by its name, as it is stored in the model file:
            "exp", "relu" or "softplus".
        divergence_weight: Weight of the KL term; "auto" for the library's rule, 0.1 min(1, (10 / K)^2.5),
            0.1 min(1, (10 / K)^2) with "type2", and min(1, (10 / K)^2) with "squared_error" and "brier".
            None, as older model files have it, is "auto".
        annealing_epochs: Number of epochs over which the KL term grows to its weight; 0 for none.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.
        output_bias: Initial value of the biases of the last layer; above 0 all ReLU evidence is alive at
            first. 0 leaves the encoder's own initialisation.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio import EDL
        >>> EDL(evidence="relu", divergence_weight=1.0).loss_for(10)
        EvidentialLoss(num_classes=10, risk=cross_entropy, evidence=relu, divergence_weight=1.0, \
annealing_epochs=10, reduction=mean)
    """

    name: ClassVar[str] = "edl"
    about: ClassVar[str] = "evidential: belief for every class and uncertainty from one pass"
    paper: ClassVar[str] = (
        "Sensoy et al. 2018, Evidential Deep Learning to Quantify Classification Uncertainty"
    )

    risk: str = "cross_entropy"
    evidence: str = "exp"
    divergence_weight: float | str | None = AUTO
    annealing_epochs: float = 10
    weight_decay: float = 0.0
    output_bias: float = 0.0

    def __post_init__(self) -> None:
        if self.divergence_weight is None:
            object.__setattr__(self, "divergence_weight", AUTO)
        require_finite("output_bias", self.output_bias)
        super().__post_init__()

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network; the biases of its last layer start at `output_bias` where that is not 0.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K).

        Raises:
            InputError: If `output_bias` is not 0 and the network has no nn.Linear with a bias.
        """
        module = super().build(encoder)
        if self.output_bias:
            init.constant_(_last_bias(module), self.output_bias)
        return module

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse to set the biases of a network of the user's own: which layer is last can't be told.

        Args:
            module: Network from inputs (N, ...) to logits (N, K).

        Returns:
            The network as it is.

        Raises:
            InputError: If `output_bias` is not 0.
        """
        if self.output_bias:
            raise InputError(
                f"output_bias is for networks that are built from a spec, got {self.output_bias!r} for a "
                "module of your own; set the bias of its last layer yourself, and output_bias to 0"
            )
        return super().check_module(module)

    def _make_loss(self, num_classes: int, reduction: str) -> EvidentialLoss:
        assert self.divergence_weight is not None
        return EvidentialLoss(
            num_classes,
            risk=self.risk,
            evidence=self.evidence,
            divergence_weight=self.divergence_weight,
            annealing_epochs=self.annealing_epochs,
            reduction=reduction,
        )


def _last_bias(module: nn.Module) -> nn.Parameter:
    """Find the bias of the last dense layer, which gives the logits in networks that are built here."""
    biases = [layer.bias for layer in module.modules() if isinstance(layer, nn.Linear)]
    if not biases or biases[-1] is None:
        raise InputError("output_bias is for networks with an nn.Linear and a bias as their last layer")
    return biases[-1]
