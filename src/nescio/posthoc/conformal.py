"""ConformalSets: sets of classes that hold the true class as often as promised (split conformal prediction).

A score s(x, k) is small where class k fits input x. Of n held-out samples (x_i, y_i), threshold q is the
r-th smallest of s(x_i, y_i), r = ceil((n + 1) coverage). The set of a new input x is {k : s(x, k) <= q}.
Where the new sample is drawn as the held-out ones were (exchangeable with them, whatever the model and the
law), its s(x, y) is equally likely at each rank among the n + 1, so P(y in set) >= r / (n + 1) >= coverage,
and below coverage + 1 / (n + 1) where scores are not tied (Vovk et al. 2005). It is needed that r <= n:
n >= coverage / (1 - coverage). By class (Mondrian), each class has a threshold from its own samples, and the
promise holds among the inputs of each class.

The scores, with p sorted so that class k has the rank o(k) from 1 on:

    lac    1 - p_k                                     the smallest sets on average (Sadinle et al. 2019)
    aps    sum of p_j with o(j) < o(k)                 larger sets for harder inputs (Romano et al. 2020)
    raps   aps + penalty * max(o(k) - free_ranks, 0)   aps without its long tails (Angelopoulos et al. 2021)

The set of aps is the most probable classes, until their sum exceeds q. Randomized, aps and raps count p_k
itself too, in part: + u p_k with u from 0 to 1, which takes the last class out of some sets and makes the
coverage exact where many inputs are sure. Here u is a digest of the probabilities and a seed: the same input
gets the same set, whatever lies beside it. The score is a fixed function of the input then, which is all that
the promise needs. (To count p_k whole would leave the surest inputs without a class, as p_k > q.)

A set may come out empty, where no class fits as well as the held-out samples did. By default the most
probable class is then put in, which can only raise the coverage; `allow_empty` leaves it empty.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio._checks import (
    SUM_TOLERANCE,
    describe,
    listed,
    require_bool,
    require_labels,
    require_number,
    require_share,
    require_whole,
)
from nescio._precision import to_float64
from nescio.errors import DataError, InputError, NotFiniteError
from nescio.opinions.categorical import Prediction
from nescio.posthoc._arguments import percent, require_fields

SCORES = ("lac", "aps", "raps")
PENALTY = 0.2
FREE_RANKS = 1
_STEPS = 2**20  # of a probability in the digest: differences of rounding are below
_SHOWN = 3  # classes in a message


def fewest_samples(coverage: float) -> int:
    """How many held-out samples a promise of this coverage needs; of each class, for a promise by class.

    Args:
        coverage: Between 0 and 1.

    Raises:
        InputError: If the coverage is not between 0 and 1.

    Example:
        >>> fewest_samples(0.95), fewest_samples(0.99)
        (19, 99)
    """
    require_share("coverage", coverage)
    samples = max(1, math.floor(coverage / (1 - coverage)) - 1)
    while _rank(samples, coverage) > samples:
        samples += 1
    return samples


def conformal_scores(
    probabilities: Tensor | Prediction,
    score: str = "lac",
    *,
    randomized: bool = False,
    seed: int = 0,
    penalty: float = PENALTY,
    free_ranks: int = FREE_RANKS,
) -> Tensor:
    """How badly each class fits each input; the classes with small scores make up a set.

    Args:
        probabilities: Probabilities of the classes (..., K): a tensor, an array, or a prediction.
        score: "lac", "aps" or "raps", see the module.
        randomized: Whether aps and raps count a part of a class's own probability.
        seed: Seed of that part, which is a digest of the probabilities.
        penalty: What raps adds for each rank beyond the free ones.
        free_ranks: How many ranks raps adds nothing for.

    Returns:
        float64 (..., K).

    Raises:
        InputError: If an argument does not fit.

    Example:
        >>> conformal_scores(torch.tensor([[0.1, 0.6, 0.3]]), "aps")
        tensor([[0.9000, 0.0000, 0.6000]], dtype=torch.float64)
    """
    _require_score(score, randomized, penalty, free_ranks, seed)
    return _scores(_require_probabilities(probabilities), score, randomized, seed, penalty, free_ranks)


def conformal_threshold(scores: Tensor, coverage: float) -> float:
    """The threshold that new samples, drawn as these, stay at or below with a probability of `coverage`.

    Args:
        scores: Scores of the true class of each held-out sample, (n,).
        coverage: Between 0 and 1.

    Returns:
        The ceil((n + 1) coverage)-th smallest of them.

    Raises:
        DataError: If there are fewer samples than that.
        InputError: If the scores are no such tensor, or not finite.

    Example:
        >>> conformal_threshold(torch.arange(1.0, 20.0), 0.9)
        18.0
    """
    require_share("coverage", coverage)
    if not isinstance(scores, Tensor) or not scores.is_floating_point() or scores.ndim != 1:
        raise InputError(f"scores must be a tensor of floating point numbers (n,), got {describe(scores)}")
    if not bool(scores.isfinite().all()):
        raise NotFiniteError("scores must be finite, got NaN or infinity")
    rank = _rank(len(scores), coverage)
    if rank > len(scores):
        raise DataError(
            f"a coverage of {percent(coverage)} needs {fewest_samples(coverage)} held-out samples or more, "
            f"got {len(scores)}"
        )
    return float(to_float64(scores.detach()).sort().values[rank - 1])


@dataclass(frozen=True, kw_only=True)
class ConformalSets:
    """Which classes an input may be of, with a promise how often the true one is among them. Made by `fit`.

    The promise is for inputs drawn as the held-out ones were, on average over such inputs and over the draw
    of the held-out samples; `coverage_interval` says how far this draw may be off. It is none for each
    single input, and none for inputs of another kind.

    Args:
        score: What orders the classes: "lac", "aps" or "raps".
        coverage: The share of inputs whose set holds the true class, as promised.
        thresholds: A class is in the set where its score is at most this; one for all, or one for each class.
        num_classes: K.
        by_class: Whether the promise holds among the inputs of each class.
        held_out: How many samples the sets were made from.
        fewest: How many of these the threshold with the fewest was made from.
        held_out_size: How many classes are in a set of them on average.
        held_out_empty: The share of them whose set was empty before the most probable class was put in.
        allow_empty: Whether an empty set stays empty.
        randomized: Whether aps and raps count a part of a class's own probability.
        seed: Seed of that part.
        penalty: What raps adds for each rank beyond the free ones.
        free_ranks: How many ranks raps adds nothing for.

    Raises:
        InputError: If a field is not what it must be, or they do not go together.

    Example:
        >>> from nescio import Categorical
        >>> sure = torch.linspace(0.4, 1, 200)
        >>> known = Categorical(torch.stack([sure, 1 - sure], 1))
        >>> sets = ConformalSets.fit(known, (torch.arange(200) % 7 == 0).long(), coverage=0.95)
        >>> sets.contains(Categorical(torch.tensor([[0.99, 0.01], [0.6, 0.4]])))
        tensor([[ True, False],
                [ True,  True]])
        >>> sets.describe()
        'the set holds the true class of 95% of inputs like the 200 held-out ones; 1.67 classes on average'
    """

    score: str
    coverage: float
    thresholds: tuple[float, ...]
    num_classes: int
    by_class: bool
    held_out: int
    fewest: int
    held_out_size: float
    held_out_empty: float
    allow_empty: bool = False
    randomized: bool = False
    seed: int = 0
    penalty: float = PENALTY
    free_ranks: int = FREE_RANKS

    def __post_init__(self) -> None:
        require_share("coverage", self.coverage)
        _require_score(self.score, self.randomized, self.penalty, self.free_ranks, self.seed)
        for name in ("by_class", "allow_empty"):
            require_bool(name, getattr(self, name))
        require_whole("num_classes", self.num_classes, least=2)
        require_whole("held_out", self.held_out)
        require_whole("fewest", self.fewest, most=self.held_out)
        require_number("held_out_size", self.held_out_size)
        require_number("held_out_empty", self.held_out_empty)
        if not isinstance(self.thresholds, tuple):
            raise InputError(f"thresholds must be a tuple, got {describe(self.thresholds)}")
        expected = self.num_classes if self.by_class else 1
        if len(self.thresholds) != expected:
            raise InputError(f"thresholds must be {expected}, got {len(self.thresholds)}")
        for threshold in self.thresholds:
            require_number("thresholds", threshold)

    @classmethod
    def fit(
        cls,
        prediction: Prediction | Tensor,
        labels: Tensor,
        coverage: float = 0.95,
        score: str = "lac",
        *,
        by_class: bool = False,
        randomized: bool = False,
        allow_empty: bool = False,
        penalty: float = PENALTY,
        free_ranks: int = FREE_RANKS,
        seed: int = 0,
        classes: Sequence[str] | None = None,
    ) -> ConformalSets:
        """Take the thresholds from held-out data.

        Args:
            prediction: Prediction of held-out inputs (..., K) that had no part in training, or their
                probabilities as a tensor or an array.
            labels: Their true classes (...).
            coverage: The share of inputs whose set is to hold the true class, between 0 and 1.
            score: "lac", "aps" or "raps", see the module.
            by_class: Whether to promise it for the inputs of each class, and not only on average.
            randomized: Whether aps and raps count a part of a class's own probability.
            allow_empty: Whether an empty set stays empty. Default: it holds the most probable class.
            penalty: What raps adds for each rank beyond the free ones.
            free_ranks: How many ranks raps adds nothing for.
            seed: Seed of the randomized scores.
            classes: The names of the K classes, for messages.

        Returns:
            The sets.

        Raises:
            DataError: If there are too few held-out samples, of all or of a class, for the promise.
            InputError: If an argument does not fit.
        """
        require_share("coverage", coverage)
        require_bool("by_class", by_class)
        require_bool("allow_empty", allow_empty)
        _require_score(score, randomized, penalty, free_ranks, seed)
        given = _require_probabilities(prediction)
        num_classes = given.shape[-1]
        truth = _require_labels(labels, given)
        rows = given.reshape(-1, num_classes).cpu()
        scores = _scores(rows, score, randomized, seed, penalty, free_ranks)
        of_truth = scores.gather(1, truth[:, None])[:, 0]
        if by_class:
            counts = truth.bincount(minlength=num_classes)
            _require_enough_of_each(counts, coverage, classes)
            thresholds = []
            for place in range(num_classes):
                thresholds.append(conformal_threshold(of_truth[truth == place], coverage))
            fewest = int(counts.min())
        else:
            thresholds = [conformal_threshold(of_truth, coverage)]
            fewest = len(truth)
        inside = scores <= torch.tensor(thresholds, dtype=torch.float64)
        sizes = inside.sum(1)
        is_empty = sizes == 0
        if not allow_empty:
            sizes = sizes.clamp_min(1)
        return cls(
            score=score,
            coverage=float(coverage),
            thresholds=tuple(thresholds),
            num_classes=num_classes,
            by_class=by_class,
            held_out=len(truth),
            fewest=fewest,
            held_out_size=float(to_float64(sizes).mean()),
            held_out_empty=float(to_float64(is_empty).mean()),
            allow_empty=allow_empty,
            randomized=randomized,
            seed=seed,
            penalty=float(penalty),
            free_ranks=free_ranks,
        )

    def contains(self, prediction: Prediction | Tensor) -> Tensor:
        """Which classes are in the set of each input.

        Args:
            prediction: Prediction of any inputs (..., K), or probabilities as a tensor or an array.

        Returns:
            bool (..., K). A row without any True is an empty set, and only there with `allow_empty`: the
            input is unlike the held-out samples of every class.

        Raises:
            InputError: If it is no prediction, or one of another number of classes.
        """
        best = prediction.labels if isinstance(prediction, Prediction) else None
        return self.members(_require_probabilities(prediction, self.num_classes), best)

    def members(self, probabilities: Tensor, best: Tensor | None = None) -> Tensor:
        """What `contains` does, without a look at the values: for exported programs.

        Args:
            probabilities: (..., K).
            best: The class (...) that an empty set gets; None for the most probable. Where a network has no
                evidence at all these differ.

        Returns:
            bool (..., K).
        """
        scores = _scores(probabilities, self.score, self.randomized, self.seed, self.penalty, self.free_ranks)
        thresholds = torch.tensor(self.thresholds, dtype=torch.float64, device=scores.device)
        inside = scores <= thresholds
        if self.allow_empty:
            return inside.to(probabilities.device)
        is_empty = ~inside.any(-1, keepdim=True)
        places = torch.arange(self.num_classes, device=scores.device)
        if best is None:
            best = probabilities.argmax(-1)
        is_best = places == best.unsqueeze(-1).to(scores.device)
        return (inside | (is_empty & is_best)).to(probabilities.device)

    def coverage_interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Where the true coverage of these very thresholds lies, for this share of all held-out draws.

        Given the held-out samples the coverage is distributed as Beta(r, n + 1 - r), where scores are not
        tied; of a promise by class, for the class with the fewest samples. It does not count what is gained
        by putting the most probable class into empty sets.

        Args:
            confidence: Between 0 and 1.

        Returns:
            The lower and the upper end.

        Raises:
            InputError: If the confidence is not between 0 and 1.
        """
        from scipy.special import betaincinv

        require_share("confidence", confidence)
        rank = _rank(self.fewest, self.coverage)
        tail = (1 - confidence) / 2
        low = float(betaincinv(rank, self.fewest + 1 - rank, tail))
        high = float(betaincinv(rank, self.fewest + 1 - rank, 1 - tail))
        return low, high

    def describe(self) -> str:
        """One sentence for people."""
        whose = "inputs of each class" if self.by_class else "inputs"
        promise = f"the set holds the true class of {percent(self.coverage)} of {whose}"
        size = f"{self.held_out_size:.3g}"
        classes = "class" if size == "1" else "classes"
        found = f"like the {self.held_out:,} held-out ones; {size} {classes} on average"
        if self.allow_empty and self.held_out_empty:
            found = f"{found}, none for {100 * self.held_out_empty:.3g}%, which are unlike all classes"
        return f"{promise} {found}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON: numbers, text, true and false."""
        return asdict(self) | {"thresholds": list(self.thresholds)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ConformalSets:
        """The sets that `to_dict` wrote.

        Args:
            values: Every field by its name.

        Raises:
            InputError: If a field is missing, unknown or not what it must be.
        """
        given = require_fields("a ConformalSets", cls, values)
        thresholds = given["thresholds"]
        if not isinstance(thresholds, list | tuple):
            raise InputError(f"thresholds must be a list, got {describe(thresholds)}")
        return cls(**given | {"thresholds": tuple(thresholds)})


def _scores(
    probabilities: Tensor, score: str, randomized: bool, seed: int, penalty: float, free_ranks: int
) -> Tensor:
    """As `conformal_scores`, of probabilities (..., K) that are known to be some."""
    # In float64 and summing to 1: else the rounding of float32 decides which class is in a set.
    wide = to_float64(probabilities)
    wide = wide / wide.sum(-1, keepdim=True)
    if score == "lac":
        return 1 - wide
    if torch.compiler.is_compiling():  # ONNX has no stable sort; its own puts the first of equals first too
        ordered, order = wide.sort(dim=-1, descending=True)
    else:
        ordered, order = wide.sort(dim=-1, descending=True, stable=True)
    # The sum of all that are more probable; by the one before, as a difference of sums is not 0 exactly.
    sums = torch.cat((torch.zeros_like(ordered[..., :1]), ordered.cumsum(-1)[..., :-1]), -1)
    if randomized:
        sums = sums + ordered * _uniform(wide, seed)
    if score == "raps":
        ranks = torch.arange(1, wide.shape[-1] + 1, device=wide.device)
        sums = sums + penalty * (ranks - free_ranks).clamp_min(0)
    return torch.zeros_like(sums).scatter(-1, order, sums)


def _uniform(probabilities: Tensor, seed: int) -> Tensor:
    """A number from 0 to 1 that looks drawn, (..., 1): a digest of probabilities (..., K) and a seed."""
    generator = torch.Generator().manual_seed(seed)
    odd = torch.randint(-(2**62), 2**62, (probabilities.shape[-1],), generator=generator) * 2 + 1
    steps = (probabilities * _STEPS).round().long()
    # Multiplication wraps around at 64 bits, which mixes; the finalizer spreads what differs to all bits.
    mixed = (steps * odd.to(steps.device)).sum(-1, keepdim=True)
    for factor in (-4658895280553007687, -7723592293110705685):
        mixed = (mixed ^ ((mixed >> 31) & (2**33 - 1))) * factor
    mixed = mixed ^ ((mixed >> 31) & (2**33 - 1))
    return ((mixed >> 11) & (2**53 - 1)).double() / 2**53


def _rank(size: int, coverage: float) -> int:
    """ceil((size + 1) coverage), where a product that is whole but for a rounding counts as whole."""
    return math.ceil((size + 1) * coverage * (1 - 1e-12))


def _require_score(
    score: object, randomized: object, penalty: object, free_ranks: object, seed: object
) -> None:
    if score not in SCORES:
        raise InputError(f"score must be one of {', '.join(SCORES)}, got {score!r}")
    require_bool("randomized", randomized)
    if randomized and score == "lac":
        raise InputError("randomized is for aps and raps; lac has nothing to be drawn")
    require_number("penalty", penalty)
    require_whole("free_ranks", free_ranks, least=0)
    if score != "raps" and (penalty, free_ranks) != (PENALTY, FREE_RANKS):
        raise InputError(f"penalty and free_ranks are for raps; {score} adds nothing for ranks")
    require_whole("seed", seed, least=0)


def _require_probabilities(prediction: object, num_classes: int | None = None) -> Tensor:
    """The probabilities (..., K) of a prediction or an array; refused where they are none.

    num_classes: K, where it is known.
    """
    given: object = prediction
    if isinstance(prediction, Prediction):
        given = prediction.probabilities
    elif hasattr(prediction, "__array__"):
        given = _as_tensor(prediction)
    if not isinstance(given, Tensor) or not given.is_floating_point() or given.ndim == 0:
        raise InputError(
            "prediction must be an Opinion, a Categorical or probabilities (..., K), "
            f"got {describe(prediction)}"
        )
    if given.shape[-1] < 2 or given.numel() == 0:
        raise InputError(
            f"prediction must hold one sample or more of two classes or more, got {describe(given)}"
        )
    if num_classes is not None and given.shape[-1] != num_classes:
        # Before the sums, which are wrong as well where some of the columns were taken.
        raise InputError(f"prediction must have {num_classes} classes like the sets, got {given.shape[-1]}")
    given = given.detach()
    if not bool(given.isfinite().all()):
        raise NotFiniteError("probabilities must be finite, got NaN or infinity")
    sums = to_float64(given).sum(-1)
    if bool((given < 0).any()) or bool(((sums - 1).abs() > SUM_TOLERANCE).any()):
        raise InputError(
            f"probabilities must be zero or more and sum to 1, got values from {float(given.min()):g} "
            f"to {float(given.max()):g} and sums from {float(sums.min()):g} to {float(sums.max()):g}"
        )
    return given


def _require_labels(labels: object, probabilities: Tensor) -> Tensor:
    """The labels as int64 (N,), refused where they do not fit the probabilities (..., K)."""
    if hasattr(labels, "__array__"):
        given = labels
        labels = _as_tensor(labels)
        if not isinstance(labels, Tensor):
            raise InputError(
                f"labels must be whole numbers of shape {tuple(probabilities.shape[:-1])}, the positions of "
                f"the classes, got an array of {np.asarray(given).dtype}"
            )
    checked = require_labels(labels, probabilities.shape[:-1], probabilities.shape[-1])
    return checked.detach().cpu().long().reshape(-1)


def _as_tensor(values: object) -> object:
    """Arrays of numbers as tensors; anything else, such as an array of names, as it is."""
    if isinstance(values, Tensor):
        return values
    try:
        return torch.from_numpy(np.array(values))
    except TypeError:
        return values


def _require_enough_of_each(counts: Tensor, coverage: float, classes: Sequence[str] | None) -> None:
    """Refuse classes with fewer held-out samples (K,) than the promise needs."""
    needed = fewest_samples(coverage)
    lacking = []
    for place, count in enumerate(counts.tolist()):
        if count < needed:
            name = str(place) if classes is None else classes[place]
            lacking.append(f"{name} has {count}")
    if lacking:
        raise DataError(
            f"a coverage of {percent(coverage)} of each class needs {needed} held-out samples of each: "
            f"{listed(lacking, _SHOWN)}. Use more samples, a lower coverage, or a promise for all classes "
            "together"
        )
