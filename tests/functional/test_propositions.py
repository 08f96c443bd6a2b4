"""The paper's propositions about the squared error, as repaired, and what breaks them as printed."""

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import references as ref

import nescio as ev

parameters = st.floats(1, 1e3)
amounts = st.floats(1e-2, 1e3)


def error_part(alpha, true_class, prior=1.0):
    """L^err = sum_j (y_j - alpha_j / S)^2 in float64, as the library computes it."""
    evidence = torch.tensor([alpha], dtype=torch.float64) - prior
    return ev.functional.brier_risk(evidence, torch.tensor([true_class]), prior=prior).item()


def variance_part(alpha, true_class, prior=1.0):
    """L^var: what the risk of equation 5 has beside the error."""
    evidence = torch.tensor([alpha], dtype=torch.float64) - prior
    risk = ev.functional.squared_error_risk(evidence, torch.tensor([true_class]), prior=prior).item()
    return risk - error_part(alpha, true_class, prior)


def exact_error_part(alpha, true_class):
    """L^err in fractions."""
    S = sum(alpha)
    return sum((Fraction(j == true_class) - Fraction(a) / S) ** 2 for j, a in enumerate(alpha))


@st.composite
def dirichlets(draw, parameter=parameters):
    """All parameters of 2 to 8 classes at least one, and a true class."""
    alpha = draw(st.lists(parameter, min_size=2, max_size=8))
    return alpha, draw(st.integers(0, len(alpha) - 1))


# ---------------------------------------------------------------------------------------------- proposition 1


@given(dirichlets(st.one_of(st.just(1.0), st.floats(1, 1e6))))
@settings(deadline=None)
def test_variance_is_below_error(dirichlet):
    """Proposition 1, repaired: if all alpha_k >= 1 and K >= 2, L^var_j < L^err_j for each j, and in sum."""
    alpha, true_class = dirichlet
    assert 0 < variance_part(alpha, true_class) < error_part(alpha, true_class)
    evidence = torch.tensor([alpha], dtype=torch.float64) - 1
    error = ref.naive_error_part(evidence, ref.naive_one_hot(torch.tensor([true_class]), len(alpha)))
    assert (ref.naive_variance_part(evidence) < error).all()


def test_one_parameter_below_one_breaks_proposition_1():
    """alpha = (2, 0.5), true class 0: in each class variance 8/175 = 0.0457, error 0.04."""
    error = error_part([2.0, 0.5], 0, prior=0.5)
    variance = variance_part([2.0, 0.5], 0, prior=0.5)
    assert error == pytest.approx(2 * 0.04)
    assert variance == pytest.approx(2 * 8 / 175)
    assert variance > error


def test_both_parts_vanish_in_single_precision_as_printed_only():
    """Strictly below fails in float32, where both sides are 0; the library keeps the digits that are left."""
    evidence, targets = torch.tensor([[1e9, 0.0]], dtype=torch.float32), torch.tensor([0])
    label = ref.naive_one_hot(targets, 2).float()
    assert ref.naive_error_part(evidence, label)[0, 0] == 0
    assert ref.naive_variance_part(evidence)[0, 0] == 0
    assert ev.functional.brier_risk(evidence, targets).item() == pytest.approx(2e-18, rel=1e-6)
    assert ev.functional.squared_error_risk(evidence, targets).item() == pytest.approx(4e-18, rel=1e-6)


# ---------------------------------------------------------------------------------------------- proposition 2


@given(dirichlets(), amounts)
@settings(deadline=None)
def test_evidence_for_the_true_class_lowers_the_error(dirichlet, amount):
    """Proposition 2, first half: adding to alpha_j lowers L^err."""
    alpha, true_class = dirichlet
    more = [a + amount if j == true_class else a for j, a in enumerate(alpha)]
    assert error_part(more, true_class) < error_part(alpha, true_class)


@given(dirichlets(), st.floats(1e-2, 1))
@settings(deadline=None)
def test_evidence_taken_from_the_true_class_raises_the_error(dirichlet, share):
    """Proposition 2, second half: alpha_j stays >= 1, the share of its evidence that goes is at least 1%."""
    alpha, true_class = dirichlet
    alpha[true_class] += 1
    less = [1 + (1 - share) * (a - 1) if j == true_class else a for j, a in enumerate(alpha)]
    assert error_part(less, true_class) > error_part(alpha, true_class)


# ---------------------------------------------------------------------------------------------- proposition 3


@given(dirichlets(), amounts, st.data())
@settings(deadline=None)
def test_evidence_taken_from_the_largest_wrong_class_lowers_the_error(dirichlet, amount, data):
    """Proposition 3, repaired: while the reduced alpha_l stays >= every other wrong alpha, L^err falls."""
    alpha, true_class = dirichlet
    wrong = [j for j in range(len(alpha)) if j != true_class]
    largest = data.draw(st.sampled_from(wrong))
    alpha[largest] = max(alpha[j] for j in wrong)
    before = [a + amount if j == largest else a for j, a in enumerate(alpha)]
    assert error_part(alpha, true_class) < error_part(before, true_class)


def test_proposition_3_is_false_as_printed():
    """From alpha = (1, 5, 5) to (1, 1, 5), true class 0: the error rises from 1.2397 to 1.2653."""
    before, after = exact_error_part([1, 5, 5], 0), exact_error_part([1, 1, 5], 0)
    assert (before, after) == (Fraction(150, 121), Fraction(62, 49))
    assert error_part([1.0, 5.0, 5.0], 0) == pytest.approx(float(before), rel=1e-14)
    assert error_part([1.0, 1.0, 5.0], 0) == pytest.approx(float(after), rel=1e-14)
    assert after > before


# --------------------------------------------------------------------------------------- strength, fixed mean


@given(dirichlets(), st.floats(1.01, 100))
@settings(deadline=None)
def test_at_a_fixed_mean_the_risk_falls_with_strength(dirichlet, factor):
    """alpha and factor * alpha have one mean: the error stays, the variance falls, for any true class."""
    alpha, true_class = dirichlet
    strong = [factor * a for a in alpha]
    assert error_part(strong, true_class) == pytest.approx(error_part(alpha, true_class), rel=1e-12)
    assert variance_part(strong, true_class) < variance_part(alpha, true_class)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_only_the_divergence_of_wrong_classes_restrains_evidence(dtype):
    """Evidence (9, 9), true class 0: the risk is glad of ten times as much, the divergence not."""
    targets = torch.tensor([0])
    weak, strong = torch.tensor([[9.0, 9.0]], dtype=dtype), torch.tensor([[99.0, 99.0]], dtype=dtype)
    assert ev.functional.squared_error_risk(strong, targets) < ev.functional.squared_error_risk(weak, targets)
    divergence = ev.functional.misleading_divergence
    assert divergence(strong, targets) > divergence(weak, targets)
    more_for_the_true_class = torch.tensor([[99.0, 9.0]], dtype=dtype)
    torch.testing.assert_close(divergence(more_for_the_true_class, targets), divergence(weak, targets))
