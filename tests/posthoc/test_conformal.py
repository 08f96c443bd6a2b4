import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tests.references import naive_conformal_scores, naive_conformal_set

from nescio.errors import DataError, InputError, NotFiniteError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion
from nescio.posthoc.conformal import (
    SCORES,
    ConformalSets,
    _uniform,
    conformal_scores,
    conformal_threshold,
    fewest_samples,
)

WAYS = [
    {"score": "lac"},
    {"score": "aps"},
    {"score": "aps", "randomized": True},
    {"score": "raps"},
    {"score": "raps", "randomized": True},
]


def draw(size, generator, num_classes=5, sharpness=2.0):
    """Probabilities of a classifier that is somewhat too sure, and labels drawn by what is true."""
    logits = torch.randn(size, num_classes, generator=generator, dtype=torch.float64) * sharpness
    labels = torch.multinomial((logits / 1.3).softmax(1), 1, generator=generator)[:, 0]
    return logits.softmax(1), labels


# --------------------------------------------------------------------------------------------- the same sets


@pytest.mark.parametrize("score", SCORES)
def test_scores_are_those_of_the_formula(score):
    p, _ = draw(50, torch.Generator().manual_seed(0))
    of_ranks = {"penalty": 0.3, "free_ranks": 1} if score == "raps" else {}
    ours = conformal_scores(p, score, **of_ranks)
    for row, scores in zip(p.tolist(), ours.tolist(), strict=True):
        assert scores == pytest.approx(naive_conformal_scores(row, score, penalty=0.3, free_ranks=1))


def test_the_most_probable_class_is_in_every_set_of_aps():
    p, labels = draw(500, torch.Generator().manual_seed(0), num_classes=26)
    assert (conformal_scores(p.float(), "aps").amin(1) == 0).all()
    sets = ConformalSets.fit(p, labels, 0.05, "aps", allow_empty=True)
    assert sets.contains(p).gather(1, p.argmax(1)[:, None]).all()
    assert sets.held_out_empty == 0


def test_randomized_scores_count_a_part_of_the_own_probability():
    p, _ = draw(50, torch.Generator().manual_seed(0))
    ours = conformal_scores(p, "raps", randomized=True, seed=3, penalty=0.3, free_ranks=1)
    shares = _uniform(p, 3)[:, 0].tolist()
    for row, scores, share in zip(p.tolist(), ours.tolist(), shares, strict=True):
        expected = naive_conformal_scores(row, "raps", penalty=0.3, free_ranks=1, shares=share)
        assert scores == pytest.approx(expected)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_sets_are_those_of_p_values(score, coverage):
    generator = torch.Generator().manual_seed(5)
    known, labels = draw(60, generator)
    new, _ = draw(40, generator)
    sets = ConformalSets.fit(known, labels, coverage, score, allow_empty=True, penalty=0.2, free_ranks=1)
    inside = sets.contains(new)
    for row, members in zip(new.tolist(), inside, strict=True):
        expected = naive_conformal_set(
            known.tolist(), labels.tolist(), row, coverage, score, penalty=0.2, free_ranks=1
        )
        assert members.nonzero()[:, 0].tolist() == expected


def test_by_class_each_class_has_the_threshold_of_its_own_samples():
    known, labels = draw(300, torch.Generator().manual_seed(1), num_classes=3)
    sets = ConformalSets.fit(known, labels, 0.9, "aps", by_class=True)
    for place in range(3):
        mine = labels == place
        expected = conformal_threshold(conformal_scores(known[mine], "aps")[:, place], 0.9)
        assert sets.thresholds[place] == expected
    assert sets.fewest == int(labels.bincount().min())


# -------------------------------------------------------------------------------------------------- coverage

SPLITS = 200


def band(probability, trials):
    """What a share of so many trials leaves once in a thousand, on either side."""
    low = stats.binom.ppf(0.0005, trials, probability) / trials
    high = stats.binom.ppf(0.9995, trials, probability) / trials
    return low, high


