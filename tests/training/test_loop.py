"""The loop: it learns, and it repeats itself to the bit."""

import itertools
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from tests.processes import environment
from tests.training.small import LENET, METHODS, blobs, squares, stored, trained, weights
from torch import nn

from nescio.data.preprocess import Preprocess, RowPreprocess
from nescio.encoders import MLPSpec
from nescio.errors import TrainingError
from nescio.methods import EDL, Ensemble, Softmax
from nescio.training import Samples, TrainingSettings, fit
from nescio.training._loop import _member_seed, flush_denormals


@pytest.mark.parametrize("method", METHODS, ids=lambda m: m.name)
def test_it_learns(method):
    module, history = trained(method, epochs=8, held_out=blobs(seed=1))
    assert not module.training
    assert [metrics["epoch"] for metrics in history] == list(range(1, 9))
    assert history[-1]["accuracy"] > 0.9
    assert history[-1]["held_out_accuracy"] > 0.9
    assert history[-1]["loss"] < history[0]["loss"]
    assert 0 < history[-1]["uncertainty"] < 1


class NormalisedNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4))
        self.head = nn.Linear(4, 3)

    def forward(self, inputs):
        return self.head(self.body(inputs))


@pytest.mark.parametrize("class_weight", ["balanced", (1.0, 2.0, 1.0)])
def test_held_out_samples_of_a_class_that_is_not_trained_on(class_weight):
    samples = blobs()
    two = samples.labels < 2
    part = Samples(samples.inputs[two], samples.labels[two])
    _, history = trained(samples=part, epochs=1, held_out=blobs(seed=1), class_weight=class_weight)
    assert history[-1]["held_out_accuracy"] < 0.7


def test_epochs_with_the_head_alone_keep_the_statistics_of_the_encoder():
    network = NormalisedNetwork()
    before = {name: value.clone() for name, value in network.body.state_dict().items()}
    samples = blobs()
    settings = TrainingSettings(epochs=2, freeze_epochs=2, device="cpu", precision="float32")
    fit(Softmax(), network, Preprocess.fit(samples.inputs), samples, settings)
    for name, value in network.body.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_after_the_epochs_with_the_head_alone_all_of_the_network_learns():
    network = NormalisedNetwork()
    states = [{name: value.clone() for name, value in network.body.state_dict().items()}]

    def keep(metrics):
        states.append({name: value.clone() for name, value in network.body.state_dict().items()})

    samples = blobs()
    settings = TrainingSettings(epochs=3, freeze_epochs=2, device="cpu", precision="float32")
    fit(Softmax(), network, Preprocess.fit(samples.inputs), samples, settings, report=keep)
    changed = []
    for before, after in itertools.pairwise(states):
        changed.append({name for name in before if not torch.equal(before[name], after[name])})
    assert changed == [set(), set(), set(states[0])]


@pytest.mark.parametrize("freeze_epochs", [0, 1])
def test_a_long_gradient_is_clipped_to_its_norm(freeze_epochs):
    """One step of SGD is the learning rate times the gradient; that of a part that stays does not count."""
    samples = blobs(30)
    steps = {}
    for clip_norm in (0.0, 0.01, 1e6):
        torch.manual_seed(0)
        network = NormalisedNetwork()
        before = weights(network)
        settings = TrainingSettings(
            epochs=1,
            batch_size=30,
            learning_rate=0.1,
            schedule="constant",
            optimizer="sgd",
            clip_norm=clip_norm,
            freeze_epochs=freeze_epochs,
            precision="float32",
        )
        fit(Softmax(), network, Preprocess.fit(samples.inputs), samples, settings)
        steps[clip_norm] = weights(network) - before
    length = float(steps[0.0].norm())
    assert length > 0.1 * 0.01
    assert torch.equal(steps[1e6], steps[0.0])
    expected = steps[0.0] * (0.1 * 0.01 / length)
    torch.testing.assert_close(steps[0.01], expected, rtol=1e-3, atol=1e-7)


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
    fit(EDL(), module, RowPreprocess((5,), (0.0,) * 5, (1.0,) * 5), blobs(), TrainingSettings(epochs=1))
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
        preprocess = RowPreprocess((5,), (0.0,) * 5, (1.0,) * 5)
        chosen = TrainingSettings(epochs=5, batch_size=100, precision="float64")
        fit(EDL(), module, preprocess, data, chosen)
        results.append(weights(module))
    torch.testing.assert_close(results[0], results[1], rtol=1e-6, atol=1e-8)


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


