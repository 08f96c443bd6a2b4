"""The file of a model: what its header holds, and how it is written and read back.

A file holds the tensors of the module's state, and beside them a header, which is JSON:

    format      the number of this layout, FORMAT
    method      the method's name and settings
    network     the kind of encoder and its settings; null where the module was the user's own
    encoder     for a head on a frozen encoder: the encoder's kind and settings, and the scaling of its
                features; its tensors begin with "encoder."; null otherwise
    classes     the names of the K classes
    preprocess  what brings inputs to the network
    rule        when to abstain; null for none
    sets        conformal sets of classes; null for none, and in files from before there were any
    seen        about the digests of training samples, which are the tensor "seen.digests"; null for none
    calibrated_on
                about the digests of the samples that `calibrated` fitted temperature and trust to, which are
                the tensor "calibrated_on.digests"; null, or left out by files from before, for none
    posthoc     temperature and trust, which were fitted after the training; the tensors of the trust begin
                with "trust."; null, or left out by files from before, for neither
    training    a summary of how it was trained
    versions    of the packages that wrote the file
"""

from __future__ import annotations

import importlib.metadata
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

from nescio._files import named, read_tensors, write_tensors
from nescio.data._folders import RUN_MODEL
from nescio.data.preprocess import BYTES, Preprocess
from nescio.encoders import EncoderSpec, spec_from_dict, spec_to_dict
from nescio.errors import InputError, ModelFileError, NescioError
from nescio.inference._frozen import FrozenEncoder, build_encoder
from nescio.inference._seen import SeenSamples
from nescio.methods import METHODS, Method, method_from_dict, method_to_dict
from nescio.posthoc.abstention import AbstentionRule
from nescio.posthoc.conformal import ConformalSets
from nescio.posthoc.state import Posthoc

if TYPE_CHECKING:
    from nescio.inference.model import TrainedModel

FORMAT = 3
# 1: from before preprocessing was one object: `standardize` and `input_shape`. 2: before it was of a kind.
FORMER_FORMATS = (1, 2)
# Of what was trained on, and of what was calibrated on: seen.digests, calibrated_on.digests.
SEEN, CALIBRATED, DIGESTS = "seen", "calibrated_on", "digests"
TRUST = "trust"  # how the names of the tensors of a trust begin
ENCODER = "encoder"  # how the names of a frozen encoder's tensors begin

VERSIONS_OF = ("nescio", "torch", "safetensors")
MOST_INPUTS = 2**26  # numbers of one input: a picture of 4096 x 4096 in colour has fewer
# Parts of a network that a file may ask for, by the number of its tensors: some parts have no tensor of their
# own, and some are put in the place of others while a network is built.
PARTS_PER_TENSOR = 16
PARTS_AT_LEAST = 256
# What the settings of a file that was written by somebody else can make their readers raise.
UNFIT = (
    *(NescioError, ArithmeticError, AttributeError, LookupError, MemoryError, OSError),
    *(RuntimeError, TypeError, ValueError),
)


class ModelParts(NamedTuple):
    """The fields of a TrainedModel, by the same names."""

    module: nn.Module
    method: Method
    classes: tuple[str, ...]
    preprocess: Preprocess
    network: EncoderSpec | None
    rule: AbstentionRule | None
    training: Mapping[str, Any]
    encoder: FrozenEncoder | None
    sets: ConformalSets | None
    seen: SeenSamples | None
    posthoc: Posthoc | None
    calibrated_on: SeenSamples | None


def write_model(path: Path, model: TrainedModel) -> None:
    spec = None if model.network is None else spec_to_dict(model.network)
    rule = None if model.rule is None else model.rule.to_dict()
    sets = None if model.sets is None else model.sets.to_dict()
    tensors = dict(model.module.state_dict())
    encoder = None
    if model.encoder is not None:
        encoder = {"spec": spec_to_dict(model.encoder.spec), "scaling": model.encoder.scaling.to_dict()}
        _add(tensors, ENCODER, model.encoder.module.state_dict())
    samples: dict[str, dict[str, Any] | None] = {SEEN: None, CALIBRATED: None}
    for name, known in ((SEEN, model.seen), (CALIBRATED, model.calibrated_on)):
        if known is not None:
            samples[name] = known.to_dict()
            _add(tensors, name, {DIGESTS: (known.digests - 2**31).to(torch.int32)})
    posthoc = None
    if model.posthoc is not None:
        posthoc = model.posthoc.settings()
        _add(tensors, TRUST, model.posthoc.tensors())
    header = {
        "format": FORMAT,
        "method": method_to_dict(model.method),
        "network": spec,
        "encoder": encoder,
        "classes": list(model.classes),
        "preprocess": model.preprocess.to_dict(),
        "rule": rule,
        "sets": sets,
        SEEN: samples[SEEN],
        CALIBRATED: samples[CALIBRATED],
        "posthoc": posthoc,
        "training": dict(model.training),
        "versions": {name: importlib.metadata.version(name) for name in VERSIONS_OF},
    }
    write_tensors(path, tensors, header)


