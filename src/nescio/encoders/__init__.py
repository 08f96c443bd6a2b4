"""Networks: the paper's LeNets and a multi-layer perceptron."""

from nescio.encoders.specs import Layers, LeNetSpec, MLPSpec, NetworkSpec, spec_from_dict, spec_to_dict

__all__ = ["Layers", "LeNetSpec", "MLPSpec", "NetworkSpec", "spec_from_dict", "spec_to_dict"]
