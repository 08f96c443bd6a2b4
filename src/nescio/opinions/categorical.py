"""Prediction: what prediction gives, whatever the method. An Opinion is one, a Categorical the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from nescio._checks import (
    at_least_float32,
    describe,
    looks_at_values,
    require_floating,
    require_raw_labels,
    require_trust,
)
from nescio.errors import InputError
from nescio.opinions._indexing import at_batch_index


@runtime_checkable
class Prediction(Protocol):
    """What every prediction has: probabilities of the classes (..., K), and how uncertain they are (...).

    Example:
        >>> import torch
        >>> from nescio import Categorical, Opinion
        >>> from nescio.opinions import Prediction
        >>> isinstance(Opinion(torch.ones(3)), Prediction)
        True
        >>> isinstance(Categorical(torch.tensor([0.5, 0.5])), Prediction)
        True
    """

    @property
    def probabilities(self) -> Tensor:
        """Of each class, (..., K)."""
        ...

    @property
    def uncertainty(self) -> Tensor:
        """From 0, sure, to 1, "I do not know", (...)."""
        ...

    @property
    def num_classes(self) -> int:
        """K."""
        ...

    @property
    def labels(self) -> Tensor:
        """The most probable class, (...)."""
        ...

    @property
    def is_vacuous(self) -> Tensor:
        """True where there is no answer at all, (...)."""
        ...

    def entropy(self, normalized: bool = False) -> Tensor:
        """Of the probabilities, in nats or as a share of log K, (...)."""
        ...

    def max_probability(self) -> Tensor:
        """The largest probability, (...)."""
        ...

    def numpy(self) -> dict[str, Any]:
        """Its quantities as arrays, by name."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, index: Any) -> Prediction: ...


