"""For the `Trainer` of transformers: its loss with annealing, and opinions from what `predict` gives.

    loss = TrainerLoss(EvidentialLoss(num_classes=150))
    trainer = Trainer(model, args, compute_loss_func=loss, callbacks=[AnnealingCallback(loss)], ...)
    trainer.train()
    opinion = opinions(trainer.predict(questions), loss)

Models with adapters of PEFT are trained the same way. Temperature, conformal sets and rules of abstention
take such an opinion and `labels_of` the output; `fit_posthoc` fits temperature and trust at once.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio._checks import describe, require_number
from nescio.errors import InputError, MissingExtraError, NescioWarning, TrainingError
from nescio.functional.risks import IGNORE_INDEX
from nescio.losses import EvidentialLoss
from nescio.opinions.opinion import Opinion
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import Trust, half_at_for

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise MissingExtraError("hf", "transformers") from error

__all__ = [
    "AnnealingCallback",
    "PredictedFeatures",
    "TrainerLoss",
    "fit_posthoc",
    "labels_of",
    "minilm_classifier",
    "minilm_tokenizer",
    "opinions",
    "predict_with_features",
]


class TrainerLoss:
    """An evidential loss as `Trainer(compute_loss_func=...)` calls it.

    The loss of a step is the sum of the losses of its samples over their number, which the Trainer counts
    over all the batches that it accumulates and over all processes: how a step is cut into batches changes
    nothing. With class weights it is the weighted sum over the number of samples; the Trainer does not say
    how much the samples of a step weigh, so give weights whose mean over the training samples is one. In an
    evaluation the divergence weighs what it will at the end of the training, so that the losses of all epochs
    compare.

    Args:
        loss: The loss; what it is reduced by is left to the Trainer.
        class_axis: The axis of the logits that holds the classes: the last of most models, 1 of those that
            segment images.

    Raises:
        InputError: If the loss is none of nescio's, or ignores another label than -100, which is the one that
            the Trainer does not count.

    Example:
        >>> import torch
        >>> from nescio import EvidentialLoss
        >>> from nescio.integrations.transformers import TrainerLoss
        >>> loss = TrainerLoss(EvidentialLoss(num_classes=3, annealing_epochs=0))
        >>> logits = torch.tensor([[2.0, -1.0, 0.0], [0.0, 1.0, 0.0]])
        >>> labels = torch.tensor([0, 1])
        >>> whole = loss({"logits": logits}, labels, num_items_in_batch=2)
        >>> halves = [loss({"logits": logits[[i]]}, labels[[i]], num_items_in_batch=2) for i in range(2)]
        >>> bool(torch.isclose(whole, sum(halves)))
        True
    """

    def __init__(self, loss: EvidentialLoss, *, class_axis: int = -1) -> None:
        if not isinstance(loss, EvidentialLoss):
            raise InputError(f"loss must be an EvidentialLoss, got {describe(loss)}")
        if loss.ignore_index != IGNORE_INDEX:
            raise InputError(
                f"ignore_index of the loss must be {IGNORE_INDEX}, which the Trainer does not count, "
                f"got {loss.ignore_index}"
            )
        self.loss = loss
        self.class_axis = class_axis
        self._epoch: float | None = None
        self._last_epoch: float | None = None

    def set_epoch(self, epoch: float, last_epoch: float) -> None:
        """Say how far the training is; `AnnealingCallback` does.

        Args:
            epoch: Epochs so far, fractions included.
            last_epoch: Epochs that the training has in all.
        """
        require_number("epoch", epoch)
        require_number("last_epoch", last_epoch)
        self._epoch = epoch
        self._last_epoch = last_epoch

    def __call__(
        self, outputs: Any, labels: Tensor | None, num_items_in_batch: Tensor | float | None = None
    ) -> Tensor:
        """The loss of a batch, as a part of the loss of its step.

        Args:
            outputs: What the model gave: an object with `logits`, a dict or a tuple that begins with them.
            labels: Class indices (N, ...), or soft labels of the form of the logits.
            num_items_in_batch: Labels of the whole step that count; None for those of this batch.

        Returns:
            The loss, ().

        Raises:
            InputError: If there are no labels, or they do not fit the logits.
            TrainingError: If annealing is on and nobody says how far the training is.
        """
        logits = _logits_of(outputs)
        if labels is None:
            raise InputError("labels must be given: name the column of the data set 'labels', got None")
        self.loss.to(logits.device)
        by_class = logits.movedim(self.class_axis, 1)
        targets = labels
        if labels.is_floating_point():
            targets = labels.movedim(self.class_axis, 1)
        summed = _with_reduction(self.loss, by_class, targets, self._epoch_now())
        if num_items_in_batch is None:
            return summed / _count(targets)
        if labels.is_floating_point():
            # The Trainer counts every number of soft labels, and each sample has one for every class.
            num_items_in_batch = num_items_in_batch / by_class.shape[1]
        return summed / num_items_in_batch

    def opinion(self, logits: Tensor) -> Opinion:
        """What a model trained with this loss says by its logits.

        Args:
            logits: The model's outputs, with the classes on `class_axis`.

        Returns:
            The opinions; their class axis is the last.
        """
        return self.loss.opinion(logits.movedim(self.class_axis, 1))

    def _epoch_now(self) -> float | None:
        if not self.loss.annealing_epochs:
            return None
        if not torch.is_grad_enabled():  # an evaluation
            if self._last_epoch is None:
                return float(self.loss.annealing_epochs)
            return self._last_epoch
        if self._epoch is None:
            raise TrainingError(
                "the loss is annealed and does not know the epoch: give the Trainer "
                "callbacks=[AnnealingCallback(loss)], or set annealing_epochs=0"
            )
        return self._epoch


def _with_reduction(loss: EvidentialLoss, logits: Tensor, targets: Tensor, epoch: float | None) -> Tensor:
    """The sum of the losses, whatever the loss itself reduces by."""
    kept = loss.reduction
    loss.reduction = "sum"
    try:
        summed: Tensor = loss(logits, targets, epoch=epoch)
    finally:
        loss.reduction = kept
    return summed


def _count(targets: Tensor) -> Tensor | int:
    if targets.is_floating_point():
        return max(targets.numel() // targets.shape[1], 1)
    return (targets != IGNORE_INDEX).sum().clamp_min(1)


class AnnealingCallback(TrainerCallback):
    """Tells a `TrainerLoss` how far the training is, before every batch.

    The epoch is the Trainer's own, so a training that goes on from a checkpoint goes on with the annealing
    too. A data set without a length, as those that are streamed, counts as one epoch from the first to the
    last step: take `annealing_epochs` from 0 to 1 then, the share of the training in which the divergence
    grows.

    Args:
        loss: The loss that the Trainer was given.

    Raises:
        InputError: If it is no TrainerLoss.

    Example:
        >>> from nescio import EvidentialLoss
        >>> from nescio.integrations.transformers import AnnealingCallback, TrainerLoss
        >>> loss = TrainerLoss(EvidentialLoss(num_classes=3))
        >>> callbacks = [AnnealingCallback(loss)]  # Trainer(compute_loss_func=loss, callbacks=callbacks, ...)
    """

    def __init__(self, loss: TrainerLoss) -> None:
        if not isinstance(loss, TrainerLoss):
            raise InputError(f"loss must be a TrainerLoss, got {describe(loss)}")
        self.loss = loss
        self._batches_since_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Refuse what the loss would not get, and say where the divergence would not grow to its weight.

        Raises:
            InputError: If the Trainer is to smooth labels, which it does not where it is given a loss.
        """
        if args.label_smoothing_factor != 0:
            raise InputError(
                "label_smoothing_factor must be 0, as the Trainer does not smooth the labels for "
                f"compute_loss_func, got {args.label_smoothing_factor}; give the data set soft labels instead"
            )
        annealing_epochs = self.loss.loss.annealing_epochs
        if _batches_of_epoch(others.get("train_dataloader")) is None and annealing_epochs > 1:
            warnings.warn(
                "train_dataset has no length, so all of the training counts as one epoch, and "
                f"annealing_epochs is {annealing_epochs}: the divergence grows to {1 / annealing_epochs:.2g} "
                "of its weight; give the loss annealing_epochs from 0 to 1",
                NescioWarning,
                stacklevel=2,
            )

    def on_step_begin(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """At the first batch of a step."""
        self._batches_since_step = 0
        self._tell(args, state, others)

    def on_substep_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Before each further batch of a step: the Trainer counts epochs by whole steps."""
        self._batches_since_step += 1
        self._tell(args, state, others)

    def _tell(self, args: Any, state: Any, others: dict[str, Any]) -> None:
        batches = _batches_of_epoch(others.get("train_dataloader"))
        if batches is None:
            within = self._batches_since_step / args.gradient_accumulation_steps
            self.loss.set_epoch((state.global_step + within) / args.max_steps, 1.0)
        else:
            within = self._batches_since_step / batches
            self.loss.set_epoch(state.epoch + within, float(state.num_train_epochs))


def _batches_of_epoch(loader: Any) -> int | None:
    """None of an iterable data set: the Trainer has a number of steps then, and no epochs that end."""
    try:
        return max(len(loader), 1)
    except TypeError:
        return None


def opinions(output: Any, loss: TrainerLoss | EvidentialLoss | None = None) -> Opinion:
    """The opinions of a model by what `Trainer.predict` gave.

    Args:
        output: What `trainer.predict(...)` returned; also its `predictions` alone, as an array or a tensor
            (N, ..., K). Of several arrays the first are the logits.
        loss: The loss that the model was trained with, which says how logits are read; None for the defaults
            of `EvidentialLoss`, with the classes on the last axis.

    Returns:
        The opinions (N, ...) in float32, on the CPU.

    Raises:
        InputError: If there are no logits.

    Example:
        >>> import numpy as np
        >>> from nescio.integrations.transformers import opinions
        >>> opinions(np.log([[8.0, 1.0], [1.0, 1.0]]))
        Opinion(batch (2,), 2 classes, mean uncertainty 0.341)
    """
    logits = _first_array(getattr(output, "predictions", output))
    if loss is None:
        loss = TrainerLoss(EvidentialLoss())
    elif isinstance(loss, EvidentialLoss):
        loss = TrainerLoss(loss)
    elif not isinstance(loss, TrainerLoss):
        raise InputError(f"loss must be a TrainerLoss or an EvidentialLoss, got {describe(loss)}")
    return loss.opinion(logits)


def labels_of(output: Any) -> Tensor:
    """The true classes by what `Trainer.predict` gave.

    Args:
        output: What `trainer.predict(...)` returned for a data set with labels.

    Returns:
        int64 (N, ...).

    Raises:
        InputError: If the data set had no labels, or they are no class indices.

    Example:
        >>> import numpy as np
        >>> from transformers.trainer_utils import PredictionOutput
        >>> from nescio.integrations.transformers import labels_of
        >>> labels_of(PredictionOutput(np.zeros((2, 3)), np.array([2, 0]), {}))
        tensor([2, 0])
    """
    found = getattr(output, "label_ids", None)
    if found is None:
        raise InputError("output must have label_ids: predict a data set that has labels, got none")
    labels = torch.as_tensor(found)
    if labels.is_floating_point():
        raise InputError(f"label_ids must be class indices, got {describe(labels)}")
    return labels.long()


def fit_posthoc(
    output: Any,
    loss: TrainerLoss | EvidentialLoss | None = None,
    *,
    features: Tensor | None = None,
    train_features: Tensor | None = None,
    train_labels: Tensor | None = None,
) -> Posthoc:
    """Fit a temperature to held-out data, and trust where features are given.

    `apply` of what is returned says what is finally said of new inputs. Conformal sets and rules of
    abstention are fitted to that, on other held-out data where a promise is to hold exactly.

    Args:
        output: What `trainer.predict(...)` returned for N labelled inputs that had no part in the training.
        loss: The loss that the model was trained with, see `opinions`.
        features: Features (N, F) of the same inputs, see `predict_with_features`; None for no trust.
        train_features: Features (M, F) of training inputs; they go with `features`.
        train_labels: Classes (M,) of the training inputs: with them distances are measured by Gaussians.

    Returns:
        Temperature and trust.

    Raises:
        InputError: If the arguments do not fit, or there are too few inputs.

    Example:
        >>> import numpy as np
        >>> from transformers.trainer_utils import PredictionOutput
        >>> from nescio.integrations.transformers import fit_posthoc, opinions
        >>> logits = np.tile(np.array([[6.0, 0.0]], dtype=np.float32), (1000, 1))
        >>> labels = (np.arange(1000) >= 800).astype(np.int64)  # 800 of 1000 are right, all are sure
        >>> posthoc = fit_posthoc(PredictionOutput(logits, labels, {}))
        >>> posthoc.apply(opinions(logits[:1])).prediction.probabilities
        tensor([[0.8011, 0.1989]])
    """
    if (features is None) != (train_features is None):
        raise InputError("features and train_features go together, got one of them alone")
    opinion = opinions(output, loss)
    labels = labels_of(output)
    trust = None
    factors = None
    if features is not None and train_features is not None:
        if len(features) != len(labels):
            raise InputError(f"features must be of the {len(labels)} inputs of output, got {len(features)}")
        num_wrong = int((opinion.labels.cpu() != labels.cpu()).sum())
        half_at = half_at_for(num_wrong, len(labels))
        trust = Trust.fit(train_features, features, labels=train_labels, half_at=half_at)
        factors = trust(features)
    return Posthoc(Temperature.fit(opinion, labels, factors), trust)


class PredictedFeatures(NamedTuple):
    """What `predict_with_features` gives.

    Args:
        output: What `trainer.predict(...)` returned.
        features: What the layer was given, float32 (N, F), on the CPU.

    Example:
        >>> import torch
        >>> from nescio.integrations.transformers import PredictedFeatures
        >>> PredictedFeatures(output=None, features=torch.zeros(2, 8)).features.shape
        torch.Size([2, 8])
    """

    output: Any
    features: Tensor


def predict_with_features(trainer: Any, dataset: Any, layer: str = "classifier") -> PredictedFeatures:
    """Predict a data set, and keep what the head of the model was given: features for `fit_posthoc`.

    Args:
        trainer: A Trainer, in one process.
        dataset: N inputs, as for `trainer.predict`.
        layer: Name of the head among the model's modules; its inputs (N, F) are the features. The head that
            an adapter of PEFT trains is found by the name that it had before.

    Returns:
        The output of `trainer.predict`, and the features.

    Raises:
        InputError: If the model has no such layer, it is not given one row for each input, or there are
            several processes.

    Example:
        >>> import torch
        >>> from types import SimpleNamespace
        >>> from nescio.integrations.transformers import predict_with_features
        >>> head = torch.nn.Linear(4, 2)
        >>> model = torch.nn.ModuleDict({"classifier": head})
        >>> trainer = SimpleNamespace(model=model, args=SimpleNamespace(world_size=1), predict=head)
        >>> predict_with_features(trainer, torch.ones(3, 4)).features.shape
        torch.Size([3, 4])
    """
    processes = max(trainer.args.world_size, getattr(trainer.args, "n_gpu", 1))
    if processes > 1:
        raise InputError(
            f"trainer must run in one process on one device to give features in order, got {processes}"
        )
    parts: list[Tensor] = []

    def keep(module: nn.Module, inputs: tuple[Any, ...]) -> None:
        parts.append(inputs[0].detach().float().cpu())

    handle = _layer_of(trainer.model, layer).register_forward_pre_hook(keep)
    try:
        output = trainer.predict(dataset)
    finally:
        handle.remove()
    if not parts or parts[0].ndim != 2:
        got = describe(parts[0]) if parts else "nothing"
        raise InputError(f"the layer {layer} must be given features (N, F), got {got}")
    features = torch.cat(parts)
    predictions = getattr(output, "predictions", None)
    if isinstance(predictions, tuple | list) and predictions:
        predictions = predictions[0]
    if predictions is not None and len(predictions) != len(features):
        raise InputError(
            f"the layer {layer} must be given a row for each of {len(predictions)} inputs, "
            f"got {len(features)}"
        )
    return PredictedFeatures(output, features)


def _layer_of(model: nn.Module, name: str) -> nn.Module:
    modules: dict[str, nn.Module] = dict(model.named_modules())
    if name in modules:
        return modules[name]
    # PEFT puts the model below a prefix, and keeps the head that is trained beside the one from before.
    for found, module in modules.items():
        if found.endswith((f".{name}.modules_to_save.default", f".{name}")):
            trained = f"{found}.modules_to_save.default"
            return modules.get(trained, module)
    heads = [found for found, module in modules.items() if isinstance(module, nn.Linear)]
    raise InputError(f"layer must be a module of the model, like {heads[-1:] or 'a head'}, got {name!r}")


def _logits_of(outputs: Any) -> Tensor:
    logits = getattr(outputs, "logits", None)
    if logits is None and isinstance(outputs, dict):
        logits = outputs.get("logits")
    if logits is None and isinstance(outputs, tuple | list) and outputs:
        logits = outputs[0]
    if not isinstance(logits, Tensor):
        raise InputError(f"the model must give logits, got {describe(outputs)}")
    return logits


def _first_array(predictions: Any) -> Tensor:
    if isinstance(predictions, tuple | list) and predictions:
        predictions = predictions[0]
    if not hasattr(predictions, "shape"):
        raise InputError(f"output must be what trainer.predict returned, got {describe(predictions)}")
    return torch.as_tensor(predictions).float()


def minilm_classifier(num_labels: int, **config: Any) -> Any:
    """all-MiniLM-L6-v2 as a model of transformers with a new head, with the weights that nescio fetches.

    Args:
        num_labels: K.
        config: Fields of the model's BertConfig to change, such as `hidden_dropout_prob`.

    Returns:
        A BertForSequenceClassification.

    Raises:
        FetchError: If the weights can't be had.

    Example:
        >>> from nescio.integrations.transformers import minilm_classifier
        >>> model = minilm_classifier(num_labels=150)  # doctest: +SKIP
    """
    from transformers import BertConfig, BertForSequenceClassification

    from nescio._fetch.weights import MINILM
    from nescio.encoders._weights import tensors_of_safetensors
    from nescio.encoders.minilm import BERT_CONFIG

    changed = BertConfig(**{**BERT_CONFIG, "num_labels": num_labels, **config})
    model = BertForSequenceClassification(changed)  # type: ignore[no-untyped-call]
    weights = tensors_of_safetensors(MINILM)
    weights.pop("embeddings.position_ids", None)  # which are counted, not learned
    model.bert.load_state_dict(weights)
    return model


def minilm_tokenizer(max_length: int = 128) -> Any:
    """The tokenizer of all-MiniLM-L6-v2, as transformers has tokenizers.

    Args:
        max_length: How many tokens of a text are read where it is called with `truncation=True`; without, all
            are.

    Returns:
        A PreTrainedTokenizerFast; with `padding=True` it pads to the longest text, without it does not pad.

    Raises:
        FetchError: If it can't be had.

    Example:
        >>> from nescio.integrations.transformers import minilm_tokenizer
        >>> tokenizer = minilm_tokenizer()  # doctest: +SKIP
        >>> tokens = tokenizer(["how do you do"], padding=True, truncation=True)  # doctest: +SKIP
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from nescio.encoders.minilm import MiniLMSpec

    tokenizer = Tokenizer.from_str(MiniLMSpec().tokenizer_json())
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=max_length,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
