"""Method: how to build a network, what to minimise on a batch, how to predict. Nothing else differs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nescio._registry import require_defined
from nescio.encoders import Ability, EncoderSpec, Layers, require_features
from nescio.encoders.base import TORCH_LAYERS
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.opinion import Opinion, written_base_rates

_REQUIRED = {
    "name": "as users and files give it",
    "about": "one line for people",
    "objective": "the loss of a batch",
}
_ASKED_FOR = {
    Ability.DROPOUT: "dropout that can be set",
    Ability.LAYERS: "layers that can be replaced",
    Ability.FEATURES: "features below its head",
    Ability.PRETRAINED: "pretrained weights",
}

# More than these is a mistake, or a file that somebody wrote to keep its reader busy.
MOST_SAMPLES = 10_000
MOST_MEMBERS = 1_000


class Batch(NamedTuple):
    """What a loss is computed on.

    Args:
        inputs: Inputs (N, C, ...) as the network takes them.
        labels: Class indices (N,), whole numbers from 0 on; for a method that takes soft labels maybe those,
            (N, K), which sum to one.
        weights: A weight for each sample (N,), or None for equal ones.
        input_range: Distance from the least to the greatest training input in each channel (C,), as the
            network takes them; None where it is not known.

    Example:
        >>> batch = Batch(torch.zeros(2, 4), torch.tensor([0, 1]))
        >>> batch.weights is None
        True
    """

    inputs: Tensor
    labels: Tensor
    weights: Tensor | None = None
    input_range: Tensor | None = None


class FeatureBatch(NamedTuple):
    """What a second stage is fitted on.

    Args:
        features: Features (N, F) of the trained network.
        labels: Class indices (N,), whole numbers from 0 on.
        weights: A weight for each sample (N,), or None for equal ones.

    Example:
        >>> batch = FeatureBatch(torch.ones(2, 5), torch.tensor([0, 1]))
        >>> batch.features.shape
        torch.Size([2, 5])
    """

    features: Tensor
    labels: Tensor
    weights: Tensor | None = None


class Method(ABC):
    """A way to train a classifier and to read its outputs: a frozen dataclass of settings.

    A new one extends this class and defines `name`, `about` and `objective`; everything else is what most
    methods do, and is overridden where a method differs. What is missing is refused when the class is
    defined; a base class for several methods says `class Base(Method, abstract=True)`. Registered by
    `register_method` or by an entry point of the group `nescio.methods` it can be trained, saved, loaded and
    served by its name.

    Attributes:
        name: Name by which users ask for it and model files keep it.
        about: One line for people.
        paper: Where it comes from.
        is_stochastic: Whether a prediction draws at random.
        requires: What an encoder must be able to do.
        has_second_stage: Whether something is fitted on features after the training.
        uses_input_range: Whether `objective` looks at a batch's `input_range`: inputs that lie on the disk
            are gone through for it.
        takes_soft_labels: Whether `objective` takes labels (N, K) too, as mixup makes them.

    Example:
        >>> from dataclasses import dataclass
        >>> from nescio.methods import Batch, Method
        >>> @dataclass(frozen=True)
        ... class Margin(Method):
        ...     name = "margin"
        ...     about = "the margin between the true class and the others"
        ...
        ...     def objective(self, module, batch, epoch, num_train):
        ...         logits = module(batch.inputs)
        ...         return nn.functional.multi_margin_loss(logits, batch.labels), logits
        >>> Margin().interpret(torch.zeros(1, 4)).probabilities
        tensor([[0.2500, 0.2500, 0.2500, 0.2500]])
    """

    name: ClassVar[str]
    about: ClassVar[str]
    paper: ClassVar[str] = ""
    is_stochastic: ClassVar[bool] = False
    requires: ClassVar[frozenset[Ability]] = frozenset()
    has_second_stage: ClassVar[bool] = False
    uses_input_range: ClassVar[bool] = False
    takes_soft_labels: ClassVar[bool] = False

    def __init_subclass__(cls, abstract: bool = False, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if abstract:
            return
        require_defined(cls, Method, _REQUIRED)
        if cls.has_second_stage != (cls.fit_second_stage is not Method.fit_second_stage):
            raise InputError(
                f"{cls.__name__}: has_second_stage = True and fit_second_stage go together; "
                "define both, or neither"
            )
        if cls.has_second_stage and Ability.FEATURES not in cls.requires:
            raise InputError(f"{cls.__name__}: a second stage needs Ability.FEATURES among `requires`")

    @property
    def passes(self) -> int:
        """Forward passes that a prediction costs."""
        return 1

    @property
    def trainings(self) -> int:
        """Networks that are trained, one after the other."""
        return 1

    @property
    def uses_weight_decay(self) -> bool:
        """Whether the optimiser decays the weights of a network on rows where the user has not chosen.

        Here: where it has a setting `weight_decay`, a penalty of its own, and that is off. Not for a loss
        with a prior of the weights, for parameters that are no weights, such as the logarithm of a sigma, or
        for normalised layers.
        """
        return getattr(self, "weight_decay", None) == 0

    def default_encoder(self, encoder: EncoderSpec) -> EncoderSpec:
        """Adapt the default encoder to this method, where the user has chosen none.

        Args:
            encoder: The default for the data.
        """
        return encoder

    def layers(self) -> Layers:
        """Give the layers that networks are built from; other ones than torch's require `Ability.LAYERS`."""
        return TORCH_LAYERS

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build a new network for this method.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K).

        Raises:
            InputError: If the encoder lacks an ability that this method requires.
        """
        for ability in Ability:
            if ability in self.requires and ability not in encoder.abilities:
                raise InputError(
                    f"the method {self.name} needs an encoder with {_ASKED_FOR[ability]}, and "
                    f"{encoder.kind} has none; choose another encoder or another method"
                )
        return encoder.build(self.layers())

    def check_module(self, module: nn.Module) -> nn.Module:
        """Refuse a network of the user's own that this method can't train, and make others ready.

        Args:
            module: Network from inputs (N, ...) to logits (N, K).

        Returns:
            The network to train.

        Raises:
            InputError: If this method can't train it.
        """
        if Ability.FEATURES in self.requires:
            require_features(module)
        return module

    def for_training(self, module: nn.Module) -> nn.Module:
        """Put beside a network what it is trained with and what is no part of the model then.

        Checkpoints of a training hold all of it, the model file the network alone. Torch's own generator is
        seeded for it.

        Args:
            module: What `build` or `check_module` gave.

        Returns:
            The network itself, or a module that holds it and more.
        """
        return module

    def members(self, module: nn.Module) -> list[nn.Module]:
        """List the parts of a network that are trained one after the other, each with its own optimiser.

        Args:
            module: What `build`, `check_module` or `for_training` gave.
        """
        return [module]

    def encoders(self, module: nn.Module) -> list[nn.Module]:
        """List the networks that were built from the encoder, for its pretrained weights to be loaded into.

        Args:
            module: What `build` gave.

        Raises:
            InputError: If this method can't go on from pretrained weights.
        """
        return self.members(module)

    @abstractmethod
    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss of a batch, which is minimised.

        In evaluation mode it is the loss of held-out samples: nothing is drawn, no gradient is needed.

        Args:
            module: One of the members.
            batch: Batch of N samples.
            epoch: How far the training is, fractions included.
            num_train: Number of samples of the whole training set.

        Returns:
            The loss of the batch (), and the logits (N, K) that it came from.
        """

    def fit_second_stage(self, module: nn.Module, batches: Iterable[FeatureBatch]) -> None:
        """Fit what this method needs beside the trained weights, and keep it in buffers of the module.

        Buffers are part of the module's state, and so of the model file: `build` (and `check_module`) must
        make them, with the shapes that they will have.

        Args:
            module: The trained network, in evaluation mode; no gradient is kept.
            batches: Features of all training samples, in batches; may be gone through several times.
        """
        raise InputError(f"the method {self.name} has no second stage")

    def interpret(self, logits: Tensor) -> Prediction:
        """Turn the logits of one forward pass into a prediction.

        Args:
            logits: Outputs of the network (N, K).

        Returns:
            The prediction; softmax unless a method knows better.
        """
        return Categorical.from_logits(logits)

    def predict(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Prediction:
        """Predict some inputs.

        Args:
            module: Network in evaluation mode.
            inputs: Inputs (N, ...) as the network takes them.
            generator: What a stochastic method draws from, and nothing else.

        Returns:
            The prediction for each.
        """
        return self.interpret(module(inputs))

    def predict_each(self, module: nn.Module, inputs: Tensor, generator: torch.Generator) -> Prediction:
        """Predict some inputs, each as if it had been alone: its neighbours make no difference.

        A stochastic method is asked for one input after the other here, all with the same draws. One that
        draws once for all inputs, or can, overrides this with something faster.

        Args:
            module: Network in evaluation mode.
            inputs: Inputs (N, ...) as the network takes them.
            generator: What a stochastic method draws from, and nothing else.

        Returns:
            The prediction for each.
        """
        if not self.is_stochastic:
            return self.predict(module, inputs, generator)
        state = generator.get_state()
        parts = []
        for one in torch.split(inputs, 1):
            generator.set_state(state)
            parts.append(self.predict(module, one, generator))
        return concatenate(parts)


def concatenate(parts: Sequence[Prediction]) -> Prediction:
    """Join the predictions of several batches into one.

    Args:
        parts: One or more of the same kind, of (N, K) each.

    Returns:
        The prediction for all inputs, in their order.

    Example:
        >>> half = Categorical(torch.tensor([[0.5, 0.5]]))
        >>> len(concatenate([half, half, half]))
        3
    """
    opinions = [part for part in parts if isinstance(part, Opinion)]
    if len(opinions) == len(parts):
        labels = torch.cat([part.labels for part in opinions])
        evidence = torch.cat([part.evidence for part in opinions])
        rates = written_base_rates(opinions)
        return Opinion(evidence, opinions[0].prior, labels, None if rates is None else torch.cat(rates))
    probabilities = torch.cat([part.probabilities for part in parts])
    own_uncertainty = None
    if all(getattr(part, "own_uncertainty", None) is not None for part in parts):
        own_uncertainty = torch.cat([part.uncertainty for part in parts])
    raw_labels = None
    if any(getattr(part, "raw_labels", None) is not None for part in parts):
        raw_labels = torch.cat([part.labels for part in parts])
    return Categorical(probabilities, own_uncertainty, raw_labels)


def mean_loss(losses: Tensor, weights: Tensor | None) -> Tensor:
    """Average losses, weighted where there are weights.

    Args:
        losses: Loss of each sample (N,).
        weights: Weight of each sample (N,), or None for equal ones.

    Returns:
        The mean ().

    Example:
        >>> mean_loss(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0]))
        tensor(2.)
    """
    if weights is None:
        return losses.mean()
    return (losses * weights).sum() / weights.sum().clamp_min(torch.finfo(losses.dtype).tiny)
