import json
import math
import re
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from nescio.data import load
from nescio.encoders import LeNetSpec
from nescio.errors import InputError, NescioWarning
from nescio.inference.model import TrainedModel
from nescio.opinions.categorical import Categorical
from nescio.opinions.measures import MEASURES
from nescio.opinions.opinion import Opinion
from nescio.posthoc._certificates import EVERYTHING, levels_of
from nescio.posthoc.abstention import NOTHING, AbstentionRule
from nescio.training import TrainingSettings

# Populations with a known error: how a score u in (0, 1) is drawn, how often an input with that score is
# wrong, and the true error of all inputs with a score below t.


class Uniform:
    """u is uniform; `error` is the chance of an error at u, `total` its integral from 0 to u."""

    def __init__(self, error, total, target):
        self.error, self.total, self.target = error, total, target

    def draw(self, n, generator):
        score = torch.rand(n, generator=generator, dtype=torch.float64)
        return score, torch.rand(n, generator=generator) < self.error(score)

    def true_error(self, threshold):
        return self.total(min(threshold, 1.0)) / min(threshold, 1.0)


class Atoms:
    """u takes few values, each with a weight and an error: all scores are tied."""

    def __init__(self, values, weights, errors, target):
        self.values, self.weights = torch.tensor(values, dtype=torch.float64), torch.tensor(weights)
        self.errors, self.target = torch.tensor(errors), target

    def draw(self, n, generator):
        chosen = torch.multinomial(self.weights, n, replacement=True, generator=generator)
        return self.values[chosen], torch.rand(n, generator=generator) < self.errors[chosen]

    def true_error(self, threshold):
        weights = self.weights * (self.values < threshold - 1e-9)  # 1 - (1 - u) is u but for a rounding
        return float((weights * self.errors).sum() / weights.sum())


def constant(rate, target):
    return Uniform(lambda u: torch.full_like(u, rate), lambda t: rate * t, target)


def step_total(t):
    return 0.0525 * min(t, 0.6) + 0.3 * max(t - 0.6, 0)


POPULATIONS = {
    # The target is reached at u < 0.707.
    "monotone": Uniform(lambda u: 0.3 * u**2, lambda t: 0.1 * t**3, 0.05),
    # The surest are the worst; every threshold is above the target, all of them together barely.
    "anti-monotone": Uniform(lambda u: 0.2 * (1 - u), lambda t: 0.2 * t - 0.1 * t**2, 0.099),
    # Every candidate is on the wrong side by a hair: the hardest case for the union bound.
    "constant just above": constant(0.0505, 0.05),
    "step": Uniform(lambda u: 0.0525 + 0.2475 * (u > 0.6), step_total, 0.05),
    # Up and down: thresholds are good and bad by turns.
    "wave": Uniform(
        lambda u: 0.05 + 0.05 * torch.sin(40 * u),
        lambda t: 0.05 * t + 0.05 * (1 - math.cos(40 * t)) / 40,
        0.05,
    ),
    "tied": Atoms([0.1, 0.2, 0.5, 0.9], [0.3, 0.3, 0.2, 0.2], [0.052, 0.052, 0.03, 0.3], 0.05),
    "two values": Atoms([0.25, 0.75], [0.5, 0.5], [0.0505, 0.2], 0.05),
}
DRAWS = 400
LEVEL = 0.05


def as_prediction(score):
    """Two classes; 1 - max_probability is half the score. The answer is always class 0."""
    return Categorical(torch.stack((1 - score / 2, score / 2), -1))


def as_opinion(score):
    """Two classes; the uncertainty 2 / (2 + e) is the score. The answer is always class 0."""
    evidence = 2 / score.clamp(min=1e-9) - 2
    return Opinion(torch.stack((evidence, torch.zeros_like(evidence)), -1))


def quietly(*args, **kwargs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NescioWarning)
        return AbstentionRule.for_error(*args, **kwargs)


def chosen_by_rule(score, wrong, target):
    return quietly(as_prediction(score), wrong.long(), target, 1 - LEVEL, "max_probability").threshold * 2


def chosen_by_eye(score, wrong, target):
    """What is often done: the most coverage whose held-out error is at most the target."""
    ordered, order = score.sort()
    rate = wrong[order].cumsum(0) / torch.arange(1, len(score) + 1)
    good = (rate <= target).nonzero()
    return float(ordered[good[-1]]) + 1e-12 if len(good) else NOTHING


