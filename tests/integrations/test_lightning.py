"""Any network in Lightning: it learns as by hand, and its figures over two processes are those of one."""

import json
import os
import subprocess
import sys

import pytest
import pytorch_lightning as pl
import torch
from tests.processes import environment
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from nescio import EvidentialLoss, InputError, MLPSpec, metrics
from nescio.integrations.lightning import EvidentialModule, UncertaintyCallback, _own_samples

# Lightning's remarks on small data: few workers, few steps to log.
pytestmark = pytest.mark.filterwarnings(
    "ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"
)
CLASSES = 3


def rows(count, seed=0, shift=0.0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    centres = 3 * torch.randn(CLASSES, 4, generator=torch.Generator().manual_seed(9))
    return centres[labels] + torch.randn(count, 4, generator=generator) + shift, labels


def loader(count, batch_size, seed=0, shift=0.0):
    return DataLoader(TensorDataset(*rows(count, seed, shift)), batch_size=batch_size)


TRAINED_ON = TensorDataset(*rows(48))


def small_module(loss=None, **options):
    torch.manual_seed(0)
    return EvidentialModule(MLPSpec(4, CLASSES, hidden=(8,)), loss or EvidentialLoss(CLASSES), **options)


def trainer(folder, **options):
    chosen = {"max_epochs": 2, "accelerator": "cpu", "devices": 1, "default_root_dir": folder, **options}
    return pl.Trainer(
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[UncertaintyCallback(threshold=0.4)],
        **chosen,
    )


def in_order():
    """Lightning would shuffle for several processes: so that one learns the same, the order is given."""
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    return DistributedSampler(TRAINED_ON, num_replicas=world_size, rank=rank, shuffle=False)


def fitted(folder, batch_size, **options):
    """What is logged after two epochs, with 37 known and 23 OOD rows: no number of processes divides them."""
    module = small_module(learning_rate=0.01)
    runner = trainer(folder, **options)
    ood = loader(23, batch_size, seed=2, shift=6.0)
    known = loader(37, batch_size, seed=1)
    runner.fit(module, DataLoader(TRAINED_ON, batch_size=batch_size, sampler=in_order()), [known, ood])
    found = {name: float(value) for name, value in runner.callback_metrics.items()}
    return module, runner, found


def test_it_learns_as_by_hand_and_logs_what_the_functions_give(tmp_path):
    module, runner, found = fitted(tmp_path, 16)
    expected = small_module().network
    loss = EvidentialLoss(CLASSES)
    optimizer = torch.optim.Adam(expected.parameters(), lr=0.01)
    inputs, labels = rows(48)
    for epoch in range(2):
        for batch in range(3):
            part = slice(16 * batch, 16 * batch + 16)
            optimizer.zero_grad()
            loss(expected(inputs[part]), labels[part], epoch=epoch + batch / 3).backward()
            optimizer.step()
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(module.network.state_dict()[name], value)
    inputs, labels = rows(37, seed=1)
    with torch.no_grad():
        known = module.opinion(inputs)
        ood = module.opinion(rows(23, seed=2, shift=6.0)[0])
        final = float(loss(module(inputs), labels, epoch=2.0))
    curve = metrics.accuracy_against_threshold(known, labels, torch.tensor([0.4]))
    detection = metrics.detection(known.uncertainty, ood.uncertainty)
    assert found["val_loss"] == pytest.approx(final, abs=1e-6)
    assert found["val_accuracy"] == pytest.approx(metrics.accuracy(known, labels))
    assert found["val_uncertainty"] == pytest.approx(float(known.uncertainty.mean()), abs=1e-6)
    assert found["val_accepted_accuracy"] == pytest.approx(float(curve.accuracy), nan_ok=True)
    assert found["val_accepted_share"] == pytest.approx(float(curve.coverage))
    assert found["val_ece"] == pytest.approx(metrics.expected_calibration_error(known, labels), abs=1e-6)
    assert found["val_ood_uncertainty"] == pytest.approx(float(ood.uncertainty.mean()), abs=1e-6)
    assert found["val_ood_auroc"] == pytest.approx(detection.auroc, abs=1e-6)
    assert found["val_ood_fpr95"] == pytest.approx(detection.fpr95, abs=1e-6)
    (tested,) = runner.test(module, loader(37, 16, seed=1), verbose=False)
    assert tested["test_accuracy"] == pytest.approx(found["val_accuracy"])
    assert "test_ood_auroc" not in tested
    predicted = runner.predict(module, loader(37, 16, seed=1))
    assert torch.equal(torch.cat([part.labels for part in predicted]), known.labels)


@pytest.mark.parametrize(
    ("options", "last_epoch"),
    [
        ({"max_epochs": -1, "max_steps": 12}, 4.0),  # of 3 batches an epoch
        ({"max_epochs": -1, "max_steps": 4, "accumulate_grad_batches": 2}, 2.0),
        ({"max_epochs": 2, "max_steps": 60}, 2.0),
        ({"max_epochs": 6, "max_steps": 3}, 1.0),
    ],
)
def test_losses_of_all_epochs_compare(tmp_path, options, last_epoch):
    """With the weight of the divergence at the end of the training, whatever ends it."""
    module = small_module(learning_rate=0.0)
    runner = trainer(tmp_path, num_sanity_val_steps=0, check_val_every_n_epoch=1, **options)
    runner.fit(module, loader(48, 16), loader(20, 20, seed=1))
    inputs, labels = rows(20, seed=1)
    with torch.no_grad():
        expected = float(module.loss(module(inputs), labels, epoch=last_epoch))
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)


