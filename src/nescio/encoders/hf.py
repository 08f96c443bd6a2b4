"""Any model of the library transformers for images or texts, from a folder or from the Hugging Face hub.

`hf:PATH_OR_ID` names one. Its configuration is kept in the spec, and so in the model file: the network can be
built again without the folder. No code of the folder is run, and weights are read from safetensors alone.
"""

from __future__ import annotations

import inspect
import json
import os
import re
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from nescio._checks import require_whole
from nescio._fetch.downloads import first_line
from nescio._kinds import InputKind
from nescio.encoders._hf_files import (
    HF_PREFIX,
    IMAGE_SIDE,
    channel_scaling,
    explaining,
    image_processor,
    image_size,
    read_file,
    read_object,
)
from nescio.encoders._settings import require_dropout
from nescio.encoders._texts import TextEncoder, mean_over_tokens
from nescio.encoders.base import (
    TORCH_LAYERS,
    Ability,
    EncoderSpec,
    EncoderWithHead,
    Layers,
    Normalization,
)
from nescio.errors import DataError, FetchError, InputError, MissingExtraError

_POOLINGS = ("mean", "first", "pooled")
_TEXT_LENGTH = 128  # tokens, where nobody has said another number
# Fields of a stranger's configuration that name code: of the folder, or a kernel that would be fetched from
# the hub and run. Without them transformers takes its own attention. Its dtype is ours.
_NEVER_WANTED = frozenset(
    {
        "auto_map",
        "torch_dtype",
        "attn_implementation",
        "_attn_implementation",
        "_attn_implementation_internal",
        "experts_implementation",
        "_experts_implementation",
        "_experts_implementation_internal",
    }
)


class Named(NamedTuple):
    """What `hf:PATH_OR_ID` stands for: a class of specs, the shape that it likes, and its fields."""

    spec: type[EncoderSpec]
    default_shape: tuple[int, ...]
    fields: dict[str, Any]


@dataclass(frozen=True)
class _HFSpec(EncoderSpec, abstract=True):
    """What models for images and for texts have in common."""

    abilities: ClassVar[frozenset[Ability]] = frozenset(
        {Ability.DROPOUT, Ability.FEATURES, Ability.PRETRAINED}
    )
    source: str
    config: str
    pooling: str
    feature_size: int
    num_classes: int
    dropout: float = 0.1

    def __post_init__(self) -> None:
        for name in ("source", "config"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"{name} must be a text, got {getattr(self, name)!r}")
        read_object(self.config, "config")
        if self.pooling not in _POOLINGS:
            raise InputError(f"pooling must be one of {', '.join(_POOLINGS)}, got {self.pooling!r}")
        require_whole("feature_size", self.feature_size)
        require_whole("num_classes", self.num_classes)
        require_dropout(self.dropout)

    @property
    def num_features(self) -> int:
        """F, as it was found when the model was first opened."""
        return self.feature_size

    def build(self, layers: Layers = TORCH_LAYERS) -> EncoderWithHead:
        """A new network from inputs (N, ...) to logits (N, K), with weights drawn at random.

        Args:
            layers: Not used: the layers are those of transformers.

        Raises:
            InputError: If transformers knows no such model.
            MissingExtraError: If transformers is not installed.
        """
        head = nn.Linear(self.feature_size, self.num_classes)
        return EncoderWithHead(self._around(self._new_model()), head, self.dropout)

    def pretrained_weights(self) -> dict[str, Tensor]:
        """The weights of the folder or of the hub, by the names of the network's state, without the head.

        Raises:
            FetchError: If they can't be had.
            DataError: If they lack a part of the network.
        """
        auto_model = _transformers().AutoModel
        # Not that of the folder, which may name code to fetch and run.
        settings = _settings_of(read_object(self.config, "config"), _NEVER_WANTED)
        options = {"trust_remote_code": False, "use_safetensors": True, "dtype": torch.float32}
        with _quietly(), explaining(self.source):
            model, loaded = auto_model.from_pretrained(
                self.source, config=settings, output_loading_info=True, **options
            )
        found = _encoder_of(model, self.pooling)
        state = {f"encoder.model.{name}": tensor for name, tensor in found.state_dict().items()}
        for name in loaded["missing_keys"]:
            if f"encoder.model.{name}" in state:
                raise DataError(f"the weights of {HF_PREFIX}{self.source} lack {name}")
        return state

    def _new_model(self) -> nn.Module:
        return _new_model(read_object(self.config, "config"), self.pooling, has_dropout=self.dropout > 0)

    @abstractmethod
    def _around(self, model: nn.Module) -> nn.Module:
        """The model as something from inputs (N, ...) to features (N, F)."""


