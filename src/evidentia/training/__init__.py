"""Training: the loop, its settings, and the folder of a run."""

from evidentia.training.loop import Samples, as_input, fit
from evidentia.training.run import Run
from evidentia.training.settings import TrainingSettings

__all__ = ["Run", "Samples", "TrainingSettings", "as_input", "fit"]
