"""The loop: it learns, it repeats itself to the bit, and it goes on after a kill as if nothing had been."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from torch import nn

import nescio as ev
from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import TrainingError
from nescio.methods import EDL, Ensemble, Softmax
from nescio.training import Run, Samples, TrainingSettings, fit, runtime
from nescio.training.augment import draw_moves, moved
from nescio.training.loop import flush_denormals, member_seed, rate_at, split_evenly
from nescio.training.runtime import make_fabric, native_bfloat16, require_device

METHODS = [EDL(), Softmax(weight_decay=1e-4)]


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
    preprocess = Preprocess.fit(samples.inputs)
    history = fit(method, module, preprocess, samples, chosen, run=run, held_out=held_out)
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
    _, history = trained(
        samples=squares(64), spec=replace(LENET, dropout=0.0), epochs=12, batch_size=16, shift=1, flip=True
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
    fit(EDL(), module, Preprocess((5,), (0.0,) * 5, (1.0,) * 5), blobs(), TrainingSettings(epochs=1))
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
        preprocess = Preprocess((5,), (0.0,) * 5, (1.0,) * 5)
        chosen = TrainingSettings(epochs=5, batch_size=100, precision="float64")
        fit(EDL(), module, preprocess, data, chosen)
        results.append(weights(module))
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-8)


def test_the_learning_rate_falls_like_a_cosine_or_stays():
    cosine = TrainingSettings(epochs=10, learning_rate=0.1)
    assert [round(rate_at(e, cosine), 6) for e in (0, 5, 10)] == [0.1, 0.05, 0.0]
    assert rate_at(7, TrainingSettings(schedule="constant", learning_rate=0.1)) == 0.1


def test_early_stopping_keeps_the_best():
    train, held_out = blobs(24), blobs(60, seed=3)
    noise = Samples(train.inputs, torch.randint(3, (24,), generator=torch.Generator().manual_seed(0)))
    module, history = trained(Softmax(), noise, epochs=60, patience=3, held_out=held_out, learning_rate=0.05)
    losses = [metrics["held_out_loss"] for metrics in history]
    best = losses.index(min(losses))
    assert len(history) == best + 1 + 3
    preprocess = Preprocess.fit(noise.inputs)
    with torch.no_grad():
        logits = module(preprocess(held_out.inputs))
    loss = torch.nn.functional.cross_entropy(logits, held_out.labels).item()
    assert loss == pytest.approx(min(losses), rel=1e-4)


def test_dead_evidence_is_told_once_with_a_remedy():
    method = EDL(evidence="relu")
    torch.manual_seed(0)
    module = method.build(MLPSpec(5, 3, hidden=()))
    with torch.no_grad():
        module[-1].weight[1], module[-1].bias[1] = 0.0, -5.0
    preprocess = Preprocess((5,), (0.0,) * 5, (1.0,) * 5)
    remedy = r"class 1: no evidence on any input of epoch 1, .*evidence='exp'"
    with pytest.warns(ev.NescioWarning, match=remedy) as said:
        fit(method, module, preprocess, blobs(), TrainingSettings(epochs=3, learning_rate=1e-6))
    assert len([one for one in said if "no evidence" in str(one.message)]) == 1


def test_every_member_has_a_seed_that_can_be():
    assert [member_seed(5, number) for number in range(3)] == [5, 10_012, 20_019]
    assert member_seed(2**32 - 1, 1) == 10_006


def test_one_sample_left_over_joins_a_batch():
    assert [len(part) for part in split_evenly(torch.arange(9), 4)] == [4, 5]
    assert [len(part) for part in split_evenly(torch.arange(10), 4)] == [4, 4, 2]
    assert [len(part) for part in split_evenly(torch.arange(1), 4)] == [1]
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    settings = TrainingSettings(epochs=1, batch_size=32)
    (metrics,) = fit(Softmax(), module, Preprocess((5,), (0.0,) * 5, (1.0,) * 5), blobs(33), settings)
    assert 0 <= metrics["accuracy"] <= 1


def test_bfloat16_is_chosen_where_the_hardware_has_it(monkeypatch):
    monkeypatch.setattr(runtime, "bfloat16_on_cpu", lambda: runtime.FASTER)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    for probe in probes:
        monkeypatch.setattr(torch.cpu, probe, bool, raising=False)
    assert not native_bfloat16("cpu")
    assert make_fabric("cpu", "auto")._precision.precision == "32-true"
    monkeypatch.setattr(torch.cpu, probes[1], lambda: True, raising=False)
    assert native_bfloat16("cpu")
    assert make_fabric("cpu", "auto")._precision.precision == "bf16-mixed"
    assert make_fabric("cpu", "float32")._precision.precision == "32-true"
    assert not native_bfloat16("mps")


@pytest.mark.parametrize("answer", [runtime.SLOWER, runtime.BROKEN])
def test_bfloat16_is_not_chosen_where_it_does_not_pay(monkeypatch, answer):
    monkeypatch.setattr(runtime, "cpu_announces_bfloat16", lambda: True)
    monkeypatch.setattr(runtime, "bfloat16_on_cpu", lambda: answer)
    assert make_fabric("cpu", "auto")._precision.precision == "32-true"


def test_bfloat16_that_would_end_the_process_is_refused(monkeypatch):
    monkeypatch.setattr(runtime, "cpu_announces_bfloat16", lambda: True)
    monkeypatch.setattr(runtime, "bfloat16_on_cpu", lambda: runtime.BROKEN)
    with pytest.raises(ev.InputError, match="do not work; use float32"):
        make_fabric("cpu", "bfloat16")


def test_bfloat16_is_tried_in_another_process_and_the_answer_kept(monkeypatch, empty_cache):
    monkeypatch.setattr(runtime, "BFLOAT16_TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    runtime.bfloat16_on_cpu.cache_clear()
    assert runtime.bfloat16_on_cpu() == runtime.BROKEN
    monkeypatch.setattr(runtime, "BFLOAT16_TRIAL", "print('faster')")
    runtime.bfloat16_on_cpu.cache_clear()
    assert runtime.bfloat16_on_cpu() == runtime.BROKEN
    (empty_cache / "bfloat16.json").write_text("not JSON")
    runtime.bfloat16_on_cpu.cache_clear()
    assert runtime.bfloat16_on_cpu() == runtime.FASTER
    runtime.bfloat16_on_cpu.cache_clear()


def test_being_stuck_is_told_with_a_remedy():
    samples = blobs(300, classes=3)
    shuffled = Samples(torch.zeros_like(samples.inputs), samples.labels)
    with pytest.warns(
        ev.NescioWarning, match=r"after 3 epochs .*as good as guessing; lower the learning rate"
    ):
        trained(EDL(), shuffled, epochs=4, batch_size=8, learning_rate=1e-5)


def test_a_loss_that_is_no_number_stops():
    with pytest.raises(TrainingError, match=r"the loss became nan in epoch \d; lower the learning rate"):
        trained(Softmax(), learning_rate=1e20, epochs=3)


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
        {"patience": 1.5},
        {"seed": -1},
        {"seed": 2**32},
        {"seed": True},
        {"epochs": True},
        {"shift": 0.5},
        {"learning_rate": "fast"},
        {"learning_rate": float("nan")},
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


def test_members_differ_and_are_trained_in_turn():
    method = Ensemble(2)
    module, history = trained(method, epochs=3, held_out=blobs(seed=1))
    assert [(row["member"], row["epoch"]) for row in history] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
        (2, 3),
    ]
    first, second = (weights(member) for member in method.members(module))
    assert not torch.allclose(first, second, atol=0.1)


def test_devices(monkeypatch):
    require_device("auto")
    require_device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ev.InputError, match="there is no cuda device here; use auto or cpu"):
        require_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_device("cuda")
    with pytest.raises(ev.InputError, match="device must be one of auto, cpu, cuda, mps, got 'gpu0'"):
        require_device("gpu0")
    with pytest.raises(ev.InputError, match="device must be one of auto, cpu, cuda, mps, got 'gpu0'"):
        trained(device="gpu0")


LENET = LeNetSpec(1, 20, 20, 2, filters=(4, 4), hidden=8)


@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("images", [False, True])
def test_a_run_goes_on_where_it_stopped(tmp_path, images, precision):
    samples, spec = (squares(100), LENET) if images else (blobs(), MLPSpec(5, 3, hidden=(16,), dropout=0.2))
    if precision == "float64":
        samples = Samples(samples.inputs.double(), samples.labels)
    held_out = samples.batch(torch.arange(50))
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
    with pytest.raises(TrainingError, match=r"holds another training \(epochs differ\)"):
        Run(tmp_path, {"epochs": 4, "seed": 0})
    (tmp_path / "settings.json").write_text("{")
    with pytest.raises(TrainingError, match="is damaged; remove"):
        Run(tmp_path, {"epochs": 3, "seed": 0})


def test_a_checkpoint_of_another_network_is_refused(tmp_path):
    trained(run=Run(tmp_path, {}), epochs=1)
    with pytest.raises(ev.NescioError, match="does not fit this training"):
        trained(run=Run(tmp_path, {}), spec=MLPSpec(5, 3, hidden=(7,)))
    (tmp_path / "checkpoint.safetensors").write_bytes(b"rubbish")
    with pytest.raises(ev.NescioError, match="damaged or no safetensors file"):
        trained(run=Run(tmp_path, {}))


KILLED = """
import hashlib, sys, torch
from tests.training.test_loop import blobs, weights
from nescio.methods import Ensemble
from nescio.encoders import MLPSpec
from nescio.data.preprocess import Preprocess
from nescio.training import Run, TrainingSettings, fit
torch.set_num_threads(1)
torch.manual_seed(0)
method = Ensemble(2)
module = method.build(MLPSpec(5, 3, hidden=(64,), dropout=0.2))
samples = blobs(1500)
settings = TrainingSettings(epochs=6, batch_size=16)
fit(method, module, Preprocess.fit(samples.inputs), samples, settings, run=Run(sys.argv[1], {}))
print(hashlib.sha256(weights(module).numpy().tobytes()).hexdigest())
"""


def epochs_done(folder):
    metrics = folder / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def test_killed_at_any_moment_it_ends_where_it_would_have(tmp_path):
    def start(folder):
        return subprocess.Popen(
            [sys.executable, "-c", KILLED, str(folder)], stdout=subprocess.PIPE, text=True
        )

    with start(tmp_path / "whole") as process:
        expected = process.stdout.read()
    assert len(expected) == 64 + 1
    killed = tmp_path / "killed"
    delays = random.Random(1)
    for least in (1, 4, 8):  # the last in the middle of the second member
        with start(killed) as process:
            while epochs_done(killed) < least:
                assert process.poll() is None
                time.sleep(0.005)
            time.sleep(delays.uniform(0, 0.15))
            process.send_signal(signal.SIGKILL)
        assert least <= epochs_done(killed) < 12
    with start(killed) as process:
        assert process.stdout.read() == expected


def test_specks_are_swept_away():
    """Denormal weights slow a CPU down a hundredfold, and a weight penalty makes them."""
    weight = nn.Parameter(torch.tensor([[1.0, -1e-35, 1e-40], [1e-20, 0.0, -2.0]]))
    optimizer = torch.optim.Adam([weight])
    optimizer.state[weight] = {"step": torch.tensor(3.0), "exp_avg": torch.tensor([1e-39, 1e-3])}
    flush_denormals(optimizer)
    assert weight.tolist() == torch.tensor([[1.0, 0.0, 0.0], [1e-20, 0.0, -2.0]]).tolist()
    assert optimizer.state[weight]["exp_avg"].tolist() == torch.tensor([0.0, 1e-3]).tolist()
    assert optimizer.state[weight]["step"] == 3


def test_a_training_leaves_no_denormal_weights():
    """Of a feature that is always zero, weights get no gradient: nothing but the sweep can change them."""
    samples = blobs()
    samples.inputs[:, 0] = 0
    module = EDL().build(MLPSpec(samples.inputs.shape[1], 3))
    with torch.no_grad():
        module[0].weight[:, 0] = 1e-40
    fit(EDL(), module, Preprocess.fit(samples.inputs), samples, TrainingSettings(epochs=1))
    assert module[0].weight[:, 0].count_nonzero() == 0
    assert module[0].weight[:, 1:].count_nonzero() > 0


TWO_PROCESSES = """
import os, sys, torch
from tests.training.test_loop import squares, weights
from nescio.methods import EDL, MNFG, Ensemble
from nescio.encoders import LeNetSpec
from nescio.data.preprocess import Preprocess
from nescio.training import Run, TrainingSettings, fit
torch.set_num_threads(1)
torch.manual_seed(0)
spec = LeNetSpec(1, 20, 20, 2, filters=(4, 4), hidden=8, dropout=0.0)
module = EDL().build(spec)
samples = squares(97, weighted=True)
settings = TrainingSettings(epochs=int(sys.argv[2]), batch_size=32, shift=1, flip=True, schedule="constant")
run = Run(sys.argv[3], {}) if len(sys.argv) > 3 else None
reported = []
preprocess = Preprocess.fit(samples.inputs)
history = fit(EDL(), module, preprocess, samples, settings, run=run, report=reported.append)
once = TrainingSettings(epochs=1, batch_size=32)
members = Ensemble(2).build(spec)
fit(Ensemble(2), members, preprocess, samples, once)
drawn = fit(MNFG(), MNFG().build(spec), preprocess, samples, once)
if os.environ.get("RANK", "0") == "0":
    found = {"weights": weights(module), "members": weights(members), "drawn": torch.tensor(drawn[0]["loss"])}
    torch.save(found | {"loss": history[-1]["loss"]}, sys.argv[1])
else:
    assert not reported
"""


def squares(count, weighted=False):
    """Images with and without a square in the middle."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    images = torch.randint(60, (count, 1, 20, 20), generator=generator, dtype=torch.uint8)
    images[labels == 1, :, 5:15, 5:15] += 150
    weight = torch.rand(count, generator=generator) if weighted else None
    return Samples(images, labels, weight)


def test_two_processes_do_what_one_does(tmp_path):
    """With augmentation and sample weights, when going on from a checkpoint, and with members; where weights
    are drawn, each process has its own noise.
    """
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    path = os.pathsep.join([os.getcwd(), os.environ.get("PYTHONPATH", "")])  # for the tests' own modules
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    alone, together, run = tmp_path / "1.pt", tmp_path / "2.pt", tmp_path / "run"
    subprocess.run([sys.executable, script, alone, "3"], check=True, env=environment)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launch += ["--rdzv-conf=read_timeout=240"]  # a busy machine may be slow to let the two meet
    for epochs in ("2", "3"):
        done = subprocess.run(
            [*launch, script, together, epochs, run], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
    one, two = (torch.load(path, weights_only=True) for path in (alone, together))
    torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two["members"], one["members"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two["drawn"], one["drawn"], rtol=1e-2, atol=0)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
