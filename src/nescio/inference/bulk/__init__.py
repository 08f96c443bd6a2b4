"""Bulk scoring: what a model says of a whole folder or array, as one Parquet file."""

from nescio.inference.bulk.run import Outcome, score

__all__ = ["Outcome", "score"]
