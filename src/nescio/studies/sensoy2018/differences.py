"""What differs from the paper's set-up, in words; the table of settings has the numbers of each training."""

from __future__ import annotations

from collections.abc import Sequence

from nescio.studies.sensoy2018.book import TITLES, Book
from nescio.studies.sensoy2018.experiments import PRESETS, Experiment, Study

# True of every preset, which a test holds them to.
ALWAYS = (
    "The convolutions are not padded (VALID), as in the code of Louizos and Welling, whose set-up the paper "
    "follows; the author's own code pads them (SAME).",
    "The author's code has, for MNIST, 50 epochs in batches of 1000 at a constant rate; for CIFAR5 nothing "
    "is published. Louizos and Welling average 100 draws of the weights for a prediction.",
    "EDL as this library trains it by default has exp evidence, not ReLU, and no weight penalty. In training "
    "half of the hidden layer is dropped, as in the author's code; the paper says nothing of it for EDL.",
    "EDL (as in the paper) starts the biases of its outputs at 1: all ReLU evidence is alive at first.",
    "The three losses are compared with exp evidence and without a penalty, all else alike. The author's "
    "code has ReLU and a penalty of 0.005 with equation 5, exp and 0.001 with the other two.",
)


def differences(book: Book) -> list[str]:
    """A sentence or two for each."""
    studies = [study for study in PRESETS[book.preset] if study.name in book.studies]
    return [*ALWAYS, _members(studies), _attacked(studies)]


def _members(studies: Sequence[Study]) -> str:
    found = [_size(each) for study in studies for each in study.experiments(1)]
    return (
        f"Deep Ensemble: {'; '.join(each for each in found if each)}. The paper does not say how many it has."
    )


def _size(experiment: Experiment) -> str:
    size = getattr(experiment.method, "size", None)
    where = TITLES[experiment.study.name]
    return f"on {where} {size} networks of {experiment.training.epochs} epochs" if size else ""


def _attacked(studies: Sequence[Study]) -> str:
    found = "; ".join(f"on {TITLES[study.name]} {study.measuring.attacked}" for study in studies)
    return f"Only some of the test images are attacked, the same for all methods: {found}."
