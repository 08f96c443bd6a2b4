"""After training, on held-out data: honest probabilities, doubt of unusual inputs, and when to abstain."""

from nescio.posthoc.abstention import AbstentionRule
from nescio.posthoc.conformal import ConformalSets
from nescio.posthoc.state import Posthoc, WithPValues
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import Trust, half_at_for

__all__ = ["AbstentionRule", "ConformalSets", "Posthoc", "Temperature", "Trust", "WithPValues", "half_at_for"]