def coverage_of_splits(way, coverage, by_class=False, size=100):
    """Whether one new sample is covered, for each of many draws of held-out data: independent trials."""
    generator = torch.Generator().manual_seed(13)
    hits = []
    for _ in range(SPLITS):
        known, labels = draw(size, generator)
        new, truth = draw(20, generator)
        sets = ConformalSets.fit(known, labels, coverage, **way, by_class=by_class, allow_empty=True)
        inside = sets.contains(new).gather(1, truth[:, None])[:, 0]
        hits.append((inside, truth))
    return hits


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("coverage", [0.7, 0.9])
def test_coverage_is_as_promised_over_many_draws(way, coverage):
    hits = coverage_of_splits(way, coverage)
    first = sum(bool(inside[0]) for inside, _ in hits) / SPLITS
    low, high = band(math.ceil(101 * coverage - 1e-9) / 101, SPLITS)
    assert low <= first <= high
    # All twenty new samples of a draw share its thresholds: the mean is known better still.
    mean = float(torch.stack([inside.double().mean() for inside, _ in hits]).mean())
    rank = math.ceil(101 * coverage - 1e-9)
    spread = math.sqrt(stats.beta.var(rank, 101 - rank) + coverage * (1 - coverage) / 20)
    assert abs(mean - rank / 101) < 4 * spread / math.sqrt(SPLITS)


@pytest.mark.parametrize("way", WAYS)
def test_coverage_by_class_is_as_promised_of_each_class(way):
    hits = coverage_of_splits(way, 0.8, by_class=True, size=200)
    inside = torch.cat([one for one, _ in hits])
    truth = torch.cat([one for _, one in hits])
    for place in range(5):
        mine = inside[truth == place].double()
        spread = math.sqrt(0.16 * (1 / len(mine) + 1 / (40 * SPLITS)))
        assert 0.8 - 4 * spread < mine.mean() < 0.8 + 1 / 25 + 4 * spread


def test_without_it_some_class_gets_less():
    """A class that the classifier misses: on average the promise holds, of that class it does not."""
    generator = torch.Generator().manual_seed(3)
    p, labels = draw(4000, generator)
    p[:, 0] *= 0.2
    p /= p.sum(1, keepdim=True)
    known, new, labels, truth = p[:2000], p[2000:], labels[:2000], labels[2000:]
    least = {}
    for by_class in (False, True):
        inside = ConformalSets.fit(known, labels, 0.9, by_class=by_class).contains(new)
        covered = inside.gather(1, truth[:, None])[:, 0]
        least[by_class] = float(covered[truth == 0].double().mean())
        assert covered.double().mean() > 0.87
    assert least[False] < 0.8
    assert least[True] > 0.86


def test_tied_scores_are_covered_too():
    generator = torch.Generator().manual_seed(2)
    covered = []
    for _ in range(SPLITS):
        p, labels = draw(120, generator)
        p = (p * 4).round() + 0.25
        p = p / p.sum(1, keepdim=True)
        sets = ConformalSets.fit(p[:100], labels[:100], 0.9, "raps", allow_empty=True)
        covered.append(sets.contains(p[100:]).gather(1, labels[100:, None]).double().mean())
    assert torch.stack(covered).mean() > 0.9 - 4 * 0.045 / math.sqrt(SPLITS)


def test_coverage_interval_is_that_of_the_beta_distribution():
    known, labels = draw(199, torch.Generator().manual_seed(1))
    sets = ConformalSets.fit(known, labels, 0.9)
    low, high = sets.coverage_interval(0.9)
    assert low == pytest.approx(stats.beta.ppf(0.05, 180, 20))
    assert high == pytest.approx(stats.beta.ppf(0.95, 180, 20))


# ------------------------------------------------------------------------------------------------- empty sets


def sure_data():
    """A classifier that is nearly always right: 80% are covered by few of its first classes."""
    sure = torch.linspace(0.6, 0.999, 400, dtype=torch.float64)
    p = torch.stack([sure, (1 - sure) / 2, (1 - sure) / 2], 1)
    return p, torch.zeros(400, dtype=torch.long)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[2], WAYS[4]])  # the others have no empty sets
