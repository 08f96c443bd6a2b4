"""Temperature and trust of a model: fitted after training or to an existing one, kept, and honoured."""

from __future__ import annotations

import json
import math
import runpy
import subprocess
import sys
import warnings
from dataclasses import replace

import pytest
import torch
from tests.processes import environment
from torch import nn

from nescio.data import Dataset, Table
from nescio.data.dataset import PARTS
from nescio.encoders import LeNetSpec, with_features
from nescio.errors import DataError, InputError, ModelFileError, NescioWarning, TrainingError
from nescio.inference import _calibration
from nescio.inference._calibration import LEAST_SET_ASIDE, MOST_SET_ASIDE, rows_set_aside
from nescio.inference._layers import features_at
from nescio.inference.model import TrainedModel
from nescio.methods import DAEDL, EDL, FEDL, FFGU, Dropout, Ensemble, Method, Softmax
from nescio.metrics import negative_log_likelihood
from nescio.opinions.opinion import Opinion
from nescio.posthoc.abstention import AbstentionRule
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import Trust
from nescio.training import TrainingSettings

QUICK = TrainingSettings(epochs=6, batch_size=32, learning_rate=5e-3, device="cpu", precision="float32")
CLASSES = ("a", "b", "c")


def blobs(count: int = 900, seed: int = 0) -> Table:
    """Three clouds in eight dimensions."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    rows = torch.randn(count, 8, generator=generator)
    rows[torch.arange(count), labels] += 4
    return Table(rows, labels, CLASSES, "blobs")


def squares(count: int = 600, seed: int = 0) -> Dataset:
    """A bright square at one of three places."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 3
    images = torch.randint(0, 80, (count, 1, 16, 16), generator=generator)
    for label in range(3):
        images[labels == label, :, 4 * label : 4 * label + 5, 3:9] += 150
    return Dataset(images.to(torch.uint8), labels, CLASSES, "squares")


FAR = 30 * torch.ones(5, 8)


@pytest.fixture(scope="module", params=["edl", "softmax"])
def model(request: pytest.FixtureRequest) -> TrainedModel:
    method = {"edl": EDL(), "softmax": Softmax()}[request.param]
    return TrainedModel.train(blobs(), method, settings=QUICK, posthoc="all")


def test_a_tenth_is_set_aside_and_both_are_fitted(model: TrainedModel) -> None:
    assert model.training["data"]["samples"] == 810
    assert model.training["posthoc"]["samples"] == 90
    assert set(model.training["posthoc"]["done"]) == {"temperature", "trust"}
    assert model.posthoc is not None
    assert len(model.posthoc.trust.held_out) == 90


def test_far_inputs_are_not_answered(model: TrainedModel) -> None:
    known = blobs(seed=1)
    said = model.predict_with_p_values(known.inputs)
    far = model.predict_with_p_values(FAR)
    assert (said.prediction.labels == known.labels).float().mean() > 0.95
    assert far.prediction.uncertainty.min() > 0.99
    assert far.p_values.tolist() == pytest.approx([1 / 91] * 5)
    assert not model.accepts(far.prediction).any()
    assert said.prediction.uncertainty.mean() < 0.4
    without = model.with_posthoc(None)
    assert without.predict(FAR).uncertainty.mean() < far.prediction.uncertainty.mean()
    assert without.predict_with_p_values(FAR).p_values is None


def test_p_values_of_known_inputs_are_valid(model: TrainedModel) -> None:
    p_values = model.predict_with_p_values(blobs(6000, seed=2).inputs).p_values
    for level in (0.05, 0.2, 0.5):
        # Given one calibration set of 90, the share varies by sqrt(level (1 - level) / 90) about the level.
        slack = 4 * math.sqrt(level * (1 - level) / 90)
        assert float((p_values <= level).float().mean()) <= level + slack


def test_saved_and_loaded_it_says_the_same(model: TrainedModel, tmp_path) -> None:
    model.save(tmp_path / "m.safetensors")
    again = TrainedModel.load(tmp_path / "m.safetensors")
    inputs = torch.cat([blobs(seed=3).inputs[:50], FAR])
    expected = model.predict_with_p_values(inputs)
    found = again.predict_with_p_values(inputs)
    assert torch.equal(found.prediction.probabilities, expected.prediction.probabilities)
    assert torch.equal(found.p_values, expected.p_values)
    assert again.posthoc.same_as(model.posthoc)
    assert json.dumps(again.training["posthoc"]) == json.dumps(model.training["posthoc"])


