"""What is trained and measured: experiments as differences from defaults. All numbers to tune are here."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from nescio.encoders import LeNetSpec, spec_to_dict
from nescio.errors import InputError
from nescio.methods import Method, make_method, method_to_dict
from nescio.training import TrainingSettings

Settings = Mapping[str, Any]
Base = TypeVar("Base", LeNetSpec, TrainingSettings)

KNOWN, STRANGERS, ROTATION = "known", "strangers", "rotation"
FGSM, PGD, TRANSFER = "fgsm", "pgd", "transfer"
ALL_PARTS = (KNOWN, STRANGERS, ROTATION, FGSM, PGD, TRANSFER)
SCORES = (KNOWN, STRANGERS)
SOURCE = "l2"  # the variant whose adversarial images are shown to all others


@dataclass(frozen=True)
class Changes:
    """Differences from defaults, by field name.

    method: settings it is trained with; network, training: of the study's own; measured: settings of the
    method that differ when it predicts; attacked: those that differ when it is attacked.
    """

    method: Settings = field(default_factory=dict)
    network: Settings = field(default_factory=dict)
    training: Settings = field(default_factory=dict)
    measured: Settings = field(default_factory=dict)
    attacked: Settings = field(default_factory=dict)

    def then(self, other: Changes) -> Changes:
        """These, and the other's on top."""
        names = [each.name for each in dataclasses.fields(self)]
        return Changes(**{name: {**getattr(self, name), **getattr(other, name)} for name in names})


@dataclass(frozen=True)
class Variant:
    """One line of the tables: a method with its differences."""

    name: str
    label: str
    method: str
    changes: Changes = field(default_factory=Changes)


@dataclass(frozen=True)
class Line:
    """A variant within a study: how many seeds, and what is measured."""

    variant: str
    seeds: int = 1
    parts: tuple[str, ...] = ALL_PARTS


@dataclass(frozen=True)
class Measuring:
    """What the trained networks are asked.

    known, strangers, attacked: so many images, drawn once for all; None for all of them. batch: images
    attacked at once. rotation: whether there is a digit 1 to turn.
    """

    known: int | None = None
    strangers: int | None = None
    attacked: int = 1000
    batch: int = 250
    rotation: bool = True
    fgsm: tuple[float, ...] = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    pgd: tuple[float, ...] = (0.0, 0.05, 0.1, 0.2, 0.3)
    steps: int = 10


@dataclass(frozen=True)
class Study:
    """A data set, the strangers that go with it, the network, the training, and the variants' lines.

    about_seeds: the question is how often something happens, and the number of seeds belongs to it.
    """

    name: str
    data: str
    strangers: str
    network: LeNetSpec
    training: TrainingSettings
    lines: tuple[Line, ...]
    changes: Mapping[str, Changes] = field(default_factory=dict)
    measuring: Measuring = field(default_factory=Measuring)
    about_seeds: bool = False

    def experiments(self, seeds: int | None = None) -> list[Experiment]:
        """Every variant with every seed; seeds: so many for each, instead of the study's own number."""
        given = None if self.about_seeds else seeds
        return [
            Experiment(VARIANTS[line.variant], self, seed, self._parts(line))
            for line in self.lines
            for seed in range(given or line.seeds)
        ]

    def _parts(self, line: Line) -> tuple[str, ...]:
        left_out = set() if self.measuring.rotation else {ROTATION}
        if line.variant == SOURCE:
            left_out |= {TRANSFER}
        return tuple(part for part in line.parts if part not in left_out)


@dataclass(frozen=True)
class Experiment:
    """One training, and what is measured of it."""

    variant: Variant
    study: Study
    seed: int
    parts: tuple[str, ...] = ALL_PARTS

    @property
    def name(self) -> str:
        """Its place among the results: study/variant-seed."""
        return f"{self.study.name}/{self.variant.name}-{self.seed}"

    @property
    def changes(self) -> Changes:
        """The variant's, with the study's own for it on top."""
        return self.variant.changes.then(self.study.changes.get(self.variant.name, Changes()))

    @property
    def method(self) -> Method:
        """As trained."""
        return make_method(self.variant.method, **self.changes.method)

    @property
    def network(self) -> LeNetSpec:
        """What is built."""
        return _replaced(self.study.network, self.changes.network)

    @property
    def training(self) -> TrainingSettings:
        """How it is trained."""
        return _replaced(self.study.training, {**self.changes.training, "seed": self.seed})

    @property
    def samples(self) -> tuple[int, int] | None:
        """Draws that a prediction is the mean of, when measured and when attacked; None without any."""
        measured: Any = replace(self.method, **self.changes.measured)  # type: ignore[type-var]
        attacked = replace(measured, **self.changes.attacked)
        return (measured.samples, attacked.samples) if hasattr(measured, "samples") else None

    @property
    def source(self) -> Experiment:
        """The experiment whose adversarial images are shown to this one."""
        return replace(self, variant=VARIANTS[SOURCE], parts=())

    def description(self) -> dict[str, Any]:
        """Everything that the trained weights depend on, as plain data."""
        return {
            "data": self.study.data,
            "method": method_to_dict(self.method),
            "network": spec_to_dict(self.network),
            "training": self.training.to_dict(),
        }


