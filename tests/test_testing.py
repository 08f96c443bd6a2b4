"""The checks find what is wrong with a method or an encoder."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from nescio import testing
from nescio.encoders import Ability, InputKind, Layers, MLPSpec
from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.methods import Dropout, Softmax
from nescio.methods.registry import METHODS
from nescio.opinions.categorical import Categorical

SPEC = MLPSpec(5, 3, hidden=(8,))


@dataclass(frozen=True)
class Broken(Softmax):
    """Softmax that breaks one promise: the one that it is told to."""

    name: ClassVar[str] = "broken"
    promise: str = ""

    def __post_init__(self):
        super().__post_init__()
        if self.promise.startswith("json"):
            object.__setattr__(self, "promise", f"{self.promise}!")

    @property
    def passes(self):
        return 0 if self.promise == "passes" else 1

    def objective(self, module, batch, epoch, num_train):
        loss, logits = super().objective(module, batch, epoch, num_train)
        if self.promise == "weights":
            loss, _ = super().objective(module, batch._replace(weights=None), epoch, num_train)
        if self.promise == "scalar":
            loss = loss[None]
        if self.promise == "held out":
            loss = loss + torch.rand(())
        if self.promise == "gradient":
            loss = loss.detach().requires_grad_()
        if self.promise == "float64":
            loss = loss.float()
        if self.promise == "bfloat16":
            loss = loss.to(torch.bfloat16)
        if self.promise == "learns":
            loss = -loss.clamp(max=3.0)
        return loss, logits

    def predict(self, module, inputs, generator):
        prediction = super().predict(module, inputs, generator)
        if self.promise == "shape":
            return Categorical(prediction.probabilities[:1].repeat(7, 1))
        if self.promise == "mode":
            module.train()
        if self.promise == "generator":
            return Categorical.from_logits(torch.rand(len(inputs), 3))
        if self.promise == "stochastic":
            return Categorical.from_logits(torch.rand(len(inputs), 3, generator=generator))
        if self.promise == "neighbours":
            first = prediction.probabilities[:1]
            return Categorical(first.expand(len(inputs), -1))
        if self.promise == "export":  # drawn, though it says that it does not draw
            return Categorical.from_logits(torch.rand_like(prediction.probabilities))
        return prediction

    def predict_each(self, module, inputs, generator):
        prediction = super().predict_each(module, inputs, generator)
        if self.promise == "each":
            return Categorical(prediction.probabilities.flip(1))
        return prediction


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setattr(METHODS, "_items", {**METHODS._items, "broken": Broken})


def test_one_that_keeps_its_promises():
    testing.check_method(Broken(), SPEC)


BROKEN = [
    (testing._says_what_it_is, "passes", "passes and trainings must be 1 or more"),
    (testing._says_what_it_is, "json", "settings must come back from JSON as they were"),
    (testing._predicts_a_distribution, "shape", r"probabilities must be \(N, K\), got \(7, 3\)"),
    (testing._predicts_a_distribution, "mode", "predict must leave evaluation mode on"),
    (testing._draws_from_its_generator_alone, "generator", "the same generator must give the same"),
    (testing._draws_from_its_generator_alone, "stochastic", "is_stochastic is False, found True"),
    (testing._predicts_each_as_if_alone, "neighbours", "not close"),
    (testing._predicts_each_as_if_alone, "each", "not close"),
    (testing._has_a_finite_loss_with_gradients, "scalar", r"the loss must be finite and \(\)"),
    (testing._has_a_finite_loss_with_gradients, "gradient", "0.weight must have a finite gradient"),
    (testing._measures_held_out_samples_alike, "held out", "the loss in evaluation mode must not draw"),
    (testing._counts_weights_like_repetition, "weights", "not close"),
    (testing._works_in_bfloat16, "bfloat16", "the loss must be float32 under autocast"),
    (testing._works_in_float64, "float64", "loss must stay float64"),
    (testing._learns_and_lasts, "learns", "easy data must be learned"),
    (testing._exports_or_says_why_not, "export", "not close"),
]


@pytest.mark.parametrize(("check", "promise", "reason"), BROKEN)
def test_a_broken_promise_is_found(check, promise, reason):
    with pytest.raises(AssertionError, match=reason):
        check(Broken(promise=promise), SPEC)


def test_every_check_has_a_promise_that_it_finds_broken():
    assert {check for check, _, _ in BROKEN} == set(testing.METHOD_CHECKS)


def test_a_method_that_draws_must_be_refused_by_its_name(monkeypatch):
    drawing = Dropout(samples=2)
    spec = MLPSpec(5, 3, hidden=(8,), dropout=0.5)
    monkeypatch.setattr(TrainedModel, "export_program", lambda model, path: None)
    with pytest.raises(AssertionError, match="a method that draws can't be exported, and must be refused"):
        testing._exports_or_says_why_not(drawing, spec)

    def refuse(model, path):
        raise InputError("not this one")

    monkeypatch.setattr(TrainedModel, "export_program", refuse)
    with pytest.raises(AssertionError, match="the refusal must name the method, got not this one"):
        testing._exports_or_says_why_not(drawing, spec)


@dataclass(frozen=True)
class Unstable(MLPSpec):
    """A perceptron that breaks one promise."""

    promise: str = ""

    @property
    def num_features(self):
        return 99 if self.promise == "features" else self.hidden[-1]

    def build(self, layers=Layers()):  # noqa: B008
        if self.promise == "dropout":
            return MLPSpec(self.in_features, self.num_classes, self.hidden).build()
        if self.promise == "layers":
            return MLPSpec(self.in_features, self.num_classes, self.hidden).build()
        if self.promise == "logits":
            return nn.Linear(self.in_features, self.num_classes + 1)
        return super().build(layers)


@pytest.mark.parametrize(
    ("check", "promise", "reason"),
    [
        (testing._gives_logits, "logits", r"logits must be \(N, K\), got \(1, 4\)"),
        (testing._has_the_features_it_declares, "features", "num_features is 99, found 8"),
        (testing._has_the_dropout_it_declares, "dropout", "a training pass must draw"),
        (testing._takes_the_layers_it_declares, "layers", "must come from the layers that are given"),
        (testing._goes_through_json, "json", "has no setting 'promise'"),
    ],
)
def test_a_broken_promise_of_an_encoder_is_found(check, promise, reason):
    with pytest.raises((AssertionError, InputError), match=reason):
        check(Unstable(5, 3, (8,), promise=promise))


def test_what_is_not_declared_is_not_asked_for():
    @dataclass(frozen=True)
    class Silent(MLPSpec):
        abilities: ClassVar[frozenset[Ability]] = frozenset()

        def build(self, layers=None):
            return nn.Linear(self.in_features, self.num_classes)

    for check in testing.ENCODER_CHECKS[1:]:
        check(Silent(5, 3))


class Bag(nn.Module):
    """The mean over the embeddings of all places, where those behind the end may count."""

    def __init__(self, counts_zeros):
        super().__init__()
        self.words = nn.Embedding(30, 4)
        self.head = nn.Linear(4, 3)
        self.counts_zeros = counts_zeros

    def features(self, ids):
        weights = torch.ones_like(ids) if self.counts_zeros else (ids != 0)
        weights = weights[:, :, None].to(self.words.weight.dtype)
        return (self.words(ids) * weights).sum(1) / weights.sum(1)

    def forward(self, ids):
        return self.head(self.features(ids))


@dataclass(frozen=True)
class BagSpec(MLPSpec):
    """Of texts."""

    inputs: ClassVar[InputKind] = InputKind.TEXTS
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    counts_zeros: bool = False

    @property
    def num_features(self):
        return 4

    def build(self, layers=None):
        return Bag(self.counts_zeros)


def test_an_encoder_of_texts_must_not_read_behind_their_end():
    for check in testing.ENCODER_CHECKS[1:]:
        check(BagSpec(7, 3))
    with pytest.raises(AssertionError, match="must not depend on what is behind it, text 0"):
        testing._ignores_what_is_behind_a_text(BagSpec(7, 3, counts_zeros=True))


@pytest.mark.parametrize(
    "check", [testing._works_in_float64, testing._works_in_bfloat16, testing._predicts_a_distribution]
)
def test_methods_can_be_checked_on_texts(check):
    check(Softmax(), BagSpec(7, 3))