def test_an_empty_set_takes_the_most_probable_class(way):
    p, labels = sure_data()
    bare = ConformalSets.fit(p, labels, 0.8, **way, allow_empty=True)
    inside = bare.contains(p)
    is_empty = ~inside.any(1)
    assert bare.held_out_empty == pytest.approx(float(is_empty.double().mean()))
    assert bare.held_out_empty > 0.1
    assert f", none for {100 * bare.held_out_empty:.3g}%, which are unlike" in bare.describe()
    filled = ConformalSets.fit(p, labels, 0.8, **way)
    assert filled.contains(p).any(1).all()
    assert torch.equal(filled.contains(p)[~is_empty], inside[~is_empty])
    assert filled.contains(p)[is_empty].tolist() == [[True, False, False]] * int(is_empty.sum())
    assert filled.held_out_size == pytest.approx(float(filled.contains(p).sum(1).double().mean()))
    assert "none for" not in filled.describe()


def test_an_empty_set_without_any_evidence_takes_the_class_of_the_greatest_output():
    p, labels = sure_data()
    sets = ConformalSets.fit(p, labels, 0.8, **WAYS[0])
    nothing = Opinion(torch.zeros(1, 3), raw_labels=torch.tensor([2]))
    assert nothing.labels.tolist() == [2]
    assert sets.contains(nothing).tolist() == [[False, False, True]]


# --------------------------------------------------------------------------- randomness, and what lies beside


def test_the_drawn_part_is_uniform_and_the_same_for_the_same_input():
    p, _ = draw(20_000, torch.Generator().manual_seed(0), num_classes=3)
    first = _uniform(p, 0)[:, 0]
    assert torch.equal(first[5:9], _uniform(p[5:9], 0)[:, 0])
    assert stats.kstest(first.numpy(), "uniform").pvalue > 1e-3
    other = _uniform(p, 1)[:, 0]
    assert abs(float(torch.corrcoef(torch.stack([first, other]))[0, 1])) < 0.03
    assert abs(float(torch.corrcoef(torch.stack([first, p[:, 0]]))[0, 1])) < 0.03
    nearly = _uniform(p.float().double(), 0)[:, 0]
    assert (nearly == first).double().mean() > 0.9


def test_sets_of_an_input_do_not_depend_on_those_beside_it():
    known, labels = draw(100, torch.Generator().manual_seed(0))
    sets = ConformalSets.fit(known, labels, 0.9, "aps", randomized=True)
    inside = sets.contains(known)
    assert torch.equal(inside[7], sets.contains(known[7]))
    assert torch.equal(inside[3:5], sets.contains(known[3:5]))
    assert torch.equal(inside.reshape(10, 10, 5), sets.contains(known.reshape(10, 10, 5)))


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_more_coverage_never_takes_a_class_away(data):
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    known, labels = draw(data.draw(st.integers(50, 300)), generator)
    way = data.draw(st.sampled_from(WAYS))
    low, high = sorted(data.draw(st.tuples(st.floats(0.05, 0.98), st.floats(0.05, 0.98))))
    few = ConformalSets.fit(known, labels, low, **way).contains(known)
    many = ConformalSets.fit(known, labels, high, **way).contains(known)
    assert not bool((few & ~many).any())


def test_takes_predictions_tensors_and_arrays():
    known, labels = draw(100, torch.Generator().manual_seed(0))
    sets = ConformalSets.fit(known, labels, 0.9)
    assert ConformalSets.fit(Categorical(known), labels.to(torch.int32), 0.9) == sets
    assert ConformalSets.fit(known.numpy(), labels.numpy(), 0.9) == sets
    opinion = Opinion(known * 50)
    assert sets.contains(opinion).shape == (100, 5)
    assert np.array_equal(sets.contains(known.numpy()).numpy(), sets.contains(known).numpy())
    with_gradient = known.clone().requires_grad_()
    assert ConformalSets.fit(with_gradient, labels, 0.9) == sets


# -------------------------------------------------------------------------------------------------- bad input


