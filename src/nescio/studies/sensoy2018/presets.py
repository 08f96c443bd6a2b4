"""The presets: which arms are trained on which data, with every tuned number. `plan` makes a study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nescio._checks import require_whole
from nescio.errors import InputError
from nescio.studies.measurement import Measurement, TrainingCurve
from nescio.studies.plan import Settings, TrainingPlan
from nescio.studies.sensoy2018._arms import (
    ARMS,
    COMPARED,
    DEAD_CLASSES,
    EVIDENTIAL_ARMS,
    LATER_ENCODER,
    LATER_METHOD,
    LATER_TRAINING,
    LOSSES,
    SOURCE,
)
from nescio.studies.sensoy2018._measurements import (
    ANGLES,
    FastGradientSign,
    KnownClasses,
    OutOfDistribution,
    ProjectedGradient,
    Rotation,
    Transfer,
)
from nescio.studies.sensoy2018._overrides import EvalConfig, Overrides
from nescio.studies.study import Experiment, Study, require_names

TRAINING = TrainingCurve.name
KNOWN = KnownClasses.name
OOD = OutOfDistribution.name
ROTATION = Rotation.name
FGSM = FastGradientSign.name
PGD = ProjectedGradient.name
TRANSFER = Transfer.name
SCORES = (KNOWN, OOD)
ATTACKS = (FGSM, PGD, TRANSFER)
EVERYTHING = (KNOWN, OOD, ROTATION, *ATTACKS)


@dataclass(frozen=True)
class Entry:
    """An arm within a comparison.

    Args:
        arm: Its name.
        seeds: How many trainings.
        measurements: What is measured, beside the training itself.
        overrides: How it differs here from the arm and the comparison.
    """

    arm: str
    seeds: int = 1
    measurements: tuple[str, ...] = EVERYTHING
    overrides: Overrides = field(default_factory=Overrides)


@dataclass(frozen=True)
class Comparison:
    """Arms that are trained on one data set and asked the same.

    Args:
        name: What it is called, as by --sets.
        data: The data set.
        ood: The data set with images of no known class.
        encoder, training: Settings of all its trainings.
        held_out: So many training images are kept apart, to follow the trainings by.
        evaluation: What the networks are asked.
        entries: The arms.
        is_about_seeds: The question is how often something happens: the number of seeds belongs to it.
    """

    name: str
    data: str
    ood: str
    encoder: Settings
    training: Settings
    held_out: int
    evaluation: EvalConfig
    entries: tuple[Entry, ...]
    is_about_seeds: bool = False

    def entry(self, arm: str) -> Entry:
        """The entry of an arm."""
        return next(each for each in self.entries if each.arm == arm)

    def experiments(self, seeds: int | None = None) -> list[Experiment]:
        """Every arm with every seed; seeds: so many of each, instead of the comparison's own numbers."""
        experiments = []
        for entry in self.entries:
            overrides = ARMS[entry.arm].overrides.then(entry.overrides)
            count = entry.seeds if seeds is None or self.is_about_seeds else seeds
            for seed in range(count):
                experiments.append(self._experiment(entry, overrides, seed))
        return experiments

    def _experiment(self, entry: Entry, overrides: Overrides, seed: int) -> Experiment:
        plan = self._plan(overrides, seed)
        measurements: list[Measurement] = [TrainingCurve()]
        for name in entry.measurements:
            is_possible = name != ROTATION or self.evaluation.rotation
            if name == TRANSFER and entry.arm == SOURCE:
                is_possible = False
            if is_possible:
                measurements.append(self._measurement(name, plan, overrides))
        return Experiment(self.name, entry.arm, plan, tuple(measurements))

    def _plan(self, overrides: Overrides, seed: int) -> TrainingPlan:
        method = dict(overrides.method)
        return TrainingPlan(
            data=self.data,
            held_out=self.held_out,
            method=method,
            encoder={**self.encoder, **overrides.encoder},
            training={**self.training, **overrides.training, "seed": seed},
            later={
                "method": LATER_METHOD.get(str(method["name"]), {}),
                "encoder": LATER_ENCODER,
                "training": LATER_TRAINING,
            },
        )

    def _source(self, overrides: Overrides, seed: int) -> TrainingPlan:
        """The L2 network from which attacks are transferred."""
        entry = self.entry(SOURCE)
        own = ARMS[SOURCE].overrides.then(entry.overrides).then(overrides.source)
        return self._plan(own, seed)

    def _measurement(self, name: str, plan: TrainingPlan, overrides: Overrides) -> Measurement:
        config = overrides.applied_to(self.evaluation)
        seed = plan.seed
        samples = None
        attack_samples = None
        if "samples" in plan.method:
            samples = config.samples or plan.method["samples"]
            attack_samples = config.attack_samples or samples
        if name == KNOWN:
            return KnownClasses(self.data, config.known, samples, seed)
        if name == OOD:
            return OutOfDistribution(self.data, config.known, self.ood, config.ood, samples, seed)
        if name == ROTATION:
            return Rotation(self.data, ANGLES, samples, seed)
        attack: dict[str, Any] = {
            "test_data": self.data,
            "images": config.attacked,
            "batch": config.batch,
            "samples": attack_samples,
            "seed": seed,
        }
        if name == FGSM:
            return FastGradientSign(**attack, epsilons=config.fgsm)
        if name == TRANSFER:
            return Transfer(**attack, epsilons=config.fgsm, source=self._source(overrides, seed))
        fresh_draws = config.fresh_draws and attack_samples is not None
        return ProjectedGradient(**attack, epsilons=config.pgd, steps=config.steps, fresh_draws=fresh_draws)


