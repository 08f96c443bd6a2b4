"""The folder of a run: a training that was stopped ends as if nothing had been, or says why it can't."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.processes import environment
from tests.training.small import LENET, blobs, squares, trained, weights

import nescio as ev
from nescio.data.preprocess import Preprocess
from nescio.encoders import MLPSpec
from nescio.errors import TrainingError
from nescio.methods import EDL, Batch, Ensemble
from nescio.training import Run, Samples, TrainingSettings, fit
from nescio.training._runtime import make_fabric


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("images", [False, True])
def test_a_run_goes_on_where_it_stopped(tmp_path, images, precision):
    samples, spec = (squares(100), LENET) if images else (blobs(), MLPSpec(5, 3, hidden=(16,), dropout=0.2))
    if precision == "float64":
        samples = Samples(samples.inputs.double(), samples.labels)
    held_out = samples.take(torch.arange(50))
    whole, expected = trained(samples=samples, spec=spec, held_out=held_out, precision=precision)
    chosen = TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2, precision=precision)

    class StopError(Exception):
        pass

    def stop_at_two(metrics):
        if metrics["epoch"] == 2:
            raise StopError

    def go(report, seed):
        torch.manual_seed(seed)
        module = EDL().build(spec)
        preprocess, run = Preprocess.fit(samples.inputs), Run(tmp_path, {"any": 1})
        return module, fit(
            EDL(), module, preprocess, samples, chosen, held_out=held_out, run=run, report=report
        )

    with pytest.raises(StopError):
        go(stop_at_two, seed=0)
    other, history = go(None, seed=123)
    assert torch.equal(weights(other), weights(whole))
    assert [m["loss"] for m in history] == [m["loss"] for m in expected]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == history


def test_another_training_in_the_folder_is_refused(tmp_path):
    Run(tmp_path, {"epochs": 3, "seed": 0})
    expected = r"holds another training: seed was 0 and is now 4; use another folder"
    with pytest.raises(TrainingError, match=expected):
        Run(tmp_path, {"epochs": 3, "seed": 4})
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(TrainingError, match="is damaged; remove"):
        Run(tmp_path, {"epochs": 3, "seed": 0})


def test_a_checkpoint_of_nobody_knows_which_training_is_not_gone_on_with(tmp_path):
    Run(tmp_path, {"seed": 0})
    (tmp_path / "settings.json").unlink()
    (tmp_path / "checkpoint.safetensors").write_bytes(b"of another")
    with pytest.raises(TrainingError, match=r"is of a training whose settings\.json is missing"):
        Run(tmp_path, {"seed": 5})
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.safetensors"]


def describe(posthoc, samples, content, **settings):
    described = {"settings": settings, "data": {"samples": samples}, "sha256": {"train": content}}
    return described if posthoc is None else {"posthoc": posthoc, **described}


def test_samples_that_were_set_aside_are_named_by_the_option(tmp_path):
    Run(tmp_path, describe("none", 1006, "abc", seed=0))
    expected = "holds another training: --posthoc was none and is now all; use another folder"
    with pytest.raises(TrainingError, match=expected):
        Run(tmp_path, describe("all", 906, "def", seed=0))
    with pytest.raises(TrainingError, match="--posthoc was none and is now all, --seed was 0 and is now 1;"):
        Run(tmp_path, describe("all", 906, "def", seed=1))
    Run(tmp_path, describe("all", 1006, "abc", seed=0))  # where there are too few to set any aside
    Run(tmp_path, describe(None, 1006, "abc", seed=0))


def test_another_calibration_of_the_same_samples_is_the_same_training(tmp_path):
    Run(tmp_path, describe("all", 906, "def", seed=0))
    Run(tmp_path, describe("trust", 906, "def", seed=0))
    expected = (
        "another training: --posthoc was all and is now trust, data.samples was 906 and is now 800, the "
        "train data has another content;"
    )
    with pytest.raises(TrainingError, match=expected):
        Run(tmp_path, describe("trust", 800, "ghi", seed=0))


def test_a_run_from_before_posthoc_was_noted_goes_on(tmp_path):
    Run(tmp_path, describe(None, 906, "def", seed=0))
    Run(tmp_path, describe("all", 906, "def", seed=0))
    expected = "holds another training: data.samples was 906 and is now 1006, the train data has"
    with pytest.raises(TrainingError, match=expected):
        Run(tmp_path, describe("none", 1006, "abc", seed=0))


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    trained(run=Run(tmp_path, {}), epochs=1)
    with pytest.raises(ev.NescioError, match="does not fit this training"):
        trained(run=Run(tmp_path, {}), spec=MLPSpec(5, 3, hidden=(7,)))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ev.NescioError, match="damaged or no safetensors file"):
        trained(run=Run(tmp_path, {}))


# One process loads torch, and each training is a child of it: a start takes longer than such a training.
KILLED = """
import hashlib, json, os, signal, sys, torch
import lightning_fabric, torch._dynamo  # which each child would load when it trains
from pathlib import Path
from tests.processes import environment
from tests.training.small import blobs, weights
from nescio.methods import Ensemble
from nescio.encoders import MLPSpec
from nescio.data.preprocess import Preprocess
from nescio.training import Run, TrainingSettings, fit
torch.set_num_threads(1)

