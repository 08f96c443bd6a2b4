"""From a trained model to predictions: the model and its file, bulk prediction, export."""

from nescio.inference.model import TrainedModel

__all__ = ["TrainedModel"]
