"""Trust: how far an input lies from the training data, as a p-value and as a discount of what a model says.

Held-out data, which had no part in the training, tell how far known inputs lie. Of n of them, a new input at
the distance d has the conformal p-value

    p = (1 + number of held-out inputs at least as far as d) / (n + 1)

For inputs drawn as the held-out ones, and of any distribution, P(p <= a) <= a for every a from 0 to 1: of
known inputs, at most one in a hundred is said to have p <= 0.01 on average. It promises nothing of any single
class of inputs, and nothing of OOD inputs: those that look like known ones have large p-values.

Inputs of one group, such as the pictures of a patient, are more alike than those of two. Where G groups are
known, each counts as one, by the share of its inputs at least as far as d:

    p = (1 + sum of these shares) / (G + 1)

which keeps the promise for an input of a new group.

No p-value is below 1 / (n + 1), however far an input lies. Trust needs more than that: q is the share of
known inputs that lie at least as far. Between the distances d_i beyond which the shares s_i of the held-out
inputs lie (all, nine tenths, ..., a twentieth), log q is linear; beyond the farthest fiftieth of them, or of
few the farthest 25 but at most a fifth, it falls as it does among these,

    log q = log s_i + log(s_i+1 / s_i) (d - d_i) / (d_i+1 - d_i)        for d_i <= d < d_i+1
    log q = log(share) - (d - start) / decay                            for d >= start
    t = q / (q + half_at)

so the trust t falls from nearly 1 towards 0 without a least value, continuously. As q is uniform among known
inputs, they lose half_at log(1 + 1 / half_at) of their mass on average.

Where there are too few inputs to hold some out, the training inputs are measured themselves, a tenth at a
time by a distance that is fitted to the others (`cross_fit`). New inputs are measured by one that is fitted
to all of them, and lie a little nearer for it: p-values are too large then rather than too small. That needs
features which the training has not formed, such as rows of a table or what a frozen encoder gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from nescio._checks import WHOLE_NUMBERS, describe, require_finite, require_number, require_whole
from nescio._folds import folds_of
from nescio._precision import to_float64
from nescio.errors import InputError
from nescio.posthoc._distances import MOST_PROTOTYPES, Distance, distance_from, fit_distance

HALF_AT = 0.001
LEAST_HALF_AT = 5e-4
LARGEST_HALF_AT = 0.01
MASS_PER_ERROR = 0.25  # that known inputs lose, on average
LEAST_HELD_OUT = 50  # below it, the farthest of them say little of how far a known input can lie
LEAST_CROSS_FITTED = 25  # by so few only what is very far is doubted, which is answered surely without trust
MOST_HELD_OUT = 10_000  # more make a p-value finer than anybody needs, and every prediction slower
LEAST_TRUST = 1e-6
_TAIL = 0.02  # share of the held-out inputs whose distances the tail is fitted to
_LEAST_IN_TAIL = 25  # where there are so few, a larger share is taken, up to _LARGEST_TAIL
_LARGEST_TAIL = 0.2
_LEAST_DECAY = 1e-3  # of the spread of all distances: ties do not make the tail a step
_LEAST_SPREAD = 1e-6
_ROUNDING = 1e-5  # relative, of distances
_FOLDS = 10  # of a cross-fit
_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)  # between which log q is linear


def half_at_for(num_wrong: int, count: int) -> float:
    """Where trust is a half, by the number of wrong answers on held-out data: `half_at` of `Trust.fit`.

    Known inputs lose a quarter as much of their mass, on average, as the network errs: where it is nearly
    always right, all that trust takes makes it doubt too much; where it errs, distances tell more.

    Args:
        num_wrong: How many held-out inputs the network answers wrongly.
        count: How many there are.

    Returns:
        From 0.0005 to 0.01, see `Trust`.

    Raises:
        InputError: If they are no such numbers.

    Example:
        >>> from nescio.posthoc import half_at_for
        >>> round(half_at_for(40, 1000), 4), round(half_at_for(500, 1000), 4)
        (0.0016, 0.01)
    """
    require_whole("count", count)
    require_whole("num_wrong", num_wrong, least=0)
    if num_wrong > count:
        raise InputError(f"num_wrong must be at most count, {count}, got {num_wrong}")
    error = (num_wrong + 1) / (count + 2)  # also of few samples without an error it is not zero
    low, high = math.log(LEAST_HALF_AT), math.log(LARGEST_HALF_AT)
    for _ in range(50):
        middle = (low + high) / 2
        if math.exp(middle) * math.log1p(math.exp(-middle)) < MASS_PER_ERROR * error:
            low = middle
        else:
            high = middle
    return math.exp(high)


@dataclass(frozen=True, eq=False)
class Trust:
    """How far predictions are trusted, by the distance of features to those of the training data.

    Made by `fit`, on features as arrays, or by `TrainedModel.calibrated`.

    Args:
        distance: The measure of distance that was fitted to the training data.
        held_out: Distances of n held-out inputs, ascending, float32 (n,).
        tail_share: The share of held-out inputs that lie beyond `tail_start`.
        tail_start: The distance from which on the tail was fitted.
        tail_decay: The distance over which the share of known inputs falls by the factor e.
        half_at: The share of known inputs, at least as far as the input, at which the trust is a half.
        bulk: Shares of the held-out inputs, falling, and the distances beyond which they lie, up to
            `tail_start`. None: up to there log q goes on as in the tail, as in files of version 0.2.
        layer: The name of the layer of the network whose outputs are the features; None where features are
            given as arrays.
        is_cross_fitted: Whether `held_out` are distances of the training inputs, each measured without its
            tenth of them.
        weights: What each of `held_out` counts for in p-values, float32 (n,): 1 / (number of inputs of its
            group). None: all count 1.

    Raises:
        InputError: If a field is not what it must be.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> known = torch.randn(1200, 8, generator=generator) + 4
        >>> trust = Trust.fit(known[:1000], known[1000:])
        >>> inputs = torch.stack([torch.full((8,), 4.0), torch.tensor([-4.0] * 4 + [4.0] * 4)])
        >>> trust.p_values(inputs)
        tensor([0.7910, 0.0050])
        >>> trust(inputs).round(decimals=2)
        tensor([1., 0.])
    """

    distance: Distance
    held_out: Tensor
    tail_share: float
    tail_start: float
    tail_decay: float
    half_at: float = HALF_AT
    bulk: tuple[tuple[float, float], ...] | None = None
    layer: str | None = None
    is_cross_fitted: bool = False
    weights: Tensor | None = None
    _segments: tuple[Tensor, Tensor, Tensor] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.held_out.ndim != 1 or len(self.held_out) == 0:
            raise InputError(f"held_out must be distances (n,), got {describe(self.held_out)}")
        if self.weights is not None and self.weights.shape != self.held_out.shape:
            count = len(self.held_out)
            raise InputError(f"weights must be {count}, one for each distance, got {describe(self.weights)}")
        require_finite("tail_start", self.tail_start)
        for name in ("tail_share", "tail_decay", "half_at"):
            value = getattr(self, name)
            require_number(name, value)
            if value == 0:
                raise InputError(f"{name} must be above 0, got {value!r}")
        if self.tail_share > 1:
            raise InputError(f"tail_share must be at most 1, got {self.tail_share!r}")
        if self.bulk is not None:
            points = [*self.bulk, (self.tail_share, self.tail_start)]
            _require_falling(points)
            object.__setattr__(self, "_segments", _segments_of(points, self.held_out))

    @classmethod
    def fit(
        cls,
        features: Tensor,
        held_out: Tensor,
        *,
        labels: Tensor | None = None,
        kind: str | None = None,
        k: int | None = None,
        is_unit: bool = True,
        half_at: float = HALF_AT,
        groups: Tensor | None = None,
        seed: int = 0,
    ) -> Trust:
        """Fit a distance to features of training data, and its scale to features of held-out data.

        Args:
            features: Features (N, F) of training inputs. Of more than 8,000 as many are drawn, so a sample of
                them is enough.
            held_out: Features (n, F) of inputs that had no part in training; at least 50. Of more than 10,000
                as many are drawn.
            labels: Classes (N,) of the training inputs, whole numbers; needed by Gaussians.
            kind: "gaussians" for the density under a Gaussian for each class, "neighbours" for the distance
                to the k-th nearest training input. Default: gaussians where there are labels.
            k: Which of the nearest neighbours counts, by default the first; only for kind neighbours.
            is_unit: Whether features are brought to length one first, so that their directions are compared,
                as by the cosine.
            half_at: The share of known inputs, at least as far as an input, at which its trust is a half.
                `half_at_for` gives it by the errors of a network, as for `TrainedModel`.
            groups: What each held-out input belongs to, whole numbers (n,), such as the patient of a picture;
                each group then counts as one in p-values. None where all are on their own.
            seed: Seed of what is drawn.

        Returns:
            The trust.

        Raises:
            InputError: If features are no such tensors, too few, not finite, or all the same, or labels or
                groups do not fit them.

        Example:
            >>> import torch
            >>> features = torch.eye(3).repeat(100, 1) + 0.1 * torch.rand(300, 3)
            >>> labels = torch.arange(200) % 3
            >>> trust = Trust.fit(features[:200], features[200:], labels=labels)
            >>> trust.p_values(features[:5]).shape
            torch.Size([5])
        """
        _require_features("features", features, 2)
        _require_features("held_out", held_out, LEAST_HELD_OUT)  # before the work of fitting a distance
        if features.shape[1] != held_out.shape[1]:
            raise InputError(
                f"held_out must have {features.shape[1]} features like the training data, "
                f"got {held_out.shape[1]}"
            )
        if labels is not None:
            _require_codes("labels", labels, len(features))
            if int(labels.min()) < 0:
                raise InputError(f"labels must be from 0 on, got {int(labels.min())}")
        if groups is not None:
            _require_codes("groups", groups, len(held_out))
        if features.shape == held_out.shape and bool((features == held_out).all()):
            raise InputError("held_out must have had no part in training, got the features of training")
        generator = torch.Generator().manual_seed(seed)
        drawn = _drawn(len(features), MOST_PROTOTYPES, generator)
        features = features[drawn]
        if labels is not None:
            labels = labels[drawn]
        _require_difference(features)
        if kind is None:
            kind = "neighbours" if labels is None else "gaussians"
        distance = fit_distance(kind, features, labels, k, is_unit)
        drawn = _drawn(len(held_out), MOST_HELD_OUT, generator)
        distances = _in_parts(distance, held_out[drawn])
        return cls._by_distances(distance, distances, half_at, None if groups is None else groups[drawn])

    @classmethod
    def cross_fit(
        cls,
        features: Tensor,
        *,
        is_unit: bool = True,
        half_at: float = LARGEST_HALF_AT,
        groups: Tensor | None = None,
        seed: int = 0,
    ) -> Trust:
        """Fit the distance to the nearest training input, and its scale to the training inputs themselves.

        For few samples, of which none can be held out. Each tenth of the inputs is measured by a distance
        that is fitted to the others.

        Args:
            features: Features (N, F) of training inputs, 25 or more, which the training has not formed: rows
                of a table, or what a frozen encoder gives. Of more than 8,000 as many are drawn.
            is_unit: Whether features are brought to length one first, as by the cosine.
            half_at: The share of known inputs, at least as far as an input, at which its trust is a half.
            groups: What each input belongs to, whole numbers (N,), such as the patient of a picture: an input
                is not measured by its own group, and each group counts as one in p-values. 10 groups or more;
                None where all are on their own.
            seed: Seed of what is drawn.

        Returns:
            The trust.

        Raises:
            InputError: If features are no such tensor, too few, not finite, or all the same, or groups do not
                fit them or are too few.

        Example:
            >>> import torch
            >>> rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
            >>> trust = Trust.cross_fit(rows, is_unit=False)
            >>> trust(torch.tensor([[0.0, 0, 0, 0], [9.0, 0, 0, 0]])).round(decimals=2)
            tensor([0.9900, 0.0000])
        """
        _require_features("features", features, LEAST_CROSS_FITTED)
        if groups is not None:
            _require_codes("groups", groups, len(features))
        drawn = _drawn(len(features), MOST_PROTOTYPES, torch.Generator().manual_seed(seed))
        features = features[drawn]
        if groups is not None:
            groups = groups[drawn]
        distances = cross_fitted_distances(features, is_unit=is_unit, seed=seed, groups=groups)
        distance = fit_distance("neighbours", features, None, None, is_unit)
        trust = cls._by_distances(distance, distances, half_at, groups)
        return replace(trust, is_cross_fitted=True)

    @classmethod
    def of(cls, distance: Distance, held_out: Tensor, half_at: float = HALF_AT) -> Trust:
        """The trust by a distance that is fitted already.

        Args:
            distance: The measure of distance.
            held_out: Features (n, F) of inputs that had no part in training, nor in the distance; 50 or more.
            half_at: The share of known inputs, at least as far as an input, at which its trust is a half.

        Returns:
            The trust.

        Raises:
            InputError: If held_out is no such tensor, has too few rows, or is not finite.
        """
        _require_features("held_out", held_out, LEAST_HELD_OUT)
        return cls._by_distances(distance, _in_parts(distance, held_out), half_at)

    @classmethod
    def _by_distances(
        cls, distance: Distance, distances: Tensor, half_at: float, groups: Tensor | None = None
    ) -> Trust:
        """The trust whose scale are distances (n,) of known inputs, which belong to groups (n,)."""
        distances, order = distances.sort()
        weights = None
        if groups is not None:
            codes, sizes = torch.unique(groups, return_inverse=True, return_counts=True)[1:]
            weights = (1 / sizes[codes].float()).to(distances.device)[order]
        count = len(distances)
        in_tail = max(int(_TAIL * count), min(_LEAST_IN_TAIL, int(_LARGEST_TAIL * count)), 1)
        start = float(distances[count - in_tail - 1])
        # The mean excess is the likeliest decay of an exponential tail.
        decay = float((to_float64(distances[count - in_tail :]) - start).mean())
        spread = max(float(distances[-1] - distances[0]), _LEAST_SPREAD)
        decay = max(decay, _LEAST_DECAY * spread)
        bulk = _bulk_of(distances, in_tail / count, start)
        return cls(distance, distances, in_tail / count, start, decay, half_at, bulk or None, weights=weights)

    def distances(self, features: Tensor) -> Tensor:
        """How far features lie from those of the training data.

        Args:
            features: Features (N, F).

        Returns:
            float32 (N,); larger is farther.
        """
        is_matrix = isinstance(features, Tensor) and features.ndim == 2
        if not is_matrix or features.shape[1] != self.distance.num_features:
            raise InputError(f"features must be (N, {self.distance.num_features}), got {describe(features)}")
        return self.distance(features)

    def p_values(self, features: Tensor) -> Tensor:
        """The conformal p-values of features: small for those farther than nearly all held-out ones.

        Of known inputs, at most a share a has a p-value of a or less, on average, for every a.

        Args:
            features: Features (N, F).

        Returns:
            float32 (N,), from 1 / (n + 1) to 1; with groups from 1 / (G + 1).
        """
        return self.p_values_at(self.distances(features))

    def __call__(self, features: Tensor) -> Tensor:
        """The trust of features.

        Args:
            features: Features (N, F).

        Returns:
            float32 (N,), above 0 and at most 1.
        """
        return self.at(self.distances(features))

    def p_values_at(self, distances: Tensor) -> Tensor:
        """The conformal p-values at distances (N,)."""
        # What differs by rounding alone counts as equally far: a promise is kept by p-values that are too
        # large, and a program that rounds otherwise gives the same. A comparison, unlike a binary search, is
        # known to ONNX, and fast enough.
        rounded = distances - _ROUNDING * distances.abs()
        is_as_far = self.held_out >= rounded[:, None]
        if self.weights is None:
            return (1 + is_as_far.sum(1)).float() / (1 + len(self.held_out))
        return (1 + (is_as_far * self.weights).sum(1)) / (1 + self.weights.sum())

    def at(self, distances: Tensor) -> Tensor:
        """The trust at distances (N,)."""
        share = self._log_share(distances).exp()
        return (share / (share + self.half_at)).clamp_min(LEAST_TRUST)

    def _log_share(self, distances: Tensor) -> Tensor:
        """log q at distances (N,)."""
        beyond = (distances - self.tail_start) / self.tail_decay
        if self.bulk is None:
            return (math.log(self.tail_share) - beyond).clamp_max(0)
        assert self._segments is not None
        starts, widths, steps = self._segments
        passed = ((distances[:, None] - starts) / widths).clamp(0, 1)
        return math.log(self.bulk[0][0]) - beyond.clamp_min(0) + (passed * steps).sum(1)

    def to(self, device: torch.device | str) -> Trust:
        """The same trust on another device.

        Args:
            device: Where predictions are made.
        """
        device = torch.device(device)
        if self.held_out.device == device:
            return self
        weights = self.weights
        if weights is not None:
            weights = weights.to(device)
        distance = self.distance.to(device)
        return replace(self, distance=distance, held_out=self.held_out.to(device), weights=weights)

    def describe(self) -> str:
        """What was fitted, in words."""
        if self.is_cross_fitted:
            return f"by the distance to {self._counted()}, measured on themselves, a tenth at a time"
        return (
            f"by the distance to {self._counted()}, measured on {len(self.held_out):,} inputs held out "
            "from the training"
        )

    def _counted(self) -> str:
        tensors = self.distance.tensors()
        if "prototypes" in tensors:
            return f"{len(tensors['prototypes']):,} training inputs"
        return f"Gaussians of {len(tensors['centres']):,} classes"

    def tensors(self) -> dict[str, Tensor]:
        """What a model file keeps, by name."""
        tensors = {**self.distance.tensors(), "held_out": self.held_out}
        if self.weights is not None:
            tensors["weights"] = self.weights
        return tensors

    def settings(self) -> dict[str, Any]:
        """What the header of a model file keeps, plain data."""
        # Files of before know neither.
        later: dict[str, Any] = {}
        if self.bulk is not None:
            later["bulk"] = self.bulk
        if self.is_cross_fitted:
            later["is_cross_fitted"] = True
        return {
            "distance": self.distance.settings(),
            "tail_share": self.tail_share,
            "tail_start": self.tail_start,
            "tail_decay": self.tail_decay,
            "half_at": self.half_at,
            "layer": self.layer,
            **later,
        }

    @classmethod
    def from_parts(cls, settings: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Trust:
        """Back from what a model file keeps.

        Args:
            settings: What `settings` gave.
            tensors: What `tensors` gave.

        Returns:
            The trust.

        Raises:
            InputError: If they do not fit together.
        """
        fields = dict(settings)
        of_distance = fields.pop("distance")
        bulk = fields.pop("bulk", None)
        if bulk is not None:
            fields["bulk"] = tuple((share, start) for share, start in bulk)
        weights = tensors.get("weights")  # of data with groups alone
        distance = distance_from(of_distance, tensors)
        return cls(distance, tensors["held_out"].float(), **fields, weights=weights)


def cross_fitted_distances(
    features: Tensor, *, is_unit: bool, seed: int, groups: Tensor | None = None
) -> Tensor:
    """How far each row lies from the others, without the tenth that it is drawn into, float32 (N,).

    Args:
        features: Features (N, F) of 25 inputs or more, finite.
        is_unit: Whether they are brought to length one first.
        seed: Seed of the tenths.
        groups: What each row belongs to, int64 (N,), of which none is in two tenths; None where all are on
            their own.

    Raises:
        InputError: If all rows are the same, or of too few groups.
    """
    _require_difference(features)
    if groups is not None:
        num_groups = len(torch.unique(groups))
        if num_groups < _FOLDS:
            raise InputError(
                f"features must be of {_FOLDS} groups or more, which are measured without one another, "
                f"got {num_groups}"
            )
    folds = folds_of(len(features), _FOLDS, seed, groups=groups)
    distances = torch.empty(len(features), device=features.device)
    for fold in range(_FOLDS):
        measured = folds == fold
        others = fit_distance("neighbours", features[~measured], None, None, is_unit)
        distances[measured] = _in_parts(others, features[measured]).to(distances)
    return distances


def _bulk_of(distances: Tensor, tail_share: float, tail_start: float) -> tuple[tuple[float, float], ...]:
    """Shares and where they begin, of ascending distances (n,); none at the same place as the next."""
    count = len(distances)
    points: list[tuple[float, float]] = []
    for share in reversed(_SHARES):
        start = float(distances[min(round((1 - share) * count), count - 1)])
        end = points[-1][1] if points else tail_start
        if share > tail_share and start < end:
            points.append((share, start))
    return tuple(reversed(points))


def _segments_of(points: Sequence[tuple[float, float]], like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Between shares at distances: where each part begins, how wide it is, how much log q changes in it."""
    starts = [start for _, start in points[:-1]]
    widths = [end - start for (_, start), (_, end) in pairwise(points)]
    steps = [math.log(later / share) for (share, _), (later, _) in pairwise(points)]
    return like.new_tensor(starts), like.new_tensor(widths), like.new_tensor(steps)


