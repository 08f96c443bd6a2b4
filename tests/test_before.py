"""What was made before the redesign is made the same after it: tests/fixtures/before says how and of what."""

import json
import warnings
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from nescio import (
    EvidentialClassifier,
    EvidentialLoss,
    Opinion,
    TrainedModel,
    TrainingSettings,
    functional,
    fuse,
)
from nescio.data import Dataset, Table
from nescio.encoders import MLPSpec

BEFORE = Path(__file__).parent / "fixtures" / "before"
MODELS = sorted(path.stem for path in BEFORE.glob("models/*.safetensors"))
NOTES = json.loads((BEFORE / "notes.json").read_text())
GIVEN = load_file(BEFORE / "given.safetensors")
PREDICTIONS, LOSSES, MEASURES, ESTIMATOR = (
    load_file(BEFORE / f"{name}.safetensors") for name in ("predictions", "losses", "measures", "estimator")
)

BEFORE_IT_WAS = {"is_vacuous": "rejected"}  # names of now -> of then, where they differ
RISKS = ("squared_error", "cross_entropy", "type2")
EVIDENCE = {"exp": "exp", "relu": "relu", "softplus": "softplus", "own": torch.square}
SHAPES = ("few", "more", "many", "dense")  # (5, 3), (3, 9), (2, 33), (2, 3, 2, 2)
DTYPES = {"float32": torch.float32, "float64": torch.float64}
TARGETS = ("index", "soft", "ignored")
# divergence_weight, annealing_epochs, reduction, whether classes are weighted; epoch
SETTINGS = (
    (0.0, 0, "none", False, None),
    (1.0, 0, "mean", False, None),
    (0.7, 10, "sum", False, 3.7),
    (1.0, 10, "none", True, 0.0),
    (1.0, 10, "mean", True, 25.0),
    (0.3, 4, "sum", True, 1.5),
)
FUNCTIONS = (
    "type2_likelihood",
    "cross_entropy_risk",
    "squared_error_risk",
    "misleading_divergence",
    "divergence",
)
OF_AN_OPINION = (
    "alpha",
    "strength",
    "belief",
    "uncertainty",
    "probabilities",
    "labels",
    "is_vacuous",
    "entropy",
    "expected_entropy",
    "mutual_information",
    "differential_entropy",
    "dissonance",
    "max_probability",
)
RULES = ("cumulative", "averaging", "weighted", "constraint")
LAST_DIGITS = 64  # steps of a precision


