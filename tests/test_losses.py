import copy
import pickle

import pytest
import torch
from tests import references as ref
from torch.autograd import gradcheck, gradgradcheck

import nescio as ev
from nescio.losses import IEDLLoss, REDLoss

NAIVE = {
    "squared_error": ref.naive_squared_error,
    "cross_entropy": ref.naive_cross_entropy,
    "type2": ref.naive_type2,
    "brier": ref.naive_brier,
}


def batch(n=12, classes=5, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return logits.to(dtype), torch.randint(classes, (n,), generator=generator)


def naive(risk, evidence, logits, targets, epoch, weight=1.0, annealing_epochs=10):
    e, y = ref.naive_evidence(logits, evidence), ref.naive_one_hot(targets, logits.shape[1])
    divergence = ref.naive_misleading_divergence(e, y)
    return ref.naive_total(NAIVE[risk](e, y), divergence, epoch, annealing_epochs, weight)


@pytest.mark.parametrize("risk", NAIVE)
@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
@pytest.mark.parametrize("epoch", [0, 0.25, 5, 10, 30])
def test_against_the_formula(risk, evidence, epoch):
    logits, targets = batch()
    loss = ev.EvidentialLoss(risk=risk, evidence=evidence, divergence_weight=1.0, reduction="none")
    got = loss(logits, targets, epoch=epoch)
    torch.testing.assert_close(got, naive(risk, evidence, logits, targets, epoch), rtol=1e-9, atol=1e-14)


def test_weight_and_annealing():
    logits, targets = batch()
    loss = ev.EvidentialLoss(divergence_weight=0.3, annealing_epochs=4, reduction="none")
    expected = naive("cross_entropy", "exp", logits, targets, 1.0, weight=0.3, annealing_epochs=4)
    torch.testing.assert_close(loss(logits, targets, epoch=1.0), expected, rtol=1e-9, atol=0)


def test_without_annealing_no_epoch_is_needed():
    logits, targets = batch()
    loss = ev.EvidentialLoss(annealing_epochs=0)
    annealed = ev.EvidentialLoss()
    assert loss(logits, targets) == annealed(logits, targets, epoch=10)


def test_a_forgotten_epoch_is_an_error():
    with pytest.raises(
        ev.InputError, match=r"epoch must be given while annealing is on .*annealing_epochs=0"
    ):
        ev.EvidentialLoss()(*batch())


@pytest.mark.parametrize("epoch", [-1, float("nan"), float("inf"), "3"])
def test_an_epoch_that_is_none(epoch):
    with pytest.raises(ev.InputError, match="epoch must be a number from 0 on"):
        ev.EvidentialLoss()(*batch(), epoch=epoch)


def test_paper_is_the_papers_choice():
    logits, targets = batch()
    loss = ev.EvidentialLoss.paper()
    expected = naive("squared_error", "relu", logits, targets, 3.0).mean()
    torch.testing.assert_close(loss(logits, targets, epoch=3.0), expected, rtol=1e-10, atol=0)
    assert (loss.risk, loss.evidence) == ("squared_error", "relu")
    assert (loss.divergence_weight, loss.annealing_epochs) == (1.0, 10)


def test_the_users_own_evidence_function():
    logits, targets = batch()
    loss = ev.EvidentialLoss(evidence=lambda z: z.square(), divergence_weight=1.0)
    own = loss(logits.requires_grad_(), targets, epoch=5)
    (gradient,) = torch.autograd.grad(own, logits)
    e, y = logits.square(), ref.naive_one_hot(targets, 5)
    expected = (ref.naive_cross_entropy(e, y) + 0.5 * ref.naive_misleading_divergence(e, y)).mean()
    torch.testing.assert_close(own, expected, rtol=1e-9, atol=0)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected, logits)[0], rtol=1e-7, atol=1e-12)