@dataclass(frozen=True)
class HFImageSpec(_HFSpec):
    """A model of transformers for images; `make_encoder("hf:PATH_OR_ID", None, num_classes)` makes the spec.

    Args:
        source: The folder, or the name on the hub.
        config: Its configuration, as the JSON of config.json.
        pooling: What the features are: "mean" of the last hidden state over all places, "first" for its first
            place, "pooled" for what the model itself makes of it.
        feature_size: F.
        num_classes: K.
        dropout: The share of features that are switched off before the head in training; with 0 the model's
            own dropout is switched off too.
        height: Height of the images, in as many channels as there are means.
        width: Width of the images.
        mean: Subtracted from raw 8-bit channels.
        scale: What they are divided by then.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> config = {"model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> tiny = json.dumps({**config, "intermediate_size": 8, "image_size": 16, "patch_size": 8})
        >>> spec = HFImageSpec("a-folder", tiny, "mean", feature_size=8, num_classes=3, height=16, width=16)
        >>> spec.build()(torch.zeros(2, 3, 16, 16)).shape
        torch.Size([2, 3])
    """

    kind: ClassVar[str] = "hf-image"
    about: ClassVar[str] = "any model of transformers for images, named hf:PATH_OR_ID"
    inputs: ClassVar[InputKind] = InputKind.IMAGES
    height: int = IMAGE_SIDE
    width: int = IMAGE_SIDE
    mean: tuple[float, ...] = (127.5, 127.5, 127.5)
    scale: tuple[float, ...] = (127.5, 127.5, 127.5)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("height", self.height)
        require_whole("width", self.width)
        for name in ("mean", "scale"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        if len(self.mean) != len(self.scale):
            raise InputError(
                f"mean and scale must have a number for each channel, got {self.mean}, {self.scale}"
            )

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, height, width)."""
        return len(self.mean), self.height, self.width

    @property
    def normalization(self) -> Normalization:
        """As the model's image processor has it."""
        return Normalization(self.mean, self.scale)

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """height, width and num_classes."""
        _, height, width = input_shape
        return {"height": height, "width": width, "num_classes": num_classes}

    def _around(self, model: nn.Module) -> nn.Module:
        return _ImageModel(model, self.pooling)


