"""What to minimise: the risks and the divergence, as functions and as a module."""

from nescio.losses.modules import EvidentialLoss

__all__ = ["EvidentialLoss"]
