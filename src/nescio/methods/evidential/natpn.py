"""NatPN: evidence from the density of a normalizing flow on a small latent space."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from nescio._checks import at_least_float32, require_number, require_whole
from nescio._precision import widest
from nescio.encoders import Ability, EncoderSpec, replace_head
from nescio.errors import InputError
from nescio.functional import cross_entropy_risk, divergence
from nescio.functional.evidence import EXP_HIGHEST, exp
from nescio.methods._shared import linear_head
from nescio.methods.base import Batch, FeatureBatch, Method, mean_loss
from nescio.opinions.opinion import Opinion

# ln of the budget for each latent dimension: (4 pi)^(d/2) times the density is the evidence under "normal",
# 2^(d/2) at the most dense point of a standard normal distribution.
_LOG_BUDGETS = {"normal": 0.5 * math.log(4 * math.pi), "exp": 1.0, "exp-half": 0.5, "constant": 0.0}

# Adam's rate is that of the authors' code.
_TUNING_RATE = 1e-3
_TUNING_BATCH = 256
_LEAST_RISE = 0.01  # of the mean log-density, in nats


@dataclass(frozen=True)
class NatPN(Method):
    """Natural posterior network: how much evidence there is comes from a density, which class from a softmax.

    The features of an input become a small latent vector x. A linear layer and softmax give the probabilities
    chi(x) of the K classes, and a normalizing flow the density q(x). Together they are an opinion:

        n = q(x) * budget,  e = n chi,  alpha = e + 1

    The loss of a sample is equation 4 of EDL less `entropy_weight` times the entropy of Dirichlet(alpha). The
    flow is a chain of radial ones,

        x' = x + beta h (x - c),  h = 1 / (a + |x - c|),  a > 0,  beta > -a,

    and is trained together with all else. That loss asks for much evidence wherever the network is right, not
    for a density of the training samples: inputs of other classes can get more evidence than known ones. So,
    as in the authors' code, the flow alone is then tuned to the likelihood of the training samples' latent
    vectors, by Adam. The authors also train it so for three epochs before all else; that is left out here.

    Args:
        latent_size: Number of latent dimensions.
        flow_length: Number of radial steps of the flow; 0 for a standard normal density.
        budget: What the density is multiplied by: "normal", (4 pi)^(d / 2) in d latent dimensions, "exp",
            e^d, "exp-half", e^(d / 2), or "constant", 1.
        entropy_weight: Weight of the entropy of the Dirichlet distribution.
        tuning_epochs: The flow is tuned for so many epochs at most; it ends when the mean log-density has not
            risen by 0.01 within a tenth of them. 0 leaves it as it was trained.

    Raises:
        InputError: If a setting is not what it must be.

    Example:
        >>> from nescio.encoders import MLPSpec
        >>> from nescio.methods import make_method
        >>> network = make_method("natpn", latent_size=2).build(MLPSpec(4, 3))
        >>> network(torch.zeros(5, 4)).shape
        torch.Size([5, 3])
    """

    name: ClassVar[str] = "natpn"
    about: ClassVar[str] = "evidential: how much evidence comes from a normalizing flow, from one pass"
    paper: ClassVar[str] = "Charpentier et al. 2022, Natural Posterior Network"
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    has_second_stage: ClassVar[bool] = True
    takes_soft_labels: ClassVar[bool] = True

    latent_size: int = 16
    flow_length: int = 8
    budget: str = "normal"
    entropy_weight: float = 1e-5
    tuning_epochs: int = 100

    def __post_init__(self) -> None:
        require_whole("latent_size", self.latent_size)
        require_whole("flow_length", self.flow_length, least=0)
        if self.budget not in _LOG_BUDGETS:
            raise InputError(f"budget must be one of {', '.join(_LOG_BUDGETS)}, got {self.budget!r}")
        require_number("entropy_weight", self.entropy_weight)
        require_whole("tuning_epochs", self.tuning_epochs, least=0)

    def build(self, encoder: EncoderSpec) -> nn.Module:
        """Build the network, with the latent space and the flow in place of its head.

        Args:
            encoder: What to build.

        Returns:
            A network from inputs (N, ...) to logits (N, K), the logarithms of the evidence.

        Raises:
            InputError: If the encoder has no features.
        """
        return self._with_density(super().build(encoder), encoder.num_classes, encoder.num_features)

    def check_module(self, module: nn.Module) -> nn.Module:
        """Put the latent space and the flow in place of the head of a network of the user's own.

        Args:
            module: Network with `features(inputs)` and an nn.Linear as its `head`.

        Returns:
            The same network.

        Raises:
            InputError: If it has no features, another head, or a density of other settings.
        """
        present = getattr(module, "head", None)
        if isinstance(present, DensityHead):
            self._require_same(present)
            return module
        head = linear_head(module, self.name)
        return self._with_density(module, head.out_features, head.in_features)

    @property
    def _log_budget(self) -> float:
        return _LOG_BUDGETS[self.budget] * self.latent_size

    def _require_same(self, head: DensityHead) -> None:
        """Refuse a head that was made with other settings."""
        settings = (self.latent_size, self.flow_length, self._log_budget)
        if (head.latent.out_features, len(head.flow), head.log_budget) != settings:
            raise InputError(
                "the network has the density of another NatPN, with another latent_size, flow_length or "
                "budget; give a network with an nn.Linear as its head, or the same settings"
            )

    def _with_density(self, network: nn.Module, num_classes: int, num_features: int) -> nn.Module:
        log_budget = self._log_budget
        head = DensityHead(num_features, num_classes, self.latent_size, self.flow_length, log_budget)
        replace_head(network, head)
        return network

    def objective(
        self, module: nn.Module, batch: Batch, epoch: float, num_train: int
    ) -> tuple[Tensor, Tensor]:
        """Compute the loss (), and the logits (N, K), the logarithms of the evidence."""
        logits = at_least_float32(module(batch.inputs))
        return mean_loss(self._losses(logits, batch.labels), batch.weights), logits

    def _losses(self, logits: Tensor, labels: Tensor) -> Tensor:
        """The loss of each sample (N,), from logits (N, K) and labels (N,) or soft labels (N, K)."""
        evidence = exp(logits)
        # The uniform Dirichlet distribution has the greatest entropy, and the divergence is how far below it
        # an opinion is.
        entropy = -divergence(evidence) - math.lgamma(logits.shape[1])
        return cross_entropy_risk(evidence, labels) - self.entropy_weight * entropy

    def fit_second_stage(self, module: nn.Module, batches: Iterable[FeatureBatch]) -> None:
        """Tune the flow to the likelihood of the latent vectors of all training samples.

        Args:
            module: The trained network, in evaluation mode.
            batches: Features of all training samples, in batches; are gone through once.
        """
        if not self.tuning_epochs:
            return
        head = cast(DensityHead, module.head)
        latents = []
        weights = []
        with torch.no_grad():
            for batch in batches:
                latents.append(at_least_float32(head.latent(batch.features)))
                if batch.weights is None:
                    weights.append(torch.ones_like(latents[-1][:, 0]))
                else:
                    weights.append(batch.weights)
        latent = torch.cat(latents)
        with torch.enable_grad():
            _tune_flow(head, latent, torch.cat(weights).to(latent), self.tuning_epochs)

    def interpret(self, logits: Tensor) -> Opinion:
        """Turn logits (N, K) into an opinion."""
        return Opinion.from_logits(logits, "exp")


def _tune_flow(head: DensityHead, latent: Tensor, weights: Tensor, epochs: int) -> None:
    """Raise the mean log-density of latent vectors (N, D) with weights (N,), by the flow alone."""
    if not len(head.flow) or not bool(weights.sum() > 0):
        return
    optimizer = torch.optim.Adam(head.flow.parameters(), lr=_TUNING_RATE)
    generator = torch.Generator().manual_seed(0)
    patience = max(1, epochs // 10)
    best = -math.inf
    last_better = 0
    for epoch in range(epochs):
        total = 0.0
        order = torch.randperm(len(latent), generator=generator, device=generator.device).to(latent.device)
        for start in range(0, len(order), _TUNING_BATCH):
            places = order[start : start + _TUNING_BATCH]
            shares = weights[places]
            mean = (shares * head.log_density(latent[places])).sum() / shares.sum().clamp_min(1e-12)
            if not bool(mean.isfinite()):
                continue  # one sample beyond all bounds must not make the flow useless for all
            optimizer.zero_grad()
            (-mean).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            total += float(mean.detach() * shares.sum())
        reached = total / float(weights.sum())
        if reached > best + _LEAST_RISE:
            best = reached
            last_better = epoch
        if epoch - last_better >= patience:
            return


class DensityHead(nn.Module):
    """From features (N, F) to the logarithms of the evidence (N, K).

    Args:
        num_features: F.
        num_classes: K.
        latent_size: Number of latent dimensions.
        flow_length: Number of steps of the flow.
        log_budget: Is added to the log-density.
    """

    def __init__(
        self, num_features: int, num_classes: int, latent_size: int, flow_length: int, log_budget: float
    ) -> None:
        super().__init__()
        self.latent = nn.Linear(num_features, latent_size)
        self.classes = nn.Linear(latent_size, num_classes)
        self.flow = nn.ModuleList(RadialStep(latent_size) for _ in range(flow_length))
        self.log_budget = log_budget

    def forward(self, features: Tensor) -> Tensor:
        """Compute ln n + ln chi, in float32 at least: a density has a wider range than a logit."""
        latent = at_least_float32(self.latent(features))
        log_probabilities = at_least_float32(self.classes(latent)).log_softmax(1)
        log_evidence = self.log_density(latent) + self.log_budget
        # The evidence of each class is held at exp(30) later. Here it is their sum, so that the classes keep
        # their shares; what is taken off counts as a constant, so that the gradient goes on.
        above = (log_evidence - EXP_HIGHEST).clamp_min(0).detach()
        return (log_evidence - above).to(latent.dtype).unsqueeze(1) + log_probabilities

    def log_density(self, latent: Tensor) -> Tensor:
        """ln q (N,) of latent vectors (N, D), in the widest type."""
        place = widest(latent)
        log_determinant = place.new_zeros(place.shape[0])
        for step in self.flow:
            place, added = step(place)
            log_determinant = log_determinant + added
        log_normal = -0.5 * (place.square() + math.log(2 * math.pi)).sum(1)
        return log_normal + log_determinant


class RadialStep(nn.Module):
    """x' = x + beta h (x - c) with h = 1 / (a + r), r = |x - c|: space drawn to a point, or pushed from it.

    Its derivative has the determinant (1 + beta h)^(D - 1) (1 + beta h - beta h^2 r).

    Args:
        size: D.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        spread = 1 / math.sqrt(size)
        self.center = nn.Parameter(torch.empty(size).uniform_(-spread, spread))
        self.raw_distance = nn.Parameter(torch.empty(()).uniform_(-spread, spread))  # a before softplus
        self.raw_strength = nn.Parameter(
            torch.empty(()).uniform_(-spread, spread)
        )  # beta + a before softplus

    def forward(self, place: Tensor) -> tuple[Tensor, Tensor]:
        """x' (N, D) of x (N, D), both in the widest type, and the logarithm of the determinant (N,)."""
        distance = softplus(widest(self.raw_distance))  # a
        reach = softplus(widest(self.raw_strength))  # beta + a, above 0
        away = place - widest(self.center)
        radius = torch.linalg.vector_norm(away, dim=1)
        pull = 1 / (distance + radius)  # h
        # 1 + beta h = (r + beta + a) h and 1 + beta h - beta h^2 r = 1 + beta a h^2 as sums of what is above
        # zero: their logarithms stay finite however close beta comes to -a.
        stretch = (radius + reach) * pull
        along = (radius * (radius + 2 * distance) + distance * reach) * pull.square()
        moved = widest(self.center) + stretch.unsqueeze(1) * away
        return moved, (place.shape[1] - 1) * stretch.log() + along.log()
