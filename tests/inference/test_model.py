import json

import numpy as np
import pytest
import torch
from torch import nn

import nescio as ev
from nescio.data import Dataset, Table, open_source
from nescio.encoders import LeNetSpec
from nescio.errors import DataError, InputError, ModelFileError
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax
from nescio.posthoc.abstention import AbstentionRule
from nescio.training import TrainingSettings

QUICK = TrainingSettings(epochs=5, batch_size=32, learning_rate=5e-3)


@pytest.fixture(scope="module")
def models(digits):
    spec = LeNetSpec(filters=(4, 8), hidden=32)
    return {m.name: TrainedModel.train(digits, m, spec, QUICK, held_out=digits) for m in (EDL(), Softmax())}


@pytest.fixture(params=["edl", "softmax"])
def model(request, models):
    return models[request.param]


def test_it_learned_something(model, digits):
    prediction = model.predict(digits.images)
    assert (prediction.labels == digits.labels).float().mean() > 0.3
    assert model.training["data"] == {"name": "digits", "samples": 600, "classes": list("0123456789")}
    assert model.training["last"]["held_out_accuracy"] > 0.3


def test_batches_make_no_difference(model, digits):
    whole = model.predict(digits.images[:100])
    parts = model.predict(digits.images[:100], batch_size=7)
    torch.testing.assert_close(whole.probabilities, parts.probabilities, rtol=1e-4, atol=1e-6)
    assert type(whole) is (ev.Opinion if model.method.name == "edl" else type(parts))


def test_saved_and_loaded_it_is_the_same(model, digits, tmp_path):
    rule = AbstentionRule.for_coverage(model.predict(digits.images), digits.labels, 0.5)
    model.with_rule(rule).save(tmp_path / "m.safetensors")
    again = TrainedModel.load(tmp_path / "m.safetensors")
    assert torch.equal(
        again.predict(digits.images[:50]).probabilities, model.predict(digits.images[:50]).probabilities
    )
    assert (again.classes, again.method, again.network) == (model.classes, model.method, model.network)
    assert again.rule == rule
    assert again.training == json.loads(json.dumps(model.training))
    accepted = again.accepts(again.predict(digits.images))
    assert 0.4 < accepted.float().mean() < 0.7


def test_without_a_rule_half_a_doubt_is_the_limit(models, digits):
    opinion = models["edl"].predict(digits.images)
    assert torch.equal(models["edl"].accepts(opinion), opinion.uncertainty < 0.5)


def test_tables_get_a_perceptron():
    labels = torch.arange(90) % 3
    features = torch.randn(90, 4) + 3 * torch.nn.functional.one_hot(labels, 4)
    table = Table(features, labels, ("a", "b", "c"), "table")
    model = TrainedModel.train(table, settings=TrainingSettings(epochs=30, batch_size=32, learning_rate=1e-2))
    assert (model.predict(features).labels == labels).float().mean() > 0.8
    assert model.network.kind == "mlp"


def test_a_network_of_the_users_own(digits, tmp_path):
    def own():
        return nn.Sequential(nn.Flatten(), nn.Linear(784, 10))

    model = TrainedModel.train(digits, network=own(), settings=QUICK)
    model.save(tmp_path / "own.safetensors")
    with pytest.raises(
        ModelFileError, match=r"the network was the user's own: give it, load\(path, network="
    ):
        TrainedModel.load(tmp_path / "own.safetensors")
    again = TrainedModel.load(tmp_path / "own.safetensors", network=own())
    assert torch.equal(again.predict(digits.images[:9]).labels, model.predict(digits.images[:9]).labels)


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.there, self.back, self.head = nn.Linear(784, 784), nn.Linear(784, 784), nn.Linear(784, 10)
        self.back.weight = self.there.weight

    def forward(self, images):
        return self.head(self.back(self.there(images.flatten(1)).relu()).relu())


def test_weights_that_are_tied(digits, tmp_path):
    model = TrainedModel.train(digits, network=Tied(), settings=TrainingSettings(epochs=1))
    model.save(tmp_path / "tied.safetensors")
    again = TrainedModel.load(tmp_path / "tied.safetensors", network=Tied())
    assert torch.equal(
        again.predict(digits.images[:9]).probabilities, model.predict(digits.images[:9]).probabilities
    )


