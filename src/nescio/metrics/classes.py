"""How good the answers are class by class, and which classes are taken for which."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from nescio.metrics._inputs import flat, require_accepted, require_labels, require_probabilities
from nescio.opinions.categorical import Prediction


@dataclass(frozen=True, eq=False)
class ClassMeasures:
    """How good the answers are for each of K classes.

    Args:
        count: Samples of each class, int64 (K,).
        precision: Share of right answers among those that name the class, (K,); NaN where none does.
        recall: Share of right answers among the samples of the class, (K,); NaN where there are none.
        mean_uncertainty: Mean uncertainty of the samples of the class, (K,); NaN where there are none.

    Example:
        >>> import torch
        >>> from nescio.metrics import ClassMeasures
        >>> half = torch.tensor([0.5])
        >>> ClassMeasures(torch.tensor([2]), precision=half, recall=half, mean_uncertainty=half).recall
        tensor([0.5000])
    """

    count: Tensor
    precision: Tensor
    recall: Tensor
    mean_uncertainty: Tensor


def confusion_matrix(prediction: Prediction, labels: Tensor, accepted: Tensor | None = None) -> Tensor:
    """Count the answers by true class and class answered.

    A vacuous prediction (u = 1) is no answer, and is counted nowhere.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.
        accepted: Whether the model stands by each answer, bool (...); others are not counted. Default: all.

    Returns:
        int64 (K, K): the number of samples of the row's class that were answered with the column's.

    Raises:
        InputError: If prediction, labels and accepted do not fit.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import confusion_matrix
        >>> prediction = Categorical(torch.tensor([[0.8, 0.2], [0.1, 0.9], [0.7, 0.3]]))
        >>> confusion_matrix(prediction, torch.tensor([0, 1, 1]))
        tensor([[1, 0],
                [1, 1]])
    """
    require_probabilities(prediction)
    truth = require_labels(prediction, labels)
    is_answer = ~flat(prediction.is_vacuous)
    if accepted is not None:
        is_answer = is_answer & require_accepted(accepted, labels)
    classes = prediction.num_classes
    cells = truth[is_answer] * classes + flat(prediction.labels)[is_answer]
    return cells.bincount(minlength=classes**2).view(classes, classes)


def class_measures(prediction: Prediction, labels: Tensor) -> ClassMeasures:
    """Measure the answers class by class; a vacuous prediction (u = 1) is a wrong answer for no class.

    Args:
        prediction: Prediction of inputs (...).
        labels: Their true classes (...), whole numbers.

    Returns:
        Count, precision, recall and mean uncertainty of each class.

    Raises:
        InputError: If prediction and labels do not fit.

    Example:
        >>> import torch
        >>> from nescio import Categorical
        >>> from nescio.metrics import class_measures
        >>> prediction = Categorical(torch.tensor([[0.8, 0.2], [0.1, 0.9], [0.7, 0.3]]))
        >>> class_measures(prediction, torch.tensor([0, 1, 1])).precision
        tensor([0.5000, 1.0000], dtype=torch.float64)
    """
    confusion = confusion_matrix(prediction, labels).double()
    truth = require_labels(prediction, labels)
    count = truth.bincount(minlength=prediction.num_classes)
    right = confusion.diagonal()
    doubt = truth.bincount(flat(prediction.uncertainty).double(), minlength=prediction.num_classes)
    return ClassMeasures(count, right / confusion.sum(0), right / count, doubt / count)
