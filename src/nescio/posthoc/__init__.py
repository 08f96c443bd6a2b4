"""After training, on held-out data: honest probabilities, and when to answer and when to abstain."""

from nescio.posthoc.abstention import AbstentionRule
from nescio.posthoc.conformal import ConformalSets
from nescio.posthoc.temperature import Temperature

__all__ = ["AbstentionRule", "ConformalSets", "Temperature"]
