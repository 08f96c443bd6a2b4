"""For Lightning: any network with an evidential loss as a module, and a callback that logs its doubt.

    module = EvidentialModule(network, EvidentialLoss(num_classes=10))
    trainer = Trainer(max_epochs=20, callbacks=[UncertaintyCallback()])
    trainer.fit(module, train_loader, [known_loader, ood_loader])

Both packages will do, `lightning` and `pytorch_lightning`; where both are installed, the one that is imported
first. Figures of a validation over several processes are those of one: samples that a sampler repeats so that
all processes have as many are left out.
"""

from __future__ import annotations

import math
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.data import DistributedSampler

from nescio._checks import describe, require_number, require_whole
from nescio.encoders import EncoderSpec
from nescio.errors import InputError, MissingExtraError
from nescio.losses import EvidentialLoss
from nescio.opinions.opinion import Opinion
from nescio.posthoc.abstention import AbstentionRule
from nescio.training._optimizers import require_optimizer, takes_weight_decay

__all__ = ["EvidentialModule", "UncertaintyCallback"]

PACKAGES = ("lightning.pytorch", "pytorch_lightning")


def _find_lightning() -> ModuleType:
    """The package that the user's program uses: a Trainer of one takes no modules of the other."""
    in_use_first = sorted(PACKAGES, key=lambda name: name not in sys.modules)
    for name in in_use_first:
        try:
            return import_module(name)
        except ImportError:
            continue
    raise MissingExtraError("lightning", "pytorch-lightning")


if TYPE_CHECKING:
    from pytorch_lightning import Callback, LightningModule, Trainer
else:
    _found = _find_lightning()
    Callback = _found.Callback
    LightningModule = _found.LightningModule

# Below Lightning's own import: torchmetrics comes with it, and one line says what to install.
from torchmetrics import MeanMetric, MetricCollection  # noqa: E402

from nescio.metrics.streaming import (  # noqa: E402
    DEFAULT_THRESHOLD,
    AcceptedAccuracy,
    AcceptedShare,
    Accuracy,
    AreaUnderRiskCoverage,
    ExpectedCalibrationError,
    MeanUncertainty,
    OODDetection,
)


