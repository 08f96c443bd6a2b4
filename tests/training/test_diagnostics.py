import warnings

import pytest
import torch
from tests.training.small import blobs, trained

import nescio as ev
from nescio.data.preprocess import RowPreprocess
from nescio.encoders import MLPSpec
from nescio.errors import TrainingError
from nescio.methods import EDL, Softmax
from nescio.training import Samples, TrainingSettings, fit
from nescio.training._diagnostics import is_guessing, warn_if_diverged


def test_dead_evidence_is_told_once_with_a_remedy():
    method = EDL(evidence="relu")
    torch.manual_seed(0)
    module = method.build(MLPSpec(5, 3, hidden=()))
    with torch.no_grad():
        module[-1].weight[1], module[-1].bias[1] = 0.0, -5.0
    preprocess = RowPreprocess((5,), (0.0,) * 5, (1.0,) * 5)
    remedy = r"class 1: no evidence on any input of epoch 1, .*evidence='exp'"
    with pytest.warns(ev.NescioWarning, match=remedy) as said:
        fit(method, module, preprocess, blobs(), TrainingSettings(epochs=3, learning_rate=1e-6))
    assert len([one for one in said if "no evidence" in str(one.message)]) == 1


def test_being_stuck_is_told_with_a_remedy():
    samples = blobs(300, classes=3)
    shuffled = Samples(torch.zeros_like(samples.inputs), samples.labels)
    with pytest.warns(
        ev.NescioWarning, match=r"after 3 epochs .*as good as guessing; lower the learning rate"
    ):
        trained(EDL(), shuffled, epochs=4, batch_size=8, learning_rate=1e-5)


def test_a_loss_that_is_no_number_stops():
    with pytest.raises(TrainingError, match=r"the loss became nan in epoch \d; lower the learning rate"):
        trained(Softmax(), learning_rate=1e20, epochs=3)


def test_guessing_is_told_from_learning():
    labels = torch.tensor([0] * 80 + [1] * 20)
    assert is_guessing(0.8, labels)
    assert is_guessing(0.91, labels)  # by chance
    assert not is_guessing(0.93, labels)


@pytest.mark.parametrize(
    ("accuracies", "diverged"),
    [
        ([0.9, 0.95, 0.9, 0.5], True),
        ([0.9, 0.95, 0.9, 0.8], False),
        ([0.5, 0.5, 0.5, 0.5], False),  # stuck from the beginning: said before
        ([0.9, 0.5], False),  # too early to say
    ],
)
def test_what_was_learned_and_lost_is_told(accuracies, diverged):
    labels = torch.arange(400) % 2
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        warn_if_diverged(accuracies, steps=100, labels=labels)
    assert len(said) == diverged
    if diverged:
        assert "accuracy was 0.950 and is 0.500 at the end" in str(said[0].message)