def test_a_file_whose_trust_lacks_a_tensor_is_refused(model: TrainedModel, tmp_path) -> None:
    from nescio._files import read_tensors, write_tensors

    model.save(tmp_path / "m.safetensors")
    tensors, header = read_tensors(tmp_path / "m.safetensors")
    del tensors["trust.held_out"]
    write_tensors(tmp_path / "m.safetensors", tensors, header)
    with pytest.raises(ModelFileError, match="held_out"):
        TrainedModel.load(tmp_path / "m.safetensors")


def test_records_have_the_p_value(model: TrainedModel) -> None:
    record = model.records(FAR[:1])[0]
    assert record["p_value"] == pytest.approx(1 / 91)
    assert record["answer"] == "I do not know"
    assert list(record)[-1] == "error"
    assert model.with_posthoc(None).records(FAR[:1])[0]["p_value"] is None


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_exported_it_says_the_same(model: TrainedModel, tmp_path) -> None:
    import onnxruntime

    model.export_program(tmp_path / "m.pt2")
    model.export_onnx(tmp_path / "m.onnx")
    program = torch.export.load(tmp_path / "m.pt2").module()
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert names[-1] == "p_value"
    inputs = torch.cat([blobs(seed=3).inputs[:200], FAR, blobs().inputs[:100]])
    said = model.predict_with_p_values(inputs)
    with torch.no_grad():
        from_program = program(inputs)
    from_onnx = session.run(None, {"inputs": inputs.numpy()})
    for name, one, two in zip(names, from_program, from_onnx, strict=True):
        expected = said.p_values if name == "p_value" else getattr(said.prediction, name)
        torch.testing.assert_close(one, expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.from_numpy(two), expected, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_a_lenet_is_exported_with_its_layer(tmp_path) -> None:
    import onnxruntime

    # Of fewer, directions that hardly vary make a thousand times as much of the last digits of features.
    data = replace(squares(900), groups=torch.arange(900) // 3)  # which have weights in p-values
    model = TrainedModel.train(data, EDL(), "lenet", replace(QUICK, epochs=2), posthoc="all")
    assert model.posthoc.trust.weights is not None
    assert model.posthoc.trust.layer == "6"
    assert model.posthoc.trust.distance.kind == "gaussians"
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    images = squares(60, seed=4).images
    said = model.predict_with_p_values(images)
    outputs = session.run(None, {"inputs": images.float().numpy()})
    torch.testing.assert_close(torch.from_numpy(outputs[0]), said.prediction.probabilities, rtol=0, atol=1e-5)
    torch.testing.assert_close(torch.from_numpy(outputs[-1]), said.p_values, rtol=0, atol=1e-5)
    noise = torch.randint(0, 256, (50, 1, 16, 16), dtype=torch.uint8)
    assert model.predict(noise).uncertainty.median() > 0.9


@pytest.mark.parametrize("method", [Dropout(samples=3), FFGU(samples=3), Ensemble(num_members=2)])
def test_methods_with_several_passes_have_trust(method, tmp_path) -> None:
    data = squares()
    model = TrainedModel.train(data, method, "lenet", replace(QUICK, epochs=1), posthoc="all")
    images = data.images[:5]
    for independent in (True, False):
        said = model.predict_with_p_values(images, independent=independent)
        assert said.p_values.shape == (5,)
    assert (model.predict_with_p_values(255 - images).prediction.uncertainty > 0.9).all()


@pytest.mark.parametrize("method", [DAEDL(), FEDL()])
@pytest.mark.filterwarnings("ignore")  # of the exporters, about themselves
def test_doubt_without_evidence_is_discounted_and_not_replaced(method: Method, tmp_path) -> None:
    """Methods whose uncertainty is no rest of their evidence keep it, and their labels, after all of it."""
    import onnxruntime

    data = blobs()
    model = TrainedModel.train(data, method, settings=QUICK, posthoc="all")
    assert model.posthoc is not None
    # A temperature that does something, whatever was fitted.
    model = model.with_posthoc(replace(model.posthoc, temperature=Temperature(2.0)))
    trust = model.posthoc.trust
    inputs = torch.cat([blobs(seed=5).inputs, FAR])
    own = model.with_posthoc(None).predict(inputs)
    said = model.predict(inputs)
    factors = trust(features_at(model, inputs, trust.layer))
    torch.testing.assert_close(said.uncertainty, 1 - factors * (1 - own.uncertainty))
    assert (said.uncertainty - said.entropy(normalized=True)).abs().max() > 0.01
    assert torch.equal(said.labels, own.labels)
    assert said.uncertainty[-len(FAR) :].min() > 0.99
    model.export_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(None, {"inputs": inputs.numpy()}), strict=True))
    torch.testing.assert_close(torch.from_numpy(outputs["uncertainty"]), said.uncertainty, rtol=0, atol=1e-5)