@pytest.fixture(autouse=True, scope="module")
def _one_thread():
    """As the fixtures were made: the number of threads decides in which order is summed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def plain_torch():
    """Layers like those of the models, and their gradients, by torch alone."""
    found = []
    for kind in DTYPES.values():
        rows, images = (GIVEN[f"{name}.train.inputs"].to(kind) / 255 for name in ("rows", "grey"))
        pieces = images[:, 0, :5, :5].clone()
        kernels, weight = (pieces[:2].unsqueeze(1), pieces[2:8].view(3, 2, 5, 5)), rows[:8].clone()
        kernels = [kernel.contiguous(memory_format=torch.channels_last) for kernel in kernels]
        for parameter in (*kernels, weight):
            parameter.requires_grad_()
        hidden = images.contiguous(memory_format=torch.channels_last)
        for kernel in kernels:
            hidden = torch.max_pool2d(torch.conv2d(hidden, kernel), 2)
        hidden = hidden.flatten(1) / hidden.max()
        for output, inputs in ((hidden @ hidden[:8].T, kernels), (rows @ weight.T, [weight])):
            found += [output, *torch.autograd.grad(output.log_softmax(1)[:, 0].sum(), inputs)]
    return torch.cat([tensor.detach().double().flatten() for tensor in found])


def has_the_same_logarithms():
    """Whether log S - log alpha_y of the evidence that is given has the bits of then, by torch alone."""
    for shape in SHAPES:
        evidence = GIVEN[f"logits.{shape}"].abs().double().movedim(1, -1).flatten(0, -2)
        targets = GIVEN[f"targets.{shape}.index"].flatten()[:, None]
        alpha = 1 + evidence.gather(1, targets)[:, 0]
        others = evidence.scatter(1, targets, 0.0).sum(1) + evidence.shape[1] - 1
        value = torch.log1p(others / alpha)
        if not torch.equal(value, LOSSES[f"functional.type2_likelihood.{shape}.float64"][: len(value)]):
            return False
    return True


@cache
def exact():
    """The same torch on the same kind of processor gives the same bits.

    Another one rounds and orders its sums differently: there, the numbers are compared to five digits. The
    kind is not all: with the same capability, processors of two makers get different matrix products, or
    logarithms that differ in their last bit. What nescio computes has no say in it.
    """
    here = {"torch": torch.__version__, "cpu_capability": torch.backends.cpu.get_cpu_capability()}
    is_alike = torch.equal(plain_torch(), GIVEN["plain_torch"]) and has_the_same_logarithms()
    return NOTES["made_with"] == here and is_alike


def assert_same(found, expected):
    """Tensors by name: the same names, kinds, shapes and values."""
    assert found.keys() == expected.keys()
    if not exact():
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
        return
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert torch.equal(found[name], value), name


def assert_same_but_for_last_digits(found, expected):
    """On any processor: the formulas of then, which are summed in another order since.

    A value may be off by some steps of its own precision, or of that of a hundredth of the greatest of its
    tensor, of which it may be a difference.
    """
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        atol, rtol = 0.0, 0.0
        if value.is_floating_point():
            rtol = LAST_DIGITS * torch.finfo(value.dtype).eps
            atol = rtol * float(value.abs().max()) / 100
        torch.testing.assert_close(
            found[name], value, rtol=rtol, atol=atol, msg=lambda text, name=name: f"{name}: {text}"
        )


def part(expected, prefix):
    return {name: value for name, value in expected.items() if name.startswith(f"{prefix}.")}


def samples(name, use):
    """`name` is rows, grey or colour, and whatever else after a hyphen; `use` is train or held_out."""
    kind = name.partition("-")[0]
    inputs, labels = GIVEN[f"{kind}.{use}.inputs"], GIVEN[f"{kind}.{use}.labels"]
    return (Table if kind == "rows" else Dataset)(inputs, labels, ("a", "b", "c"), f"{kind} {use}")


def load(name):
    return TrainedModel.load(BEFORE / "models" / f"{name}.safetensors")


def predictions_of(name, model):
    inputs = GIVEN[f"{name.partition('-')[0]}.held_out.inputs"]
    usual = model.predict(inputs)
    drawn = model.predict(inputs, batch_size=7, generator=torch.Generator().manual_seed(5))
    found = {f"{name}.accepted": model.accepts(usual)}
    for how, prediction in (("usual", usual), ("drawn", drawn)):
        for key, array in prediction.numpy().items():
            found[f"{name}.{how}.{BEFORE_IT_WAS.get(key, key)}"] = torch.as_tensor(array)
    return found


def without_ties(predictions):
    """-1 for the label where classes share the most evidence.

    Then it was the first of them; since then the network's outputs decide, which differ where their evidence
    is held at its bound.
    """
    for name in [name for name in predictions if name.endswith(".evidence")]:
        most, second = predictions[name].topk(2).values.unbind(-1)
        labels = name.replace(".evidence", ".labels")
        predictions[labels] = predictions[labels].masked_fill(most == second, -1)
    return predictions


@pytest.mark.parametrize("name", MODELS)
def test_model_file(name):
    model = load(name)
    assert_same(dict(model.module.state_dict()), load_file(BEFORE / "models" / f"{name}.safetensors"))
    assert_same(without_ties(predictions_of(name, model)), without_ties(part(PREDICTIONS, name)))
    assert (model.rule and as_then(model.rule.to_dict())) == NOTES["rules"].get(name)


def as_then(rule):
    """A rule with the names of then, for the target and for the measure that was all entropy."""
    rule = dict(rule, target_error=rule["max_error"])
    del rule["max_error"]
    return rule | {"measure": rule["measure"].replace("normalized_entropy", "entropy")}


def trained_like(name, model):
    # What could not be chosen then: Adam was the only optimiser.
    settings = TrainingSettings(**{"optimizer": "adam", **model.training["settings"]})
    train, held_out = samples(name, "train"), samples(name, "held_out")
    method = model.method
    if getattr(method, "divergence_weight", None) == "auto":
        method = replace(method, divergence_weight=1.0)  # for three classes and any risk, then
    return TrainedModel.train(train, method, model.network, settings, held_out=held_out)


def history_of(model):
    """Every metric of every epoch but the time it took."""
    return {
        f"{number}.{name}": torch.tensor(value, dtype=torch.float64)
        for number, row in enumerate(model.training["history"])
        for name, value in row.items()
        if name != "seconds"
    }


@pytest.mark.parametrize("name", MODELS)
def test_trained_again(name):
    model = load(name)
    again = trained_like(name, model)
    assert_same(dict(again.module.state_dict()), dict(model.module.state_dict()))
    found, expected = history_of(again), history_of(model)
    # Losses are summed in another order since: a float32 is right to its last digits.
    for name in [name for name in expected if name.endswith("loss")]:
        rtol = 1e-6 if exact() else 1e-5
        torch.testing.assert_close(found.pop(name), expected.pop(name), rtol=rtol, atol=rtol)
    assert_same(found, expected)


def estimator():
    """Rows in float64 with weights for classes and samples; then two passes of partial_fit."""
    rows, labels = (GIVEN[f"rows.train.{name}"].numpy() for name in ("inputs", "labels"))
    weights = GIVEN["rows.train.weights"].numpy()
    network = MLPSpec(rows.shape[1], 3, hidden=(64, 64))  # network, risk and weight were the defaults then
    balanced = EvidentialClassifier(
        network,
        risk="squared_error",
        epochs=4,
        batch_size=16,
        weight_decay=0.0,
        class_weight="balanced",
        random_state=3,
    )
    found = {"fit": balanced.fit(rows, labels, weights).predict_opinion(rows).evidence}
    bit_by_bit = EvidentialClassifier(
        network, risk="type2", evidence="softplus", divergence_weight=1.0, random_state=4
    )
    for number, half in enumerate((slice(0, 20), slice(20, None))):
        bit_by_bit.partial_fit(rows[half], labels[half], classes=[0, 1, 2])
        found[f"partial_fit.{number}"] = bit_by_bit.predict_opinion(rows).evidence
    return found


def test_estimator():
    assert_same(estimator(), ESTIMATOR)


def flat(*tensors):
    return torch.cat([tensor.detach().flatten() for tensor in tensors])


def direction(value):
    """To take the gradient of many values in: a different weight for each."""
    return torch.arange(1, value.numel() + 1).to(value.dtype).view(value.shape) / 4


def loss_and_gradient(loss, logits, targets, epoch):
    logits = logits.clone().requires_grad_()
    value = loss(logits, targets, epoch=epoch)
    (gradient,) = torch.autograd.grad(value, logits, direction(value))
    return value, gradient


def losses_of(risk, evidence):
    found = {}
    for shape, kind, target in product(SHAPES, DTYPES, TARGETS):
        logits, targets = GIVEN[f"logits.{shape}"].to(DTYPES[kind]), GIVEN[f"targets.{shape}.{target}"]
        weight = torch.arange(1, logits.shape[1] + 1) / 2
        parts = []
        for divergence_weight, annealing_epochs, reduction, weighted, epoch in SETTINGS:
            loss = EvidentialLoss(
                risk=risk,
                evidence=EVIDENCE[evidence],
                divergence_weight=divergence_weight,
                annealing_epochs=annealing_epochs,
                class_weight=weight if weighted else None,
                reduction=reduction,
            )
            parts += loss_and_gradient(loss, logits, targets, epoch)
        found[f"{risk}.{evidence}.{shape}.{kind}.{target}"] = flat(*parts)
    return found


def is_gradient_at_zero(shape):
    """Which of the numbers that `losses_of` has for a shape are gradients by a logit of 0."""
    logits = GIVEN[f"logits.{shape}"]
    rows = logits.numel() // logits.shape[1]
    parts = []
    for _, _, reduction, _, _ in SETTINGS:
        num_values = rows if reduction == "none" else 1
        parts += [torch.zeros(num_values, dtype=torch.bool), logits == 0]
    return flat(*parts)


@pytest.mark.parametrize(("risk", "evidence"), list(product(RISKS, EVIDENCE)))
def test_losses(risk, evidence):
    expected = part(LOSSES, f"{risk}.{evidence}")
    if evidence == "relu":
        # At 0 the gradient of ReLU evidence was 1 for soft labels and 0 for class indices; it is 0 for both.
        for shape, kind in product(SHAPES, DTYPES):
            expected[f"{risk}.relu.{shape}.{kind}.soft"][is_gradient_at_zero(shape)] = 0
    assert_same_but_for_last_digits(losses_of(risk, evidence), expected)


def long_losses():
    """More rows than are worked on at a time; of the result, some."""
    logits, targets = GIVEN["logits.more"].repeat(2600, 1), GIVEN["targets.more.index"].repeat(2600)
    found = {}
    for risk, kind in product(RISKS, DTYPES):
        loss = EvidentialLoss(risk=risk, divergence_weight=1.0, annealing_epochs=0, reduction="none")
        value, gradient = loss_and_gradient(loss, logits.to(DTYPES[kind]), targets, None)
        found[f"long.{risk}.{kind}"] = flat(value[::101], gradient[::101])
    return found


def test_losses_of_many_rows():
    assert_same_but_for_last_digits(long_losses(), part(LOSSES, "long"))


def functions():
    """Of evidence: values, gradients and second derivatives."""
    found = {}
    for name, shape, kind in product(FUNCTIONS, SHAPES, DTYPES):
        function = getattr(functional, name)
        evidence = GIVEN[f"logits.{shape}"].abs().to(DTYPES[kind]).requires_grad_()
        targets = () if name == "divergence" else (GIVEN[f"targets.{shape}.index"],)
        value = function(evidence, *targets)
        (gradient,) = torch.autograd.grad(value, evidence, direction(value), create_graph=True)
        (second,) = torch.autograd.grad(gradient, evidence, direction(gradient))
        found[f"functional.{name}.{shape}.{kind}"] = flat(value, gradient, second)
    return found


def test_functions():
    assert_same_but_for_last_digits(functions(), part(LOSSES, "functional"))


def measures():
    found = {}
    for shape, kind in product(SHAPES, DTYPES):
        evidence = GIVEN[f"evidence.{shape}"].to(DTYPES[kind])
        opinion = Opinion.from_evidence(evidence)
        trust = torch.arange(evidence[..., 0].numel()).view(evidence.shape[:-1]) / evidence[..., 0].numel()
        others = [Opinion.from_evidence(evidence.flip(0)), Opinion.from_evidence(evidence / 3)]
        values = {name: getattr(opinion, name) for name in OF_AN_OPINION}
        values = {name: value() if callable(value) else value for name, value in values.items()}
        values["normalized_entropy"] = opinion.entropy(normalized=True)
        values["discount"] = opinion.discount(0.3).evidence
        values["discount_each"] = opinion.discount(trust).evidence
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the constraint rule warns of itself
            values |= {rule: fuse([opinion, *others], rule).evidence for rule in RULES}
        found |= {f"{shape}.{kind}.{BEFORE_IT_WAS.get(name, name)}": value for name, value in values.items()}
    for name, evidence in EVIDENCE.items():
        found[f"from_logits.{name}"] = Opinion.from_logits(GIVEN["logits.few"].float(), evidence).evidence
    return found


def test_measures():
    assert_same_but_for_last_digits(measures(), MEASURES)
