import re

import pytest
import torch
from tests.training.small import blobs, trained

import nescio as ev
from nescio.data.preprocess import RowPreprocess
from nescio.encoders import MLPSpec
from nescio.errors import TrainingError
from nescio.methods import EDL, Softmax
from nescio.training import Samples, TrainingSettings, fit
from nescio.training._diagnostics import (
    finds_nothing,
    is_guessing,
    mean_recall,
    some_of,
    warn_of_guessing,
)


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
    with pytest.warns(ev.NescioWarning) as said:
        _, history = trained(EDL(), shuffled, epochs=4, batch_size=8, learning_rate=1e-5)
    soon, at_the_end = (str(warning.message) for warning in said)
    assert re.match(r"after 3 epochs .*as good as guessing; lower the learning rate", soon)
    assert at_the_end.startswith("the training has learned nothing")
    assert history[-1]["is_guessing"] == 1


def test_a_loss_that_is_no_number_stops():
    expected = r"the training has diverged: the loss became nan in epoch \d; lower the learning rate"
    with pytest.raises(TrainingError, match=expected):
        trained(Softmax(), learning_rate=1e20, epochs=3)


def test_outputs_that_are_no_numbers_stop_and_name_the_remedy():
    expected = (
        r"the training has diverged: .* not finite in epoch \d; lower the learning rate \(it is 1e\+20\)"
    )
    with pytest.raises(TrainingError, match=expected):
        trained(EDL(), learning_rate=1e20, epochs=3)


def test_an_error_of_another_kind_stays_what_it_is():
    samples = blobs(30)
    with pytest.raises(ev.InputError, match="targets"):
        trained(EDL(), Samples(samples.inputs, samples.labels + 7), epochs=1)


def test_guessing_is_told_from_learning():
    labels = torch.tensor([0] * 80 + [1] * 20)
    assert is_guessing(0.8, labels)
    assert is_guessing(0.91, labels)  # by chance
    assert not is_guessing(0.93, labels)
    assert not is_guessing(1.0, torch.tensor([0, 1, 0, 1]))  # few, but all of them right


def test_one_answer_for_all_finds_nothing_however_common_it_is():
    labels = torch.tensor([0] * 95 + [1] * 5)
    same = torch.zeros(100, dtype=torch.long)
    assert mean_recall(same, labels) == 0.5
    assert finds_nothing(same, labels)
    some = same.clone()
    some[:10] = 1  # wrong more often than before, and worth more
    some[95:] = 1
    assert not finds_nothing(some, labels)
    by_lot = torch.randint(2, (100,), generator=torch.Generator().manual_seed(0))
    assert finds_nothing(by_lot, labels)


def test_some_samples_are_spread_over_all():
    assert some_of(3).tolist() == [0, 1, 2]
    positions = some_of(1_000_000)
    assert len(positions) == 2_000
    assert (int(positions[0]), int(positions[-1])) == (0, 999_500)


@pytest.mark.parametrize(
    ("accuracies", "steps", "message"),
    [
        ([0.9, 0.95, 0.9, 0.5], 100, r"has diverged: its accuracy was 0.950 and is 0.500 at the end"),
        ([0.5, 0.5, 0.5, 0.5], 100, r"has learned nothing: .*try a lower learning rate \(it is 0.1\)"),
        ([0.5, 0.5], 15, r"had only 30 steps and is as good as guessing; train for more epochs"),
    ],
)
def test_what_went_wrong_is_told_with_a_remedy(accuracies, steps, message):
    with pytest.warns(ev.NescioWarning, match=message):
        warn_of_guessing(accuracies, steps, torch.arange(400) % 2, learning_rate=0.1)


def test_a_training_too_short_to_learn_says_so():
    """As it was with 605 photos: 2 steps an epoch, 30 in all, always the same answer, and no word."""
    samples = blobs(300)
    with pytest.warns(ev.NescioWarning, match="had only 4 steps and is as good as guessing") as said:
        _, history = trained(EDL(), samples, epochs=2, batch_size=256, learning_rate=1e-9)
    assert len(said) == 1
    assert "is_guessing" not in history[-1]  # it may only be too early
    _, history = trained(EDL(), samples, epochs=8)
    assert "is_guessing" not in history[-1]


def test_what_has_learned_though_its_epochs_looked_like_guessing_is_left_alone():
    """The accuracy of an only epoch is mostly that of the weights before it."""
    samples = blobs(900)
    _, history = trained(Softmax(), samples, epochs=1, batch_size=450, learning_rate=0.05)
    assert history[0]["accuracy"] < 0.9
    assert "is_guessing" not in history[-1]


def test_balanced_classes_are_no_guessing():
    """Rare classes that are heard cost accuracy on the common one."""
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(600) % 20 == 0).long()
    inputs = torch.randn(600, 5, generator=generator)
    inputs[:, 0] += 2 * labels
    _, history = trained(
        Softmax(), Samples(inputs, labels), MLPSpec(5, 2, hidden=(8,)), epochs=10, class_weight="balanced"
    )
    assert history[-1]["accuracy"] < 0.95
    assert "is_guessing" not in history[-1]
