import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import references as ref

import nescio as ev

RULES = {
    "cumulative": ref.naive_cumulative_fusion,
    "averaging": ref.naive_averaging_fusion,
    "weighted": ref.naive_weighted_fusion,
    "constraint": ref.naive_constraint_fusion,
}


def opinion(rows):
    return ev.Opinion.from_evidence(torch.tensor(rows, dtype=torch.float64))


def fuse(opinions, rule):
    """Fusion that expects the warning of the belief-constraint rule, and of that rule only."""
    if rule != "constraint":
        return ev.fuse(opinions, rule=rule)
    with pytest.warns(ev.NescioWarning):
        return ev.fuse(opinions, rule=rule)


def masses(opinion):
    return ref.naive_belief(opinion.evidence), ref.naive_uncertainty(opinion.evidence)


def assert_near(one, other, rtol=1e-9, atol=1e-12):
    torch.testing.assert_close(one, other, rtol=rtol, atol=atol)


def assert_same(one, other):
    assert_near(one.belief, other.belief)
    assert_near(one.uncertainty, other.uncertainty)


@st.composite
def sources(draw, least=2, most=4):
    """Two to four opinions of one shape: 2 rows over 2 to 5 classes, each element zero or 10^x."""
    K, count = draw(st.integers(2, 5)), draw(st.integers(least, most))
    element = st.one_of(st.just(0.0), st.floats(-3, 3).map(lambda x: 10.0**x))
    rows = st.lists(st.lists(element, min_size=K, max_size=K), min_size=2, max_size=2)
    return [opinion(draw(rows)) for _ in range(count)]


def vacuous(like):
    return ev.Opinion.from_evidence(torch.zeros_like(like.evidence))


every_rule = pytest.mark.parametrize("rule", RULES)


# Opinions take longer to draw than to fuse: each draw is for all rules.
@given(sources())
@settings(deadline=None)
def test_fusion_is_that_of_belief_masses_which_sum_to_one(opinions):
    for rule, naive in RULES.items():
        fused = fuse(opinions, rule)
        assert_near(fused.belief.sum(-1) + fused.uncertainty, torch.ones(2, dtype=torch.float64))
        assert fused.evidence.shape == opinions[0].evidence.shape
        assert (fused.evidence >= 0).all()
        if rule == "weighted" and not all((sum(o.evidence for o in opinions) > 0).any(-1)):
            continue  # by masses, nothing is left to weigh
        belief, u = naive([masses(o) for o in opinions])
        assert_near(fused.belief, belief, rtol=1e-7)
        assert_near(fused.uncertainty, u, rtol=1e-7)


@given(sources())
@settings(deadline=None)
def test_the_order_of_the_sources_does_not_matter(opinions):
    for rule in RULES:
        assert_same(fuse(opinions, rule), fuse(opinions[::-1], rule))


@given(sources(least=1))
@settings(deadline=None)
def test_a_vacuous_opinion_is_neutral(opinions):
    for rule in ("cumulative", "weighted", "constraint"):
        without = fuse(opinions, rule) if len(opinions) > 1 else opinions[0]
        assert_same(fuse([*opinions, vacuous(opinions[0])], rule), without)


@given(sources(least=1, most=1), st.integers(2, 4))
@settings(deadline=None)
def test_an_opinion_heard_again_changes_nothing(opinions, times):
    for rule in ("averaging", "weighted"):
        assert_same(fuse(opinions * times, rule), opinions[0])


def test_averaging_with_a_vacuous_opinion_halves_the_evidence():
    one = opinion([4.0, 2.0, 0.0])
    assert ev.fuse([one, vacuous(one)], rule="averaging").evidence.tolist() == pytest.approx([2.0, 1.0, 0.0])


@every_rule
def test_vacuous_opinions_stay_vacuous(rule):
    none = opinion([[0.0, 0.0, 0.0]])
    fused = fuse([none, none], rule)
    assert fused.uncertainty.tolist() == [1.0]
    assert fused.evidence.tolist() == [[0.0, 0.0, 0.0]]


