import pytest
import torch
from torch import nn

from nescio.encoders import LeNetSpec, MLPSpec, ResNet18Spec, with_features
from nescio.encoders.base import FEATURES, INPUTS
from nescio.errors import InputError
from nescio.inference import _layers
from nescio.inference._layers import distance_layer, features_at, predict_at_layer
from nescio.inference.model import untrained_model
from nescio.methods import DAEDL, EDL, FEDL, FFGU, MNFG, Dropout, Ensemble, Softmax

IMAGES = torch.rand(6, 1, 28, 28, generator=torch.Generator().manual_seed(0))
LENET = LeNetSpec(filters=(3, 4), hidden=16, num_classes=3)
CONVOLVED = 4 * 4 * 4
METHODS = [EDL(), Softmax(), Ensemble(num_members=2), Dropout(samples=2), FFGU(), DAEDL()]


class Own(nn.Module):
    """A network of a user, with features and a head whose first layer works in place."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(5, 4)
        self.head = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 3))

    def features(self, inputs):
        return self.body(inputs)

    def forward(self, inputs):
        return self.head(self.features(inputs))


def model_of(method, spec, inputs):
    return untrained_model(inputs, ("a", "b", "c"), method, spec)


@pytest.mark.parametrize("method", METHODS)
def test_the_layer_of_a_lenet_is_its_second_convolution(method):
    model = model_of(method, LENET, IMAGES)
    layer = distance_layer(model.method, model.module, model.network)
    assert layer == "6"
    features = features_at(model, IMAGES, layer)
    assert features.shape == (6, CONVOLVED)
    again = features_at(model, IMAGES, layer)
    assert torch.equal(features, again)  # nothing is drawn


@pytest.mark.parametrize("method", METHODS)
def test_what_predicts_gives_the_same_features(method):
    model = model_of(method, LENET, IMAGES)
    model.module.eval()
    prepared = model.preprocess(IMAGES)
    generator = torch.Generator().manual_seed(0)
    plain = method.predict(model.module, prepared, generator)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        prediction, features = predict_at_layer(
            method, model.module, "6", prepared, lambda: method.predict(model.module, prepared, generator)
        )
    torch.testing.assert_close(features, features_at(model, IMAGES, "6"))
    torch.testing.assert_close(prediction.probabilities, plain.probabilities)
    assert not any(layer._forward_hooks for layer in model.module.modules())


@pytest.mark.parametrize("method", [EDL(), DAEDL(), FEDL(), MNFG()], ids=lambda method: method.name)
def test_rows_are_measured_at_the_first_hidden_layer(method):
    rows = torch.rand(6, 5)
    model = model_of(method, MLPSpec(5, 3, hidden=(8, 4)), rows)
    layer = distance_layer(model.method, model.module, model.network)
    assert layer == "1"
    features = features_at(model, rows, layer)
    assert features.shape == (6, 8)
    assert features.min() >= 0


def test_rows_are_measured_as_they_are_where_there_is_no_hidden_layer():
    rows = torch.rand(6, 5)
    model = model_of(EDL(), MLPSpec(5, 3, hidden=()), rows)
    assert distance_layer(model.method, model.module, model.network) == INPUTS
    torch.testing.assert_close(features_at(model, rows, INPUTS), model.preprocess(rows))


def test_other_encoders_are_measured_where_their_head_sees_them():
    images = torch.rand(2, 3, 16, 16)
    model = model_of(EDL(), ResNet18Spec(3, 16, 16, 3, stem="small"), images)
    assert distance_layer(model.method, model.module, model.network) == FEATURES
    assert features_at(model, images, FEATURES).shape == (2, 512)


def test_a_network_of_ones_own_is_measured_at_its_features():
    rows = torch.rand(6, 5)
    own = Own()
    model = model_of(EDL(), own, rows)
    assert distance_layer(model.method, model.module, None) == FEATURES
    prepared = model.preprocess(rows)
    with torch.no_grad():
        _, features = predict_at_layer(EDL(), own, FEATURES, prepared, lambda: own(prepared))
    torch.testing.assert_close(features, own.features(prepared).detach())


def test_a_head_that_is_made_anew_is_found_too():
    rows = torch.rand(6, 5)
    own = with_features(nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 3)), layer="1")
    model = model_of(EDL(), own, rows)
    own.eval()
    prepared = model.preprocess(rows)
    with torch.no_grad():
        _, features = predict_at_layer(EDL(), own, FEATURES, prepared, lambda: own(prepared))
    assert features.shape == (6, 4)


def test_a_network_without_features_has_no_layer():
    own = nn.Linear(5, 3)
    assert distance_layer(EDL(), own, None) is None
    with pytest.raises(InputError, match="no layer '6', at which its trust was fitted"):
        predict_at_layer(EDL(), own, "6", torch.rand(2, 5), lambda: None)


def test_of_large_inputs_fewer_are_in_the_network_at_a_time(monkeypatch):
    model = model_of(EDL(), LENET, IMAGES)
    expected = model.predict(IMAGES).evidence
    sizes = []
    model.module.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    monkeypatch.setattr(_layers, "_NUMBERS", 4 * 28 * 28)
    assert torch.allclose(model.predict(IMAGES).evidence, expected, rtol=1e-5)
    monkeypatch.setattr(_layers, "_NUMBERS", 100)  # less than one
    model.predict(IMAGES[:2])
    model.predict(IMAGES[:3], batch_size=2)
    assert sizes == [4, 2, 1, 1, 1, 1, 1]
