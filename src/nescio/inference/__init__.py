"""From a trained model to predictions: the model and its file, records, prediction to a file, export."""

from nescio.inference._layers import NetworkOutputs
from nescio.inference.bulk import Outcome, predict_to_file
from nescio.inference.model import TrainedModel
from nescio.inference.records import predict_records

__all__ = ["NetworkOutputs", "Outcome", "TrainedModel", "predict_records", "predict_to_file"]