@dataclass(frozen=True)
class HFTextSpec(_HFSpec):
    """A model of transformers for texts; `make_encoder("hf:PATH_OR_ID", None, num_classes)` makes the spec.

    Args:
        source: The folder, or the name on the hub.
        config: Its configuration, as the JSON of config.json.
        pooling: What the features are: "mean" of the last hidden state over all tokens, "first" for its first
            token, "pooled" for what the model itself makes of it.
        feature_size: F.
        num_classes: K.
        dropout: The share of features that are switched off before the head in training; with 0 the model's
            own dropout is switched off too.
        max_length: Tokens of a text that are read.
        padding: The id that stands behind the end of a text. Where a model has no padding of its own, id 0
            may be a word, as "!" of GPT-2 is; then it is the id that ends its texts.

    Raises:
        InputError: If a setting does not fit.

    Example:
        >>> config = {"model_type": "bert", "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 50}
        >>> tiny = json.dumps({**config, "num_attention_heads": 2, "intermediate_size": 8})
        >>> spec = HFTextSpec("a-folder", tiny, "mean", feature_size=8, num_classes=3, max_length=12)
        >>> spec.build()(torch.tensor([[5, 7, 9, 0, 0]])).shape
        torch.Size([1, 3])
    """

    kind: ClassVar[str] = "hf-text"
    about: ClassVar[str] = "any model of transformers for texts, named hf:PATH_OR_ID"
    inputs: ClassVar[InputKind] = InputKind.TEXTS
    later_fields: ClassVar[tuple[str, ...]] = ("padding",)
    max_length: int = _TEXT_LENGTH
    padding: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("max_length", self.max_length)
        require_whole("padding", self.padding, least=0)
        most = _most_tokens(read_object(self.config, "config"))
        if most is not None and self.max_length > most:
            raise InputError(f"max_length must be at most {most} for {self.source}, got {self.max_length}")

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(max_length,)."""
        return (self.max_length,)

    @property
    def text_padding(self) -> int:
        """See `padding`."""
        return self.padding

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        """max_length and num_classes."""
        return {"max_length": input_shape[0], "num_classes": num_classes}

    def tokenizer_json(self) -> str:
        """The tokenizer.json of the folder or of the hub.

        Raises:
            FetchError: If it can't be had.
        """
        content = read_file(self.source, "tokenizer.json")
        if content is None:
            raise FetchError(
                f"{HF_PREFIX}{self.source} has no tokenizer.json; AutoTokenizer.from_pretrained(...)"
                ".save_pretrained(folder) of transformers writes one"
            )
        return content

    def _around(self, model: nn.Module) -> nn.Module:
        fields = read_object(self.config, "config")
        pad_id = _token_of(fields, "pad_token_id") or 0
        return _TextModel(model, fields["vocab_size"], self.pooling, pad_id, self.padding)


def find(source: str) -> Named:
    """What a folder or a name on the hub holds.

    Args:
        source: What stands behind "hf:".

    Returns:
        The class of its spec, its default shape, and all fields that the data do not decide.

    Raises:
        InputError: If it is no model for images or texts.
        FetchError: If it can't be had.
        MissingExtraError: If transformers is not installed.
    """
    if not source:
        raise InputError(
            "an encoder of transformers is named hf:PATH_OR_ID, got no path and no id behind hf:"
        )
    _transformers()
    source = os.path.expanduser(source)
    content = read_file(source, "config.json")
    if content is None:
        raise InputError(
            f"{HF_PREFIX}{source} has no config.json: it is no folder of a model of transformers"
        )
    fields = read_object(content, f"config.json of {source}")
    kind = _kind_of(source, fields)
    if kind is InputKind.TEXTS:
        return _find_text(source, fields)
    return _find_image(source, fields)


def _find_text(source: str, config: dict[str, Any]) -> Named:
    length = min(_TEXT_LENGTH, _most_tokens(config) or _TEXT_LENGTH)
    model = _new_model(config, "mean")
    pad_id = _token_of(config, "pad_token_id") or 0
    network = _TextModel(model, config["vocab_size"], "mean", pad_id).eval()
    with torch.no_grad():
        features = network(torch.ones(1, 3, dtype=torch.int64))
    fields = {
        "source": source,
        "config": json.dumps(config),
        "pooling": "mean",
        "feature_size": features.shape[1],
        "padding": _padding_of(config),
    }
    return Named(HFTextSpec, (length,), fields)


def _padding_of(config: dict[str, Any]) -> int:
    """The id of its own padding, else of the end of a text; 0 where 0 is that or begins a text."""
    token = _token_of(config, "pad_token_id")
    if token is None:
        token = _token_of(config, "eos_token_id")
    if token is None or token == 1:
        return 0
    return token


def _token_of(config: Mapping[str, Any], name: str) -> int | None:
    """The id of a special token, the first of several; None where the vocabulary has no such id, like -1."""
    token = config.get(name)
    if isinstance(token, list) and token:
        token = token[0]
    if isinstance(token, int) and 0 <= token < config["vocab_size"]:
        return token
    return None


def _find_image(source: str, config: dict[str, Any]) -> Named:
    processor = image_processor(source)
    height, width = image_size(processor, config)
    mean, scale = channel_scaling(processor, config.get("num_channels", 3))
    model = _new_model(config, "pooled")
    with torch.no_grad():
        outputs = _ImageModel(model, "pooled").eval().outputs(torch.zeros(1, len(mean), height, width))
    # A pooler with weights was made for the task of before, and checkpoints often lack it.
    has_pooled = getattr(outputs, "pooler_output", None) is not None
    pooling = "pooled" if has_pooled and not _pooler_has_weights(model) else "mean"
    fields = {
        "source": source,
        "config": json.dumps(config),
        "pooling": pooling,
        "feature_size": _pooled(outputs, pooling).shape[1],
        "mean": mean,
        "scale": scale,
    }
    return Named(HFImageSpec, (len(mean), height, width), fields)


class _ImageModel(nn.Module):
    """Images (N, C, H, W) to features (N, F)."""

    def __init__(self, model: nn.Module, pooling: str) -> None:
        super().__init__()
        self.model = model
        self.pooling = pooling
        # Where the model can: its positions are stretched for images of another size than it was trained on.
        can_stretch = "interpolate_pos_encoding" in inspect.signature(model.forward).parameters
        self.options = {"interpolate_pos_encoding": True} if can_stretch else {}

    def outputs(self, images: Tensor) -> Any:
        """All that the model gives for images (N, C, H, W)."""
        return self.model(pixel_values=images, **self.options)

    def forward(self, images: Tensor) -> Tensor:
        """(N, C, H, W) to (N, F)."""
        return _pooled(self.outputs(images), self.pooling)


class _TextModel(TextEncoder):
    """Ids of tokens (N, L), with one id behind the end of each text, to features (N, F)."""

    def __init__(
        self, model: nn.Module, vocabulary: int, pooling: str, pad_id: int, padding: int = 0
    ) -> None:
        super().__init__(vocabulary, padding)
        self.model = model
        self.pooling = pooling
        self.pad_id = pad_id

    def encode(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Features (N, F) of ids (N, L)."""
        ids = ids.masked_fill(~mask, self.pad_id)
        outputs = self.model(input_ids=ids, attention_mask=mask.long())
        if self.pooling == "mean":
            return mean_over_tokens(outputs.last_hidden_state, mask)
        return _pooled(outputs, self.pooling)