def broken_promises(population, choose, n=400, draws=DRAWS):
    """In how many of many held-out sets the true error of the chosen threshold exceeds the target."""
    generator = torch.Generator().manual_seed(7)
    chosen = [choose(*population.draw(n, generator), population.target) for _ in range(draws)]
    return sum(t > NOTHING and population.true_error(t) > population.target for t in chosen)


def at_most(level, draws):
    """More than this many of `draws` happen once in a thousand if the chance of each is `level`."""
    return stats.binom.ppf(0.999, draws, level)


@pytest.mark.parametrize("name", POPULATIONS)
def test_keeps_its_promise_on_repeated_draws(name):
    assert broken_promises(POPULATIONS[name], chosen_by_rule) <= at_most(LEVEL, DRAWS)


@pytest.mark.parametrize("name", ["constant just above", "monotone", "two values"])
def test_the_same_draws_catch_a_rule_without_a_bound(name):
    assert broken_promises(POPULATIONS[name], chosen_by_eye, draws=300) > 3 * at_most(LEVEL, 300)


def test_small_sets_keep_their_promise_and_give_nothing_away():
    """With one candidate no bound is lost: 59 samples without an error come in 0.9495^59 = 4.7% of draws."""
    assert 0.95**59 <= levels_of(59, 0.05, LEVEL)[59] <= LEVEL
    draws = 1000  # fewer would not tell a level that is given away from chance
    broken = broken_promises(POPULATIONS["constant just above"], chosen_by_rule, n=59, draws=draws)
    assert stats.binom.ppf(0.001, draws, 0.9495**59) <= broken <= at_most(LEVEL, draws)


def test_low_confidence_is_kept_too():
    population = constant(0.055, 0.05)
    generator = torch.Generator().manual_seed(3)
    draws = (population.draw(80, generator) for _ in range(500))
    broken = sum(quietly(as_prediction(score), wrong.long(), 0.05, 0.7).met for score, wrong in draws)
    assert 0 < broken <= at_most(0.3, 500)


def test_opinions_some_without_evidence_keep_their_promise():
    """A quarter has no evidence and is always wrong: it is neither accepted nor held against the rule."""
    generator = torch.Generator().manual_seed(11)
    broken, met, draws = 0, 0, 400
    for _ in range(draws):
        score = torch.rand(1000, generator=generator, dtype=torch.float64)
        wrong = torch.rand(1000, generator=generator) < 0.3 * score**2
        silent = torch.rand(1000, generator=generator) < 0.25
        rule = quietly(as_opinion(score.masked_fill(silent, 1.0)), (wrong | silent).long(), 0.05)
        met += rule.met
        broken += rule.met and 0.1 * min(rule.threshold, 1) ** 2 > 0.05
    assert broken <= at_most(LEVEL, draws)
    assert met > 0.8 * draws


@pytest.fixture(scope="module")
def digits_opinion():
    """What a network says of real digits that it was not trained on, and what they are."""
    digits = load("digits")
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(digits), generator=generator)
    train, rest = digits.take(order[:500]), digits.take(order[500:])
    network = LeNetSpec(filters=(4, 8), hidden=32, dropout=0.0)
    how = TrainingSettings(epochs=12, batch_size=32, learning_rate=3e-3)
    return TrainedModel.train(train, network=network, settings=how).predict(rest.images), rest.labels


@pytest.mark.parametrize(("target", "measure"), [(0.05, "uncertainty"), (0.06, "max_probability")])
def test_keeps_its_promise_on_random_splits_of_real_digits(digits_opinion, target, measure):
    """A model's opinions, halved by chance many times: the error of the half that the rule never saw."""
    opinion, labels = digits_opinion
    wrong = opinion.labels != labels
    assert wrong.double().mean() > 1.5 * target  # there is something to promise
    generator = torch.Generator().manual_seed(1)
    broken, met, splits = 0, 0, 200
    for _ in range(splits):
        mine, other = torch.randperm(len(labels), generator=generator).chunk(2)
        rule = quietly(opinion[mine], labels[mine], target, 1 - LEVEL, measure)
        accepted = rule.accept(opinion[other])
        met += rule.met
        broken += rule.met and bool(accepted.any()) and wrong[other][accepted].double().mean() > target
    assert met == splits
    assert broken <= LEVEL * splits


