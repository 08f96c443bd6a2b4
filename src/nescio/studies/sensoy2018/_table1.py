"""Table 1: test accuracy of all methods, ours by three ways of counting beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nescio.studies._estimates import Estimate, estimate, text_of
from nescio.studies._figures import Row
from nescio.studies.report import Table
from nescio.studies.sensoy2018._arms import BAYESIAN, label, labels
from nescio.studies.sensoy2018._results import CIFAR5, DIGITS_OF, MNIST, TITLES, PaperResults
from nescio.studies.sensoy2018.presets import KNOWN, OOD

# In percent, as printed in the paper; of the notebook, as its author's run printed it.
PUBLISHED = {
    "l2": {MNIST: 99.4, CIFAR5: 76.0},
    "dropout": {MNIST: 99.5, CIFAR5: 84.0},
    "ensemble": {MNIST: 99.3, CIFAR5: 79.0},
    "ffgu": {MNIST: 99.1, CIFAR5: 78.0},
    "fflu": {MNIST: 99.1, CIFAR5: 77.0},
    "mnfg": {MNIST: 99.3, CIFAR5: 84.0},
    "edl": {MNIST: 99.3, CIFAR5: 83.0},
    "edl-printed": {MNIST: 99.3, CIFAR5: 83.0},
    "edl-notebook": {MNIST: 98.8},
}
CIFAR5_IMAGES = 25_000  # of training, those kept apart included
AS_SOFTMAX = 0.05  # of the greatest entropy: doubt that differs by no more is called the same
NEARLY_DETERMINISTIC = 1e-3  # an initial sigma up to here is small beside weights with a spread of 0.02


def tables(results: PaperResults) -> list[Table]:
    """One for each of the paper's data sets."""
    return [_table(results, role) for role in (MNIST, CIFAR5) if results.comparison(role)]


def _table(results: PaperResults, role: str) -> Table:
    comparison = results.comparison(role)
    assert comparison is not None
    title = f"Table 1, {TITLES[comparison]}: accuracy on the test images, %"
    published = "the paper" if comparison == role else f"the paper, {TITLES[role]}"
    header = ("method", "seeds", "strict", "by raw outputs", "among the answered", "answered", published)
    rows = []
    for arm in results.listed(comparison):
        seeds = len(results.numbers(comparison, arm, KNOWN))
        rows.append((label(arm), str(seeds), *_cells(results, role, arm), _published(arm, role)))
    caption = (
        "Strict, as in the paper's text: a prediction without any evidence (u = 1) counts as wrong. By raw "
        "outputs, as the author's notebook counts: the class of the greatest output, evidence or not. Among "
        "the answered: of the images with any evidence, whose share stands beside it. In brackets 95% "
        "intervals: Student's over three seeds, Wilson's over the images where there is one."
    )
    if role == CIFAR5:
        caption += nearly_deterministic(results)
    return Table(f"table1-{role}", title, caption, header, rows)


def _cells(results: PaperResults, role: str, arm: str) -> list[str]:
    comparison = results.comparison(role)
    digits = DIGITS_OF[role]
    strict = results.share(comparison, arm, KNOWN, "scores", "accuracy")
    raw = results.share(comparison, arm, KNOWN, "scores", "raw_accuracy")
    answered = results.share(comparison, arm, KNOWN, "scores", "answered")
    among = "-"
    share = text_of(answered, digits, 100)
    if answered is not None and answered.mean == 1:
        among = "the same"
        share = "all"
    elif answered is not None:
        among = text_of(_among_answered(results, comparison, arm, answered), digits, 100)
    return [text_of(strict, digits, 100), text_of(raw, digits, 100), among, share]


def _among_answered(
    results: PaperResults, comparison: str | None, arm: str, answered: Estimate
) -> Estimate | None:
    """The accuracy among the answered, which are fewer images."""
    values = results.values(comparison, arm, KNOWN, "scores", "answered_accuracy")
    images = results.images(comparison, arm, KNOWN)
    count = round(answered.mean * images) if images else None
    return estimate(values, is_share=True, images=count)


def _published(arm: str, role: str) -> str:
    value = PUBLISHED[arm].get(role)
    if value is None:
        return "-"
    return f"{value:g} (notebook)" if arm == "edl-notebook" else f"{value:g}"


def nearly_deterministic(results: PaperResults) -> str:
    """What small sigmas mean for the Bayesian rows of CIFAR5, in two sentences from their own numbers."""
    comparison = results.comparison(CIFAR5)
    trainings = {}
    for arm in BAYESIAN:
        for result in results.of(comparison, arm)[:1]:
            if result.training["method"]["initial_sigma"] <= NEARLY_DETERMINISTIC:
                trainings[arm] = result.training
    if not trainings:
        return ""
    training = next(iter(trainings.values()))
    images = CIFAR5_IMAGES - training["held_out"]
    nats = _num_weights(training["encoder"]) / images
    most = math.log(training["encoder"]["num_classes"])
    sigma = training["method"]["initial_sigma"]
    batches = math.ceil(images / training["training"]["batch_size"])
    steps = batches * training["training"]["epochs"]
    return (
        f" {labels(trainings)} on CIFAR5: at full weight one nat for each weight is {nats:.0f} nats an "
        f"image, against a cross-entropy of at most {most:.1f}, so that long training underfits. Their "
        f"weights start with a sigma of {sigma:g}, which {steps} steps leave small: these networks are close "
        f"to deterministic{_doubt_beside_softmax(results, list(trainings))}."
    )


def _doubt_beside_softmax(results: PaperResults, arms: Sequence[str]) -> str:
    """Which of these arms doubt unseen classes about as much as L2 does, and which do not."""
    comparison = results.comparison(CIFAR5)
    entropies = {}
    for arm in ("l2", *arms):
        mean = results.mean(comparison, arm, OOD, "scores", "ood_mean_entropy")
        if mean is not None:
            entropies[arm] = mean
    usual = entropies.pop("l2", None)
    if usual is None or not entropies:
        return ""
    alike = []
    unlike = []
    for arm, mean in entropies.items():
        said = f"{label(arm)} ({100 * mean:.0f}%)"
        if abs(mean - usual) <= AS_SOFTMAX:
            alike.append(said)
        else:
            unlike.append(said)
    softmax = f"mean entropy on the unseen classes: L2 {100 * usual:.0f}%"
    if not alike:
        return f", but their doubt is not that of a softmax network ({softmax}, {', '.join(unlike)})"
    said = (
        f", and the doubt of {', '.join(alike)} is that of a softmax network rather than of many ({softmax})"
    )
    if unlike:
        said += f", that of {', '.join(unlike)} is not"
    return said


def _num_weights(encoder: dict[str, int]) -> int:
    from nescio.encoders import spec_from_dict

    network = spec_from_dict(encoder).build()
    return sum(weight.numel() for weight in network.parameters())


def rows(results: PaperResults) -> list[Row]:
    """Every score of every training, for a CSV file."""
    found = []
    for each in results.results:
        if each.comparison in results.comparisons and KNOWN in each.numbers:
            scores = each.numbers[KNOWN]["scores"]
            found.append({"data": each.comparison, "method": each.arm, "seed": each.seed, **scores})
    return found
