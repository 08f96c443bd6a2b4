"""The paper's experiments in small: real digits, networks that train in a second."""

from nescio.encoders import LeNetSpec
from nescio.studies.sensoy2018.experiments import ALL_PARTS, KNOWN, SCORES, Changes, Line, Measuring, Study
from nescio.training import TrainingSettings

NETWORK = LeNetSpec(filters=(6, 8), hidden=32)
TRAINING = TrainingSettings(epochs=2, batch_size=64, learning_rate=4e-3, device="cpu")
PAPER = Changes(training={"epochs": 2, "batch_size": 64})

DIGITS = Study(
    name="digits",
    data="digits",
    strangers="letters",
    network=NETWORK,
    training=TRAINING,
    lines=(
        Line("l2", 2),
        Line("dropout"),
        Line("edl", 2),
        Line("edl-paper"),
        Line("edl-cross-entropy", 2, SCORES),
        Line("edl-type2", 2, SCORES),
    ),
    changes={
        "dropout": Changes(measured={"samples": 4}, attacked={"samples": 2}),
        "edl-paper": PAPER,
    },
    measuring=Measuring(
        known=200, strangers=150, attacked=20, batch=8, fgsm=(0.0, 0.1, 0.3), pgd=(0.0, 0.1), steps=2
    ),
)
DEATHS = Study(
    name="deaths",
    data="digits",
    strangers="letters",
    network=NETWORK,
    training=TRAINING,
    lines=(Line("edl-paper", 1, (KNOWN,)), Line("edl-paper-bias-0", 1, (KNOWN,))),
    changes={"edl-paper": PAPER, "edl-paper-bias-0": PAPER},
    measuring=Measuring(known=200),
    about_seeds=True,
)
SMALL = (DIGITS, DEATHS)
PARTS = ("training", *ALL_PARTS)


def one(variant, seed=0, study=DIGITS):
    """One experiment of these."""
    return next(each for each in study.experiments() if (each.variant.name, each.seed) == (variant, seed))