def _pooled(outputs: Any, pooling: str) -> Tensor:
    """Features (N, F) of what a model gave."""
    if pooling == "pooled":
        pooled: Tensor | None = getattr(outputs, "pooler_output", None)
        if pooled is None:
            raise InputError("pooling must be mean or first: the model has no pooled output")
        return pooled.flatten(1)
    states: Tensor = outputs.last_hidden_state
    if states.ndim == 4:  # (N, F, H, W) of convolutions
        states = states.flatten(2).transpose(1, 2)
    if pooling == "first":
        return states[:, 0]
    return states.mean(1)


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as error:
        raise MissingExtraError("hf", "transformers") from error
    return transformers


def _new_model(config: Mapping[str, Any], pooling: str, has_dropout: bool = True) -> nn.Module:
    """A model with weights drawn at random."""
    settings = _settings_of(config, {*_NEVER_WANTED, "quantization_config"})
    if not has_dropout:
        _switch_dropout_off(settings)
    with _building(config):
        model = _transformers().AutoModel.from_config(settings, trust_remote_code=False)
    return _encoder_of(model, pooling)


def _settings_of(config: Mapping[str, Any], unwanted: Collection[str]) -> Any:
    """The configuration as an object of transformers, for weights in float32."""
    library = _transformers()
    known = library.CONFIG_MAPPING
    name = config.get("model_type")
    if name not in known:
        raise InputError(f"transformers {library.__version__} knows no model of the type {name!r}")
    fields = {**_without(config, unwanted), "dtype": "float32"}
    with _building(config):
        return known[name].from_dict(fields)


def _without(fields: Mapping[str, Any], unwanted: Collection[str]) -> dict[str, Any]:
    """Fields without some names, also within the parts that have a configuration of their own."""
    kept = {}
    for name, value in fields.items():
        if name not in unwanted:
            kept[name] = _without(value, unwanted) if isinstance(value, dict) else value
    return kept


@contextmanager
def _building(config: Mapping[str, Any]) -> Iterator[None]:
    """Say in one line why transformers can't build a model; an ImportError is of a package that it needs."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AssertionError, ImportError) as error:
        name = config.get("model_type")
        reason = first_line(str(error))
        raise InputError(f"transformers can't build a model of the type {name!r}: {reason}") from error


def _encoder_of(model: Any, pooling: str) -> nn.Module:
    """The part that gives features: without a decoder, and without a pooler that is not asked for."""
    if model.config.is_encoder_decoder:
        model = model.get_encoder()
    if pooling != "pooled" and _pooler_has_weights(model):
        model.pooler = None
    found: nn.Module = model
    return found


def _pooler_has_weights(model: nn.Module) -> bool:
    pooler = getattr(model, "pooler", None)
    return isinstance(pooler, nn.Module) and len(list(pooler.parameters())) > 0


def _switch_dropout_off(settings: Any) -> None:
    """Set every share of dropout of a configuration to zero, also those that only its class has."""
    for name, value in settings.to_dict().items():
        is_share = isinstance(value, int | float) and not isinstance(value, bool)
        if is_share and re.search(r"dropout|drop_path|pdrop", name):
            setattr(settings, name, 0.0)


def _kind_of(source: str, config: Mapping[str, Any]) -> InputKind:
    if "vision_config" in config or "text_config" in config:
        raise InputError(
            f"{HF_PREFIX}{source} takes images and texts at once; save the part for one of them alone"
        )
    if "vocab_size" in config:
        return InputKind.TEXTS
    if "num_channels" in config or "image_size" in config:
        return InputKind.IMAGES
    name = config.get("model_type")
    raise InputError(f"{HF_PREFIX}{source}, of the type {name!r}, is no model for images or texts")


def _most_tokens(config: Mapping[str, Any]) -> int | None:
    """How long a text may be; None where there is no limit, or nobody knows the model."""
    try:
        settings = _settings_of(config, _NEVER_WANTED)
    except (InputError, MissingExtraError):  # which `build` says
        return None
    # By the object of transformers: GPT-2 calls it n_positions, and what T5 calls so is no limit.
    positions = getattr(settings, "max_position_embeddings", None)
    if not isinstance(positions, int) or positions < 1:
        return None
    # Models after RoBERTa, whose padding has the id 1, number their places from 2 on.
    reserved = 2 if config.get("pad_token_id") == 1 else 0
    return positions - reserved


@contextmanager
def _quietly() -> Iterator[None]:
    """Without the library's own progress bars and reports."""
    logging = _transformers().utils.logging
    level = logging.get_verbosity()
    had_bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()
