"""The references check each other: two routes, sampling, numerical derivatives, the paper's numbers."""

import math

import mpmath as mp
import numpy as np
import pytest
import torch
from scipy import stats
from tests import references as ref

ROWS = [[0.3, 2.5, 7.0, 0.0], [40.0, 0.0, 0.0, 0.0], [0.01, 0.02, 0.005, 0.04], [120.0, 80.0, 300.0, 5.0]]
LABELS = [0, 3, [0.1, 0.2, 0.3, 0.4], [0.5, 0.0, 0.5, 0.0]]
LOSSES = [
    (ref.exact_type2, ref.naive_type2),
    (ref.exact_cross_entropy, ref.naive_cross_entropy),
    (ref.exact_squared_error, ref.naive_squared_error),
    (ref.exact_brier, ref.naive_brier),
    (ref.exact_misleading_divergence, ref.naive_misleading_divergence),
]
GRADIENTS = [
    (ref.exact_type2, ref.exact_type2_gradient),
    (ref.exact_cross_entropy, ref.exact_cross_entropy_gradient),
    (ref.exact_squared_error, ref.exact_squared_error_gradient),
    (ref.exact_brier, ref.exact_brier_gradient),
    (ref.exact_misleading_divergence, ref.exact_misleading_divergence_gradient),
]
SAMPLES = 200_000


def as_batch(row):
    return torch.tensor([row], dtype=torch.float64)


def as_label(y, K):
    return ref.naive_one_hot(torch.tensor([y]), K) if isinstance(y, int) else as_batch(y)


def dirichlet_samples(row):
    return np.random.default_rng(7).dirichlet(np.array(row) + 1, SAMPLES)


def assert_within_five_standard_errors(values, expected):
    error = values.std(ddof=1) / math.sqrt(len(values))
    assert abs(values.mean() - float(expected)) < 5 * error


def numerical_gradient(function, row):
    """mpmath.diff along each class; the step keeps the evidence positive."""

    def along(k):
        return lambda x: function([*row[:k], x, *row[k + 1 :]])

    with mp.workdps(50):
        return [mp.diff(along(k), mp.mpf(row[k]), h=mp.mpf(10) ** -15) for k in range(len(row))]


