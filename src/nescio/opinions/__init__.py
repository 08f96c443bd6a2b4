"""What a prediction is: an Opinion with its uncertainty, or a Categorical without; and measures of doubt."""

from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.fusion import fuse
from nescio.opinions.measures import MEASURES, Measure, register_measure
from nescio.opinions.opinion import Opinion

__all__ = ["MEASURES", "Categorical", "Measure", "Opinion", "Prediction", "fuse", "register_measure"]
