"""Temperature: one number, fitted to held-out data, that makes the probabilities of a model honest.

The log-evidence of an opinion, or the log-probabilities of a method without evidence, are multiplied by a
scale; the most probable class stays the same. There is no shift: likelihood alone would add evidence until no
doubt was left anywhere, and an opinion would be a softmax again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import LARGEST, describe, require_labels, require_number
from nescio._precision import to_float64
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.opinion import Opinion
from nescio.posthoc._arguments import require_prediction

LEAST_SCALE = 0.1
LARGEST_SCALE = 10.0
LOG_SCALE_DEVIATION = 0.3  # of the prior of the logarithm of the scale, whose mean is 0
_GRID = 41  # scales that are tried before the best is refined
_MOST_EVIDENCE = 0.5 * LARGEST  # what a large scale makes of much evidence stays below what an opinion takes


@dataclass(frozen=True)
class Temperature:
    """A scale of the log-evidence e, or of the log-probabilities p where there is no evidence.

        opinions        e ** scale
        probabilities   p ** scale / sum over all classes of p ** scale

    Above 1 a model becomes surer of what it is sure of, below 1 more careful. Zero evidence stays zero, and
    so a vacuous opinion stays vacuous; an uncertainty that a method has of its own, without evidence, stays
    as it is.

    Args:
        scale: The exponent, from 0.1 to 10; 1 changes nothing.

    Raises:
        InputError: If the scale is no such number.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> opinion = Opinion(torch.tensor([100.0, 0.0]))
        >>> Temperature(0.5).apply(opinion).evidence
        tensor([10.,  0.])
    """

    scale: float = 1.0

    def __post_init__(self) -> None:
        require_number("scale", self.scale, LEAST_SCALE)
        if self.scale > LARGEST_SCALE:
            raise InputError(f"scale must be at most {LARGEST_SCALE:g}, got {self.scale!r}")
        object.__setattr__(self, "scale", float(self.scale))

    @classmethod
    def fit(cls, prediction: Prediction, labels: Tensor, trust: Tensor | None = None) -> Temperature:
        """The scale under which held-out labels are most likely, as they are finally predicted.

        What is maximised is the likelihood of the labels after the discount by the trust, times a prior of
        the scale: its logarithm is normal around 0 with a deviation of 0.3. Few samples leave the scale near
        1, also where all of them are predicted rightly and likelihood alone would ask for a scale without
        end; from some hundreds on the prior hardly counts. The scale is 1 where none makes the held-out
        labels more likely.

        Args:
            prediction: Prediction of held-out inputs (N, K) that had no part in training, as the method gives
                it.
            labels: Their true classes, whole numbers (N,).
            trust: How far each prediction is trusted, from 0 to 1, (N,); None for fully.

        Returns:
            The temperature.

        Raises:
            InputError: If the prediction is neither an Opinion nor a Categorical, or prediction, labels and
                trust do not fit, or are not finite.

        Example:
            >>> import torch
            >>> from nescio import Categorical
            >>> too_sure = Categorical(torch.tensor([[0.99, 0.01]]).repeat(1000, 1))
            >>> labels = (torch.arange(1000) >= 800).long()  # 800 of 1000 are right
            >>> fitted = Temperature.fit(too_sure, labels)
            >>> fitted.apply(too_sure).probabilities[0]
            tensor([0.8089, 0.1911])
        """
        _check(prediction, labels, trust)
        device = prediction.probabilities.device
        labels = labels.to(device).long()
        if trust is not None:
            trust = trust.to(device)
        objective = _Objective(prediction, labels, trust)
        scale = _minimum(objective)
        # In the arithmetic of predictions, without the prior: what is promised is about that.
        fitted = cls(scale)
        if _nll_at(fitted, prediction, labels, trust) < _nll_at(cls(), prediction, labels, trust):
            return fitted
        return cls()

    def apply(self, prediction: Prediction) -> Prediction:
        """What the model says at this temperature.

        Args:
            prediction: An opinion or a categorical of any batch shape.

        Returns:
            The same kind, with the same most probable classes.
        """
        require_prediction(prediction)
        if self.scale == 1:
            return prediction
        if isinstance(prediction, Opinion):
            evidence = self._scaled(prediction.evidence)
            # The labels as they were: evidence may get so small that it is none.
            return Opinion(evidence, prediction.prior, prediction.labels)
        assert isinstance(prediction, Categorical)
        tiny = torch.finfo(prediction.probabilities.dtype).tiny
        logs = self.scale * prediction.probabilities.clamp_min(tiny).log()
        return Categorical(logs.softmax(-1), prediction.own_uncertainty, prediction.raw_labels)

    def _scaled(self, evidence: Tensor) -> Tensor:
        """evidence ** scale (..., K); a row whose power would be too large is held, in its proportions."""
        most: float = _MOST_EVIDENCE ** (1 / self.scale)
        held_by = (most / evidence.amax(-1, keepdim=True)).clamp_max(1.0)
        return (evidence * held_by).pow(self.scale)

    def describe(self) -> str:
        """What it does, in words."""
        return f"scale {self.scale:.3g}"


def discounted(prediction: Prediction, trust: Tensor) -> Prediction:
    """A prediction as it counts when it is trusted this much, for both kinds of predictions."""
    assert isinstance(prediction, Opinion | Categorical)
    return prediction.discount(trust)


def _nll_at(temperature: Temperature, prediction: Prediction, labels: Tensor, trust: Tensor | None) -> float:
    """The mean of held-out labels (N,), at a temperature and after the discount by the trust (N,)."""
    said = temperature.apply(prediction)
    if trust is not None:
        said = discounted(said, trust)
    of_labels = said.probabilities.gather(-1, labels[:, None]).squeeze(-1)
    return float(-to_float64(_logarithm(of_labels)).mean())


class _Objective:
    """What is minimised, in float64, as a function of the logarithm of the scale."""

    def __init__(self, prediction: Prediction, labels: Tensor, trust: Tensor | None) -> None:
        if isinstance(prediction, Opinion):
            self.prediction: Prediction = Opinion(to_float64(prediction.evidence), prediction.prior)
        else:
            self.prediction = Categorical(to_float64(prediction.probabilities))
        self.labels = labels
        self.trust = trust if trust is None else to_float64(trust)

    def __call__(self, log_scale: float) -> float:
        said = Temperature(_scale_of(log_scale)).apply(self.prediction)
        if self.trust is not None:
            said = discounted(said, self.trust)
        of_labels = _logarithm(said.probabilities.gather(-1, self.labels[:, None])).mean()
        prior = (log_scale / LOG_SCALE_DEVIATION) ** 2 / 2
        return float(-of_labels) + prior / len(self.labels)


def _scale_of(log_scale: float) -> float:
    return min(max(math.exp(log_scale), LEAST_SCALE), LARGEST_SCALE)


def _minimum(objective: _Objective) -> float:
    """The best scale: of a grid first, as there may be several hollows, then around it."""
    from scipy.optimize import minimize_scalar

    least = math.log(LEAST_SCALE)
    step = (math.log(LARGEST_SCALE) - least) / (_GRID - 1)
    values = [objective(least + place * step) for place in range(_GRID)]
    best = values.index(min(values))
    around = (least + (best - 1) * step, least + (best + 1) * step)
    found = minimize_scalar(objective, bounds=around, method="bounded")
    return _scale_of(float(found.x))


def _logarithm(probabilities: Tensor) -> Tensor:
    """Of probabilities that may be zero in the arithmetic of the computer."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def _check(prediction: Prediction, labels: Tensor, trust: Tensor | None) -> None:
    probabilities = require_prediction(prediction).probabilities
    if probabilities.ndim != 2 or len(probabilities) == 0:
        raise InputError(f"prediction must be of one or more inputs (N, K), got {describe(probabilities)}")
    if not bool(probabilities.isfinite().all()):
        raise InputError("prediction must be finite, got NaN or infinity")
    count = len(probabilities)
    require_labels(labels, (count,), prediction.num_classes)
    if trust is None:
        return
    if not isinstance(trust, Tensor) or tuple(trust.shape) != (count,):
        raise InputError(f"trust must be a tensor ({count},), one for each input, got {describe(trust)}")
    if not bool(((trust >= 0) & (trust <= 1)).all()):
        raise InputError("trust must be from 0 to 1")
