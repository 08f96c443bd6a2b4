"""Which network is trained where nobody has said it: by what the data are, and with the reason in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from nescio._kinds import InputKind
from nescio.data import Dataset, ImagePreprocess, LabelledData, Preprocess, Table, Texts
from nescio.data.preprocess import BYTES
from nescio.data.sources._pictures import PictureSource
from nescio.encoders import ENCODERS, Ability, EncoderSpec, make_encoder
from nescio.encoders._hf_files import HF_PREFIX
from nescio.errors import InputError
from nescio.inference._frozen import preprocess_for

Network = EncoderSpec | str | nn.Module

LARGEST_LENET_SIDE = 64  # grey images up to this size are digits, letters, signs: a LeNet learns them
SMALL_SIDE = 160  # images up to this size are brought to it; larger ones to the encoder's own size
PHOTO_ENCODER = "efficientnet-lite0"
TEXT_ENCODER = "minilm"


@dataclass(frozen=True)
class Choice:
    """What is trained on some data, and why.

    Args:
        network: A spec, the name of an encoder, or the user's own module.
        is_frozen: Whether the network only gives features, on which a head is trained.
        spec: For pretrained encoders, the spec for inputs of the chosen size; its number of classes is open.
        preprocess: For pretrained encoders, how raw inputs are prepared; None where the data decide.
        reason: One line for people: what was chosen, for what, and how to choose otherwise.
        label_column: The column of a table that holds the labels; None where they are in none.
    """

    network: Network
    is_frozen: bool
    spec: EncoderSpec | None
    preprocess: Preprocess | None
    reason: str
    label_column: str | None = None


def choose_network(
    data: LabelledData | PictureSource,
    network: Network | None = None,
    fine_tune: bool = False,
    size: int | None = None,
    fields: Mapping[str, Any] | None = None,
    label_column: str | None = None,
) -> Choice:
    """Choose what is trained on some data.

    Args:
        data: What it is trained on; of a folder of pictures only the headers are read.
        network: What the user wants; None for what fits the data.
        fine_tune: Whether all of a pretrained encoder is trained, instead of a head on its features.
        size: The height and width that pictures are brought to; None for what fits.
        fields: Fields of an encoder with pretrained weights that are not to have their defaults.
        label_column: The column of a table that the labels were taken from, for people.

    Raises:
        InputError: If the encoder does not take such data, or has nothing to be fine-tuned.
    """
    form = _form_of(data)
    about = f"{form.about}{_classes_text(data, label_column)}"
    if network is None:
        network = _usual_network(form)
    own_shape = None
    if fine_tune and isinstance(data, Dataset):  # what trains on images as they are must take their size
        own_shape = tuple(data.images.shape[1:])
    spec = _pretrained_spec(network, form, size, own_shape, fields or {})
    if spec is None:
        if fine_tune:
            raise InputError(f"fine_tune needs an encoder with pretrained weights, got {name_of(network)}")
        reason = f"{about}: {name_of(network)}, trained from the start"
        return Choice(network, False, None, None, reason, label_column)
    if spec.inputs is not form.kind:
        raise InputError(f"the encoder {spec.kind} takes {spec.inputs.value}, got {form.about}")
    if isinstance(data, PictureSource):
        preprocess: Preprocess = _picture_preprocess(spec)
    else:
        assert not isinstance(data, Table)  # no encoder with pretrained weights takes rows
        preprocess = preprocess_for(spec, data)
    reason = _reason(about, spec, fine_tune)
    return Choice(network, not fine_tune, spec, preprocess, reason, label_column)


@dataclass(frozen=True)
class _Form:
    """What data are like: their kind, and for images their channels and size."""

    kind: InputKind
    about: str
    channels: int = 0
    side: int = 0


def _form_of(data: LabelledData | PictureSource) -> _Form:
    if isinstance(data, Texts):
        return _Form(InputKind.TEXTS, f"{data.name}: {len(data):,} texts")
    if isinstance(data, Table):
        return _Form(InputKind.ROWS, f"{data.name}: {len(data):,} rows")
    if isinstance(data, PictureSource):
        found = data.header_summary()
        return _Form(InputKind.IMAGES, f"{data.name}: {found}", found.channels, max(found.median))
    channels, height, width = data.images.shape[1:]
    colour = "grey" if channels == 1 else "colour"
    about = f"{data.name}: {len(data):,} images of {height} x {width} pixels, {colour}"
    return _Form(InputKind.IMAGES, about, channels, max(height, width))


def _classes_text(data: LabelledData | PictureSource, label_column: str | None) -> str:
    """How many classes there are and, of a table, the column that names them: it may have been guessed."""
    classes: Sequence[str] = ()
    if not isinstance(data, PictureSource):
        classes = data.classes
    elif data.labels is not None:
        classes = data.labels.classes
    text = f", {len(classes):,} classes" if classes else ""
    if label_column is not None:
        text += f" in column {label_column or '(no name)'}"
    return text


def _usual_network(form: _Form) -> str:
    if form.kind is InputKind.TEXTS:
        return TEXT_ENCODER
    if form.kind is InputKind.ROWS:
        return "mlp"
    if form.channels == 1 and form.side <= LARGEST_LENET_SIDE:
        return "lenet"
    return PHOTO_ENCODER


def is_pretrained(network: Network) -> bool:
    """Whether it is an encoder with pretrained weights; nothing is fetched to know it.

    Raises:
        InputError: If there is no encoder of that name.
    """
    if isinstance(network, str):
        return network.startswith(HF_PREFIX) or Ability.PRETRAINED in ENCODERS.get(network).abilities
    return isinstance(network, EncoderSpec) and Ability.PRETRAINED in network.abilities


def name_of(network: Network) -> str:
    """What a network is called in messages."""
    if isinstance(network, str):
        return network
    return network.kind if isinstance(network, EncoderSpec) else f"your {type(network).__name__}"


def _pretrained_spec(
    network: Network,
    form: _Form,
    size: int | None,
    own_shape: tuple[int, ...] | None,
    fields: Mapping[str, Any],
) -> EncoderSpec | None:
    """The spec of an encoder with pretrained weights, for inputs of the size that suits the data.

    own_shape: what it must take, where that is settled. How many classes there are is set later. None for
    networks that are trained from the start.
    """
    if not is_pretrained(network):
        return None
    if isinstance(network, EncoderSpec):
        return network
    assert isinstance(network, str)
    is_ours = not network.startswith(HF_PREFIX)
    if size is not None and {"height", "width"} & fields.keys():
        raise InputError(f"size and the height and width of {network} can't both be given")
    usual = make_encoder(network, None, 2, **fields)
    if usual.inputs is not InputKind.IMAGES:
        return usual
    if own_shape is not None:
        return make_encoder(network, own_shape, 2, **fields)
    side = size
    is_settled = {"height", "width"} & fields.keys()
    if side is None and is_ours and form.side <= SMALL_SIDE and not is_settled:
        side = SMALL_SIDE
    if side is None:
        return usual
    return make_encoder(network, (usual.input_shape[0], side, side), 2, **fields)


def _picture_preprocess(spec: EncoderSpec) -> ImagePreprocess:
    """For pictures that are decoded in the size that the encoder takes."""
    normalization = spec.normalization
    assert normalization is not None, f"{spec.kind} has pretrained weights, but no normalization"
    return ImagePreprocess(
        spec.input_shape, normalization.mean, normalization.scale, pixel_range=BYTES, resize="crop"
    )


def _reason(about: str, spec: EncoderSpec, fine_tune: bool) -> str:
    if fine_tune:
        how = f"all of {spec.kind} is trained on from its pretrained weights"
        otherwise = "without --fine-tune only a head is trained"
    else:
        how = f"a head on {spec.num_features:,} features of the pretrained {spec.kind}, which stays as it is"
        otherwise = "--fine-tune trains all of it, --encoder NAME another one"
    if spec.inputs is InputKind.IMAGES:
        _, height, width = spec.input_shape
        how = f"brought to {height} x {width}; {how}"
        otherwise = f"{otherwise}, --size another size"
    return f"{about}: {how} ({otherwise})"
