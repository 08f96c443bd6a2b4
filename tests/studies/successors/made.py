"""Results made by hand."""

from nescio.studies.results import Result
from nescio.studies.successors._arms import ARMS
from nescio.studies.successors._results import SuccessorResults
from nescio.studies.successors._sets import SETS


def variant_numbers(study_set, auroc=0.9, accuracy=0.95, nll=0.2, ece=0.02, aurc=0.01, scores=None):
    """What is measured of one variant; auroc: of all OOD sets, or by name."""
    found = {}
    for ood in SETS[study_set].ood:
        value = auroc[ood] if isinstance(auroc, dict) else auroc
        one = {"auroc": value, "aupr": value, "fpr95": 1 - value}
        by = {"uncertainty": one, "entropy": one, "max_probability": one}
        found[ood] = {"samples": 100, "by": by, "mean_uncertainty": 0.6, "median_uncertainty": 0.7}
    known = {
        "accuracy": accuracy,
        "raw_accuracy": accuracy,
        "nll": nll,
        "ece": ece,
        "aurc": aurc,
        "augrc": aurc / 2,
        "mean_uncertainty": 0.1,
    }
    return {"samples": 200, "scores": {**known, **(scores or {})}, "ood": found}


def result(arm, study_set="letter", seed=0, posthoc=None, temperature=None, **plain):
    """Of one training; posthoc, temperature: changes of the numbers with them."""
    numbers = {"plain": {**variant_numbers(study_set, **plain), "passes": 1, "trainings": 1}}
    if posthoc is not None:
        numbers["posthoc"] = {
            "all": variant_numbers(study_set, **{**plain, **posthoc}),
            "temperature": variant_numbers(study_set, **{**plain, **(temperature or {})}),
        }
    training = {
        "method": dict(ARMS[arm].method),
        "encoder": {"dropout": 0.0},
        "training": {"epochs": 3, "batch_size": 4, "learning_rate": 0.1, "schedule": "cosine"},
    }
    return Result(study_set, arm, seed, numbers, training=training)


def results_of(results, experiments=()):
    """A set of them."""
    return SuccessorResults(results, experiments)


EMPTY = results_of([])
