"""The file of a model: whole or refused, and never unpickled."""

import os
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from nescio._files import read_tensors, write_tensors
from nescio.data import Table
from nescio.encoders import LeNetSpec
from nescio.errors import InputError, ModelFileError
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, METHODS, Method, Softmax, register_method
from nescio.training import TrainingSettings

BEFORE = Path(__file__).parents[1] / "fixtures" / "before" / "models"


@pytest.fixture(scope="module")
def models(digits):
    spec = LeNetSpec(filters=(4, 8), hidden=32)
    settings = TrainingSettings(epochs=1, batch_size=32)
    return {m.name: TrainedModel.train(digits, m, spec, settings) for m in (EDL(), Softmax())}


CHANGES = {
    "version": (lambda h: h.update(format=99), "has format 99, this version of nescio reads 1 to 3"),
    "method": (lambda h: h.update(method={"name": "magic"}), "method must be one of"),
    "classes": (lambda h: h["classes"].append("ten"), "11 classes, but a network for 10"),
    "twice": (lambda h: h["classes"].__setitem__(3, "4"), "two classes have the same name"),
    "network": (lambda h: h["network"].update(hidden=33), "size mismatch"),
    "inputs": (lambda h: h["preprocess"].update(input_shape=[1, 32, 32]), "but a network for"),
    "missing": (lambda h: h.pop("classes"), "does not fit together: its header lacks 'classes'"),
    "scale": (lambda h: h["preprocess"].update(scale=[0]), "scale must be"),
    "mean": (lambda h: h["preprocess"].update(mean=[float("nan")]), "mean must be finite"),
    "channels": (
        lambda h: h["preprocess"].update(mean=[0, 0], scale=[1, 1]),
        "preprocess is for 2 channels",
    ),
    "training": (lambda h: h.update(training=[1]), "training must be a table, got list"),
    "text": (lambda h: h.update(method="edl"), "does not fit together"),
}


@pytest.mark.parametrize(("change", "reason"), CHANGES.values(), ids=CHANGES)
def test_a_header_that_does_not_fit(models, tmp_path, change, reason):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    tensors, header = read_tensors(path)
    change(header)
    write_tensors(path, tensors, header)
    with pytest.raises(ModelFileError, match=reason):
        TrainedModel.load(path)


@pytest.mark.parametrize("part", ["weights", "header"])
def test_one_changed_byte_is_noticed(models, tmp_path, part):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    content = bytearray(path.read_bytes())
    place = len(content) - 5 if part == "weights" else content.index(b"cross_entropy") + 3
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="is damaged or was edited"):
        TrainedModel.load(path)


class Bomb:
    def __reduce__(self):
        return os.abort, ()


def test_files_that_are_something_else(models, tmp_path):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="damaged or no safetensors file"):
        TrainedModel.load(path)
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ModelFileError, match="damaged or no safetensors file"):
        TrainedModel.load(path)
    save_file({"a": torch.zeros(2)}, path)
    with pytest.raises(ModelFileError, match="was not written by nescio"):
        TrainedModel.load(path)
    save_file({"a": torch.zeros(2)}, path, metadata={"nescio": "[1]"})
    with pytest.raises(ModelFileError, match="was not written by nescio"):
        TrainedModel.load(path)
    save_file({"a": torch.zeros(2)}, path, metadata={"nescio": '{"header": [1], "sha256": ""}'})
    with pytest.raises(ModelFileError, match="its header is no table"):
        TrainedModel.load(path)
    with pytest.raises(ModelFileError, match="there is no file"):
        TrainedModel.load(tmp_path / "none.safetensors")


ASKING_TOO_MUCH = {
    "a layer of 4.5 GB": (lambda h: h["network"].update(hidden=1_500_000), "size mismatch for"),
    "more than there is": (lambda h: h["network"].update(hidden=10**30), "does not fit together"),
    "many networks": (
        lambda h: h.update(method={"name": "ensemble", "num_members": 1000}),
        "its settings ask for a network of more than",
    ),
    "far more networks": (
        lambda h: h.update(method={"name": "ensemble", "num_members": 200_000}),
        "num_members must be a whole number from 1 to 1000",
    ),
    "a billion samples": (
        lambda h: h.update(method={"name": "dropout", "samples": 10**9}),
        "samples must be a whole number from 1 to 10000",
    ),
    "a picture of a trillion pixels": (
        lambda h: h["preprocess"].update(input_shape=[1, 10**6, 10**6]),
        "inputs of at most 67,108,864 numbers",
    ),
}