def test_without_a_training_the_divergence_has_all_its_weight(tmp_path):
    module = small_module()
    runner = trainer(tmp_path, max_epochs=-1)
    runner.validate(module, loader(20, 20, seed=1), verbose=False)
    inputs, labels = rows(20, seed=1)
    with torch.no_grad():
        expected = float(module.loss(module(inputs), labels, epoch=10.0))
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)


TWO_PROCESSES = """
import json, sys, warnings
warnings.simplefilter("ignore")
from tests.integrations.test_lightning import fitted
_, runner, found = fitted(sys.argv[1], 8, devices=2, strategy="ddp")
assert runner.world_size == 2
open(f"{sys.argv[1]}/found{runner.global_rank}.json", "w").write(json.dumps(found))
"""


def test_two_processes_give_the_figures_of_one(tmp_path):
    """Batches of 8 in each of two processes are those of 16 in one; 37 and 23 rows are no even numbers."""
    _, _, expected = fitted(tmp_path, 16)
    script = tmp_path / "two.py"
    script.write_text(TWO_PROCESSES)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    launch += ["--rdzv-conf=read_timeout=240"]  # a busy machine may be slow to let the two meet
    one_thread = environment(OMP_NUM_THREADS="1")
    done = subprocess.run(
        [*launch, script, tmp_path], env=one_thread, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    for rank in range(2):
        found = json.loads((tmp_path / f"found{rank}.json").read_text())
        for name, value in expected.items():
            if name.startswith("val_"):
                assert found[name] == pytest.approx(value, abs=2e-5, nan_ok=True), name


def test_repeated_samples_are_known_by_their_place():
    data = TensorDataset(torch.arange(10))
    counted = []
    for rank in range(4):  # 12 places for 10 samples: the last of ranks 2 and 3 are repetitions
        sampler = DistributedSampler(data, num_replicas=4, rank=rank, shuffle=False)
        batches = DataLoader(data, batch_size=2, sampler=sampler)
        counted.append([_own_samples(batches, number, len(batch[0])) for number, batch in enumerate(batches)])
    assert counted == [[2, 1], [2, 1], [2, 0], [2, 0]]
    assert _own_samples(DataLoader(data, batch_size=4), 0, 4) == 4


def test_repeated_samples_are_computed_and_not_counted(tmp_path):
    """Where processes share the weights, all of them must compute as many batches."""
    data = TensorDataset(*rows(10))
    sampler = DistributedSampler(data, num_replicas=4, rank=3, shuffle=False)
    module = small_module()
    sizes = []
    module.network.register_forward_hook(lambda network, inputs, logits: sizes.append(len(logits)))
    runner = trainer(tmp_path, use_distributed_sampler=False)
    runner.validate(module, DataLoader(data, batch_size=2, sampler=sampler), verbose=False)
    assert sizes == [2, 1]
    inputs, labels = rows(10)
    with torch.no_grad():
        expected = float(module.loss(module(inputs[[3, 7]]), labels[[3, 7]], epoch=2.0))
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)


