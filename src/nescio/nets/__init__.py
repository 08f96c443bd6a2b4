"""Networks: the paper's LeNets and a multi-layer perceptron."""

from nescio.nets.convert import from_softmax
from nescio.nets.specs import Layers, LeNetSpec, MLPSpec, NetworkSpec, spec_from_dict, spec_to_dict
from nescio.nets.standardize import Standardize, span_of

__all__ = [
    "Layers",
    "LeNetSpec",
    "MLPSpec",
    "NetworkSpec",
    "Standardize",
    "from_softmax",
    "span_of",
    "spec_from_dict",
    "spec_to_dict",
]