@given(sources())
@settings(deadline=None)
def test_the_constraint_rule_never_raises_uncertainty(opinions):
    least = torch.stack([o.uncertainty for o in opinions]).amin(0)
    assert (fuse(opinions, "constraint").uncertainty <= least * (1 + 1e-12)).all()


def test_the_constraint_rule_is_sure_of_a_conflict():
    """Two sources that contradict each other leave less uncertainty than either: why the rule warns."""
    one, other = opinion([18.0, 0.0]), opinion([0.0, 18.0])
    fused = fuse([one, other], "constraint")
    assert fused.uncertainty.item() < one.uncertainty.item()
    assert fused.evidence.tolist() == pytest.approx([18.0, 18.0])


def test_the_constraint_rule_by_hand():
    """e1 + e2 + e1 e2 / K, K = 2: (2 + 4 + 4, 0 + 6 + 0)."""
    fused = fuse([opinion([2.0, 0.0]), opinion([4.0, 6.0])], "constraint")
    assert fused.evidence.tolist() == pytest.approx([10.0, 6.0])


def test_weights_by_hand():
    """1 - u of (2, 0) is 1/2, of (0, 6) 3/4: (2 * 2, 6 * 3) / 5."""
    fused = ev.fuse([opinion([2.0, 0.0]), opinion([0.0, 6.0])], rule="weighted")
    assert fused.evidence.tolist() == pytest.approx([0.8, 3.6])


def test_evidence_adds_up_by_default():
    fused = ev.fuse([opinion([1.0, 2.0]), opinion([3.0, 0.0]), opinion([0.5, 0.5])])
    assert fused.evidence.tolist() == pytest.approx([4.5, 2.5])


def test_the_label_of_fused_opinions_is_their_most_probable_class():
    """With base rates it need not be the class of the most evidence."""
    one = ev.Opinion(torch.tensor([2.8, 1.2, 0.0]), base_rates=torch.tensor([0.9, 0.1, 0.0]))
    other = ev.Opinion(torch.tensor([0.0, 1.0, 3.0]))
    fused = ev.fuse([one, other])
    assert int(fused.evidence.argmax()) == 2
    assert int(fused.labels) == int(fused.probabilities.argmax()) == 0


@pytest.mark.parametrize("rule", ["cumulative", "averaging", "weighted"])
def test_one_source_is_left_alone(rule):
    one = opinion([[1.0, 2.0], [0.0, 0.0]])
    assert_same(ev.fuse([one], rule=rule), one)


def test_batches_of_any_shape():
    batch = ev.Opinion.from_evidence(torch.rand(2, 3, 5, dtype=torch.float64))
    fused = ev.fuse([batch, batch], rule="weighted")
    assert fused.uncertainty.shape == (2, 3)
    assert_same(fused, batch)


@every_rule
def test_saturated_sources_keep_their_masses(rule):
    """Four sources at the upper bound of exp, e^30 in float32: the rule's products must not overflow."""
    saturated = ev.Opinion.from_logits(torch.tensor([[40.0, -40.0], [40.0, 40.0]]))
    fused = fuse([saturated] * 4, rule)
    assert_near(fused.belief.sum(-1) + fused.uncertainty, torch.ones(2), rtol=0, atol=1e-6)


@pytest.mark.parametrize("rule", ["averaging", "weighted"])
def test_large_evidence_in_single_precision(rule):
    """1 - u is 1 in float32 for both; beliefs stay within rounding."""
    one = ev.Opinion.from_evidence(torch.tensor([1e13, 0.0, 2e12]))
    assert_near(ev.fuse([one, one], rule=rule).belief, one.belief, rtol=1e-6, atol=1e-7)


def test_tiny_evidence_in_single_precision_is_weighted_alike():
    """1 - u rounds to 0 in float32 for evidence 1e-9: equal sources must not fall to 0 / 0."""
    one = ev.Opinion.from_evidence(torch.tensor([1e-9, 0.0, 3e-9]))
    fused = ev.fuse([one, one], rule="weighted")
    assert_near(fused.evidence, one.evidence, rtol=1e-5, atol=0)


