"""Run one experiment of the study in small in a process of its own: python killed.py FOLDER EPOCHS."""

import sys
from pathlib import Path

from tests.studies.small import one, with_epochs

from nescio.studies.runner import _run_one


def experiment(epochs):
    """EDL, trained for so many epochs."""
    return one("edl", comparison=with_epochs(epochs)).measuring(("training", "known", "fgsm", "pgd"))


if __name__ == "__main__":
    _run_one(experiment(int(sys.argv[2])), Path(sys.argv[1]))
