"""Settings: what can be, and what is chosen by the size of the data."""

import dataclasses
import json
import math

import numpy as np
import pytest

import nescio as ev
from nescio.training import TrainingSettings
from nescio.training.settings import enough_steps, settings_for_part


@pytest.mark.parametrize(
    "bad",
    [
        {"epochs": 0},
        {"epochs": 1.5},
        {"batch_size": 0},
        {"learning_rate": 0.0},
        {"schedule": "step"},
        {"precision": "int8"},
        {"shift": -1},
        {"patience": 0},
        {"patience": 1.5},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
        {"epochs": True},
        {"shift": 0.5},
        {"learning_rate": "fast"},
        {"learning_rate": True},
        {"flip": "no"},
        {"flip": 1},
        {"learning_rate": float("nan")},
        {"optimizer": "step"},
        {"weight_decay": -1.0},
        {"warmup": 1.0},
        {"clip_norm": -0.5},
        {"accumulate": 0},
        {"ema": 1.0},
        {"class_weight": "equal"},
        {"class_weight": [1.0, -1.0]},
        {"class_weight": [0.0, 0.0]},
        {"class_weight": 3.0},
        {"sampler": "random"},
        {"encoder_rate": float("inf")},
        {"freeze_epochs": -1},
        {"augment": "much"},
        {"mixup": -0.1},
    ],
)
def test_settings_that_can_not_be(bad):
    with pytest.raises(ev.InputError, match=r"must be|can't be"):
        TrainingSettings(**bad)


@pytest.mark.parametrize("num_train", [1, 30, 90, 484, 1_000, 5_000, 16_000, 60_000, 1_281_167])
def test_small_data_get_enough_steps_and_large_data_no_more_than_they_need(num_train):
    settings = TrainingSettings().resolved(num_train)
    steps = math.ceil(num_train / settings.batch_size) * settings.epochs
    assert steps >= 1_000
    assert steps <= max(4_000, 5 * math.ceil(num_train / 256))
    assert settings.batch_size in (16, 32, 64, 128, 256)
    assert settings == settings.resolved(num_train)


def test_steps_grow_with_the_data():
    counts = [enough_steps(num_train) for num_train in range(1, 40_000, 97)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (1_000, 3_500)


def test_what_is_given_stays():
    given = TrainingSettings(epochs=3, batch_size=7, optimizer="sgd", weight_decay=0.5, clip_norm=0.0)
    for fine_tuned in (False, True):
        settings = given.resolved(1_000, fine_tuned)
        assert (settings.epochs, settings.batch_size, settings.optimizer) == (3, 7, "sgd")
        assert (settings.weight_decay, settings.clip_norm) == (0.5, 0.0)


@pytest.mark.parametrize(
    ("num_train", "num_classes", "epochs"),
    [(22_500, 5, 5), (22_500, 64, 40), (22_500, 1000, 40), (484, 4, 10), (8_000, 20, 15)],
)
def test_a_head_of_few_classes_gets_fewer_steps(num_train, num_classes, epochs):
    assert TrainingSettings().resolved(num_train, head_classes=num_classes).epochs == epochs
    assert TrainingSettings().resolved(num_train).epochs >= epochs
    assert TrainingSettings(epochs=7).resolved(num_train, head_classes=num_classes).epochs == 7


def test_fewer_steps_of_an_epoch_make_more_epochs():
    one = TrainingSettings(batch_size=16).resolved(800)
    four = TrainingSettings(batch_size=16, accumulate=4).resolved(800)
    assert (one.epochs, four.epochs) == (20, 77)


def test_fine_tuning_has_an_optimiser_of_its_own():
    settings = TrainingSettings().resolved(1_000, fine_tuned=True)
    assert (settings.optimizer, settings.encoder_rate, settings.warmup) == ("adamw", 0.1, 0.1)
    assert (settings.weight_decay, settings.clip_norm) == (0.01, 1.0)
    settings = TrainingSettings().resolved(1_000)
    assert (settings.optimizer, settings.encoder_rate, settings.warmup) == ("adam", 1.0, 0.0)
    assert (settings.weight_decay, settings.clip_norm) == (0.0, 0.0)


@pytest.mark.parametrize(("num_train", "decay"), [(1, 1.0), (1_000, 1.0), (4_000, 0.25), (50_000, 0.02)])
def test_weight_decay_falls_with_the_number_of_samples(num_train, decay):
    settings = TrainingSettings().resolved(num_train, with_weight_decay=True)
    assert (settings.optimizer, settings.weight_decay) == ("adamw", pytest.approx(decay))
    assert settings == settings.resolved(num_train, with_weight_decay=True)
    assert settings == TrainingSettings(optimizer="adamw").resolved(num_train, with_weight_decay=True)


@pytest.mark.parametrize("given", [{"optimizer": "adam"}, {"optimizer": "sgd", "weight_decay": 0.1}])
def test_another_optimiser_gets_no_weight_decay(given):
    chosen = TrainingSettings(**given)
    assert chosen.resolved(500, with_weight_decay=True) == chosen.resolved(500)


@pytest.mark.parametrize("decay", [0.0, 0.5])
def test_another_weight_decay_has_the_same_optimiser(decay):
    settings = TrainingSettings(weight_decay=decay).resolved(500, with_weight_decay=True)
    assert (settings.optimizer, settings.weight_decay) == ("adamw", decay)


def test_fine_tuning_has_its_own_weight_decay():
    assert TrainingSettings().resolved(500, True, with_weight_decay=True).weight_decay == 0.01


def test_weights_of_classes_as_an_array():
    assert TrainingSettings(class_weight=np.array([1.0, 2.5])).class_weight == (1.0, 2.5)
    with pytest.raises(ev.InputError, match="class_weight must be 'balanced', or a number from 0 on"):
        TrainingSettings(class_weight=np.float64(3.0))


def test_settings_go_through_json():
    settings = TrainingSettings(class_weight=[1, 2.5]).resolved(10)
    assert TrainingSettings(**json.loads(json.dumps(settings.to_dict()))) == settings


@pytest.mark.parametrize(
    ("num_train", "num_part", "epochs"),
    [(160, 128, 125), (200, 160, 130), (10, 8, 100), (160, 160, 100), (33, 8, 200), (34, 8, 300)],
)
def test_a_part_of_the_samples_gets_about_as_many_steps(num_train, num_part, epochs):
    settings = TrainingSettings(epochs=100, batch_size=16, learning_rate=0.1)
    of_part = settings_for_part(settings, num_train, num_part)
    assert of_part == dataclasses.replace(settings, epochs=epochs)


@pytest.mark.parametrize(("accumulate", "epochs"), [(8, 200), (2, 125)])
def test_batches_that_make_one_step_count_once(accumulate, epochs):
    settings = TrainingSettings(epochs=100, batch_size=16, learning_rate=0.1, accumulate=accumulate)
    assert settings_for_part(settings, 160, 128).epochs == epochs
