"""Opinion: what a classifier thinks of its inputs, as belief, uncertainty and everything derived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nescio._checks import (
    LEAST_PRIOR,
    at_least_float32,
    describe,
    looks_at_values,
    require_evidence,
    require_floating,
    require_prior,
    require_raw_labels,
    require_trust,
)
from nescio.errors import InputError, NotFiniteError
from nescio.functional import _dirichlet
from nescio.functional.evidence import EvidenceFunction, evidence_function
from nescio.opinions._indexing import at_batch_index

_ROUNDING = 1e-4  # by which the sum of base rates may differ from 1


@dataclass(frozen=True, eq=False, repr=False)
class Opinion:
    """Subjective opinions of any batch shape; the last axis of the evidence is the class.

    Everything is derived from the evidence e and the prior: alpha = e + prior, strength S = sum of alpha,
    belief e / S, uncertainty K prior / S, probabilities alpha / S (equations 1 and 2 of the paper, where the
    prior is 1). The tensor given is used as it is, not copied.

    The probabilities share the uncertainty u equally among the classes, p = b + u / K. With base rates a, as
    subjective logic has them, it is p = b + u a, and alpha = e + K prior a: belief and uncertainty stay. A
    temperature (`nescio.posthoc.Temperature`) sets them.

    Args:
        evidence: (..., K) in float32 or float64, zero or more.
        prior: Prior of each class, 1e-6 to 1e6. The smaller it is, the less evidence makes an opinion sure.
        raw_labels: The class of the greatest output (...) of the network that the evidence was read from,
            where there was one. Outputs have an order even where they give no evidence at all.
        base_rates: The share of the uncertainty that counts for each class in the probabilities, (..., K),
            zero or more, with the sum 1; None for equal shares, 1 / K.

    Raises:
        InputError: If the evidence is no such tensor, the prior no such number, or labels or base rates do
            not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> opinion = Opinion(torch.tensor([40.0] + [0.0] * 9))
        >>> opinion
        Opinion(class 0, belief 0.800, uncertainty 0.200)
        >>> opinion.probabilities[:2]
        tensor([0.8200, 0.0200])
    """

    evidence: Tensor
    prior: float = 1.0
    raw_labels: Tensor | None = None
    base_rates: Tensor | None = None

    def __post_init__(self) -> None:
        require_floating("evidence", self.evidence, class_axis=-1)
        if self.evidence.dtype not in (torch.float32, torch.float64):
            raise InputError(f"evidence must be float32 or float64, got {describe(self.evidence)}")
        object.__setattr__(self, "prior", require_prior(self.prior))
        require_raw_labels(self.raw_labels, self.evidence.shape[:-1])
        _require_base_rates(self.base_rates, self.evidence)

    @classmethod
    def from_evidence(
        cls,
        evidence: Tensor,
        *,
        prior: float = 1.0,
        base_rates: Tensor | None = None,
        validate: bool | None = None,
    ) -> Opinion:
        """From evidence whose values are looked at.

        Args:
            evidence: (..., K), zero or more; types narrower than float32 become that.
            prior: Prior of each class.
            base_rates: The share of the uncertainty that counts for each class, (..., K); None for equal
                shares.
            validate: Whether to look at the values; by default on the CPU only, where that is cheap.

        Returns:
            The opinions (...).

        Raises:
            InputError: If the evidence has another form, or is below zero or not finite, or the base rates
                are no such shares.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion.from_evidence(torch.tensor([[8.0, 0.0], [0.0, 0.0]])).uncertainty
            tensor([0.2000, 1.0000])
        """
        require_floating("evidence", evidence, class_axis=-1)
        require_evidence(evidence, validate)
        evidence = at_least_float32(evidence)
        if base_rates is not None:
            require_floating("base_rates", base_rates, class_axis=-1)
            _require_shares(base_rates, validate)
            base_rates = base_rates.to(evidence)
        return cls(evidence, prior, base_rates=base_rates)

    @classmethod
    def from_logits(
        cls,
        logits: Tensor,
        evidence: str | EvidenceFunction = "exp",
        *,
        prior: float = 1.0,
        dim: int = -1,
        validate: bool | None = None,
    ) -> Opinion:
        """From a network's outputs, as they were trained; `EvidentialLoss.opinion` knows how that was.

        Args:
            logits: The outputs, with K classes on the axis `dim`.
            evidence: The evidence function that the network was trained with: "exp", "relu", "softplus" or a
                function from logits to evidence of the same shape.
            prior: Prior of each class, as in the training.
            dim: The axis of the classes. It is 1 for the outputs (N, K, H, W) of a segmentation network.
            validate: Whether to look at the values; by default on the CPU only, where that is cheap.

        Returns:
            The opinions; whatever `dim` is, their class axis is the last: (N, H, W, K).

        Raises:
            InputError: If there is no such axis, or the evidence is below zero or not finite.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> outputs = torch.zeros(2, 3, 32, 64)  # 3 classes for each of 32 x 64 pixels
            >>> Opinion.from_logits(outputs, dim=1)
            Opinion(batch (2, 32, 64), 3 classes, mean uncertainty 0.500)
        """
        function = evidence_function(evidence)
        require_floating("logits", logits, class_axis=dim)
        result = at_least_float32(
            require_floating("evidence", function(at_least_float32(logits)), class_axis=dim)
        )
        if result.shape != logits.shape:
            raise InputError(
                f"the evidence function must keep the shape {tuple(logits.shape)}, gave {describe(result)}"
            )
        try:
            require_evidence(result, validate)
        except InputError as error:
            if bool(logits.isnan().any()):
                raise NotFiniteError("logits must be numbers, got NaN") from error
            raise
        return cls(result.movedim(dim, -1), prior, logits.detach().argmax(dim))

    @property
    def num_classes(self) -> int:
        """K."""
        return self.evidence.shape[-1]

    @property
    def alpha(self) -> Tensor:
        """Parameters of the Dirichlet distribution, e + prior, or e + K prior a with base rates, (..., K)."""
        if self.base_rates is None:
            return self.evidence + self.prior
        return self.evidence + self._prior_strength * self.base_rates

    @property
    def strength(self) -> Tensor:
        """S, the sum of alpha, (...)."""
        return self.evidence.sum(-1) + self._prior_strength

    @property
    def belief(self) -> Tensor:
        """b = e / S, the mass of each class, (..., K)."""
        return self.evidence / self.strength.unsqueeze(-1)

    @property
    def uncertainty(self) -> Tensor:
        """u = K prior / S, the mass of "I do not know", (...)."""
        return self._prior_strength / self.strength

    @property
    def probabilities(self) -> Tensor:
        """p = alpha / S, the mean of the Dirichlet distribution, (..., K)."""
        return self.alpha / self.strength.unsqueeze(-1)

    @property
    def labels(self) -> Tensor:
        """The class of the greatest raw output, or else of the greatest probability, (...).

        Where `is_vacuous` is true there is no evidence for it: it is a guess, or without outputs nothing.
        """
        if self.raw_labels is not None:
            return self.raw_labels
        if self.base_rates is None:
            return self.evidence.argmax(-1)  # which has an order where alpha is rounded
        return self.alpha.argmax(-1)

    @property
    def is_vacuous(self) -> Tensor:
        """True where there is no evidence at all: the opinion is "I do not know", (...)."""
        return self.evidence.amax(-1) == 0

    def max_probability(self) -> Tensor:
        """The largest probability, (...)."""
        return self.probabilities.amax(-1)

    def entropy(self, normalized: bool = False) -> Tensor:
        """Entropy of the probabilities: the total uncertainty, -sum_k p_k ln p_k.

        Args:
            normalized: Whether to give a share of ln K, 0 to 1, instead of nats.

        Returns:
            The entropy, (...).

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.zeros(4)).entropy(normalized=True)
            tensor(1.)
        """
        evidence, prior = self._above_one_prior()
        return _dirichlet.entropy(evidence, normalized, prior)

    def expected_entropy(self) -> Tensor:
        """Mean entropy of the class distributions drawn, the aleatoric part, in nats, (...).

        -sum_k p_k (psi(alpha_k + 1) - psi(S + 1))

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([40.0, 0.0])).expected_entropy()
            tensor(0.1025)
        """
        return _dirichlet.expected_entropy(*self._above_one_prior())

    def mutual_information(self) -> Tensor:
        """Entropy less expected entropy, the epistemic part, in nats, (...).

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([[0.0, 0.0], [40.0, 40.0]])).mutual_information()
            tensor([0.1931, 0.0061])
        """
        return _dirichlet.mutual_information(*self._above_one_prior())

    def differential_entropy(self) -> Tensor:
        """Entropy of the Dirichlet density itself, in nats, (...); it has no lower bound.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([[0.0, 0.0], [40.0, 40.0]])).differential_entropy()
            tensor([-0.0000, -1.4837])
        """
        return _dirichlet.differential_entropy(*self._above_one_prior())

    def dissonance(self) -> Tensor:
        """Conflict between beliefs, 0 to 1, (...): high where classes with like belief compete.

        sum_i b_i (sum_{j != i} b_j Bal(i, j)) / (sum_{j != i} b_j), Bal = 1 - |b_i - b_j| / (b_i + b_j)

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([[40.0, 40.0], [80.0, 0.0]])).dissonance()
            tensor([0.9756, 0.0000])
        """
        return _dirichlet.dissonance(self.belief)

    def discount(self, trust: float | Tensor) -> Opinion:
        """The opinion as it counts when its source is trusted this much.

        Belief becomes t b, uncertainty 1 - t (1 - u): doubt from outside the network enters so. What it adds
        to the uncertainty is shared equally by the classes: probabilities become t p + (1 - t) / K.

        Args:
            trust: 0 to 1, one number or a tensor that broadcasts to the batch (...).

        Returns:
            The discounted opinions (...), of the same prior.

        Raises:
            InputError: If trust is not 0 to 1, or does not fit the batch.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([40.0] + [0.0] * 9)).discount(0.5)
            Opinion(class 0, belief 0.400, uncertainty 0.600)
        """
        trust = require_trust(trust, self.evidence)
        total = self.evidence.sum(-1)
        share = trust * self._prior_strength / (self._prior_strength + (1 - trust) * total)
        evidence = self.evidence * share.unsqueeze(-1)
        return Opinion(evidence, self.prior, self.raw_labels, self._discounted_base_rates(trust))

    def _discounted_base_rates(self, trust: Tensor) -> Tensor | None:
        """(t u a + (1 - t) / K) / (t u + 1 - t), (..., K): what the discount adds is shared equally."""
        if self.base_rates is None:
            return None
        kept = (trust * self.uncertainty).unsqueeze(-1)
        added = (1 - trust).unsqueeze(-1)
        return (kept * self.base_rates + added / self.num_classes) / (kept + added)

    def dirichlet(self) -> torch.distributions.Dirichlet:
        """The Dirichlet distribution as torch has it, to sample from.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([1.0, 3.0])).dirichlet().concentration
            tensor([2., 4.])
        """
        return torch.distributions.Dirichlet(self.alpha)

    def to(self, *args: Any, **kwargs: Any) -> Opinion:
        """The same opinions on another device, or as float32 or float64; arguments as of `Tensor.to`.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.ones(3)).to(torch.float64).evidence.dtype
            torch.float64
        """
        evidence = self.evidence.to(*args, **kwargs)
        raw_labels = self.raw_labels
        if raw_labels is not None:
            raw_labels = raw_labels.to(evidence.device)
        base_rates = self.base_rates
        if base_rates is not None:
            base_rates = base_rates.to(evidence)
        return Opinion(evidence, self.prior, raw_labels, base_rates)

    def numpy(self) -> dict[str, Any]:
        """Copies as numpy arrays.

        Returns:
            evidence, belief, uncertainty, probabilities, labels and is_vacuous, by these names.

        Example:
            >>> import torch
            >>> from nescio import Opinion
            >>> Opinion(torch.tensor([8.0, 0.0])).numpy()["probabilities"].round(2).tolist()
            [0.8999999761581421, 0.10000000149011612]
        """
        names = ("evidence", "belief", "uncertainty", "probabilities", "labels", "is_vacuous")
        return {name: getattr(self, name).detach().cpu().numpy().copy() for name in names}

    def __len__(self) -> int:
        if self.evidence.ndim == 1:
            raise TypeError("a single opinion has no length")
        return len(self.evidence)

    def __getitem__(self, index: Any) -> Opinion:
        if self.evidence.ndim == 1:
            raise InputError("a single opinion can't be indexed; its arrays can: opinion.belief[0]")
        raw_labels = None
        if self.raw_labels is not None:
            raw_labels = self.raw_labels[index]
        base_rates = None
        if self.base_rates is not None:
            base_rates = at_batch_index(self.base_rates, index)
        return Opinion(at_batch_index(self.evidence, index), self.prior, raw_labels, base_rates)

    def __repr__(self) -> str:
        # The prior is said where it is not the paper's.
        prior = "" if self.prior == 1 else f", prior {self.prior:g}"
        if self.evidence.ndim > 1:
            mean = ""
            if self.evidence.numel():
                mean = f", mean uncertainty {float(self.uncertainty.detach().mean()):.3f}"
            batch = tuple(self.evidence.shape[:-1])
            return f"Opinion(batch {batch}, {self.num_classes} classes{mean}{prior})"
        answer = "I do not know"
        if not bool(self.is_vacuous):
            answer = f"class {int(self.labels)}"
        belief = float(self.belief.detach().amax())
        uncertainty = float(self.uncertainty.detach())
        return f"Opinion({answer}, belief {belief:.3f}, uncertainty {uncertainty:.3f}{prior})"

    @property
    def _prior_strength(self) -> float:
        """S without any evidence: K prior."""
        return self.num_classes * self.prior

    def _above_one_prior(self) -> tuple[Tensor, float]:
        """alpha as evidence (..., K) and one prior for all classes: with base rates, the least there is."""
        if self.base_rates is None:
            return self.evidence, self.prior
        return (self.alpha - LEAST_PRIOR).clamp_min(0), LEAST_PRIOR


def written_base_rates(opinions: Sequence[Opinion]) -> list[Tensor] | None:
    """The base rates of each (..., K), also where they are equal; None where they are in all opinions."""
    if all(opinion.base_rates is None for opinion in opinions):
        return None
    rates = []
    for opinion in opinions:
        if opinion.base_rates is None:
            rates.append(torch.full_like(opinion.evidence, 1 / opinion.num_classes))
        else:
            rates.append(opinion.base_rates)
    return rates


def _require_base_rates(base_rates: object, evidence: Tensor) -> None:
    """Refuse what has not the form of the evidence; None is equal shares."""
    if base_rates is None:
        return
    fits = isinstance(base_rates, Tensor) and base_rates.dtype == evidence.dtype
    if not isinstance(base_rates, Tensor) or not fits or base_rates.shape != evidence.shape:
        raise InputError(
            f"base_rates must be a tensor like the evidence, {describe(evidence)}, got {describe(base_rates)}"
        )


def _require_shares(base_rates: Tensor, validate: bool | None) -> None:
    """Refuse base rates (..., K) that are no shares."""
    if not base_rates.numel() or not looks_at_values(base_rates, validate):
        return
    least = float(base_rates.detach().amin())
    furthest = float((base_rates.detach().sum(-1) - 1).abs().amax())
    if not (least >= 0 and furthest <= _ROUNDING):
        raise InputError("base_rates must be zero or more for each class, with the sum 1")
