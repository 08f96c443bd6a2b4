"""Temperature: a few numbers, fitted to held-out data, that make the probabilities of a model honest.

The log-evidence of an opinion, or the log-probabilities of a method without evidence, are multiplied by a
scale; the most probable class stays the same.

An opinion says two things: how much it does not know, and what is probable. As it is trained the second
follows from the first, p = b + u / K, and is too careful: of known inputs that leave some doubt, the most
probable class is mostly right all the same. A shift of the log-evidence mends that, but likelihood alone
would add evidence until no doubt was left anywhere, and the opinion would be a softmax again. So the
probabilities get a scale and a shift of their own, and the uncertainty is left out of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from nescio._checks import LARGEST, describe, require_labels, require_number
from nescio._precision import to_float64
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.opinion import Opinion
from nescio.posthoc._arguments import require_prediction

LEAST_SCALE = 0.1
LARGEST_SCALE = 10.0
LARGEST_SHIFT = 20.0
LOG_SCALE_DEVIATION = 0.3  # of the prior of the logarithm of a scale, whose mean is 0
SHIFT_DEVIATION = 2.0  # of the prior of the shift, whose mean is 0
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

    Where an opinion's probabilities are read with a scale r and a shift s of their own, they are

        p_k = (exp(s) e_k ** r + prior) / sum over all classes of (exp(s) e_j ** r + prior)

    The uncertainty u is that of e ** scale. What is left, 1 - u, is belief, shared by the classes as p is,
    and the base rates are p: b = (1 - u) p, and b + u p = p. A vacuous opinion has equal probabilities.

    Args:
        scale: The exponent, from 0.1 to 10; 1 changes nothing.
        class_scale: The exponent r of an opinion's probabilities, from 0.1 to 10; None leaves them to follow
            from belief and uncertainty. A method without evidence has no use for it.
        class_shift: The shift s, from -20 to 20.

    Raises:
        InputError: If the scales or the shift are no such numbers, or there is a shift without a class scale.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> opinion = Opinion(torch.tensor([100.0, 0.0]))
        >>> Temperature(0.5).apply(opinion).evidence
        tensor([10.,  0.])
        >>> said = Temperature(class_scale=1.0, class_shift=3.0).apply(opinion)
        >>> said.uncertainty, said.probabilities.round(decimals=4)
        (tensor(0.0196), tensor([9.9950e-01, 5.0000e-04]))
    """

    scale: float = 1.0
    class_scale: float | None = None
    class_shift: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _require_scale("scale", self.scale))
        if self.class_scale is not None:
            object.__setattr__(self, "class_scale", _require_scale("class_scale", self.class_scale))
        require_number("class_shift", self.class_shift, -LARGEST_SHIFT)
        if self.class_shift > LARGEST_SHIFT:
            raise InputError(f"class_shift must be at most {LARGEST_SHIFT:g}, got {self.class_shift!r}")
        if self.class_scale is None and self.class_shift != 0:
            raise InputError(f"class_shift must be 0 without class_scale, got {self.class_shift!r}")
        object.__setattr__(self, "class_shift", float(self.class_shift))

    @classmethod
    def fit(cls, prediction: Prediction, labels: Tensor, trust: Tensor | None = None) -> Temperature:
        """What makes held-out labels most likely, as they are finally predicted.

        What is maximised is the likelihood of the labels after the discount by the trust, times a prior: the
        logarithm of a scale is normal around 0 with a deviation of 0.3, the shift with one of 2. Few samples
        leave the scale near 1, also where all of them are predicted rightly and likelihood alone would ask
        for a scale without end; from some hundreds on the prior hardly counts. The scale is fitted first,
        as if an opinion had equal base rates, so that doubt stays, then scale and shift of the
        probabilities. What does not make the held-out labels more likely is left as it was.

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
        candidates = [cls(), cls(_minimum(_Objective(prediction, labels, trust)))]
        # In the arithmetic of predictions, without the prior: what is promised is about that.
        fitted = _likeliest(candidates, prediction, labels, trust)
        if not isinstance(prediction, Opinion):
            return fitted
        class_scale, class_shift = _ClassObjective(prediction, labels, trust).minimum(fitted.scale)
        candidates = [fitted, cls(fitted.scale, class_scale, class_shift)]
        return _likeliest(candidates, prediction, labels, trust)

    def apply(self, prediction: Prediction) -> Prediction:
        """What the model says at this temperature.

        Args:
            prediction: An opinion or a categorical of any batch shape.

        Returns:
            The same kind, with the same most probable classes.
        """
        require_prediction(prediction)
        if isinstance(prediction, Opinion):
            return self._apply_to_opinion(prediction)
        if self.scale == 1:
            return prediction
        assert isinstance(prediction, Categorical)
        tiny = torch.finfo(prediction.probabilities.dtype).tiny
        logs = self.scale * prediction.probabilities.clamp_min(tiny).log()
        return Categorical(logs.softmax(-1), prediction.own_uncertainty, prediction.raw_labels)

    def _apply_to_opinion(self, opinion: Opinion) -> Opinion:
        if self.scale == 1 and self.class_scale is None:
            return opinion
        evidence = self._scaled(opinion.evidence)
        base_rates = opinion.base_rates
        if self.class_scale is not None:
            base_rates = _probabilities(opinion.evidence, opinion.prior, self.class_scale, self.class_shift)
            evidence = evidence.sum(-1, keepdim=True) * base_rates
        # The labels as they were: evidence may get so small that it is none.
        return Opinion(evidence, opinion.prior, opinion.labels, base_rates)

    def _scaled(self, evidence: Tensor) -> Tensor:
        """evidence ** scale (..., K); a row whose power would be too large is held, in its proportions."""
        most: float = _MOST_EVIDENCE ** (1 / self.scale)
        held_by = (most / evidence.amax(-1, keepdim=True)).clamp_max(1.0)
        return (evidence * held_by).pow(self.scale)

    @property
    def is_at_bound(self) -> bool:
        """Whether the scale is the least or the largest there is, which no honest data ask for."""
        return not LEAST_SCALE * 1.01 < self.scale < LARGEST_SCALE / 1.01

    def describe(self) -> str:
        """What it does, in words."""
        words = f"scale {self.scale:.3g}"
        if self.class_scale is not None:
            words += f", probabilities with scale {self.class_scale:.3g} and shift {self.class_shift:.3g}"
        return words

    def settings(self) -> dict[str, float]:
        """What a model file keeps, plain data: what the class is made from."""
        if self.class_scale is None:
            return {"scale": self.scale}
        return {"scale": self.scale, "class_scale": self.class_scale, "class_shift": self.class_shift}


def _require_scale(name: str, value: float) -> float:
    require_number(name, value, LEAST_SCALE)
    if value > LARGEST_SCALE:
        raise InputError(f"{name} must be at most {LARGEST_SCALE:g}, got {value!r}")
    return float(value)


def _probabilities(evidence: Tensor, prior: float, scale: float, shift: float) -> Tensor:
    """(exp(shift) e_k ** scale + prior) / sum of these over the classes, (..., K)."""
    # The logarithm of 1 + exp(shift) e_k ** scale / prior. An exported file would compute logaddexp by powers
    # that overflow.
    logs = scale * _logarithm(evidence) + shift - math.log(prior)
    logs = torch.where(evidence > 0, logs, -math.inf)
    return softplus(logs).softmax(-1)


def discounted(prediction: Prediction, trust: Tensor) -> Prediction:
    """A prediction as it counts when it is trusted this much, for both kinds of predictions."""
    assert isinstance(prediction, Opinion | Categorical)
    return prediction.discount(trust)


def _likeliest(
    candidates: list[Temperature], prediction: Prediction, labels: Tensor, trust: Tensor | None
) -> Temperature:
    """The one under which the labels are most likely, the first of equals."""
    return min(candidates, key=lambda one: _nll_at(one, prediction, labels, trust))


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


class _ClassObjective:
    """What scale and shift of an opinion's probabilities are fitted by, in float64."""

    def __init__(self, opinion: Opinion, labels: Tensor, trust: Tensor | None) -> None:
        evidence = to_float64(opinion.evidence)
        self.logs = _logarithm(evidence)
        self.log_prior = evidence.new_tensor(math.log(opinion.prior))
        self.labels = labels[:, None]
        self.trust = evidence.new_ones(len(labels), 1)
        if trust is not None:
            self.trust = to_float64(trust)[:, None]

    def minimum(self, scale: float) -> tuple[float, float]:
        """The best scale and shift, from those at which the probabilities are what they were."""
        from scipy.optimize import minimize

        bounds = [(math.log(LEAST_SCALE), math.log(LARGEST_SCALE)), (-LARGEST_SHIFT, LARGEST_SHIFT)]
        start = [math.log(scale), 0.0]
        found = minimize(self.value_and_gradient, start, jac=True, bounds=bounds, method="L-BFGS-B")
        return _scale_of(float(found.x[0])), float(found.x[1])

    def value_and_gradient(self, point: Sequence[float]) -> tuple[float, list[float]]:
        """At a logarithm of the scale and a shift."""
        log_scale, shift = (float(each) for each in point)
        scaled = math.exp(log_scale) * self.logs
        probabilities = torch.logaddexp(scaled + shift, self.log_prior).softmax(-1)
        own = probabilities.gather(-1, self.labels)
        said = self.trust * own + (1 - self.trust) / probabilities.shape[-1]
        share = self.trust * own / said.clamp_min(torch.finfo(said.dtype).tiny)
        # With the shift, ln (exp(shift) e ** scale + prior) grows by this slope; with the logarithm of the
        # scale, by it times the scaled logarithms.
        slopes = (scaled + shift - self.log_prior).sigmoid()
        gradient = []
        for slope, value, deviation in (
            (slopes * scaled, log_scale, LOG_SCALE_DEVIATION),
            (slopes, shift, SHIFT_DEVIATION),
        ):
            mean = (probabilities * slope).sum(-1, keepdim=True)
            of_labels = share * (slope.gather(-1, self.labels) - mean)
            gradient.append(value / deviation**2 / len(self.labels) - float(of_labels.mean()))
        by_prior = (log_scale / LOG_SCALE_DEVIATION) ** 2 / 2 + (shift / SHIFT_DEVIATION) ** 2 / 2
        return by_prior / len(self.labels) - float(_logarithm(said).mean()), gradient


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


def _logarithm(values: Tensor) -> Tensor:
    """Of evidence or probabilities that may be zero."""
    return values.clamp_min(torch.finfo(values.dtype).tiny).log()


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