MNIST_LENET: Settings = {
    "kind": "lenet",
    "in_channels": 1,
    "height": 28,
    "width": 28,
    "num_classes": 10,
    "filters": (20, 50),
    "hidden": 500,
}
CIFAR5_LENET: Settings = {
    "kind": "lenet",
    "in_channels": 3,
    "height": 32,
    "width": 32,
    "num_classes": 5,
    "filters": (192, 192),
    "hidden": 1000,
}
MNIST_TRAINING: Settings = {
    "epochs": 15,
    "batch_size": 256,
    "learning_rate": 1e-3,
    "schedule": "cosine",
    "shift": 0,
    "flip": False,
    "patience": None,
    "device": "cpu",
    "precision": "float32",
}
CIFAR5_TRAINING: Settings = {**MNIST_TRAINING, "epochs": 14, "batch_size": 128}
DIGITS_TRAINING: Settings = {
    **MNIST_TRAINING,
    "epochs": 8,
    "batch_size": 128,
    "device": "auto",
    "precision": "auto",
}
FASTER: Settings = {"learning_rate": 2e-3}  # spreads of weights have far to go from where they start
TENTHS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
DEAD_CLASS_SEEDS = 10


def _dead_classes(epochs: int) -> Comparison:
    """How often a class of a network with ReLU evidence dies, on the small set of digits."""
    same = Overrides(training={"epochs": epochs, "batch_size": 128, "schedule": "constant"})
    return Comparison(
        name="dead_classes",
        data="digits",
        ood="letters",
        encoder=MNIST_LENET,
        training=DIGITS_TRAINING,
        held_out=0,
        evaluation=replace(QUICK_EVALUATION, ood=None),
        entries=tuple(Entry(name, DEAD_CLASS_SEEDS, (KNOWN,), same) for name in DEAD_CLASSES),
        is_about_seeds=True,
    )


QUICK_EVALUATION = EvalConfig(
    known=None,
    ood=1000,
    attacked=200,
    batch=100,
    rotation=True,
    fgsm=TENTHS,
    pgd=(0.0, 0.1, 0.2),
    steps=5,
    fresh_draws=True,
)
_FEWER_SAMPLES = Overrides(evaluation={"samples": 20, "attack_samples": 5})
_SHORT = Overrides(training={"epochs": 8, "batch_size": 128, "schedule": "cosine"})
QUICK = (
    Comparison(
        name="digits",
        data="digits",
        ood="letters",
        encoder=MNIST_LENET,
        training=DIGITS_TRAINING,
        held_out=0,
        evaluation=QUICK_EVALUATION,
        entries=(
            Entry("l2"),
            Entry("dropout", overrides=_FEWER_SAMPLES),
            Entry("ensemble", overrides=Overrides(method={"num_members": 2})),
            Entry("ffgu", overrides=_FEWER_SAMPLES),
            Entry("fflu", overrides=_FEWER_SAMPLES),
            Entry("mnfg", overrides=_FEWER_SAMPLES),
            Entry("edl"),
            Entry("edl-printed", overrides=_SHORT),
            Entry("edl-notebook", overrides=_SHORT),
            Entry("edl-cross-entropy", measurements=SCORES),
            Entry("edl-type2", measurements=SCORES),
        ),
    ),
    _dead_classes(epochs=2),
)