def _replaced(base: Base, changes: Settings) -> Base:
    try:
        return replace(base, **changes)
    except TypeError as error:
        raise InputError(f"settings do not fit {type(base).__name__}: {error}") from error


WITHOUT_DROPOUT: Settings = {"dropout": 0.0}
PAPER_LOSS: Settings = {
    "risk": "squared_error",
    "evidence": "relu",
    "divergence_weight": 1.0,
    "annealing_epochs": 10,
    "weight_decay": 0.005,
}
FASTER: Settings = {"learning_rate": 2e-3}  # spreads of weights have far to go from where they start
PAPER_TRAINING: Settings = {"batch_size": 1000, "epochs": 50, "schedule": "constant"}

# The seven of the paper, EDL also exactly as published, and what is compared with EDL alone.
VARIANTS: Mapping[str, Variant] = {
    variant.name: variant
    for variant in (
        Variant("l2", "L2", "l2", Changes({"weight_decay": 0.005}, WITHOUT_DROPOUT)),
        Variant("dropout", "Dropout", "dropout"),
        Variant("ensemble", "Deep Ensemble", "ensemble", Changes(network=WITHOUT_DROPOUT)),
        Variant("ffgu", "FFGU", "ffgu", Changes(network=WITHOUT_DROPOUT)),
        Variant("fflu", "FFLU", "fflu", Changes(network=WITHOUT_DROPOUT)),
        Variant("mnfg", "MNFG", "mnfg", Changes(network=WITHOUT_DROPOUT)),
        Variant("edl", "EDL", "edl"),
        Variant(
            "edl-paper",
            "EDL (as in the paper)",
            "edl",
            Changes({**PAPER_LOSS, "output_bias": 1.0}, training=PAPER_TRAINING),
        ),
        Variant(
            "edl-paper-bias-0",
            "EDL (as in the paper, usual start)",
            "edl",
            Changes(PAPER_LOSS, training=PAPER_TRAINING),
        ),
        Variant("edl-cross-entropy", "EDL (equation 4)", "edl", Changes({"risk": "cross_entropy"})),
        Variant("edl-type2", "EDL (equation 3)", "edl", Changes({"risk": "type2"})),
    )
}
COMPARED = ("l2", "dropout", "ensemble", "ffgu", "fflu", "mnfg", "edl", "edl-paper")
LOSSES = {"edl": "squared error (5)", "edl-cross-entropy": "cross-entropy (4)", "edl-type2": "type II (3)"}
DEATHS = ("edl-paper", "edl-paper-bias-0")
DEATH_SEEDS = 10


def _lines(seeds: Mapping[str, int]) -> tuple[Line, ...]:
    return tuple(Line(name, seeds.get(name, 1)) for name in COMPARED)


def _loss_lines(seeds: int) -> tuple[Line, ...]:
    return tuple(Line(name, seeds, SCORES) for name in LOSSES if name not in COMPARED)


def _deaths(epochs: int) -> Study:
    """How often a class of the paper's network dies, on the embedded digits."""
    return Study(
        name="deaths",
        data="digits",
        strangers="letters",
        network=LeNetSpec(),
        training=TrainingSettings(epochs=epochs, batch_size=128),
        lines=tuple(Line(name, DEATH_SEEDS, (KNOWN,)) for name in DEATHS),
        changes={name: Changes(training={"epochs": epochs, "batch_size": 128}) for name in DEATHS},
        about_seeds=True,
    )


QUICK = (
    Study(
        name="digits",
        data="digits",
        strangers="letters",
        network=LeNetSpec(),
        training=TrainingSettings(epochs=8, batch_size=128),
        lines=(*_lines({}), *_loss_lines(1)),
        changes={
            "ensemble": Changes({"num_members": 2}),
            "dropout": Changes(measured={"samples": 20}, attacked={"samples": 5}),
            "ffgu": Changes(measured={"samples": 20}, attacked={"samples": 5}),
            "fflu": Changes(measured={"samples": 20}, attacked={"samples": 5}),
            "mnfg": Changes(measured={"samples": 20}, attacked={"samples": 5}),
            "edl-paper": Changes(training={"epochs": 8, "batch_size": 128, "schedule": "cosine"}),
        },
        measuring=Measuring(strangers=1000, attacked=200, batch=100, pgd=(0.0, 0.1, 0.2), steps=5),
    ),
    _deaths(epochs=2),
)

