import pytest
from torch import nn

import nescio as ev
from nescio.encoders import LeNetSpec
from nescio.inference.model import TrainedModel
from nescio.methods import Softmax
from nescio.training import TrainingSettings

QUICK = TrainingSettings(epochs=1)


@pytest.mark.parametrize(
    "network", [LeNetSpec(num_classes=12), nn.Sequential(nn.Flatten(), nn.Linear(784, 5))]
)
def test_a_network_for_other_classes(digits, network):
    with pytest.raises(ev.InputError, match=r"network must give logits \(N, 10\), one for each class"):
        TrainedModel.train(digits, network=network, settings=QUICK)


def test_a_network_that_can_not_take_the_images(digits):
    with pytest.raises(ev.InputError, match=r"network can't take inputs \(N, 1, 28, 28\): mat1 and mat2"):
        TrainedModel.train(digits, network=nn.Linear(3, 3), settings=QUICK)


def test_a_network_for_other_images(digits):
    with pytest.raises(
        ev.InputError, match=r"network takes inputs \(3, 32, 32\), the data has \(1, 28, 28\)"
    ):
        TrainedModel.train(digits, network=LeNetSpec.cifar5(), settings=QUICK)


def test_a_method_by_its_name(digits):
    model = TrainedModel.train(digits, "l2", LeNetSpec(filters=(2, 3), hidden=4), TrainingSettings(epochs=1))
    assert model.method == Softmax()
    with pytest.raises(ev.InputError, match="method must be one of softmax, "):
        TrainedModel.train(digits, "magic")
