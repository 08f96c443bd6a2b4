import copy
import threading

import pytest
import torch
from torch import nn

from nescio.encoders import LeNetSpec, features_of, require_features, with_features
from nescio.errors import InputError


class Branched(nn.Module):
    """As torchvision's networks are laid out: a body, pooling, a dense head."""

    def __init__(self, flat=False):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())
        self.avgpool = nn.AdaptiveAvgPool2d(2 if flat else 1)
        self.side = nn.Linear(8, 8)
        self.fc = nn.Linear(8 * (4 if flat else 1), 5)

    def forward(self, images):
        return self.fc(torch.flatten(self.avgpool(self.body(images)), 1))


@pytest.fixture
def network():
    torch.manual_seed(0)
    return Branched().eval()


IMAGES = torch.rand(4, 3, 9, 7, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    "names", [{}, {"layer": "avgpool"}, {"head": "fc"}, {"layer": "avgpool", "head": "fc"}, {"layer": "body"}]
)
def test_features_and_head(network, names):
    wrapped = with_features(network, **names)
    require_features(wrapped)
    expected = network.body(IMAGES).mean((2, 3))
    torch.testing.assert_close(features_of(wrapped, IMAGES), expected)
    assert wrapped.head is network.fc
    assert torch.equal(wrapped(IMAGES), network(IMAGES))
    torch.testing.assert_close(wrapped.head(wrapped.features(IMAGES)), network(IMAGES))


def test_maps_that_the_head_takes_whole_are_flattened():
    network = Branched(flat=True).eval()
    features = with_features(network, layer="avgpool").features(IMAGES)
    assert features.shape == (4, 32)
    torch.testing.assert_close(network.fc(features), network(IMAGES))


def test_the_weights_are_there_once(network):
    wrapped = with_features(network, layer="avgpool")
    assert list(wrapped.state_dict()) == [f"network.{name}" for name in network.state_dict()]
    other = with_features(Branched(), layer="avgpool")
    other.load_state_dict(wrapped.state_dict())
    assert torch.equal(other.eval()(IMAGES), network(IMAGES))


def test_it_can_be_trained_and_copied(network):
    wrapped = copy.deepcopy(with_features(network, layer="avgpool")).train()
    wrapped.features(IMAGES).sum().backward()
    assert float(wrapped.network.body[0].weight.grad.abs().sum()) > 0
    assert wrapped.network.fc.weight.grad is None
    assert not wrapped.network.avgpool._forward_hooks


@pytest.mark.parametrize("layer", ["1", "2", "3"])
def test_a_sequence_has_the_rest_as_its_head(layer):
    network = nn.Sequential(
        *(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()),
        *(nn.Linear(8, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 4)),
    ).eval()
    wrapped = with_features(network, layer=layer)
    features = features_of(wrapped, IMAGES)
    assert features.shape == (4, 6 if layer == "3" else 8)
    torch.testing.assert_close(wrapped.head(features), network(IMAGES))
    assert torch.equal(wrapped(IMAGES), network(IMAGES))


def test_a_network_that_has_both_already():
    network = LeNetSpec(1, 16, 16).build()
    assert with_features(network) is network


def test_threads_do_not_take_each_others_features(network):
    wrapped = with_features(network, layer="avgpool")
    inputs = [torch.full((1, 3, 9, 7), float(number)) for number in range(8)]
    expected = [wrapped.features(each) for each in inputs]
    wrong = []

    def work(place):
        for _ in range(30):
            if not torch.equal(wrapped.features(inputs[place]), expected[place]):
                wrong.append(place)

    threads = [threading.Thread(target=work, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: with_features(lambda x: x), "module must be a torch.nn.Module, got a function"),
        (lambda: with_features(Branched(), layer="avg_pool"), "no layer 'avg_pool'; it has, .*: avgpool"),
        (lambda: with_features(Branched(), head="classifier"), "no layer 'classifier'; it has"),
        (
            lambda: with_features(nn.Conv2d(1, 1, 1)),
            "no head can be told: the network has no torch.nn.Linear",
        ),
        (
            lambda: with_features(nn.Sequential(nn.ReLU(), nn.ReLU()), layer="1"),
            "must not be the last of the",
        ),
    ],
)
def test_what_does_not_fit(make, reason):
    with pytest.raises(InputError, match=reason):
        make()


def test_names_that_do_not_go_together():
    torch.manual_seed(0)
    twice = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4))

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = twice

        def forward(self, rows):
            return self.parts(rows)

    rows = torch.rand(3, 4)
    with pytest.raises(InputError, match=r"layer='parts.0' and head='parts.2' do not go together"):
        with_features(Twice().eval(), layer="parts.0").features(rows)
    assert with_features(Twice().eval(), layer="parts.1").features(rows).shape == (3, 4)


def test_a_sequence_whose_head_needs_maps():
    network = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)
    )
    wrapped = with_features(network.eval(), layer="0")
    with pytest.raises(InputError, match="layer='0' and what comes after it do not go together"):
        wrapped.features(IMAGES)


def test_a_layer_that_is_not_used(network):
    with pytest.raises(InputError, match="computed without this layer"):
        with_features(network, layer="side").features(IMAGES)


def test_outputs_that_are_no_tensor():
    class Pair(nn.Module):
        def forward(self, rows):
            return rows, rows

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.pair, self.fc = Pair(), nn.Linear(4, 2)

        def forward(self, rows):
            return self.fc(self.pair(rows)[0])

    with pytest.raises(InputError, match=r"features must be a tensor \(N, ...\), got tuple"):
        with_features(Network(), layer="pair").features(torch.rand(2, 4))
