"""Coverage and size of conformal sets beside two other libraries: python -m benchmarks.conformal

Needs `pip install mapie crepes` and the data set letter. A softmax perceptron is trained on a quarter of it;
of its predictions of the rest, 1,000 by chance give the thresholds and 2,000 others are covered, 200 times.
Ends with 1 where the mean coverage of our sets, of each class where that is promised, lies below its promise
by more than three standard errors, or where our sets are larger than another library's of the same score.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

import nescio
from nescio.posthoc.conformal import ConformalSets

SPLITS = 200
CALIBRATION = 1000
NEW = 2000
COVERAGE = 0.9
STANDARD_ERRORS = 3
ROUNDING = 1e-3  # classes in a set: what other draws, or thresholds that differ by one sample, may make
# Of the same score: ours, and another library's.
SAME_SCORE = (
    ("lac, nescio", "lac, mapie"),
    ("lac, nescio", "lac, crepes"),
    ("aps randomized, nescio", "aps randomized, mapie"),
    ("lac by class, nescio", "lac by class, crepes"),
)

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]


def predictions() -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (N, K) and labels (N,) of samples that the network was not trained on."""
    letters = nescio.data.load("letter")
    known, rest = nescio.data.split(letters, 0.75, seed=0)
    settings = nescio.TrainingSettings(epochs=10, batch_size=64, optimizer="adam")  # without weight decay
    model = nescio.TrainedModel.train(known, "softmax", settings=settings)
    prediction = model.predict(rest.inputs)
    return prediction.probabilities.double().numpy(), model.labels_of(rest).numpy()


class Given:
    """A classifier for mapie whose inputs are the probabilities themselves."""

    def __init__(self, num_classes: int) -> None:
        self.classes_ = np.arange(num_classes)
        self.is_fitted_ = True

    def fit(self, x: np.ndarray, y: np.ndarray) -> Given:
        """Nothing is to be learned."""
        return self

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        """The inputs."""
        return np.asarray(x / x.sum(1, keepdims=True))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The most probable class."""
        return np.asarray(x.argmax(1))


def by_mapie(score: str, **parameters: Any) -> Callable[[Arrays, int], np.ndarray]:
    """Sets of mapie."""
    from mapie.classification import SplitConformalClassifier
    from sklearn.base import BaseEstimator, ClassifierMixin

    estimator = type("Estimator", (Given, ClassifierMixin, BaseEstimator), {})

    def sets(data: Arrays, seed: int) -> np.ndarray:
        known, labels, new = data
        classifier = SplitConformalClassifier(
            estimator(known.shape[1]), COVERAGE, score, prefit=True, random_state=seed
        )
        classifier.conformalize(known, labels)
        given = {"conformity_score_params": parameters} if parameters else {}
        _, inside = classifier.predict_set(new, **given)
        return np.asarray(inside[:, :, 0])

    return sets


def by_crepes(by_class: bool) -> Callable[[Arrays, int], np.ndarray]:
    """Sets of crepes, on the same scores 1 - p."""
    from crepes import ConformalClassifier

    def sets(data: Arrays, seed: int) -> np.ndarray:
        known, labels, new = data
        of_truth = 1 - known[np.arange(len(labels)), labels]
        classifier = ConformalClassifier()
        if not by_class:
            classifier.fit(of_truth)
            return np.asarray(classifier.predict_set(1 - new, confidence=COVERAGE, smoothing=False), bool)
        columns = []
        classifier.fit(of_truth, bins=labels)
        for place in range(new.shape[1]):
            bins = np.full(len(new), place)
            scores = (1 - new[:, place])[:, None]
            columns.append(
                np.asarray(classifier.predict_set(scores, bins=bins, confidence=COVERAGE, smoothing=False))
            )
        return np.concatenate(columns, 1).astype(bool)

    return sets


def by_nescio(**options: Any) -> Callable[[Arrays, int], np.ndarray]:
    """Our sets."""

    def sets(data: Arrays, seed: int) -> np.ndarray:
        known, labels, new = data
        fitted = ConformalSets.fit(
            torch.tensor(known), torch.tensor(labels), COVERAGE, allow_empty=True, seed=seed, **options
        )
        return fitted.contains(torch.tensor(new)).numpy()

    return sets


def broken_promises(measured: Mapping[str, Sequence[Sequence[float]]]) -> list[str]:
    """What does not hold, in words.

    Args:
        measured: For each way, for each split: the coverage, that of each class, and the size of sets.
    """
    broken = []
    for name, rows in measured.items():
        if not name.endswith("nescio"):
            continue
        values = np.array(rows)
        promised = values[:, :-1] if "by class" in name else values[:, :1]
        errors = promised.std(0, ddof=1) / np.sqrt(len(promised))
        for place, (mean, error) in enumerate(zip(promised.mean(0), errors, strict=True)):
            if mean < COVERAGE - STANDARD_ERRORS * error:
                of = f"class {place}" if place else "all"
                broken.append(f"{name}: {of} covered {mean:.4f}, {COVERAGE} promised")
    for ours, theirs in SAME_SCORE:
        size = np.mean(measured[ours], 0)[-1]
        other = np.mean(measured[theirs], 0)[-1]
        if size > other + ROUNDING:
            broken.append(f"{ours}: {size:.4f} classes in a set, {theirs} has {other:.4f}")
    return broken


def main() -> None:
    """Print a table: coverage, the least coverage of a class, and the size of sets; end with 1 on a miss."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--splits", type=int, default=SPLITS)
    splits = parser.parse_args().splits
    ways = {
        "lac, nescio": by_nescio(score="lac"),
        "lac, mapie": by_mapie("lac"),
        "lac, crepes": by_crepes(by_class=False),
        "aps, nescio": by_nescio(score="aps"),
        "aps, mapie": by_mapie("aps", include_last_label=True),
        "aps randomized, nescio": by_nescio(score="aps", randomized=True),
        "aps randomized, mapie": by_mapie("aps", include_last_label="randomized"),
        "raps, nescio": by_nescio(score="raps"),
        "raps, mapie": by_mapie("raps", include_last_label=True),
        "raps randomized, nescio": by_nescio(score="raps", randomized=True),
        "raps randomized, mapie": by_mapie("raps", include_last_label="randomized"),
        "lac by class, nescio": by_nescio(score="lac", by_class=True),
        "lac by class, crepes": by_crepes(by_class=True),
    }
    probabilities, labels = predictions()
    accuracy = (probabilities.argmax(1) == labels).mean()
    print(f"{len(labels)} samples of {probabilities.shape[1]} classes, accuracy {accuracy:.3f}\n")
    measured = defaultdict(list)
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(labels))
        known, new = order[:CALIBRATION], order[CALIBRATION : CALIBRATION + NEW]
        data = (probabilities[known], labels[known], probabilities[new])
        for name, sets in ways.items():
            inside = sets(data, seed)
            covered = inside[np.arange(len(new)), labels[new]]
            of_class = [covered[labels[new] == place].mean() for place in range(probabilities.shape[1])]
            measured[name].append((covered.mean(), *of_class, inside.sum(1).mean()))
    print("| | coverage | least of a class | classes in a set |\n|---|---|---|---|")
    for name, rows in measured.items():
        mean = np.mean(rows, 0)
        print(f"| {name} | {100 * mean[0]:.2f} % | {100 * mean[1:-1].min():.1f} % | {mean[-1]:.3f} |")
    broken = broken_promises(measured)
    for line in broken:
        print(line)
    sys.exit(int(bool(broken)))


if __name__ == "__main__":
    main()
