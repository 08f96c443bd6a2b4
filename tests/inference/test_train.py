import pytest
import torch
from torch import nn

import nescio as ev
from nescio.data import Dataset, Table
from nescio.encoders import LeNetSpec
from nescio.errors import DataError, TrainingError
from nescio.inference.model import TrainedModel
from nescio.methods import METHODS, Softmax, make_method
from nescio.metrics import negative_log_likelihood
from nescio.training import TrainingSettings

QUICK = TrainingSettings(epochs=1)


def test_held_out_images_of_another_size(digits, tmp_path):
    other = Dataset(torch.zeros(4, 1, 20, 20, dtype=torch.uint8), torch.arange(4), digits.classes, "small")
    with pytest.raises(DataError, match=r"held_out must have inputs \(1, 28, 28\) .*, got \(1, 20, 20\)"):
        TrainedModel.train(digits, settings=QUICK, held_out=other, run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_rows_of_numbers_can_not_be_shifted(tmp_path):
    table = Table(torch.zeros(4, 2), torch.tensor([0, 1, 0, 1]), ("a", "b"), "t")
    with pytest.raises(ev.InputError, match="shift: for images, not for rows"):
        TrainedModel.train(table, settings=TrainingSettings(shift=1), run_dir=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("chosen", [{"flip": True}, {"augment": "light"}, {"mixup": 0.2}])
def test_photos_for_a_frozen_encoder_are_not_augmented(chosen):
    photos = Dataset(
        torch.zeros(4, 3, 40, 40, dtype=torch.uint8), torch.tensor([0, 1, 0, 1]), ("a", "b"), "p"
    )
    encoded = []

    def on_encoding(done, count):
        encoded.append(done)

    with pytest.raises(ev.InputError, match=rf"{next(iter(chosen))}: for networks .* \(--fine-tune\)"):
        TrainedModel.train(photos, settings=TrainingSettings(**chosen), on_encoding=on_encoding)
    assert encoded == []


def test_one_class_is_no_classification(digits):
    with pytest.raises(DataError, match="samples of 1 class; a classifier needs two or more"):
        TrainedModel.train(digits.only(["3"]), settings=QUICK)
    same = Dataset(digits.images[:5], torch.zeros(5, dtype=torch.long), digits.classes, "all zeros")
    with pytest.raises(DataError, match="all zeros has samples of 1 class"):
        TrainedModel.train(same, settings=QUICK)


def test_held_out_classes_in_another_order(digits):
    backwards = Dataset(digits.images, 9 - digits.labels, tuple("9876543210"), "backwards")
    spec = LeNetSpec(filters=(2, 4), hidden=8)
    results = [
        TrainedModel.train(digits, None, spec, TrainingSettings(epochs=1), held_out=held_out).training["last"]
        for held_out in (digits, backwards)
    ]
    assert results[0]["held_out_loss"] == results[1]["held_out_loss"]


def test_a_run_is_of_its_data(digits, tmp_path):
    settings, spec = TrainingSettings(epochs=1), LeNetSpec(filters=(2, 4), hidden=8)
    TrainedModel.train(digits, None, spec, settings, run_dir=tmp_path)
    others = Dataset(digits.images.flip(3), digits.labels, digits.classes, digits.name)
    with pytest.raises(TrainingError, match=r"holds another training: .*data has another content"):
        TrainedModel.train(others, None, spec, settings, run_dir=tmp_path)


def test_a_run_with_another_network_of_ones_own(digits, tmp_path):
    def own(between):
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 8), between, nn.Linear(8, 10))

    TrainedModel.train(digits, network=own(nn.ReLU()), settings=QUICK, run_dir=tmp_path)
    with pytest.raises(TrainingError, match="holds another training: network is another one;"):
        TrainedModel.train(digits, network=own(nn.Tanh()), settings=QUICK, run_dir=tmp_path)


def test_patience_reports_the_best_epoch():
    """Labels that mean nothing are learned by heart: what is held out is soon foretold worse and worse."""
    generator = torch.Generator().manual_seed(0)
    tables = []
    for count in (24, 60):
        rows = torch.randn(count, 5, generator=generator)
        labels = torch.randint(3, (count,), generator=generator)
        tables.append(Table(rows, labels, ("a", "b", "c"), "noise"))
    train, held_out = tables
    settings = TrainingSettings(epochs=60, learning_rate=0.05, patience=3, precision="float32")
    model = TrainedModel.train(train, Softmax(), None, settings, held_out=held_out)
    best, last = model.training["best"], model.training["last"]
    losses = [metrics["held_out_loss"] for metrics in model.training["history"]]
    assert best["epoch"] == losses.index(min(losses)) + 1
    assert best["epoch"] == last["epoch"] - 3
    prediction = model.predict(held_out.features)
    assert negative_log_likelihood(prediction, held_out.labels) == pytest.approx(min(losses), rel=1e-4)
    right = (prediction.labels == held_out.labels).double().mean().item()
    assert best["held_out_accuracy"] == pytest.approx(right, abs=1e-6)


@pytest.fixture
def table():
    rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    return Table(rows, torch.arange(60) % 3, ("a", "b", "c"), "noise")


def decay_of(model):
    return model.training["settings"]["optimizer"], model.training["settings"]["weight_decay"]


def test_methods_without_a_prior_of_the_weights_get_weight_decay_on_rows():
    """The list of docs/decisions/0035."""
    without = {name for name in METHODS if not make_method(name).uses_weight_decay}
    assert without == {"ffgu", "fflu", "mnfg", "daedl", "f-edl", "natpn"}
    assert not make_method("edl", weight_decay=0.005).uses_weight_decay


@pytest.mark.parametrize(
    ("method", "found"),
    [("edl", ("adamw", 1.0)), ("ffgu", ("adam", 0.0)), (Softmax(weight_decay=0.1), ("adam", 0.0))],
)
def test_weight_decay_on_rows(table, method, found):
    assert decay_of(TrainedModel.train(table, method, settings=QUICK)) == found


def test_no_weight_decay_for_own_modules_and_images(table, digits):
    module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    assert decay_of(TrainedModel.train(table, network=module, settings=QUICK)) == ("adam", 0.0)
    small = LeNetSpec(filters=(2, 4), hidden=8)
    assert decay_of(TrainedModel.train(digits, network=small, settings=QUICK)) == ("adam", 0.0)


def test_noisy_labels_are_overfitted_less():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(600, 8, generator=generator)
    chance = torch.rand(600, generator=generator)
    labels = ((2 * rows[:, 0]).sigmoid() > chance).long()
    known = Table(rows[:200], labels[:200], ("no", "yes"), "by chance")
    losses = []
    for settings in (TrainingSettings(weight_decay=0.0), TrainingSettings()):
        said = TrainedModel.train(known, settings=settings).predict(rows[200:])
        losses.append(negative_log_likelihood(said, labels[200:]))
    assert losses[1] < 0.8 * losses[0]
