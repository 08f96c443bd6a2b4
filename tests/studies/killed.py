"""Run one experiment of the study in small in a process of its own: python killed.py FOLDER EPOCHS [LAST].

With LAST, the process is killed when this epoch is over.
"""

import os
import signal
import sys
from pathlib import Path

from tests.studies.small import one, with_epochs

from nescio.studies.runner import Progress, _run_one


def experiment(epochs):
    """EDL, trained for so many epochs."""
    return one("edl", comparison=with_epochs(epochs)).measuring(("training", "known", "fgsm", "pgd"))


def kill_after(last):
    """A progress that ends its own process when this epoch is over."""

    def kill(_, metrics):
        if metrics["epoch"] == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return Progress(epoch=kill)


if __name__ == "__main__":
    progress = kill_after(int(sys.argv[3])) if len(sys.argv) > 3 else None
    _run_one(experiment(int(sys.argv[2])), Path(sys.argv[1]), progress)
