"""ServedModel: a model under the name by which clients ask for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from nescio.data import ImagePreprocess, TextPreprocess
from nescio.inference.model import DEFAULT_MAX_UNCERTAINTY, TrainedModel
from nescio.opinions.opinion import Opinion
from nescio.serve._columns import describe_columns
from nescio.serve._runtime import choose_network, runtime_of, with_network
from nescio.serve.limits import VALUES_PER_CLASS

_NETWORK_SUFFIX = ".network.onnx"
_BUNDLED_DIR = Path(__file__).parent / "models"


@dataclass(frozen=True, eq=False)
class ServedModel:
    """A trained model under the name by which clients ask for it."""

    name: str
    model: TrainedModel

    @property
    def is_evidential(self) -> bool:
        """Whether it has opinions; else it has probabilities alone."""
        return self.prior is not None

    @cached_property
    def prior(self) -> float | None:
        """The prior of each class in its opinions; None where it has probabilities alone."""
        prediction = self.model.predict(self.model.preprocess.example())
        return prediction.prior if isinstance(prediction, Opinion) else None

    @cached_property
    def input_shape(self) -> tuple[int, ...]:
        return self.model.input_shape

    @cached_property
    def preparation(self) -> str:
        """The same for models whose inputs are prepared alike; a text, which is quickly looked up."""
        return repr(self.model.preprocess.preparation)

    @cached_property
    def num_values(self) -> int:
        """What one input and its answer take in memory, see Limits.max_values."""
        return math.prod(self.input_shape) + VALUES_PER_CLASS * len(self.model.classes)

    @property
    def threshold(self) -> float | None:
        """The uncertainty from which on the model does not answer; None where its rule is another."""
        rule = self.model.rule
        if rule is None:
            return DEFAULT_MAX_UNCERTAINTY
        if rule.measure != "uncertainty":
            return None
        return min(max(rule.threshold, 0.0), 1.0)

    @property
    def encoder(self) -> str | None:
        """The name of what makes features of inputs; None where it is a module of the user's own."""
        if self.model.encoder is not None:
            return self.model.encoder.spec.kind
        if self.model.network is not None:
            return self.model.network.kind
        return None

    def describe(self) -> dict[str, Any]:
        """For the list of models."""
        model = self.model
        preprocess = model.preprocess
        rule = None
        if model.rule is not None:
            rule = model.rule.describe()
        posthoc = None
        if model.posthoc is not None:
            posthoc = model.posthoc.describe()
        sets = None
        if model.sets is not None:
            sets = model.sets.describe()
        resize = None
        if isinstance(preprocess, ImagePreprocess):
            resize = preprocess.resize
        max_length = None
        if isinstance(preprocess, TextPreprocess):
            max_length = preprocess.max_length
        return {
            "name": self.name,
            "kind": preprocess.kind.value,
            "method": model.method.name,
            "about": model.method.about,
            "encoder": self.encoder,
            "trained_on": model.training.get("data", {}).get("name"),
            "classes": list(model.classes),
            "input_shape": list(model.input_shape),
            "resize": resize,
            "max_length": max_length,
            "columns": describe_columns(preprocess),
            "evidential": self.is_evidential,
            "prior": self.prior,
            "posthoc": posthoc,
            "rule": rule,
            "sets": sets,
            "threshold": self.threshold,
            "runtime": runtime_of(model),
        }


def bundled_paths() -> dict[str, Path]:
    """By name, the pair that comes with the package: the same network trained both ways on MNIST."""
    return {path.stem: path for path in sorted(_BUNDLED_DIR.glob("*.safetensors"))}


def load_models(paths: Mapping[str, Path], runtime: str = "torch") -> dict[str, TrainedModel]:
    """The models of these files, by name, computed as `choose_network` says."""
    models = {}
    for name, path in paths.items():
        model = TrainedModel.load(path)
        network = choose_network(name, model, runtime)
        models[name] = model if network is None else with_network(model, network)
    return models


def store_networks(paths: Mapping[str, Path], runtime: str) -> None:
    """Beside each file the network that was chosen for it: to be chosen once, not in every process."""
    for name, path in paths.items():
        network = choose_network(name, TrainedModel.load(path), runtime)
        if network is not None:
            path.with_suffix(_NETWORK_SUFFIX).write_bytes(network)


def load_stored(paths: Mapping[str, Path]) -> dict[str, TrainedModel]:
    """The models of these files, each computed by the network that lies beside it, or else by torch."""
    models = {}
    for name, path in paths.items():
        model = TrainedModel.load(path)
        network = path.with_suffix(_NETWORK_SUFFIX)
        if network.exists():
            model = with_network(model, network.read_bytes())
        models[name] = model
    return models