def test_every_member_has_a_seed_that_can_be():
    assert [_member_seed(5, number) for number in range(3)] == [5, 10_012, 20_019]
    assert _member_seed(2**32 - 1, 1) == 10_006


def test_one_sample_left_over_joins_a_batch():
    module = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
    settings = TrainingSettings(epochs=1, batch_size=32)
    (metrics,) = fit(Softmax(), module, RowPreprocess((5,), (0.0,) * 5, (1.0,) * 5), blobs(33), settings)
    assert 0 <= metrics["accuracy"] <= 1


def test_patience_needs_something_to_watch():
    with pytest.raises(TrainingError, match="patience needs held-out samples"):
        trained(patience=2)


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


def test_denormals_are_flushed():
    """Denormal weights slow a CPU down a hundredfold, and a weight penalty makes them."""
    weight = nn.Parameter(torch.tensor([[1.0, -1e-35, 1e-40], [1e-20, 0.0, -2.0]]))
    optimizer = torch.optim.Adam([weight])
    optimizer.state[weight] = {"step": torch.tensor(3.0), "exp_avg": torch.tensor([1e-39, 1e-3])}
    flush_denormals(optimizer)
    assert weight.tolist() == torch.tensor([[1.0, 0.0, 0.0], [1e-20, 0.0, -2.0]]).tolist()
    assert optimizer.state[weight]["exp_avg"].tolist() == torch.tensor([0.0, 1e-3]).tolist()
    assert optimizer.state[weight]["step"] == 3


def test_a_training_leaves_no_denormal_weights():
    """Of a feature that is always zero, weights get no gradient: nothing but flushing can change them."""
    samples = blobs()
    samples.inputs[:, 0] = 0
    module = EDL().build(MLPSpec(samples.inputs.shape[1], 3))
    with torch.no_grad():
        module[0].weight[:, 0] = 1e-40
    fit(EDL(), module, Preprocess.fit(samples.inputs), samples, TrainingSettings(epochs=1))
    assert module[0].weight[:, 0].count_nonzero() == 0
    assert module[0].weight[:, 1:].count_nonzero() > 0