def test_an_evidence_function_that_is_none():
    with pytest.raises(ev.InputError, match="must give zero or more, gave -"):
        ev.EvidentialLoss(evidence=lambda z: z)(*batch(), epoch=1)
    with pytest.raises(ev.InputError, match=r"must keep the shape \(12, 5\)"):
        ev.EvidentialLoss(evidence=lambda z: z[:, :2].exp())(*batch(), epoch=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("soft", [False, True])
def test_reductions(weighted, soft):
    logits, targets = batch()
    weight = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0]) if weighted else None
    if soft:
        targets = torch.randn(12, 5, generator=torch.Generator().manual_seed(3)).double().softmax(1)
    of = {
        name: ev.EvidentialLoss(class_weight=weight, reduction=name)(logits, targets, epoch=5)
        for name in ("none", "sum", "mean")
    }
    plain = ev.EvidentialLoss(reduction="none")(logits, targets, epoch=5)
    each = torch.ones(12).double()
    if weighted:
        each = (targets @ weight.double()) if soft else weight.double()[targets]
    torch.testing.assert_close(of["none"], plain * each, rtol=1e-6, atol=0)
    torch.testing.assert_close(of["sum"], (plain * each).sum(), rtol=1e-6, atol=0)
    torch.testing.assert_close(of["mean"], (plain * each).sum() / each.sum(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("weight", [None, torch.tensor([1.0, 2.0, 0.5, 0.25, 3.0])])
def test_the_mean_leaves_out_what_is_ignored(weight):
    logits, targets = batch()
    targets[[1, 4]] = -100
    kept = targets >= 0
    loss = ev.EvidentialLoss(class_weight=weight)
    x = logits.clone().requires_grad_()
    value = loss(x, targets, epoch=5)
    torch.testing.assert_close(value, loss(logits[kept], targets[kept], epoch=5), rtol=1e-12, atol=0)
    (gradient,) = torch.autograd.grad(value, x)
    assert gradient[~kept].abs().max() == 0
    x = logits[kept].requires_grad_()
    (expected,) = torch.autograd.grad(loss(x, targets[kept], epoch=5), x)
    torch.testing.assert_close(gradient[kept], expected, rtol=1e-12, atol=0)


def test_when_all_is_ignored_the_loss_is_zero():
    x = torch.randn(3, 4, requires_grad=True)
    value = ev.EvidentialLoss()(x, torch.full((3,), -100), epoch=5)
    assert value.item() == 0
    assert torch.autograd.grad(value, x)[0].abs().max() == 0


@pytest.mark.parametrize("scale", [1.0, -2.5])
def test_the_mean_scaled_afterwards(scale):
    """The backward pass gets another factor than the one it was prepared for."""
    logits, targets = batch(dtype=torch.float32)
    loss = ev.EvidentialLoss()
    (once,) = torch.autograd.grad(loss(x := logits.requires_grad_(), targets, epoch=5), x)
    (scaled,) = torch.autograd.grad(scale * loss(x, targets, epoch=5), x)
    torch.testing.assert_close(scaled, scale * once, rtol=1e-6, atol=0)


@pytest.mark.parametrize("risk", NAIVE)
@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
@pytest.mark.parametrize("classes", [3, 9])
def test_first_and_second_derivatives(risk, evidence, classes):
    logits, targets = batch(5, classes)
    loss = ev.EvidentialLoss(risk=risk, evidence=evidence, reduction="none")
    x = logits.requires_grad_()
    assert gradcheck(lambda z: loss(z, targets, epoch=5), (x,))
    assert gradgradcheck(lambda z: loss(z, targets, epoch=5), (x,))


EXTREMES = {
    dtype: torch.tensor([torch.finfo(dtype).max, 1e4, 300, 90, 31, 0, -11, -300, -torch.finfo(dtype).max])
    for dtype in (torch.float16, torch.bfloat16, torch.float32)
}


@pytest.mark.parametrize("dtype", EXTREMES)
@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
@pytest.mark.parametrize("risk", NAIVE)
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_any_finite_logits_give_a_finite_loss_and_gradient(dtype, evidence, risk, classes):
    values = EXTREMES[dtype].to(dtype)
    logits = torch.cartesian_prod(values, values)  # every pair of extremes, the rest like the second
    logits = torch.cat([logits, logits[:, 1:].expand(-1, classes - 2)], 1).requires_grad_()
    for target in (0, 1):
        targets = torch.full((len(logits),), target)
        value = ev.EvidentialLoss(risk=risk, evidence=evidence, reduction="none")(logits, targets, epoch=10)
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert value.dtype == torch.float32
        assert value.isfinite().all()
        assert (value >= 0).all()
        assert gradient.dtype == dtype
        assert gradient.isfinite().all()


def test_logits_beyond_the_bounds_of_exp_come_back():
    logits = torch.tensor([[200.0, -200.0]], requires_grad=True)
    value = ev.EvidentialLoss(annealing_epochs=0)(logits, torch.tensor([1]))
    (gradient,) = torch.autograd.grad(value, logits)
    assert gradient[0, 0] > 0.1  # too much evidence for the wrong class: down
    assert gradient[0, 1] < 0  # too little for the right one: up


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact_to_its_input(dtype):
    logits, targets = batch(dtype=dtype)
    loss = ev.EvidentialLoss()
    assert loss(logits, targets, epoch=5) == loss(logits.float(), targets, epoch=5)


def test_under_autocast_nothing_is_lost():
    """K = 10 sums rows by a matrix product, which autocast would do in bfloat16."""
    logits, targets = batch(classes=10, dtype=torch.float32)
    loss = ev.EvidentialLoss()
    plain = loss(logits, targets, epoch=5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(logits, targets, epoch=5) == plain


@pytest.mark.filterwarnings("ignore")  # the compiler's own, about itself
def test_torch_compile():
    logits, targets = batch(classes=10, dtype=torch.float32)
    loss = ev.EvidentialLoss()
    layer = torch.nn.Linear(10, 10)

    def objective(x):
        return loss(layer(x), targets, epoch=5)

    plain = objective(logits)
    compiled = torch.compile(objective, backend="aot_eager")(logits)
    torch.testing.assert_close(compiled, plain)
    expected = torch.autograd.grad(plain, layer.weight)
    torch.testing.assert_close(torch.autograd.grad(compiled, layer.weight), expected)


@pytest.mark.parametrize("classes", [3, 10])
def test_vmap_and_per_sample_gradients(classes):
    logits, targets = batch(8, classes)
    logits, targets = logits.view(4, 2, classes), targets.view(4, 2)
    loss = ev.EvidentialLoss()

    def one(z, y):
        return loss(z, y, epoch=5)

    looped = torch.stack([one(z, y) for z, y in zip(logits, targets, strict=True)])
    torch.testing.assert_close(torch.vmap(one)(logits, targets), looped)
    gradients = torch.vmap(torch.func.grad(one))(logits, targets)
    for z, y, gradient in zip(logits, targets, gradients, strict=True):
        z = z.clone().requires_grad_()
        torch.testing.assert_close(gradient, torch.autograd.grad(one(z, y), z)[0])


def test_vmap_over_logits_alone_and_hessian():
    logits, targets = batch(6, 4)
    loss = ev.EvidentialLoss()
    stacked = torch.stack([logits, logits + 1])
    values = torch.vmap(lambda z: loss(z, targets, epoch=5))(stacked)
    torch.testing.assert_close(values[1], loss(logits + 1, targets, epoch=5))
    z, y = logits[:1], targets[:1]
    hessian = torch.autograd.functional.hessian
    expected = hessian(lambda x: naive("cross_entropy", "exp", x, y, 5, weight=0.1).mean(), z)
    torch.testing.assert_close(hessian(lambda x: loss(x, y, epoch=5), z), expected, rtol=1e-6, atol=1e-9)


def test_soft_labels_under_vmap():
    logits, _ = batch(8, 3)
    soft = logits.flip(0).softmax(1)
    loss = ev.EvidentialLoss()
    values = torch.vmap(lambda z, y: loss(z, y, epoch=5))(logits.view(4, 2, 3), soft.view(4, 2, 3))
    expected = [loss(z, y, epoch=5) for z, y in zip(logits.view(4, 2, 3), soft.view(4, 2, 3), strict=True)]
    torch.testing.assert_close(values, torch.stack(expected))


def test_many_rows_are_done_in_blocks(monkeypatch):
    """The blocks meet: more rows than one holds give what one row at a time gives."""
    from nescio.functional._kernels import divergence

    logits, targets = batch(50, 10, torch.float32)
    loss = ev.EvidentialLoss(reduction="none")
    whole = loss(x := logits.requires_grad_(), targets, epoch=10)
    (gradient,) = torch.autograd.grad(whole.sum(), x)
    monkeypatch.setattr(divergence, "block_rows", lambda *_: 7)
    blocked = loss(x, targets, epoch=10)
    torch.testing.assert_close(blocked, whole)
    torch.testing.assert_close(torch.autograd.grad(blocked.sum(), x)[0], gradient)


def test_threads_do_not_share_their_buffers():
    from concurrent.futures import ThreadPoolExecutor

    loss = ev.EvidentialLoss()
    batches = [batch(2000, 40, torch.float32, seed) for seed in range(8)]
    alone = [loss(*one, epoch=10).item() for one in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda one: [loss(*one, epoch=10).item() for _ in range(5)], batches))
    assert together == [[value] * 5 for value in alone]


def test_settings_show_and_travel():
    loss = ev.EvidentialLoss(risk="type2", class_weight=torch.tensor([1.0, 2.0]), reduction="sum")
    assert "risk=type2, evidence=exp" in repr(loss)
    assert "a function" in repr(ev.EvidentialLoss(evidence=torch.exp))
    logits, targets = batch(4, 2)
    value = loss(logits, targets, epoch=1)
    for twin in (copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
        assert twin(logits, targets, epoch=1) == value
    assert loss.state_dict() == {}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"risk": "mse"}, "risk must be one of squared_error, cross_entropy, type2, brier, got 'mse'"),
        ({"evidence": "tanh"}, "evidence must be one of relu, softplus, exp, or a function, got 'tanh'"),
        ({"reduction": "max"}, "reduction must be one of mean, sum, none, got 'max'"),
        ({"divergence_weight": -1}, "divergence_weight must be a number from 0 on, got -1"),
        ({"annealing_epochs": float("nan")}, "annealing_epochs must be a number from 0 on, got nan"),
        ({"divergence_weight": "1"}, "divergence_weight must be a number from 0 on or 'auto', got '1'"),
        ({"evidence": [1]}, "evidence must be one of"),
        ({"class_weight": torch.tensor([1.0, -1.0])}, "class_weight must be a tensor of weights"),
        ({"class_weight": torch.ones(2, 2)}, "class_weight must be a tensor of weights"),
        ({"class_weight": "ab"}, "class_weight must be a tensor of weights .* got str"),
    ],
)
def test_settings_that_do_not_fit(settings, reason):
    with pytest.raises(ev.InputError, match=reason):
        ev.EvidentialLoss(**settings)