@pytest.mark.parametrize(("change", "reason"), ASKING_TOO_MUCH.values(), ids=ASKING_TOO_MUCH)
def test_a_small_file_that_asks_for_much(models, tmp_path, monkeypatch, change, reason):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    tensors, header = read_tensors(path)
    change(header)
    write_tensors(path, tensors, header)
    largest = []
    real = torch.nn.init.kaiming_uniform_

    def watched(tensor, *more, **options):
        if tensor.device.type != "meta":
            largest.append(tensor.numel())
        return real(tensor, *more, **options)

    monkeypatch.setattr(torch.nn.init, "kaiming_uniform_", watched)
    with pytest.raises(ModelFileError, match=reason):
        TrainedModel.load(path)
    assert max(largest, default=0) < 100_000  # nothing was built that takes memory


def test_what_is_built_without_memory_first_is_the_same_network(models, tmp_path):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    loaded = TrainedModel.load(path)
    for name, tensor in models["edl"].module.state_dict().items():
        assert torch.equal(loaded.module.state_dict()[name], tensor)
        assert loaded.module.state_dict()[name].device.type == "cpu"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match="must be a file, got a folder, a pipe or a device"):
        TrainedModel.load(tmp_path / "m.safetensors")


def test_headers_that_json_and_torch_stumble_over(tmp_path):
    path = tmp_path / "m.safetensors"
    deep = '{"header": ' + "[" * 50_000 + "]" * 50_000 + ', "sha256": ""}'
    digits = '{"header": {"format": ' + "9" * 5000 + '}, "sha256": ""}'
    for text in (deep, digits):
        save_file({"a": torch.zeros(2)}, path, metadata={"nescio": text})
        with pytest.raises(ModelFileError, match="was not written by nescio"):
            TrainedModel.load(path)
    save_file(
        {"a": torch.zeros(2, dtype=torch.float8_e4m3fn)},
        path,
        metadata={"nescio": '{"header": {}, "sha256": ""}'},
    )
    with pytest.raises(ModelFileError):
        TrainedModel.load(path)


def test_a_full_disk_leaves_the_old_file(models, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFileError, match=r"m.safetensors can't be written: No space left"):
        models["softmax"].save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


SAVING = """
import sys, torch
from nescio.inference.model import TrainedModel
model = TrainedModel.load(sys.argv[1])
print("ready", flush=True)
while True:
    model.save(sys.argv[1])
"""


