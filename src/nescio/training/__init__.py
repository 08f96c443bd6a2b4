"""Training: the loop, its settings, and the folder of a run."""

from nescio.training._loop import as_input, fit
from nescio.training._run import Run
from nescio.training._samples import Samples
from nescio.training.settings import TrainingSettings

__all__ = ["Run", "Samples", "TrainingSettings", "as_input", "fit"]