LOGITS, LABELS = torch.zeros(3, 4), torch.tensor([0, 1, 2])
BAD_INPUT = {
    "NaN": (LOGITS * float("nan"), LABELS, "logits must be finite numbers, got NaN"),
    "integers": (LOGITS.long(), LABELS, r"logits must be a tensor of floating .* got int64 \(3, 4\)"),
    "one class": (LOGITS[:, :1], LABELS, "two or more classes"),
    "label": (LOGITS, LABELS + 2, r"targets must be 0\.\.3 .* got 4"),
    "labels no tensor": (LOGITS, [0, 1, 2], "targets must be a tensor, got list"),
    "empty": (LOGITS[:0], LABELS[:0], r"logits must hold one or more samples, got float32 \(0, 4\)"),
    "labels int32": (LOGITS, LABELS.int(), "targets must be int64"),
}


@pytest.mark.parametrize(("logits", "targets", "reason"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_bad_input_is_named(logits, targets, reason):
    with pytest.raises(ev.InputError, match=reason):
        ev.EvidentialLoss()(logits, targets, epoch=1)


def test_nan_in_an_ignored_row_is_named():
    logits = torch.tensor([[float("nan"), 0.0, 1.0], [1.0, 2.0, 3.0]])
    with pytest.raises(ev.NotFiniteError, match="logits must be finite numbers, got NaN"):
        ev.EvidentialLoss()(logits, torch.tensor([-100, 1]), epoch=1)


def test_an_evidence_function_that_gives_nothing_is_named():
    with pytest.raises(
        ev.InputError, match=r"what the evidence function gives must be a tensor of .*, got NoneType"
    ):
        ev.EvidentialLoss(evidence=lambda logits: None)(torch.ones(1, 2), torch.tensor([0]), epoch=1)


def test_evidence_that_is_no_number_is_named():
    with pytest.raises(ev.InputError, match="evidence function must give zero or more, gave nan"):
        ev.EvidentialLoss(evidence=torch.sqrt)(torch.tensor([[-1.0, 1.0]]), torch.tensor([0]), epoch=1)


def test_class_weights_are_as_precise_as_the_loss():
    logits = torch.randn(1, 3, 300, 300, generator=torch.Generator().manual_seed(0))
    targets = torch.zeros(1, 300, 300, dtype=torch.int64)
    loss = ev.EvidentialLoss(class_weight=torch.ones(3), annealing_epochs=0)
    expected = loss(logits, targets)
    torch.testing.assert_close(loss.half()(logits, targets), expected)
    soft = logits.softmax(1)
    plain = loss.float()(logits, soft)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(logits, soft) == plain


def test_infinite_evidence_of_the_users_function_is_held():
    value = ev.EvidentialLoss(evidence=torch.exp)(torch.full((1, 3), 200.0), torch.tensor([0]), epoch=10)
    assert value.isfinite()


def test_class_weights_for_other_classes():
    with pytest.raises(ev.InputError, match="one weight for each of 4 classes, got 2"):
        ev.EvidentialLoss(class_weight=torch.ones(2))(LOGITS, LABELS, epoch=1)


# --------------------------------------------------------------------- classes, the weight by rule, the prior


def test_another_number_of_classes_is_refused():
    loss = ev.EvidentialLoss(num_classes=5)
    with pytest.raises(ev.InputError, match=r"logits must have 5 classes on axis 1 \(num_classes\), got 4"):
        loss(LOGITS, LABELS, epoch=1)
    with pytest.raises(ev.InputError, match=r"logits must have 5 classes on axis 1 \(num_classes\), got 4"):
        loss.opinion(LOGITS)
    assert repr(loss).startswith("EvidentialLoss(num_classes=5, risk=cross_entropy, ")


@pytest.mark.parametrize("num_classes", [1, 0, 2.5, "squared_error"])
def test_a_number_of_classes_that_is_none_is_refused(num_classes):
    with pytest.raises(ev.InputError, match="num_classes must be a whole number from 2 on, got "):
        ev.EvidentialLoss(num_classes)


@pytest.mark.parametrize("classes", [3, 10, 20, 200])
@pytest.mark.parametrize(
    ("risk", "full", "exponent"), [("squared_error", 1.0, 2), ("cross_entropy", 0.1, 2.5), ("type2", 0.1, 2)]
)
def test_the_default_weight_is_the_rule(classes, risk, full, exponent):
    share = min(1, 10 / classes) ** exponent
    logits, targets = torch.randn(4, classes, generator=torch.Generator().manual_seed(0)), torch.arange(4) % 3
    found = ev.EvidentialLoss(risk=risk)(logits, targets, epoch=10)
    by_hand = ev.EvidentialLoss(risk=risk, divergence_weight=full * share)(logits, targets, epoch=10)
    torch.testing.assert_close(found, by_hand)
    assert ev.functional.default_divergence_weight(classes, risk) == pytest.approx(full * share)


def test_the_default_risk_is_the_cross_entropy():
    assert ev.EvidentialLoss().risk == ev.EDL().risk == "cross_entropy"


def test_the_papers_weight_is_one_at_any_number_of_classes():
    assert ev.EvidentialLoss.paper().divergence_weight == 1.0
    assert ev.EvidentialLoss.paper(7).num_classes == 7


@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus", torch.square])
@pytest.mark.parametrize("risk", NAIVE)
@pytest.mark.parametrize("prior", [0.1, 10.0])
def test_the_prior_is_that_of_the_functions(risk, evidence, prior):
    logits, targets = batch()
    loss = ev.EvidentialLoss(
        risk=risk, evidence=evidence, divergence_weight=1.0, prior=prior, reduction="none"
    )
    found = loss(logits, targets, epoch=4)
    opinion = loss.opinion(logits)
    assert opinion.prior == prior
    functions = {
        "squared_error": ev.functional.squared_error_risk,
        "cross_entropy": ev.functional.cross_entropy_risk,
        "brier": ev.functional.brier_risk,
        "type2": ev.functional.type2_likelihood,
    }
    value = functions[risk](opinion.evidence, targets, prior=prior)
    divergence = ev.functional.misleading_divergence(opinion.evidence, targets, prior=prior)
    torch.testing.assert_close(found, value + 0.4 * divergence)
    assert f"prior={prior:g}" in repr(loss)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_any_prior_finite_logits_give_a_finite_loss_and_gradient(dtype):
    logits = torch.tensor([[-1e4, 0.0, 1e4], [1e4, 1e4, 1e4], [-1e4] * 3], dtype=dtype, requires_grad=True)
    for risk in NAIVE:
        for prior in (1e-6, 0.1, 1e6):
            value = ev.EvidentialLoss(risk=risk, prior=prior)(logits, torch.tensor([0, 1, 2]), epoch=10)
            (gradient,) = torch.autograd.grad(value, logits)
            assert value.isfinite()
            assert value >= 0
            assert gradient.isfinite().all()


def test_any_prior_within_vmap_and_autocast():
    logits, targets = batch()
    loss = ev.EvidentialLoss(prior=0.1, annealing_epochs=0, reduction="none")
    expected = loss(logits, targets)
    mapped = torch.vmap(lambda z, y: loss(z[None], y[None])[0])(logits, targets)
    torch.testing.assert_close(mapped, expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loss(logits, targets), expected)


def test_an_opinion_is_read_with_the_losses_own_axis():
    logits = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    opinion = ev.EvidentialLoss(num_classes=3, evidence="softplus", prior=0.1).opinion(logits)
    assert opinion.evidence.shape == (2, 5, 7, 3)
    expected = torch.nn.functional.softplus(logits).permute(0, 2, 3, 1)
    torch.testing.assert_close(opinion.evidence, expected)
    assert opinion.prior == 0.1
    assert torch.equal(opinion.labels, logits.argmax(1))


def test_a_weight_in_words_is_auto_or_refused():
    with pytest.raises(
        ev.InputError, match="divergence_weight must be a number from 0 on or 'auto', got 'rule'"
    ):
        ev.EvidentialLoss(divergence_weight="rule")


# --------------------------------------------------------------------------------------------- the successors

SUCCESSORS = [REDLoss, IEDLLoss]


def red(logits, targets, risk="type2", evidence="exp", weight=1.0):
    """The loss of EDL less u z_y, u = K / S without a gradient, as the authors write it."""
    e = ref.naive_evidence(logits, evidence)
    uncertainty = logits.shape[1] / (e + 1).sum(1).detach()
    one_hot = ref.naive_one_hot(targets, logits.shape[1])
    total = NAIVE[risk](e, one_hot) + weight * ref.naive_misleading_divergence(e, one_hot)
    return total - uncertainty * (one_hot * logits).sum(1)


def i_edl(logits, targets, fisher_weight=0.005, weight=1.0):
    """As the authors write it, with torch's polygamma."""
    alpha = torch.nn.functional.softplus(logits) + 1
    one_hot = ref.naive_one_hot(targets, logits.shape[1])
    strength = alpha.sum(1, keepdim=True)
    information, common = torch.polygamma(1, alpha), torch.polygamma(1, strength)
    p = alpha / strength
    errors = information * ((one_hot - p) ** 2 + p * (1 - p) / (strength + 1))
    determinant = information.log().sum(1) + (1 - (common / information).sum(1)).log()
    divergence = ref.naive_misleading_divergence(alpha - 1, one_hot)
    return errors.sum(1) - fisher_weight * determinant + weight * divergence


@pytest.mark.parametrize("risk", NAIVE)
@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
def test_red_is_its_formula(risk, evidence):
    logits, targets = batch()
    logits.requires_grad_()
    value = REDLoss(risk=risk, evidence=evidence, reduction="none")(logits, targets, epoch=4)
    expected = red(logits, targets, risk, evidence, 0.4)
    torch.testing.assert_close(value, expected, rtol=1e-9, atol=1e-12)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("fisher_weight", [0.0, 0.005, 0.05])
def test_i_edl_is_its_formula(fisher_weight):
    logits, targets = batch()
    logits.requires_grad_()
    value = IEDLLoss(fisher_weight=fisher_weight, reduction="none")(logits, targets, epoch=4)
    expected = i_edl(logits, targets, fisher_weight, 0.4)
    torch.testing.assert_close(value, expected, rtol=1e-8, atol=1e-12)
    (gradient,) = torch.autograd.grad(value.sum(), logits)
    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), logits)[0], rtol=1e-6, atol=1e-8)