@settings(max_examples=300, deadline=None)
@given(st.floats(0.001, 0.9999))
def test_the_fewest_samples_are_just_enough(coverage):
    needed = fewest_samples(coverage)
    assert conformal_threshold(torch.arange(float(needed)), coverage) <= needed
    if needed > 1:
        with pytest.raises(DataError, match=f"needs {needed} held-out samples or more, got {needed - 1}"):
            conformal_threshold(torch.arange(float(needed - 1)), coverage)


@pytest.mark.parametrize(("coverage", "needed"), [(0.5, 1), (0.9, 9), (0.95, 19), (0.99, 99), (0.999, 999)])
def test_the_fewest_samples_of_round_numbers(coverage, needed):
    assert fewest_samples(coverage) == needed


def test_too_few_samples_are_refused_with_the_number_needed():
    known, labels = draw(18, torch.Generator().manual_seed(0))
    with pytest.raises(DataError, match="a coverage of 95% needs 19 held-out samples or more, got 18"):
        ConformalSets.fit(known, labels, 0.95)


def test_too_few_of_a_class_or_none_are_refused_by_name():
    known, labels = draw(200, torch.Generator().manual_seed(0), num_classes=4)
    labels[labels == 2] = 1
    message = r"a coverage of 95% of each class needs 19 held-out samples of each: cat has 0\. Use more"
    with pytest.raises(DataError, match=message):
        ConformalSets.fit(known, labels, by_class=True, classes=("a", "b", "cat", "d"))
    with pytest.raises(DataError, match=r"of each: 0 has \d, 1 has \d, 2 has 0 and 1 more\. Use"):
        ConformalSets.fit(known[:20], labels[:20], by_class=True)
    assert ConformalSets.fit(known, labels).held_out == 200  # together it can be promised


GOOD, LABELS = draw(40, torch.Generator().manual_seed(0), num_classes=3)


@pytest.mark.parametrize(
    ("prediction", "message"),
    [
        (None, r"prediction must be an Opinion, a Categorical or probabilities .*, got NoneType"),
        (LABELS, r"probabilities \(\.\.\., K\), got int64"),
        (GOOD[:0], r"one sample or more of two classes or more, got float64 \(0, 3\)"),
        (GOOD[:, :1], "two classes or more"),
        (GOOD * 3, "probabilities must be zero or more and sum to 1, got values from"),
        (GOOD - 0.5, "probabilities must be zero or more and sum to 1"),
    ],
)
def test_refuses_what_is_no_prediction(prediction, message):
    with pytest.raises(InputError, match=message):
        ConformalSets.fit(prediction, LABELS)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_refuses_what_is_not_finite(value):
    broken = GOOD.clone()
    broken[3, 1] = value
    with pytest.raises(NotFiniteError, match="probabilities must be finite, got NaN or infinity"):
        ConformalSets.fit(broken, LABELS)
    with pytest.raises(NotFiniteError, match="scores must be finite"):
        conformal_threshold(broken[:, 1], 0.5)
    with pytest.raises(InputError, match=r"scores must be a tensor of floating point numbers \(n,\), got"):
        conformal_threshold(LABELS, 0.5)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:5], r"labels must be a tensor of whole numbers of shape \(40,\), got int64 \(5,\)"),
        (LABELS.double(), r"whole numbers of shape \(40,\), got float64 \(40,\)"),
        (list(range(40)), "got list"),
        (
            np.array(["cat"] * 40),
            r"labels must be whole numbers of shape \(40,\), the positions of .*, got an array of <U3",
        ),
        (np.array([None] * 40), "got an array of object"),
        (LABELS + 1, "labels must be 0 to 2, got 1 to 3"),
        (LABELS - 1, "labels must be 0 to 2, got -1 to 1"),
    ],
)
def test_refuses_labels_that_do_not_fit(labels, message):
    with pytest.raises(InputError, match=message):
        ConformalSets.fit(GOOD, labels)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"coverage": 1.0}, "coverage must be a number between 0 and 1, got 1.0"),
        ({"coverage": True}, "coverage must be a number between 0 and 1, got True"),
        ({"coverage": math.nan}, "coverage must be a number between 0 and 1, got nan"),
        ({"coverage": "0.9"}, "coverage must be a number between 0 and 1, got '0.9'"),
        ({"score": "margin"}, "score must be one of lac, aps, raps, got 'margin'"),
        ({"randomized": True}, "randomized is for aps and raps"),
        ({"penalty": 0.5}, "penalty and free_ranks are for raps; lac adds nothing for ranks"),
        ({"free_ranks": 3, "score": "aps"}, "penalty and free_ranks are for raps; aps adds"),
        ({"randomized": 1, "score": "aps"}, "randomized must be True or False, got 1"),
        ({"by_class": "yes"}, "by_class must be True or False, got 'yes'"),
        ({"allow_empty": None}, "allow_empty must be True or False, got None"),
        ({"penalty": -1}, "penalty must be a number from 0 on, got -1"),
        ({"free_ranks": 1.5}, "free_ranks must be a whole number from 0 on, got 1.5"),
        ({"seed": -1}, "seed must be a whole number from 0 on, got -1"),
    ],
)
def test_refuses_options_that_do_not_fit(options, message):
    with pytest.raises(InputError, match=message):
        ConformalSets.fit(GOOD, LABELS, **options)


