from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import nescio as ev
from nescio.data import Table
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import Dropout


def test_dropout_averages_passes_with_units_switched_off():
    """One hidden unit, kept half of the time: by hand, the mean of softmax with it doubled and without it."""
    method = Dropout(samples=4000)
    module = method.build(MLPSpec(1, 2, hidden=(1,), dropout=0.5)).eval()
    inputs = torch.tensor([[1.5]])
    with torch.no_grad():
        module[0].weight.fill_(1.0), module[0].bias.zero_()
        hidden = module[0](inputs).relu()
        on, off = (module[3](scale * hidden).softmax(-1) for scale in (2.0, 0.0))
        found = method.predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    torch.testing.assert_close(found, (on + off) / 2, rtol=0, atol=0.02)
    assert not module.training
    assert not module[2].training


def test_dropout_needs_a_network_with_it():
    with pytest.raises(ev.InputError, match="needs a network with dropout"):
        Dropout().build(MLPSpec(3, 2))
    assert Dropout().default_encoder(MLPSpec(3, 2)).dropout == 0.5
    assert Dropout().default_encoder(MLPSpec(3, 2, dropout=0.2)).dropout == 0.2


def test_the_first_layers_are_computed_once():
    calls = []
    module = Dropout().build(LeNetSpec(filters=(2, 3), hidden=4)).eval()
    module[0].register_forward_hook(lambda *_: calls.append("convolution"))
    module[-1].register_forward_hook(lambda *_: calls.append("last"))
    Dropout(samples=5).predict(module, torch.randn(2, 1, 28, 28), torch.Generator())
    assert calls == ["convolution"] + ["last"] * 5


def test_dropout_that_works_in_place_is_the_same():
    spec = MLPSpec(4, 3, dropout=0.5)
    torch.manual_seed(0)
    module, inputs = spec.build().eval(), torch.randn(5, 4)
    plain = Dropout().predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    for layer in module:
        if isinstance(layer, torch.nn.Dropout):
            layer.inplace = True
    found = Dropout().predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    assert torch.equal(found, plain)


def test_a_network_whose_way_depends_on_values_is_asked_for_each_alone():
    class Wayward(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.Dropout(0.5)
            self.last = torch.nn.Linear(4, 3)

        def forward(self, inputs):
            hidden = self.dropout(inputs)
            return self.last(hidden if hidden.sum() > 0 else -hidden)

    torch.manual_seed(0)
    module, inputs = Wayward().eval(), torch.randn(5, 4)
    method = Dropout(samples=4)

    def drawn(some):
        return method.predict_each(module, some, torch.Generator().manual_seed(0)).probabilities

    with torch.no_grad():
        alone = [method.predict(module, one, torch.Generator().manual_seed(0)) for one in inputs.split(1)]
        torch.testing.assert_close(drawn(inputs), torch.cat([one.probabilities for one in alone]))
    assert not module.dropout.training


def test_predictions_in_threads_do_not_disturb_each_other():
    data = Table(torch.randn(40, 4), torch.arange(40) % 2, ("a", "b"), "rows")
    chosen = ev.TrainingSettings(epochs=1, batch_size=8, learning_rate=1e-2)
    spec = MLPSpec(4, 2, dropout=0.5)
    model = ev.TrainedModel.train(data, Dropout(samples=20), spec, settings=chosen, posthoc="none")
    expected = model.predict(data.features).probabilities
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: model.predict(data.features).probabilities, range(24)):
            torch.testing.assert_close(found, expected, rtol=0, atol=0)


class Doubling(torch.nn.Sequential):
    """Does more than its layers, and is not made from them."""

    def __init__(self, num_features):
        super().__init__(torch.nn.Linear(num_features, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 3))

    def forward(self, inputs):
        return 2 * super().forward(inputs)


def test_a_sequence_with_a_way_of_its_own_goes_it_once():
    torch.manual_seed(0)
    module, inputs = Doubling(4).eval(), torch.randn(5, 4)
    found = Dropout(samples=3).predict(module, inputs, torch.Generator().manual_seed(0)).probabilities
    same = torch.nn.Sequential(*module, Twice()).eval()
    expected = Dropout(samples=3).predict(same, inputs, torch.Generator().manual_seed(0)).probabilities
    torch.testing.assert_close(found, expected)


class Twice(torch.nn.Module):
    def forward(self, logits):
        return 2 * logits
