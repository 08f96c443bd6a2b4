"""Attacks: small changes of an image that make its true class least probable. FGSM and PGD, pure functions.

Images are floating point (N, ...) in [0, 1], and so are the results. What is attacked is a function from
such images to the probabilities of the classes (N, K) that gradients can flow through: the method's own
prediction, averaged over samples where the method samples.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor, nn

from nescio._checks import WHOLE_NUMBERS, describe, require_whole
from nescio.data.preprocess import ImagePreprocess, Preprocess
from nescio.errors import InputError
from nescio.methods import Method
from nescio.training import as_input

Probabilities = Callable[[Tensor], Tensor]

PGD_REACH = 2.5  # all steps of PGD together, in epsilons: enough to turn round on the way


class Attacked(Protocol):
    """What is needed of a model; a TrainedModel has it."""

    @property
    def module(self) -> nn.Module:
        """The network."""
        ...

    @property
    def method(self) -> Method:
        """How it predicts."""
        ...

    @property
    def preprocess(self) -> Preprocess:
        """From raw pixels to what the network takes."""
        ...


def probabilities_of(model: Attacked, seed: int = 0, fresh_draws: bool = False) -> Probabilities:
    """A model's prediction as a function of images that gradients can flow through.

    Args:
        model: A TrainedModel for images.
        seed: Seed of the samples of a stochastic method.
        fresh_draws: Draw anew in every call, going on with one generator, instead of the same draws again.
            An attack of several steps then meets the method as it is, and can't fit itself to one draw.

    Returns:
        From images (N, C, H, W) in [0, 1] to probabilities (N, K).

    Raises:
        InputError: If the model takes something else than pixels.

    Example:
        >>> import torch
        >>> from nescio import EDL, LeNetSpec, TrainedModel
        >>> from nescio.data import ImagePreprocess
        >>> from nescio.metrics import probabilities_of
        >>> spec = LeNetSpec(filters=(2, 3), hidden=4)
        >>> preprocess = ImagePreprocess(spec.input_shape, (0.0,), (255.0,))
        >>> model = TrainedModel(EDL().build(spec), EDL(), tuple("0123456789"), preprocess, spec)
        >>> probabilities_of(model)(torch.rand(5, 1, 28, 28)).shape
        torch.Size([5, 10])
    """
    white = _white_of(model.preprocess)
    model.module.eval()
    like = next(model.module.parameters())
    going_on = torch.Generator(like.device).manual_seed(seed)

    def probabilities(images: Tensor) -> Tensor:
        inputs = as_input(images.to(like.device) * white, model.preprocess).to(like.dtype)
        generator = going_on
        if not fresh_draws:
            generator = torch.Generator(like.device).manual_seed(seed)
        return model.method.predict(model.module, inputs, generator).probabilities

    return probabilities


def _white_of(preprocess: Preprocess) -> float:
    """What a pixel of 1 is among the raw inputs of a model."""
    if not isinstance(preprocess, ImagePreprocess) or preprocess.white is None:
        raise InputError("model must be one for images; its inputs are no pixels")
    return preprocess.white


def _true_class_loss(probabilities: Tensor, labels: Tensor) -> Tensor:
    """-ln p_y (N,) of probabilities (N, K), with a gradient also where p_y rounds to 1.

    There it is taken from the other classes, -ln(1 - sum of the others), which keeps what 1 - p_y loses.
    """
    truth = nn.functional.one_hot(labels, probabilities.shape[1]).bool()
    likely = probabilities.masked_fill(~truth, 0).sum(1)
    others = probabilities.masked_fill(truth, 0).sum(1)
    near = likely.detach() > 0.5
    # Each branch gets a harmless value where the other is taken: no gradient there is infinite times zero.
    low = -likely.masked_fill(near, 1.0).clamp_min(torch.finfo(likely.dtype).tiny).log()
    high = -torch.log1p(-others.masked_fill(~near, 0.0))
    return torch.where(near, high, low)


def loss_gradient(probabilities: Probabilities, images: Tensor, labels: Tensor) -> Tensor:
    """The gradient of -ln p_y with respect to each image.

    Args:
        probabilities: Function from images to class probabilities (N, K), see `probabilities_of`.
        images: Floating point (N, ...) in [0, 1].
        labels: Their true classes (N,).

    Returns:
        The gradient (N, ...).

    Raises:
        InputError: If images or labels do not fit.

    Example:
        >>> import torch
        >>> from nescio.metrics import loss_gradient
        >>> def probabilities(images):  # of a model: probabilities_of(model)
        ...     return torch.stack([images.mean((1, 2, 3)), 1 - images.mean((1, 2, 3))], 1)
        >>> images, labels = torch.full((1, 1, 2, 2), 0.5), torch.tensor([0])
        >>> loss_gradient(probabilities, images, labels).flatten().tolist()
        [-0.5, -0.5, -0.5, -0.5]
    """
    _require(images, labels)
    with torch.enable_grad():
        inputs = images.detach().requires_grad_()
        loss = _true_class_loss(probabilities(inputs), labels.to(images.device).long())
        (gradient,) = torch.autograd.grad(loss.sum(), inputs)
    return gradient


def fgsm(images: Tensor, gradient: Tensor, epsilon: float) -> Tensor:
    """The fast gradient sign method: x + epsilon sign(gradient), within [0, 1].

    Args:
        images: Floating point (N, ...) in [0, 1].
        gradient: Gradient of the loss (N, ...), as `loss_gradient` gives it.
        epsilon: How far each pixel may move.

    Returns:
        The changed images (N, ...).

    Raises:
        InputError: If epsilon is not a number from 0 on.

    Example:
        >>> import torch
        >>> from nescio.metrics import fgsm
        >>> fgsm(torch.tensor([[0.5, 0.95]]), torch.tensor([[-3.0, 2.0]]), epsilon=0.1)
        tensor([[0.4000, 1.0000]])
    """
    _require_epsilon(epsilon)
    return (images + epsilon * gradient.sign()).clamp(0, 1)


def pgd(
    probabilities: Probabilities,
    images: Tensor,
    labels: Tensor,
    epsilon: float,
    steps: int = 10,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Projected gradient ascent: sign steps of 2.5 epsilon / steps, none further than epsilon.

    Args:
        probabilities: Function from images to class probabilities (N, K), see `probabilities_of`.
        images: Floating point (N, ...) in [0, 1].
        labels: Their true classes (N,).
        epsilon: How far each pixel may move.
        steps: How many steps.
        generator: The start is drawn within epsilon, which gets away from where the gradient is zero; without
            one it is the image itself.

    Returns:
        The changed images (N, ...).

    Raises:
        InputError: If an argument does not fit.

    Example:
        >>> import torch
        >>> from nescio.metrics import pgd
        >>> def probabilities(images):  # of a model: probabilities_of(model)
        ...     return torch.stack([images.mean((1, 2, 3)), 1 - images.mean((1, 2, 3))], 1)
        >>> images, labels = torch.full((1, 1, 2, 2), 0.5), torch.tensor([0])
        >>> pgd(probabilities, images, labels, epsilon=0.1).amax().item() <= 0.4 + 1e-6
        True
    """
    _require(images, labels)
    _require_epsilon(epsilon)
    require_whole("steps", steps, least=1)
    images = images.detach()
    moved = images
    if generator is not None:
        drawn_on = generator.device
        noise = 2 * torch.rand(images.shape, generator=generator, dtype=images.dtype, device=drawn_on) - 1
        moved = (images + epsilon * noise.to(images.device)).clamp(0, 1)
    for _ in range(steps):
        step = loss_gradient(probabilities, moved, labels).sign() * (PGD_REACH * epsilon / steps)
        moved = (images + (moved + step - images).clamp(-epsilon, epsilon)).clamp(0, 1)
    return moved


