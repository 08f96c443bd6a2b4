"""Evidence for the true class rewarded where there is little: what RED adds to the loss."""

from __future__ import annotations

from torch import Tensor

from nescio._checks import at_least_float32, describe, require_floating, require_prior
from nescio._precision import widest
from nescio.errors import InputError
from nescio.functional.risks import (
    IGNORE_INDEX,
    checked_evidence,
    require_indices,
    require_soft_labels,
    without_ignored,
)


def correct_evidence_regularizer(
    logits: Tensor,
    evidence: Tensor,
    targets: Tensor,
    ignore_index: int = IGNORE_INDEX,
    *,
    prior: float = 1.0,
    validate: bool | None = None,
) -> Tensor:
    """Reward of the true class's output, as large as the uncertainty: -u z_y, as in RED.

    u = K prior / S is taken as a constant, so that the gradient is -u for the true class and 0 for all
    others: a sample without any evidence still moves the network.

    Args:
        logits: The network's outputs z (N, K, d1, ...), the class on axis 1.
        evidence: The evidence that was made of them, of the same shape.
        targets: Class indices (N, d1, ...) int64, or soft labels (N, K, d1, ...) that sum to one, for which
            z_y is the sum of y_j z_j.
        ignore_index: Class index whose samples give 0.
        prior: Prior of each class in S = sum of evidence + K prior; 1 in RED.
        validate: Whether to look at the values; by default on the CPU only, where that is cheap.

    Returns:
        The term of each sample, (N, d1, ...); below zero where z_y is above.

    Raises:
        InputError: If a shape, a type or, where they are looked at, a value does not fit.

    Example:
        >>> import torch
        >>> from nescio.functional import correct_evidence_regularizer
        >>> logits = torch.tensor([[-2.0, -3.0], [6.0, -3.0]], requires_grad=True)
        >>> value = correct_evidence_regularizer(logits, logits.relu(), torch.tensor([0, 0]))
        >>> torch.autograd.grad(value.sum(), logits)[0]
        tensor([[-1.0000,  0.0000],
                [-0.2500,  0.0000]])
    """
    require_floating("logits", logits, class_axis=1)
    if not isinstance(targets, Tensor):
        raise InputError(f"targets must be a tensor, got {describe(targets)}")
    evidence = checked_evidence(evidence, validate).detach()
    if evidence.shape != logits.shape:
        raise InputError(f"evidence must be {tuple(logits.shape)} like the logits, got {describe(evidence)}")
    prior_strength = logits.shape[1] * require_prior(prior)
    uncertainty = prior_strength / (widest(evidence).sum(1) + prior_strength)
    outputs = at_least_float32(logits)
    if targets.is_floating_point():
        require_soft_labels(logits, targets, validate)
        own = (targets.to(outputs.dtype) * outputs).sum(1)
        return (-uncertainty * own).to(outputs.dtype)
    require_indices(logits, targets)
    wanted, ignored = without_ignored(targets, logits.shape[1], ignore_index, validate)
    own = outputs.gather(1, wanted.unsqueeze(1)).squeeze(1)
    value = (-uncertainty * own).to(outputs.dtype)
    if ignored is not None:
        value = value.masked_fill(ignored, 0.0)
    return value