def kill_before(place, name, count):
    own, calls = getattr(place, name), []
    def counted(*given, **more):
        calls.append(1)
        if len(calls) == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return own(*given, **more)
    setattr(place, name, counted)

def train(folder):
    torch.manual_seed(0)
    method = Ensemble(2)
    module = method.build(MLPSpec(5, 3, hidden=(16,), dropout=0.2))
    samples = blobs(160)
    settings = TrainingSettings(epochs=3, batch_size=16)
    fit(method, module, Preprocess.fit(samples.inputs), samples, settings, run=Run(folder, {}))
    return hashlib.sha256(weights(module).numpy().tobytes()).hexdigest()

def report_of(folder, moment=None):
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if moment is not None:
            kill_before(*moment)
        os.write(writing, train(folder).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as said:
        digest = said.read()
    _, status = os.waitpid(child, 0)
    metrics = Path(folder, "metrics.jsonl").read_text().splitlines()
    return {"signal": os.WTERMSIG(status), "epochs": len(metrics), "weights": digest}

moments = [
    (Ensemble, "objective", 15),  # in the second of three epochs of ten batches
    (os, "replace", 2),  # the first writes the metrics as they were; before the new checkpoint is in place
    (os, "replace", 3),  # between the checkpoint and its metrics
    (Ensemble, "objective", 15),  # in the second member
    None,
]
killed = [report_of(sys.argv[1] + "/killed", moment) for moment in moments]
print(json.dumps([report_of(sys.argv[1] + "/whole"), *killed]))
"""


def test_killed_at_any_moment_it_ends_where_it_would_have(tmp_path):
    command = [sys.executable, "-c", KILLED, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    whole, *killed, last = json.loads(done.stdout)
    assert whole == {"signal": 0, "epochs": 6, "weights": whole["weights"]}
    assert len(whole["weights"]) == 64
    assert [report["signal"] for report in killed] == [signal.SIGKILL] * 4
    assert [report["epochs"] for report in killed] == [1, 1, 1, 3]
    assert last == whole


BEFORE = {
    "method": {"name": "edl", "risk": "squared_error"},
    "network": {"kind": "lenet"},
    "settings": {"epochs": 4, "learning_rate": 0.1, "hidden": [3]},
    "data": {"name": "digits"},
    "sha256": {"train": "aa", "held_out": "bb"},
}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({"settings": {"epochs": 3, "learning_rate": 0.1, "hidden": [3]}}, "--epochs was 4 and is now 3"),
        (
            {"settings": {"epochs": 5, "learning_rate": 0.2, "hidden": (3,)}},
            "--epochs was 4 and is now 5, --learning-rate was 0.1 and is now 0.2",
        ),
        ({"method": {"name": "softmax"}}, "--method was edl and is now softmax"),
        (
            {"method": {"name": "softmax", "weight_decay": 1}, "network": {"kind": "mlp", "hidden": [3]}},
            "--method was edl and is now softmax, --network was lenet and is now mlp; use",
        ),
        ({"method": {"name": "edl", "risk": "type2"}}, "--set risk was squared_error and is now type2; use"),
        ({"data": {"name": "digits", "samples": 9}}, "data.samples was None and is now 9"),
        ({"sha256": {"train": "cc", "held_out": "bb"}}, "the train data has another content"),
        ({"sha256": {"train": "aa", "held_out": None}}, "the held-out data has another content"),
        ({"method": {"name": "edl", "risk": "x" * 90}}, f"squared_error and is now {'x' * 60}...;"),
        ({"method": "m", "data": "d", "sha256": 1, "settings": 2, "x": 3, "y": 4}, "and 1 more"),
    ],
)
def test_what_differs_is_named(tmp_path, now, said):
    Run(tmp_path, BEFORE)
    with pytest.raises(TrainingError, match=re.escape(said)):
        Run(tmp_path, BEFORE | now)
    Run(tmp_path, BEFORE)


def described(**settings):
    return {"method": {"name": "edl"}, "settings": settings}


def test_a_lengthened_run_ends_where_the_longer_one_does(tmp_path):
    whole, expected = trained(epochs=5, schedule="constant")
    for epochs in (2, 5):
        run = Run(tmp_path, described(epochs=epochs, schedule="constant"))
        module, history = trained(run=run, epochs=epochs, schedule="constant")
    assert torch.equal(weights(module), weights(whole))
    assert [metrics["loss"] for metrics in history] == [metrics["loss"] for metrics in expected]
    with pytest.raises(TrainingError, match="epochs was 5 and is now 4"):
        Run(tmp_path, described(epochs=4, schedule="constant"))


def test_a_lengthened_cosine_is_told(tmp_path):
    trained(run=Run(tmp_path, described(epochs=2, schedule="cosine")), epochs=2)
    lengthened = r"lengthened from 2 to 4 epochs: .*cosine over 2, the rest follow one over 4"
    with pytest.warns(ev.NescioWarning, match=lengthened):
        _, history = trained(run=Run(tmp_path, described(epochs=4, schedule="cosine")), epochs=4)
    assert [metrics["epoch"] for metrics in history] == [1, 2, 3, 4]


def test_members_that_are_finished_are_not_lengthened(tmp_path):
    method = Ensemble(2)
    trained(method, run=Run(tmp_path, described(epochs=1)), epochs=1)
    with pytest.raises(TrainingError, match="can't be lengthened from 1 epochs: members"):
        trained(method, run=Run(tmp_path, described(epochs=2)), epochs=2)
    _, history = trained(method, run=Run(tmp_path, described(epochs=1)), epochs=1)
    assert len(history) == 2


def test_a_run_that_is_lengthened_before_its_first_epoch_is_over_is_one_of_that_length(tmp_path):
    method = Ensemble(2)

    class StopError(Exception):
        pass

    def stop(metrics):
        if metrics["member"] == 2:
            raise StopError

    Run(tmp_path, described(epochs=1))  # stopped before there is a checkpoint
    with pytest.raises(StopError):
        trained(method, run=Run(tmp_path, described(epochs=2)), epochs=2, report=stop)
    assert json.loads((tmp_path / "settings.json").read_text())["settings"]["epochs"] == 2
    _, history = trained(method, run=Run(tmp_path, described(epochs=2)), epochs=2)
    assert len(history) == 4
    # As versions before left it.
    (tmp_path / "settings.json").write_text(json.dumps(described(epochs=1)))
    _, history = trained(method, run=Run(tmp_path, described(epochs=2)), epochs=2)
    assert len(history) == 4


def test_whole_numbers_of_numpy(tmp_path):
    Run(tmp_path, described(seed=np.int64(1)))
    Run(tmp_path, described(seed=1))


def test_a_lengthened_run_with_patience_compares_by_one_loss(tmp_path):
    """After 2 of 10 epochs of annealing the divergence hardly weighs: no later loss could be as low."""
    samples = blobs()
    held_out = samples.take(torch.arange(50))

    def run_for(epochs):
        run = Run(tmp_path, described(epochs=epochs, schedule="constant", patience=2))
        return trained(
            samples=samples, held_out=held_out, run=run, epochs=epochs, schedule="constant", patience=2
        )

    _, short = run_for(2)
    short_losses = [metrics["held_out_loss"] for metrics in short]
    module, history = run_for(14)
    assert len(history) > 4
    assert [metrics["former_held_out_loss"] for metrics in history[:2]] == short_losses
    compared = [metrics["held_out_loss"] for metrics in history if "held_out_loss" in metrics]
    inputs = Preprocess.fit(samples.inputs)(held_out.inputs)
    with torch.no_grad():
        batch = Batch(inputs, held_out.labels)
        kept, _ = EDL().objective(module, batch, epoch=14.0, num_train=len(samples))
    assert float(kept) == pytest.approx(min(compared), rel=1e-4)


def test_patience_of_a_lengthened_run_survives_a_stop(tmp_path):
    """Stopped before the first epoch of the longer training is over, it still compares by one loss."""
    samples = blobs()
    held_out = samples.take(torch.arange(50))
    given = {"schedule": "constant", "patience": 2}

    def run_for(epochs, **more):
        run = Run(tmp_path, described(epochs=epochs, **given))
        return trained(samples=samples, held_out=held_out, run=run, epochs=epochs, **given, **more)

    run_for(2)
    stopped = Run(tmp_path, described(epochs=14, **given))
    network = EDL().build(MLPSpec(5, 3, hidden=(16,), dropout=0.2))
    stopped.resume(network, make_fabric("cpu", "float32"))  # and nothing more
    _, history = run_for(14)
    assert "former_held_out_loss" in history[0]
    assert len(history) > 4


OPTIONS = [
    {"optimizer": "adamw", "weight_decay": 0.1, "warmup": 0.5},
    {"optimizer": "sgd", "clip_norm": 0.5},
    {"optimizer": "rmsprop"},
    {"optimizer": "nadam"},
    {"optimizer": "adafactor"},
    {"accumulate": 3},
    {"ema": 0.9},
    {"ema": 0.9, "patience": 2},
    {"class_weight": "balanced"},
    {"class_weight": [1.0, 2.0, 0.5]},
    {"sampler": "balanced"},
    {"encoder_rate": 0.1},
    {"freeze_epochs": 3},
]
OPTIONS_OF_IMAGES = [
    {"augment": "light"},
    {"augment": "strong", "shift": 1, "flip": True},
    {"mixup": 0.4},
    {"mixup": 1.5, "class_weight": "balanced", "sampler": "balanced", "accumulate": 2},
]


class StopError(Exception):
    pass


@pytest.mark.parametrize("options", [*OPTIONS, *OPTIONS_OF_IMAGES], ids=str)
def test_with_every_option_a_run_goes_on_where_it_stopped(tmp_path, options):
    if options in OPTIONS_OF_IMAGES:
        samples = squares(83)
        spec = LENET
    else:
        samples = blobs(100).take(torch.arange(80))  # classes of unequal size
        spec = MLPSpec(5, 3, hidden=(16,), dropout=0.2)
    watched = {"held_out": samples.take(torch.arange(30))}
    whole, expected = trained(samples=samples, spec=spec, **watched, **options)
    # The option is not ignored: what is beside an optimiser makes a difference to the same optimiser.
    others = {name: value for name, value in options.items() if name == "optimizer" and len(options) > 1}
    plain, _ = trained(samples=samples, spec=spec, **watched, **others)
    assert not torch.equal(weights(whole), weights(plain))

    def stop_at_two(metrics):
        if metrics["epoch"] == 2:
            raise StopError

    with pytest.raises(StopError):
        trained(samples=samples, spec=spec, run=Run(tmp_path, {}), report=stop_at_two, **watched, **options)
    again, history = trained(
        samples=samples, spec=spec, run=Run(tmp_path, {}), seed_of_module=5, **watched, **options
    )
    assert torch.equal(weights(again), weights(whole))
    assert [row["held_out_loss"] for row in history] == [row["held_out_loss"] for row in expected]
    # With nothing left to do, the same once more.
    once_more, _ = trained(
        samples=samples, spec=spec, run=Run(tmp_path, {}), seed_of_module=6, **watched, **options
    )
    assert torch.equal(weights(once_more), weights(whole))


def test_a_run_from_before_a_setting_was_there_goes_on(tmp_path):
    now = TrainingSettings(epochs=3, batch_size=8).resolved(20).to_dict()
    then = {
        name: now[name] for name in ("epochs", "batch_size", "learning_rate", "schedule", "shift", "flip")
    }
    Run(tmp_path, {"settings": then})
    Run(tmp_path, {"settings": now})
    with pytest.raises(TrainingError, match="optimizer was adam and is now sgd"):
        Run(tmp_path, {"settings": {**now, "optimizer": "sgd"}})


def test_the_metrics_of_the_last_epoch_come_back_after_a_kill(tmp_path):
    _, history = trained(run=Run(tmp_path, {}))
    metrics = tmp_path / "metrics.jsonl"
    whole = metrics.read_text()
    metrics.write_text("".join(whole.splitlines(keepends=True)[:-1]))  # killed before it was written
    assert len(trained(run=Run(tmp_path, {}))[1]) == len(history)
    assert metrics.read_text() == whole
    assert [json.loads(line)["epoch"] for line in whole.splitlines()] == [1, 2, 3, 4]


def test_of_two_trainings_at_once_one_has_the_folder(tmp_path, monkeypatch):
    """Between the look and the write of one, the other claims the folder."""
    own = Path.exists

    def claimed_meanwhile(path):
        is_there = own(path)
        if path.name == "settings.json" and not is_there:
            monkeypatch.setattr(Path, "exists", own)
            Run(tmp_path, {"settings": {"epochs": 3, "seed": 1}})
        return is_there

    monkeypatch.setattr(Path, "exists", claimed_meanwhile)
    with pytest.raises(TrainingError, match="--seed was 1 and is now 0"):
        Run(tmp_path, {"settings": {"epochs": 3, "seed": 0}})
    assert json.loads((tmp_path / "settings.json").read_text())["settings"]["seed"] == 1


def test_what_killed_trainings_left_in_the_folder_is_removed(tmp_path):
    Run(tmp_path, {})
    for name in ("settings.json", "checkpoint.safetensors", "metrics.jsonl"):
        (tmp_path / f".{name}-{'0' * 32}").write_bytes(b"half of it")
    Run(tmp_path, {})
    assert [path.name for path in tmp_path.iterdir()] == ["settings.json"]


def test_a_full_disk_names_the_file_and_what_to_do(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match=r"settings.json can't be written: No space .* finished stays"):
        Run(tmp_path, {})
    assert list(tmp_path.iterdir()) == []