def test_a_constant_error_just_below_the_target_is_seen_with_enough_samples():
    score, wrong = constant(0.045, 0.05).draw(20_000, torch.Generator().manual_seed(2))
    rule = AbstentionRule.for_error(as_opinion(score), wrong.long(), 0.05)
    assert rule.held_out_coverage == pytest.approx(0.92, abs=1e-3)  # the largest share, beyond a half
    few = quietly(as_opinion(score[:500]), wrong[:500].long(), 0.05)
    assert not few.met


def test_the_bound_that_is_stored_holds_too():
    population = POPULATIONS["wave"]
    generator = torch.Generator().manual_seed(5)
    rules = []
    for _ in range(300):
        score, wrong = population.draw(600, generator)
        rules.append(quietly(as_prediction(score), wrong.long(), 0.15, measure="max_probability"))
    assert all(rule.met and rule.held_out_error < rule.bound <= 0.15 for rule in rules)
    assert sum(population.true_error(2 * rule.threshold) > rule.bound for rule in rules) <= at_most(
        LEVEL, 300
    )


def held_out(n=1000, seed=0, rate=lambda u: 0.2 * u, dtype=torch.float64):
    """Scores and labels where the error grows with the score."""
    generator = torch.Generator().manual_seed(seed)
    score = torch.rand(n, generator=generator, dtype=dtype)
    return score, (torch.rand(n, generator=generator) < rate(score)).long()


@pytest.mark.parametrize("measure", ["uncertainty", "normalized_entropy", "max_probability"])
@pytest.mark.parametrize("form", [as_prediction, as_opinion])
def test_a_good_classifier_is_used_for_most_inputs(measure, form):
    score, labels = held_out(rate=lambda u: 0.3 * (u > 0.9))
    rule = AbstentionRule.for_error(form(score), labels, 0.01, measure=measure)
    assert rule.met
    assert 0.8 < rule.held_out_coverage <= 0.95
    assert rule.held_out_error <= rule.bound <= 0.01


def test_a_perfect_classifier_is_used_for_all_but_what_it_doubts():
    """The threshold must not lie above every doubt: it would let inputs of unknown kinds through."""
    score, labels = held_out(rate=lambda u: 0 * u)
    rule = AbstentionRule.for_error(as_opinion(0.49 * score), labels, 0.01)
    assert (rule.threshold, rule.held_out_coverage, rule.held_out_error) == (0.5, 1.0, 0.0)
    assert rule.accept(as_opinion(torch.tensor([0.499, 0.5, 0.999]))).tolist() == [True, False, False]
    level = levels_of(1000, 0.01, 1 - 0.95)[1000]
    assert rule.bound == pytest.approx(1 - level ** (1 / 1000), rel=1e-9)
    assert (
        rule.describe() == "accepts 100% of held-out inputs; error among them at most 1% with 95% confidence"
    )


def test_coverage_comes_near_the_best_with_many_samples():
    score, labels = held_out(50_000)
    rule = AbstentionRule.for_error(as_opinion(score), labels, 0.05)
    assert 0.4 < rule.threshold < 0.5  # an oracle would take 0.5, and the grid has steps of a tenth


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("measure", ["uncertainty", "normalized_entropy", "max_probability"])
@pytest.mark.parametrize("form", [as_prediction, as_opinion])
def test_accepts_of_the_held_out_set_what_it_says(dtype, measure, form):
    score, labels = held_out(dtype=dtype)
    prediction = form(score)
    rule = AbstentionRule.for_error(prediction, labels, 0.08, measure=measure)
    accepted = rule.accept(prediction)
    assert accepted.dtype == torch.bool
    assert accepted.double().mean() == rule.held_out_coverage
    assert labels[accepted].double().mean() == pytest.approx(rule.held_out_error)