def without_gradient(gradient: Tensor) -> Tensor:
    """Whether the gradient of each image is exactly zero: an attack by gradient can't move it.

    Args:
        gradient: (N, ...), as `loss_gradient` gives it.

    Returns:
        (N,) bool.

    Example:
        >>> import torch
        >>> from nescio.metrics import without_gradient
        >>> without_gradient(torch.tensor([[0.0, 0.0], [0.0, 0.1]]))
        tensor([ True, False])
    """
    return gradient.flatten(1).abs().amax(1) == 0


def _require(images: Tensor, labels: Tensor) -> None:
    if not isinstance(images, Tensor) or not images.is_floating_point() or images.ndim < 2 or not len(images):
        raise InputError(f"images must be floating point (N, ...), one or more, got {describe(images)}")
    low, high = (float(bound) for bound in images.detach().aminmax())
    if not 0 <= low <= high <= 1:
        raise InputError(f"images must be within 0 and 1, got {low:g} to {high:g}")
    if (
        not isinstance(labels, Tensor)
        or labels.dtype not in WHOLE_NUMBERS
        or labels.shape != images.shape[:1]
    ):
        raise InputError(f"labels must be whole numbers ({len(images)},), got {describe(labels)}")


def _require_epsilon(epsilon: float) -> None:
    if not (isinstance(epsilon, float | int) and math.isfinite(epsilon) and epsilon >= 0):
        raise InputError(f"epsilon must be a number from 0 on, got {epsilon!r}")
