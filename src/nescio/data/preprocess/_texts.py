"""TextPreprocess: texts to the ids of their tokens."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from nescio._checks import require_whole
from nescio._kinds import InputKind
from nescio.data._values import Picture, Row, Text, Value
from nescio.data.preprocess._base import Preprocess, sizes_text
from nescio.errors import DataError, InputError, MissingExtraError, NescioWarning

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from nescio.data.dataset import LabelledData

# No more of a text is looked at: a token is seldom longer, and a megabyte then costs no more than a page.
CHARACTERS_PER_TOKEN = 64
AT_ONCE = 1024  # texts


@dataclass(frozen=True)
class TextPreprocess(Preprocess):
    """Brings texts to a network: the ids of their tokens, with `pad_id` behind the end.

    Args:
        tokenizer: A tokenizer of the package tokenizers as JSON, the content of a tokenizer.json. It says
            what a token is, and whether case counts. It is kept in the model file.
        max_length: How many tokens of a text are read; what is behind them is cut off, with a warning.
        column: The name of the column that holds the texts where they come in a table; None where they never
            did: then the only column is taken.
        pad_id: What stands behind the end of a text.

    Raises:
        InputError: If these do not fit together.
        MissingExtraError: Once a text is prepared, if tokenizers is not installed.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> words = Tokenizer(models.WordLevel({"[PAD]": 0, "[UNK]": 1, "hello": 2}, unk_token="[UNK]"))
        >>> words.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> TextPreprocess(words.to_str(), max_length=4).prepare(Text("hello you", "a text"))
        tensor([2, 1, 0, 0])
    """

    kind: ClassVar[InputKind] = InputKind.TEXTS
    tokenizer: str
    max_length: int
    column: str | None = None
    pad_id: int = 0

    def __post_init__(self) -> None:
        require_whole("max_length", self.max_length)
        require_whole("pad_id", self.pad_id, least=0)
        try:
            content = json.loads(self.tokenizer)
        except (TypeError, ValueError) as error:
            raise InputError(f"tokenizer must be JSON as tokenizer.json holds it: {error}") from error
        if not isinstance(content, dict) or "model" not in content:
            raise InputError("tokenizer must be JSON as tokenizer.json holds it, got something else")

    @property
    def input_shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """(max_length,)."""
        return (self.max_length,)

    def prepare(self, value: Value) -> Tensor:
        """The ids of the tokens of one text (max_length,), int64.

        Args:
            value: A text; a row of a table, of which the text's column is taken; or ids.

        Raises:
            DataError: If there is no text, or an empty one; the message says why.
        """
        prepared, is_cut = self.prepare_with_cut(value)
        if is_cut:
            self._tell_of_cuts(1, 1)
        return prepared

    def prepare_with_cut(self, value: Value) -> tuple[Tensor, bool]:
        """Do as `prepare`, but return beside the ids whether the text was cut, instead of warning of it.

        Args:
            value: A text; a row of a table, of which the text's column is taken; or ids.

        Raises:
            DataError: If there is no text, or an empty one; the message says why.
        """
        if isinstance(value, Picture):
            raise DataError("the model takes texts, not pictures")
        if isinstance(value, Tensor):
            return self._checked(value), False
        prepared, num_cut = self._prepare_counting_cuts([self._text(value)])
        return prepared[0], num_cut > 0

    def prepare_texts(self, texts: Sequence[str]) -> Tensor:
        """The ids of the tokens of many texts, much faster than one by one.

        Args:
            texts: N of them.

        Returns:
            int64 (N, max_length).

        Raises:
            DataError: If one is empty.
        """
        prepared, num_cut = self._prepare_counting_cuts(texts)
        if num_cut:
            self._tell_of_cuts(num_cut, len(texts))
        return prepared

    def __call__(self, inputs: Tensor) -> Tensor:
        """The ids (N, max_length) as they are."""
        return inputs

    @property
    def preparation(self) -> object:
        """All of it."""
        return self

    def inputs_of(self, data: LabelledData) -> Tensor:
        """The tokens of all texts, (N, max_length).

        Args:
            data: Texts.

        Raises:
            InputError: If it holds something else.
        """
        return self.prepare_texts(super().inputs_of(data))

    def example(self) -> Tensor:
        """A text of one token, whichever (1, max_length), int64."""
        example = torch.full((1, self.max_length), self.pad_id, dtype=torch.int64)
        example[0, 0] = 1 if self.pad_id == 0 else 0
        return example

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for a model file."""
        return {"kind": self.kind.value, **asdict(self)}

    @classmethod
    def _from_fields(cls, fields: dict[str, Any]) -> TextPreprocess:
        return cls(**fields)

    def _prepare_counting_cuts(self, texts: Sequence[str]) -> tuple[Tensor, int]:
        """The ids (N, max_length), and how many texts were longer."""
        prepared = torch.full((len(texts), self.max_length), self.pad_id, dtype=torch.int64)
        num_cut = 0
        for start in range(0, len(texts), AT_ONCE):
            beginnings = []
            for place, text in enumerate(texts[start : start + AT_ONCE], start=start + 1):
                if not text.strip():
                    raise DataError("is an empty text" if len(texts) == 1 else f"text {place} is empty")
                beginnings.append(text[: self.max_length * CHARACTERS_PER_TOKEN])
            for place, encoding in enumerate(self._encodings(beginnings), start=start):
                prepared[place, : len(encoding.ids)] = torch.tensor(encoding.ids)
                num_cut += bool(encoding.overflowing) or len(texts[place]) > len(beginnings[place - start])
        return prepared, num_cut

    def _text(self, value: Row | Text) -> str:
        if isinstance(value, Text):
            return value.content
        if value.header is not None and len(value.cells) != len(value.header):
            width = len(value.header)
            raise DataError(f"{value.place}: {width} columns expected, got {len(value.cells)}")
        if value.header is not None and self.column in value.header:
            place = value.header.index(self.column)
        elif len(value.cells) == 1:
            place = 0
        elif self.column is None or value.header is None:
            raise DataError(f"{value.place}: one column with a text expected, got {len(value.cells)} columns")
        else:
            raise DataError(f"{value.place}: the model needs the column {self.column}")
        text = value.cell(place)
        if not text.strip() and len(value.cells) > 1:
            # Of JSON lines, one without the key has a gap in the column that other lines have.
            raise DataError(f"{value.place}: the model needs the column {self.column}, which is empty here")
        return text

    def _checked(self, tokens: Tensor) -> Tensor:
        if tokens.is_floating_point() or tokens.dtype in (torch.bool, torch.uint8):
            raise DataError(f"the model takes texts, not {sizes_text(tuple(tokens.shape))} numbers")
        if tuple(tokens.shape) != self.input_shape:
            found = sizes_text(tuple(tokens.shape))
            raise DataError(f"must be {self.max_length} ids of tokens, got {found}")
        return tokens.long()

    def _encodings(self, texts: list[str]) -> list[Encoding]:
        # Half of a surrogate pair, as of an emoji that was cut in two, is no text to the tokenizer.
        whole = [text.encode("utf-8", "replace").decode() for text in texts]
        return _tokenizer(self.tokenizer, self.max_length).encode_batch(whole)

    def _tell_of_cuts(self, num_cut: int, count: int) -> None:
        which = "a text is" if count == 1 else f"{num_cut} of {count} texts are"
        warnings.warn(
            f"{which} longer than {self.max_length} tokens; the model reads the first {self.max_length}",
            NescioWarning,
            stacklevel=3,
        )


@lru_cache(maxsize=8)
def _tokenizer(content: str, max_length: int) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingExtraError("text", "tokenizers") from error
    try:
        found = Tokenizer.from_str(content)
    except Exception as error:  # the package raises nothing more special
        raise InputError(f"tokenizer can't be read: {error}") from error
    found.enable_truncation(max_length)
    found.no_padding()
    return found