def test_measures_are_what_their_names_say():
    opinion = Opinion(torch.tensor([[8.0, 0.0], [3.0, 3.0]], dtype=torch.float64))
    p = torch.tensor([0.9, 0.1], dtype=torch.float64)
    entropy = float(-(p * p.log()).sum() / math.log(2))
    assert MEASURES.get("uncertainty")(opinion).tolist() == pytest.approx([0.2, 0.25])
    assert MEASURES.get("normalized_entropy")(opinion).tolist() == pytest.approx([entropy, 1.0])
    assert MEASURES.get("max_probability")(opinion).tolist() == pytest.approx([0.1, 0.5])


def rule_with(**changes):
    base = {"threshold": 0.5, "held_out": 10, "held_out_coverage": 0.5, "met": True, "target_coverage": 0.5}
    return AbstentionRule(**(base | changes))


def test_accepts_below_the_threshold_alone_in_any_shape():
    opinion = Opinion(torch.tensor([[[0.0, 0.0], [1.0, 0.0]], [[2.0, 0.0], [3.0, 0.0]]]))
    assert rule_with(threshold=0.5).accept(opinion).tolist() == [[False, False], [False, True]]
    assert rule_with(threshold=EVERYTHING).accept(opinion).tolist() == [[False, True], [True, True]]
    assert rule_with(threshold=0.5).accept(opinion[1][1]).item() is True


def test_what_is_not_a_number_is_not_accepted():
    prediction = Categorical(torch.tensor([[math.nan, math.nan], [1.0, 0.0]]))
    assert rule_with(threshold=EVERYTHING).accept(prediction).tolist() == [False, True]


def test_the_held_out_set_may_have_any_shape_and_hold_gradients():
    score, labels = held_out(1200)
    flat = AbstentionRule.for_error(as_opinion(score), labels, 0.08)
    grid = as_opinion(score.reshape(30, 40).requires_grad_())
    assert AbstentionRule.for_error(grid, labels.reshape(30, 40).to(torch.uint8), 0.08) == flat


def coverage_of(score, labels, target, confidence):
    return quietly(as_prediction(score), labels, target, confidence, "max_probability").held_out_coverage


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_more_allowed_errors_never_accept_less(data):
    """Any scores, tied or not, any errors, any two targets, any confidence."""
    size = data.draw(st.integers(1, 3000))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    score = torch.rand(size, generator=generator, dtype=torch.float64)
    values = data.draw(st.sampled_from([2, 5, 30, 10**9]))
    score = (score * values).floor() / values
    power = data.draw(st.floats(0, 5))
    height = data.draw(st.floats(0, 1))
    labels = (torch.rand(size, generator=generator) < height * score**power).long()
    confidence = data.draw(st.sampled_from([0.3, 0.8, 0.95, 0.999]))
    targets = sorted(data.draw(st.lists(st.floats(1e-4, 0.99), min_size=2, max_size=12)))
    coverages = [coverage_of(score, labels, target, confidence) for target in targets]
    assert coverages == sorted(coverages)


def test_coverage_grows_with_the_target_step_by_step():
    """As it was found: 0.08 accepted 37.5%, 0.09 only 35.9%."""
    score, labels = held_out(700, seed=4, rate=lambda u: 0.02 + 0.6 * u**2)
    coverages = [coverage_of(score, labels, step / 200, 0.95) for step in range(1, 120)]
    assert coverages == sorted(coverages)
    assert len(set(coverages)) > 10


def test_a_target_that_is_out_of_reach_is_said_and_nothing_is_accepted():
    score, labels = held_out(500, rate=lambda u: 0.3 + 0 * u)
    message = (
        r"no threshold promises an error of at most 1% with 95% confidence from 500 held-out samples; "
        r"the least that can be promised is \d+\.?\d*%, for \d+\.?\d*% of them\. "
        r"Use more held-out samples, a larger target"
    )
    with pytest.warns(NescioWarning, match=message) as caught:
        rule = AbstentionRule.for_error(as_opinion(score), labels, 0.01)
    assert caught[0].filename == __file__
    assert not rule.met
    assert (rule.threshold, rule.bound, rule.held_out_coverage, rule.held_out_error) == (
        NOTHING,
        None,
        0,
        None,
    )
    assert not rule.accept(as_opinion(score)).any()
    assert rule.describe() == (
        "accepts nothing: no threshold promises an error of at most 1% with 95% confidence "
        "from 500 held-out samples"
    )


