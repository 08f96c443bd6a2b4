"""Opinion: what a classifier thinks of its inputs, as belief, uncertainty and everything derived."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio._checks import (
    as_computed,
    describe,
    looks_at_values,
    require_evidence,
    require_floating,
    require_number,
)
from nescio.errors import InputError
from nescio.functional import dirichlet
from nescio.functional.evidence import EvidenceFunction, evidence_function


@dataclass(frozen=True, eq=False, repr=False)
class Opinion:
    """Subjective opinions of any batch shape; the last axis of evidence (..., K) is the class.

    Everything is derived from the evidence e: alpha = e + 1, strength S = sum of alpha, belief e / S,
    uncertainty K / S, probabilities alpha / S (equations 1 and 2 of the paper). The tensor given is used as
    it is, not copied.

    raw_labels: the class of the greatest output (...) of the network that the evidence was read from, where
    there was one. Outputs have an order even where they give no evidence at all.
    """

    evidence: Tensor
    raw_labels: Tensor | None = None

    def __post_init__(self) -> None:
        require_floating("evidence", self.evidence, class_axis=-1)
        if self.evidence.dtype not in (torch.float32, torch.float64):
            raise InputError(f"evidence must be float32 or float64, got {describe(self.evidence)}")

    @classmethod
    def from_evidence(cls, evidence: Tensor, *, validate: bool | None = None) -> Opinion:
        """From evidence (..., K), zero or more. `validate`: look at the values; default on the CPU."""
        require_floating("evidence", evidence, class_axis=-1)
        require_evidence(evidence, validate)
        return cls(as_computed(evidence))

    @classmethod
    def from_logits(
        cls, logits: Tensor, evidence: str | EvidenceFunction = "exp", *, validate: bool | None = None
    ) -> Opinion:
        """From a network's outputs (..., K), by the evidence function that it was trained with."""
        require_floating("logits", logits, class_axis=-1)
        result = evidence_function(evidence)(as_computed(logits))
        try:
            opinion = cls.from_evidence(result, validate=validate)
        except InputError as error:
            if bool(logits.isnan().any()):
                raise InputError("logits must be numbers, got NaN") from error
            raise
        return cls(opinion.evidence, logits.detach().argmax(-1))

    @property
    def num_classes(self) -> int:
        """K."""
        return self.evidence.shape[-1]

    @property
    def alpha(self) -> Tensor:
        """Parameters of the Dirichlet distribution, e + 1, (..., K)."""
        return self.evidence + 1

    @property
    def strength(self) -> Tensor:
        """S, the sum of alpha, (...)."""
        return self.evidence.sum(-1) + self.num_classes

    @property
    def belief(self) -> Tensor:
        """b = e / S, the mass of each class, (..., K)."""
        return self.evidence / self.strength.unsqueeze(-1)

    @property
    def uncertainty(self) -> Tensor:
        """u = K / S, the mass of "I do not know", (...)."""
        return self.num_classes / self.strength

    @property
    def probabilities(self) -> Tensor:
        """p = alpha / S, the mean of the Dirichlet distribution, (..., K)."""
        return self.alpha / self.strength.unsqueeze(-1)

    @property
    def labels(self) -> Tensor:
        """The class of the greatest raw output, or else of the most evidence, (...).

        Where `is_vacuous` is true there is no evidence for it: it is a guess, or without outputs nothing.
        """
        return self.evidence.argmax(-1) if self.raw_labels is None else self.raw_labels

    @property
    def is_vacuous(self) -> Tensor:
        """True where there is no evidence at all: the opinion is "I do not know", (...)."""
        return self.evidence.amax(-1) == 0

    def max_probability(self) -> Tensor:
        """The largest probability, (...)."""
        return self.probabilities.amax(-1)

    def entropy(self, normalized: bool = False) -> Tensor:
        """Entropy of the probabilities, total uncertainty in nats, (...); normalized: over log K."""
        return dirichlet.entropy(self.evidence, normalized)

    def expected_entropy(self) -> Tensor:
        """Mean entropy of the class distributions drawn, the aleatoric part, (...)."""
        return dirichlet.expected_entropy(self.evidence)

    def mutual_information(self) -> Tensor:
        """Entropy less expected entropy, the epistemic part, (...)."""
        return dirichlet.mutual_information(self.evidence)

    def differential_entropy(self) -> Tensor:
        """Entropy of the Dirichlet density itself, (...)."""
        return dirichlet.differential_entropy(self.evidence)

    def dissonance(self) -> Tensor:
        """Conflict between beliefs, 0 to 1, (...): high where classes with like belief compete."""
        return dirichlet.dissonance(self.belief)

    def discount(self, trust: float | Tensor) -> Opinion:
        """As told by a source of this trust, 0 to 1: belief t b, uncertainty 1 - t (1 - u).

        trust: one number, or a tensor that broadcasts to the batch (...).
        """
        if not isinstance(trust, Tensor):
            require_number("trust", trust)
        trust = torch.as_tensor(trust, dtype=self.evidence.dtype, device=self.evidence.device)
        batch = self.evidence.shape[:-1]
        sizes = zip(trust.shape[::-1], batch[::-1], strict=False)
        if trust.ndim > len(batch) or any(own not in (1, size) for own, size in sizes):
            raise InputError(f"trust must be a number or fit the batch {tuple(batch)}, got {describe(trust)}")
        if looks_at_values(trust, None) and not bool(((trust >= 0) & (trust <= 1)).all()):
            raise InputError(f"trust must be 0 to 1, got {trust.tolist()}")
        total = self.evidence.sum(-1)
        share = trust * self.num_classes / (self.num_classes + (1 - trust) * total)
        return Opinion(self.evidence * share.unsqueeze(-1), self.raw_labels)

    def dirichlet(self) -> torch.distributions.Dirichlet:
        """The Dirichlet distribution as torch has it, to sample from."""
        return torch.distributions.Dirichlet(self.alpha)

    def to(self, *args: Any, **kwargs: Any) -> Opinion:
        """On another device, or as float32 or float64; as Tensor.to."""
        evidence = self.evidence.to(*args, **kwargs)
        return Opinion(evidence, None if self.raw_labels is None else self.raw_labels.to(evidence.device))

    def numpy(self) -> dict[str, Any]:
        """Arrays of their own: evidence, belief, uncertainty, probabilities, labels, rejected."""
        names = ("evidence", "belief", "uncertainty", "probabilities", "labels", "is_vacuous")
        return {name: getattr(self, name).detach().cpu().numpy().copy() for name in names}

    def __len__(self) -> int:
        if self.evidence.ndim == 1:
            raise TypeError("a single opinion has no length")
        return len(self.evidence)

    def __getitem__(self, index: Any) -> Opinion:
        if self.evidence.ndim == 1:
            raise InputError("a single opinion can't be indexed; its arrays can: opinion.belief[0]")
        # The index is put to the batch axes alone: it can't reach the classes, however it is written.
        batch = self.evidence.shape[:-1]
        chosen = torch.arange(batch.numel(), device=self.evidence.device).view(batch)[index]
        labels = None if self.raw_labels is None else self.raw_labels[index]
        return Opinion(self.evidence.reshape(-1, self.num_classes)[chosen], labels)

    def __repr__(self) -> str:
        if self.evidence.ndim > 1:
            shape = tuple(self.evidence.shape[:-1])
            mean = f", mean uncertainty {float(self.uncertainty.mean()):.3f}" if self.evidence.numel() else ""
            return f"Opinion(batch {shape}, {self.num_classes} classes{mean})"
        verdict = "I do not know" if bool(self.is_vacuous) else f"class {int(self.labels)}"
        belief = float(self.belief.amax())
        return f"Opinion({verdict}, belief {belief:.3f}, uncertainty {float(self.uncertainty):.3f})"
