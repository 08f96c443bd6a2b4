"""Overrides: how one arm differs from what its comparison says. EvalConfig: what its networks are asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from nescio.errors import InputError
from nescio.studies.plan import Settings


@dataclass(frozen=True)
class EvalConfig:
    """What the trained networks of a comparison are asked.

    Args:
        known, ood: So many test images, drawn once for all; None for all of them.
        attacked: So many test images are attacked, drawn once for all.
        batch: So many are attacked at once.
        rotation: Whether there is a digit 1 to turn.
        fgsm, pgd: The epsilons of the attacks.
        steps: Number of steps of PGD.
        fresh_draws: Whether PGD draws anew in every step, where the method draws.
        samples: Draws that a prediction is the mean of; None for as many as the method has in training.
        attack_samples: The same under attack; None for as many as otherwise.
    """

    known: int | None
    ood: int | None
    attacked: int
    batch: int
    rotation: bool
    fgsm: tuple[float, ...]
    pgd: tuple[float, ...]
    steps: int
    fresh_draws: bool
    samples: int | None = None
    attack_samples: int | None = None


@dataclass(frozen=True)
class Overrides:
    """Differences by field name; what is not named stays.

    Args:
        method, encoder, training: Changed fields of the settings of a training.
        evaluation: Changed fields of EvalConfig.
        source: Changes of the L2 network from which attacks are transferred to this arm.
    """

    method: Settings = field(default_factory=dict)
    encoder: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    evaluation: Settings = field(default_factory=dict)
    source: Overrides | None = None

    def then(self, other: Overrides | None) -> Overrides:
        """These, and the other's on top."""
        if other is None:
            return self
        return Overrides(
            method={**self.method, **other.method},
            encoder={**self.encoder, **other.encoder},
            training={**self.training, **other.training},
            evaluation={**self.evaluation, **other.evaluation},
            source=self.source if other.source is None else other.source,
        )

    def applied_to(self, config: EvalConfig) -> EvalConfig:
        """What the networks of this arm are asked.

        Raises:
            InputError: If EvalConfig has no such field.
        """
        try:
            return replace(config, **self.evaluation)
        except TypeError as error:
            raise InputError(f"settings do not fit EvalConfig: {error}") from error