@pytest.mark.parametrize("rate", [lambda u: 0.3 + 0 * u, lambda u: 0.1 + 0.4 * u, lambda u: 0.5 * u])
@pytest.mark.parametrize("size", [20, 100, 1200])
def test_the_least_promise_is_kept_when_asked_for_and_no_less_is(size, rate):
    score, labels = held_out(size, seed=2, rate=rate)
    opinion = as_opinion(score)
    with pytest.warns(NescioWarning, match="the least that can be promised is") as caught:
        AbstentionRule.for_error(opinion, labels, 0.001, 0.9)
    percent, coverage = re.search(r"promised is ([\d.]+)%, for ([\d.]+)% of", str(caught[0].message)).groups()
    least = float(percent) / 100
    rule = AbstentionRule.for_error(opinion, labels, least, 0.9)
    assert rule.met
    assert 100 * rule.held_out_coverage == pytest.approx(float(coverage), rel=0.01)
    assert not quietly(opinion, labels, least - 1e-4, 0.9).met


def test_too_few_samples_are_said_with_the_number_needed():
    score, labels = held_out(50, rate=lambda u: 0 * u)
    message = "the least that can be promised is 5.82%, for 100% of them. Use at least 299 "
    with pytest.warns(NescioWarning, match=message):
        rule = AbstentionRule.for_error(as_opinion(0.49 * score), labels, 0.01)
    assert not rule.met


@pytest.mark.parametrize(
    "opinion", [Opinion(torch.zeros(400, 2)), Opinion(torch.tensor([[1.0, 0.0]]).expand(400, 2))]
)
def test_where_all_is_rejected_or_wrong_nothing_is_promised(opinion):
    with pytest.warns(NescioWarning, match="; nothing can be promised. Use more"):
        rule = AbstentionRule.for_error(opinion, torch.ones(400, dtype=torch.long), 0.05)
    assert not rule.met


def test_a_score_that_all_share_is_all_or_nothing():
    sure = Opinion(torch.tensor([[3.0, 0.0]]).expand(400, 2))
    rule = AbstentionRule.for_error(sure, torch.zeros(400, dtype=torch.long), 0.05)
    assert (rule.threshold, rule.held_out_coverage) == (0.5, 1.0)
    doubtful = Opinion(torch.tensor([[1.0, 0.0]]).expand(400, 2))
    assert not quietly(doubtful, torch.zeros(400, dtype=torch.long), 0.05).met
    # Other measures of doubt have no usual limit.
    rule = AbstentionRule.for_error(doubtful, torch.zeros(400, dtype=torch.long), 0.05, measure="dissonance")
    assert (rule.threshold, rule.held_out_coverage) == (EVERYTHING, 1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_full_coverage_goes_up_to_the_most_doubtful_sample_and_not_beyond(dtype):
    score = torch.linspace(0.05, 0.6, 10, dtype=dtype)
    opinion = as_opinion(score)
    rule = AbstentionRule.for_coverage(opinion, None, 1.0)
    assert rule.accept(opinion).all()
    assert rule.threshold == pytest.approx(0.6, rel=1e-5)
    assert not rule.accept(as_opinion(torch.tensor([0.61, 0.999], dtype=dtype))).any()
    with pytest.warns(NescioWarning, match="all are rejected"):
        nothing = AbstentionRule.for_coverage(Opinion(torch.zeros(10, 2)), None, 1.0)
    assert not nothing.accept(opinion).any()
    assert nothing.describe() == "accepts 0% of held-out inputs; their error is not known"


@pytest.mark.parametrize(("share", "count"), [(0.05, 1), (0.1, 1), (0.55, 6), (0.6, 6), (0.61, 7), (1, 10)])
def test_coverage_is_reached_by_as_few_as_can_be(share, count):
    score = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)
    labels = torch.tensor([0] * 5 + [1] * 5)
    rule = AbstentionRule.for_coverage(as_opinion(score), labels, share)
    assert rule.held_out_coverage == count / 10
    assert rule.held_out_error == pytest.approx(max(count - 5, 0) / count)
    assert int(rule.accept(as_opinion(score)).sum()) == count
    assert rule.met
    assert rule.bound is rule.confidence is rule.max_error is None