def test_a_kill_during_a_save_leaves_a_good_file(models, tmp_path):
    path = tmp_path / "m.safetensors"
    models["edl"].save(path)
    process = subprocess.Popen([sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)
        process.kill()
    assert TrainedModel.load(path).classes == models["edl"].classes


def test_a_file_of_format_1_is_written_as_format_3(tmp_path):
    model = TrainedModel.load(BEFORE / "grey-edl.safetensors")
    assert read_tensors(BEFORE / "grey-edl.safetensors").header["format"] == 1
    assert model.preprocess.pixel_range == (0.0, 255.0)
    model.save(tmp_path / "m.safetensors")
    header = read_tensors(tmp_path / "m.safetensors").header
    assert header["format"] == 3
    assert "standardize" not in header
    again = TrainedModel.load(tmp_path / "m.safetensors")
    assert again.preprocess == model.preprocess
    images = torch.randint(256, (5, *model.input_shape), dtype=torch.uint8)
    assert torch.equal(again.predict(images).evidence, model.predict(images).evidence)


def test_the_folder_of_a_run_stands_for_its_model(models, tmp_path):
    models["edl"].save(tmp_path / "run" / "model.safetensors")
    assert TrainedModel.load(tmp_path / "run").classes == models["edl"].classes
    with pytest.raises(ModelFileError, match=r"is a folder without a model\.safetensors"):
        TrainedModel.load(tmp_path)


def test_a_checkpoint_is_no_model(digits, tmp_path):
    table = Table(torch.eye(4), torch.arange(4) % 2, ("a", "b"), "t")
    TrainedModel.train(table, settings=TrainingSettings(epochs=1), run_dir=tmp_path)
    with pytest.raises(
        ModelFileError, match=r"checkpoint\.safetensors is the checkpoint of a training, not a"
    ):
        TrainedModel.load(tmp_path / "checkpoint.safetensors")


@dataclass(frozen=True)
class Margin(Method):
    """A method of the user's own."""

    name = "margin-of-ones-own"
    about = "for this test"
    margin: float = 1.0

    def objective(self, module, batch, epoch, num_train):
        logits = module(batch.inputs)
        loss = torch.nn.functional.multi_margin_loss(logits, batch.labels, margin=self.margin)
        return loss, logits


def test_a_method_of_ones_own_is_given_or_registered(tmp_path):
    table = Table(torch.eye(4), torch.arange(4) % 2, ("a", "b"), "t")
    model = TrainedModel.train(table, Margin(0.5), settings=TrainingSettings(epochs=1))
    model.save(tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match=r"must be given: load\(path, method=\.\.\.\)"):
        TrainedModel.load(tmp_path / "m.safetensors")
    expected = model.predict(table.features).probabilities
    for given in (Margin, Margin(0.5)):
        again = TrainedModel.load(tmp_path / "m.safetensors", method=given)
        assert again.method == Margin(0.5)
        assert torch.equal(again.predict(table.features).probabilities, expected)
    with pytest.raises(ModelFileError, match="trained with the method margin-of-ones-own, got softmax"):
        TrainedModel.load(tmp_path / "m.safetensors", method=Softmax)
    register_method(Margin)
    try:
        assert TrainedModel.load(tmp_path / "m.safetensors").method == Margin(0.5)
    finally:
        del METHODS._items[Margin.name]


class WithTrust(torch.nn.Module):
    """A network of the user's own, a part of which has a name that the file has too."""

    def __init__(self):
        super().__init__()
        self.trust = torch.nn.Linear(4, 8)
        self.seen = torch.nn.Linear(8, 8)
        self.head = torch.nn.Linear(8, 2)

    def features(self, inputs):
        return self.seen(self.trust(inputs).relu()).relu()

    def forward(self, inputs):
        return self.head(self.features(inputs))


def test_parts_of_a_network_may_be_called_as_what_is_kept_beside_it(tmp_path):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(600, 4, generator=generator)
    table = Table(rows, (rows[:, 0] > 0).long(), ("a", "b"), "halves")
    settings = TrainingSettings(epochs=1, learning_rate=0.01)
    model = TrainedModel.train(table, network=WithTrust(), settings=settings, posthoc="all")
    assert model.posthoc.trust is not None
    model.save(tmp_path / "m.safetensors")
    again = TrainedModel.load(tmp_path / "m.safetensors", network=WithTrust())
    assert torch.equal(again.predict(rows).probabilities, model.predict(rows).probabilities)
    model.module.trust.register_buffer("held_out", torch.zeros(3))
    with pytest.raises(
        InputError, match=r"weights called trust\.held_out, where the file keeps something else"
    ):
        model.save(tmp_path / "m.safetensors")
    assert TrainedModel.load(tmp_path / "m.safetensors", network=WithTrust()).seen is not None


def test_the_digests_of_calibration_data_are_in_the_file_and_one_without_them_loads(tmp_path):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(400, 4, generator=generator)
    table = Table(rows, (rows[:, 0] > 0).long(), ("a", "b"), "halves")
    known, held_out = table.take(torch.arange(300)), table.take(torch.arange(300, 400))
    model = TrainedModel.train(known, settings=TrainingSettings(epochs=1, learning_rate=0.01))
    assert "calibrated_on.digests" not in _saved(model, tmp_path).tensors
    calibrated = model.calibrated(known, held_out, "temperature")
    tensors, header = _saved(calibrated, tmp_path)
    again = TrainedModel.load(tmp_path / "m.safetensors")
    assert torch.equal(again.calibrated_on.digests, calibrated.calibrated_on.digests)
    assert again.calibrated_on.to_dict() == calibrated.calibrated_on.to_dict()
    assert torch.equal(again.seen.digests, model.seen.digests)
    shuffled = held_out.take(torch.arange(100).flip(0))
    assert again.was_calibrated_on(shuffled)
    # As before there were any: what is exactly the same is known again, and nothing else.
    del tensors["calibrated_on.digests"]
    write_tensors(tmp_path / "gone.safetensors", tensors, header)
    del header["calibrated_on"]
    write_tensors(tmp_path / "former.safetensors", tensors, header)
    for name in ("gone", "former"):
        former = TrainedModel.load(tmp_path / f"{name}.safetensors")
        assert former.calibrated_on is None
        assert former.was_calibrated_on(held_out)
        assert not former.was_calibrated_on(shuffled)


def _saved(model, folder):
    model.save(folder / "m.safetensors")
    return read_tensors(folder / "m.safetensors")