class EvidentialModule(LightningModule):
    """A network, an evidential loss, and what they say.

    Batches are pairs of inputs (N, ...) and labels. It logs train_loss; val_loss and test_loss with the
    weight that the divergence has at the end of the training, so that the losses of all epochs compare. A
    second dataloader of a validation or a test is taken for OOD inputs: it has no loss, and its batches need
    no labels. For another optimiser than one of torch.optim at a constant rate, override
    `configure_optimizers`.

    Args:
        network: A module from inputs (N, ...) to logits (N, K, ...), or the spec of an encoder.
        loss: The loss, with its annealing; it reads the logits too.
        learning_rate: Learning rate of the optimiser.
        optimizer: Name of one of torch.optim, in any case.
        weight_decay: Weight decay of the optimiser.

    Raises:
        InputError: If an argument is not what it must be.

    Example:
        >>> import torch
        >>> from nescio import EvidentialLoss, MLPSpec
        >>> from nescio.integrations.lightning import EvidentialModule
        >>> module = EvidentialModule(MLPSpec(4, 3), EvidentialLoss(num_classes=3))
        >>> module.opinion(torch.zeros(2, 4)).uncertainty.shape
        torch.Size([2])
    """

    def __init__(
        self,
        network: nn.Module | EncoderSpec,
        loss: EvidentialLoss,
        *,
        learning_rate: float = 1e-3,
        optimizer: str = "adam",
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__()
        if isinstance(network, EncoderSpec):
            network = network.build()
        if not isinstance(network, nn.Module):
            raise InputError(
                f"network must be a torch module or the spec of an encoder, got {describe(network)}"
            )
        if not isinstance(loss, EvidentialLoss):
            raise InputError(f"loss must be an EvidentialLoss, got {describe(loss)}")
        if loss.reduction != "mean":
            raise InputError(f"loss must have the reduction 'mean', got {loss.reduction!r}")
        require_number("learning_rate", learning_rate)
        require_number("weight_decay", weight_decay)
        require_optimizer(optimizer, weight_decay)
        self.network = network
        self.loss = loss
        self.learning_rate = learning_rate
        self.optimizer_name = optimizer
        self.weight_decay = weight_decay
        self.losses = nn.ModuleDict({"val": MeanMetric(), "test": MeanMetric()})

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (N, K, ...) of inputs (N, ...)."""
        logits: Tensor = self.network(inputs)
        return logits

    def opinion(self, inputs: Tensor) -> Opinion:
        """What the network says of inputs.

        Args:
            inputs: Inputs (N, ...), as the network takes them.

        Returns:
            The opinions (N, ...).
        """
        return self.loss.opinion(self(inputs))

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch, at the epoch that it is, fractions included."""
        inputs, labels = batch
        epoch = self.current_epoch + batch_idx / self.trainer.num_training_batches
        loss: Tensor = self.loss(self(inputs), labels, epoch=epoch)
        self.log("train_loss", loss, batch_size=len(labels))
        return loss

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Any] | None:
        """The opinions and labels of a batch, for callbacks; its loss is logged as val_loss."""
        return self._evaluation_step("val", batch, batch_idx, dataloader_idx)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> dict[str, Any] | None:
        """As `validation_step`; the loss is logged as test_loss."""
        return self._evaluation_step("test", batch, batch_idx, dataloader_idx)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Opinion:
        """The opinions of a batch, with labels or without."""
        return self.opinion(_inputs_of(batch))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """The optimiser that was named."""
        kind = require_optimizer(self.optimizer_name, self.weight_decay)
        options: dict[str, Any] = {"lr": self.learning_rate}
        if takes_weight_decay(self.optimizer_name):
            options["weight_decay"] = self.weight_decay
        return kind(self.parameters(), **options)

    def _evaluation_step(
        self, stage: str, batch: Any, batch_idx: int, dataloader_idx: int
    ) -> dict[str, Any] | None:
        inputs = _inputs_of(batch)
        count = _own_samples(_loader_of(self.trainer, stage, dataloader_idx), batch_idx, len(inputs))
        is_known = dataloader_idx == 0
        found: dict[str, Any] | None = None
        # Of repetitions alone too: where processes share the weights, each waits for the others here.
        logits = self(inputs)[:count]
        if count > 0:
            found = {"opinion": self.loss.opinion(logits), "labels": None}
            if is_known:
                labels = batch[1][:count]
                self._add_loss(stage, logits, labels)
                found = _without_ignored(found["opinion"], labels, self.loss.ignore_index)
        if is_known:
            # Also where nothing was added: the processes meet here.
            self.log(
                f"{stage}_loss", self._loss_of(stage), on_step=False, on_epoch=True, add_dataloader_idx=False
            )
        return found

    def _loss_of(self, stage: str) -> MeanMetric:
        found = self.losses[stage]
        assert isinstance(found, MeanMetric)
        return found

    def _add_loss(self, stage: str, logits: Tensor, labels: Tensor) -> None:
        loss = self.loss(logits, labels, epoch=self._last_epoch())
        self._loss_of(stage).update(loss.float(), weight=_weight_of(self.loss, labels))

    def _last_epoch(self) -> float:
        """Where the training ends, in epochs; where nobody says it, after the annealing."""
        ends = [float(self.loss.annealing_epochs)]
        if self.trainer.max_epochs is not None and self.trainer.max_epochs >= 0:
            ends.append(float(self.trainer.max_epochs))
        num_batches = self.trainer.num_training_batches  # infinite where there is no training, or no length
        if self.trainer.max_steps >= 0 and 0 < num_batches < math.inf:
            steps_an_epoch = math.ceil(num_batches / self.trainer.accumulate_grad_batches)
            ends.append(self.trainer.max_steps / steps_an_epoch)
        return min(ends)


def _without_ignored(opinion: Opinion, labels: Tensor, ignore_index: int) -> dict[str, Any] | None:
    """What callbacks are given: the opinions that have a label; None where none has one."""
    if labels.is_floating_point():
        return {"opinion": opinion, "labels": labels.argmax(1)}
    counts = labels != ignore_index
    if bool(counts.all()):
        return {"opinion": opinion, "labels": labels}
    if not bool(counts.any()):
        return None
    return {"opinion": opinion[counts], "labels": labels[counts]}


def _weight_of(loss: EvidentialLoss, labels: Tensor) -> Tensor | float:
    """What the mean of a batch counts: the weights of its samples that count."""
    if labels.is_floating_point():
        if loss.class_weight is None:
            return float(len(labels))
        return (labels.movedim(1, -1) * loss.class_weight).sum().float()
    counted = labels[labels != loss.ignore_index]
    if loss.class_weight is None:
        return float(len(counted))
    return loss.class_weight[counted].sum().float()


def _inputs_of(batch: Any) -> Tensor:
    inputs = batch[0] if isinstance(batch, tuple | list) else batch
    if not isinstance(inputs, Tensor):
        raise InputError(f"a batch must be inputs, or inputs and labels, got {describe(inputs)}")
    return inputs


def _loader_of(trainer: Trainer, stage: str, number: int) -> Any:
    loaders = trainer.val_dataloaders if stage == "val" else trainer.test_dataloaders
    if isinstance(loaders, dict):
        loaders = list(loaders.values())
    if isinstance(loaders, tuple | list):
        return loaders[number]
    return loaders