def test_coverage_is_not_missed_by_a_rounding():
    score, _ = held_out(100)
    for count in range(1, 101):
        rule = AbstentionRule.for_coverage(as_opinion(score), None, count / 100)
        assert rule.held_out_coverage == count / 100


def test_coverage_takes_ties_together():
    score = torch.tensor([0.1, 0.3, 0.3, 0.3, 0.8], dtype=torch.float64)
    rule = AbstentionRule.for_coverage(as_opinion(score), None, 0.4)
    assert rule.held_out_coverage == 0.8
    assert rule.held_out_error is None
    assert rule.describe() == "accepts 80% of held-out inputs; their error is not known"


def test_coverage_says_what_was_wrong_without_a_promise():
    score = torch.tensor([0.1, 0.3, 0.5, 0.8], dtype=torch.float64)
    rule = AbstentionRule.for_coverage(
        as_prediction(score), torch.tensor([0, 1, 0, 1]), 0.5, "max_probability"
    )
    assert rule.threshold == pytest.approx(0.25)
    assert (
        rule.describe() == "accepts 50% of held-out inputs; 50% of those were wrong, and nothing is promised"
    )


def test_coverage_beyond_what_is_not_rejected_is_said():
    opinion = Opinion(torch.tensor([[0.0, 0.0], [0.0, 0.0], [5.0, 0.0], [9.0, 0.0]]))
    message = (
        "no threshold accepts 75% of the 4 held-out inputs: all but 50% are rejected. Use a smaller target"
    )
    with pytest.warns(NescioWarning, match=message) as caught:
        rule = AbstentionRule.for_coverage(opinion, None, 0.75)
    assert caught[0].filename == __file__
    assert not rule.met
    assert rule.accept(opinion).tolist() == [False, False, True, True]


def every_kind_of_rule():
    score, labels = held_out()
    opinion = as_opinion(score)
    yield AbstentionRule.for_error(opinion, labels, 0.08, 0.9, "normalized_entropy")
    yield quietly(opinion, labels, 0.0001)
    yield AbstentionRule.for_coverage(opinion, labels, 0.5)
    yield AbstentionRule.for_coverage(opinion, None, 1, "max_probability")


@pytest.mark.parametrize("rule", list(every_kind_of_rule()))
def test_goes_through_json_and_comes_back_the_same(rule):
    text = json.dumps(rule.to_dict(), allow_nan=False)
    assert AbstentionRule.from_dict(json.loads(text)) == rule


def test_accepting_nothing_is_null_in_json():
    assert (
        quietly(as_opinion(torch.rand(9)), torch.ones(9, dtype=torch.long), 0.01).to_dict()["threshold"]
        is None
    )


def test_is_frozen():
    with pytest.raises(AttributeError):
        rule_with().threshold = 1.0


ERROR_RULE = {
    "max_error": 0.1,
    "confidence": 0.95,
    "target_coverage": None,
    "bound": 0.09,
    "held_out_error": 0.05,
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"measure": "gap"}, "measure must be one of entropy, max_probability, uncertainty, .*, got 'gap'"),
        ({"measure": ["entropy"]}, "measure must be one of"),
        ({"threshold": "0.5"}, "threshold must be a number, got '0.5'"),
        ({"threshold": math.nan}, "threshold must be a number, got nan"),
        ({"threshold": 2.5}, "threshold must be a number up to 2, got 2.5"),
        ({"threshold": True}, "threshold must be a number"),
        ({"threshold": None}, "threshold must be null where max_error is not met only"),
        ({"held_out": 0}, "held_out must be a whole number from 1, got 0"),
        ({"held_out": 10.0}, "held_out must be a whole number from 1, got 10.0"),
        ({"held_out": None}, "held_out must be a whole number from 1, got None"),
        ({"held_out_coverage": 1.5}, "held_out_coverage must be a number from 0 to 1, got 1.5"),
        ({"held_out_error": -0.5}, "held_out_error must be a number from 0 to 1, got -0.5"),
        ({"met": 1}, "met must be true or false, got 1"),
        ({"target_coverage": 0}, "target_coverage must be a number above 0 and up to 1, got 0"),
        ({"target_coverage": None}, "either max_error or target_coverage must be given"),
        (
            {"max_error": 0.1, "confidence": 0.9, "bound": 0.1},
            "either max_error or target_coverage must be",
        ),
        ({"confidence": 0.9}, "confidence must be given with max_error only"),
        ({"bound": 0.1}, "bound must be given where max_error is met only"),
        (ERROR_RULE | {"confidence": None}, "confidence must be given with max_error only"),
        (ERROR_RULE | {"confidence": 1.0}, "confidence must be a number between 0 and 1, got 1.0"),
        (ERROR_RULE | {"max_error": 0.0}, "max_error must be a number between 0 and 1, got 0.0"),
        (ERROR_RULE | {"bound": None}, "bound must be given where max_error is met only"),
        (ERROR_RULE | {"bound": 0.2}, "bound must be at most max_error"),
        (ERROR_RULE | {"bound": "0.1"}, "bound must be a number from 0 to 1, got '0.1'"),
        (
            ERROR_RULE | {"met": False, "bound": None},
            "threshold must be null where max_error is not met only",
        ),
    ],
)
def test_from_dict_refuses_what_no_rule_wrote(changes, message):
    good = rule_with().to_dict()
    with pytest.raises(InputError, match=message):
        AbstentionRule.from_dict(good | changes)