def test_the_temperature_lowers_the_loss_of_what_was_set_aside() -> None:
    data = blobs()
    wrong = torch.where(torch.arange(900) % 5 == 0, (data.labels + 1) % 3, data.labels)
    data = replace(data, labels=wrong)
    model = TrainedModel.train(data, EDL(), settings=QUICK, posthoc="temperature")
    assert model.posthoc.trust is None
    aside = data.take(rows_set_aside(data, "temperature", QUICK.seed, True))
    before = negative_log_likelihood(model.with_posthoc(None).predict(aside.inputs), aside.labels)
    assert negative_log_likelihood(model.predict(aside.inputs), aside.labels) < before


def test_without_posthoc_nothing_is_set_aside() -> None:
    model = TrainedModel.train(blobs(300), EDL(), settings=replace(QUICK, epochs=1))
    assert model.posthoc is None
    assert model.training["data"]["samples"] == 300
    assert "posthoc" not in model.training


@pytest.mark.parametrize(
    ("count", "is_repeatable", "expected"),
    [
        (100_000, True, MOST_SET_ASIDE),
        (1000, True, 100),
        (484, True, 50),
        (400, True, 50),
        (400, False, 50),
        (399, True, 0),
        (399, False, 39),
        (250, False, 25),
        (249, False, 0),
    ],
)
def test_how_much_is_set_aside(count: int, is_repeatable: bool, expected: int) -> None:
    labels = torch.arange(count) % 2
    table = Table(torch.zeros(count, 1), labels, ("a", "b"), "rows")
    rows = rows_set_aside(table, "all", 0, is_repeatable)
    if expected == 0:
        assert rows is None
    else:
        assert int(rows.sum()) == expected
        assert abs(int(labels[rows].sum()) - expected / 2) <= 1  # of every class alike


def test_of_few_samples_what_the_data_calls_its_validation_part_is_set_aside() -> None:
    parts = torch.where(torch.arange(300) % 5 == 0, PARTS.index("validation"), PARTS.index("train"))
    data = replace(blobs(300), parts=parts)
    rows = rows_set_aside(data, "all", 0, True)
    assert torch.equal(rows, torch.arange(300) % 5 == 0)
    # What is left once the test part is split off is all of one part, as if none were named.
    assert rows_set_aside(data.take(~rows), "all", 0, True) is None
    # Of a part that is too small to fit anything to, use is made in the training.
    few = torch.where(torch.arange(300) < 10, PARTS.index("validation"), PARTS.index("train"))
    assert rows_set_aside(replace(data, parts=few), "all", 0, True) is None
    # How many samples there are beside it does not matter.
    fewer = data.take(torch.arange(200))
    assert torch.equal(rows_set_aside(fewer, "all", 0, True), torch.arange(200) % 5 == 0)


def test_what_is_set_aside_is_the_validation_part_and_only_without_one_the_test_part() -> None:
    parts = torch.zeros(900, dtype=torch.int64)
    parts[::9] = PARTS.index("test")
    data = replace(blobs(900), parts=parts)
    assert torch.equal(rows_set_aside(data, "all", 0, True), parts == PARTS.index("test"))
    parts = parts.clone()
    parts[1::9] = PARTS.index("validation")
    rows = rows_set_aside(replace(data, parts=parts), "all", 0, True)
    assert torch.equal(rows, parts == PARTS.index("validation"))


@pytest.mark.parametrize(("count", "expected"), [(400, 50), (399, 0), (250, 0)])
def test_trust_alone_sets_nothing_aside_that_it_does_not_use(count: int, expected: int) -> None:
    data = Table(torch.zeros(count, 1), torch.arange(count) % 2, ("a", "b"), "rows")
    rows = rows_set_aside(data, "trust", 0, False)
    assert (0 if rows is None else int(rows.sum())) == expected


