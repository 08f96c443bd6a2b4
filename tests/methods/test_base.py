from dataclasses import dataclass

import pytest
import torch

import nescio as ev
from nescio.encoders import Ability, LeNetSpec, MLPSpec
from nescio.methods import FFGU, MNFG, Batch, Dropout, Ensemble, Method, make_method
from nescio.methods._shared import softmax_loss
from nescio.methods.base import concatenate, mean_loss
from nescio.opinions import Categorical, Opinion


def test_a_method_without_a_loss_fails_when_it_is_defined():
    with pytest.raises(ev.InputError, match=r"it must define objective \(the loss of a batch\)"):

        class NoLoss(Method):
            name = "no-loss"
            about = "nothing to minimise"


def test_all_that_is_missing_is_named_at_once():
    with pytest.raises(ev.InputError, match=r"Empty is no Method yet: .* name .* about .* objective"):

        class Empty(Method):
            pass


def test_a_base_of_several_methods_may_lack_it():
    class Base(Method, abstract=True):
        about = "one of several"

    with pytest.raises(TypeError, match="abstract"):
        Base()


class Plain(Method, abstract=True):
    about = "softmax"

    def objective(self, module, batch, epoch, num_train):
        return softmax_loss(module, batch)


def test_a_second_stage_is_declared_and_defined():
    with pytest.raises(ev.InputError, match="has_second_stage = True and fit_second_stage go together"):

        class Declared(Plain):
            name = "declared"
            has_second_stage = True

    with pytest.raises(ev.InputError, match="go together; define both, or neither"):

        class Defined(Plain):
            name = "defined"

            def fit_second_stage(self, module, batches):
                pass


def test_a_second_stage_needs_features():
    with pytest.raises(ev.InputError, match=r"a second stage needs Ability\.FEATURES among `requires`"):

        class Blind(Plain):
            name = "blind"
            has_second_stage = True

            def fit_second_stage(self, module, batches):
                pass


@dataclass(frozen=True)
class Bare(MLPSpec):
    """An encoder that declares nothing, whatever fields it has."""

    kind = "bare"
    abilities = frozenset()


@dataclass(frozen=True)
class OnFeatures(Plain):
    name = "on-features"
    requires = frozenset({Ability.FEATURES})


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        (Dropout(), "the method dropout needs an encoder with dropout that can be set, and bare has none"),
        (FFGU(), "the method ffgu needs an encoder with layers that can be replaced, and bare has none"),
        (MNFG(), "the method mnfg needs an encoder with layers that can be replaced, and bare has none"),
        (OnFeatures(), "the method on-features needs an encoder with features below its head, and bare has"),
    ],
)
def test_what_an_encoder_does_not_declare_is_not_used(method, reason):
    encoder = method.default_encoder(Bare(4, 3, dropout=0.5))
    with pytest.raises(ev.InputError, match=reason):
        method.build(encoder)


def test_what_a_method_does_not_ask_for_is_not_needed():
    spec = Bare(4, 3)
    assert make_method("edl").build(spec)(torch.zeros(2, 4)).shape == (2, 3)
    assert Ensemble(2).build(Ensemble(2).default_encoder(spec))(torch.zeros(2, 4)).shape == (2, 3)


def test_the_defaults_of_most_methods():
    method, spec = make_method("softmax"), LeNetSpec(1, 16, 16, 4)
    assert (method.passes, method.trainings, method.default_encoder(spec)) == (1, 1, spec)
    logits = torch.tensor([[0.0, 1.0]])
    assert torch.equal(method.interpret(logits).probabilities, logits.softmax(1))
    module = spec.build()
    assert method.check_module(module) is module
    assert method.members(module) == [module]


def test_the_mean_of_losses():
    losses = torch.tensor([1.0, 2.0, 6.0])
    assert mean_loss(losses, None) == 3
    assert mean_loss(losses, torch.tensor([1.0, 1.0, 0.0])) == 1.5
    assert mean_loss(losses, torch.zeros(3)) == 0
    assert Batch(losses, losses).weights is None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("dropout", "needs a network with dropout"),
        ("ensemble", "builds its members itself; give a network spec"),
        ("ffgu", "must have Bayesian layers"),
        ("mnfg", "must have Bayesian layers"),
    ],
)
def test_a_network_of_ones_own_that_a_method_can_not_train(name, reason):
    with pytest.raises(ev.InputError, match=reason):
        make_method(name).check_module(torch.nn.Linear(5, 3))


def test_batches_of_opinions_keep_their_prior():
    parts = [Opinion(torch.tensor([[1.0, 0.0]]), 0.1), Opinion(torch.tensor([[0.0, 3.0]]), 0.1)]
    joined = concatenate(parts)
    assert joined.prior == 0.1
    torch.testing.assert_close(joined.uncertainty, torch.tensor([0.2 / 1.2, 0.2 / 3.2]))
    assert joined.base_rates is None


def test_batches_without_base_rates_have_equal_ones_beside_others():
    with_rates = Opinion(torch.tensor([[1.0, 0.0]]), base_rates=torch.tensor([[0.9, 0.1]]))
    without = Opinion(torch.tensor([[0.0, 3.0]]))
    for parts in ([with_rates, without], [without, with_rates]):
        expected = torch.cat([part.probabilities for part in parts])
        torch.testing.assert_close(concatenate(parts).probabilities, expected)


def test_batches_of_opinions_keep_their_base_rates():
    first = Opinion(torch.tensor([[1.0, 0.0]]), base_rates=torch.tensor([[0.9, 0.1]]))
    second = Opinion(torch.tensor([[0.0, 3.0]]), base_rates=torch.tensor([[0.2, 0.8]]))
    assert concatenate([first, second]).base_rates.tolist() == pytest.approx(
        torch.tensor([[0.9, 0.1], [0.2, 0.8]])
    )


def test_batches_keep_an_uncertainty_of_their_own_and_their_labels():
    first = Categorical(torch.tensor([[0.5, 0.5]]), torch.tensor([0.25]), torch.tensor([1]))
    second = Categorical(torch.tensor([[0.9, 0.1]]), torch.tensor([0.75]))
    joined = concatenate([first, second])
    assert joined.uncertainty.tolist() == [0.25, 0.75]
    assert joined.labels.tolist() == [1, 0]
    plain = concatenate([Categorical(first.probabilities), Categorical(second.probabilities)])
    assert plain.own_uncertainty is None
    assert plain.raw_labels is None


def test_batches_without_an_uncertainty_of_their_own_keep_their_labels():
    even = torch.tensor([[0.5, 0.5]])
    joined = concatenate([Categorical(even, raw_labels=torch.tensor([1])), Categorical(even)])
    assert joined.own_uncertainty is None
    assert joined.labels.tolist() == [1, 0]