def test_from_dict_takes_what_the_refusals_are_made_from():
    assert AbstentionRule.from_dict(rule_with().to_dict() | ERROR_RULE).bound == 0.09


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 2], "an abstention rule must be a mapping of fields, got list"),
        ({"threshold": 0.5}, "got none of: bound, confidence, held_out, .*; and unknown: -"),
        (rule_with().to_dict() | {"risk": 1, 3: 1}, "got none of: -; and unknown: 3, risk"),
    ],
)
def test_from_dict_refuses_other_fields(values, message):
    with pytest.raises(InputError, match=message):
        AbstentionRule.from_dict(values)


OPINION = Opinion(torch.ones(4, 3))
LABELS = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize("value", [0, 1, -0.1, 1.5, math.nan, "0.1", None, True])
@pytest.mark.parametrize("name", ["max_error", "confidence"])
def test_refuses_a_target_or_confidence_outside_0_to_1(name, value):
    with pytest.raises(InputError, match=f"{name} must be a number between 0 and 1, got "):
        AbstentionRule.for_error(OPINION, LABELS, **({"max_error": 0.1} | {name: value}))


@pytest.mark.parametrize("value", [0, -0.1, 1.5, math.nan, "0.1", None, True])
def test_refuses_a_coverage_outside_0_to_1(value):
    with pytest.raises(InputError, match="target_coverage must be a number above 0 and up to 1, got "):
        AbstentionRule.for_coverage(OPINION, LABELS, value)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (LABELS[:3], r"labels must be a tensor of whole numbers of shape \(4,\), got int64 \(3,\)"),
        (LABELS[:, None], r"of shape \(4,\), got int64 \(4, 1\)"),
        (LABELS.float(), r"labels must be a tensor of whole numbers of shape \(4,\), got float32 \(4,\)"),
        (LABELS.bool(), r"got bool \(4,\)"),
        ([0, 1, 2, 0], "got list"),
        (LABELS + 1, "labels must be 0 to 2, got 1 to 3"),
        (LABELS - 1, "labels must be 0 to 2, got -1 to 1"),
    ],
)
def test_refuses_labels_that_do_not_fit(labels, message):
    for build in (AbstentionRule.for_error, AbstentionRule.for_coverage):
        with pytest.raises(InputError, match=message):
            build(OPINION, labels, 0.5)


def test_refuses_to_promise_without_labels():
    with pytest.raises(InputError, match=r"labels must be a tensor of whole numbers .* got NoneType"):
        AbstentionRule.for_error(OPINION, None, 0.1)


def test_refuses_an_empty_held_out_set():
    empty = Opinion(torch.ones(0, 3))
    for build in (AbstentionRule.for_error, AbstentionRule.for_coverage):
        with pytest.raises(InputError, match="prediction must hold one held-out sample or more, got 0"):
            build(empty, LABELS[:0], 0.5)


