from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image
from tests.inference.pretrained import FEATURES, TinySpec

import nescio
from nescio._files import read_tensors, write_tensors
from nescio._folds import folds_of
from nescio.data import Dataset, RowPreprocess, StoredArray, open_source
from nescio.data._row_writer import DiskFullError, StoredArrayWriter
from nescio.errors import DataError, InputError, ModelFileError
from nescio.inference import _cross_fit, _frozen
from nescio.inference._frozen import head_spec
from nescio.inference._layers import predict_kept
from nescio.posthoc import trust

QUICK = nescio.TrainingSettings(
    epochs=12, batch_size=16, learning_rate=3e-3, device="cpu", precision="float32"
)


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NESCIO_CACHE", str(tmp_path / "cache"))


def bright_and_dark(count: int = 64, channels: int = 3, seed: int = 0) -> Dataset:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    noise = torch.randint(0, 60, (count, channels, 40, 40), generator=generator)
    images = (noise + 150 * labels.view(-1, 1, 1, 1)).to(torch.uint8)
    return Dataset(images, labels, ("dark", "bright"), "brightness")


def trained(**options: object) -> nescio.TrainedModel:
    return nescio.TrainedModel.train(bright_and_dark(), network=TinySpec.kind, settings=QUICK, **options)


def test_a_head_on_a_frozen_encoder_learns_and_the_encoder_stays() -> None:
    model = trained()
    assert model.encoder is not None
    weights = model.encoder.spec.pretrained_weights()
    for name, value in model.encoder.module.state_dict().items():
        assert torch.equal(value, weights[name])
    test = bright_and_dark(seed=1)
    prediction = model.predict(test.images)
    assert (prediction.labels == test.labels).float().mean() == 1.0
    assert model.input_shape == (3, 40, 40)
    assert model.network == nescio.MLPSpec(FEATURES, 2, hidden=(64,), dropout=0.3)


@pytest.mark.parametrize(("num_classes", "units"), [(2, 64), (8, 64), (20, 160), (64, 512), (1000, 512)])
def test_a_head_is_as_wide_as_its_classes_need(num_classes: int, units: int) -> None:
    spec = head_spec(TinySpec(40, 2), num_classes)
    assert spec.hidden == (units,)
    assert spec.num_classes == num_classes


@pytest.mark.parametrize("method", ["softmax", "dropout", "ensemble", "ffgu"])
def test_every_method_works_on_features(method: str, tmp_path: Path) -> None:
    data = bright_and_dark()
    model = nescio.TrainedModel.train(data, method, TinySpec.kind, QUICK)
    model.save(tmp_path / "model.safetensors")
    again = nescio.TrainedModel.load(tmp_path / "model.safetensors")
    assert torch.equal(again.predict(data.images).probabilities, model.predict(data.images).probabilities)


def test_grey_images_and_other_sizes_are_brought_to_the_encoder() -> None:
    data = bright_and_dark(channels=1)
    model = nescio.TrainedModel.train(data, network=TinySpec.kind, settings=QUICK)
    assert model.input_shape == (1, 40, 40)
    assert model.encoder is not None
    assert model.encoder.spec.input_shape == (3, 160, 160)
    assert model.predict(data.images).probabilities.shape == (64, 2)


