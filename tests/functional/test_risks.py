import pytest
import torch
from tests import references as ref
from torch.autograd import gradcheck, gradgradcheck

import nescio as ev

F = ev.functional
RISKS = {
    F.type2_likelihood: ref.naive_type2,
    F.cross_entropy_risk: ref.naive_cross_entropy,
    F.squared_error_risk: ref.naive_squared_error,
    F.brier_risk: ref.naive_brier,
    F.misleading_divergence: ref.naive_misleading_divergence,
}


def evidence(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return (2 * torch.randn(*shape, generator=generator, dtype=torch.float64)).exp()


def indices(classes, *shape, seed=1):
    return torch.randint(classes, shape, generator=torch.Generator().manual_seed(seed))


def soft_labels(*shape, seed=2):
    return evidence(*shape, seed=seed).softmax(1)


@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("classes", [2, 5, 10, 40])
def test_against_the_formula(loss, classes):
    e, y = evidence(20, classes), indices(classes, 20)
    torch.testing.assert_close(loss(e, y), RISKS[loss](e, ref.naive_one_hot(y, classes)), rtol=1e-10, atol=0)


@pytest.mark.parametrize("loss", RISKS)
def test_soft_labels_against_the_formula(loss):
    e, y = evidence(20, 6), soft_labels(20, 6)
    torch.testing.assert_close(loss(e, y), RISKS[loss](e, y), rtol=1e-10, atol=0)


@pytest.mark.parametrize("loss", RISKS)
def test_a_one_hot_soft_label_is_the_class(loss):
    e, y = evidence(20, 6), indices(6, 20)
    torch.testing.assert_close(loss(e, y), loss(e, ref.naive_one_hot(y, 6)), rtol=1e-10, atol=0)


def test_divergence_against_the_formula():
    e = evidence(20, 6)
    torch.testing.assert_close(F.divergence(e), ref.naive_divergence(e), rtol=1e-9, atol=0)


@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("soft", [False, True])
def test_dense_prediction_is_sample_by_sample(loss, soft):
    e = evidence(3, 5, 4, 2)
    y = soft_labels(3, 5, 4, 2) if soft else indices(5, 3, 4, 2)
    dense = loss(e, y)
    assert dense.shape == (3, 4, 2)
    one_by_one = loss(e[:, :, 1, 1], y[..., 1, 1])
    torch.testing.assert_close(dense[:, 1, 1], one_by_one, rtol=1e-12, atol=0)


def test_dense_divergence():
    e = evidence(3, 5, 4)
    torch.testing.assert_close(F.divergence(e)[:, 2], F.divergence(e[:, :, 2]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("ignore", [-100, 3])
def test_ignored_samples_count_nothing(loss, ignore):
    e, y = evidence(6, 5).requires_grad_(), torch.tensor([0, ignore, 1, 2, ignore, 4])
    value = loss(e, y, ignore_index=ignore)
    (gradient,) = torch.autograd.grad(value.sum(), e)
    kept = y != ignore
    assert value[~kept].tolist() == [0, 0]
    assert gradient[~kept].abs().max() == 0
    torch.testing.assert_close(value[kept], loss(e[kept], y[kept]), rtol=1e-12, atol=0)


@pytest.mark.parametrize("classes", [3, 9])
@pytest.mark.parametrize("loss", RISKS)
@pytest.mark.parametrize("soft", [False, True])
def test_first_and_second_derivatives(loss, classes, soft):
    e = evidence(4, classes).requires_grad_()
    y = soft_labels(4, classes) if soft else indices(classes, 4)
    assert gradcheck(lambda x: loss(x, y), (e,))
    assert gradgradcheck(lambda x: loss(x, y), (e,))


def test_derivatives_of_the_divergence():
    e = evidence(4, 9).requires_grad_()
    assert gradcheck(F.divergence, (e,))
    assert gradgradcheck(F.divergence, (e,))


@pytest.mark.parametrize("loss", RISKS)
def test_a_gradient_that_is_not_a_mean(loss):
    """Samples weighted differently in the backward pass."""
    e, y = evidence(5, 10), indices(10, 5)
    weight = torch.arange(1.0, 6.0, dtype=torch.float64)
    (got,) = torch.autograd.grad((loss(x := e.clone().requires_grad_(), y) * weight).sum(), x)
    (one,) = torch.autograd.grad(loss(x := e.clone().requires_grad_(), y).sum(), x)
    torch.testing.assert_close(got, one * weight.unsqueeze(1), rtol=1e-12, atol=0)


def test_backward_twice_gives_the_same_gradient():
    e = evidence(5, 10).requires_grad_()
    value = F.squared_error_risk(e, indices(10, 5)).sum()
    first = torch.autograd.grad(value, e, retain_graph=True)[0].clone()
    torch.testing.assert_close(torch.autograd.grad(value, e)[0], first, rtol=0, atol=0)


@pytest.mark.parametrize("risk", [F.type2_likelihood, F.cross_entropy_risk, F.squared_error_risk])
def test_the_risk_is_the_mean_over_the_dirichlet(risk):
    """Equations 3 to 5 as integrals over the simplex, by sampling, within five standard errors."""
    e, y = torch.tensor([[3.0, 0.5, 1.2]], dtype=torch.float64), torch.tensor([2])
    torch.manual_seed(0)
    p = ev.Opinion.from_evidence(e[0]).dirichlet().sample((200_000,))
    one_hot = torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64)
    if risk is F.type2_likelihood:
        samples, expected = p[:, 2], (-risk(e, y)).exp()
    elif risk is F.cross_entropy_risk:
        samples, expected = -p[:, 2].log(), risk(e, y)
    else:
        samples, expected = (one_hot - p).square().sum(1), risk(e, y)
    standard_error = samples.std() / len(samples) ** 0.5
    assert abs(samples.mean() - expected.item()) < 5 * standard_error


def test_the_divergence_is_the_mean_log_ratio():
    e = torch.tensor([[3.0, 0.5, 1.2]], dtype=torch.float64)
    torch.manual_seed(0)
    dirichlet = ev.Opinion.from_evidence(e[0]).dirichlet()
    uniform = torch.distributions.Dirichlet(torch.ones(3, dtype=torch.float64))
    p = dirichlet.sample((200_000,))
    samples = dirichlet.log_prob(p) - uniform.log_prob(p)
    assert abs(samples.mean() - F.divergence(e).item()) < 5 * samples.std() / len(samples) ** 0.5


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_float32(dtype):
    e, y = evidence(5, 10).to(dtype), indices(10, 5)
    for loss in RISKS:
        value = loss(e, y)
        assert value.dtype == torch.float32
        torch.testing.assert_close(value, loss(e.float(), y), rtol=0, atol=0)


GOOD, LABELS = torch.ones(3, 4), torch.tensor([0, 1, 2])
BAD_INPUT = {
    "label above": (GOOD, torch.tensor([0, 1, 4]), r"targets must be 0\.\.3 or ignore_index -100, got 4"),
    "label below": (GOOD, torch.tensor([0, -1, 1]), "got -1"),
    "int32 labels": (GOOD, LABELS.int(), "targets must be int64 class indices .* got int32"),
    "float labels": (GOOD, LABELS.float(), r"soft labels \(3, 4\), got float32 \(3,\)"),
    "wrong count": (GOOD, torch.tensor([0, 1]), r"class indices \(3,\) .* got int64 \(2,\)"),
    "extra axis": (GOOD, LABELS.unsqueeze(1), r"got int64 \(3, 1\)"),
    "soft shape": (GOOD, torch.full((3, 5), 0.2), r"soft labels \(3, 4\), got float32 \(3, 5\)"),
    "soft sum": (GOOD, torch.full((3, 4), 0.3), "sum to one over the classes"),
    "soft negative": (GOOD, torch.tensor([[1.5, -0.5, 0.0, 0.0]] * 3), "least value of -0.5"),
    "soft NaN": (GOOD, torch.full((3, 4), float("nan")), "sum to one"),
    "negative evidence": (GOOD - 2, LABELS, "evidence must be finite and zero or more, got -1"),
    "NaN evidence": (GOOD * float("nan"), LABELS, "finite and zero or more, below 1e.30, got nan"),
    "infinite evidence": (GOOD * float("inf"), LABELS, "evidence must be finite"),
    "integer evidence": (GOOD.long(), LABELS, r"evidence must be a tensor of floating .* got int64 \(3, 4\)"),
    "one class": (GOOD[:, :1], LABELS, r"two or more classes, got float32 \(3, 1\)"),
    "no class axis": (GOOD[:, 0], LABELS, r"must have a class axis 1, got float32 \(3,\)"),
    "empty": (GOOD[:0], LABELS[:0], r"must hold one or more samples, got float32 \(0, 4\)"),
    "list of labels": (GOOD, [0, 1, 2], "targets must be a tensor, got list"),
    "no tensor": ([[1.0, 2.0]], LABELS, "evidence must be a tensor of floating point numbers, got list"),
}


@pytest.mark.parametrize(("e", "y", "reason"), BAD_INPUT.values(), ids=BAD_INPUT)
@pytest.mark.parametrize("loss", RISKS)
def test_bad_input_is_named(loss, e, y, reason):
    with pytest.raises(ev.InputError, match=reason):
        loss(e, y)


def test_soft_labels_of_half_precision_are_taken():
    smoothed = torch.full((1, 10), 0.1 / 9, dtype=torch.bfloat16)
    smoothed[0, 0] = 0.9
    evidence = torch.ones(1, 10)
    found = F.squared_error_risk(evidence, smoothed)
    torch.testing.assert_close(found, F.squared_error_risk(evidence, smoothed.float()))


def test_validate_false_looks_at_no_value():
    value = F.squared_error_risk(torch.tensor([[float("nan"), 1.0]]), torch.tensor([0]), validate=False)
    assert value.isnan().item()


def test_an_empty_batch_has_no_divergence():
    with pytest.raises(ev.InputError, match="must hold one or more samples"):
        F.divergence(torch.zeros(0, 4))


@pytest.mark.parametrize("loss", RISKS)
def test_class_and_one_hot_agree_where_evidence_is_held(loss):
    e, y = torch.tensor([[1e20, 3.0, 0.0]], dtype=torch.float64), torch.tensor([1])
    torch.testing.assert_close(loss(e, y), loss(e, ref.naive_one_hot(y, 3)), rtol=1e-9, atol=0)


# ------------------------------------------------------------------------------------------------- any prior

BY_NAME = {
    "type2": F.type2_likelihood,
    "cross_entropy": F.cross_entropy_risk,
    "squared_error": F.squared_error_risk,
    "brier": F.brier_risk,
}
PRIORS = [0.1, 0.8, 10.0]
ROWS = [[0.0, 0.0, 0.0], [1e-6, 1e-6, 2e-6], [1e-6, 1.0, 1e6], [1e6, 0.0, 0.0], [40.0, 0.1, 3.0]]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("risk", BY_NAME)
def test_risks_with_any_prior_are_exact(risk, prior):
    evidence = torch.tensor(ROWS, dtype=torch.float64, requires_grad=True)
    soft = torch.tensor([[0.2, 0.5, 0.3]], dtype=torch.float64).expand(5, 3)
    for targets, label in ((torch.full((5,), 1), 1), (soft, [0.2, 0.5, 0.3])):
        found = BY_NAME[risk](evidence, targets, prior=prior)
        expected = [float(ref.exact_risk_with_prior(risk, row, label, prior)) for row in ROWS]
        assert found.tolist() == pytest.approx(expected, rel=1e-12)
    assert torch.autograd.gradcheck(
        lambda e: BY_NAME[risk](e.abs(), torch.full((1,), 1), prior=prior),
        evidence[4:].detach().requires_grad_(),
    )


@pytest.mark.parametrize("prior", PRIORS)
def test_divergences_with_any_prior_are_exact(prior):
    evidence = torch.tensor(ROWS, dtype=torch.float64)
    expected = [float(ref.exact_divergence_from(row, prior)) for row in ROWS]
    assert F.divergence(evidence, prior=prior).tolist() == pytest.approx(expected, rel=1e-9)
    misleading = [float(ref.exact_divergence_from([row[0], 0.0, row[2]], prior)) for row in ROWS]
    found = F.misleading_divergence(evidence, torch.full((5,), 1), prior=prior)
    assert found.tolist() == pytest.approx(misleading, rel=1e-9)


def test_a_prior_that_is_none_is_refused():
    with pytest.raises(ev.InputError, match="prior must be a number from 1e-06 to"):
        F.divergence(GOOD, prior=0)
