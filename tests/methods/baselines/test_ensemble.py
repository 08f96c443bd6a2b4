import pytest
import torch
from torch.nn.functional import cross_entropy

from nescio.data.preprocess import RowPreprocess
from nescio.encoders import MiniLMSpec, MLPSpec
from nescio.errors import InputError
from nescio.methods import Batch, Ensemble
from nescio.training import Samples, TrainingSettings, fit


def test_the_ensemble_minimises_clean_and_adversarial_loss():
    """Against the plain computation: two losses, their mean, and its gradient by one backward pass."""
    method, spec = Ensemble(2, epsilon=0.05), MLPSpec(5, 3)
    torch.manual_seed(0)
    member = method.build(spec).networks[0].train()
    batch = Batch(torch.randn(8, 5), torch.arange(8) % 3, None, torch.tensor([1.0, 2, 3, 4, 5]))
    loss, _ = method.objective(member, batch, 0.0, 8)
    found = torch.autograd.grad(loss, list(member.parameters()))
    inputs = batch.inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(cross_entropy(member(inputs), batch.labels), inputs)
    attacked = batch.inputs + 0.05 * batch.input_range * slope.sign()
    plain = 0.5 * (
        cross_entropy(member(batch.inputs), batch.labels) + cross_entropy(member(attacked), batch.labels)
    )
    torch.testing.assert_close(loss, plain)
    torch.testing.assert_close(found, torch.autograd.grad(plain, list(member.parameters())))


def test_the_ensemble_is_the_mean_of_its_members():
    method = Ensemble(3)
    module = method.build(MLPSpec(5, 4)).eval()
    inputs = torch.randn(6, 5)
    expected = torch.stack([one(inputs).softmax(-1) for one in method.members(module)]).mean(0)
    torch.testing.assert_close(method.predict(module, inputs, torch.Generator()).probabilities, expected)
    assert not torch.equal(module.networks[0][0].weight, module.networks[1][0].weight)
    assert method.check_module(module) is module
    with pytest.raises(InputError, match="with num_members=3, and the method has 5; give a method"):
        Ensemble(5).check_module(module)


def test_adversarial_training_in_bfloat16():
    """Fabric's mixed precision refuses gradients inside a loss, unless it is told better."""
    method = Ensemble(2, epsilon=0.1)
    torch.manual_seed(0)
    module = method.build(MLPSpec(4, 2, hidden=(8,)))
    labels = torch.arange(32) % 2
    samples = Samples(torch.randn(32, 4) + 2 * labels[:, None], labels)
    settings = TrainingSettings(epochs=3, batch_size=8, learning_rate=1e-2, precision="bfloat16")
    history = fit(method, module, RowPreprocess((4,), (0.0,) * 4, (1.0,) * 4), samples, settings)
    assert history[2]["loss"] < history[0]["loss"]


def test_tokens_can_not_be_moved():
    with pytest.raises(InputError, match="the tokens that minilm takes can't be moved: set epsilon to 0"):
        Ensemble(num_members=1).build(MiniLMSpec())
    member = Ensemble(num_members=1, epsilon=0).build(MiniLMSpec(8, 3))
    assert member(torch.tensor([[5, 6, 0, 0]])).shape == (1, 3)