@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (64, 64)])
def test_images_that_shrink_in_any_direction_are_smoothed(shape: tuple[int, int]) -> None:
    spec = TinySpec(16, 2)
    noise = torch.rand(1, 3, *shape, generator=torch.Generator().manual_seed(0))
    found = _frozen._fitted(spec, noise)
    # The mean of what falls on a place, not one of the values there.
    factors = [longer // 16 for longer in shape]
    means = torch.nn.functional.avg_pool2d(noise, factors)
    assert float((found - means).std()) < 0.6 * float(
        (noise[..., :: factors[0], :: factors[1]] - means).std()
    )


@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_floats_come_to_the_network_as_the_same_bytes_do(channels: int) -> None:
    """Also where the greatest of them is no white."""
    data = bright_and_dark(channels=channels)
    assert data.images.max() == 209
    spec = TinySpec(128, 2)
    of_bytes = _frozen.preprocess_for(spec, data)
    assert (of_bytes.mean, of_bytes.scale) == ((127.0,) * channels, (128.0,) * channels)
    assert (of_bytes.pixel_range, of_bytes.white) == ((0.0, 255.0), 255.0)
    expected = (data.images.float() - 127) / 128
    torch.testing.assert_close(of_bytes(data.images), expected)
    for white in (1.0, 255.0):
        images = data.images * (white / 255)
        of_floats = _frozen.preprocess_for(spec, replace(data, images=images))
        assert (of_floats.pixel_range, of_floats.white) == (None, white)
        torch.testing.assert_close(of_floats(images), expected, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(of_floats(data.images), expected, rtol=1e-5, atol=1e-6)  # pictures


def test_of_numbers_that_are_no_pixels_the_greatest_is_taken_for_white() -> None:
    data = bright_and_dark()
    numbers = (data.images.float() - 100) / 20
    preprocess = _frozen.preprocess_for(TinySpec(128, 2), replace(data, images=numbers))
    assert preprocess.white is None
    greatest = float(numbers.abs().max())
    expected = (numbers * 255 / greatest - 127) / 128
    torch.testing.assert_close(preprocess(numbers), expected, rtol=1e-5, atol=1e-5)


def test_features_are_computed_once_and_a_second_head_finds_them() -> None:
    calls: list[tuple[int, int]] = []
    trained(on_encoding=lambda done, total: calls.append((done, total)))
    assert calls == [(64, 64)]
    trained(method="softmax", on_encoding=lambda done, total: calls.append((done, total)))
    assert calls == [(64, 64)]
    (kept,) = Path(_frozen.cache_dir(), "features").glob("*.npy")
    assert tuple(StoredArray.open(kept).shape) == (64, FEATURES)


@pytest.mark.parametrize("method", ["edl", "dropout"])
def test_what_a_model_is_measured_on_is_encoded_once(method: str) -> None:
    calls: list[int] = []
    data = bright_and_dark(300)
    test = bright_and_dark(seed=1)
    model = nescio.TrainedModel.train(data, method, TinySpec.kind, QUICK, held_out=test, posthoc="all")
    assert model.posthoc is not None
    expected = model.predict(test.images, independent=True)
    kept = predict_kept(model, test.images, lambda done, total: calls.append(done))
    assert calls == []  # found where the training has left them
    assert torch.allclose(kept.probabilities, expected.probabilities, atol=1e-5)
    assert torch.allclose(kept.uncertainty, expected.uncertainty, atol=1e-5)
    new = bright_and_dark(8, seed=2)
    for _ in range(2):
        predict_kept(model, new.images, lambda done, total: calls.append(done))
    assert calls == [8]
    with pytest.raises(InputError, match=r"inputs must be \(N, 3, 40, 40\), got \(8, 1, 40, 40\)"):
        predict_kept(model, new.images[:, :1])


def test_other_data_and_other_weights_have_features_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = TinySpec(128, 2)
    data = bright_and_dark()
    preprocess = _frozen.preprocess_for(spec, data)
    module = _frozen.pretrained_encoder(spec)
    paths = {_frozen._features_path(spec, module, preprocess, data.images)}
    paths.add(_frozen._features_path(spec, module, preprocess, bright_and_dark(seed=1).images))
    with torch.no_grad():
        next(module.parameters()).add_(1.0)
    paths.add(_frozen._features_path(spec, module, preprocess, data.images))
    assert len(paths) == 3
    same = TinySpec(128, 7)  # how many classes there are is of the head
    assert _frozen._features_path(same, module, preprocess, data.images) in paths


def test_interrupted_encoding_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_frozen, "CHUNK", 16)
    real = _frozen._encoded_part
    parts: list[int] = []

    def stops(*arguments: object) -> torch.Tensor:
        if len(parts) == 2:
            raise KeyboardInterrupt
        parts.append(len(arguments[3]))
        return real(*arguments)

    monkeypatch.setattr(_frozen, "_encoded_part", stops)
    with pytest.raises(KeyboardInterrupt):
        trained()
    parts.clear()
    monkeypatch.setattr(_frozen, "_encoded_part", lambda *a: (parts.append(len(a[3])), real(*a))[1])
    model = trained()
    assert parts == [16, 16]  # of four
    assert (model.predict(bright_and_dark().images).labels == bright_and_dark().labels).all()


def test_a_damaged_cache_is_computed_again() -> None:
    trained()
    (kept,) = Path(_frozen.cache_dir(), "features").glob("*.npy")
    kept.write_bytes(kept.read_bytes()[:200])
    calls: list[int] = []
    trained(on_encoding=lambda done, total: calls.append(done))
    assert calls == [64]


def test_a_full_disk_costs_the_cache_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: StoredArrayWriter, rows: torch.Tensor) -> None:
        self.discard()
        raise DiskFullError("no room")

    monkeypatch.setattr(StoredArrayWriter, "append", full)
    with pytest.warns(nescio.NescioWarning, match="features can't be kept"):
        model = trained()
    assert model.encoder is not None
    assert list(Path(_frozen.cache_dir(), "features").glob("*.npy")) == []


def test_model_file_round_trip_and_damage(tmp_path: Path) -> None:
    model = trained()
    path = tmp_path / "model.safetensors"
    model.save(path)
    again = nescio.TrainedModel.load(path)
    images = bright_and_dark().images
    assert torch.equal(again.predict(images).evidence, model.predict(images).evidence)
    tensors, header = read_tensors(path)
    header["encoder"]["scaling"]["input_shape"] = [5]
    write_tensors(path, tensors, header)
    with pytest.raises(ModelFileError, match="does not fit together"):
        nescio.TrainedModel.load(path)


