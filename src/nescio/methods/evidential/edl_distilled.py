"""An ensemble of EDL networks, distilled: one network that learns the fused opinion of several."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn

from nescio._checks import at_least_float32
from nescio.encoders import Ability, EncoderSpec, features_of
from nescio.errors import InputError
from nescio.functional.evidence import log_evidence
from nescio.methods._shared import weight_penalty
from nescio.methods.base import Batch, mean_loss
from nescio.methods.evidential.edl import EDL
from nescio.methods.evidential.edl_ensemble import EDLEnsemble, FusedNetworks
from nescio.opinions.opinion import Opinion


@dataclass(frozen=True)
class EDLDistilled(EDLEnsemble):
    """One network that has learned what an ensemble of EDL networks says, for the price of one pass.

    The members are trained first, as those of `EDLEnsemble`. Then one network learns their fused opinion on
    the training inputs. An opinion is a distribution over K + 1 answers, the classes and "I do not know",
    with the masses b_1, ..., b_K and u; the loss of a sample is

        KL[(b, u) of the members || (b, u) of the network]

    which is 0 only where both opinions are the same. The labels have no part in it. The model file holds that
    network alone.

    Args:
        risk: What fits the labels, as of `EDL`, for the members.
        evidence: The function from logits to evidence, "exp" or "softplus": that of ReLU has no logarithm.
        divergence_weight: Weight of the KL term, as of `EDL`, for the members.
        annealing_epochs: Number of epochs over which the KL term grows to its weight, for the members.
        weight_decay: Factor of half the squared weights of the dense layers, which is added to the mean loss.
        output_bias: Initial value of the biases of the last layer, as of `EDL`.
        num_members: Number of networks that are learned from.
        fusion: "averaging", "cumulative" or "weighted".

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio.methods import make_method
        >>> method = make_method("edl-distilled", num_members=3)
        >>> method.trainings, method.passes
        (4, 1)
    """

    name: ClassVar[str] = "edl-distilled"
    about: ClassVar[str] = "evidential: one network that has learned the fused opinion of several"
    paper: ClassVar[str] = (
        "Hinton et al. 2015, Distilling the Knowledge in a Neural Network; here the masses of an opinion"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.evidence == "relu":
            raise InputError("evidence must be exp or softplus for edl-distilled, got 'relu'")

    @property
    def passes(self) -> int:
        """One: the members are gone when a model is used."""
        return 1

    @property
    def trainings(self) -> int:
        """One for each member, and one for the network that learns from them."""
        return self.num_members + 1

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network that is kept; the members are built when a training begins.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K).
        """
        return Student(EDL.build(self, encoder), encoder)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network of the user's own: the members must start from weights of their own.

        Args:
            module: Any network.

        Returns:
            The network, where it was built here.

        Raises:
            InputError: If it is anything else.
        """
        if not isinstance(module, Student):
            raise InputError(f"the method {self.name} builds its members itself; give a network spec")
        return module

    def encoders(self, module: nn.Module) -> list[nn.Module]:
        """List the network that is kept; the members begin with the same pretrained weights."""
        return [cast(Student, module).network]

    def for_training(self, module: nn.Module) -> nn.Module:
        """Put the members beside the network.

        Args:
            module: What `build` gave.

        Returns:
            A module that holds the members and the network.
        """
        student = cast(Student, module)
        networks = []
        for _ in range(self.num_members):
            network = EDL.build(self, student.encoder)
            if Ability.PRETRAINED in student.encoder.abilities:
                _copy_below_head(student.network, network)
            networks.append(network)
        return _Distillation(student, FusedNetworks(networks, self))

    def members(self, module: nn.Module) -> list[nn.Module]:
        """List the members and then the network that learns from them; or that alone, outside a training."""
        if isinstance(module, _Distillation):
            return [*module.teachers.networks, _Learner(module.student, module.teachers)]
        return [module]

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the evidential loss () of a member, or the divergence from the members' fused opinion."""
        if getattr(module, "teachers", None) is None:
            return super().objective(module, batch, epoch, num_train)
        logits, masses = module(batch.inputs, with_teachers=True)
        logits = at_least_float32(logits)
        losses = distillation_loss(logits, masses, self)
        return mean_loss(losses, batch.weights) + weight_penalty(module, self.weight_decay), logits

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Opinion:
        """Predict some inputs, in one pass."""
        return self.interpret(module(inputs))


def masses_of(opinion: Opinion) -> Tensor:
    """b_1, ..., b_K and u of opinions (N,), which sum to one, (N, K + 1)."""
    return torch.cat((opinion.belief, opinion.uncertainty.unsqueeze(1)), 1)


def distillation_loss(logits: Tensor, masses: Tensor, method: EDL) -> Tensor:
    """KL[masses || (b, u) of logits] of each sample, (N,).

    The masses b_k = e_k / S and u = K prior / S of the logits are a softmax of ln e_1, ..., ln e_K and
    ln(K prior): no evidence, however large, leaves the range of numbers.

    Args:
        logits: (N, K).
        masses: b_1, ..., b_K and u of the opinions that are learned, (N, K + 1).
        method: Says how logits are read.
    """
    logs = log_evidence(method.evidence, logits)
    prior = method.interpret(logits.detach()[:1]).prior
    doubt = logs.new_full((logs.shape[0], 1), math.log(logs.shape[1] * prior))
    log_masses = torch.cat((logs, doubt), 1).log_softmax(1)
    losses: Tensor = torch.special.xlogy(masses, masses) - masses * log_masses
    return losses.sum(1)


class Student(nn.Module):
    """The network that learns from others, and what it was built from.

    Args:
        network: Module from inputs (N, ...) to logits (N, K).
        encoder: What it was built from, and its teachers will be.
    """

    def __init__(self, network: nn.Module, encoder: EncoderSpec) -> None:
        super().__init__()
        self.network = network
        self.encoder = encoder

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits (N, K) for inputs (N, ...)."""
        logits: Tensor = self.network(inputs)
        return logits

    def features(self, inputs: Tensor) -> Tensor:
        """The features (N, F) of the network for inputs (N, ...)."""
        return features_of(self.network, inputs)

    @property
    def head(self) -> nn.Module:
        """The network's own, from features (N, F) to logits (N, K)."""
        return cast(nn.Module, self.network.head)


class _Distillation(nn.Module):
    """The members and the network that learns from them, as a training and its checkpoints hold them."""

    def __init__(self, student: Student, teachers: FusedNetworks) -> None:
        super().__init__()
        self.student = student
        self.teachers = teachers


class _Learner(nn.Module):
    """The network while it learns: it sees the teachers, which are not trained with it."""

    def __init__(self, student: Student, teachers: FusedNetworks) -> None:
        super().__init__()
        self.student = student
        self.teachers = (teachers,)  # in a tuple: they are no part of it, and have no gradient

    def forward(self, inputs: Tensor, with_teachers: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        logits: Tensor = self.student(inputs)
        if not with_teachers:
            return logits
        with torch.no_grad():
            fused = self.teachers[0].to(inputs.device).eval().opinion(inputs)
        return logits, masses_of(fused)

    @property
    def head(self) -> nn.Module:
        return self.student.head


@torch.no_grad()
def _copy_below_head(source: nn.Module, target: nn.Module) -> None:
    """Give a network all weights of another but those of its head, in place."""
    head = cast(nn.Module, target.head)
    of_head = {id(value) for value in (*head.parameters(), *head.buffers())}
    weights = source.state_dict()
    for name, value in target.state_dict(keep_vars=True).items():
        if id(value) not in of_head:
            value.copy_(weights[name])
