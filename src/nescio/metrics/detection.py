"""Detection of inputs that are out of distribution (ood), by how uncertain the prediction is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio.errors import InputError
from nescio.metrics._inputs import require_probabilities, require_scores
from nescio.opinions.categorical import Prediction
from nescio.opinions.measures import measures_for


@dataclass(frozen=True)
class Detection:
    """How well ood inputs are detected among known ones.

    Args:
        auroc: Area under the ROC curve.
        aupr: Average precision, ood as the positive class.
        fpr95: Share of known inputs taken for ood where 95% of the ood are caught.

    Example:
        >>> from nescio.metrics import Detection
        >>> Detection(auroc=0.98, aupr=0.97, fpr95=0.05).auroc
        0.98
    """

    auroc: float
    aupr: float
    fpr95: float


@dataclass(frozen=True, eq=False)
class EntropyCDF:
    """Distribution of the entropy.

    Args:
        entropy: Points (P,) in nats.
        share: Share of samples whose entropy is at most that, (P,).

    Example:
        >>> import torch
        >>> from nescio.metrics import EntropyCDF
        >>> EntropyCDF(torch.tensor([0.0, 0.7]), torch.tensor([0.5, 1.0])).share
        tensor([0.5000, 1.0000])
    """

    entropy: Tensor
    share: Tensor


def detection(known: Tensor, ood: Tensor) -> Detection:
    """How well scores that are higher for ood inputs tell them; ood is the positive class.

    Args:
        known: Scores (N,) of inputs of the known classes.
        ood: Scores (M,) of inputs that are out of distribution.

    Returns:
        The areas, and fpr95: the share of known samples at or above the highest threshold that at least 95%
        of the ood reach.

    Raises:
        InputError: If the scores are not finite floating point numbers, one or more.

    Example:
        >>> import torch
        >>> from nescio.metrics import detection
        >>> detection(known=torch.tensor([0.1, 0.2, 0.6]), ood=torch.tensor([0.5, 0.9]))
        Detection(auroc=0.8333333333333334, aupr=0.8333333333333333, fpr95=0.3333333333333333)
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    known = require_scores("known", known)
    ood = require_scores("ood", ood)
    truth = torch.cat([torch.zeros_like(known), torch.ones_like(ood)]).numpy()
    scores = torch.cat([known, ood]).numpy()
    return Detection(
        auroc=float(roc_auc_score(truth, scores)),
        aupr=float(average_precision_score(truth, scores)),
        fpr95=_false_alarms(known, ood),
    )


def _false_alarms(known: Tensor, ood: Tensor) -> float:
    # One in twenty of the ood, rounded down, may be missed.
    threshold = ood.kthvalue(len(ood) // 20 + 1).values
    return float((known >= threshold).double().mean())


def measures(prediction: Prediction) -> dict[str, Tensor]:
    """Every measure of doubt that tables compare, by name; `nescio.opinions.MEASURES` says what each is.

    Args:
        prediction: Prediction of any inputs (...). An Opinion has more measures than a Categorical.

    Returns:
        Doubt (...) by the name of the measure; more is more doubt.

    Raises:
        InputError: If it is no prediction, or holds no sample.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import measures
        >>> measures(Categorical(torch.tensor([[0.5, 0.5], [1.0, 0.0]])))
        {'entropy': tensor([0.6931, 0.0000]), 'max_probability': tensor([0.5000, 0.0000])}
    """
    require_probabilities(prediction)
    return {measure.name: measure.doubt(prediction) for measure in measures_for(prediction)}


def detection_by_measure(known: Prediction, ood: Prediction) -> dict[str, Detection]:
    """How well ood inputs are detected among known ones, by each measure of doubt.

    Args:
        known: Prediction of inputs of the known classes.
        ood: Prediction of inputs that are out of distribution; of the same kind and classes.

    Returns:
        A `Detection` by the name of the measure.

    Raises:
        InputError: If the predictions are of different kinds or classes, or hold no sample.

    Example:
        >>> import torch
        >>> from nescio import Opinion
        >>> from nescio.metrics import detection_by_measure
        >>> known = Opinion(torch.tensor([[9.0, 0.0], [0.0, 7.0]]))
        >>> ood = Opinion(torch.tensor([[0.5, 0.0], [0.0, 0.0]]))
        >>> detection_by_measure(known, ood)["uncertainty"].auroc
        1.0
    """
    require_probabilities(known, "known")
    require_probabilities(ood, "ood")
    of_known = measures(known)
    of_ood = measures(ood)
    if known.num_classes != ood.num_classes or of_known.keys() != of_ood.keys():
        raise InputError(f"ood must be of the kind of known, {known!r}, got {ood!r}")
    return {name: detection(of_known[name], of_ood[name]) for name in of_known}


def entropy_cdf(prediction: Prediction, points: int = 101) -> EntropyCDF:
    """Empirical distribution of the entropy, as in the paper's third figure.

    Args:
        prediction: Prediction of any inputs (...).
        points: Number of entropies, evenly spaced over [0, ln K].

    Returns:
        The entropies and the shares of samples up to them.

    Raises:
        InputError: If points is not a whole number from 2 on, or the prediction holds no sample.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import entropy_cdf
        >>> entropy_cdf(Categorical(torch.tensor([[0.5, 0.5], [1.0, 0.0]])), points=3).share
        tensor([0.5000, 0.5000, 1.0000], dtype=torch.float64)
    """
    require_whole("points", points, least=2)
    most = math.log(require_probabilities(prediction).shape[1])
    entropy = require_scores("prediction.entropy()", prediction.entropy()).clamp(0, most)
    at = torch.arange(points, dtype=torch.float64, device="cpu") / (points - 1) * most
    count = torch.searchsorted(entropy.sort().values, at, right=True)
    return EntropyCDF(at, count.double() / len(entropy))
