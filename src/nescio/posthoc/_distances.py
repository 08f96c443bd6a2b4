"""How far features lie from those of the training data: two ways, each compact enough for a model file.

Features are projected to the directions in which the training data vary most. What a projection leaves out is
not forgotten: OOD inputs often have much of their length elsewhere, and lie the farther for it.

Features of images and texts are brought to length one first, as their direction tells what they are of. Rows
of a table, and what a perceptron makes of them, are taken as they are: a row ten times as long as all others
is far from them.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio._precision import to_float64
from nescio.errors import InputError

DIRECTIONS = 64  # that features are projected to
MOST_PROTOTYPES = 8000  # training samples whose features are kept
MOST_ENTRIES = 150 * (DIRECTIONS + 1) ** 2  # of the matrices of all Gaussians together
FARTHEST = 1e30  # of what can't be measured: features that are not finite
_POWER_ITERATIONS = 4
_RIDGE = 1e-4  # of the mean variance: a direction in which a class does not vary is not infinitely narrow
_OVERSAMPLING = 16
_LEAST_VARIANCE = 1e-12
_LEAST_LENGTH = 1e-12
_USUAL_BINARY_ORDERS = 8  # features that vary by 2^-8 to 2^8 are taken as they are
_LARGEST_HALF = 6e4


class Distance(ABC):
    """A measure of how far features (N, F) lie from those of the training data."""

    kind: ClassVar[str]

    @abstractmethod
    def __call__(self, features: Tensor) -> Tensor:
        """The distance of each row of features (N, F), float32 (N,)."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """What the model file keeps, by name."""

    @property
    @abstractmethod
    def num_features(self) -> int:
        """F."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the header of the model file keeps, plain data."""

    def to(self, device: torch.device) -> Distance:
        """The same on another device."""
        moved = {name: tensor.to(device) for name, tensor in self.tensors().items()}
        return distance_from(self.settings(), moved)


@dataclass(frozen=True, eq=False)
class Neighbours(Distance):
    """The distance to the k-th nearest prototype.

    Of x and a prototype p, seen from the mean of the training data, with their projections Px and Pp:
    sqrt(|x|^2 + |p|^2 - 2 Px Pp). What is projected counts as in x - p, what is left out as if both had it in
    directions of their own.

    Args:
        projection: Directions (F, D).
        prototypes: Projected features of training samples (M, D).
        squares: The squared lengths of their features (M,).
        k: Which neighbour counts, 1 for the nearest.
        is_unit: Whether features are brought to length one first.
        centre: The mean of the training data (F,); None for zero, as in files of version 0.2. Far from it,
            half precision could not tell prototypes apart.
        scale: What features are divided by first, a power of two; 1 but where they are very large or small.
    """

    kind: ClassVar[str] = "neighbours"

    projection: Tensor
    prototypes: Tensor
    squares: Tensor
    k: int = 1
    is_unit: bool = True
    centre: Tensor | None = None
    scale: float = 1.0

    def __post_init__(self) -> None:
        _require_matrix("projection", self.projection)
        _require_matrix("prototypes", self.prototypes, self.projection.shape[1])
        if tuple(self.squares.shape) != (len(self.prototypes),):
            raise InputError(f"squares must be ({len(self.prototypes)},), got {tuple(self.squares.shape)}")
        if self.centre is not None and tuple(self.centre.shape) != (self.num_features,):
            raise InputError(f"centre must be ({self.num_features},), got {tuple(self.centre.shape)}")
        require_whole("k", self.k, most=len(self.prototypes))

    @classmethod
    def fit(cls, features: Tensor, k: int = 1, is_unit: bool = True) -> Neighbours:
        """From features (M, F) of training samples, all of which become prototypes."""
        scale = _scale_of(features, is_unit)
        points = _scaled(features, is_unit, scale)
        centre = points.mean(0)
        points = points - centre
        projection = _directions(points, DIRECTIONS)
        projected = points @ projection
        left_out = points - projected @ projection.T
        # The lengths of the prototypes as they are kept: with others, near ones would seem to touch.
        prototypes = _compact(projected)
        squares = prototypes.square().sum(1) + left_out.square().sum(1)
        return cls(projection, prototypes, squares, k, is_unit, centre, scale)

    def __call__(self, features: Tensor) -> Tensor:
        points = _scaled(features, self.is_unit, self.scale)
        if self.centre is not None:
            points = points - self.centre
        products = (points @ self.projection) @ self.prototypes.T
        # Less the length of the input itself, which is the same for all prototypes.
        differences = self.squares - 2 * products
        if self.k == 1:
            nearest = differences.amin(1)
        else:
            nearest = differences.topk(self.k, 1, largest=False).values[:, -1]
        return _finite((points.square().sum(1) + nearest).clamp_min(0).sqrt())

    @property
    def num_features(self) -> int:
        return len(self.projection)

    def tensors(self) -> dict[str, Tensor]:
        kept = {
            "projection": self.projection,
            "prototypes": self.prototypes.half(),
            "squares": self.squares,
        }
        if self.centre is not None:
            kept["centre"] = self.centre
        return kept

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "k": self.k, "is_unit": self.is_unit, **_unless_one(self.scale)}


