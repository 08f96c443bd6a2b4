"""The weight of the divergence: as a function of the (fractional) epoch, and of the number of classes."""

from __future__ import annotations

from nescio._checks import require_number, require_whole
from nescio.errors import InputError

CLASSES_OF_FULL_WEIGHT = 10
# Of squared errors as in the paper; less of risks that grow without bound where a network is wrong and sure.
FULL_WEIGHTS = {"squared_error": 1.0, "brier": 1.0, "cross_entropy": 0.1, "type2": 0.1}
# How the weight falls with more classes. Chosen for the cross-entropy at 135 intents of questions and at 200
# drawn characters, docs/decisions/0022.
EXPONENTS = {"squared_error": 2, "brier": 2, "cross_entropy": 2.5, "type2": 2}


def linear_annealing(epoch: float, epochs: float) -> float:
    """How much of the divergence counts at an epoch: lambda_t = min(1, t / epochs).

    Args:
        epoch: How far the training is, in epochs, fractions included.
        epochs: After how many epochs it counts in full: 10 in the paper; 0 for no annealing.

    Returns:
        A number from 0 to 1.

    Raises:
        InputError: If epoch or epochs is not a number from 0 on.

    Example:
        >>> from nescio.functional import linear_annealing
        >>> linear_annealing(2.5, 10)
        0.25
        >>> linear_annealing(2.5, 0)
        1.0
    """
    require_number("epoch", epoch)
    require_number("epochs", epochs)
    if not epochs:
        return 1.0
    return min(1.0, epoch / epochs)


def default_divergence_weight(num_classes: int, risk: str = "cross_entropy") -> float:
    """The weight of the divergence that trains at any number of classes: w min(1, (10 / K)^n).

    With K classes the pull of the risk towards the true one falls like 1 / K, and the divergence pushes
    K - 1 others down: at a weight of 1 a network of 200 classes never starts to learn. The greatest weight w
    is the paper's 1 for squared errors, and 0.1 for the other risks: more costs accuracy on hard data. The
    exponent n is 2.5 for the cross-entropy, where 2 costs calibration and 3 lets u saturate at 150 to 200
    classes, and 2 for the others.

    Args:
        num_classes: K.
        risk: "cross_entropy", "squared_error", "type2" or "brier".

    Returns:
        A number above 0 and up to 1.

    Raises:
        InputError: If num_classes is not a whole number from 2 on, or there is no such risk.

    Example:
        >>> from nescio.functional import default_divergence_weight
        >>> default_divergence_weight(10)
        0.1
        >>> default_divergence_weight(10, risk="squared_error")
        1.0
        >>> round(default_divergence_weight(100), 6)
        0.000316
    """
    require_whole("num_classes", num_classes, least=2)
    if risk not in FULL_WEIGHTS:
        raise InputError(f"risk must be one of {', '.join(FULL_WEIGHTS)}, got {risk!r}")
    share: float = (CLASSES_OF_FULL_WEIGHT / num_classes) ** EXPONENTS[risk]
    return FULL_WEIGHTS[risk] * min(1.0, share)
