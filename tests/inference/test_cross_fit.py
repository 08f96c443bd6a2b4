"""Predictions of samples by networks that were trained without them."""

import warnings

import pytest
import torch

from nescio.errors import InputError, NescioWarning, TrainingError
from nescio.inference._cross_fit import FOLDS, out_of_fold_predictions
from nescio.inference.model import untrained_model
from nescio.training import Samples


def samples(labels: torch.Tensor) -> Samples:
    """Rows that say which sample they are."""
    return Samples(torch.arange(len(labels)).float()[:, None].repeat(1, 2), labels)


class Watched:
    """A training that keeps what it was asked to train on, and learns nothing."""

    def __init__(self, training: Samples) -> None:
        self.training = training
        self.parts: list[torch.Tensor] = []

    def __call__(self, rows: torch.Tensor):
        self.parts.append(rows)
        warnings.warn("nothing was learned", NescioWarning, stacklevel=2)
        return untrained_model(self.training.inputs, ("a", "b", "c"), seed=len(self.parts))


def test_every_sample_is_predicted_by_a_network_that_was_trained_without_it():
    training = samples(torch.arange(60) % 3)
    watched = Watched(training)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # what the training of the whole said is not said five times more
        unseen = out_of_fold_predictions(training, watched, None, 0)
    assert unseen.num_networks == len(watched.parts) == FOLDS
    assert sorted(unseen.rows.tolist()) == list(range(60))
    place = 0
    for number, part in enumerate(watched.parts, start=1):
        rows = unseen.rows[place : place + 60 - len(part)]
        place += len(rows)
        assert set(rows.tolist()).isdisjoint(part.tolist())
        model = untrained_model(training.inputs, ("a", "b", "c"), seed=number)
        expected = model.predict(training.inputs[rows]).probabilities
        torch.testing.assert_close(unseen.prediction.probabilities[place - len(rows) : place], expected)
    assert place == 60


def test_groups_are_left_out_whole():
    training = samples(torch.arange(60) % 3)
    watched = Watched(training)
    groups = torch.arange(60) // 6
    unseen = out_of_fold_predictions(training, watched, groups, 0)
    for part in watched.parts:
        rest = torch.ones(60, dtype=torch.bool)
        rest[part] = False
        assert set(groups[part].tolist()).isdisjoint(groups[rest].tolist())
    assert len(unseen.rows) == 60


def test_samples_of_a_class_that_is_left_out_with_them_are_not_asked_about():
    labels = torch.cat([torch.arange(40) % 2, torch.tensor([2])])
    unseen = out_of_fold_predictions(samples(labels), Watched(samples(labels)), None, 0)
    assert sorted(unseen.rows.tolist()) == list(range(40))


def test_one_group_can_not_be_left_out():
    training = samples(torch.arange(60) % 3)
    with pytest.raises(InputError, match="no sample can be predicted by a network"):
        out_of_fold_predictions(training, Watched(training), torch.zeros(60, dtype=torch.int64), 0)


def test_a_network_of_less_than_half_of_the_samples_is_not_asked():
    training = samples(torch.arange(60) % 3)
    watched = Watched(training)
    groups = torch.cat([torch.zeros(40, dtype=torch.int64), torch.arange(20) // 2 + 1])
    unseen = out_of_fold_predictions(training, watched, groups, 0)
    assert all(len(part) >= 30 for part in watched.parts)
    assert unseen.num_networks == len(watched.parts) == FOLDS - 1
    assert sorted(unseen.rows.tolist()) == list(range(40, 60))


def test_a_network_that_diverges_is_named():
    def diverging(rows: torch.Tensor):
        raise TrainingError("the loss is not finite")

    training = samples(torch.arange(60) % 3)
    with pytest.raises(TrainingError, match="a network without a part of the data: the loss is not finite"):
        out_of_fold_predictions(training, diverging, None, 0)