def test_refuses_an_unknown_measure_and_what_is_no_prediction():
    with pytest.raises(InputError, match=r"measure must be one of .*, got 'margin'"):
        AbstentionRule.for_error(OPINION, LABELS, 0.1, measure="margin")
    for build in (AbstentionRule.for_error, AbstentionRule.for_coverage):
        with pytest.raises(InputError, match=r"prediction must be an Opinion or a Categorical, got float32"):
            build(torch.ones(4, 3), LABELS, 0.1)
    with pytest.raises(InputError, match="prediction must be an Opinion or a Categorical, got float32"):
        rule_with().accept(torch.ones(4, 3))


# -------------------------------------------------------------------------- measures without bounds, format 1


@pytest.mark.parametrize("measure", ["entropy", "mutual_information", "differential_entropy", "dissonance"])
def test_every_measure_can_decide(measure):
    generator = torch.Generator().manual_seed(0)
    opinion = Opinion(torch.rand(600, 12, generator=generator, dtype=torch.float64) * 50)
    value = MEASURES.get(measure)(opinion)
    labels = torch.where(value < value.quantile(0.8), opinion.labels, (opinion.labels + 1) % 12)
    rule = AbstentionRule.for_error(opinion, labels, 0.05, measure=measure)
    assert rule.met
    assert 0.5 < rule.held_out_coverage < 0.85
    assert AbstentionRule.from_dict(json.loads(json.dumps(rule.to_dict()))) == rule
    assert torch.equal(rule.accept(opinion), value < rule.threshold)
    everything = AbstentionRule.for_error(opinion, opinion.labels, 0.05, measure=measure)
    assert everything.held_out_coverage == 1
    huge = Opinion(torch.full((1, 12), 1e15, dtype=torch.float64))
    assert everything.accept(huge).item()
    assert not everything.accept(Opinion(torch.zeros(1, 12))).item()
    assert AbstentionRule.from_dict(json.loads(json.dumps(everything.to_dict()))) == everything


def test_a_measure_by_another_name_is_kept_by_its_own():
    rule = AbstentionRule(
        threshold=0.5, held_out=10, held_out_coverage=1.0, met=True, measure="vacuity", target_coverage=1.0
    )
    assert rule.measure == "uncertainty"


def test_a_measure_of_evidence_needs_an_opinion():
    prediction = Categorical(torch.tensor([[0.5, 0.5], [0.9, 0.1]]))
    with pytest.raises(InputError, match="the measure dissonance needs an Opinion"):
        AbstentionRule.for_coverage(prediction, None, 0.5, measure="dissonance")


def test_rules_of_format_one_are_read():
    former = {
        "threshold": 0.25,
        "held_out": 100,
        "held_out_coverage": 0.5,
        "met": True,
        "measure": "entropy",
        "target_error": 0.1,
        "confidence": 0.95,
        "target_coverage": None,
        "held_out_error": 0.01,
        "bound": 0.09,
    }
    rule = AbstentionRule.from_dict(former)
    assert (rule.max_error, rule.measure) == (0.1, "normalized_entropy")
    p = torch.tensor([[0.97, 0.03], [0.95, 0.05]])  # normalized entropies 0.194, 0.286
    assert rule.accept(Categorical(p)).tolist() == [True, False]


@pytest.mark.parametrize("max_error", [0.02, 0.05])
def test_rejected_held_out_samples_do_not_bring_the_threshold_above_all_doubt(max_error):
    """Of ReLU evidence there is often none: such samples are never accepted, and say nothing of others."""
    score = 0.4 * torch.rand(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    score[::7] = 1.0
    opinion = as_opinion(score)
    rule = AbstentionRule.for_error(opinion, torch.zeros(400, dtype=torch.long), max_error)
    assert rule.threshold == 0.5
    assert rule.held_out_coverage == (score < 0.5).double().mean()


@pytest.mark.parametrize("share", [0.8, 0.85])
def test_a_coverage_among_rejected_samples_ends_at_the_most_doubtful_other(share):
    score = 0.4 * torch.rand(400, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    score[::7] = 1.0
    rule = AbstentionRule.for_coverage(as_opinion(score), None, share)
    assert rule.threshold < 0.41
    # From the last that is not rejected on there is none above it but the rejected.
    whole = AbstentionRule.for_coverage(as_opinion(score), None, float((score < 1).double().mean()))
    assert whole.threshold == pytest.approx(float(score[score < 1].max()), rel=1e-5)
    assert whole.held_out_coverage == (score < 1).double().mean()
