"""The file of a model: what its header holds, and how it is written and read back."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from nescio._files import read_tensors, write_tensors
from nescio.data.preprocess import BYTES, Preprocess
from nescio.encoders import EncoderSpec, spec_from_dict, spec_to_dict
from nescio.errors import InputError, ModelFileError, NescioError
from nescio.methods import METHODS, Method, method_from_dict, method_to_dict
from nescio.posthoc.abstention import AbstentionRule

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

FORMAT = 2
FORMER_FORMAT = 1  # from before preprocessing was one object: `standardize` and `input_shape`
MODEL_NAME = "model.safetensors"  # in the folder of a run
VERSIONS_OF = ("nescio", "torch", "safetensors")


class ModelParts(NamedTuple):
    """What a model is made from."""

    module: nn.Module
    method: Method
    classes: tuple[str, ...]
    preprocess: Preprocess
    network: EncoderSpec | None
    rule: AbstentionRule | None
    training: Mapping[str, Any]


def write_model(path: Path, model: TrainedModel) -> None:
    network = None if model.network is None else spec_to_dict(model.network)
    rule = None if model.rule is None else model.rule.to_dict()
    header = {
        "format": FORMAT,
        "method": method_to_dict(model.method),
        "network": network,
        "classes": list(model.classes),
        "preprocess": model.preprocess.to_dict(),
        "rule": rule,
        "training": dict(model.training),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS_OF},
    }
    write_tensors(path, model.module.state_dict(), header)


def model_path(path: str | Path) -> Path:
    """The file itself, or the model in the folder of a run."""
    path = Path(path)
    if not path.is_dir():
        return path
    inside = path / MODEL_NAME
    if not inside.exists():
        raise ModelFileError(f"{path} is a folder without a {MODEL_NAME}; a run has one once it has ended")
    return inside


def read_model(path: Path, module: nn.Module | None, method: Method | type[Method] | None) -> ModelParts:
    """Read a file back. module, method: the user's own, where the file can't say how to make them."""
    tensors, header = read_tensors(path)
    if "format" not in header and {"history", "member", "best"} <= header.keys():
        raise ModelFileError(
            f"{path} is the checkpoint of a training, not a model; "
            f"{path.with_name(MODEL_NAME)} is its model once it has ended"
        )
    if header.get("format") not in (FORMER_FORMAT, FORMAT):
        raise ModelFileError(
            f"{path} has format {header.get('format')!r}, this version of nescio reads "
            f"{FORMER_FORMAT} and {FORMAT}"
        )
    try:
        parts = _from_header(header, module, method)
        _load_weights(parts.module, tensors)
    except KeyError as error:
        raise ModelFileError(f"{path} does not fit together: its header lacks {error}") from error
    except (NescioError, TypeError, ValueError, RuntimeError, AttributeError) as error:
        reason = " ".join(str(error).split())
        raise ModelFileError(f"{path} does not fit together: {reason}") from error
    return parts


def _load_weights(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        module.to(dtypes.pop())
    module.load_state_dict(tensors)
    module.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]


def _from_header(
    header: Mapping[str, Any], module: nn.Module | None, method: Method | type[Method] | None
) -> ModelParts:
    network = None if header["network"] is None else spec_from_dict(header["network"])
    made = _method(header["method"], method)
    classes = tuple(str(one) for one in header["classes"])
    if len(set(classes)) != len(classes):
        raise InputError("two classes have the same name")
    if network is not None and network.num_classes != len(classes):
        raise InputError(f"{len(classes)} classes, but a network for {network.num_classes}")
    if module is not None:
        module = made.check_module(module)
    elif network is not None:
        module = made.build(network)
    else:
        raise InputError("the network was the user's own: give it, load(path, network=...)")
    rule = None if header["rule"] is None else AbstentionRule.from_dict(header["rule"])
    preprocess = _preprocess(header)
    if network is not None and network.input_shape != preprocess.input_shape:
        raise InputError(f"inputs {preprocess.input_shape}, but a network for {network.input_shape}")
    if not isinstance(header["training"], dict):
        raise InputError(f"training must be a table, got {type(header['training']).__name__}")
    return ModelParts(module, made, classes, preprocess, network, rule, header["training"])


def _method(settings: Mapping[str, Any], given: Method | type[Method] | None) -> Method:
    """The method of the header; one that is not registered must be given, as its class or as it was."""
    name = settings["name"]
    if given is None:
        try:
            return method_from_dict(settings)
        except InputError as error:
            if name in METHODS:
                raise
            raise InputError(
                f"{error}; a method of your own must be given: load(path, method=...)"
            ) from error
    if given.name != name:
        raise InputError(f"it was trained with the method {name}, got {given.name}")
    if not isinstance(given, type):
        return given
    fields = dict(settings)
    del fields["name"]
    return given(**fields)


def _preprocess(header: Mapping[str, Any]) -> Preprocess:
    if header["format"] == FORMAT:
        return Preprocess.from_dict(header["preprocess"])
    shape = tuple(int(size) for size in header["input_shape"])
    former = header["standardize"]
    pixel_range = BYTES if len(shape) == 3 else None
    return Preprocess(shape, former["mean"], former["scale"], pixel_range=pixel_range)
