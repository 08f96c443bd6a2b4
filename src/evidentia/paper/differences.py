"""What differs from the paper's set-up, in words made from the experiments themselves."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from evidentia.paper.book import CIFAR5, MNIST, TITLES, Book, label
from evidentia.paper.experiments import KNOWN, PRESETS, ROTATION, Experiment, Study
from evidentia.paper.table1 import PUBLISHED

Value = TypeVar("Value", bound=Hashable)
ADAM = 1e-3  # the learning rate of its default settings
PAPER = "edl-paper"
# Of the author's notebook: mean evidence of right answers; u of the 1 upright, and from 40 to 140 degrees.
AUTHOR_EVIDENCE, AUTHOR_UPRIGHT, AUTHOR_TURNED = 56, 0.13, 1.0


def differences(book: Book) -> list[str]:
    """A sentence or two for each."""
    every = PRESETS[book.preset]
    main = [study for study in every if study.name in book.studies]
    said = [
        _padding(main),
        _lengths(every),
        _unpublished(main),
        _schedule(main),
        _rates(main),
        _evidence(main),
        _start(main),
        _dropout(main),
        _members(main),
        _draws(main),
        _warm_up(main),
        _attacked(main),
        _precision(main),
        accuracy_as_published(book),
    ]
    return [each for each in said if each]


def samples(experiment: Experiment) -> tuple[int, int] | None:
    """Draws that a prediction is the mean of, when measured and when attacked; None for a method without."""
    changes = experiment.changes
    measured: Any = replace(experiment.method, **changes.measured)  # type: ignore[type-var]
    attacked = replace(measured, **changes.attacked)
    return (measured.samples, attacked.samples) if hasattr(measured, "samples") else None


def _first(study: Study) -> list[Experiment]:
    """One experiment of each variant."""
    return [each for each in study.experiments() if each.seed == 0]


def _of_all(studies: Sequence[Study], variant: str) -> list[Experiment]:
    return [each for study in studies for each in _first(study) if each.variant.name == variant]


def _setting(experiment: Experiment, name: str) -> Any:
    """Of the method; None where it has none of that name."""
    return getattr(experiment.method, name, None)


def _name(variant: str) -> str:
    """For people; in quotes where it would be torn apart within a sentence."""
    return f'"{label(variant)}"' if "," in label(variant) else label(variant)


def _grouped(study: Study, of: Callable[[Experiment], Value]) -> dict[Value, str]:
    """From each value to the variants that have it, in words."""
    groups: dict[Value, list[str]] = {}
    for experiment in _first(study):
        groups.setdefault(of(experiment), []).append(_name(experiment.variant.name))
    return {value: " / ".join(names) for value, names in groups.items()}


def _places(said: Iterable[tuple[Study, str]]) -> str:
    """For each study what is said of it, if anything."""
    return "; ".join(f"on {_title(study)} {text}" for study, text in said if text)


def _title(study: Study) -> str:
    return f"{TITLES[study.name]} ({study.name})" if study.name != study.data else TITLES[study.name]


def _padding(studies: Sequence[Study]) -> str:
    if {each.network.padding for study in studies for each in _first(study)} != {"valid"}:
        return ""
    return (
        "The convolutions are not padded (VALID), as in the code of Louizos and Welling whose set-up the "
        "paper follows; the author's own code pads them (SAME)."
    )


def _lengths(studies: Sequence[Study]) -> str:
    def words(study: Study) -> str:
        groups = _grouped(study, lambda each: (each.training.epochs, each.training.batch_size))
        usual = (study.training.epochs, study.training.batch_size)
        others = ", ".join(
            f"{names}: {value[0]} of {value[1]}" for value, names in groups.items() if value != usual
        )
        return f"{usual[0]} epochs in batches of {usual[1]}" + (f" ({others})" if others else "")

    return (
        f"Epochs and batches: {_places((study, words(study)) for study in studies)}. The author's code for "
        "MNIST has 50 epochs in batches of 1000."
    )


def _unpublished(studies: Sequence[Study]) -> str:
    paper = [each.training for each in _of_all(studies, PAPER) if each.study.name == CIFAR5]
    if not paper:
        return ""
    return (
        f"For CIFAR5 no epochs and batches are published: those of {_name(PAPER)} are ours too, "
        f"{paper[0].epochs} epochs in batches of {paper[0].batch_size}, {paper[0].schedule} learning rate."
    )


def _schedule(studies: Sequence[Study]) -> str:
    groups = [(study, _grouped(study, lambda each: each.training.schedule)) for study in studies]
    if not any("cosine" in names for _, names in groups):
        return ""
    constant = _places((study, f"for {names['constant']}") for study, names in groups if "constant" in names)
    return (
        "The learning rate falls along a cosine over the training; with Adam's default settings, which the "
        "paper names, it stays." + (f" It stays here too {constant}." if constant else "")
    )


def _rates(studies: Sequence[Study]) -> str:
    def words(study: Study) -> str:
        groups = _grouped(study, lambda each: each.training.learning_rate)
        return ", ".join(f"{rate:g} for {names}" for rate, names in groups.items() if rate != ADAM)

    found = _places((study, words(study)) for study in studies)
    return f"The learning rate, {ADAM:g} by Adam's defaults, is {found}." if found else ""


def _evidence(studies: Sequence[Study]) -> str:
    found = {_setting(each, "evidence") for each in _of_all(studies, "edl")} - {"relu"}
    if not found:
        return ""
    return f"EDL, as this library trains it by default, has {', '.join(sorted(found))} evidence, not ReLU."


def _start(studies: Sequence[Study]) -> str:
    starts = {_setting(each, "output_bias") for each in _of_all(studies, PAPER)} - {0.0}
    if not starts:
        return ""
    return (
        f"{_name(PAPER)} starts the biases of its outputs at "
        f"{', '.join(f'{one:g}' for one in sorted(starts))} and not near 0, to keep ReLU evidence alive."
    )


def _dropout(studies: Sequence[Study]) -> str:
    def words(study: Study) -> str:
        groups = _grouped(study, lambda each: each.network.dropout)
        return ", ".join(f"{100 * share:g}% for {names}" for share, names in groups.items() if share)

    found = _places((study, words(study)) for study in studies)
    if not found:
        return ""
    return (
        f"Dropout of the hidden layer in training: {found}; none for the others. The author's code has 50% "
        "for EDL; the paper does not speak of it."
    )


def _members(studies: Sequence[Study]) -> str:
    found = [
        f"{_setting(each, 'size')} networks of {each.training.epochs} epochs on {_title(each.study)}"
        for each in _of_all(studies, "ensemble")
    ]
    if not found:
        return ""
    return f"{_name('ensemble')}: {', '.join(found)}. The paper does not say how many it has."


def _draws(studies: Sequence[Study]) -> str:
    def words(study: Study) -> str:
        groups = _grouped(study, samples)
        return ", ".join(
            f"{names} {drawn[0]} (attacked: {drawn[1]})" for drawn, names in groups.items() if drawn
        )

    found = _places((study, words(study)) for study in studies)
    if not found:
        return ""
    return f"Draws that a prediction is the mean of: {found}. Louizos and Welling take 100 for MNF."


def _warm_up(studies: Sequence[Study]) -> str:
    def words(study: Study) -> str:
        groups = _grouped(study, lambda each: _setting(each, "warm_up_epochs"))
        return ", ".join(f"{epochs:g} epochs for {names}" for epochs, names in groups.items() if epochs)

    found = _places((study, words(study)) for study in studies)
    return f"The divergence from the prior grows to its full weight: {found}." if found else ""


def _attacked(studies: Sequence[Study]) -> str:
    found = _places((study, f"{study.measuring.attacked}") for study in studies)
    return f"Attacked are not all test images but, drawn once for all methods, {found}." if found else ""


def _precision(studies: Sequence[Study]) -> str:
    if {each.training.precision for study in studies for each in _first(study)} != {"auto"}:
        return ""
    return "The networks are trained in bfloat16 where the hardware has it."


def accuracy_as_published(book: Book) -> str:
    """Why EDL as in the paper is less accurate on MNIST than published, by its own numbers, if it is."""
    study = book.study(MNIST)
    accuracy = book.mean(study, PAPER, KNOWN, "scores", "accuracy")
    right, rejected = (book.mean(study, PAPER, KNOWN, "evidence", name) for name in ("right", "rejected"))
    published = PUBLISHED[PAPER][MNIST]
    if study != MNIST or accuracy is None or right is None or rejected is None or rejected == 1:
        return ""
    if 100 * accuracy >= published:
        return ""
    return (
        f"{_name(PAPER)} gets {100 * accuracy:.2f}% right on MNIST where {published:g}% are published. With "
        f"ReLU {100 * rejected:.2f}% of the test images get no evidence at all and count as wrong; of the "
        f"rest {100 * accuracy / (1 - rejected):.2f}% are right. Its mean evidence of right answers is "
        f"{right:.0f}, in the author's notebook {AUTHOR_EVIDENCE}{_turned(book, study)}."
    )


def _turned(book: Book, study: str) -> str:
    numbers = book.numbers(study, PAPER, ROTATION)
    if not numbers:
        return ""
    upright = statistics.fmean(each["uncertainty"][0] for each in numbers)
    turned = statistics.fmean(
        u
        for each in numbers
        for degrees, u in zip(each["degrees"], each["uncertainty"], strict=True)
        if 40 <= degrees <= 140
    )
    return (
        f"; u of the turning 1 is {upright:.2f} upright and {turned:.2f} between 40 and 140 degrees, there "
        f"{AUTHOR_UPRIGHT} and {AUTHOR_TURNED}"
    )