def _add(tensors: dict[str, Tensor], prefix: str, others: Mapping[str, Tensor]) -> None:
    """Keep other tensors beside the weights of the network, their names behind `prefix.`."""
    for name, tensor in others.items():
        full_name = f"{prefix}.{name}"
        if full_name in tensors:
            raise InputError(
                f"the network has weights called {full_name}, where the file keeps something else; "
                f"rename its part {prefix}"
            )
        tensors[full_name] = tensor


def model_path(path: str | Path) -> Path:
    """The file itself, or the model in the folder of a run."""
    path = Path(path)
    if not path.is_dir():
        return path
    inside = path / RUN_MODEL
    if not inside.exists():
        raise ModelFileError(f"{path} is a folder without a {RUN_MODEL}; a run has one once it has ended")
    return inside


def read_model(path: Path, module: nn.Module | None, method: Method | type[Method] | None) -> ModelParts:
    """Read a file back; the user gives a module or a method where the file can't say how to make it."""
    tensors, header = read_tensors(path)
    if _is_checkpoint(header):
        raise ModelFileError(
            f"{path} is the checkpoint of a training, not a model; "
            f"{path.with_name(RUN_MODEL)} is its model once it has ended"
        )
    if header.get("format") not in (*FORMER_FORMATS, FORMAT):
        raise ModelFileError(
            f"{path} has format {header.get('format')!r}, this version of nescio reads 1 to {FORMAT}"
        )
    try:
        seen = _take_samples(SEEN, header, tensors)
        calibrated_on = _take_samples(CALIBRATED, header, tensors)
        posthoc = None
        if header.get("posthoc") is not None:
            posthoc = Posthoc.from_parts(header["posthoc"], named(tensors, TRUST))
            for name in posthoc.tensors():  # a user's network may have a part of that name too
                del tensors[f"{TRUST}.{name}"]
        parts = _parts_from_header(header, tensors, module, method)
        parts = parts._replace(seen=seen, posthoc=posthoc, calibrated_on=calibrated_on)
        _check_parts(parts)
        if parts.encoder is not None:
            of_encoder = named(tensors, ENCODER)
            tensors = _without(tensors, ENCODER)
            _load_weights(parts.encoder.module, of_encoder)
        _load_weights(parts.module, tensors)
    except KeyError as error:
        raise ModelFileError(f"{path} does not fit together: its header lacks {error}") from error
    except UNFIT as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ModelFileError(f"{path} does not fit together: {reason}") from error
    return parts


def _take_samples(name: str, header: Mapping[str, Any], tensors: dict[str, Tensor]) -> SeenSamples | None:
    """The samples that the header tells of by this name; their digests are taken out of the tensors."""
    if header.get(name) is None:
        return None
    digests = tensors.pop(f"{name}.{DIGESTS}", None)
    if digests is None:
        return None
    return SeenSamples.from_dict(header[name], digests.long() + 2**31)