PAPER = (
    Study(
        name="mnist",
        data="mnist",
        strangers="notmnist",
        network=LeNetSpec(),
        training=TrainingSettings(epochs=15, batch_size=256),
        lines=(*_lines({"l2": 3, "edl": 3}), *_loss_lines(3)),
        changes={
            "ensemble": Changes({"num_members": 5}, training={"epochs": 8}),
            "dropout": Changes(measured={"samples": 50}, attacked={"samples": 10}),
            "ffgu": Changes(training=FASTER, measured={"samples": 20}, attacked={"samples": 10}),
            "fflu": Changes(
                {"warm_up_epochs": 10},  # from the start at full weight, this prior leaves too little over
                training={**FASTER, "epochs": 20},
                measured={"samples": 20},
                attacked={"samples": 10},
            ),
            "mnfg": Changes(training=FASTER, measured={"samples": 20}, attacked={"samples": 10}),
        },
        measuring=Measuring(attacked=500, batch=100),
    ),
    Study(
        name="cifar5",
        data="cifar5",
        strangers="cifar5-unseen",
        network=LeNetSpec.cifar5(),
        training=TrainingSettings(epochs=12, batch_size=128),
        lines=_lines({}),
        changes={
            "l2": Changes(training={"epochs": 10}),
            "ensemble": Changes({"num_members": 2}, training={"epochs": 4}),
            "dropout": Changes(training={"epochs": 10}, measured={"samples": 20}, attacked={"samples": 5}),
            "ffgu": Changes(training={"epochs": 5}, measured={"samples": 10}, attacked={"samples": 5}),
            "fflu": Changes(
                {"warm_up_epochs": 3},
                training={"epochs": 5},
                measured={"samples": 10},
                attacked={"samples": 5},
            ),
            "mnfg": Changes(training={"epochs": 6}, measured={"samples": 10}, attacked={"samples": 5}),
            "edl-paper": Changes(training={"epochs": 8, "batch_size": 128, "schedule": "cosine"}),
        },
        measuring=Measuring(
            attacked=200,
            batch=50,
            rotation=False,
            fgsm=(0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4),
            pgd=(0.0, 0.01, 0.02, 0.04, 0.08),
            steps=5,
        ),
    ),
    _deaths(epochs=10),
)

PRESETS: Mapping[str, tuple[Study, ...]] = {"quick": QUICK, "paper": PAPER}


@dataclass(frozen=True)
class Need:
    """What a table or figure is made from: parts of the results of variants within studies."""

    studies: tuple[str, ...]
    variants: tuple[str, ...]
    parts: tuple[str, ...]


MAIN = ("digits", "mnist", "cifar5")
ATTACKS = (FGSM, PGD, TRANSFER)
NEEDS: Mapping[str, Need] = {
    "table1": Need(MAIN, COMPARED, (KNOWN,)),
    "figure1": Need(("digits", "mnist"), ("l2", "edl", "edl-paper"), (ROTATION,)),
    "figure2": Need(MAIN, ("edl", "edl-paper"), (KNOWN,)),
    "figure3": Need(MAIN, COMPARED, (STRANGERS,)),
    "figure4": Need(("digits", "mnist"), COMPARED, ATTACKS),
    "figure5": Need(("cifar5",), COMPARED, ATTACKS),
    "losses": Need(("digits", "mnist"), tuple(LOSSES), SCORES),
    "deaths": Need(("deaths",), DEATHS, (KNOWN,)),
}


def plan(
    preset: str,
    seeds: int | None = None,
    sets: Sequence[str] = (),
    methods: Sequence[str] = (),
    only: Sequence[str] = (),
) -> list[Experiment]:
    """The experiments of a preset; sets, methods: only these studies and variants; only: what is to be made.

    The source of transferred attacks is the first of its study.
    """
    if preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be 1 or more, got {seeds}")
    studies = PRESETS[preset]
    _require_names("sets", sets, [study.name for study in studies])
    _require_names("methods", methods, list(VARIANTS))
    _require_names("only", only, list(NEEDS))
    planned = [
        experiment
        for study in studies
        if not sets or study.name in sets
        for experiment in study.experiments(seeds)
        if not methods or experiment.variant.name in methods
    ]
    needed = [each for each in (_needed(one, only) for one in planned) if each.parts]
    if not needed:
        asked = ", ".join((*only, *sets, *methods))
        raise InputError(f"the preset {preset} has nothing for {asked} together; paper has all, quick some")
    return needed


def _needed(experiment: Experiment, only: Sequence[str]) -> Experiment:
    """With the parts alone that are needed to make what is wanted."""
    if not only:
        return experiment
    wanted = {
        part
        for need in (NEEDS[name] for name in only)
        if experiment.study.name in need.studies and experiment.variant.name in need.variants
        for part in need.parts
    }
    return replace(experiment, parts=tuple(part for part in experiment.parts if part in wanted))


def _require_names(argument: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise InputError(f"{argument} must be of {', '.join(dict.fromkeys(known))}, got {name!r}")