TWO_PROCESSES = """
import copy, os, sys, torch
from tests.processes import environment
from tests.training.small import squares, weights
from nescio.methods import EDL, MNFG, Ensemble
from nescio.encoders import LeNetSpec
from nescio.data.preprocess import Preprocess
from nescio.training import Run, TrainingSettings, fit
torch.set_num_threads(1)
torch.manual_seed(0)
spec = LeNetSpec(1, 20, 20, 2, filters=(4, 4), hidden=8, dropout=0.0)
samples = squares(97, weighted=True)
reported = []
preprocess = Preprocess.fit(samples.inputs)
start = EDL().build(spec)
for epochs in sys.argv[3:]:  # each from the same weights, or from the checkpoint of the one before
    module = copy.deepcopy(start)
    settings = TrainingSettings(epochs=int(epochs), batch_size=32, shift=1, flip=True, schedule="constant")
    run = Run(sys.argv[2], {})
    history = fit(EDL(), module, preprocess, samples, settings, run=run, report=reported.append)
assert [metrics["epoch"] for metrics in reported] in ([], [1, 2, 3])
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


def test_two_processes_do_what_one_does(tmp_path):
    """With augmentation and sample weights, when going on from a checkpoint, and with members; where weights
    are drawn, each process has its own noise.
    """
    script = tmp_path / "train.py"
    script.write_text(TWO_PROCESSES)
    one_thread = environment(OMP_NUM_THREADS="1")
    alone, together = tmp_path / "1.pt", tmp_path / "2.pt"
    subprocess.run([sys.executable, script, alone, tmp_path / "one", "3"], check=True, env=one_thread)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launch += ["--rdzv-conf=read_timeout=240"]  # a busy machine may be slow to let the two meet
    words = [*launch, script, together, tmp_path / "two", "2", "3"]  # the third from a checkpoint
    done = subprocess.run(words, env=one_thread, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    one, two = (torch.load(path, weights_only=True) for path in (alone, together))
    torch.testing.assert_close(two["weights"], one["weights"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two["members"], one["members"], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(two["drawn"], one["drawn"], rtol=1e-2, atol=0)
    assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)


@pytest.mark.parametrize("method", [EDL(), Ensemble(2, epsilon=0.1)], ids=lambda m: m.name)
def test_inputs_on_the_disk_are_learned_as_those_in_memory(method):
    """Watched and attacked by their range too: all that looks at inputs streams."""
    samples, held_out = squares(60), squares(40)
    spec = replace(LENET, dropout=0.0)
    expected, history = trained(method, samples, spec, held_out=held_out, shift=1, epochs=2)
    from_disk, rows = stored(samples)
    watched, _ = stored(held_out)
    found, same = trained(method, from_disk, spec, held_out=watched, shift=1, epochs=2)
    assert torch.equal(weights(found), weights(expected))
    assert [row["held_out_loss"] for row in same] == [row["held_out_loss"] for row in history]
    # All rows at once are read for what needs all of them, and never for a batch.
    assert sorted(set(rows.counts)) == [28, 32, 60]


@pytest.mark.parametrize("schedule", ["constant", "cosine"])
def test_accumulated_batches_are_one_step(schedule):
    samples = blobs(96)
    spec = MLPSpec(5, 3, hidden=(8,))
    softmax = [
        weights(
            trained(Softmax(), samples, spec, precision="float64", schedule=schedule, warmup=0.3, **size)[0]
        )
        for size in ({"batch_size": 32}, {"batch_size": 8, "accumulate": 4})
    ]
    torch.testing.assert_close(softmax[0], softmax[1], rtol=1e-8, atol=1e-10)


def test_averaged_weights_are_watched_and_kept():
    samples, held_out = blobs(96), blobs(60, seed=1)
    module, history = trained(Softmax(), samples, held_out=held_out, ema=0.95)
    with torch.no_grad():
        logits = module(Preprocess.fit(samples.inputs)(held_out.inputs))
    loss = torch.nn.functional.cross_entropy(logits, held_out.labels).item()
    assert loss == pytest.approx(history[-1]["held_out_loss"], rel=1e-4)


@pytest.mark.filterwarnings("ignore:.*as good as guessing")  # the plain one is, but for chance
def test_class_weights_make_a_rare_class_heard():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.arange(400) % 20 == 0).long()
    inputs = torch.randn(400, 5, generator=generator)
    inputs[:, 0] += 2.5 * labels
    samples = Samples(inputs, labels)
    found = {}
    for name, options in {
        "plain": {},
        "weighted": {"class_weight": "balanced"},
        "drawn": {"sampler": "balanced"},
    }.items():
        module, _ = trained(Softmax(), samples, MLPSpec(5, 2, hidden=(8,)), epochs=12, **options)
        with torch.no_grad():
            chosen = module(Preprocess.fit(inputs)(inputs)).argmax(1)
        found[name] = float((chosen[labels == 1] == 1).double().mean())
    assert min(found["weighted"], found["drawn"]) > found["plain"] + 0.15