@pytest.mark.parametrize("method", [EDL(), Softmax(), Ensemble(num_members=2)], ids=lambda m: m.name)
def test_of_few_samples_trust_is_measured_on_the_training_inputs(method, tmp_path) -> None:
    few = TrainedModel.train(blobs(60), method, settings=QUICK, posthoc="all")
    assert few.training["data"]["samples"] == 60
    summary = few.training["posthoc"]
    assert summary["samples"] == 0
    assert summary["done"]["trust"] == (
        "by the distance to 60 training inputs, measured on themselves, a tenth at a time"
    )
    assert summary["done"]["temperature"].endswith(
        ", fitted to 5 networks, each trained without a part of the data"
    )
    assert few.posthoc.trust.layer == "inputs"
    assert few.predict(FAR).uncertainty.min() > 0.99
    known = blobs(300, seed=5)
    assert few.predict(known.inputs).uncertainty.median() < 0.5
    # Too large rather than too small: of 300, chance alone makes at most 8 % of what may be 5.
    _, p_values = few.predict_with_p_values(known.inputs)
    assert float((p_values <= 0.05).float().mean()) < 0.08
    few.save(tmp_path / "few.safetensors")
    again = TrainedModel.load(tmp_path / "few.safetensors")
    assert again.posthoc.same_as(few.posthoc)
    assert again.posthoc.describe() == few.posthoc.describe()


def test_a_network_that_is_not_trained_again_gets_a_temperature_from_what_is_set_aside() -> None:
    own = with_features(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3)), "1")
    some = TrainedModel.train(blobs(300), EDL(), own, replace(QUICK, epochs=1), posthoc="all")
    assert some.training["posthoc"]["samples"] == 30
    assert some.training["posthoc"]["done"]["temperature"].startswith("scale ")
    assert "networks" not in some.training["posthoc"]["done"]["temperature"]
    assert some.posthoc.trust.is_cross_fitted
    few = TrainedModel.train(blobs(240), EDL(), own, replace(QUICK, epochs=1), posthoc="temperature")
    assert few.posthoc is None
    assert few.training["posthoc"]["skipped"]["temperature"] == (
        "it needs 25 held-out inputs, and 240 training inputs are too few to set so many aside"
    )


def noisy(count: int, seed: int = 0) -> Table:
    """Clouds with a quarter of the labels wrong, which a network of so many samples learns by heart."""
    data = blobs(count, seed)
    drawn = torch.rand(count, generator=torch.Generator().manual_seed(100 + seed)) < 0.25
    return replace(data, labels=torch.where(drawn, (data.labels + 1) % 3, data.labels))


@pytest.mark.parametrize("method", [EDL(), Softmax()], ids=lambda m: m.name)
def test_of_few_noisy_samples_the_temperature_makes_the_network_less_sure(method: Method) -> None:
    settings = replace(QUICK, epochs=60, optimizer="adam")
    model = TrainedModel.train(noisy(90), method, settings=settings, posthoc="all")
    assert model.posthoc.temperature.scale < 0.7
    trust_alone = replace(model.posthoc, temperature=None)
    new = noisy(900, seed=1)
    before = negative_log_likelihood(model.with_posthoc(trust_alone).predict(new.inputs), new.labels)
    assert negative_log_likelihood(model.predict(new.inputs), new.labels) < 0.9 * before
    # The network itself is that of all samples.
    plain = TrainedModel.train(noisy(90), method, settings=settings)
    untouched = model.with_posthoc(None).predict(new.inputs)
    assert torch.equal(plain.predict(new.inputs).probabilities, untouched.probabilities)


def test_networks_are_trained_again_with_patience_and_held_out_data() -> None:
    settings = replace(QUICK, epochs=8, patience=2)
    few = TrainedModel.train(blobs(60), settings=settings, held_out=blobs(60, seed=1), posthoc="temperature")
    assert few.posthoc.temperature is not None


def test_groups_are_measured_without_one_another() -> None:
    """Rows of a group are nearly the same: measured by their own, all of a new group would seem far."""
    centres = blobs(20)
    rows = centres.inputs.repeat_interleave(15, 0)
    rows = rows + 0.01 * torch.randn(rows.shape, generator=torch.Generator().manual_seed(1))
    data = Table(
        rows, centres.labels.repeat_interleave(15), CLASSES, "groups", groups=torch.arange(300) // 15
    )
    model = TrainedModel.train(data, settings=QUICK, posthoc="all")
    assert set(model.training["posthoc"]["done"]) == {"temperature", "trust"}
    _, p_values = model.predict_with_p_values(blobs(500, seed=3).inputs)
    # 20 groups count as 20 samples: no p-value is below 1 / 21.
    assert float(p_values.min()) == pytest.approx(1 / 21)
    assert float((p_values <= 0.1).float().mean()) < 0.2
    assert float(p_values.median()) > 0.2


