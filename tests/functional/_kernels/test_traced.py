"""The losses inside a compiler: one whole graph, with the numbers of the eager evaluation."""

import pytest
import torch
from tests import references as ref
from tests.functional.test_accuracy import LIMITS, LOSSES, check_row, evidence_rows, exactly

import nescio as ev
from nescio.functional._kernels import divergence as kernel
from nescio.functional._kernels.rowwise import RowLoss, evaluate
from nescio.functional._kernels.traced import evaluate_traced
from nescio.functional._risk_formulas import RISKS
from nescio.losses import IEDLLoss, REDLoss

pytestmark = pytest.mark.filterwarnings("ignore")  # the compiler's own, about itself

EVIDENCE = ("exp", "relu", "softplus", torch.square)
WEIGHTS = torch.tensor([1.0, 2.0, 0.5, 1.0, 3.0, 1.0, 1.0, 0.0, 1.0])


@pytest.fixture(autouse=True)
def _fresh_compiler():
    torch.compiler.reset()


def batch(n=12, classes=9, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator)
    return logits, torch.randint(classes, (n,), generator=generator)


def with_gradient(loss, logits, targets):
    z = logits.clone().requires_grad_()
    value = loss(z, targets)
    (gradient,) = torch.autograd.grad(value.sum(), z)
    return value.detach(), gradient


def assert_same_compiled(loss, logits, targets, backend="aot_eager", **options):
    compiled = torch.compile(loss, fullgraph=True, backend=backend, **options)
    found = with_gradient(compiled, logits, targets)
    torch.testing.assert_close(found, with_gradient(loss, logits, targets), rtol=2e-6, atol=1e-6)
    return compiled


# ------------------------------------------------------------------------------------------------ the numbers


@pytest.mark.parametrize("dtype", LIMITS)
@pytest.mark.parametrize("classes", [2, 7, 8, 10, 1000])
@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_against_many_digits(name, classes, dtype):
    loss = RowLoss(risk=RISKS.get(name), divergence_weight=float(name == "misleading"))
    evidence = evidence_rows(classes, dtype)
    targets = torch.full((len(evidence),), classes - 1)
    values, gradients = evaluate_traced(evidence, targets, loss)
    assert values.dtype == gradients.dtype == dtype
    for row, value, gradient in zip(evidence.tolist(), values.tolist(), gradients.tolist(), strict=True):
        check_row(value, gradient, *exactly(name, tuple(row), classes - 1), dtype)


@pytest.mark.parametrize("classes", [10, 1000])
def test_compiled_to_machine_code_it_keeps_its_digits(classes):
    """Risk and divergence at once, by the compiler that users have."""
    evidence = evidence_rows(classes, torch.float32)
    targets = torch.zeros(len(evidence), dtype=torch.int64)

    def both(e, y):
        risk = ev.functional.cross_entropy_risk(e, y)
        return torch.stack([risk, ev.functional.misleading_divergence(e, y)])

    e = evidence.requires_grad_()
    values = torch.compile(both, fullgraph=True)(e, targets)
    for number, name in enumerate(("cross_entropy", "misleading")):
        (gradients,) = torch.autograd.grad(values[number].sum(), e, retain_graph=True)
        rows = zip(e.tolist(), values[number].tolist(), gradients.tolist(), strict=True)
        for row, value, gradient in rows:
            check_row(value, gradient, *exactly(name, tuple(row), 0), torch.float32)


@pytest.mark.parametrize("classes", [2, 7, 8, 31, 100])
def test_rows_of_equal_evidence(classes):
    level = torch.cat([torch.logspace(-12, 12, 400), torch.linspace(0.3, 3.0, 2000)]).unsqueeze(1)
    rows = level.expand(-1, classes)
    exact = ev.functional.divergence(rows.double())
    found, _ = evaluate_traced(rows, None, RowLoss(divergence_weight=1.0))
    error = (found.double() - exact).abs() / exact
    assert error.max() <= LIMITS[torch.float32][0]


def test_the_divergence_of_all_classes():
    evidence = evidence_rows(10, torch.float32)
    values, gradients = evaluate_traced(evidence, None, RowLoss(divergence_weight=1.0))
    for row, value, gradient in zip(evidence.tolist(), values.tolist(), gradients.tolist(), strict=True):
        exact_value = ref.exact_divergence(row)
        check_row(value, gradient, exact_value, ref.exact_divergence_gradient(row), torch.float32)


@pytest.mark.parametrize("prior", [1.0, 0.1])
@pytest.mark.parametrize("evidence", EVIDENCE)
def test_what_a_compiler_is_shown_has_the_eager_numbers(evidence, prior, monkeypatch):
    """Every risk, with indices and soft labels: the program that is traced, run as it stands."""
    logits, targets = batch()
    soft = logits.flip(0).softmax(1)
    for risk in RISKS:
        loss = ev.EvidentialLoss(risk=risk, evidence=evidence, prior=prior, annealing_epochs=0)
        for labels in (targets, soft):
            expected = with_gradient(loss, logits, labels)
            with monkeypatch.context() as patch:
                patch.setattr(torch.compiler, "is_compiling", lambda: True)
                found = with_gradient(loss, logits, labels)
            torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)


def test_the_eager_evaluation_works_inside_a_trace(monkeypatch):
    """Nothing that it keeps from call to call may belong to a trace."""
    evidence = evidence_rows(10, torch.float32)
    expected = evaluate(evidence, None, RowLoss(divergence_weight=1.0))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert kernel.row_constants(10, torch.float32, evidence.device) is not kernel.row_constants(
        10, torch.float32, evidence.device
    )
    torch.testing.assert_close(evaluate(evidence, None, RowLoss(divergence_weight=1.0)), expected)


# -------------------------------------------------------------------------------------------------- the graph