def _without(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """All but those whose names begin with `prefix.`."""
    return {name: value for name, value in tensors.items() if not name.startswith(f"{prefix}.")}


def _is_checkpoint(header: Mapping[str, Any]) -> bool:
    """Whether it is the header of a checkpoint, which a training writes beside the model to be."""
    return "format" not in header and {"history", "member", "best"} <= header.keys()


def _load_weights(module: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(dtypes) == 1:
        module.to(dtypes.pop())
    module.load_state_dict(tensors)
    module.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]


def _parts_from_header(
    header: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    given_module: nn.Module | None,
    given_method: Method | type[Method] | None,
) -> ModelParts:
    """Build every part; whether they fit together is for `_check_parts` to say."""
    method = _method_from_header(header["method"], given_method)
    spec = None if header["network"] is None else spec_from_dict(header["network"])
    rule = None if header["rule"] is None else AbstentionRule.from_dict(header["rule"])
    sets = None
    if header.get("sets") is not None:
        sets = ConformalSets.from_dict(header["sets"])
    if given_module is not None:
        module = method.check_module(given_module)
    elif spec is not None:
        of_network = tensors
        if header.get("encoder") is not None:
            of_network = _without(tensors, ENCODER)
        module = _built(lambda: method.build(spec), of_network)
    else:
        raise InputError("the network was the user's own: give it, load(path, network=...)")
    return ModelParts(
        module=module,
        method=method,
        classes=tuple(str(one) for one in header["classes"]),
        preprocess=_preprocess_from_header(header),
        network=spec,
        rule=rule,
        training=header["training"],
        encoder=_encoder_from_header(header.get("encoder"), named(tensors, ENCODER)),
        sets=sets,
        seen=None,  # what has tensors of its own is read beside this
        posthoc=None,
        calibrated_on=None,
    )


def _check_parts(parts: ModelParts) -> None:
    """Refuse parts that do not fit together."""
    num_classes = len(parts.classes)
    input_shape = parts.preprocess.input_shape
    spec = parts.network
    if parts.encoder is not None:
        input_shape = (parts.encoder.spec.num_features,)  # which is what the head takes
        if parts.encoder.scaling.input_shape != input_shape:
            raise InputError(f"features {input_shape}, but scaling for {parts.encoder.scaling.input_shape}")
    if math.prod(parts.preprocess.input_shape) > MOST_INPUTS:
        raise InputError(f"inputs of at most {MOST_INPUTS:,} numbers, got {parts.preprocess.input_shape}")
    if len(set(parts.classes)) != num_classes:
        raise InputError("two classes have the same name")
    if spec is not None and spec.num_classes != num_classes:
        raise InputError(f"{num_classes} classes, but a network for {spec.num_classes}")
    if spec is not None and spec.input_shape != input_shape:
        raise InputError(f"inputs {input_shape}, but a network for {spec.input_shape}")
    if parts.sets is not None and parts.sets.num_classes != num_classes:
        raise InputError(f"{num_classes} classes, but sets of {parts.sets.num_classes}")
    if not isinstance(parts.training, dict):
        raise InputError(f"training must be a table, got {type(parts.training).__name__}")


def _method_from_header(settings: Mapping[str, Any], given: Method | type[Method] | None) -> Method:
    """Make the method; one that is not registered must be given, as its class or as it was."""
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


def _encoder_from_header(
    data: Mapping[str, Any] | None, tensors: Mapping[str, Tensor]
) -> FrozenEncoder | None:
    if data is None:
        return None
    spec = spec_from_dict(data["spec"])
    module = _built(lambda: build_encoder(spec), tensors)
    return FrozenEncoder(spec, module, Preprocess.from_dict(data["scaling"]))


def _built(build: Callable[[], nn.Module], tensors: Mapping[str, Tensor]) -> nn.Module:
    """The network, once it is known that the tensors of the file are its own.

    Its settings were written by somebody else and may ask for any size: it is built without memory first.
    """
    with _few_parts(PARTS_AT_LEAST + PARTS_PER_TENSOR * len(tensors)):
        try:
            with torch.device("meta"):
                sketch = build()
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            return build()  # a network of somebody's own that looks at its values while it is built
    for name, expected in sketch.state_dict().items():
        if name not in tensors:
            raise InputError(f"the network has a tensor {name}, the file has none")
        if tensors[name].shape != expected.shape:
            found = tuple(tensors[name].shape)
            raise InputError(
                f"size mismatch for {name}: {tuple(expected.shape)} in the network, {found} in the file"
            )
    return build()


@contextmanager
def _few_parts(most: int) -> Iterator[None]:
    """Refuse to build a network of more modules and parameters than this."""
    thread = threading.get_ident()
    count = 0

    def counted(module: nn.Module, name: str, part: object) -> None:
        nonlocal count
        if threading.get_ident() != thread:
            return
        count += 1
        if count > most:
            raise InputError(f"its settings ask for a network of more than {most} parts, its tensors do not")

    hooks = (
        register_module_module_registration_hook(counted),
        register_module_parameter_registration_hook(counted),
    )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _preprocess_from_header(header: Mapping[str, Any]) -> Preprocess:
    if header["format"] > 1:
        return Preprocess.from_dict(header["preprocess"])
    former = {"input_shape": header["input_shape"], **header["standardize"]}
    if len(former["input_shape"]) == 3:
        former["pixel_range"] = BYTES
    return Preprocess.from_dict(former)
