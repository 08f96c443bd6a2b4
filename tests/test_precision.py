"""Without float64: no such tensor is made on the device, and the numbers stay right."""

import os
import subprocess
import sys

import mpmath as mp
import pytest
import torch
from tests import references as ref
from tests.functional.test_accuracy import LOSSES, check_row, evidence_rows
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import nescio as ev
from nescio import _precision
from nescio.data.preprocess import Preprocess
from nescio.encoders import MLPSpec
from nescio.losses import IEDLLoss, REDLoss
from nescio.methods.registry import make_method
from nescio.opinions.measures import MEASURES
from nescio.posthoc import ConformalSets, Temperature
from nescio.training._loop import fit
from nescio.training._samples import Samples

LIMIT = 1e-5
TRAINED = ("edl", "red", "i-edl", "r-edl", "re-edl", "daedl", "f-edl", "natpn", "softmax")


NUMBERS = (torch.ops.aten.scalar_tensor.default,)  # a Python number among tensors


class NoFloat64(TorchDispatchMode):
    """The CPU as a device that has no float64: a tensor of that type may come only from one that is.

    What `to_float64` makes is on the CPU by intent.
    """

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        is_new = _has_float64(result) and not _has_float64((args, kwargs))
        if is_new and func not in NUMBERS and not _on_the_cpu_by_intent():
            raise TypeError(f"{func} made a float64 tensor on a device that has none")
        return result


def _has_float64(values):
    return any(isinstance(leaf, torch.Tensor) and leaf.dtype == torch.float64 for leaf in tree_leaves(values))


def _on_the_cpu_by_intent():
    """Whether `to_float64` or a metric is at work: these take what they are given to the CPU first."""
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if code.co_name == "to_float64" or "/nescio/metrics/" in code.co_filename.replace(os.sep, "/"):
            return True
        frame = frame.f_back
    return False


@pytest.fixture
def no_float64(monkeypatch):
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    with NoFloat64():
        yield


def batch(n=12, classes=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator)
    return logits, torch.randint(classes, (n,), generator=generator)


def test_the_mode_sees_float64(no_float64):
    with pytest.raises(TypeError, match="made a float64 tensor"):
        torch.ones(3).double()
    with pytest.raises(TypeError, match="made a float64 tensor"):
        torch.ones(3).sum(0, dtype=torch.float64)
    with pytest.raises(TypeError, match="made a float64 tensor"):
        torch.zeros(3, dtype=torch.float64, device="cpu")


def test_the_variable_is_read():
    command = "import torch; from nescio._precision import wide_type; print(wide_type(torch.device('cpu')))"
    for value, expected in (("1", "torch.float32"), ("0", "torch.float64")):
        environment = {**os.environ, "NESCIO_NO_FLOAT64": value}
        done = subprocess.run(
            [sys.executable, "-c", command], env=environment, capture_output=True, text=True
        )
        assert done.stdout.strip() == expected, done.stderr


def test_devices_by_their_type():
    assert not _precision.has_float64(torch.device("mps"))
    assert _precision.has_float64(torch.device("cuda"))


def test_a_sum_in_pairs_has_twice_the_digits():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 1001, generator=generator) * 10 ** torch.linspace(-6, 6, 1001)
    high, low = _precision.row_sum_pair(x)
    expected = x.double().sum(1)
    error = (high.double() + low.double() - expected).abs() / x.double().abs().sum(1)
    assert error.max() < 1e-12
    assert torch.equal(high + low, high)


def check_close(value, gradient, exact_value, exact_gradient):
    assert abs(value - exact_value) <= LIMIT * abs(exact_value)
    largest = max(abs(g) for g in exact_gradient)
    assert max(abs(got - g) for got, g in zip(gradient, exact_gradient, strict=True)) <= LIMIT * largest


@pytest.mark.parametrize("classes", [2, 3, 7, 8, 10, 40, 1000])
@pytest.mark.parametrize("name", LOSSES)
def test_losses_against_many_digits(no_float64, name, classes):
    loss, exact, exact_gradient = LOSSES[name]
    with torch.utils._python_dispatch._disable_current_modes():
        evidence = evidence_rows(classes, torch.float32).requires_grad_()
    last = classes - 1
    values = loss(evidence, torch.full((len(evidence),), last))
    (gradients,) = torch.autograd.grad(values.sum(), evidence)
    for row, value, gradient in zip(evidence.tolist(), values.tolist(), gradients.tolist(), strict=True):
        check_row(value, gradient, exact(row, last), exact_gradient(row, last), torch.float32)


@pytest.mark.parametrize("name", LOSSES)
def test_soft_labels_against_many_digits(no_float64, name):
    loss, exact, exact_gradient = LOSSES[name]
    with torch.utils._python_dispatch._disable_current_modes():
        evidence = evidence_rows(10, torch.float32)[:6].requires_grad_()
    soft = torch.full((6, 10), 0.0625)
    soft[:, 9] = 0.4375
    values = loss(evidence, soft)
    (gradients,) = torch.autograd.grad(values.sum(), evidence)
    for row, y, value, gradient in zip(
        evidence.tolist(), soft.tolist(), values.tolist(), gradients.tolist(), strict=True
    ):
        check_close(value, gradient, exact(row, y), exact_gradient(row, y))


