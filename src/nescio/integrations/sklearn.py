"""EvidentialClassifier: the whole thing with scikit-learn's habits."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor, nn

from nescio.data.preprocess import Preprocess
from nescio.encoders import EncoderSpec, make_encoder
from nescio.errors import InputError
from nescio.inference.model import TrainedModel, require_network
from nescio.methods import EDL
from nescio.opinions.opinion import Opinion
from nescio.posthoc.abstention import AbstentionRule
from nescio.training import Samples, TrainingSettings, as_input, fit
from nescio.training.loop import Loop, generators_kept

WHOLE_BATCH = 512  # so many samples or fewer are one batch: the order of the samples does not matter then
USUAL_BATCH = 128
IMAGE_CHANNELS = (1, 3, 4)


class EvidentialClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural classifier that says how much it does not know.

    X of shape (n, features) gets a multi-layer perceptron on standardised inputs, images (n, H, W),
    (n, H, W, C) or (n, C, H, W) the paper's LeNet; or the network given: a spec of `nescio.encoders`, or any
    torch module from (n, ...) to logits (n, classes), of which each fit trains a copy.

    risk, evidence, divergence_weight: as `EvidentialLoss`; None for the weight is the library's rule.
    batch_size None: all samples up to 512, else 128. class_weight: None, "balanced" or a dict, as usual.

    Fitted: classes_, n_features_in_, model_ (a TrainedModel, to save or export), history_, n_iter_.
    """

    classes_: np.ndarray
    model_: TrainedModel
    history_: list[dict[str, float]]
    n_iter_: int
    _optimizer_state: dict[str, Any] | None

    def __init__(
        self,
        network: nn.Module | EncoderSpec | None = None,
        *,
        risk: str = "squared_error",
        evidence: str = "exp",
        divergence_weight: float | None = None,
        epochs: int = 100,
        batch_size: int | None = None,
        learning_rate: float = 3e-3,
        class_weight: Any = None,
        random_state: Any = None,
    ) -> None:
        self.network = network
        self.risk = risk
        self.evidence = evidence
        self.divergence_weight = divergence_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.class_weight = class_weight
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> EvidentialClassifier:
        """Train on X (n, ...) and labels y (n,) of any kind."""
        inputs, labels = self._validated_pair(X, y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        weights = self._weights(inputs, labels, sample_weight)
        self._start(inputs, weights)
        train = Samples(inputs, torch.from_numpy(codes), weights)
        self.history_ = fit(
            self.model_.method, self.model_.module, self.model_.preprocess, train, self._settings(len(codes))
        )
        self.model_.module.cpu()  # wherever it was trained, it can be used and pickled anywhere
        self.n_iter_ = len(self.history_)
        return self

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> EvidentialClassifier:
        """One more pass, over these samples; all classes must be named at the first call, unless fitted."""
        first = not hasattr(self, "model_")
        if first and classes is None:
            raise InputError(
                "classes must be given at the first call of partial_fit: all that will ever come"
            )
        if self.class_weight == "balanced":
            raise InputError("class_weight 'balanced' needs all samples at once; give a dict to partial_fit")
        inputs, labels = self._validated_pair(X, y, reset=first)
        named = self.classes_ if classes is None else np.unique(column_or_1d(classes))
        if not first and not np.array_equal(named, self.classes_):
            raise InputError(f"classes must be those of the first call, {list(self.classes_)}, or None")
        if not np.isin(labels, named).all():
            raise InputError(f"y must hold classes known from the first call, {list(named)}")
        weights = self._weights(inputs, labels, sample_weight)
        if first:
            self.classes_ = named
            self._start(inputs, weights)
            self.n_iter_, self.history_ = 0, []
        self._one_epoch(Samples(inputs, torch.from_numpy(np.searchsorted(named, labels)), weights))
        return self

    def _one_epoch(self, train: Samples) -> None:
        settings = self._settings(len(train), schedule="constant")
        loop = Loop(self.model_.method, self.model_.module, self.model_.preprocess, settings)
        if self._optimizer_state is not None:
            loop.optimizer.load_state_dict(self._optimizer_state)
        with generators_kept():
            self.history_.append({"epoch": self.n_iter_ + 1, **loop.epoch(train, self.n_iter_)})
        self._optimizer_state = _on_cpu(loop.optimizer.state_dict())
        self.model_.module.cpu()
        self.model_ = self.model_.with_rule(None)  # its promise was for the weights before
        self.n_iter_ += 1

    def predict_opinion(self, X: Any) -> Opinion:
        """Belief for every class and uncertainty, in the order of classes_."""
        check_is_fitted(self, "model_")
        opinion = self.model_.predict(self._validated(X))
        assert isinstance(opinion, Opinion)
        return opinion.to("cpu")

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities (n, classes), in the order of classes_."""
        probabilities: np.ndarray = self.predict_opinion(X).probabilities.numpy()
        return probabilities

    def predict(self, X: Any, reject: bool = False) -> np.ndarray:
        """The most probable label for each row; with `reject`, None for what it does not know.

        What that is, the model's abstention rule says; without one, an uncertainty of a half or more.
        """
        opinion = self.predict_opinion(X)
        labels: np.ndarray = self.classes_[opinion.labels.numpy()]
        if not reject:
            return labels
        marked = labels.astype(object)
        marked[~self.model_.accepts(opinion).numpy()] = None
        return marked

    def set_abstention(self, X: Any, y: Any, target_error: float, confidence: float = 0.95) -> AbstentionRule:
        """From held-out samples, the rule that `predict(X, reject=True)` follows; it is kept in model_."""
        check_is_fitted(self, "model_")
        inputs, labels = self._validated_pair(X, y, reset=False)
        if not np.isin(labels, self.classes_).all():
            raise InputError(f"y must hold known classes, {list(self.classes_)}")
        codes = torch.from_numpy(np.searchsorted(self.classes_, labels))
        rule = AbstentionRule.for_error(self.model_.predict(inputs), codes, target_error, confidence)
        self.model_ = self.model_.with_rule(rule)
        return rule

    def _validated(self, X: Any) -> Tensor:
        """Inputs of the kind that it was fitted on, as a tensor."""
        return _as_inputs(validate_data(self, _plain(X), allow_nd=True, reset=False))

    def _validated_pair(self, X: Any, y: Any, reset: bool = True) -> tuple[Tensor, np.ndarray]:
        """Inputs as a tensor, float64 or bytes, and labels as an array."""
        if y is None:
            raise InputError("EvidentialClassifier requires y to be passed, but the target y is None")
        X, y = validate_data(self, _plain(X), _plain(y), allow_nd=True, reset=reset)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        return _as_inputs(X), y

    def _weights(self, inputs: Tensor, labels: np.ndarray, sample_weight: Any) -> Tensor | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        if not weights.sum() > 0:
            raise InputError("sample_weight and class_weight must leave some weight, got none on any sample")
        return torch.from_numpy(np.array(weights))

    def _start(self, inputs: Tensor, weights: Tensor | None) -> None:
        """A new network for what the first samples are like."""
        if len(self.classes_) < 2:
            raise InputError(f"y must hold two or more classes, got one class: {self.classes_[0]!r}")
        method = EDL(self.risk, self.evidence, self.divergence_weight)
        self._optimizer_state = None
        self._seed = int(check_random_state(self.random_state).randint(2**31))
        with generators_kept():
            torch.manual_seed(self._seed)
            module, spec = self._new_module(method, inputs)
        module = module if inputs.dtype != torch.float64 else module.double()
        preprocess = Preprocess.fit(inputs, weights)
        require_network(module, spec, as_input(inputs[:1], preprocess), len(self.classes_))
        names = tuple(str(one) for one in self.classes_)
        self.model_ = TrainedModel(module, method, names, preprocess, spec)

    def _new_module(self, method: EDL, inputs: Tensor) -> tuple[nn.Module, EncoderSpec | None]:
        if isinstance(self.network, nn.Module):
            return copy.deepcopy(self.network), None
        spec = self.network
        if spec is None:
            spec = make_encoder(None, tuple(inputs.shape[1:]), len(self.classes_))
        return method.build(spec), spec

    def _settings(self, count: int, schedule: str = "cosine") -> TrainingSettings:
        usual = count if count <= WHOLE_BATCH else USUAL_BATCH
        return TrainingSettings(
            self.epochs,
            usual if self.batch_size is None else self.batch_size,
            self.learning_rate,
            schedule,
            seed=self._seed,
            precision="float64" if next(self.model_.module.parameters()).dtype == torch.float64 else "auto",
        )


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of an optimiser's state that can be pickled and read anywhere."""
    held = {
        index: {name: value.to("cpu", copy=True) for name, value in tensors.items()}
        for index, tensors in state["state"].items()
    }
    return {"state": held, "param_groups": copy.deepcopy(state["param_groups"])}


def _plain(values: Any) -> Any:
    return values.detach().cpu().numpy() if isinstance(values, Tensor) else values


def _as_inputs(X: np.ndarray) -> Tensor:
    """(n, features) in float64; images (n, C, H, W), bytes as they are and all else in float32."""
    if X.ndim == 2:
        return torch.from_numpy(np.array(X, dtype=np.float64))
    if X.ndim == 3:
        X = X[:, None]
    elif X.ndim == 4 and X.shape[1] not in IMAGE_CHANNELS and X.shape[3] in IMAGE_CHANNELS:
        X = X.transpose(0, 3, 1, 2)
    if X.ndim != 4:
        raise InputError(f"X must be (n, features) or images (n, H, W), (n, H, W, C), got {X.shape}")
    return torch.from_numpy(np.array(X, dtype=np.uint8 if X.dtype == np.uint8 else np.float32))
