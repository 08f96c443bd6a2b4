"""EvidentialClassifier: networks that know their doubt, with scikit-learn's habits."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_random_state
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)
from torch import Tensor, nn

from nescio._checks import listed
from nescio.data import Table, TableSchema
from nescio.data._fitting import encode_frame, fit_frame, is_mixed_frame
from nescio.encoders import EncoderSpec
from nescio.errors import InputError, NescioWarning
from nescio.inference._calibration import calibrate, require_wanted, rows_set_aside, summary_of
from nescio.inference._choice import is_pretrained, name_of
from nescio.inference._seen import SeenSamples
from nescio.inference._train import is_calibrated_on
from nescio.inference.model import TrainedModel, untrained_model
from nescio.methods import Method, make_method
from nescio.opinions.categorical import Prediction
from nescio.opinions.opinion import Opinion
from nescio.posthoc.abstention import AbstentionRule
from nescio.training import Samples, TrainingSettings, fit
from nescio.training._loop import Loop, generators_kept
from nescio.training.settings import DECOUPLED, settings_for_part

_WHOLE_BATCH = 512  # so many samples or fewer are one batch: the order of the samples does not matter then
_USUAL_BATCH = 128
_IMAGE_CHANNELS = (1, 3, 4)


class EvidentialClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A neural classifier that says how much it does not know.

    X is an array, a tensor or a frame of shape (n, features), or images (n, H, W), (n, H, W, C) or
    (n, C, H, W). A frame may have columns of texts, which count as categories, dates, booleans and gaps: it
    is read as `nescio train` reads a table, and the model keeps how.

    Args:
        network: The name of an encoder that is trained from the start ("mlp", "lenet", "resnet18"), a spec of
            `nescio.encoders`, or any torch module from (n, ...) to logits (n, classes), of which each fit
            trains a copy. None takes what fits X. Encoders with pretrained weights are for
            `TrainedModel.train`, and are refused.
        method: The name of a method as `nescio methods` lists them, or a method with its settings. Only an
            evidential one has opinions; the others have probabilities.
        risk: "cross_entropy", "squared_error", "type2" or "brier"; None leaves it to the method.
        evidence: Function from logits to evidence: "exp", "relu" or "softplus"; None leaves it to the
            method.
        divergence_weight: Weight of the KL term, a number from 0 on or "auto"; None leaves it to the method.
        epochs: Number of passes over the samples.
        batch_size: Number of samples of a step; None takes all samples up to 512, else 128.
        learning_rate: Initial learning rate; it falls to zero like a cosine.
        weight_decay: Weight decay of AdamW, from 0 on. None: for rows `fit` takes 1, and of more than 1,000
            samples 1,000 / samples, with most methods; 0 for anything else, and in `partial_fit`.
        class_weight: None, "balanced" or a dict from class to weight.
        random_state: None, a seed or a numpy RandomState.
        posthoc: What `fit` fits after the training: "temperature", "trust", "all" or "none". For it a tenth
            of the samples, at most 5,000, is set aside and not trained on. Of less than 400 samples nothing
            is: trust is measured on the training samples themselves, and the temperature is fitted to what
            five more networks, each trained on four fifths, say of the rest, both from 25 samples on. What
            can't be fitted is left out with a warning; what was done stands in `model_.training["posthoc"]`.
            A sample of no weight has no part in it; other weights count in the training only.

    Attributes:
        classes_: The labels, sorted, (classes,).
        model_: The TrainedModel, to save or to export.
        history_: The metrics of every epoch.
        n_iter_: The number of epochs.
        n_features_in_: The number of columns of X.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> classifier = EvidentialClassifier(epochs=50, random_state=0).fit(X, y)
        >>> bool(classifier.score(X, y) > 0.9)
        True
        >>> classifier.predict_opinion(X).uncertainty.shape
        torch.Size([150])
    """

    classes_: np.ndarray
    model_: TrainedModel
    history_: list[dict[str, float]]
    n_iter_: int
    _optimizer_state: dict[str, Any] | None
    _schema: TableSchema | None = None

    def __init__(
        self,
        network: nn.Module | EncoderSpec | str | None = None,
        *,
        method: Method | str = "edl",
        risk: str | None = None,
        evidence: str | None = None,
        divergence_weight: float | str | None = None,
        epochs: int = 100,
        batch_size: int | None = None,
        learning_rate: float = 3e-3,
        weight_decay: float | None = None,
        class_weight: Any = None,
        random_state: Any = None,
        posthoc: str = "none",
    ) -> None:
        self.network = network
        self.method = method
        self.risk = risk
        self.evidence = evidence
        self.divergence_weight = divergence_weight
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.class_weight = class_weight
        self.random_state = random_state
        self.posthoc = posthoc

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> EvidentialClassifier:
        """Train on samples.

        Args:
            X: Inputs (n, ...).
            y: Labels (n,) of any kind.
            sample_weight: How much each sample counts (n,).

        Returns:
            The classifier itself.

        Raises:
            InputError: If the samples, the network or a setting do not fit. The classifier is what it was
                then.
        """
        with _restored_on_error(self):
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        require_wanted(self.posthoc)
        inputs, labels = self._validated_pair(X, y)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        weights = self._weights(labels, sample_weight)
        self._draw_seed()
        train, set_aside = self._split_off(Samples(inputs, torch.from_numpy(codes), weights))
        assert isinstance(train.inputs, Tensor)
        self._start(train.inputs, train.weights)
        settings = self._settings_for(train)
        self.history_ = self._trained(self.model_, train, settings)
        self.n_iter_ = len(self.history_)
        if self.posthoc != "none":
            self._calibrate(train, set_aside, settings)
        # What was set aside too: temperature and trust were fitted to it.
        self.model_ = replace(self.model_, seen=SeenSamples.of(inputs))

    def _settings_for(self, train: Samples) -> TrainingSettings:
        assert isinstance(train.inputs, Tensor)
        with_weight_decay = self._uses_weight_decay(train.inputs)
        return self._settings(len(train), with_weight_decay=with_weight_decay)

    def _trained(
        self, model: TrainedModel, train: Samples, settings: TrainingSettings
    ) -> list[dict[str, float]]:
        """Train a model in place; the metrics of every epoch."""
        history = fit(model.method, model.module, model.preprocess, train, settings)
        model.module.cpu()  # wherever it was trained, it can be used and pickled anywhere
        return history

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> EvidentialClassifier:
        """Train one more pass, over these samples.

        What was promised or fitted for the weights before is taken away: the abstention rule, temperature and
        trust. `posthoc` is for `fit`, which has all samples at once.

        Args:
            X: Inputs (n, ...).
            y: Labels (n,).
            classes: All labels that will ever come; needed at the first call, unless it is fitted.
            sample_weight: How much each sample counts (n,).

        Returns:
            The classifier itself.

        Raises:
            InputError: If the classes are not named, or others than before, or the method trains several
                networks or has a second stage, which needs all samples at once. The classifier is what it
                was then.
        """
        with _restored_on_error(self):
            self._partial_fit(X, y, classes, sample_weight)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> None:
        is_first = not hasattr(self, "model_")
        if is_first and classes is None:
            raise InputError(
                "classes must be given at the first call of partial_fit: all that will ever come"
            )
        if self.class_weight == "balanced":
            raise InputError("class_weight 'balanced' needs all samples at once; give a dict to partial_fit")
        require_wanted(self.posthoc)
        inputs, labels = self._validated_pair(X, y, reset=is_first)
        known = self.classes_ if classes is None else np.unique(column_or_1d(classes))
        if not is_first and not np.array_equal(known, self.classes_):
            raise InputError(f"classes must be those of the first call, {self.classes_.tolist()}, or None")
        if not np.isin(labels, known).all():
            raise InputError(f"y must hold classes known from the first call, {known.tolist()}")
        weights = self._weights(labels, sample_weight)
        if is_first:
            self.classes_ = known
            self._draw_seed()
            self._start(inputs, weights)
            # Of later samples none are kept: how often rows are equal by chance can't be told from parts.
            self.model_ = replace(self.model_, seen=SeenSamples.of(inputs))
            self.n_iter_ = 0
            self.history_ = []
        if self.model_.method.trainings > 1:
            raise InputError(
                f"partial_fit trains one network, and {self.model_.method.name} has "
                f"{self.model_.method.trainings}; use fit"
            )
        if self.model_.method.has_second_stage:
            raise InputError(
                f"partial_fit can't fit the second stage of {self.model_.method.name}, which needs all "
                "samples at once; use fit"
            )
        if self.posthoc != "none" and (is_first or self.model_.posthoc is not None):
            warnings.warn(
                f"posthoc {self.posthoc!r} is fitted by fit, not by partial_fit: the model has no "
                "temperature and no trust now",
                NescioWarning,
                stacklevel=3,
            )
        self._one_epoch(Samples(inputs, torch.from_numpy(np.searchsorted(known, labels)), weights))

    def _one_epoch(self, train: Samples) -> None:
        settings = self._settings(len(train), schedule="constant")
        loop = Loop(self.model_.method, self.model_.module, self.model_.preprocess, settings)
        if self._optimizer_state is not None:
            loop.optimizer.load_state_dict(self._optimizer_state)
        with generators_kept():
            self.history_.append({"epoch": self.n_iter_ + 1, **loop.epoch(train, self.n_iter_)})
        self._optimizer_state = _on_cpu(loop.optimizer.state_dict())
        self.model_.module.cpu()
        # What they promise, and what they were fitted to, was what the weights before said.
        self.model_ = self.model_.with_rule(None).with_sets(None).with_posthoc(None)
        self.n_iter_ += 1

    def _split_off(self, samples: Samples) -> tuple[Samples, Samples | None]:
        """What is trained on, and what is set aside for temperature and trust; None for nothing."""
        if self.posthoc == "none":
            return samples, None
        if samples.weights is not None:
            # A sample of no weight is as good as none: nothing is to be fitted to it either.
            samples = samples.take(samples.weights.nonzero().squeeze(1))
        # Only the labels decide which samples are set aside.
        names = tuple(str(place) for place in range(len(self.classes_)))
        table = Table(torch.zeros(len(samples), 0), samples.labels, names, "X")
        is_set_aside = rows_set_aside(table, self.posthoc, self._seed, is_repeatable=True)
        if is_set_aside is None:
            return samples, None
        kept = (~is_set_aside).nonzero().squeeze(1)
        return samples.take(kept), samples.take(is_set_aside.nonzero().squeeze(1))

    def _calibrate(self, train: Samples, set_aside: Samples | None, settings: TrainingSettings) -> None:
        """Fit what is wanted to what was set aside, and say what can't be fitted."""

        def trained_again(rows: Tensor) -> TrainedModel:
            part = train.take(rows)
            assert isinstance(part.inputs, Tensor)
            model = self._untrained(part.inputs, part.weights)
            self._trained(model, part, settings_for_part(settings, len(train), len(part)))
            return model

        calibration = calibrate(
            self.model_,
            train,
            set_aside,
            self.posthoc,
            retraining=trained_again,
            seed=self._seed,
        )
        for name, reason in calibration.skipped.items():
            warnings.warn(f"{name} was not fitted: {reason}", NescioWarning, stacklevel=4)
        training = {**self.model_.training, "posthoc": summary_of(calibration, set_aside, self.posthoc)}
        self.model_ = replace(self.model_.with_posthoc(calibration.posthoc), training=training)

    def predict_opinion(self, X: Any) -> Opinion:
        """Belief for every class, and uncertainty.

        Args:
            X: Inputs (n, ...).

        Returns:
            Opinions (n, classes), on the CPU, in the order of classes_.

        Raises:
            InputError: If the method has probabilities only.
        """
        prediction = self._prediction(X)
        if not isinstance(prediction, Opinion):
            raise InputError(
                f"{self.model_.method.name} has no opinions, only probabilities: use predict_proba, "
                "or an evidential method such as edl"
            )
        return prediction.to("cpu")

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of every class.

        Args:
            X: Inputs (n, ...).

        Returns:
            Probabilities (n, classes), in the order of classes_.
        """
        probabilities: np.ndarray = self._prediction(X).probabilities.cpu().numpy()
        return probabilities

    def predict(self, X: Any, reject: bool = False) -> np.ndarray:
        """The most probable label of each input.

        Args:
            X: Inputs (n, ...).
            reject: Whether to give None for what it does not know: by the abstention rule of the model, or,
                without one, where the uncertainty is a half or more.

        Returns:
            Labels (n,).
        """
        prediction = self._prediction(X)
        labels: np.ndarray = self.classes_[prediction.labels.cpu().numpy()]
        if not reject:
            return labels
        marked = labels.astype(object)
        accepted = self.model_.accepts(prediction).cpu().numpy()
        marked[~accepted] = None
        return marked

    def set_abstention(
        self, X: Any, y: Any, max_error: float, confidence: float = 0.95, measure: str = "uncertainty"
    ) -> AbstentionRule:
        """Take the rule that `predict(X, reject=True)` follows from held-out samples; it is kept in model_.

        Args:
            X: Inputs (n, ...) that were not trained on. What `fit` was given, or the first call of
                `partial_fit`, is refused; what later calls were given is not known.
            y: Their labels (n,).
            max_error: The share of errors that is allowed among what is answered.
            confidence: How sure that promise is to be.
            measure: The name of the measure of doubt that decides.

        Returns:
            The rule.

        Raises:
            InputError: If y holds a label that was never seen, X holds what was trained on or what
                `model_.calibrated` was given, or there is no such measure.
        """
        check_is_fitted(self, "model_")
        inputs, labels = self._validated_pair(X, y, reset=False)
        if not np.isin(labels, self.classes_).all():
            raise InputError(f"y must hold known classes, {self.classes_.tolist()}")
        seen = self.model_.seen
        if seen is not None and seen.are_seen(inputs):
            raise InputError(
                "X must hold held-out samples, as no promise made from training data holds, got "
                f"{seen.share_of(inputs):.0%} that the classifier was trained on"
            )
        codes = torch.from_numpy(np.searchsorted(self.classes_, labels))
        if is_calibrated_on(self.model_, Samples(inputs, codes)):
            raise InputError(
                "X must hold other samples than those of `calibrated`, as no promise made from those holds, "
                "got some that temperature and trust were fitted to"
            )
        prediction = self.model_.predict(inputs)
        rule = AbstentionRule.for_error(prediction, codes, max_error, confidence, measure)
        self.model_ = self.model_.with_rule(rule)
        return rule

    def _prediction(self, X: Any) -> Prediction:
        check_is_fitted(self, "model_")
        return self.model_.predict(self._validated(X))

    def _validated(self, X: Any) -> Tensor:
        """Inputs of the kind that it was fitted on, as a tensor."""
        if self._schema is not None:
            return self._encode(X, self._schema)
        return _as_inputs(validate_data(self, _plain(X), allow_nd=True, reset=False))

    def _validated_pair(self, X: Any, y: Any, reset: bool = True) -> tuple[Tensor, np.ndarray]:
        """Inputs as a tensor, float64 or bytes, and labels as an array."""
        if y is None:
            raise InputError("EvidentialClassifier requires y to be passed, but the target y is None")
        y = column_or_1d(_plain(y), warn=True)
        _require_one_kind(y)
        if reset:
            self._schema = None
        if reset and is_mixed_frame(X):
            _require_rows(X)
            validate_data(self, X, reset=True, skip_check_array=True)
            self._schema, inputs = fit_frame(X)
        elif self._schema is not None:
            inputs = self._encode(X, self._schema)
        else:
            X, y = validate_data(self, _plain(X), y, allow_nd=True, reset=reset)
            inputs = _as_inputs(X)
        check_consistent_length(inputs, y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return inputs, y

    def _encode(self, X: Any, schema: TableSchema) -> Tensor:
        """A frame like the one that it was fitted on, as numbers (n, features)."""
        if not hasattr(X, "columns"):
            raise InputError(
                f"X must be a frame with the columns that it was fitted on, {listed(schema.names)}, "
                f"got {type(X).__name__}"
            )
        validate_data(self, X, reset=False, skip_check_array=True)
        _require_rows(X)
        return encode_frame(X, schema)

    def _weights(self, labels: np.ndarray, sample_weight: Any) -> Tensor | None:
        if sample_weight is None and self.class_weight is None:
            return None
        weights = _check_sample_weight(sample_weight, labels, dtype=np.float64, ensure_non_negative=True)
        if self.class_weight is not None:
            weights = weights * compute_sample_weight(self.class_weight, labels)
        if not weights.sum() > 0:
            raise InputError("sample_weight and class_weight must leave some weight, got none on any sample")
        return torch.from_numpy(np.array(weights))

    def _draw_seed(self) -> None:
        self._seed = int(check_random_state(self.random_state).randint(2**31))

    def _start(self, inputs: Tensor, weights: Tensor | None) -> None:
        """A new network for what the first samples are like."""
        if len(self.classes_) < 2:
            raise InputError(f"y must hold two or more classes, got one class: {self.classes_.tolist()[0]!r}")
        self._optimizer_state = None
        self.model_ = self._untrained(inputs, weights)

    def _untrained(self, inputs: Tensor, weights: Tensor | None) -> TrainedModel:
        network = self.network
        if network is not None and is_pretrained(network):
            raise InputError(
                f"network must be trained from the start, like mlp or lenet, got {name_of(network)}, which "
                "has pretrained weights: TrainedModel.train and nescio train use them"
            )
        if isinstance(network, nn.Module):
            network = copy.deepcopy(network)
        schema = self._schema
        if schema is None and hasattr(self, "feature_names_in_"):
            schema = TableSchema.of_numbers(self.feature_names_in_)
        names = [str(label) for label in self.classes_]
        model = untrained_model(
            inputs,
            names,
            self._chosen_method(),
            network,
            seed=self._seed,
            weights=weights,
            schema=schema,
        )
        if inputs.dtype == torch.float64:
            model.module.double()
        return model

    def _chosen_method(self) -> Method:
        settings = {}
        for name in ("risk", "evidence", "divergence_weight"):
            value = getattr(self, name)
            if value is not None:
                settings[name] = value
        if isinstance(self.method, str):
            return make_method(self.method, **settings)
        if settings:
            raise InputError(
                f"method brings its own settings; give {', '.join(settings)} to it, not beside it"
            )
        return self.method

    def _uses_weight_decay(self, inputs: Tensor) -> bool:
        """As `nescio train` does for rows; not in partial_fit, which does not know how many there will be."""
        is_own = isinstance(self.network, nn.Module)
        return inputs.ndim == 2 and self.model_.method.uses_weight_decay and not is_own

    def _settings(
        self, count: int, schedule: str = "cosine", with_weight_decay: bool = False
    ) -> TrainingSettings:
        batch_size = self.batch_size
        if batch_size is None:
            batch_size = count if count <= _WHOLE_BATCH else _USUAL_BATCH
        precision = "auto"
        if next(self.model_.module.parameters()).dtype == torch.float64:
            precision = "float64"
        optimizer = None
        if self.weight_decay is not None:
            optimizer = DECOUPLED  # in Adam it would be another thing, a penalty
        settings = TrainingSettings(
            self.epochs,
            batch_size,
            self.learning_rate,
            schedule,
            seed=self._seed,
            precision=precision,
            optimizer=optimizer,
            weight_decay=self.weight_decay,
        )
        return settings.resolved(count, with_weight_decay=with_weight_decay)


def predict_opinion(estimator: Any, X: Any) -> Opinion:
    """Opinions from an EvidentialClassifier at the end of a pipeline, or inside a search.

    A scikit-learn Pipeline passes on `predict` and `predict_proba` only; this takes X through the steps
    before the classifier, and asks the classifier itself.

    Args:
        estimator: A fitted EvidentialClassifier, a Pipeline that ends with one, or a search over these
            (GridSearchCV and the like), which answers with its best.
        X: Inputs (n, ...) as the estimator takes them.

    Returns:
        Opinions (n, classes), in the order of the estimator's classes_.

    Raises:
        InputError: If there is no EvidentialClassifier at the end.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.pipeline import make_pipeline
        >>> from sklearn.preprocessing import MinMaxScaler
        >>> X, y = load_iris(return_X_y=True)
        >>> pipeline = make_pipeline(MinMaxScaler(), EvidentialClassifier(epochs=20, random_state=0))
        >>> predict_opinion(pipeline.fit(X, y), X[:5]).belief.shape
        torch.Size([5, 3])
    """
    if hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    if isinstance(estimator, Pipeline):
        if len(estimator) > 1:
            X = estimator[:-1].transform(X)
        return predict_opinion(estimator[-1], X)
    if not isinstance(estimator, EvidentialClassifier):
        raise InputError(
            f"estimator must be an EvidentialClassifier, or a Pipeline or search with one at its end, "
            f"got {type(estimator).__name__}"
        )
    return estimator.predict_opinion(X)


@contextmanager
def _restored_on_error(classifier: EvidentialClassifier) -> Iterator[None]:
    """Leave the attributes as they were where an error comes: all of them are of one fit."""
    before = dict(classifier.__dict__)
    try:
        yield
    except BaseException:
        classifier.__dict__.clear()
        classifier.__dict__.update(before)
        raise


def _on_cpu(state: dict[str, Any]) -> dict[str, Any]:
    """A copy of an optimiser's state that can be pickled and read anywhere."""
    values_on_cpu: dict[int, dict[str, Tensor]] = {}
    for index, values in state["state"].items():
        values_on_cpu[index] = {name: value.to("cpu", copy=True) for name, value in values.items()}
    return {"state": values_on_cpu, "param_groups": copy.deepcopy(state["param_groups"])}