# ----------------------------------------------------------------------------------------------------- errors


def test_unknown_rule_is_refused_by_name():
    with pytest.raises(ev.InputError, match="dempster"):
        ev.fuse([opinion([1.0, 2.0])] * 2, rule="dempster")


def test_nothing_to_fuse_is_refused():
    with pytest.raises(ev.InputError, match="opinions must be one or more of type Opinion, got none"):
        ev.fuse([])


@pytest.mark.parametrize(
    ("other", "shape"),
    [([1.0, 2.0, 3.0], "(3,)"), ([[1.0, 2.0]], "(1, 2)"), ([[1.0, 2.0], [3.0, 4.0]], "(2, 2)")],
)
def test_opinions_of_different_shapes_are_refused(other, shape):
    reason = f"opinions must have one shape, got float64 (2,), float64 {shape}"
    with pytest.raises(ev.InputError, match=re.escape(reason)):
        ev.fuse([opinion([1.0, 2.0]), opinion(other)])


def test_what_is_no_sequence():
    with pytest.raises(ev.InputError, match="opinions must be a sequence of Opinion, got NoneType"):
        ev.fuse(None)


def test_opinions_of_different_priors_are_refused():
    pair = [ev.Opinion(torch.ones(3)), ev.Opinion(torch.ones(3), 0.1)]
    with pytest.raises(ev.InputError, match=r"opinions must have one prior, got 1, 0\.1"):
        ev.fuse(pair)


@pytest.mark.filterwarnings("ignore:the constraint rule")
@every_rule
def test_the_rules_follow_the_prior(rule):
    """Belief and uncertainty follow from e / prior alone: with the prior, all evidence is scaled."""
    evidence = torch.rand(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 20
    usual = ev.fuse([ev.Opinion(e) for e in evidence], rule)
    scaled = ev.fuse([ev.Opinion(0.1 * e, 0.1) for e in evidence], rule)
    assert scaled.prior == 0.1
    torch.testing.assert_close(scaled.evidence, 0.1 * usual.evidence)
    torch.testing.assert_close(scaled.belief, usual.belief)
    torch.testing.assert_close(scaled.uncertainty, usual.uncertainty)


@pytest.mark.parametrize("value", [-5.0, float("nan"), float("inf"), 3e38])
@pytest.mark.parametrize("rule", ["cumulative", "averaging", "weighted"])
def test_evidence_that_is_none_is_not_fused(rule, value):
    strange = ev.Opinion(torch.tensor([value, 0.0]))
    with pytest.raises(ev.errors.InputError, match="evidence must be finite and zero or more"):
        ev.fuse([strange, ev.Opinion(torch.tensor([1.0, 0.0]))], rule)


def test_gradients_of_the_constraint_rule_where_there_is_no_evidence():
    evidence = torch.zeros(1, 3, requires_grad=True)
    with pytest.warns(ev.NescioWarning, match="constraint"):
        fused = ev.fuse([ev.Opinion(evidence), ev.Opinion(torch.ones(1, 3))], "constraint")
    fused.evidence.sum().backward()
    # e1 + e2 + e1 e2 / 3
    torch.testing.assert_close(evidence.grad, torch.full((1, 3), 4 / 3))


@every_rule
def test_base_rates_are_averaged_by_evidence(rule):
    first = ev.Opinion(
        torch.tensor([[3.0, 0.0], [0.0, 0.0]]), base_rates=torch.tensor([[0.9, 0.1], [1.0, 0.0]])
    )
    second = ev.Opinion(torch.tensor([[0.0, 1.0], [0.0, 0.0]]))  # equal ones
    fused = fuse([first, second], rule)
    assert_near(fused.base_rates, torch.tensor([[0.8, 0.2], [0.75, 0.25]]), rtol=1e-6)
    assert_near(fused.belief, fuse([ev.Opinion(first.evidence), second], rule).belief, rtol=1e-6)
    assert fuse([second, second], rule).base_rates is None