def test_few_groups_give_no_trust_and_say_so() -> None:
    data = replace(blobs(1200), groups=torch.arange(1200) // 400)
    model = TrainedModel.train(data, settings=replace(QUICK, epochs=1), posthoc="all")
    assert model.posthoc is None
    skipped = model.training["posthoc"]["skipped"]
    assert skipped["temperature"] == (
        "it needs 25 held-out inputs, and 1,200 training inputs of 3 groups are too few to set so many aside"
    )
    assert skipped["trust"].endswith(
        "features must be of 10 groups or more, which are measured without one another, got 3"
    )


def test_small_images_are_compared_as_they_are_and_large_ones_are_not(monkeypatch) -> None:
    spec = LeNetSpec(1, 16, 16, 3, filters=(2, 4), hidden=8)
    few = TrainedModel.train(squares(60), EDL(), spec, replace(QUICK, epochs=1), posthoc="all")
    assert few.posthoc.trust.layer == "inputs"
    monkeypatch.setattr(_calibration, "MOST_VALUES", 100)
    few = TrainedModel.train(squares(60), EDL(), spec, replace(QUICK, epochs=1), posthoc="all")
    assert few.posthoc.trust is None
    assert "only rows, small images and features" in few.training["posthoc"]["skipped"]["trust"]


def test_of_very_few_samples_nothing_is_fitted() -> None:
    few = TrainedModel.train(blobs(24), EDL(), settings=replace(QUICK, epochs=1), posthoc="all")
    assert few.posthoc is None
    assert few.training["posthoc"]["skipped"]["temperature"] == (
        "it needs 25 held-out inputs, and 24 training inputs are too few to set so many aside"
    )
    assert few.training["posthoc"]["skipped"]["trust"] == (
        "it needs 50 held-out inputs, and 24 training inputs are too few to set so many aside; of few, 25 "
        "training inputs would do"
    )


def test_of_few_samples_far_inputs_are_not_answered() -> None:
    few = TrainedModel.train(blobs(30), EDL(), settings=QUICK, posthoc="all")
    assert set(few.training["posthoc"]["done"]) == {"temperature", "trust"}
    assert not few.accepts(few.predict(FAR)).any()


def test_data_that_nothing_was_fitted_to_are_not_refused_for_promises() -> None:
    plain = TrainedModel.train(blobs(), EDL(), settings=QUICK)
    few = blobs(30, seed=5)  # too few for trust, which is then measured on the training data
    by_training = plain.calibrated(blobs(), few, "trust")
    assert by_training.posthoc.trust.is_cross_fitted
    assert not by_training.was_calibrated_on(few)
    assert plain.calibrated(blobs(), few, "all").was_calibrated_on(few)


def test_groups_are_set_aside_whole_and_count_as_one_each() -> None:
    data = replace(blobs(600), groups=torch.arange(600) // 10 - 3)
    rows = rows_set_aside(data, "all", 0, True)
    assert set(data.groups[rows].tolist()).isdisjoint(data.groups[~rows].tolist())
    model = TrainedModel.train(data, settings=QUICK, posthoc="all")
    assert float(model.posthoc.trust.weights.sum()) == pytest.approx(len(data.groups[rows].unique()))
    part = data.take(rows)
    calibrated = TrainedModel.train(data.take(~rows), settings=QUICK).calibrated(data.take(~rows), part)
    assert float(calibrated.posthoc.trust.weights.sum()) == pytest.approx(len(part.groups.unique()))


def with_validation(count: int, num_validation: int) -> Table:
    parts = torch.zeros(count, dtype=torch.int64)
    parts[:num_validation] = PARTS.index("validation")
    return replace(blobs(count), parts=parts)


@pytest.mark.parametrize(
    ("data", "posthoc", "expected"),
    [
        (with_validation(300, 30), "all", 30),
        (with_validation(300, 30), "temperature", 30),
        (with_validation(300, 30), "trust", None),  # which needs 50: the training inputs are measured
        (with_validation(300, 60), "trust", 60),
        (with_validation(390, 10), "all", None),
        (with_validation(410, 10), "all", 50),  # drawn: ten are too few
        (with_validation(1000, 3), "all", 100),
        (with_validation(1000, 30), "trust", 100),
        (with_validation(1000, 200), "all", 200),
        (blobs(900).take(torch.zeros(900, dtype=torch.bool)), "all", None),
    ],
)
def test_a_validation_part_is_used_where_it_is_large_enough(data, posthoc, expected) -> None:
    rows = rows_set_aside(data, posthoc, 0, True)
    assert (None if rows is None else int(rows.sum())) == expected


def test_a_class_that_is_in_the_validation_part_alone_is_no_reason_to_calibrate_nothing() -> None:
    data = with_validation(900, 300)
    labels = data.labels.clone()
    labels[300:] %= 2
    rows = rows_set_aside(replace(data, labels=labels), "all", 0, True)
    assert int(rows.sum()) == 90


@pytest.mark.parametrize(("count", "new"), [(25, 100), (50, 300), (100, 900)])
def test_few_calibration_data_are_known_again_among_others(count, new) -> None:
    data, few = blobs(), blobs(count, seed=5)
    model = TrainedModel.train(data, settings=QUICK).calibrated(data, few, "temperature")
    others = blobs(new - count, seed=6)
    mixed = replace(
        few,
        features=torch.cat([few.features, others.features]),
        labels=torch.cat([few.labels, others.labels]),
    )
    assert model.was_calibrated_on(mixed)
    assert not model.was_calibrated_on(others)


def test_a_run_that_is_begun_again_is_the_same(tmp_path) -> None:
    first = TrainedModel.train(blobs(), EDL(), settings=QUICK, posthoc="all", run_dir=tmp_path)
    again = TrainedModel.train(blobs(), EDL(), settings=QUICK, posthoc="all", run_dir=tmp_path)
    assert again.posthoc.same_as(first.posthoc)
    # The same samples are set aside for the temperature alone: nothing is trained again.
    cooler = TrainedModel.train(blobs(), EDL(), settings=QUICK, posthoc="temperature", run_dir=tmp_path)
    assert cooler.posthoc.trust is None
    with pytest.raises(TrainingError, match="another training: --posthoc was all and is now none; use"):
        TrainedModel.train(blobs(), EDL(), settings=QUICK, run_dir=tmp_path)
    # A run from before the folder said it is compared by its data.
    described = json.loads((tmp_path / "settings.json").read_text())
    assert described.pop("posthoc") == "all"
    (tmp_path / "settings.json").write_text(json.dumps(described))
    TrainedModel.train(blobs(), EDL(), settings=QUICK, posthoc="all", run_dir=tmp_path)


# ------------------------------------------------------------------------------------------- existing models


@pytest.fixture(scope="module")
def plain() -> TrainedModel:
    return TrainedModel.train(blobs(), EDL(), settings=QUICK)


def test_an_existing_model_is_calibrated(plain: TrainedModel) -> None:
    model = plain.calibrated(blobs(), blobs(300, seed=5))
    assert model.predict(FAR).uncertainty.min() > 0.99
    assert model.training["posthoc"]["samples"] == 300
    gaussians = plain.calibrated(blobs(), blobs(300, seed=5), "trust", kind="gaussians")
    assert gaussians.posthoc.trust.distance.kind == "gaussians"
    assert gaussians.posthoc.temperature is None
    without = model.calibrated(blobs(), blobs(300, seed=5), "none")
    assert without.posthoc is None
    assert without.training.keys().isdisjoint({"posthoc", "calibrated_on"})
    assert without.calibrated_on is None


def test_calibrating_again_forgets_what_was_fitted_before(plain: TrainedModel) -> None:
    once = plain.calibrated(blobs(), blobs(300, seed=5))
    twice = once.calibrated(blobs(), blobs(300, seed=5))
    assert twice.posthoc.same_as(once.posthoc)


def test_a_rule_is_taken_away_with_a_word(plain: TrainedModel) -> None:
    held_out = blobs(300, seed=5)
    rule = AbstentionRule.for_coverage(plain.predict(held_out.inputs), held_out.labels, 0.5)
    with pytest.warns(NescioWarning, match="the rule that the model had was taken away"):
        model = plain.with_rule(rule).calibrated(blobs(), held_out)
    assert model.rule is None


def test_what_the_model_was_trained_on_is_refused_and_what_it_was_calibrated_on_is_kept() -> None:
    data = blobs()
    trained = TrainedModel.train(data, settings=QUICK)
    for posthoc in ("temperature", "all"):
        with pytest.raises(DataError, match="samples that the model was not trained on, got 100%"):
            trained.calibrated(blobs(seed=7), data, posthoc)
    calibrated = trained.calibrated(data, blobs(300, seed=5))
    other = trained.calibrated(data, blobs(300, seed=6))
    assert calibrated.training["calibrated_on"] != other.training["calibrated_on"]
    assert torch.equal(calibrated.seen.digests, trained.seen.digests)  # which stay what was trained on
    held_out = blobs(300, seed=5)
    for part in (held_out, held_out.take(torch.arange(300).flip(0)), held_out.take(torch.arange(1, 300))):
        assert calibrated.was_calibrated_on(part)
        assert not other.was_calibrated_on(part)
        assert not trained.was_calibrated_on(part)
    assert not calibrated.with_posthoc(None).was_calibrated_on(held_out)
    assert not calibrated.was_calibrated_on(data)
    with pytest.raises(DataError, match="classes that the model never saw: x"):
        calibrated.was_calibrated_on(replace(held_out, classes=("a", "b", "x")))


def test_calibration_data_that_are_all_the_same_are_known_as_a_whole(plain: TrainedModel) -> None:
    same = Table(torch.ones(100, 8), torch.arange(100) % 3, CLASSES, "the same")
    model = plain.calibrated(blobs(), same, "temperature")
    assert model.calibrated_on is not None
    assert model.calibrated_on.chance == 1
    assert model.was_calibrated_on(same)
    assert not model.was_calibrated_on(same.take(torch.arange(99)))  # any new sample is such a row


def test_calibration_data_of_other_classes_are_refused(plain: TrainedModel) -> None:
    others = replace(blobs(300), classes=("a", "b", "x"))
    with pytest.raises(DataError, match="classes that the model never saw: x"):
        plain.calibrated(blobs(), others)


def test_too_few_are_refused_with_the_number_needed(plain: TrainedModel) -> None:
    with pytest.raises(DataError, match=f"needs {LEAST_SET_ASIDE} held-out inputs, got 9"):
        plain.calibrated(blobs(), blobs(9, seed=5), "temperature")
    with pytest.raises(DataError, match="trust can't be fitted: it needs 50 held-out inputs, got 30; of few"):
        plain.calibrated(blobs(), blobs(30, seed=5), "trust", kind="gaussians")
    with pytest.warns(NescioWarning, match="trust was not fitted: it needs 50"):
        model = plain.calibrated(blobs(24, seed=7), blobs(30, seed=5))
    assert model.posthoc.temperature is not None
    assert model.posthoc.trust is None


def test_what_is_not_finite_is_refused(plain: TrainedModel) -> None:
    rows = blobs(100).inputs.clone()
    rows[3, 2] = math.nan
    with pytest.raises((DataError, InputError), match=r"finite|NaN"):
        plain.calibrated(blobs(), Table(rows, torch.arange(100) % 3, CLASSES, "with a gap"))


def test_identical_features_are_refused_and_a_class_may_be_absent(plain: TrainedModel) -> None:
    same = Table(torch.ones(100, 8), torch.arange(100) % 3, CLASSES, "the same")
    with pytest.raises(DataError, match="features must differ"):
        plain.calibrated(same, blobs(100, seed=5), "trust")
    only_two = blobs(300).take(blobs(300).labels < 2)
    others = blobs(300, seed=5)
    with pytest.warns(NescioWarning, match="the held-out data: 1 of 3 classes are absent: c"):
        model = plain.calibrated(only_two, others.take(others.labels < 2))
    assert model.posthoc.trust is not None


def test_a_trust_of_arrays_is_refused(plain: TrainedModel) -> None:
    trust = Trust.fit(blobs().inputs, blobs(300, seed=5).inputs)
    with pytest.raises(InputError, match="posthoc must have a trust that names a layer of the network"):
        plain.with_posthoc(Posthoc(trust=trust))


def test_held_out_samples_among_the_training_data_are_refused(plain: TrainedModel) -> None:
    with pytest.raises(DataError, match="held_out must be other samples than those of training, got 100%"):
        plain.calibrated(blobs(seed=5), blobs(seed=5).take(torch.arange(100)), "trust")
    # A temperature is of no distance: what is given as training data is not asked.
    again = plain.calibrated(blobs(seed=5), blobs(seed=5), "temperature")
    assert again.posthoc.temperature is not None


def test_a_network_without_features_gets_a_temperature_alone() -> None:
    own = nn.Linear(8, 3)
    model = TrainedModel.train(blobs(), EDL(), own, QUICK, posthoc="all")
    assert model.posthoc.temperature is not None
    assert model.posthoc.trust is None
    assert "no features" in model.training["posthoc"]["skipped"]["trust"]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.calibrated(blobs(), blobs(100, seed=7))
    assert any("with_features" in str(one.message) for one in said)


def test_a_word_that_is_none_is_refused(plain: TrainedModel) -> None:
    with pytest.raises(InputError, match="posthoc must be all, temperature, trust or none, got 'some'"):
        TrainedModel.train(blobs(), posthoc="some")
    with pytest.raises(InputError, match="posthoc must be"):
        plain.calibrated(blobs(), blobs(), "some")


def test_opinions_stay_opinions(model: TrainedModel) -> None:
    prediction = model.predict(FAR)
    if model.method.name == "edl":
        assert isinstance(prediction, Opinion)
        torch.testing.assert_close(prediction.belief.sum(1) + prediction.uncertainty, torch.ones(5))


IN_EACH_PROCESS = """
import os
import sys

import torch
from tests.inference.test_calibration import FAR, QUICK, blobs

from nescio.inference.model import TrainedModel

model = TrainedModel.train(blobs(), settings=QUICK, posthoc="all")
said = model.predict_with_p_values(torch.cat([blobs(seed=1).inputs, FAR]))
found = {
    "scale": torch.tensor(model.posthoc.temperature.scale),
    "uncertainty": said.prediction.uncertainty,
    "p_values": said.p_values,
}
torch.save(found, sys.argv[1] + os.environ.get("RANK", "alone"))
"""


def test_processes_of_torchrun_fit_the_same_as_one(tmp_path, monkeypatch) -> None:
    script = tmp_path / "calibrate.py"
    script.write_text(IN_EACH_PROCESS)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launch += ["--rdzv-conf=read_timeout=240"]  # a busy machine may be slow to let the two meet
    words = [str(script), str(tmp_path / "found-")]
    one_thread = environment(OMP_NUM_THREADS="1")
    done = subprocess.run([*launch, *words], env=one_thread, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(sys, "argv", words)
    runpy.run_path(str(script))
    alone = torch.load(tmp_path / "found-alone")
    first = torch.load(tmp_path / "found-0")
    second = torch.load(tmp_path / "found-1")
    for name, expected in alone.items():
        assert torch.equal(first[name], second[name])
        # Sums of gradients in another order; the p-values are steps of 1 / 91.
        atol = 2 / 91 if name == "p_values" else 1e-2
        torch.testing.assert_close(first[name], expected, rtol=1e-2, atol=atol)


def test_what_the_model_had_is_not_lost_without_a_word(plain: TrainedModel) -> None:
    data, held_out = blobs(), blobs(300, seed=5)
    both = plain.calibrated(data, held_out)
    with pytest.warns(NescioWarning, match="the trust that the model had was taken away; posthoc all"):
        assert both.calibrated(data, held_out, "temperature").posthoc.parts() == ("temperature",)
    with pytest.warns(NescioWarning, match="the temperature that the model had was taken away"):
        assert both.calibrated(data, held_out, "trust").posthoc.parts() == ("trust",)
    # Trust could be fitted to the training data, but the temperature can't be fitted anew.
    with pytest.raises(DataError, match=r"needs 25 held-out inputs, got 9\. The model keeps the temperature"):
        both.calibrated(data, blobs(9, seed=6))


def test_calibration_data_that_hardly_can_be_are_told(plain: TrainedModel) -> None:
    data, held_out = blobs(), blobs(300, seed=5)
    order = torch.randperm(300, generator=torch.Generator().manual_seed(0))
    with pytest.warns(NescioWarning, match="the temperature is at its bound"):
        plain.calibrated(data, replace(held_out, labels=held_out.labels[order]), "temperature")
    with pytest.warns(NescioWarning, match="the held-out data: 1 of 3 classes are absent: c; what"):
        plain.calibrated(data, held_out.take(held_out.labels < 2), "temperature")
    with pytest.warns(NescioWarning, match="was trained on none of the training data that were given"):
        plain.calibrated(blobs(900, seed=9), held_out)