def test_red_moves_a_sample_without_evidence():
    logits = torch.tensor([[-2.0, -1.0, -3.0]], requires_grad=True)
    stuck = ev.EvidentialLoss(evidence="relu")(logits, torch.tensor([1]), epoch=10)
    assert torch.autograd.grad(stuck, logits)[0].abs().max() == 0
    moved = REDLoss(evidence="relu")(logits, torch.tensor([1]), epoch=10)
    assert torch.autograd.grad(moved, logits)[0].tolist() == [[0.0, -1.0, 0.0]]


@pytest.mark.parametrize("loss", SUCCESSORS)
def test_the_derivatives_of_the_successors(loss):
    logits, targets = batch(4, 3)
    of_each = loss(reduction="none", annealing_epochs=0)
    logits.requires_grad_()
    if loss is IEDLLoss:  # the reward of RED takes u as a constant: it is no derivative
        assert gradcheck(lambda z: of_each(z, targets), logits)
        assert gradcheck(lambda z: of_each(z, ref.naive_one_hot(targets, 3)), logits)
    mean = loss(annealing_epochs=0)(logits, targets)
    torch.testing.assert_close(mean, of_each(logits, targets).mean())
    (gradient,) = torch.autograd.grad(mean, logits)
    (expected,) = torch.autograd.grad(of_each(logits, targets).sum() / 4, logits)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("loss", SUCCESSORS)