def test_a_run_is_resumed_to_the_same_bits(tmp_path: Path) -> None:
    whole = trained(run_dir=tmp_path / "whole")

    def stop(metrics: dict[str, float]) -> None:
        if metrics["epoch"] == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(run_dir=tmp_path / "stopped", report=stop)
    resumed = trained(run_dir=tmp_path / "stopped")
    for name, value in whole.module.state_dict().items():
        assert torch.equal(value, resumed.module.state_dict()[name])
    settings = json.loads((tmp_path / "whole" / "settings.json").read_text())
    assert settings["encoder"]["kind"] == TinySpec.kind


def test_fine_tuning_starts_from_the_pretrained_weights_and_changes_them() -> None:
    data = bright_and_dark()
    pictures = Dataset(
        torch.nn.functional.interpolate(data.images.float(), (128, 128)).to(torch.uint8),
        data.labels,
        data.classes,
        "larger",
    )
    slow = nescio.TrainingSettings(
        epochs=1, batch_size=16, learning_rate=1e-5, device="cpu", precision="float32"
    )
    model = nescio.TrainedModel.train(pictures, network=TinySpec.kind, settings=slow, fine_tune=True)
    assert model.encoder is None
    used = model.training["settings"]
    assert (used["optimizer"], used["warmup"], used["encoder_rate"]) == ("adamw", 0.1, 0.1)
    weights = TinySpec(128, 2).pretrained_weights()
    for name, value in weights.items():
        now = model.module.state_dict()[name]
        assert not torch.equal(now, value)
        assert torch.allclose(now, value, atol=1e-3)
    with pytest.raises(InputError, match="fine_tune needs an encoder with pretrained weights"):
        nescio.TrainedModel.train(pictures, network="lenet", fine_tune=True)


def test_folders_of_photos(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    for name, level in (("dark", 0), ("bright", 150)):
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(12):
            size = (200 + 10 * number, 220, 3)
            pixels = (generator.integers(0, 60, size) + level).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.jpg")
    source = open_source(tmp_path / "photos")
    model = nescio.TrainedModel.train(source, network=TinySpec.kind, settings=QUICK)
    assert model.input_shape == (3, 160, 160)
    assert model.preprocess.resize == "crop"
    records = model.records([tmp_path / "photos"])
    assert {record["best"] for record in records if "/dark/" in record["name"]} == {"dark"}


def test_held_out_must_be_of_the_same_kind() -> None:
    rows = nescio.data.Table(torch.eye(4), torch.tensor([0, 1, 0, 1]), ("dark", "bright"), "rows")
    with pytest.raises(DataError, match="held_out must hold images like the training data, got rows"):
        trained(held_out=rows)


@pytest.mark.filterwarnings("ignore")  # of the exporter, about itself
def test_export_gives_the_same_numbers(tmp_path: Path) -> None:
    model = trained()
    model.export_onnx(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    images = bright_and_dark(5).images.float()
    found = session.run(["probabilities"], {"inputs": images.numpy()})[0]
    assert np.abs(found - model.predict(images).probabilities.numpy()).max() < 1e-5


def test_features_share_one_scale() -> None:
    model = trained()
    assert model.encoder is not None
    prepared = model.preprocess(bright_and_dark().images)
    features = _frozen.encode(model.encoder.spec, model.encoder.module, prepared)
    variances = features.double().var(0, correction=0)
    (scale,) = set(model.encoder.scaling.scale)
    assert scale == pytest.approx(variances[variances > 1e-12].mean().sqrt().item(), rel=1e-3)


def test_features_that_never_vary_are_left_as_they_are() -> None:
    fitted = RowPreprocess.fit(torch.ones(5, 3))
    assert _frozen.evenly_scaled(fitted) == fitted


def test_groups_stay_together_for_a_head_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of one patient are nearly the same, and so are their features."""
    seen = []

    def watched(count, num_folds, seed, *, labels=None, groups=None):
        seen.append(groups)
        return folds_of(count, num_folds, seed, labels=labels, groups=groups)

    monkeypatch.setattr(_cross_fit, "folds_of", watched)
    monkeypatch.setattr(trust, "folds_of", watched)
    groups = torch.arange(64) // 4
    data = replace(bright_and_dark(), groups=groups)
    model = nescio.TrainedModel.train(data, network=TinySpec.kind, settings=QUICK, posthoc="all")
    assert set(model.training["posthoc"]["done"]) == {"temperature", "trust"}
    assert len(seen) == 3  # for trust, for the fifths, and for the distances of the fifths
    assert all(torch.equal(each, groups) for each in seen)
