"""Reports: pages and model cards that say in figures, pictures and plain sentences what a model can do."""

from nescio.reports._card import CardContext, write_card

__all__ = ["CardContext", "write_card"]
