"""The experiments of the study, and the part of them that is asked for."""

from __future__ import annotations

from collections.abc import Sequence

from nescio._checks import require_whole
from nescio.errors import InputError
from nescio.studies.study import Experiment, Study, require_names
from nescio.studies.successors._arms import ARMS
from nescio.studies.successors._sets import SETS

NAME = "successors"


def study_of(seeds: int | None = None) -> Study:
    """All experiments of the study.

    Args:
        seeds: So many trainings of each arm, instead of the study's own number.

    Raises:
        InputError: If seeds is below 1.

    Example:
        >>> study_of(seeds=1).experiments[0].name
        'letter/softmax-0'
    """
    if seeds is not None:
        require_whole("seeds", seeds)
    experiments: list[Experiment] = []
    for each in SETS.values():
        experiments += each.experiments(seeds)
    return Study(NAME, tuple(experiments))


def plan(seeds: int | None = None, only: Sequence[str] = (), methods: Sequence[str] = ()) -> list[Experiment]:
    """The experiments that are asked for.

    Args:
        seeds: So many trainings of each arm, instead of the study's own number.
        only: Only these data sets.
        methods: Only these arms.

    Raises:
        InputError: If a name is not known, or nothing is left.
    """
    study = study_of(seeds)
    require_names("only", only, list(SETS))
    require_names("methods", methods, list(ARMS))
    selected = study.select(only, methods).experiments
    if not selected:
        raise InputError(f"the study has nothing for {', '.join((*only, *methods))} together")
    return list(selected)
