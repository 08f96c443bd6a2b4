"""Run one experiment of the paper in small in a process of its own: python killed.py FOLDER EPOCHS."""

import sys
from dataclasses import replace
from pathlib import Path

from tests.studies.sensoy2018.small import DIGITS, one

from nescio.studies.sensoy2018.engine import run_one


def experiment(epochs):
    """EDL, trained for so many epochs."""
    study = replace(DIGITS, training=replace(DIGITS.training, epochs=epochs))
    return replace(one("edl", study=study), parts=("known", "fgsm", "pgd"))


if __name__ == "__main__":
    run_one(experiment(int(sys.argv[2])), Path(sys.argv[1]))
