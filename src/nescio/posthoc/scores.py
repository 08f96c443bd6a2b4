"""OOD scores of the literature, for comparison: from a network's logits, or from its features.

Each is a number for each input, and more is more doubt. Those of logits need nothing else; those of features
are fitted to the features of the training data. None of them is used by the library's own methods.

    max_probability_score   1 - max_k softmax(z)_k              Hendrycks and Gimpel 2017
    entropy_score           entropy of softmax(z), in nats
    max_logit_score         -max_k z_k                          Hendrycks et al. 2022
    energy_score            -T log sum_k exp(z_k / T)           Liu et al. 2020
    KNNScore                cosine distance to the k-th nearest training sample     Sun et al. 2022
    MahalanobisScore        min_c (f - mu_c)^T S^-1 (f - mu_c), S within classes    Lee et al. 2018
    ViMScore                alpha |residual of f| - log sum_k exp(z_k)              Wang et al. 2022
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from nescio._checks import WHOLE_NUMBERS, describe, require_floating, require_number, require_whole
from nescio._precision import to_float64
from nescio.errors import InputError, NotFiniteError

_CHUNK = 1024  # inputs that are compared with all training samples at a time
_RIDGE = 1e-10  # of the mean variance, added to a covariance: features that never vary have none


def max_probability_score(logits: Tensor) -> Tensor:
    """One minus the probability of the most probable class.

    Args:
        logits: Logits of a network that was trained with softmax, (N, K).

    Returns:
        (N,), from 0 to 1 - 1 / K; more is more doubt.

    Raises:
        InputError: If the logits are no such tensor, or not finite.

    Example:
        >>> max_probability_score(torch.tensor([[0.0, 0.0], [1.0, -1.0]]))
        tensor([0.5000, 0.1192])
    """
    probabilities = _require_logits(logits).softmax(-1)
    # The sum of the others: 1 - max would be 0 for all that is very sure.
    best = probabilities.argmax(-1, keepdim=True)
    return probabilities.scatter(-1, best, 0).sum(-1)


def entropy_score(logits: Tensor) -> Tensor:
    """The entropy of the probabilities, in nats.

    Args:
        logits: Logits of a network that was trained with softmax, (N, K).

    Returns:
        (N,), from 0 to log K; more is more doubt.

    Raises:
        InputError: If the logits are no such tensor, or not finite.

    Example:
        >>> entropy_score(torch.zeros(1, 2))
        tensor([0.6931])
    """
    log_probabilities = _require_logits(logits).log_softmax(-1)
    return -(log_probabilities.exp() * log_probabilities).sum(-1)


def max_logit_score(logits: Tensor) -> Tensor:
    """The greatest logit with its sign turned.

    Args:
        logits: Logits of any network, (N, K).

    Returns:
        (N,); more is more doubt.

    Raises:
        InputError: If the logits are no such tensor, or not finite.

    Example:
        >>> max_logit_score(torch.tensor([[1.0, 5.0]]))
        tensor([-5.])
    """
    return -_require_logits(logits).amax(-1)


def energy_score(logits: Tensor, temperature: float = 1.0) -> Tensor:
    """The free energy of the logits.

    Args:
        logits: Logits of a network that was trained with softmax, (N, K).
        temperature: T, above 0.

    Returns:
        (N,); more is more doubt.

    Raises:
        InputError: If the logits are no such tensor, or not finite, or the temperature is not above 0.

    Example:
        >>> energy_score(torch.tensor([[0.0, 0.0]]))
        tensor([-0.6931])
    """
    require_number("temperature", temperature)
    if temperature == 0:
        raise InputError("temperature must be above 0, got 0")
    return -temperature * (_require_logits(logits) / temperature).logsumexp(-1)


LOGIT_SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "max_probability": max_probability_score,
    "entropy": entropy_score,
    "max_logit": max_logit_score,
    "energy": energy_score,
}


@dataclass(frozen=True, eq=False)
class KNNScore:
    """Cosine distance of features to their k-th nearest neighbour in the training data. Made by `fit`.

    Args:
        directions: The training features, each of length 1, (M, F).
        k: Which neighbour counts.

    Example:
        >>> score = KNNScore.fit(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), k=1)
        >>> score(torch.tensor([[2.0, 0.0], [-1.0, 0.0]]))
        tensor([0., 1.])
    """

    directions: Tensor
    k: int = 5

    @classmethod
    def fit(cls, features: Tensor, k: int = 5) -> KNNScore:
        """Keep the training features.

        Args:
            features: Features of the training data, (M, F).
            k: Which neighbour counts, up to M.

        Raises:
            InputError: If the features are no such tensor, or not finite, or fewer than k.
        """
        given = _require_features(features)
        require_whole("k", k, most=len(given))
        return cls(_directions(given), int(k))

    def __call__(self, features: Tensor) -> Tensor:
        """The distance, from 0 to 2, (N,), of features (N, F)."""
        given = _require_features(features, self.directions.shape[1]).to(self.directions.dtype)
        distances = []
        for part in torch.split(_directions(given), _CHUNK):
            nearest = (part @ self.directions.T).topk(self.k, dim=1).values[:, -1]
            distances.append(1 - nearest)
        return torch.cat(distances)


@dataclass(frozen=True, eq=False)
class MahalanobisScore:
    """Squared distance of features to the nearest class mean, by the covariance within classes.

    Made by `fit`.

    Args:
        means: Means of the C classes that the training data has, (C, F), seen from the origin and whitened,
            float64.
        whitening: What makes the covariance within classes the identity, (F, F), float64.
        origin: The mean of the training data, (F,), float64: far from it, whitening would lose digits.

    Example:
        >>> features = torch.tensor([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
        >>> score = MahalanobisScore.fit(features, torch.zeros(4, dtype=torch.long))
        >>> score(torch.tensor([[1.0, 0.0], [3.0, 0.0]])).round(decimals=4)
        tensor([0., 8.])
    """

    means: Tensor
    whitening: Tensor
    origin: Tensor

    @classmethod
    def fit(cls, features: Tensor, labels: Tensor) -> MahalanobisScore:
        """Take the means of the classes and their common covariance.

        Args:
            features: Features of the training data, (M, F).
            labels: Its classes, (M,).

        Raises:
            InputError: If these do not fit, are not finite, or all features of each class are the same.
        """
        given = to_float64(_require_features(features))
        is_whole = isinstance(labels, Tensor) and labels.dtype in WHOLE_NUMBERS
        if not is_whole or labels.shape != given.shape[:1]:
            expected = f"whole numbers ({len(given)},), one for each row of features"
            raise InputError(f"labels must be {expected}, got {describe(labels)}")
        means = []
        centred = given.clone()
        for place in sorted(set(labels.tolist())):
            mine = labels.to(given.device) == place
            mean = given[mine].mean(0)
            centred[mine] -= mean
            means.append(mean)
        whitening = _whitening(centred.T @ centred / len(centred))
        origin = given.mean(0)
        return cls((torch.stack(means) - origin) @ whitening, whitening, origin)

    def __call__(self, features: Tensor) -> Tensor:
        """The squared distance, (N,), of features (N, F)."""
        given = to_float64(_require_features(features, len(self.whitening)))
        whitened = (given - self.origin) @ self.whitening
        # Not by a product of matrices: the squares of large numbers cancel there.
        distance = torch.cdist(whitened, self.means, compute_mode="donot_use_mm_for_euclid_dist")
        return distance.amin(1).square().to(features)


@dataclass(frozen=True, eq=False)
class ViMScore:
    """How far features lie off the main directions of the training data, against the energy of the logits.

    Made by `fit`.

    Args:
        origin: The point that features are seen from, (F,).
        residual: Directions in which training features hardly vary, (F, F - dimensions).
        scale: What brings the residual to the size of the logits.

    Example:
        >>> generator = torch.Generator().manual_seed(0)
        >>> features = torch.randn(100, 3, generator=generator) * torch.tensor([5.0, 3.0, 0.1])
        >>> score = ViMScore.fit(features, features[:, :2], dimensions=2)
        >>> near, far = score(torch.tensor([[5.0, 0, 0], [5.0, 0, 2]]), torch.tensor([[5.0, 0], [5.0, 0]]))
        >>> bool(far > near)
        True
    """

    origin: Tensor
    residual: Tensor
    scale: float

    @classmethod
    def fit(
        cls,
        features: Tensor,
        logits: Tensor,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
        dimensions: int | None = None,
    ) -> ViMScore:
        """Find the directions in which the training features hardly vary.

        Args:
            features: Features of the training data, before the last layer, (M, F).
            logits: Logits of the training data, (M, K).
            weight: Weight of the last layer, (K, F), where there is one: features are then seen from the
                point at which its logits are 0, as published. Default: from their mean.
            bias: Bias of the last layer, (K,).
            dimensions: How many main directions there are, below F. Default: 1000 from F = 2048 on, 512 from
                768 on, as published, else half of F.

        Raises:
            InputError: If these do not fit, or are not finite.
        """
        given = to_float64(_require_features(features))
        outputs = to_float64(_require_logits(logits))
        if len(outputs) != len(given):
            raise InputError(f"logits must be {len(given)}, one for each row of features, got {len(outputs)}")
        width = given.shape[1]
        if dimensions is None:
            dimensions = _usual_dimensions(width)
        require_whole("dimensions", dimensions, least=0, most=width - 1)
        origin = given.mean(0)
        if weight is not None:
            origin = _origin(weight, bias, width)
        centred = given - origin
        vectors = torch.linalg.eigh(centred.T @ centred / len(centred)).eigenvectors  # the smallest first
        residual = vectors[:, : width - dimensions]
        length = (centred @ residual).norm(dim=1).sum()
        scale = 0.0
        if length > 0:
            scale = float(outputs.amax(1).sum() / length)
        return cls(origin.to(features), residual.to(features), scale)

    def __call__(self, features: Tensor, logits: Tensor) -> Tensor:
        """The score, (N,), of features (N, F) and logits (N, K)."""
        given = _require_features(features, len(self.origin)).to(self.origin.dtype)
        outputs = _require_logits(logits)
        if len(outputs) != len(given):
            raise InputError(f"logits must be {len(given)}, one for each row of features, got {len(outputs)}")
        length: Tensor = torch.linalg.vector_norm((given - self.origin) @ self.residual, dim=1)
        return self.scale * length - outputs.logsumexp(-1)


def _usual_dimensions(width: int) -> int:
    if width >= 2048:
        return 1000
    if width >= 768:
        return 512
    return width // 2


def _origin(weight: Tensor, bias: Tensor | None, width: int) -> Tensor:
    """Where the logits of a last layer are 0, (F,)."""
    if not isinstance(weight, Tensor) or weight.ndim != 2 or weight.shape[1] != width:
        raise InputError(f"weight must be (K, {width}), got {describe(weight)}")
    if bias is None:
        return torch.zeros(width, dtype=torch.float64, device=weight.device)
    if not isinstance(bias, Tensor) or bias.shape != weight.shape[:1]:
        raise InputError(f"bias must be ({len(weight)},), got {describe(bias)}")
    inverse: Tensor = torch.linalg.pinv(to_float64(weight.detach()))
    return -inverse @ to_float64(bias.detach())


def _whitening(covariance: Tensor) -> Tensor:
    """The matrix W with W^T covariance W = I, (F, F)."""
    mean_variance = float(covariance.diagonal().mean())
    if mean_variance == 0:
        raise InputError("features must differ within a class, got the same for all samples of each")
    values, vectors = torch.linalg.eigh(covariance)
    whitening: Tensor = vectors / (values.clamp_min(0) + _RIDGE * mean_variance).sqrt()
    return whitening


def _directions(features: Tensor) -> Tensor:
    """Each of length 1; zeros stay zeros."""
    return torch.nn.functional.normalize(features, dim=1)


def _require_logits(logits: object) -> Tensor:
    given = require_floating("logits", logits, class_axis=-1)
    return _require_finite("logits", given)


def _require_features(features: object, width: int | None = None) -> Tensor:
    """Features (N, F), of this width where it is given."""
    if not isinstance(features, Tensor) or not features.is_floating_point() or features.ndim != 2:
        raise InputError(
            f"features must be a tensor of floating point numbers (N, F), got {describe(features)}"
        )
    if features.numel() == 0:
        raise InputError(f"features must be one row or more, got {describe(features)}")
    if width is not None and features.shape[1] != width:
        raise InputError(f"features must be (N, {width}) like those of training, got {describe(features)}")
    return _require_finite("features", features)


def _require_finite(name: str, given: Tensor) -> Tensor:
    if not bool(given.isfinite().all()):
        raise NotFiniteError(f"{name} must be finite, got NaN or infinity")
    return given.detach()