@dataclass(frozen=True, eq=False, repr=False)
class Categorical:
    """Probabilities without beliefs, as softmax and averages of it give them; the class axis is the last.

    Its uncertainty is the normalised entropy, since softmax has no doubt of its own. A method that has one,
    but no evidence of which it would be the rest, gives it beside the probabilities.

    Args:
        probabilities: (..., K) in float32 or float64.
        own_uncertainty: The uncertainty (...) from 0 to 1 of a method that has one of its own; 1 is "I do
            not know", where there is no answer at all.
        raw_labels: The class of the greatest output (...) of the network, where the probabilities may have
            lost their order.

    Raises:
        InputError: If the probabilities are no such tensor, or the others do not fit them.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> prediction = Categorical(torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
        >>> prediction.uncertainty
        tensor([1., 0.])
        >>> Categorical(torch.tensor([[0.5, 0.5]]), own_uncertainty=torch.tensor([0.25])).uncertainty
        tensor([0.2500])
    """

    probabilities: Tensor
    own_uncertainty: Tensor | None = None
    raw_labels: Tensor | None = None

    def __post_init__(self) -> None:
        require_floating("probabilities", self.probabilities, class_axis=-1)
        if self.probabilities.dtype not in (torch.float32, torch.float64):
            raise InputError(f"probabilities must be float32 or float64, got {describe(self.probabilities)}")
        batch = self.probabilities.shape[:-1]
        _require_uncertainty(self.own_uncertainty, batch)
        require_raw_labels(self.raw_labels, batch)

    @classmethod
    def from_logits(cls, logits: Tensor, *, dim: int = -1) -> Categorical:
        """The softmax of a network's outputs.

        Args:
            logits: The outputs, with K classes on the axis `dim`.
            dim: The axis of the classes: 1 for the outputs (N, K, H, W) of a segmentation network.

        Returns:
            The prediction; whatever `dim` is, its class axis is the last.

        Raises:
            InputError: If the logits are no such tensor.

        Example:
            >>> import torch
            >>> from nescio import Categorical
            >>> Categorical.from_logits(torch.zeros(2, 3, 32, 64), dim=1)
            Categorical(batch (2, 32, 64), 3 classes)
        """
        require_floating("logits", logits, class_axis=dim)
        return cls(at_least_float32(logits).softmax(dim).movedim(dim, -1))

    @property
    def num_classes(self) -> int:
        """K."""
        return self.probabilities.shape[-1]

    @property
    def uncertainty(self) -> Tensor:
        """Its own where there is one, else the normalised entropy, (...)."""
        if self.own_uncertainty is not None:
            return self.own_uncertainty
        return self.entropy(normalized=True).clamp_max(1)  # of equal probabilities it can round to above 1

    @property
    def labels(self) -> Tensor:
        """The class of the greatest raw output, or else the most probable one, (...)."""
        if self.raw_labels is not None:
            return self.raw_labels
        return self.probabilities.argmax(-1)

    @property
    def is_vacuous(self) -> Tensor:
        """True where its own uncertainty is 1; softmax always has an answer, (...)."""
        if self.own_uncertainty is not None:
            return self.own_uncertainty >= 1
        return torch.zeros(self.probabilities.shape[:-1], dtype=torch.bool, device=self.probabilities.device)

    def entropy(self, normalized: bool = False) -> Tensor:
        """-sum p ln p in nats; normalized: as a share of ln K, (...)."""
        value: Tensor = torch.special.entr(self.probabilities).sum(-1)
        if normalized:
            value = value / math.log(self.num_classes)
        return value

    def max_probability(self) -> Tensor:
        """The largest probability, (...)."""
        return self.probabilities.amax(-1)

    def discount(self, trust: float | Tensor) -> Categorical:
        """The prediction as it counts when its source is trusted this much.

        Its probabilities are mixed with equal ones, t p + (1 - t) / K, and an uncertainty of its own becomes
        1 - t (1 - u): what `Opinion.discount` makes of those of an opinion.

        Args:
            trust: 0 to 1, one number or a tensor that broadcasts to the batch (...).

        Returns:
            The discounted prediction (...).

        Raises:
            InputError: If trust is not 0 to 1, or does not fit the batch.

        Example:
            >>> import torch
            >>> from nescio import Categorical
            >>> Categorical(torch.tensor([1.0, 0.0])).discount(0.5).probabilities
            tensor([0.7500, 0.2500])
        """
        trust = require_trust(trust, self.probabilities)
        own_uncertainty = None
        if self.own_uncertainty is not None:
            own_uncertainty = 1 - trust * (1 - self.own_uncertainty)
        trust = trust.unsqueeze(-1)
        mixed = trust * self.probabilities + (1 - trust) / self.num_classes
        return Categorical(mixed, own_uncertainty, self.raw_labels)

    def to(self, *args: Any, **kwargs: Any) -> Categorical:
        """The same predictions on another device, or as float32 or float64; arguments as of `Tensor.to`.

        Example:
            >>> import torch
            >>> from nescio import Categorical
            >>> Categorical(torch.tensor([0.5, 0.5])).to(torch.float64).probabilities.dtype
            torch.float64
        """
        probabilities = self.probabilities.to(*args, **kwargs)
        own_uncertainty = self.own_uncertainty
        if own_uncertainty is not None:
            own_uncertainty = own_uncertainty.to(probabilities)
        raw_labels = self.raw_labels
        if raw_labels is not None:
            raw_labels = raw_labels.to(probabilities.device)
        return Categorical(probabilities, own_uncertainty, raw_labels)

    def numpy(self) -> dict[str, Any]:
        """Copies of uncertainty, probabilities, labels and is_vacuous as numpy arrays, by these names."""
        names = ("uncertainty", "probabilities", "labels", "is_vacuous")
        return {name: getattr(self, name).detach().cpu().numpy().copy() for name in names}

    def __len__(self) -> int:
        if self.probabilities.ndim == 1:
            raise TypeError("a single prediction has no length")
        return len(self.probabilities)

    def __getitem__(self, index: Any) -> Categorical:
        if self.probabilities.ndim == 1:
            raise InputError("a single prediction can't be indexed; its arrays can")
        own_uncertainty = None
        if self.own_uncertainty is not None:
            own_uncertainty = self.own_uncertainty[index]
        raw_labels = None
        if self.raw_labels is not None:
            raw_labels = self.raw_labels[index]
        return Categorical(at_batch_index(self.probabilities, index), own_uncertainty, raw_labels)

    def __repr__(self) -> str:
        return f"Categorical(batch {tuple(self.probabilities.shape[:-1])}, {self.num_classes} classes)"


def _require_uncertainty(value: object, batch: torch.Size) -> None:
    """Refuse what is not from 0 to 1 for each input of a batch (...); None is no uncertainty."""
    if value is None:
        return
    if not isinstance(value, Tensor) or not value.is_floating_point() or value.shape != batch:
        raise InputError(
            f"own_uncertainty must be a tensor of floating point numbers of shape {tuple(batch)}, "
            f"got {describe(value)}"
        )
    if looks_at_values(value, None) and bool(((value < 0) | (value > 1)).any()):
        least, most = (float(bound) for bound in value.detach().aminmax())
        raise InputError(f"own_uncertainty must be 0 to 1, got {least:g} to {most:g}")
