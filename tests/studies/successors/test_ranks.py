import math
import random

import pytest
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.successors._ranks import CRITERIA, Ranking, critical_difference, rank, ranking
from nescio.studies.successors._results import PLAIN, POSTHOC
from nescio.studies.successors._sets import ALL_ARMS, SETS


def naive_ranks(values, is_higher_better):
    """Each method against every other: one more for each that is better, a half for each that is equal."""
    arms = list(next(iter(values.values())))
    found = dict.fromkeys(arms, 0.0)
    for row in values.values():
        for arm in arms:
            place = 1.0
            for other in arms:
                is_better = row[other] > row[arm] if is_higher_better else row[other] < row[arm]
                if other != arm and is_better:
                    place += 1
                if other != arm and row[other] == row[arm]:
                    place += 0.5
            found[arm] += place / len(values)
    return found


def drawn(seed, methods=5, blocks=6, levels=4):
    generator = random.Random(seed)
    values = {}
    for block in range(blocks):
        values[str(block)] = {f"m{method}": generator.randrange(levels) / levels for method in range(methods)}
    return values


@pytest.mark.parametrize("is_higher_better", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_ranks_are_those_of_every_pair_and_the_test_is_scipy_s(seed, is_higher_better):
    from scipy.stats import friedmanchisquare

    values = drawn(seed)
    found = rank(values, is_higher_better)
    assert found.mean_ranks == pytest.approx(naive_ranks(values, is_higher_better))
    columns = []
    for arm in found.mean_ranks:
        columns.append([row[arm] for row in values.values()])
    expected = friedmanchisquare(*columns)
    assert found.statistic == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue)


def test_the_critical_difference_of_demsar_s_paper():
    """Section 3.2.3 there: four methods, fourteen data sets, q = 2.569."""
    assert critical_difference(4, 14) == pytest.approx(2.569 * math.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.01)


def test_methods_that_are_all_alike():
    alike = {"a": 1.0, "b": 1.0, "c": 1.0}
    found = rank({"x": alike, "y": alike}, True)
    assert found.mean_ranks == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert found.statistic == 0.0
    assert found.p_value == 1.0


def test_methods_whose_ranks_cancel_out():
    found = rank({"x": {"a": 1.0, "b": 2.0, "c": 3.0}, "y": {"a": 3.0, "b": 2.0, "c": 1.0}}, True)
    assert found.mean_ranks == {"a": 2.0, "b": 2.0, "c": 2.0}
    assert found.statistic == 0.0
    assert found.p_value == 1.0


def test_too_few():
    assert rank({}, True) is None
    assert rank({"x": {"a": 1.0, "b": 2.0, "c": 3.0}}, True) is None
    assert rank({"x": {"a": 1.0, "b": 2.0}, "y": {"a": 1.0, "b": 2.0}}, True) is None


def test_groups_that_do_not_differ():
    ranks = {"a": 1.0, "b": 1.8, "c": 2.9, "d": 5.0}
    found = Ranking(ranks, ("x",), 0.0, 1.0, critical_difference=1.5)
    assert found.groups() == [("a", "b"), ("b", "c")]
    assert Ranking(ranks, ("x",), 0.0, 1.0, critical_difference=9).groups() == [("a", "b", "c", "d")]
    assert Ranking(ranks, ("x",), 0.0, 1.0, critical_difference=0.1).groups() == []


def test_only_data_sets_with_all_methods_are_ranked_over():
    made = []
    for name in ("letter", "clinc150", "cifar5"):
        for place, arm in enumerate(ALL_ARMS):
            if (name, arm) != ("cifar5", "red"):
                made.append(result(arm, name, auroc=0.5 + place / 100, accuracy=0.9 - place / 100))
    results = results_of(made)
    auroc, accuracy = (ranking(results, each, PLAIN) for each in CRITERIA[:2])
    assert list(accuracy.blocks) == [SETS["letter"].title, SETS["clinc150"].title]
    assert auroc.mean_ranks[ALL_ARMS[-1]] == 1.0
    assert accuracy.mean_ranks[ALL_ARMS[0]] == 1.0
    assert auroc.not_ranked == ()
    assert ranking(results, CRITERIA[0], POSTHOC) is None
    assert ranking(EMPTY, CRITERIA[0], PLAIN) is None


def test_of_an_unfinished_study_the_methods_that_all_its_data_sets_share_are_ranked():
    made = []
    for name, arms in (("letter", ALL_ARMS), ("clinc150", ALL_ARMS[:9]), ("cifar5", ALL_ARMS[:2])):
        for place, arm in enumerate(arms):
            made.append(result(arm, name, accuracy=0.9 - place / 100))
    found = ranking(results_of(made), CRITERIA[1], PLAIN)
    assert list(found.blocks) == [SETS["letter"].title, SETS["clinc150"].title]
    assert list(found.mean_ranks) == list(ALL_ARMS[:9])
    assert found.mean_ranks[ALL_ARMS[8]] == 9.0
    assert found.not_ranked == ALL_ARMS[9:]
