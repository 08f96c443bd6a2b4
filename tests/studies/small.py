"""The study of the paper in small: real digits, networks that train in a second."""

from dataclasses import replace

from nescio.studies.sensoy2018._overrides import EvalConfig, Overrides
from nescio.studies.sensoy2018.presets import (
    DIGITS_TRAINING,
    EVERYTHING,
    KNOWN,
    MNIST_LENET,
    SCORES,
    Comparison,
    Entry,
)

LENET = {**MNIST_LENET, "filters": (4, 6), "hidden": 16}
TRAINING = {**DIGITS_TRAINING, "epochs": 2, "batch_size": 64, "learning_rate": 4e-3, "device": "cpu"}
SHORT = Overrides(training={"epochs": 2, "batch_size": 64})
EVALUATION = EvalConfig(
    known=200,
    ood=150,
    attacked=20,
    batch=8,
    rotation=True,
    fgsm=(0.0, 0.1, 0.3),
    pgd=(0.0, 0.1),
    steps=2,
    fresh_draws=True,
)
DIGITS = Comparison(
    name="digits",
    data="digits",
    ood="letters",
    encoder=LENET,
    training=TRAINING,
    held_out=100,
    evaluation=EVALUATION,
    entries=(
        Entry("l2", seeds=2),
        Entry("dropout", overrides=Overrides(evaluation={"samples": 4, "attack_samples": 2})),
        Entry("edl", seeds=3),
        Entry("edl-printed", overrides=SHORT),
        Entry("edl-cross-entropy", measurements=SCORES),
        Entry("edl-type2", seeds=2, measurements=SCORES),
    ),
)
DEAD = Comparison(
    name="dead_classes",
    data="digits",
    ood="letters",
    encoder=LENET,
    training=TRAINING,
    held_out=0,
    evaluation=EVALUATION,
    entries=(Entry("edl-printed", 1, (KNOWN,), SHORT), Entry("edl-relu", 1, (KNOWN,), SHORT)),
    is_about_seeds=True,
)
SMALL = (DIGITS, DEAD)
MEASURED = ("training", *EVERYTHING)


def one(arm, seed=0, comparison=DIGITS):
    """One experiment of these."""
    found = [each for each in comparison.experiments() if each.arm == arm and each.plan.seed == seed]
    return found[0]


def with_epochs(epochs, comparison=DIGITS):
    """The comparison with longer or shorter trainings."""
    return replace(comparison, training={**comparison.training, "epochs": epochs})


def measurement(experiment, name):
    """The measurement of this name."""
    return next(each for each in experiment.measurements if each.name == name)