def _require_falling(points: Sequence[tuple[float, float]]) -> None:
    """Refuse all but falling shares, of at most 1, at growing distances, which float32 tells apart."""
    for point in points:
        for value in point:
            require_finite("bulk", value)
    shares = [share for share, _ in points]
    starts = torch.tensor([start for _, start in points])
    is_falling = all(one > other for one, other in pairwise(shares)) and shares[0] <= 1
    is_growing = bool((starts.diff() > 0).all()) and bool(starts.diff().isfinite().all())
    if len(points) < 2 or not is_falling or not is_growing:
        raise InputError(f"bulk must be falling shares at growing distances, got {points[:-1]}")


def _require_features(name: str, features: object, least: int) -> None:
    if not isinstance(features, Tensor) or not features.is_floating_point() or features.ndim != 2:
        raise InputError(
            f"{name} must be a tensor (N, F) of floating point numbers, got {describe(features)}"
        )
    if len(features) < least:
        raise InputError(f"{name} must have {least} rows or more, got {len(features)}")
    if not bool(features.isfinite().all()):
        raise InputError(f"{name} must be finite, got NaN or infinity")
    if not bool(torch.linalg.vector_norm(features.float(), dim=1).isfinite().all()):
        raise InputError(f"{name} must be short enough for float32, got rows whose length is infinite there")


def _require_codes(name: str, codes: object, count: int) -> None:
    """Refuse all but whole numbers, one for each row."""
    is_tensor = isinstance(codes, Tensor) and codes.dtype in WHOLE_NUMBERS
    if not is_tensor or tuple(codes.shape) != (count,):  # type: ignore[attr-defined]
        raise InputError(f"{name} must be whole numbers ({count},), one for each row, got {describe(codes)}")


def _require_difference(features: Tensor) -> None:
    if float((features - features[0]).abs().max()) == 0:
        raise InputError(f"features must differ, got {len(features):,} rows that are all the same")


def _drawn(count: int, most: int, generator: torch.Generator) -> Tensor:
    """Places of all, or of as many as wanted by chance, in their order."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=generator)[:most].sort().values


def _in_parts(distance: Distance, features: Tensor) -> Tensor:
    """Distances (N,) of many features, a part at a time in memory."""
    return torch.cat([distance(part) for part in torch.split(features, 1024)])