@dataclass(frozen=True, eq=False)
class Gaussians(Distance):
    """The negative log-density under a Gaussian for each class, of projected features and their rest.

    Args:
        projection: Directions (F, D).
        whitening: What brings a class to unit variance (K, D + 1, D + 1); the last of the D + 1 values of a
            point is the length that the projection leaves out.
        centres: The whitened mean of each class (K, D + 1).
        log_weights: Logarithm of the share of each class, less half that of the determinant of its
            covariance, (K,).
        is_unit: Whether features are brought to length one first.
        scale: What features are divided by first, a power of two; 1 but where they are very large or small.
    """

    kind: ClassVar[str] = "gaussians"

    projection: Tensor
    whitening: Tensor
    centres: Tensor
    log_weights: Tensor
    is_unit: bool = True
    scale: float = 1.0

    def __post_init__(self) -> None:
        _require_matrix("projection", self.projection)
        size = self.projection.shape[1] + 1
        _require_matrix("centres", self.centres, size)
        count = len(self.centres)
        if tuple(self.whitening.shape) != (count, size, size):
            raise InputError(f"whitening must be {(count, size, size)}, got {tuple(self.whitening.shape)}")
        if tuple(self.log_weights.shape) != (count,):
            raise InputError(f"log_weights must be ({count},), got {tuple(self.log_weights.shape)}")

    @classmethod
    def fit(cls, features: Tensor, labels: Tensor, is_unit: bool = True) -> Gaussians:
        """From features (M, F) of training samples and their classes (M,)."""
        scale = _scale_of(features, is_unit)
        points = _scaled(features, is_unit, scale)
        present, places = torch.unique(labels, return_inverse=True)
        # Many classes get fewer directions each: the file and the time of a prediction stay small.
        directions = min(DIRECTIONS, max(1, math.isqrt(MOST_ENTRIES // len(present)) - 1))
        projection = _directions(points, directions)
        points = to_float64(_with_rest(points, projection))
        places = places.to(points.device)
        means = torch.stack([points[places == place].mean(0) for place in range(len(present))])
        pooled = _covariance(points - means[places])
        size = len(pooled)
        eye = to_float64(torch.eye(size, device=projection.device))
        ridge = _RIDGE * pooled.diagonal().mean().clamp_min(_LEAST_VARIANCE) * eye
        whitening = []
        log_weights = []
        for place, mean in enumerate(means):
            of_class = points[places == place] - mean
            count = len(of_class)
            # A class with fewer samples than directions takes its form from all classes together.
            covariance = (count * _covariance(of_class) + size * pooled) / (count + size) + ridge
            factor = torch.linalg.cholesky(covariance)
            whitening.append(torch.linalg.inv(factor))
            log_weights.append(math.log(count / len(points)) - factor.diagonal().log().sum())
        compact = _compact(torch.stack(whitening)).to(projection.device)
        centres = (compact @ means.to(compact)[:, :, None]).squeeze(2)
        return cls(projection, compact, centres, torch.stack(log_weights).to(compact), is_unit, scale)

    def __call__(self, features: Tensor) -> Tensor:
        points = _with_rest(_scaled(features, self.is_unit, self.scale), self.projection)
        # W (x - m) as W x - W m: one product of matrices for all classes.
        count, size, _ = self.whitening.shape
        whitened = (points @ self.whitening.reshape(count * size, size).T).view(-1, count, size)
        logs = self.log_weights - 0.5 * (whitened - self.centres).square().sum(2)
        return _finite(-logs.logsumexp(1))

    @property
    def num_features(self) -> int:
        return len(self.projection)

    def tensors(self) -> dict[str, Tensor]:
        return {
            "projection": self.projection,
            "whitening": self.whitening.half(),
            "centres": self.centres,
            "log_weights": self.log_weights,
        }

    def settings(self) -> dict[str, Any]:
        return {"kind": self.kind, "is_unit": self.is_unit, **_unless_one(self.scale)}


KINDS = (Neighbours.kind, Gaussians.kind)


def fit_distance(
    kind: str, features: Tensor, labels: Tensor | None, k: int | None, is_unit: bool
) -> Distance:
    """The distance of this kind, from features (M, F) of training samples and, for Gaussians, classes."""
    if kind == Neighbours.kind:
        return Neighbours.fit(features, 1 if k is None else k, is_unit)
    if kind != Gaussians.kind:
        raise InputError(f"kind must be {' or '.join(KINDS)}, got {kind!r}")
    if k is not None:
        raise InputError(f"k is for kind {Neighbours.kind} alone: which of the nearest counts, got {k!r}")
    if labels is None:
        raise InputError("labels must be given for kind gaussians: a Gaussian is fitted to each class")
    return Gaussians.fit(features, labels, is_unit)


def distance_from(settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Distance:
    """Back from what a model file keeps."""
    kinds: dict[str, type[Distance]] = {Neighbours.kind: Neighbours, Gaussians.kind: Gaussians}
    fields = dict(settings)
    kind = fields.pop("kind")
    if kind not in kinds:
        raise InputError(f"the kind of trust must be {' or '.join(kinds)}, got {kind!r}")
    for field in dataclasses.fields(kinds[kind]):  # type: ignore[arg-type]
        is_kept = field.name in tensors or field.default is dataclasses.MISSING
        if field.name not in fields and is_kept:
            fields[field.name] = tensors[field.name].float()
    return kinds[kind](**fields)


def _scaled(features: Tensor, is_unit: bool, scale: float) -> Tensor:
    """Features of length one, or divided by a scale; those that are too long to be measured become NaN."""
    features = features.float()
    if is_unit:
        lengths: Tensor = torch.linalg.vector_norm(features, dim=1, keepdim=True)
        lengths = lengths.masked_fill(lengths.isinf(), math.nan).clamp_min(_LEAST_LENGTH)
        return features / lengths
    return features if scale == 1 else features / scale


def _scale_of(features: Tensor, is_unit: bool) -> float:
    """A power of two by which the deviation of features (M, F) comes near 1; 1 where it is not far from it.

    Half precision, in which some of what is made of them is kept, reaches from 1e-7 to 6e4.
    """
    if is_unit:
        return 1.0
    wide = to_float64(features)
    deviation = float((wide - wide.mean(0)).square().mean().sqrt())
    if deviation == 0 or not math.isfinite(deviation) or abs(math.log2(deviation)) <= _USUAL_BINARY_ORDERS:
        return 1.0
    return 2.0 ** round(math.log2(deviation))


def _unless_one(scale: float) -> dict[str, float]:
    """A setting that files of version 0.2 do not have, where it says something."""
    return {} if scale == 1 else {"scale": scale}


def _directions(points: Tensor, most: int) -> Tensor:
    """Orthonormal directions (F, D) that keep most of the squared lengths of points (M, F)."""
    count = min(most, *points.shape)
    tried = min(count + _OVERSAMPLING, *points.shape)
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        _, _, directions = torch.svd_lowrank(points, q=tried, niter=_POWER_ITERATIONS)
    return directions[:, :count].contiguous()


def _compact(values: Tensor) -> Tensor:
    """As the model file keeps them, in half precision, but ready to compute with."""
    return values.clamp(-_LARGEST_HALF, _LARGEST_HALF).half().float()


def _with_rest(points: Tensor, projection: Tensor) -> Tensor:
    """Projected features, and the length that the projection leaves out, (N, D + 1)."""
    projected = points @ projection
    # Not |x|^2 - |Px|^2, of which nothing but rounding is left where the projection keeps nearly all.
    rest = torch.linalg.vector_norm(points - projected @ projection.T, dim=1)
    if projection.shape[0] == projection.shape[1]:
        rest = torch.zeros_like(rest)  # all is kept, and what seems to be left is rounding
    return torch.cat([projected, rest[:, None]], 1)


def _covariance(centred: Tensor) -> Tensor:
    return centred.T @ centred / max(len(centred), 1)


def _finite(distances: Tensor) -> Tensor:
    return distances.nan_to_num(nan=FARTHEST, posinf=FARTHEST, neginf=FARTHEST)


def _require_matrix(name: str, value: Tensor, columns: int | None = None) -> None:
    if value.ndim != 2 or len(value) == 0:
        raise InputError(f"{name} must be a matrix with one row or more, got {tuple(value.shape)}")
    if columns is not None and value.shape[1] != columns:
        raise InputError(f"{name} must have {columns} columns, got {value.shape[1]}")