# The networks of softmax on CIFAR5. At a rate of 1e-3 the accuracy of one on images kept apart still rose by
# 0.8 points over the last three of 20 epochs.
_SOFTMAX_ON_CIFAR5: Settings = {"epochs": 24, "learning_rate": 5e-4}
# Attacks on networks that were trained before L2 had these settings were made on L2 as it was then.
_FORMER_SOURCE = Overrides(training={"epochs": 12, "learning_rate": 1e-3})
_TEN_SAMPLES = {"attack_samples": 10}
_FEW_SAMPLES = {"samples": 10, "attack_samples": 5}


PAPER = (
    Comparison(
        name="mnist",
        data="mnist",
        ood="notmnist",
        encoder=MNIST_LENET,
        training=MNIST_TRAINING,
        held_out=5000,
        evaluation=EvalConfig(
            known=None,
            ood=None,
            attacked=1000,
            batch=100,
            rotation=True,
            fgsm=TENTHS,
            pgd=(0.0, 0.05, 0.1, 0.2, 0.3),
            steps=10,
            fresh_draws=True,
        ),
        entries=(
            Entry("l2", seeds=3),
            Entry("dropout", overrides=Overrides(evaluation=_TEN_SAMPLES)),
            Entry("ensemble", overrides=Overrides(training={"epochs": 10})),
            Entry(
                "ffgu",
                overrides=Overrides(training=FASTER, evaluation=_TEN_SAMPLES),
            ),
            Entry(
                "fflu",
                overrides=Overrides(
                    # At full weight from the start, this prior leaves too little over.
                    method={"warm_up_epochs": 10},
                    training={**FASTER, "epochs": 20},
                    evaluation=_TEN_SAMPLES,
                ),
            ),
            Entry(
                "mnfg",
                overrides=Overrides(training=FASTER, evaluation=_TEN_SAMPLES),
            ),
            Entry("edl", seeds=3),
            Entry(
                "edl-printed",
                seeds=3,
                overrides=Overrides(training={"epochs": 20}),
            ),
            Entry("edl-notebook"),
            Entry("edl-cross-entropy", seeds=3, measurements=SCORES),
            Entry("edl-type2", seeds=3, measurements=SCORES),
        ),
    ),
    Comparison(
        name="cifar5",
        data="cifar5",
        ood="cifar5-unseen",
        encoder=CIFAR5_LENET,
        training=CIFAR5_TRAINING,
        held_out=1250,
        evaluation=EvalConfig(
            known=None,
            ood=None,
            attacked=500,
            batch=50,
            rotation=False,
            fgsm=(0.0, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.4),
            pgd=(0.0, 0.01, 0.02, 0.04, 0.08),
            steps=5,
            fresh_draws=True,
        ),
        entries=(
            Entry("l2", seeds=3, overrides=Overrides(training=_SOFTMAX_ON_CIFAR5)),
            Entry(
                "dropout",
                overrides=Overrides(
                    # After 24 it gained 0.56 points in three epochs.
                    training={**_SOFTMAX_ON_CIFAR5, "epochs": 32},
                    evaluation={"samples": 20, "attack_samples": 5},
                ),
            ),
            # Attacks that were made on L2 are not measured of Deep Ensemble, FFGU, EDL and EDL as printed.
            Entry(
                "ensemble",
                measurements=(KNOWN, OOD, FGSM, PGD),
                overrides=Overrides(training={**_SOFTMAX_ON_CIFAR5, "epochs": 16, "precision": "bfloat16"}),
            ),
            Entry(
                "ffgu",
                measurements=(KNOWN, OOD, FGSM, PGD),
                overrides=Overrides(
                    method={"initial_sigma": 1e-4}, training={"epochs": 10}, evaluation=_FEW_SAMPLES
                ),
            ),
            Entry(
                "fflu",
                overrides=Overrides(
                    method={"initial_sigma": 1e-4, "warm_up_epochs": 14},
                    training={"epochs": 14},
                    evaluation=_FEW_SAMPLES,
                ),
            ),
            Entry(
                "mnfg",
                overrides=Overrides(
                    method={"initial_sigma": 1e-4},
                    training={"epochs": 10},
                    evaluation=_FEW_SAMPLES,
                    source=_FORMER_SOURCE,
                ),
            ),
            Entry(
                "edl",
                seeds=3,
                measurements=(KNOWN, OOD, FGSM, PGD),
                # After 14 it still gains more than a point in three epochs.
                overrides=Overrides(training={"epochs": 24}),
            ),
            Entry(
                "edl-printed",
                seeds=3,
                measurements=(KNOWN, OOD, FGSM, PGD),
                overrides=Overrides(training={"epochs": 24}),
            ),
        ),
    ),
    _dead_classes(epochs=10),
)

