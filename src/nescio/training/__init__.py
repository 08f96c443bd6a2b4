"""Training: the loop, its settings, and the folder of a run."""

from nescio.training.loop import Samples, as_input, fit
from nescio.training.run import Run
from nescio.training.settings import TrainingSettings

__all__ = ["Run", "Samples", "TrainingSettings", "as_input", "fit"]