def _own_samples(loader: Any, batch_idx: int, count: int) -> int:
    """How many samples of a batch are no repetitions, which come last.

    A DistributedSampler gives all processes as many samples: those behind the end of the data set are samples
    from its beginning again. A process has every n-th place from its rank on.
    """
    sampler = getattr(loader, "sampler", None)
    batch_size = getattr(loader, "batch_size", None)
    if not isinstance(sampler, DistributedSampler) or batch_size is None:
        return count
    size = len(sampler.dataset)  # type: ignore[arg-type]
    places = torch.arange(batch_idx * batch_size, batch_idx * batch_size + count)
    return int((sampler.rank + sampler.num_replicas * places < size).sum())


class UncertaintyCallback(Callback):
    """Logs how sure a module is, how right it is where it is sure, and whether it tells OOD inputs.

    After every validation (val_) and test (test_): accuracy, uncertainty, accepted_accuracy, accepted_share,
    ece and aurc of the first dataloader; where there is a second one, of OOD inputs, also ood_uncertainty,
    ood_auroc and ood_fpr95. The module is an EvidentialModule, or one whose steps return a dict with
    "opinion" (N, ...) and "labels".

    Args:
        threshold: The most uncertainty that is accepted.
        rule: A rule of abstention that decides instead; None for the threshold.
        measure: Name of the measure of doubt by which OOD inputs are told and the risk is ordered.
        ood_dataloader: Which dataloader holds OOD inputs, counted from 0.

    Raises:
        InputError: If an argument is not what it must be.

    Example:
        >>> from nescio.integrations.lightning import UncertaintyCallback
        >>> callback = UncertaintyCallback(threshold=0.3)  # Trainer(callbacks=[callback])
    """

    def __init__(
        self,
        threshold: float = DEFAULT_THRESHOLD,
        *,
        rule: AbstentionRule | None = None,
        measure: str = "uncertainty",
        ood_dataloader: int = 1,
    ) -> None:
        require_whole("ood_dataloader", ood_dataloader)
        self.ood_dataloader = ood_dataloader
        self._known = MetricCollection(
            {
                "accuracy": Accuracy(),
                "uncertainty": MeanUncertainty(),
                "accepted_accuracy": AcceptedAccuracy(threshold, rule=rule),
                "accepted_share": AcceptedShare(threshold, rule=rule),
                "ece": ExpectedCalibrationError(),
                "aurc": AreaUnderRiskCoverage(measure),
            },
            compute_groups=False,  # each keeps a state of its own
        )
        self._ood_uncertainty = MeanUncertainty()
        self._detection = OODDetection(measure)

    def on_validation_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the validation or test before."""
        self._reset(pl_module)

    on_test_epoch_start = on_validation_epoch_start

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Take a batch of a validation or a test into account."""
        self._update(outputs, dataloader_idx)

    on_test_batch_end = on_validation_batch_end

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log what the validation came to."""
        if not trainer.sanity_checking:
            self._log("val", trainer.num_val_batches, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log what the test came to."""
        self._log("test", trainer.num_test_batches, pl_module)

    def _metrics(self) -> list[Any]:
        return [self._known, self._ood_uncertainty, self._detection]

    def _reset(self, module: LightningModule) -> None:
        for metric in self._metrics():
            metric.reset()
            metric.to(module.device)

    def _update(self, outputs: Any, dataloader_idx: int) -> None:
        if outputs is None:
            return  # a batch of repetitions alone
        opinion = outputs.get("opinion") if isinstance(outputs, dict) else None
        if not isinstance(opinion, Opinion):
            raise InputError(
                "the module's validation_step must return a dict with 'opinion' and 'labels', as "
                f"EvidentialModule does, got {describe(outputs)}"
            )
        if dataloader_idx == self.ood_dataloader:
            self._ood_uncertainty.update(opinion)
            self._detection.update(opinion, is_ood=True)
        elif dataloader_idx == 0:
            self._known.update(opinion, outputs["labels"])
            self._detection.update(opinion, is_ood=False)

    def _log(self, stage: str, num_batches: Any, module: LightningModule) -> None:
        # By what all processes know: each of them must ask the others.
        loaders = num_batches if isinstance(num_batches, list) else [num_batches]
        if not loaders or not loaders[0]:
            return
        found = dict(self._known.compute())
        if len(loaders) > self.ood_dataloader and loaders[self.ood_dataloader]:
            detection = self._detection.compute()
            found["ood_uncertainty"] = self._ood_uncertainty.compute()
            found["ood_auroc"] = detection["auroc"]
            found["ood_fpr95"] = detection["fpr95"]
        for name, value in found.items():
            # They are the same in all processes already; sync_dist spares Lightning's warning about it.
            module.log(f"{stage}_{name}", value, sync_dist=True, add_dataloader_idx=False)