@pytest.mark.parametrize("y", LABELS)
@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(("exact", "naive"), LOSSES)
def test_exact_and_naive_losses_agree(exact, naive, row, y):
    expected = float(exact(row, y))
    assert naive(as_batch(row), as_label(y, len(row))).item() == pytest.approx(expected, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("row", ROWS)
def test_exact_and_naive_divergence_agree(row):
    assert ref.naive_divergence(as_batch(row)).item() == pytest.approx(
        float(ref.exact_divergence(row)), rel=1e-9
    )


@pytest.mark.parametrize("row", ROWS)
def test_exact_and_naive_measures_agree(row):
    batch = as_batch(row)
    for name in ("entropy", "expected_entropy", "mutual_information"):
        naive, exact = getattr(ref, f"naive_{name}"), getattr(ref, f"exact_{name}")
        assert naive(batch).item() == pytest.approx(float(exact(row)), rel=1e-9)


@pytest.mark.parametrize("y", LABELS)
@pytest.mark.parametrize(("value", "gradient"), GRADIENTS)
def test_closed_gradients_are_derivatives(value, gradient, y):
    row = [0.3, 2.5, 7.0, 0.125]
    closed = gradient(row, y)
    numerical = numerical_gradient(lambda e: value(e, y), row)
    for one, other in zip(closed, numerical, strict=True):
        assert mp.almosteq(one, other, rel_eps=1e-12, abs_eps=1e-12)


@pytest.mark.parametrize("row", [[0.3, 2.5, 7.0], [1e-4, 2e-4, 3e-4], [1e4, 2.0, 1e6]])
def test_divergence_gradient_is_a_derivative(row):
    numerical = numerical_gradient(ref.exact_divergence, row)
    for one, other in zip(ref.exact_divergence_gradient(row), numerical, strict=True):
        assert mp.almosteq(one, other, rel_eps=1e-9, abs_eps=1e-30)


@pytest.mark.parametrize("digits", [50, 90, 300])
def test_trigamma_is_that_of_mpmath(digits):
    with mp.workdps(digits):
        for x in (1, 1 + 1e-7, 2.5, 49.5, 1e3, 1e13):
            assert mp.almosteq(
                ref.exact_trigamma(mp.mpf(x)), mp.psi(1, x), rel_eps=mp.mpf(10) ** (5 - digits)
            )


def test_divergence_near_zero_is_its_second_order_term():
    """KL ~ (psi'(1) sum e^2 - psi'(K) (sum e)^2) / 2, which direct evaluation in 50 digits would lose."""
    e = 1e-30
    expected = (mp.zeta(2) * 3 * e**2 - mp.psi(1, 3) * 9 * e**2) / 2
    assert float(ref.exact_divergence([e, e, e])) == pytest.approx(float(expected), rel=1e-12)


def test_divergence_of_no_evidence_is_zero():
    assert ref.exact_divergence([0.0, 0.0, 0.0]) == 0
    assert ref.exact_divergence_gradient([0.0, 0.0, 0.0]) == [0, 0, 0]


def test_many_classes():
    """21841 classes, evidence over nine decades: exact against naive in float64."""
    row = torch.logspace(-4, 5, 300, dtype=torch.float64)[torch.arange(21841) % 300]
    evidence = row.requires_grad_()
    naive = ref.naive_divergence(evidence.unsqueeze(0)).squeeze()
    naive.backward()
    exact = torch.tensor([float(g) for g in ref.exact_divergence_gradient(row.tolist())], dtype=torch.float64)
    assert naive.item() == pytest.approx(float(ref.exact_divergence(row.tolist())), rel=1e-9)
    torch.testing.assert_close(evidence.grad, exact, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("row", ROWS)
def test_type2_is_the_log_of_a_mean(row):
    """Eq. 3 is -log E[p_y]; the standard error of the log is that of the mean over the mean."""
    p = dirichlet_samples(row)[:, 1]
    error = p.std(ddof=1) / math.sqrt(SAMPLES) / p.mean()
    assert abs(-math.log(p.mean()) - float(ref.exact_type2(row, 1))) < 5 * error


@pytest.mark.parametrize("y", LABELS)
@pytest.mark.parametrize("row", ROWS)
def test_cross_entropy_is_an_expectation(row, y):
    label = as_label(y, len(row)).numpy()
    values = -(label * np.log(dirichlet_samples(row))).sum(1)
    assert_within_five_standard_errors(values, ref.exact_cross_entropy(row, y))


@pytest.mark.parametrize("y", LABELS)
@pytest.mark.parametrize("row", ROWS)
def test_squared_error_is_an_expectation(row, y):
    values = ((as_label(y, len(row)).numpy() - dirichlet_samples(row)) ** 2).sum(1)
    assert_within_five_standard_errors(values, ref.exact_squared_error(row, y))


@pytest.mark.parametrize("row", ROWS)
def test_divergence_is_an_expected_log_ratio(row):
    p = dirichlet_samples(row).T
    ratio = stats.dirichlet.logpdf(p / p.sum(0), np.array(row) + 1) - math.lgamma(len(row))
    assert_within_five_standard_errors(ratio, ref.exact_divergence(row))


def test_error_and_variance_parts_make_up_the_squared_error():
    evidence, y = torch.tensor(ROWS, dtype=torch.float64), ref.naive_one_hot(torch.tensor([0, 1, 2, 3]), 4)
    parts = ref.naive_error_part(evidence, y) + ref.naive_variance_part(evidence)
    torch.testing.assert_close(parts.sum(1), ref.naive_squared_error(evidence, y), rtol=1e-12, atol=1e-14)


def test_the_papers_example():
    """Ten classes, belief (0.8, 0, ..): u = 0.2, S = 50, evidence 40, alpha = (41, 1, ..)."""
    evidence = torch.tensor([40.0] + [0.0] * 9, dtype=torch.float64)
    assert ref.naive_strength(evidence).item() == 50
    assert ref.naive_uncertainty(evidence).item() == pytest.approx(0.2)
    assert ref.naive_belief(evidence).tolist() == pytest.approx([0.8] + [0.0] * 9)
    assert ref.naive_probabilities(evidence).tolist() == pytest.approx([41 / 50] + [1 / 50] * 9)


def test_one_hot_puts_the_classes_second():
    targets = torch.tensor([[0, 2], [1, 1]])
    expected = [[[1, 0], [0, 0], [0, 1]], [[0, 0], [1, 1], [0, 0]]]
    assert ref.naive_one_hot(targets, 3).tolist() == expected


def test_soft_labels_that_are_hard_are_class_indices():
    for exact, _ in LOSSES:
        assert exact(ROWS[0], 2) == exact(ROWS[0], [0.0, 0.0, 1.0, 0.0])


def test_annealing_rises_to_one():
    assert [ref.naive_annealing(t) for t in (0, 1, 5, 10, 50)] == [0.0, 0.1, 0.5, 1.0, 1.0]


def test_dissonance_of_known_beliefs():
    assert ref.naive_dissonance([0.8, 0.0, 0.0]) == 0
    assert ref.naive_dissonance([0.5, 0.5, 0.0]) == 1
    assert ref.naive_dissonance([0.0, 0.0]) == 0
    assert ref.naive_dissonance([0.6, 0.2]) == pytest.approx(0.8 * 0.5)


def test_fusion_of_two_by_the_formulas_for_two():
    b1, u1 = torch.tensor([0.5, 0.2], dtype=torch.float64), torch.tensor(0.3, dtype=torch.float64)
    b2, u2 = torch.tensor([0.1, 0.4], dtype=torch.float64), torch.tensor(0.5, dtype=torch.float64)
    pair = [(b1, u1), (b2, u2)]
    conflict = 0.5 * 0.4 + 0.2 * 0.1
    expected = {
        ref.naive_cumulative_fusion: (b1 * u2 + b2 * u1) / (u1 + u2 - u1 * u2),
        ref.naive_averaging_fusion: (b1 * u2 + b2 * u1) / (u1 + u2),
        ref.naive_weighted_fusion: (b1 * 0.7 * u2 + b2 * 0.5 * u1) / (u1 + u2 - 2 * u1 * u2),
        ref.naive_constraint_fusion: (b1 * b2 + b1 * u2 + b2 * u1) / (1 - conflict),
    }
    for rule, belief in expected.items():
        fused, u = rule(pair)
        torch.testing.assert_close(fused, belief)
        assert (fused.sum() + u).item() == pytest.approx(1)


@pytest.mark.parametrize("count", [2, 3, 5])
def test_fusion_of_beliefs_is_fusion_of_evidence(count):
    """Sums, means, means weighted by 1 - u, and e1 + e2 + e1 e2 / K."""
    evidence = list(torch.rand(count, 6, 4, generator=torch.Generator().manual_seed(1)).double() * 20)
    opinions = [(ref.naive_belief(e), ref.naive_uncertainty(e)) for e in evidence]
    confidence = [1 - u.unsqueeze(-1) for _, u in opinions]
    constraint = evidence[0]
    for e in evidence[1:]:
        constraint = constraint + e + constraint * e / 4
    expected = {
        ref.naive_cumulative_fusion: sum(evidence),
        ref.naive_averaging_fusion: sum(evidence) / count,
        ref.naive_weighted_fusion: sum(c * e for c, e in zip(confidence, evidence, strict=True))
        / sum(confidence),
        ref.naive_constraint_fusion: constraint,
    }
    for rule, fused in expected.items():
        belief, u = rule(opinions)
        torch.testing.assert_close(belief, ref.naive_belief(fused))
        torch.testing.assert_close(u, ref.naive_uncertainty(fused))
