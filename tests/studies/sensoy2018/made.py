"""Results made by hand."""

from nescio.studies.results import Result
from nescio.studies.sensoy2018._results import PaperResults


def result(arm, comparison="mnist", seed=0, **numbers):
    """Of one training."""
    return Result(comparison, arm, seed, numbers)


def results_of(results, preset="paper"):
    """A set of them."""
    return PaperResults(results, preset)


EMPTY = results_of([])
