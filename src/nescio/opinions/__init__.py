"""What a prediction is: an Opinion with its uncertainty, or a Categorical without."""

from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.fusion import fuse
from nescio.opinions.opinion import Opinion

__all__ = ["Categorical", "Opinion", "Prediction", "fuse"]