def _plain(values: Any) -> Any:
    """Tensors as arrays; anything else as it is."""
    if isinstance(values, Tensor):
        return values.detach().cpu().numpy()
    return values


def _require_rows(frame: Any) -> None:
    if len(frame) == 0:
        raise InputError(f"X must have a row or more, got a frame of shape {tuple(frame.shape)}")


def _require_one_kind(labels: np.ndarray) -> None:
    """Refuse what can't be sorted: texts with gaps, or texts among numbers."""
    try:
        np.unique(labels)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels})
        raise InputError(
            f"y must hold labels of one kind, texts or numbers, without gaps, got {', '.join(kinds)}"
        ) from error


def _as_inputs(X: np.ndarray) -> Tensor:
    """(n, features) in float64; images (n, C, H, W), bytes as they are and all else in float32."""
    if X.ndim == 2:
        return torch.from_numpy(np.array(X, dtype=np.float64))
    if X.ndim == 3:
        X = X[:, None]
    elif X.ndim == 4 and X.shape[1] not in _IMAGE_CHANNELS and X.shape[3] in _IMAGE_CHANNELS:
        X = X.transpose(0, 3, 1, 2)
    if X.ndim != 4:
        raise InputError(f"X must be (n, features) or images (n, H, W), (n, H, W, C), got {X.shape}")
    dtype = np.uint8 if X.dtype == np.uint8 else np.float32
    return torch.from_numpy(np.array(X, dtype=dtype))