@pytest.mark.parametrize("classes", [2, 5, 7, 8, 31, 100])
def test_rows_of_equal_evidence(classes, monkeypatch):
    level = torch.cat([torch.logspace(-12, 12, 400), torch.linspace(0.3, 3.0, 2000)]).unsqueeze(1)
    rows = level.expand(-1, classes)
    expected = ev.functional.divergence(rows.double())
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    error = (ev.functional.divergence(rows).double() - expected).abs() / expected
    assert error.max() <= LIMIT


@pytest.mark.parametrize("prior", [0.01, 0.1, 0.8, 2.0])
@pytest.mark.parametrize("risk", ["type2", "cross_entropy", "squared_error", "brier"])
def test_another_prior_is_close_to_what_float64_gives(monkeypatch, risk, prior):
    logits, targets = batch(40, 10)
    loss = ev.EvidentialLoss(risk=risk, prior=prior, annealing_epochs=0, reduction="none")
    expected = loss(logits.double(), targets)
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    with NoFloat64():
        found = loss(logits, targets)
    torch.testing.assert_close(found.double(), expected, rtol=LIMIT, atol=1e-7)


@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
@pytest.mark.parametrize("loss", [ev.EvidentialLoss, REDLoss, IEDLLoss])
def test_every_loss_and_its_derivatives(monkeypatch, loss, evidence):
    logits, targets = batch(2)
    loss = loss(evidence=evidence, annealing_epochs=0, class_weight=torch.tensor([1.0, 2, 1, 0.5, 1]))
    wide = logits.double().requires_grad_()
    expected = torch.autograd.grad(loss(wide, targets), wide)[0]
    curvature = torch.autograd.functional.hessian(lambda z: loss(z, targets), logits.double())
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    with NoFloat64():
        z = logits.clone().requires_grad_()
        found = torch.autograd.grad(loss(z, targets), z)[0]
        second = torch.autograd.functional.hessian(lambda x: loss(x, targets), logits)
    torch.testing.assert_close(found.double(), expected, rtol=LIMIT, atol=1e-6)
    torch.testing.assert_close(second.double(), curvature, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("prior", [1.0, 0.1])
def test_every_measure_of_an_opinion(monkeypatch, prior):
    rows = torch.cat([10 ** (batch(60, 6)[0].clamp(-4, 4)), torch.zeros(1, 6), torch.full((1, 6), 1e6)])
    expected = {}
    for name in MEASURES:
        expected[name] = MEASURES.get(name)(ev.Opinion(rows.double(), prior))
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    for name in MEASURES:
        with NoFloat64():
            found = MEASURES.get(name)(ev.Opinion(rows, prior))
        torch.testing.assert_close(found.double(), expected[name].double(), rtol=LIMIT, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the constraint rule")
@pytest.mark.parametrize("rule", ["cumulative", "averaging", "weighted", "constraint"])
def test_fusion(monkeypatch, rule):
    rows = 10 ** (batch(30, 4)[0].clamp(-4, 4))
    sources = [rows, rows.flip(0), 1e14 * rows, 1e13 * rows.flip(1), 1e14 * rows]
    expected = ev.fuse([ev.Opinion(source.double()) for source in sources], rule)
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    with NoFloat64():
        found = ev.fuse([ev.Opinion(source) for source in sources], rule)
    torch.testing.assert_close(found.belief.double(), expected.belief, rtol=LIMIT, atol=1e-7)


def test_the_mean_divergence_of_mpmath(no_float64):
    row = [3.0, 0.5, 0.0, 7.25]
    found = ev.functional.divergence(torch.tensor([row]))
    assert mp.almosteq(found.item(), ref.exact_divergence(row), LIMIT)


def rows_of_two_classes(n=100):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % 2
    return torch.randn(n, 3, generator=generator) + 3 * labels[:, None], labels


@pytest.mark.parametrize("name", TRAINED)
def test_training_evaluation_and_post_hoc(no_float64, name):
    """From standardising to sets: each kind of method on rows."""
    inputs, labels = rows_of_two_classes()
    method = make_method(name)
    preprocess = Preprocess.fit(inputs)
    torch.manual_seed(0)
    module = method.build(MLPSpec(3, 2, hidden=(16,)))
    settings = ev.TrainingSettings(
        epochs=5, batch_size=25, learning_rate=0.03, device="cpu", precision="float32"
    )
    history = fit(method, module, preprocess, Samples(inputs, labels), settings)
    assert history[-1]["accuracy"] > 0.8
    with torch.no_grad():
        prediction = method.predict(module.eval(), preprocess(inputs), torch.Generator().manual_seed(0))
    assert ev.metrics.accuracy(prediction, labels) > 0.8
    assert ev.metrics.expected_calibration_error(prediction, labels) < 0.5
    assert Temperature.fit(prediction, labels).scale > 0
    sets = ConformalSets.fit(prediction, labels, coverage=0.9)
    holds_truth = sets.contains(prediction).gather(1, labels[:, None])
    assert holds_truth.float().mean() >= 0.9