def test_soft_labels_of_one_class_are_that_class(loss):
    logits, targets = batch()
    of_each = loss(reduction="none", annealing_epochs=0)
    soft = ref.naive_one_hot(targets, 5)
    torch.testing.assert_close(of_each(logits, soft), of_each(logits, targets), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("loss", SUCCESSORS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("evidence", ["exp", "relu", "softplus"])
@pytest.mark.parametrize("prior", [1.0, 0.1])
def test_the_successors_are_finite_for_any_finite_logits(loss, dtype, evidence, prior):
    for size in (1e-30, 1.0, 30.0, 100.0, 1e4, 1e15, 1e30):
        generator = torch.Generator().manual_seed(0)
        logits = ((torch.rand(8, 6, generator=generator) * 2 - 1) * size).to(dtype)
        logits[0] = size
        logits[1] = -size
        logits.requires_grad_()
        value = loss(evidence=evidence, prior=prior, reduction="none", annealing_epochs=0)(
            logits, torch.arange(8) % 6
        )
        (gradient,) = torch.autograd.grad(value.sum(), logits)
        assert bool(value.isfinite().all())
        assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("loss", SUCCESSORS)
def test_the_successors_weigh_and_ignore_like_edl(loss):
    logits, targets = batch()
    weight = torch.tensor([1.0, 2.0, 0.5, 0.0, 3.0], dtype=torch.float64)
    each = loss(reduction="none", annealing_epochs=0)(logits, targets)
    weighted = loss(class_weight=weight, annealing_epochs=0)(logits, targets)
    torch.testing.assert_close(weighted, (each * weight[targets]).sum() / weight[targets].sum())
    targets[3] = -100
    kept = targets >= 0
    x = logits.clone().requires_grad_()
    value = loss(annealing_epochs=0)(x, targets)
    torch.testing.assert_close(value, loss(annealing_epochs=0)(logits[kept], targets[kept]))
    assert torch.autograd.grad(value, x)[0][3].abs().max() == 0


@pytest.mark.parametrize("loss", SUCCESSORS)
def test_the_successors_read_opinions_and_are_copied(loss):
    made = loss(3, evidence="relu", prior=0.5)
    opinion = made.opinion(torch.tensor([[2.0, -1.0, 0.0]]))
    assert opinion.prior == 0.5
    assert opinion.evidence.tolist() == [[2.0, 0.0, 0.0]]
    logits = torch.tensor([[2.0, -1.0, 0.0]])
    again = pickle.loads(pickle.dumps(copy.deepcopy(made)))
    assert again(logits, torch.tensor([1]), epoch=3) == made(logits, torch.tensor([1]), epoch=3)
    assert repr(again) == repr(made)
    with pytest.raises(ev.InputError, match="logits must have 3 classes"):
        made(torch.zeros(1, 4), torch.tensor([1]), epoch=3)


def test_the_defaults_of_the_successors_are_the_published_ones():
    assert repr(REDLoss()) == (
        "REDLoss(risk=type2, evidence=exp, divergence_weight=1.0, annealing_epochs=10, reduction=mean)"
    )
    assert repr(IEDLLoss()) == (
        "IEDLLoss(risk=squared_error, evidence=softplus, divergence_weight=1.0, annealing_epochs=10, "
        "reduction=mean, fisher_weight=0.005)"
    )
    with pytest.raises(ev.InputError, match="fisher_weight must be a number from 0 on, got -1"):
        IEDLLoss(fisher_weight=-1)
    assert type(REDLoss.paper()) is ev.EvidentialLoss
