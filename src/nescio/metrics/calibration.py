"""Whether predictions are right, and whether their probabilities say how often they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.metrics._inputs import flat, require_labels, require_probabilities
from nescio.opinions.categorical import Prediction


@dataclass(frozen=True, eq=False)
class Reliability:
    """What a reliability diagram shows; an empty bin has NaN means.

    Args:
        confidence: Mean largest probability of each bin, (B,).
        accuracy: Share of samples in each bin whose greatest raw output is the true class's, (B,), as
            `raw_accuracy` counts them: with evidence or without.
        count: Samples in each bin, (B,).

    Example:
        >>> import torch
        >>> from nescio.metrics import Reliability
        >>> bins = Reliability(torch.tensor([0.9]), torch.tensor([0.8]), torch.tensor([50]))
        >>> (bins.confidence - bins.accuracy).abs()
        tensor([0.1000])
    """

    confidence: Tensor
    accuracy: Tensor
    count: Tensor


def _right_argmax(prediction: Prediction, labels: Tensor) -> Tensor:
    """Whether the class of the greatest raw output is the true one, (...) as (M,)."""
    require_probabilities(prediction)
    truth = require_labels(prediction, labels)
    return flat(prediction.labels) == truth


def right_answers(prediction: Prediction, labels: Tensor) -> Tensor:
    """As `_right_argmax`, but no answer at all (u = 1) is wrong, as in the paper; (...) as (M,)."""
    return _right_argmax(prediction, labels) & ~flat(prediction.is_vacuous)


def accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of right answers; a vacuous one (u = 1) counts as wrong, as in the paper.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        A number from 0 to 1.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import accuracy
        >>> opinion = Opinion(torch.tensor([[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        >>> accuracy(opinion, torch.tensor([0, 0, 0]))
        0.3333333333333333
    """
    return float(right_answers(prediction, labels).double().mean())


def raw_accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of samples whose greatest raw output is the true class's, with evidence or without.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        A number from 0 to 1.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import raw_accuracy
        >>> opinion = Opinion(torch.tensor([[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        >>> raw_accuracy(opinion, torch.tensor([0, 0, 0]))
        0.6666666666666666
    """
    return float(_right_argmax(prediction, labels).double().mean())


def answered_share(prediction: Prediction) -> float:
    """Share of samples with an answer: with any evidence at all (u < 1).

    Args:
        prediction: Prediction of inputs (...).

    Returns:
        A number from 0 to 1.

    Raises:
        InputError: If it is no prediction, or has no sample.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import answered_share
        >>> answered_share(Opinion(torch.tensor([[4.0, 0.0], [0.0, 0.0]])))
        0.5
    """
    require_probabilities(prediction)
    return float((~flat(prediction.is_vacuous)).double().mean())


def answered_accuracy(prediction: Prediction, labels: Tensor) -> float:
    """Share of right answers among the samples with an answer.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        A number from 0 to 1; NaN where there is no answer.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import answered_accuracy
        >>> opinion = Opinion(torch.tensor([[4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]))
        >>> answered_accuracy(opinion, torch.tensor([0, 0, 0]))
        0.5
    """
    return float(right_answers(prediction, labels)[~flat(prediction.is_vacuous)].double().mean())


def negative_log_likelihood(prediction: Prediction, labels: Tensor) -> float:
    """Mean of -ln p_y; a zero is taken as the smallest normal number of its type.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        The mean in nats.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import negative_log_likelihood
        >>> prediction = Categorical(torch.tensor([[0.8, 0.2], [0.5, 0.5]]))
        >>> round(negative_log_likelihood(prediction, torch.tensor([0, 1])), 4)
        0.4581
    """
    p = require_probabilities(prediction)
    truth = require_labels(prediction, labels)
    likelihood = p.gather(1, truth.unsqueeze(1)).clamp_min(torch.finfo(p.dtype).tiny)
    return float(-likelihood.double().log().mean())


def brier_score(prediction: Prediction, labels: Tensor) -> float:
    """Mean over samples of sum_k (p_k - y_k)^2, y one-hot.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        0 at best, 2 at worst.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import brier_score
        >>> prediction = Categorical(torch.tensor([[0.8, 0.2], [0.5, 0.5]]))
        >>> round(brier_score(prediction, torch.tensor([0, 1])), 4)
        0.29
    """
    p = require_probabilities(prediction).double()
    truth = require_labels(prediction, labels)
    one_hot = torch.nn.functional.one_hot(truth, prediction.num_classes)
    return float((p - one_hot).square().sum(1).mean())


def reliability(prediction: Prediction, labels: Tensor, bins: int = 15) -> Reliability:
    """Samples by their largest probability, in bins [i/B, (i+1)/B) of which the last holds 1 as well.

    A sample without any evidence (u = 1) is right where its greatest raw output is the true class's, as in
    `raw_accuracy`, and not wrong as in `accuracy`: its probability of 1/K claims to be right by chance.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.
        bins: B.

    Returns:
        Confidence, accuracy and number of samples of each bin.

    Raises:
        InputError: If prediction and labels do not fit, or bins is not a whole number from 1 on.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import reliability
        >>> prediction = Categorical(torch.tensor([[0.8, 0.2], [0.9, 0.1], [0.4, 0.6]]))
        >>> reliability(prediction, torch.tensor([0, 1, 1]), bins=4).count
        tensor([0, 0, 1, 2])
    """
    return reliability_of(bin_sums(prediction, labels, bins))


def bin_sums(prediction: Prediction, labels: Tensor, bins: int) -> Tensor:
    """What `reliability` is made of, float64 (3, B): samples, confidence and right raw outputs of each bin.

    The sums of two batches are those of both together.
    """
    require_whole("bins", bins, least=1)
    right = _right_argmax(prediction, labels).double()
    confidence = require_probabilities(prediction).amax(1)
    edges = (torch.arange(1, bins, dtype=torch.float64, device=confidence.device) / bins).to(confidence.dtype)
    index = torch.bucketize(confidence, edges, right=True)
    count = index.bincount(minlength=bins).double()
    total = index.bincount(confidence.double(), minlength=bins)
    return torch.stack([count, total, index.bincount(right, minlength=bins)])


def reliability_of(sums: Tensor) -> Reliability:
    """The means of the bins, by the sums (3, B) of `bin_sums`."""
    count, confidence, right = sums
    return Reliability(confidence / count, right / count, count.long())


def expected_calibration_error(prediction: Prediction, labels: Tensor, bins: int = 15) -> float:
    """ECE, sum_b n_b / N |accuracy_b - confidence_b| over the bins of `reliability`.

    torchmetrics has this too, but gives a confidence of exactly 1 a bin of its own.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.
        bins: B.

    Returns:
        A number from 0 to 1.

    Raises:
        InputError: If prediction and labels do not fit, or bins is not a whole number from 1 on.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import expected_calibration_error
        >>> prediction = Categorical(torch.tensor([[0.75, 0.25], [0.75, 0.25]]))
        >>> expected_calibration_error(prediction, torch.tensor([0, 1]))
        0.25
    """
    return calibration_error_of(reliability(prediction, labels, bins))


def calibration_error_of(found: Reliability) -> float:
    """The expected calibration error, by the bins of a reliability diagram."""
    gap = (found.accuracy - found.confidence).abs() * found.count
    return float(gap.nansum() / found.count.sum())
