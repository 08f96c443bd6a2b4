"""A method with a second stage, from its definition to a loaded file."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from torch import nn

from nescio import InputError, TrainedModel, TrainingSettings
from nescio.data import Table
from nescio.data.preprocess import RowPreprocess
from nescio.encoders import Ability, MLPSpec, features_of
from nescio.methods import FeatureBatch, Method, Softmax, TwoStage, register_method
from nescio.methods._shared import softmax_loss
from nescio.methods.registry import METHODS
from nescio.opinions.categorical import Categorical
from nescio.training import Samples, fit


class ClassMeans(nn.Module):
    def __init__(self, num_classes, num_features):
        super().__init__()
        self.register_buffer("means", torch.zeros(num_classes, num_features))


@dataclass(frozen=True)
class NearestMean(Method):
    """The nearer the mean feature of a class, the more probable it is."""

    name: ClassVar[str] = "nearest-mean"
    about: ClassVar[str] = "softmax of the distances from each class's mean feature"
    requires: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES})
    has_second_stage: ClassVar[bool] = True

    def build(self, encoder):
        means = ClassMeans(encoder.num_classes, encoder.num_features)
        return TwoStage(super().build(encoder), means)

    def check_module(self, module):
        super().check_module(module)
        return TwoStage(module, ClassMeans(module.head.out_features, module.head.in_features))

    def objective(self, module, batch, epoch, num_train):
        return softmax_loss(module, batch)

    def fit_second_stage(self, module, batches):
        means = module.second_stage.means
        sums, counts = torch.zeros_like(means), means.new_zeros(len(means), 1)
        for batch in batches:
            weights = torch.ones_like(batch.labels) if batch.weights is None else batch.weights
            weights = weights.to(means.dtype)[:, None]
            sums.index_add_(0, batch.labels, batch.features * weights)
            counts.index_add_(0, batch.labels, weights)
        means.copy_(sums / counts)

    def predict(self, module, inputs, generator):
        distances = torch.cdist(features_of(module, inputs), module.second_stage.means)
        return Categorical.from_logits(-distances)


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(METHODS, "_items", dict(METHODS._items))
    return register_method(NearestMean)


@pytest.fixture(scope="module")
def table():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(90) % 3
    features = torch.randn(90, 4, generator=generator) + 3 * torch.eye(3, 4)[labels]
    return Table(features, labels, ("a", "b", "c"), "blobs")


SETTINGS = TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2, optimizer="adam")


def means_by_hand(model, table):
    with torch.no_grad():
        features = model.module.features(model.preprocess(table.features))
    return torch.stack([features[table.labels == label].mean(0) for label in range(3)])


def test_it_is_fitted_after_the_training_and_saved(registered, table, tmp_path):
    model = TrainedModel.train(table, NearestMean(), settings=SETTINGS)
    torch.testing.assert_close(model.module.second_stage.means, means_by_hand(model, table))
    prediction = model.predict(table.features)
    assert (prediction.labels == table.labels).float().mean() > 0.9
    model.save(tmp_path / "model.safetensors")
    again = TrainedModel.load(tmp_path / "model.safetensors")
    assert torch.equal(again.module.second_stage.means, model.module.second_stage.means)
    assert torch.equal(again.predict(table.features).probabilities, prediction.probabilities)


def test_the_first_stage_is_as_without_a_second(table):
    with_one = TrainedModel.train(table, NearestMean(), settings=SETTINGS)
    without = TrainedModel.train(table, Softmax(), settings=SETTINGS)
    for name, weight in without.module.state_dict().items():
        assert torch.equal(with_one.module.network.state_dict()[name], weight)


def test_a_run_that_goes_on_fits_it_again(registered, table, tmp_path):
    model = TrainedModel.train(table, NearestMean(), settings=SETTINGS, run_dir=tmp_path)
    again = TrainedModel.train(table, NearestMean(), settings=SETTINGS, run_dir=tmp_path)
    assert torch.equal(again.module.second_stage.means, model.module.second_stage.means)
    assert again.module.second_stage.means.any()


def test_weights_count_like_repetition():
    torch.manual_seed(0)
    inputs, labels, weights = torch.randn(12, 4), torch.arange(12) % 3, torch.arange(12) % 4 + 1
    method, preprocess = NearestMean(), RowPreprocess((4,), (0.0,) * 4, (1.0,) * 4)
    means = []
    for repeats, given in ((torch.ones_like(weights), weights), (weights, None)):
        torch.manual_seed(1)
        module = method.build(MLPSpec(4, 3))
        samples = Samples(inputs.repeat_interleave(repeats, 0), labels.repeat_interleave(repeats), given)
        fit(method, module, preprocess, samples, TrainingSettings(epochs=1, learning_rate=1e-9))
        means.append(module.second_stage.means)
    torch.testing.assert_close(means[0], means[1])


def test_a_network_of_ones_own(table):
    network = MLPSpec(4, 3, hidden=(5,)).build()
    model = TrainedModel.train(table, NearestMean(), network, SETTINGS)
    assert model.module.second_stage.means.shape == (3, 5)
    with pytest.raises(InputError, match=r"must have features\(inputs\).*got a Linear without them"):
        TrainedModel.train(table, NearestMean(), nn.Linear(4, 3), SETTINGS)


def test_the_features_may_be_gone_through_twice(table):
    seen = []

    @dataclass(frozen=True)
    class Twice(NearestMean):
        name: ClassVar[str] = "twice"

        def fit_second_stage(self, module, batches):
            for _ in range(2):
                seen.append(list(batches))

    model = TrainedModel.train(table, Twice(), settings=SETTINGS)
    first, second = seen
    assert not model.module.training
    assert [len(batch.labels) for batch in first] == [32, 32, 26]
    assert all(isinstance(batch, FeatureBatch) and not batch.features.requires_grad for batch in first)
    for one, other in zip(first, second, strict=True):
        assert torch.equal(one.features, other.features)
    assert torch.equal(torch.cat([batch.labels for batch in first]), table.labels)


def test_a_method_without_one_is_left_alone():
    with pytest.raises(InputError, match="the method softmax has no second stage"):
        Softmax().fit_second_stage(nn.Linear(2, 2), [])
    assert not Softmax.has_second_stage
