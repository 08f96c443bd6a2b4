"""FrozenEncoder: a pretrained network that gives features and is not trained; a head on them is.

The features of a data set are computed once. They are kept in the cache under what they depend on: the
inputs, the encoder and its weights. Another head on the same data finds them there.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from nescio._fetch.store import cache_dir
from nescio._files import digest
from nescio._kinds import InputKind
from nescio._memory import freed_memory_kept
from nescio.data import (
    Dataset,
    ImagePreprocess,
    LabelledData,
    Preprocess,
    RowPreprocess,
    StoredArray,
    Table,
    TextPreprocess,
    Texts,
)
from nescio.data._row_writer import StoredArrayWriter
from nescio.data._stored import is_resident, row_chunks, stored_once
from nescio.data.preprocess import WHITE
from nescio.encoders import EncoderSpec, MLPSpec, features_of, spec_to_dict
from nescio.errors import DataError, NescioWarning

OnEncoding = Callable[[int, int], None]

BATCH = 64  # inputs in the encoder at a time: more is no faster
IMAGES_BATCH = 16  # of photos on a CPU: what lies between the layers stays in its cache, 1.5 times as fast
CHUNK = 1024  # inputs whose features are written at a time
HEAD_UNITS_A_CLASS = 8
HEAD_UNITS = (64, 512)  # least and most
HEAD_DROPOUT = 0.3


@dataclass(frozen=True, eq=False)
class FrozenEncoder:
    """A pretrained network without its head, and the scaling of its features.

    Args:
        spec: What the network was built from.
        module: The network, in evaluation mode; its head is the identity.
        scaling: What brings features to the scale that the trained head takes.
    """

    spec: EncoderSpec
    module: nn.Module
    scaling: Preprocess

    def __call__(self, inputs: Tensor) -> Tensor:
        """Compute scaled features (N, F) of preprocessed inputs (N, ...)."""
        return self.scaling(encode(self.spec, self.module, inputs))


def build_encoder(spec: EncoderSpec) -> nn.Module:
    """Build the network of a spec without its head; its weights are to be loaded."""
    module = spec.build()
    module.head = nn.Identity()
    return module.to(memory_format=torch.channels_last).eval().requires_grad_(False)  # type: ignore[call-overload, no-any-return]


def pretrained_encoder(spec: EncoderSpec) -> nn.Module:
    """Build the network of a spec with its pretrained weights, without its head.

    Raises:
        FetchError: If the weights can't be had.
    """
    module = build_encoder(spec)
    module.load_state_dict(spec.pretrained_weights())
    return module


def load_pretrained(spec: EncoderSpec, module: nn.Module) -> None:
    """Give a network that is to be fine-tuned the pretrained weights; its head stays as it is."""
    weights = spec.pretrained_weights()
    missing, unexpected = module.load_state_dict(weights, strict=False)
    lost = [name for name in missing if not name.startswith("head.")]
    if lost or unexpected:
        raise DataError(f"the pretrained weights do not fit {spec.kind}: {[*lost, *unexpected][0]}")


def head_spec(encoder: EncoderSpec, num_classes: int) -> MLPSpec:
    """Choose the perceptron that is trained on the features of an encoder."""
    least, most = HEAD_UNITS
    units = min(max(HEAD_UNITS_A_CLASS * num_classes, least), most)
    return MLPSpec(encoder.num_features, num_classes, (units,), HEAD_DROPOUT)


def evenly_scaled(fitted: RowPreprocess) -> RowPreprocess:
    """Scale all features by one number, the root of their mean variance, instead of each by its own.

    A feature that hardly varies among the known classes, and may well on others, is not blown up.
    """
    scales = torch.tensor(fitted.scale, dtype=torch.float64)
    varying = scales[scales != 1.0]  # that is the scale of what does not vary at all
    scale = varying.square().mean().sqrt().item() if len(varying) else 1.0
    return replace(fitted, scale=(scale,) * len(scales))


def preprocess_for(spec: EncoderSpec, data: Dataset | Texts) -> Preprocess:
    """Make the preprocessing that brings raw data to an encoder with pretrained weights.

    Images keep their size and channels; the encoder brings them to its own.
    """
    if isinstance(data, Texts):
        return TextPreprocess(
            spec.tokenizer_json(), spec.input_shape[0], data.column, pad_id=spec.text_padding
        )
    fitted = ImagePreprocess.fit(data.images)
    normalization = spec.normalization
    if normalization is None:
        return fitted
    channels = fitted.input_shape[0]
    mean = normalization.mean
    scale = normalization.scale
    if channels != len(mean):  # grey images: one mean for all channels
        mean = (sum(mean) / len(mean),) * channels
        scale = (sum(scale) / len(scale),) * channels
    # Images that are no bytes have another white; of numbers that are no pixels the greatest is taken for it.
    white = fitted.scale[0] if fitted.white is None else fitted.white
    unit = white / WHITE
    return ImagePreprocess(
        fitted.input_shape,
        tuple(value * unit for value in mean),
        tuple(value * unit for value in scale),
        pixel_range=fitted.pixel_range,
        resize=data.resize,
        white=fitted.white,
    )


def batch_of(spec: EncoderSpec, module: nn.Module) -> int:
    """How many inputs are best given to an encoder at a time, where it is."""
    is_here = next(module.parameters()).device.type == "cpu"
    return IMAGES_BATCH if is_here and spec.inputs is InputKind.IMAGES else BATCH


def encode(spec: EncoderSpec, module: nn.Module, inputs: Tensor) -> Tensor:
    """Compute the features (N, F) of preprocessed inputs (N, ...); better no more than `batch_of` says."""
    return features_of(module, _fitted(spec, inputs))


def _fitted(spec: EncoderSpec, inputs: Tensor) -> Tensor:
    """Bring images (N, C, H, W) to the channels and the size that the encoder takes; all else stays."""
    if spec.inputs is not InputKind.IMAGES:
        return inputs
    channels, height, width = spec.input_shape
    if inputs.shape[1] == 1 and channels > 1:
        inputs = inputs.expand(-1, channels, -1, -1)
    if tuple(inputs.shape[2:]) != (height, width):
        shrinks = inputs.shape[2] > height or inputs.shape[3] > width
        inputs = interpolate(inputs, (height, width), mode="bilinear", antialias=shrinks)
    return inputs.contiguous(memory_format=torch.channels_last)


def encoded_data(
    spec: EncoderSpec,
    module: nn.Module,
    preprocess: Preprocess,
    data: LabelledData,
    on_encoding: OnEncoding | None = None,
) -> Table:
    """Turn a data set into the table of its features, from the cache where they are there.

    Args:
        spec: The encoder's.
        module: The encoder.
        preprocess: What brings raw inputs to the encoder.
        data: Images or texts.
        on_encoding: A function that is called with how many inputs are done, and how many there are.
    """
    features = kept_features(spec, module, preprocess, preprocess.inputs_of(data), on_encoding)
    return Table(features, data.labels, data.classes, data.name, groups=data.groups, parts=data.parts)


def kept_features(
    spec: EncoderSpec,
    module: nn.Module,
    preprocess: Preprocess,
    inputs: Tensor | StoredArray,
    on_encoding: OnEncoding | None = None,
) -> Tensor | StoredArray:
    """Compute the features (N, F) of raw inputs (N, ...) and keep them, or find them in the cache.

    Args:
        spec: The encoder's.
        module: The encoder.
        preprocess: What brings raw inputs to the encoder.
        inputs: Raw inputs (N, ...).
        on_encoding: A function that is called with how many inputs are done, and how many there are.
    """
    path = _features_path(spec, module, preprocess, inputs)
    _remove_damaged(path)

    def encoded_parts(start: int) -> Iterator[Tensor]:
        done = start
        with freed_memory_kept():
            for part in row_chunks(_behind(inputs, start), CHUNK):
                yield _encoded_part(spec, module, preprocess, part)
                done += len(part)
                if on_encoding is not None:
                    on_encoding(done, len(inputs))

    def fill(writer: StoredArrayWriter) -> None:
        for features in encoded_parts(writer.count):
            writer.append(features)
            writer.flush()

    try:
        features = stored_once(path, (spec.num_features,), torch.float32, fill, _wait_quietly)
    except DataError as error:
        warnings.warn(
            f"features can't be kept in {path.parent} ({error}); they are computed again next time",
            NescioWarning,
            stacklevel=2,
        )
        return torch.cat(list(encoded_parts(0)))
    if is_resident(features.nbytes):
        return features[:]
    return features


def _features_path(
    spec: EncoderSpec, module: nn.Module, preprocess: Preprocess, inputs: Tensor | StoredArray
) -> Path:
    """Where the features are kept: under a digest of all that they depend on."""
    depends_on: dict[str, Any] = {
        "encoder": spec_to_dict(spec) | {"num_classes": 0},  # the head has no part in the features
        "weights": digest(module.state_dict()),
        "preprocess": preprocess.to_dict(),
        "inputs": digest({"inputs": inputs}),
    }
    if spec.inputs is InputKind.IMAGES:
        depends_on["resized"] = 2  # 1: in version 0.2, images that lost width alone were not smoothed
    name = hashlib.sha256(json.dumps(depends_on, sort_keys=True).encode()).hexdigest()
    return cache_dir() / "features" / f"{spec.kind.partition(':')[0]}-{name[:32]}.npy"


def _remove_damaged(path: Path) -> None:
    """Remove what is kept where it can't be read: it is computed and written again."""
    if path.is_file():
        try:
            StoredArray.open(path)
        except DataError:
            path.unlink()


def _wait_quietly(holder: str) -> None:
    """Another process computes the same features: they are waited for."""


def _behind(inputs: Tensor | StoredArray, count: int) -> Tensor | StoredArray:
    """All inputs but the first so many; nothing is read or copied."""
    if isinstance(inputs, Tensor):
        return inputs[count:]
    return inputs.select(torch.arange(count, len(inputs)))


def _encoded_part(spec: EncoderSpec, module: nn.Module, preprocess: Preprocess, part: Tensor) -> Tensor:
    """Compute features in the order of the inputs; texts of like length go through the encoder together."""
    device = next(module.parameters()).device
    order = torch.arange(len(part))
    if spec.inputs is InputKind.TEXTS:
        order = (part != spec.text_padding).sum(1).argsort()
    features = torch.empty(len(part), spec.num_features)
    with torch.inference_mode():
        for index in torch.split(order, batch_of(spec, module)):
            inputs = preprocess(part[index].to(device))
            features[index] = encode(spec, module, inputs).float().cpu()
    return features
