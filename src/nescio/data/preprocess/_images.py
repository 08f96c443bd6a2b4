"""ImagePreprocess: pictures and arrays of pixels to images of one size."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data._pictures import RESIZE_MODES
from nescio.data._stored import StoredArray, row_chunks
from nescio.data._values import Picture, Row, Text, Value
from nescio.data.preprocess._base import Preprocess, check_scaling, scaled, sizes_text
from nescio.errors import DataError, InputError

if TYPE_CHECKING:
    from nescio.data._schema import TableSchema

BYTES = (0.0, 255.0)
WHITE = BYTES[1]
DARKEST = WHITE / 2  # numbers whose greatest is below are not taken for pixels from 0 to 255


@dataclass(frozen=True)
class ImagePreprocess(Preprocess):
    """Brings pictures to one size and pixels to the scale of the network.

    Args:
        input_shape: (channels, height, width).
        mean: Taken from each channel, (C,).
        scale: What each channel is divided by then, (C,), positive.
        pixel_range: The least and the greatest value that a pixel may have; None for images that were no
            bytes.
        white: What a white pixel is among the raw inputs: 255, or 1 for images from 0 to 1; bytes, which
            pictures are made of, are brought to it. None where the inputs are no pixels, and no pictures.
        resize: How a picture of another size is brought to this one: "stretch" as it is, "crop" to the middle
            after its shorter side fits, "pad" with black after its longer side fits.

    Raises:
        InputError: If these do not fit together.

    Example:
        >>> preprocess = ImagePreprocess((1, 2, 2), (0.0,), (255.0,), pixel_range=(0.0, 255.0))
        >>> preprocess(torch.full((1, 1, 2, 2), 255, dtype=torch.uint8)).max()
        tensor(1.)
        >>> preprocess.prepare(torch.zeros(2, 2, dtype=torch.uint8)).shape
        torch.Size([1, 2, 2])
    """

    kind: ClassVar[InputKind] = InputKind.IMAGES
    input_shape: tuple[int, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]
    pixel_range: tuple[float, float] | None = None
    resize: str = "stretch"
    white: float | None = WHITE

    def __post_init__(self) -> None:
        object.__setattr__(self, "input_shape", tuple(int(size) for size in self.input_shape))
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "scale", tuple(float(value) for value in self.scale))
        if len(self.input_shape) != 3:
            raise InputError(f"input_shape must be (channels, height, width), got {self.input_shape}")
        check_scaling(self.mean, self.scale, self.input_shape[0])
        if self.pixel_range is not None:
            least, most = self.pixel_range
            object.__setattr__(self, "pixel_range", (float(least), float(most)))
        if self.resize not in RESIZE_MODES:
            raise InputError(f"resize must be one of {', '.join(RESIZE_MODES)}, got {self.resize!r}")

    @classmethod
    def fit(
        cls, inputs: Tensor | StoredArray, weights: Tensor | None = None, schema: TableSchema | None = None
    ) -> ImagePreprocess:
        """See `Preprocess.fit`."""
        shape = tuple(inputs.shape[1:])
        zeros = (0.0,) * shape[0]
        if inputs.dtype == torch.uint8:
            return cls(shape, zeros, (WHITE,) * shape[0], pixel_range=BYTES)
        ranges = [(float(part.min()), float(part.max())) for part in row_chunks(inputs)]
        least = min(low for low, _ in ranges)
        most = max(high for _, high in ranges)
        greatest = max(abs(least), abs(most)) or 1.0
        return cls(shape, zeros, (greatest,) * shape[0], white=_white_of(least, most))

    def prepare(self, value: Value) -> Tensor:
        """One image (C, H, W): uint8 for pictures and bytes where 255 is white, else float32.

        Args:
            value: A picture, or pixels; these may have their channels last, and grey ones no axis for them.

        Raises:
            DataError: If it does not fit the model, or is damaged, or has values that are not finite or no
                pixels; the message says why.
        """
        if isinstance(value, Picture):
            channels, height, width = self.input_shape
            if self.white is None:
                raise DataError("the model was trained on numbers that are no pixels; give arrays like them")
            return self._in_own_units(value.pixels(channels, (height, width), self.resize))
        if isinstance(value, Row):
            raise DataError(f"the model takes pictures {sizes_text(self.input_shape)}, not rows of a table")
        if isinstance(value, Text):
            raise DataError(f"the model takes pictures {sizes_text(self.input_shape)}, not texts")
        return self._in_own_units(self._checked(self._shaped(value)))

    def __call__(self, inputs: Tensor) -> Tensor:
        """Scale a batch: (x - mean) / scale for each channel.

        Args:
            inputs: (N, C, H, W).

        Returns:
            (N, C, H, W) in float64 if the inputs are, else in float32.
        """
        return scaled(self._in_own_units(inputs), self.mean, self.scale)

    @property
    def preparation(self) -> object:
        """Everything but the scaling."""
        return (self.kind, self.input_shape, self.pixel_range, self.resize, self.white)

    def input_range(self, raw: Tensor) -> Tensor:
        """The range of raw inputs in each channel (C,), see `input_range_of`, as that of scaled ones (C,)."""
        return raw / raw.new_tensor(self.scale)

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        fields = {"kind": self.kind.value, **asdict(self)}
        if self.pixel_range is not None and self.white == WHITE:
            del fields["white"]  # as it is for all bytes, and in files from before it was kept
        return fields

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> ImagePreprocess:
        for former in ("columns", "label_position"):  # images had them too, always empty
            fields.pop(former, None)
        # Numbers from before white was kept: up to 1 they were images from 0 to 1.
        if "white" not in fields and fields.get("pixel_range") is None and max(fields["scale"]) <= 1:
            fields["white"] = 1.0
        return cls(**fields)

    @property
    def takes_bytes_as_they_are(self) -> bool:
        """Whether a byte is worth the same as that number."""
        return self.white is None or self.white == WHITE

    def _in_own_units(self, pixels: Tensor) -> Tensor:
        if pixels.dtype != torch.uint8 or self.takes_bytes_as_they_are:
            return pixels
        assert self.white is not None
        return pixels.float() * (self.white / WHITE)

    def _shaped(self, values: Tensor) -> Tensor:
        shape = self.input_shape
        given = tuple(values.shape)
        if values.ndim == 2 and shape[0] == 1:
            values = values.unsqueeze(0)  # (H, W) -> (1, H, W)
        if values.ndim == 3 and tuple(values.shape) != shape:
            channels_first = values.permute(2, 0, 1)  # (H, W, C) -> (C, H, W)
            if tuple(channels_first.shape) == shape:
                values = channels_first
        if tuple(values.shape) != shape:
            raise DataError(f"must be {sizes_text(shape)} numbers, got {sizes_text(given)}")
        return values

    def _checked(self, values: Tensor) -> Tensor:
        if values.dtype == torch.uint8:
            return values
        values = values.float()
        if not bool(values.isfinite().all()):
            raise DataError("has a value that is not finite")
        if self.pixel_range is not None:
            least, most = self.pixel_range
            if float(values.min()) < least or float(values.max()) > most:
                raise DataError(f"has pixels that are not {least:g} to {most:g}")
        return values


def _white_of(least: float, most: float) -> float | None:
    """What white is among numbers from least to most; None where they are no pixels."""
    if least < 0 or most > WHITE:
        return None
    if most <= 1:
        return 1.0
    return WHITE if most > DARKEST else None
