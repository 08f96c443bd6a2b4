import mpmath as mp
import pytest
import torch
from tests import references as ref
from torch.autograd import gradcheck, gradgradcheck

import nescio as ev
from nescio.functional import fisher

F = ev.functional
PRIORS = [1.0, 0.1, 1e-6, 10.0]
ROWS = [
    [0.0, 0.0, 0.0],
    [1e-12, 1e-12, 1e-12],
    [1e-6, 1.0, 1e6],
    [1e12, 0.0, 0.0],
    [1e12, 1e12, 1e12],
    [40.0, 0.1, 3.0],
    [40.0, 40.0, 41.0],
]
LABELS = [0, 2, [0.2, 0.5, 0.3]]


def as_targets(label, count):
    if isinstance(label, int):
        return torch.full((count,), label)
    return torch.tensor([label], dtype=torch.float64).expand(count, 3)


def numerical_gradient(function, row):
    with mp.workdps(ref.PRIOR_DIGITS):
        found = []
        for place, value in enumerate(row):

            def along(x, place=place):
                return function([*row[:place], x, *row[place + 1 :]])

            step = mp.mpf(max(value, 1.0)) * mp.mpf(10) ** -25
            found.append((along(mp.mpf(value) + step) - along(mp.mpf(value) - step)) / (2 * step))
        return found


def assert_gradient(found, exact, limit=1e-9):
    largest = max(abs(value) for value in exact)
    worst = max(abs(got - value) for got, value in zip(found, exact, strict=True))
    assert worst <= limit * largest, f"gradient off by {float(worst / largest):.1e}"


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("row", ROWS)
def test_the_determinant_and_its_gradient_are_exact(row, prior):
    evidence = torch.tensor([row], dtype=torch.float64, requires_grad=True)
    value = F.fisher_log_determinant(evidence, prior=prior)
    (gradient,) = torch.autograd.grad(value, evidence)
    exact = ref.exact_fisher_log_determinant(row, prior)
    # About zero the logarithms of large and small information cancel.
    assert abs(value.item() - exact) <= 1e-11 * max(1, abs(exact))
    if prior >= 0.1:
        slopes = numerical_gradient(lambda e: ref.exact_fisher_log_determinant(e, prior), row)
        assert_gradient(gradient[0].tolist(), slopes)


@pytest.mark.parametrize("prior", PRIORS[:2])
@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("row", ROWS)
def test_the_risk_and_its_gradient_are_exact(row, label, prior):
    evidence = torch.tensor([row], dtype=torch.float64, requires_grad=True)
    value = F.fisher_risk(evidence, as_targets(label, 1), prior=prior)
    (gradient,) = torch.autograd.grad(value, evidence)
    assert value.item() == pytest.approx(float(ref.exact_fisher_risk(row, label, prior)), rel=1e-12)
    slopes = numerical_gradient(lambda e: ref.exact_fisher_risk(e, label, prior), row)
    assert_gradient(gradient[0].tolist(), slopes)


def test_both_are_near_in_single_precision():
    evidence = torch.tensor(ROWS)
    rows = evidence.double().tolist()
    risk = F.fisher_risk(evidence, torch.full((len(ROWS),), 1))
    determinant = F.fisher_log_determinant(evidence)
    assert risk.dtype == determinant.dtype == torch.float32
    expected = [float(ref.exact_fisher_risk(row, 1, 1.0)) for row in rows]
    assert risk.tolist() == pytest.approx(expected, rel=2e-6)
    expected = [float(ref.exact_fisher_log_determinant(row, 1.0)) for row in rows]
    assert determinant.tolist() == pytest.approx(expected, rel=2e-6)


def test_as_printed_the_determinant_is_lost():
    """Why it is not evaluated as printed: in float64 too, what is left of 1 - sum is rounding."""
    alpha = torch.full((3,), 1e15, dtype=torch.float64)
    information, common = torch.polygamma(1, alpha), torch.polygamma(1, alpha.sum())
    printed = 1 - (common / information).sum()
    assert float(printed) <= 0 or abs(float(printed.log()) + 34.8) > 0.1
    exact = float(ref.exact_fisher_log_determinant([1e15] * 3, 1.0))
    found = F.fisher_log_determinant(torch.full((1, 3), 1e15, dtype=torch.float64)).item()
    assert found == pytest.approx(exact, rel=1e-14)


@pytest.mark.parametrize("classes", [2, 10, 1000])
def test_many_classes(classes):
    generator = torch.Generator().manual_seed(classes)
    evidence = (6 * torch.randn(4, classes, generator=generator, dtype=torch.float64)).exp()
    alpha = evidence + 1
    information = torch.polygamma(1, alpha)
    common = torch.polygamma(1, alpha.sum(1))
    matrix = torch.diag_embed(information) - common[:, None, None]
    expected = torch.linalg.slogdet(matrix).logabsdet
    torch.testing.assert_close(F.fisher_log_determinant(evidence), expected, rtol=1e-6, atol=1e-6)


def test_derivatives():
    evidence = torch.tensor([[40.0, 0.1, 3.0], [0.0, 0.2, 0.0]], dtype=torch.float64) + 0.01
    evidence.requires_grad_()
    targets = torch.tensor([1, 0])
    for function in (F.fisher_log_determinant, lambda e: F.fisher_risk(e, targets)):
        assert gradcheck(function, evidence)
        assert gradgradcheck(function, evidence)


def test_dense_prediction_is_sample_by_sample():
    generator = torch.Generator().manual_seed(0)
    evidence = torch.rand(2, 3, 4, generator=generator, dtype=torch.float64) * 20
    targets = torch.randint(3, (2, 4), generator=generator)
    rows = evidence.movedim(1, -1).reshape(-1, 3)
    risk = F.fisher_risk(evidence, targets)
    torch.testing.assert_close(risk.reshape(-1), F.fisher_risk(rows, targets.reshape(-1)))
    determinant = F.fisher_log_determinant(evidence)
    torch.testing.assert_close(determinant.reshape(-1), F.fisher_log_determinant(rows))


def test_ignored_samples_give_nothing():
    evidence = torch.rand(3, 4, requires_grad=True)
    value = F.fisher_risk(evidence, torch.tensor([0, -100, 2]))
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    assert value[1].item() == 0
    assert gradient[1].abs().max() == 0
    assert gradient[0].abs().max() > 0


def test_bad_arguments():
    with pytest.raises(ev.InputError, match="evidence must be finite and zero or more, got -1"):
        F.fisher_log_determinant(torch.tensor([[-1.0, 2.0]]))
    with pytest.raises(ev.InputError, match="evidence must hold one or more samples"):
        F.fisher_log_determinant(torch.zeros(0, 3))
    with pytest.raises(ev.InputError, match=r"targets must be 0\.\.1 or ignore_index"):
        F.fisher_risk(torch.ones(1, 2), torch.tensor([2]))
    with pytest.raises(ev.InputError, match="prior must be a number from 1e-06"):
        F.fisher_risk(torch.ones(1, 2), torch.tensor([1]), prior=0)


def test_the_risk_of_i_edl_is_the_one_less_the_other():
    evidence = torch.tensor(ROWS, dtype=torch.float64)
    soft = as_targets([0.2, 0.5, 0.3], len(ROWS))
    found = fisher.information_risk(0.05).soft(evidence, soft, 1.0)
    expected = F.fisher_risk(evidence, soft) - 0.05 * F.fisher_log_determinant(evidence)
    torch.testing.assert_close(found, expected)
