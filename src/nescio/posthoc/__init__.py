"""After training, on held-out data: when to answer and when to abstain."""

from nescio.posthoc.abstention import AbstentionRule

__all__ = ["AbstentionRule"]