def test_class_weights_and_other_optimisers(tmp_path):
    loss = EvidentialLoss(CLASSES, class_weight=torch.tensor([1.0, 5.0, 2.0]), annealing_epochs=0)
    module = small_module(loss, optimizer="SGD", learning_rate=0.1, weight_decay=0.01)
    runner = trainer(tmp_path, max_epochs=1)
    runner.validate(module, loader(20, 7), verbose=False)
    inputs, labels = rows(20)
    with torch.no_grad():
        expected = float(loss(module(inputs), labels))
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)
    optimizer = module.configure_optimizers()
    assert isinstance(optimizer, torch.optim.SGD)
    assert optimizer.defaults["weight_decay"] == 0.01


@pytest.mark.parametrize("class_weight", [None, torch.tensor([1.0, 5.0, 2.0])])
def test_soft_labels(tmp_path, class_weight):
    loss = EvidentialLoss(CLASSES, class_weight=class_weight, annealing_epochs=0)
    module = small_module(loss)
    inputs, labels = rows(20)
    soft = torch.nn.functional.one_hot(labels.sort().values, CLASSES) * 0.7 + 0.1
    runner = trainer(tmp_path)
    runner.validate(module, DataLoader(TensorDataset(inputs, soft), batch_size=7), verbose=False)
    with torch.no_grad():
        expected = float(loss(module(inputs), soft))
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)


def test_labels_that_are_ignored_count_nowhere(tmp_path):
    inputs, labels = rows(20)
    labels[:5] = -100
    batches = DataLoader(TensorDataset(inputs, labels), batch_size=5)
    module = small_module()
    runner = trainer(tmp_path)
    runner.validate(module, batches, verbose=False)
    with torch.no_grad():
        expected = float(module.loss(module(inputs[5:]), labels[5:], epoch=2.0))
        accuracy = metrics.accuracy(module.opinion(inputs[5:]), labels[5:])
    assert float(runner.callback_metrics["val_loss"]) == pytest.approx(expected, abs=1e-6)
    assert float(runner.callback_metrics["val_accuracy"]) == pytest.approx(accuracy)


class Bare(pl.LightningModule):
    def validation_step(self, batch, batch_idx):
        return torch.zeros(())


def test_what_does_not_fit_is_refused(tmp_path):
    loss = EvidentialLoss(CLASSES)
    with pytest.raises(InputError, match="network must be a torch module or the spec of an encoder, got str"):
        EvidentialModule("mlp", loss)
    with pytest.raises(InputError, match="loss must be an EvidentialLoss, got CrossEntropyLoss"):
        EvidentialModule(torch.nn.Linear(2, 2), torch.nn.CrossEntropyLoss())
    with pytest.raises(InputError, match="reduction 'mean', got 'sum'"):
        EvidentialModule(torch.nn.Linear(2, 2), EvidentialLoss(reduction="sum"))
    with pytest.raises(InputError, match="optimizer must be one of"):
        small_module(optimizer="best")
    with pytest.raises(InputError, match="validation_step must return a dict with 'opinion' and 'labels'"):
        trainer(tmp_path).validate(Bare(), loader(4, 2), verbose=False)
    with pytest.raises(InputError, match="ood_dataloader must be a whole number from 1 on"):
        UncertaintyCallback(ood_dataloader=0)
