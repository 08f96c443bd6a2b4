import dataclasses
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from nescio.data.preprocess import ImagePreprocess
from nescio.encoders import LeNetSpec
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Dropout, Ensemble, Softmax
from nescio.metrics import fgsm, loss_gradient, pgd, probabilities_of, without_gradient
from nescio.metrics.attacks import _true_class_loss

SPEC = LeNetSpec(1, 16, 16, num_classes=3, filters=(3, 4), hidden=8, dropout=0.0)
METHODS = (Softmax(), EDL(), EDL(evidence="relu", output_bias=1.0), Ensemble(num_members=2))
IDS = ("l2", "edl", "edl-relu", "ensemble")


def model_of(method, spec=SPEC, seed=0):
    torch.manual_seed(seed)
    module = method.build(spec).eval()
    preprocess = ImagePreprocess(spec.input_shape, (10.0,), (200.0,))
    return TrainedModel(module, method, ("a", "b", "c"), preprocess, spec)


@pytest.fixture(scope="module")
def images():
    generator = torch.Generator().manual_seed(1)
    return torch.rand(6, 1, 16, 16, generator=generator)


@pytest.fixture(scope="module")
def labels():
    return torch.tensor([0, 1, 2, 0, 1, 2])


@pytest.fixture(scope="module")
def toolbox():
    """An independent library of attacks, on the logarithm of a function's probabilities."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from art.attacks.evasion import FastGradientMethod, ProjectedGradientDescentPyTorch
        from art.estimators.classification import PyTorchClassifier

    class Logarithm(nn.Module):
        def __init__(self, probabilities):
            super().__init__()
            self.probabilities = probabilities

        def forward(self, inputs):
            return self.probabilities(inputs).log()

    def classifier(probabilities):
        return PyTorchClassifier(
            Logarithm(probabilities),
            loss=nn.NLLLoss(),
            input_shape=(1, 16, 16),
            nb_classes=3,
            clip_values=(0.0, 1.0),
            device_type="cpu",
        )

    return classifier, FastGradientMethod, ProjectedGradientDescentPyTorch


@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_fgsm_agrees_with_an_independent_library(toolbox, method, images, labels):
    classifier, theirs, _ = toolbox
    probabilities = probabilities_of(model_of(method))
    ours = fgsm(images, loss_gradient(probabilities, images, labels), 0.1)
    attack = theirs(classifier(probabilities), norm=np.inf, eps=0.1, batch_size=6)
    expected = attack.generate(images.numpy(), np.eye(3)[labels.numpy()])
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-6)
    assert 0.05 < (ours - images).abs().max() <= 0.1 + 1e-6


@pytest.mark.parametrize("method", [Softmax(), EDL()], ids=["l2", "edl"])
def test_pgd_agrees_with_an_independent_library(toolbox, method, images, labels):
    classifier, _, theirs = toolbox
    probabilities = probabilities_of(model_of(method))
    ours = pgd(probabilities, images, labels, 0.2, steps=4)
    attack = theirs(
        classifier(probabilities), norm=np.inf, eps=0.2, eps_step=2.5 * 0.2 / 4, max_iter=4, verbose=False
    )
    expected = attack.generate(images.numpy(), np.eye(3)[labels.numpy()])
    np.testing.assert_allclose(ours.numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("method", METHODS, ids=IDS)
def test_probabilities_are_those_of_the_prediction(method, images):
    model = model_of(method)
    pixels = (images * 255).round()
    expected = model.predict(pixels.to(torch.uint8)).probabilities
    torch.testing.assert_close(probabilities_of(model)(pixels / 255), expected, rtol=1e-4, atol=1e-6)


def test_a_method_that_draws_draws_the_same_in_every_call(images, labels):
    model = model_of(Dropout(samples=3), dataclasses.replace(SPEC, dropout=0.5))
    probabilities = probabilities_of(model, seed=5)
    assert torch.equal(probabilities(images), probabilities(images))
    assert not torch.equal(probabilities(images), probabilities_of(model, seed=6)(images))
    first, second = (loss_gradient(probabilities, images, labels) for _ in range(2))
    assert torch.equal(first, second)


def test_fresh_draws_differ_from_call_to_call_and_come_again_with_the_seed(images):
    model = model_of(Dropout(samples=2), dataclasses.replace(SPEC, dropout=0.5))
    first, again = (probabilities_of(model, 3, fresh_draws=True) for _ in range(2))
    calls = [first(images), first(images)]
    assert not torch.equal(*calls)
    assert torch.equal(calls[0], again(images))
    assert torch.equal(calls[1], again(images))


def test_the_gradient_is_that_of_finite_differences(images, labels):
    model = model_of(EDL())
    model.module.double()
    probabilities, inputs = probabilities_of(model), images.double()
    gradient = loss_gradient(probabilities, inputs, labels)
    step = torch.zeros_like(inputs)
    step[:, 0, 7, 7] = 1e-6
    loss = [_true_class_loss(probabilities(inputs + sign * step), labels) for sign in (1, -1)]
    torch.testing.assert_close(gradient[:, 0, 7, 7], (loss[0] - loss[1]) / 2e-6, rtol=1e-5, atol=1e-9)


def test_the_loss_is_minus_the_logarithm():
    p = torch.tensor([[0.2, 0.3, 0.5], [0.7, 0.2, 0.1], [0.0, 1.0, 0.0]])
    loss = _true_class_loss(p, torch.tensor([0, 0, 1]))
    torch.testing.assert_close(loss, torch.tensor([-np.log(0.2), -np.log(0.7), 0.0], dtype=torch.float32))


def test_a_probability_that_rounds_to_one_keeps_its_gradient():
    logits = torch.tensor([[60.0, 0.0, 1.0]], requires_grad=True)
    p = logits.softmax(1)
    assert p[0, 0] == 1
    (gradient,) = torch.autograd.grad(_true_class_loss(p, torch.tensor([0])).sum(), logits)
    exact = logits.detach().double().requires_grad_()
    (expected,) = torch.autograd.grad(-exact.log_softmax(1)[0, 0], exact)
    # log_softmax in float64 cancels to exactly zero for the true class; the others are what is left.
    torch.testing.assert_close(gradient[0, 1:].double(), expected[0, 1:], rtol=1e-5, atol=0)
    assert gradient[0, 0] < 0


def test_a_probability_of_zero_gives_no_nan():
    p = torch.tensor([[0.0, 1.0]], requires_grad=True)
    loss = _true_class_loss(p, torch.tensor([0]))
    (gradient,) = torch.autograd.grad(loss.sum(), p)
    assert loss.isfinite().all()
    assert gradient.isfinite().all()


def test_without_evidence_there_is_no_gradient(images, labels):
    model = model_of(EDL(evidence="relu", output_bias=-100.0))
    gradient = loss_gradient(probabilities_of(model), images, labels)
    assert without_gradient(gradient).all()
    assert torch.equal(fgsm(images, gradient, 0.3), images)
    gradient[2, 0, 3, 3] = 1e-30
    assert without_gradient(gradient).tolist() == [True, True, False, True, True, True]


@pytest.mark.parametrize("epsilon", [0.0, 0.05, 1.0])
def test_attacks_stay_within_reach_and_range(images, labels, epsilon):
    probabilities = probabilities_of(model_of(Softmax()))
    gradient = loss_gradient(probabilities, images, labels)
    drawn = torch.Generator().manual_seed(3)
    for moved in (
        fgsm(images, gradient, epsilon),
        pgd(probabilities, images, labels, epsilon, 3),
        pgd(probabilities, images, labels, epsilon, 3, drawn),
    ):
        assert 0 <= moved.min() <= moved.max() <= 1
        assert (moved - images).abs().max() <= epsilon + 1e-6
        assert not moved.requires_grad


def test_attacks_make_the_true_class_less_probable(images, labels):
    probabilities = probabilities_of(model_of(Softmax()))
    before = _true_class_loss(probabilities(images), labels)
    once = fgsm(images, loss_gradient(probabilities, images, labels), 0.1)
    often = pgd(probabilities, images, labels, 0.1)
    assert (_true_class_loss(probabilities(once), labels) > before).all()
    assert (_true_class_loss(probabilities(often), labels) > before).all()


def test_a_start_drawn_with_one_seed_is_one_start(images, labels):
    probabilities = probabilities_of(model_of(Softmax()))
    first, second, other = (
        pgd(probabilities, images, labels, 0.1, 2, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_each_image_is_attacked_for_itself(images, labels):
    probabilities = probabilities_of(model_of(EDL()))
    together = loss_gradient(probabilities, images, labels)
    alone = torch.cat([loss_gradient(probabilities, images[[i]], labels[[i]]) for i in range(6)])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"images": torch.zeros(2, 1, 16, 16, dtype=torch.uint8)}, "images must be floating point"),
        ({"images": torch.full((2, 1, 16, 16), 255.0)}, "images must be within 0 and 1, got 255 to 255"),
        ({"images": torch.full((2, 1, 16, 16), float("nan"))}, "images must be within 0 and 1"),
        ({"labels": torch.tensor([0, 1, 2])}, r"labels must be whole numbers \(2,\)"),
        ({"labels": torch.tensor([0.0, 1.0])}, "labels must be whole numbers"),
        ({"epsilon": -0.1}, "epsilon must be a number from 0 on, got -0.1"),
        ({"epsilon": float("nan")}, "epsilon must be a number from 0 on"),
        ({"steps": 0}, "steps must be a whole number from 1 on"),
    ],
)
def test_bad_input(given, message):
    usual = {"images": torch.zeros(2, 1, 16, 16), "labels": torch.tensor([0, 1]), "epsilon": 0.1}
    with pytest.raises(InputError, match=message):
        pgd(probabilities_of(model_of(Softmax())), **{**usual, **given})


@pytest.mark.parametrize("epsilon", [-1.0, float("inf"), "much"])
def test_bad_epsilon_of_fgsm(images, epsilon):
    with pytest.raises(InputError, match="epsilon must be a number from 0 on"):
        fgsm(images, images, epsilon)


def test_changed_images_are_no_part_of_a_graph(images, labels):
    probabilities = probabilities_of(model_of(Softmax()))
    watched = images.clone().requires_grad_()
    moved = pgd(probabilities, watched, labels, 0.1, 2, torch.Generator().manual_seed(1))
    assert not moved.requires_grad
    assert torch.equal(moved, pgd(probabilities, images, labels, 0.1, 2, torch.Generator().manual_seed(1)))