def test_no_batches_of_nothing(models, digits):
    with pytest.raises(ev.InputError, match="batch_size must be a whole number from 1 on, got 0"):
        models["edl"].predict(digits.images, batch_size=0)


BAD_INPUTS = {
    "size": torch.zeros(2, 1, 32, 32, dtype=torch.uint8),
    "channels": torch.zeros(2, 3, 28, 28, dtype=torch.uint8),
    "no batch": torch.zeros(1, 28, 28, dtype=torch.uint8),
    "empty": torch.zeros(0, 1, 28, 28, dtype=torch.uint8),
    "NaN": torch.full((1, 1, 28, 28), float("nan")),
    "array": np.zeros((1, 1, 28, 28)),
}


@pytest.mark.parametrize("inputs", BAD_INPUTS.values(), ids=BAD_INPUTS)
def test_inputs_that_do_not_fit(models, inputs):
    with pytest.raises(ev.InputError, match=r"inputs must be"):
        models["edl"].predict(inputs)


def test_a_class_never_seen(models, digits):
    strange = Dataset(digits.images[:3], torch.tensor([0, 1, 2]), ("0", "1", "ten"), "strange")
    with pytest.raises(DataError, match="strange has classes that the model never saw: ten"):
        models["edl"].labels_of(strange)
    swapped = Dataset(digits.images[:2], torch.tensor([0, 1]), ("7", "3"), "swapped")
    assert models["edl"].labels_of(swapped).tolist() == [7, 3]


def test_training_on_a_source(tmp_path):
    lines = [f"{index * index % 7},{index % 3},{'ab'[index % 2]}" for index in range(40)]
    (tmp_path / "t.csv").write_text("x,z,kind\n" + "\n".join(lines))
    settings = TrainingSettings(epochs=1)
    source = open_source(tmp_path / "t.csv")
    by_source = TrainedModel.train(source, settings=settings, held_out=source)
    table = source.labelled()
    by_table = TrainedModel.train(table, settings=settings, held_out=table)
    assert by_source.training["sha256"] == by_table.training["sha256"]
    assert by_source.preprocess.schema.names == ("x", "z")
    assert torch.equal(by_source.predict(table.features).evidence, by_table.predict(table.features).evidence)


def test_records_of_a_model(models, digits):
    records = models["edl"].records(digits.images[:3])
    assert [record["probabilities"] for record in records] == models["edl"].predict(
        digits.images[:3]
    ).probabilities.tolist()


def test_rows_without_a_header_lose_the_label_that_training_was_told_of(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("\n".join(f"{index % 2},{index},{index % 3}" for index in range(40)))
    source = open_source(path, label="1")
    model = TrainedModel.train(source, settings=TrainingSettings(epochs=1))
    model.save(tmp_path / "model.safetensors")
    loaded = TrainedModel.load(tmp_path / "model.safetensors")
    assert loaded.preprocess.schema.label_position == 0
    by_table = loaded.predict(source.labelled().features).probabilities.tolist()
    assert [record["probabilities"] for record in loaded.records(path)] == by_table


# ------------------------------------------------------------------------------------------------- outputs


@pytest.mark.parametrize("method", ["softmax", "edl", "ensemble", "ffgu", "f-edl", "natpn", "daedl"])
def test_outputs_are_what_the_head_takes_and_gives(method):
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    data = Table(rows, torch.arange(30) % 3, ("a", "b", "c"), "rows")
    model = TrainedModel.train(data, method, settings=TrainingSettings(epochs=1))
    features, logits = model.outputs(rows)
    assert len(features) == len(logits) == 30
    assert logits.shape[1] == 3
    again = model.outputs(rows)
    assert torch.equal(again.features, features)
    assert torch.equal(again.logits, logits)
    if method in ("softmax", "edl"):
        said = model.method.interpret(logits).probabilities
        torch.testing.assert_close(said, model.predict(rows).probabilities)
    with pytest.raises(InputError, match="inputs must be"):
        model.outputs(rows[:, :2])


def test_a_network_without_features_has_no_outputs():
    rows = torch.randn(30, 4, generator=torch.Generator().manual_seed(0))
    data = Table(rows, torch.arange(30) % 3, ("a", "b", "c"), "rows")
    model = TrainedModel.train(data, "softmax", torch.nn.Linear(4, 3), TrainingSettings(epochs=1))
    with pytest.raises(InputError, match="no features below a head"):
        model.outputs(rows)
