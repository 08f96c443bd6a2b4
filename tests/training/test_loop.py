"""The loop: it learns, it repeats itself to the bit, and it goes on after a kill as if nothing had been."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

import evidentia as ev
from evidentia.errors import TrainingError
from evidentia.methods import EDL, L2
from evidentia.nets import LeNetSpec, MLPSpec, Standardize
from evidentia.training import Run, Samples, TrainingSettings, fit
from evidentia.training.augment import draw_moves, moved
from evidentia.training.loop import rate_at

METHODS = [EDL(), L2(weight_decay=1e-4)]


def blobs(n=240, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % classes
    centers = 4 * torch.randn(classes, 5, generator=torch.Generator().manual_seed(9))
    return Samples(centers[labels] + torch.randn(n, 5, generator=generator), labels)


def trained(method=METHODS[0], samples=None, spec=None, run=None, held_out=None, **settings):
    samples = samples or blobs()
    spec = spec or MLPSpec(5, 3, hidden=(16,), dropout=0.2)
    torch.manual_seed(0)
    module = method.build(spec)
    chosen = TrainingSettings(**{"epochs": 4, "batch_size": 32, "learning_rate": 1e-2, **settings})
    standardize = Standardize.fit(samples.inputs)
    history = fit(method, module, standardize, samples, chosen, run=run, held_out=held_out)
    return module, history


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_it_learns(method):
    module, history = trained(method, epochs=8, held_out=blobs(seed=1))
    assert not module.training
    assert [metrics["epoch"] for metrics in history] == list(range(1, 9))
    assert history[-1]["accuracy"] > 0.9
    assert history[-1]["held_out_accuracy"] > 0.9
    assert history[-1]["loss"] < history[0]["loss"]
    assert 0 < history[-1]["uncertainty"] < 1


def test_images_with_augmentation():
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(64) % 2
    images = torch.randint(60, (64, 1, 20, 20), generator=generator, dtype=torch.uint8)
    images[labels == 1, :, 5:15, 5:15] += 150
    spec = LeNetSpec(1, 20, 20, 2, filters=(4, 4), hidden=8, dropout=0.0)
    _, history = trained(
        samples=Samples(images, labels), spec=spec, epochs=12, batch_size=16, shift=1, flip=True
    )
    assert history[-1]["accuracy"] > 0.9


def test_same_seed_same_weights_to_the_bit():
    one, two, other = trained()[0], trained()[0], trained(seed=1)[0]
    assert torch.equal(weights(one), weights(two))
    assert not torch.equal(weights(one), weights(other))


def test_the_callers_generator_is_left_as_it_was():
    torch.manual_seed(5)
    expected = torch.rand(1)
    module = MLPSpec(5, 3, dropout=0.5).build()
    torch.manual_seed(5)
    fit(EDL(), module, Standardize((0.0,) * 5, (1.0,) * 5), blobs(), TrainingSettings(epochs=1))
    assert torch.equal(torch.rand(1), expected)


def test_a_weight_counts_like_repetition():
    """In one batch and without dropout: weight 2 is two samples, weight 0 is none."""
    samples = blobs(30)
    weight = torch.arange(30) % 3
    spec = MLPSpec(5, 3, hidden=(8,))
    doubled = Samples(samples.inputs.double(), samples.labels, weight.double())
    repeated = Samples(
        samples.inputs.double().repeat_interleave(weight, 0), samples.labels.repeat_interleave(weight)
    )
    results = []
    for data in (doubled, repeated):
        torch.manual_seed(0)
        module = spec.build().double()
        standardize = Standardize((0.0,) * 5, (1.0,) * 5)
        chosen = TrainingSettings(epochs=5, batch_size=100, precision="float64")
        fit(EDL(), module, standardize, data, chosen)
        results.append(weights(module))
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-8)


def test_the_learning_rate_falls_like_a_cosine_or_stays():
    cosine = TrainingSettings(epochs=10, learning_rate=0.1)
    assert [round(rate_at(e, cosine), 6) for e in (0, 5, 10)] == [0.1, 0.05, 0.0]
    assert rate_at(7, TrainingSettings(schedule="constant", learning_rate=0.1)) == 0.1


def test_early_stopping_keeps_the_best():
    train, held_out = blobs(24), blobs(60, seed=3)
    noise = Samples(train.inputs, torch.randint(3, (24,), generator=torch.Generator().manual_seed(0)))
    module, history = trained(L2(), noise, epochs=60, patience=3, held_out=held_out, learning_rate=0.05)
    losses = [metrics["held_out_loss"] for metrics in history]
    best = losses.index(min(losses))
    assert len(history) == best + 1 + 3
    standardize = Standardize.fit(noise.inputs)
    with torch.no_grad():
        logits = module(standardize(held_out.inputs))
    loss = torch.nn.functional.cross_entropy(logits, held_out.labels).item()
    assert loss == pytest.approx(min(losses), rel=1e-4)


def test_dead_evidence_is_told_with_a_remedy():
    method = EDL(evidence="relu")
    torch.manual_seed(0)
    module = method.build(MLPSpec(5, 3, hidden=()))
    with torch.no_grad():
        module[-1].weight[1], module[-1].bias[1] = 0.0, -5.0
    standardize = Standardize((0.0,) * 5, (1.0,) * 5)
    with pytest.warns(
        ev.EvidentiaWarning, match=r"class 1: no evidence on any input of epoch 1, .*evidence='exp'"
    ):
        fit(method, module, standardize, blobs(), TrainingSettings(epochs=1, learning_rate=1e-6))


def test_being_stuck_is_told_with_a_remedy():
    samples = blobs(300, classes=3)
    shuffled = Samples(torch.zeros_like(samples.inputs), samples.labels)
    with pytest.warns(
        ev.EvidentiaWarning, match=r"after 3 epochs .*as good as guessing; lower the learning rate"
    ):
        trained(EDL(), shuffled, epochs=4, batch_size=8, learning_rate=1e-5)


def test_a_loss_that_is_no_number_stops():
    with pytest.raises((TrainingError, ev.InputError), match=r"loss became|logits must be finite"):
        trained(L2(), learning_rate=1e30, epochs=3)


def test_patience_needs_something_to_watch():
    with pytest.raises(TrainingError, match="patience needs held-out samples"):
        trained(patience=2)


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
        {"seed": -1},
    ],
)
def test_settings_that_can_not_be(bad):
    with pytest.raises(ev.InputError, match=r"must be|can't be"):
        TrainingSettings(**bad)


def test_augmentation_moves_and_mirrors():
    images = torch.zeros(200, 1, 7, 7, dtype=torch.uint8)
    images[:, :, 3, 2] = 9
    moves = draw_moves(200, shift=2, flip=True, generator=torch.Generator().manual_seed(0))
    result = moved(images, moves)
    assert result.shape == images.shape
    assert (result.sum((1, 2, 3)) == 9).all()
    _, _, rows, columns = result.nonzero().unbind(1)
    assert torch.equal(rows, 3 + moves.down)
    assert torch.equal(columns, torch.where(moves.mirrored, 6 - (2 + moves.right), 2 + moves.right))
    assert set(rows.tolist()) == {1, 2, 3, 4, 5}
    assert set(columns.tolist()) == {0, 1, 2, 3, 4, 5, 6}
    some = torch.tensor([7, 3])
    assert torch.equal(moved(images[some], moves.of(some)), result[some])


def test_a_run_goes_on_where_it_stopped(tmp_path):
    settings = {"any": 1}
    whole, expected = trained(epochs=4, held_out=blobs(seed=1))
    part = TrainingSettings(epochs=4, batch_size=32, learning_rate=1e-2)

    class StopError(Exception):
        pass

    def stop_at_two(metrics):
        if metrics["epoch"] == 2:
            raise StopError

    samples, held_out = blobs(), blobs(seed=1)
    spec = MLPSpec(5, 3, hidden=(16,), dropout=0.2)
    torch.manual_seed(0)
    module = EDL().build(spec)
    standardize = Standardize.fit(samples.inputs)
    with pytest.raises(StopError):
        fit(
            EDL(), module, standardize, samples, part,
            held_out=held_out, run=Run(tmp_path, settings), report=stop_at_two,
        )  # fmt: skip
    torch.manual_seed(123)
    other = EDL().build(spec)
    history = fit(EDL(), other, standardize, samples, part, held_out=held_out, run=Run(tmp_path, settings))
    assert torch.equal(weights(other), weights(whole))
    assert [m["loss"] for m in history] == [m["loss"] for m in expected]
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert lines == history


def test_another_training_in_the_folder_is_refused(tmp_path):
    Run(tmp_path, {"epochs": 3, "seed": 0})
    with pytest.raises(TrainingError, match=r"holds another training \(epochs differ\)"):
        Run(tmp_path, {"epochs": 4, "seed": 0})
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(TrainingError, match="is damaged; remove"):
        Run(tmp_path, {"epochs": 3, "seed": 0})


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    trained(run=Run(tmp_path, {}), epochs=1)
    with pytest.raises(ev.EvidentiaError, match="does not fit this training"):
        trained(run=Run(tmp_path, {}), spec=MLPSpec(5, 3, hidden=(7,)))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ev.EvidentiaError, match="damaged or no safetensors file"):
        trained(run=Run(tmp_path, {}))


KILLED = """
import sys, torch
from tests.training.test_loop import blobs, weights
from evidentia.methods import EDL
from evidentia.nets import MLPSpec, Standardize
from evidentia.training import Run, TrainingSettings, fit
torch.set_num_threads(1)
torch.manual_seed(0)
module = EDL().build(MLPSpec(5, 3, hidden=(64,), dropout=0.2))
samples = blobs(3000)
settings = TrainingSettings(epochs=12, batch_size=16)
print("started", flush=True)
fit(EDL(), module, Standardize.fit(samples.inputs), samples, settings, run=Run(sys.argv[1], {}))
print(weights(module).double().sum().item(), weights(module).sum().item().hex())
"""


def test_killed_at_any_moment_it_ends_where_it_would_have(tmp_path):
    def start(folder):
        return subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )

    with start(tmp_path / "whole") as process:
        expected = process.stdout.read()
    delays = (0.35, 1.1, 1.9)
    for delay in delays:
        with start(tmp_path / "killed") as process:
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
    with start(tmp_path / "killed") as process:
        assert process.stdout.read() == expected
    assert expected.startswith("started\n")


TWO_PROCESSES = """
import os, sys, torch
from tests.training.test_loop import blobs, weights
from evidentia.methods import EDL
from evidentia.nets import MLPSpec, Standardize
from evidentia.training import TrainingSettings, fit
torch.set_num_threads(1)
torch.manual_seed(0)
module = EDL().build(MLPSpec(5, 3, hidden=(16,)))
samples = blobs(257)
settings = TrainingSettings(epochs=3, batch_size=64)
history = fit(EDL(), module, Standardize.fit(samples.inputs), samples, settings)
if os.environ.get("RANK", "0") == "0":
    torch.save({"weights": weights(module), "loss": history[-1]["loss"]}, sys.argv[1])
"""


def test_two_processes_do_what_one_does(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "OMP_NUM_THREADS": "1"}
    alone, together = tmp_path / "1.pt", tmp_path / "2.pt"
    subprocess.run([sys.executable, script, alone], check=True, env=environment)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*launch, script, together], check=True, env=environment, capture_output=True)
    one, two = (torch.load(path, weights_only=True) for path in (alone, together))
    torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
