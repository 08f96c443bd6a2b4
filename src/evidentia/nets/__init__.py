"""Networks: the paper's LeNets and a multi-layer perceptron."""

from evidentia.nets.convert import from_softmax
from evidentia.nets.specs import Layers, LeNetSpec, MLPSpec, NetworkSpec, spec_from_dict, spec_to_dict
from evidentia.nets.standardize import Standardize, span_of

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