def assert_all_same_compiled(losses, logits, targets):
    """All in one graph, which saves time: each loss has logits, and so a gradient, of its own."""

    def together(each, labels):
        return torch.cat([loss(z, labels).reshape(-1) for loss, z in zip(losses, each, strict=True)])

    assert_same_compiled(together, logits.repeat(len(losses), 1, 1), targets)


def of_every_risk(with_divergence, **options):
    """A loss of each risk, one of them with the divergence: that is traced slowly, for all of them alike."""
    losses = []
    for risk in RISKS:
        weight = float(risk == with_divergence)
        losses.append(ev.EvidentialLoss(risk=risk, divergence_weight=weight, annealing_epochs=0, **options))
    return losses


@pytest.mark.parametrize(("evidence", "with_divergence"), list(zip(EVIDENCE, RISKS, strict=True)))
def test_every_risk_and_evidence_function_in_one_graph(evidence, with_divergence):
    assert_all_same_compiled(of_every_risk(with_divergence, evidence=evidence), *batch())


@pytest.mark.parametrize(("labels", "with_divergence"), [("soft", "cross_entropy"), ("ignored", "type2")])
def test_every_risk_with_another_prior(labels, with_divergence):
    logits, targets = batch()
    targets[3] = -100
    targets = logits.flip(0).softmax(1) if labels == "soft" else targets
    assert_all_same_compiled(of_every_risk(with_divergence, prior=0.1, class_weight=WEIGHTS), logits, targets)


@pytest.mark.parametrize(("loss", "risk"), [(ev.EvidentialLoss, "cross_entropy"), (REDLoss, "type2")])
def test_soft_and_ignored_labels(loss, risk):
    logits, targets = batch()
    loss = loss(risk=risk, annealing_epochs=0, class_weight=WEIGHTS)
    assert_same_compiled(loss, logits, logits.flip(0).softmax(1))
    targets[3] = -100
    assert_same_compiled(loss, logits, targets)


def test_reductions_and_ignored_samples():
    """The mean with weights is in test_soft_and_ignored_labels."""
    logits, targets = batch()
    targets[::4] = -100
    losses = []
    for reduction, weights in (("mean", None), ("sum", WEIGHTS), ("none", WEIGHTS)):
        losses.append(ev.EvidentialLoss(reduction=reduction, class_weight=weights, annealing_epochs=0))
    assert_all_same_compiled(losses, logits, targets)


def test_i_edl_in_one_graph():
    logits, targets = batch()
    loss = IEDLLoss(annealing_epochs=0)
    assert_same_compiled(loss, logits, targets)
    assert_same_compiled(loss, logits, logits.flip(0).softmax(1))


@pytest.mark.parametrize(("classes", "backend"), [(3, "aot_eager"), (9, "eager")])
def test_one_graph_for_batches_of_any_size(classes, backend):
    loss = ev.EvidentialLoss(annealing_epochs=0)
    compiled = assert_same_compiled(loss, *batch(12, classes), backend, dynamic=True)
    with torch.compiler.set_stance("fail_on_recompile"):
        for size in (5, 7, 40):
            logits, targets = batch(size, classes, seed=size)
            found = with_gradient(compiled, logits, targets)
            expected = with_gradient(loss, logits, targets)
            torch.testing.assert_close(found, expected, rtol=2e-6, atol=1e-6)


def test_an_epoch_that_moves_on_compiles_no_graph_for_each_step():
    """Annealing: the weight of the divergence is a number that changes, not a new program."""
    logits, targets = batch()
    loss = ev.EvidentialLoss()
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for epoch in (0.1, 0.2):
        compiled(logits, targets, epoch)
    with torch.compiler.set_stance("fail_on_recompile"):
        for epoch in (0.3, 2.5, 7.25):
            torch.testing.assert_close(compiled(logits, targets, epoch), loss(logits, targets, epoch))


def test_pictures_of_logits():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 9, 3, 4, generator=generator)
    targets = torch.randint(9, (2, 3, 4), generator=generator)
    assert_same_compiled(ev.EvidentialLoss(annealing_epochs=0), logits, targets)


def test_under_autocast():
    logits, targets = batch()
    loss = ev.EvidentialLoss(annealing_epochs=0)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = with_gradient(compiled, logits, targets)
    torch.testing.assert_close(found, with_gradient(loss, logits, targets), rtol=2e-6, atol=1e-6)


def test_transforms_inside_the_compiler():
    logits, targets = batch(4, 3)
    logits = logits.double()
    loss = ev.EvidentialLoss(annealing_epochs=0)

    def one(z, y):
        return loss(z.unsqueeze(0), y.unsqueeze(0))

    for of in (
        torch.vmap(one),
        torch.vmap(torch.func.grad(one)),
        torch.vmap(torch.func.jacrev(torch.func.grad(one))),
    ):
        found = torch.compile(of, fullgraph=True, backend="aot_eager")(logits, targets)
        torch.testing.assert_close(found, of(logits, targets), rtol=1e-7, atol=1e-9)


def test_distributed_training(tmp_path):
    """A compiled network under DistributedDataParallel, the loss in the compiled step."""
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meet", rank=0, world_size=1)
    try:
        logits, targets = batch()
        torch.manual_seed(0)
        layer = torch.nn.Linear(9, 9)
        network = torch.nn.parallel.DistributedDataParallel(layer)
        loss = ev.EvidentialLoss(annealing_epochs=0)
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        step = torch.compile(network, backend="aot_eager")
        compiled(step(logits), targets).backward()
        found = layer.weight.grad.clone()
        layer.zero_grad()
        loss(layer(logits), targets).backward()
        torch.testing.assert_close(found, layer.weight.grad)
    finally:
        torch.distributed.destroy_process_group()
