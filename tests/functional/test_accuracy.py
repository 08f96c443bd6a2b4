"""Value and gradient of every loss against 50 digits, in float32 and float64, over 24 decades of evidence."""

from functools import lru_cache

import pytest
import torch
from tests import references as ref

import nescio as ev

# Each line is covered by test_risks.py and _kernels; measured, mpmath would take three times as long here.
pytestmark = pytest.mark.unmeasured

# relative error of the value; error of the gradient relative to the largest element of its row
LIMITS = {torch.float32: (2e-6, 1e-5), torch.float64: (1e-12, 1e-11)}
DISTINCT = 300  # of more classes, several have the same evidence: mpmath takes long for each that is another
LOSSES = {
    "type2": (ev.functional.type2_likelihood, ref.exact_type2, ref.exact_type2_gradient),
    "cross_entropy": (
        ev.functional.cross_entropy_risk,
        ref.exact_cross_entropy,
        ref.exact_cross_entropy_gradient,
    ),
    "squared_error": (
        ev.functional.squared_error_risk,
        ref.exact_squared_error,
        ref.exact_squared_error_gradient,
    ),
    "brier": (ev.functional.brier_risk, ref.exact_brier, ref.exact_brier_gradient),
    "misleading": (
        ev.functional.misleading_divergence,
        ref.exact_misleading_divergence,
        ref.exact_misleading_divergence_gradient,
    ),
}


def log_uniform(generator, shape, low=-12, high=12):
    exponent = torch.rand(shape, generator=generator, dtype=torch.float64) * (high - low) + low
    return 10**exponent


def evidence_rows(classes, dtype):
    """Rows (M, K): log-uniform, with zeros, of one large, half tiny and half huge, all equal."""
    generator = torch.Generator().manual_seed(classes)
    distinct = min(classes, DISTINCT)
    rows = log_uniform(generator, (6, distinct))
    rows[1, ::2] = 0
    rows[3, ::2] = log_uniform(generator, rows[3, ::2].shape, -12, -6)
    rows[3, 1::2] = log_uniform(generator, rows[3, 1::2].shape, 6, 12)
    rows[4] = log_uniform(generator, (distinct,), -3, 2)
    rows[5] = log_uniform(generator, (distinct,), -12, -9)
    if classes > distinct:
        rows = rows[:, torch.randint(distinct, (classes,), generator=generator)].float()  # for both types
    rows[2] = 0
    rows[2, -1] = 1e12
    if classes > 1000:
        return rows[[0, 1, 4]].to(dtype)
    equal = torch.tensor([1e-12, 1e-6, 1e-3, 0.1, 0.5, 1, 3, 30, 1e3, 1e6, 1e12], dtype=torch.float64)
    if classes > 100:
        equal = equal[::3].float()
    return torch.cat([rows, equal.unsqueeze(1).expand(-1, classes)]).to(dtype)


@lru_cache(maxsize=20)  # of two types in turn
def exactly(name, row, y):
    """Value and gradient of a loss for one row, by 50 digits."""
    _, exact, exact_gradient = LOSSES[name]
    return exact(row, y), exact_gradient(row, y)


def check_row(value, gradient, exact_value, exact_gradient, dtype):
    value_limit, gradient_limit = LIMITS[dtype]
    gradients = set(zip(gradient, exact_gradient, strict=True))  # many classes have few that differ
    error = abs(value - exact_value)
    assert error <= value_limit * abs(exact_value), f"value off by {float(error / exact_value):.1e}"
    largest = max(abs(g) for _, g in gradients)
    worst = max(abs(got - g) for got, g in gradients)
    assert worst <= gradient_limit * largest, f"gradient off by {float(worst / largest):.1e}"


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("classes", [2, 3, 7, 8, 10, 40, 1000, 21841])
@pytest.mark.parametrize("name", LOSSES)
def test_risks_and_misleading_divergence(name, classes, dtype):
    loss, _, _ = LOSSES[name]
    evidence = evidence_rows(classes, dtype).requires_grad_()
    for targets in ([0] * len(evidence), [classes - 1] * len(evidence)):
        values = loss(evidence, torch.tensor(targets))
        (gradients,) = torch.autograd.grad(values.sum(), evidence)
        assert values.dtype == dtype
        for row, y, value, gradient in zip(
            evidence.tolist(), targets, values.tolist(), gradients.tolist(), strict=True
        ):
            check_row(value, gradient, *exactly(name, tuple(row), y), dtype)
        if classes > 1000:
            break


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("classes", [2, 7, 8, 10, 1000, 21841])
def test_divergence(classes, dtype):
    evidence = evidence_rows(classes, dtype).requires_grad_()
    values = ev.functional.divergence(evidence)
    (gradients,) = torch.autograd.grad(values.sum(), evidence)
    for row, value, gradient in zip(evidence.tolist(), values.tolist(), gradients.tolist(), strict=True):
        check_row(value, gradient, ref.exact_divergence(row), ref.exact_divergence_gradient(row), dtype)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("name", LOSSES)
def test_soft_labels(name, dtype):
    """Labels that lean to the largest, to the smallest class, and to none, on rows of mixed evidence."""
    loss, exact, exact_gradient = LOSSES[name]
    evidence = evidence_rows(10, dtype)[:6].requires_grad_()
    soft = torch.full((6, 10), 0.0625, dtype=dtype)
    soft[:, 9] = 0.4375
    soft[2] = torch.nn.functional.one_hot(torch.tensor(9), 10).to(dtype)
    values = loss(evidence, soft)
    (gradients,) = torch.autograd.grad(values.sum(), evidence)
    for row, y, value, gradient in zip(
        evidence.tolist(), soft.tolist(), values.tolist(), gradients.tolist(), strict=True
    ):
        check_row(value, gradient, exact(row, y), exact_gradient(row, y), dtype)


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("classes", [2, 7, 10, 21841])
def test_no_evidence_no_divergence(classes, dtype):
    evidence = torch.zeros(3, classes, dtype=dtype, requires_grad=True)
    value = ev.functional.divergence(evidence)
    (gradient,) = torch.autograd.grad(value.sum(), evidence)
    assert value.tolist() == [0, 0, 0]
    assert gradient.abs().max() == 0


@pytest.mark.parametrize("classes", [2, 7, 8, 10, 31, 32, 100])
def test_rows_of_equal_evidence(classes):
    """Where all elements are rounded alike the errors add up: float32 against the float64 evaluation."""
    level = torch.cat([torch.logspace(-12, 12, 400), torch.linspace(0.3, 3.0, 2000)]).unsqueeze(1)
    rows = level.expand(-1, classes)
    exact = ev.functional.divergence(rows.double())
    error = (ev.functional.divergence(rows).double() - exact).abs() / exact
    assert error.max() <= LIMITS[torch.float32][0]
    assert (exact > 0).all()


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [({1: 1e6}, "104.538"), ({1: 1e8}, "145.984"), (dict.fromkeys(range(10), 1e6), "65.6979")],
)
def test_where_other_libraries_are_wrong(evidence, expected):
    """Squared error and divergence, K = 10, float32, true class 0: six right digits."""
    row = [evidence.get(k, 0.0) for k in range(10)]
    e, y = torch.tensor([row]), torch.tensor([0])
    got = ev.functional.squared_error_risk(e, y) + ev.functional.misleading_divergence(e, y)
    exact = ref.exact_squared_error(row, 0) + ref.exact_misleading_divergence(row, 0)
    assert f"{got.item():.6g}" == f"{float(exact):.6g}" == expected