PRESETS: dict[str, tuple[Comparison, ...]] = {"quick": QUICK, "paper": PAPER}


@dataclass(frozen=True)
class _Need:
    """What a table or figure is made from: measurements of arms within comparisons."""

    comparisons: tuple[str, ...]
    arms: tuple[str, ...]
    measurements: tuple[str, ...]


MAIN = ("digits", "mnist", "cifar5")
ROTATED_ARMS = ("l2", *EVIDENTIAL_ARMS)
NEEDS: Mapping[str, _Need] = {
    "table1": _Need(MAIN, COMPARED, (TRAINING, KNOWN)),
    "figure1": _Need(("digits", "mnist"), ROTATED_ARMS, (ROTATION,)),
    "figure2": _Need(MAIN, EVIDENTIAL_ARMS, (KNOWN,)),
    "figure3": _Need(MAIN, COMPARED, (OOD,)),
    "figure4": _Need(("digits", "mnist"), COMPARED, ATTACKS),
    "figure5": _Need(("cifar5",), COMPARED, ATTACKS),
    "losses": _Need(("digits", "mnist"), tuple(LOSSES), (TRAINING, *SCORES)),
    "dead_classes": _Need(("dead_classes",), DEAD_CLASSES, (TRAINING, KNOWN)),
}


def study_of(preset: str, seeds: int | None = None) -> Study:
    """All experiments of a preset.

    Args:
        preset: "quick" or "paper".
        seeds: So many trainings of each arm, instead of the preset's own numbers.

    Raises:
        InputError: If there is no such preset, or seeds is below 1.

    Example:
        >>> study = study_of("paper", seeds=1)
        >>> study.experiments[0].name
        'mnist/l2-0'
    """
    if preset not in PRESETS:
        raise InputError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    if seeds is not None:
        require_whole("seeds", seeds)
    experiments: list[Experiment] = []
    for comparison in PRESETS[preset]:
        experiments += comparison.experiments(seeds)
    return Study(f"sensoy2018-{preset}", tuple(experiments))


def plan(
    preset: str,
    seeds: int | None = None,
    sets: Sequence[str] = (),
    methods: Sequence[str] = (),
    only: Sequence[str] = (),
) -> list[Experiment]:
    """The experiments of a preset that are asked for.

    Args:
        preset: "quick" or "paper".
        seeds: So many trainings of each arm, instead of the preset's own numbers.
        sets: Only these comparisons.
        methods: Only these arms.
        only: Only what these tables and figures are made from.

    Raises:
        InputError: If a name is not known, or nothing is left.
    """
    study = study_of(preset, seeds)
    require_names("sets", sets, [comparison.name for comparison in PRESETS[preset]])
    require_names("methods", methods, list(ARMS))
    require_names("only", only, list(NEEDS))
    selected = study.select(sets, methods)
    needed = []
    for experiment in selected.experiments:
        reduced = _needed(experiment, only)
        if reduced.measurements:
            needed.append(reduced)
    if not needed:
        asked = ", ".join((*only, *sets, *methods))
        raise InputError(f"the preset {preset} has nothing for {asked} together; paper has all, quick some")
    return needed


def _needed(experiment: Experiment, only: Sequence[str]) -> Experiment:
    """The experiment with the measurements alone that are needed to make what is wanted."""
    if not only:
        return experiment
    wanted: list[str] = []
    for name in only:
        need = NEEDS[name]
        if experiment.comparison in need.comparisons and experiment.arm in need.arms:
            wanted += need.measurements
    return experiment.measuring(wanted)