def test_refuses_other_classes():
    sets = ConformalSets.fit(GOOD, LABELS)
    with pytest.raises(InputError, match="prediction must have 3 classes like the sets, got 2"):
        sets.contains(torch.tensor([[0.5, 0.5]]))
    with pytest.raises(InputError, match="prediction must have 3 classes like the sets, got 2"):
        sets.contains(GOOD[:, :2])  # which does not sum to 1 either


def test_arrays_of_any_layout_are_taken():
    expected = ConformalSets.fit(GOOD.flip(0), LABELS.flip(0))
    assert ConformalSets.fit(GOOD.numpy()[::-1], LABELS.numpy()[::-1]) == expected
    with pytest.raises(InputError, match="prediction must be an Opinion, a Categorical or probabilities"):
        expected.contains(np.array([["a", "b", "c"]]))


def test_one_class_on_average_is_a_singular():
    sure = torch.tensor([[0.99, 0.01]], dtype=torch.float64).repeat(40, 1)
    sets = ConformalSets.fit(sure, torch.zeros(40, dtype=torch.int64))
    assert sets.describe().endswith("like the 40 held-out ones; 1 class on average")
    assert replace(sets, held_out_size=1.004).describe().endswith("; 1 class on average")
    assert replace(sets, held_out_size=1.5).describe().endswith("; 1.5 classes on average")


# ------------------------------------------------------------------------------------------------------- JSON


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("by_class", [False, True])
def test_goes_through_json_and_comes_back_the_same(way, by_class):
    sets = ConformalSets.fit(GOOD, LABELS, 0.6, **way, by_class=by_class, seed=4)
    text = json.dumps(sets.to_dict(), allow_nan=False)
    again = ConformalSets.from_dict(json.loads(text))
    assert again == sets
    assert torch.equal(again.contains(GOOD), sets.contains(GOOD))


SETS = ConformalSets.fit(GOOD, LABELS).to_dict()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1], "a ConformalSets must be a mapping of fields, got list"),
        ({"score": "lac"}, "got none of: allow_empty, by_class, .*; and unknown: -"),
        (SETS | {"alpha": 1}, "got none of: -; and unknown: alpha"),
        (SETS | {"thresholds": 0.5}, "thresholds must be a list, got float"),
        (SETS | {"thresholds": [0.5, 0.5]}, "thresholds must be 1, got 2"),
        (SETS | {"thresholds": ["high"]}, "thresholds must be a number from 0 on, got 'high'"),
        (SETS | {"by_class": True}, "thresholds must be 3, got 1"),
        (SETS | {"fewest": 41}, "fewest must be a whole number from 1 to 40, got 41"),
        (SETS | {"num_classes": 1}, "num_classes must be a whole number from 2 on, got 1"),
    ],
)
def test_from_dict_refuses_what_no_sets_wrote(values, message):
    with pytest.raises(InputError, match=message):
        ConformalSets.from_dict(values)


def test_thresholds_are_a_tuple():
    with pytest.raises(InputError, match="thresholds must be a tuple, got list"):
        ConformalSets(**SETS)
