"""A small encoder of texts with "pretrained" weights that need no network: for tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn

from nescio._kinds import InputKind
from nescio.encoders import Ability, EncoderSpec, EncoderWithHead, register_encoder

# Empty places, what is not known, and the words that questions of the tests are made of.
WORDS = (
    "[PAD]",
    "[UNK]",
    "play",
    "song",
    "music",
    "pay",
    "bill",
    "bank",
    "rain",
    "sun",
    "weather",
    "the",
    "a",
)
FEATURES = 24


class MeanOfWords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(len(WORDS), FEATURES)

    def forward(self, ids: Tensor) -> Tensor:
        is_word = (ids != 0).unsqueeze(-1)  # (N, L, 1)
        return (self.words(ids) * is_word).sum(1) / is_word.sum(1)


@register_encoder
@dataclass(frozen=True)
class TinyTextSpec(EncoderSpec):
    """The mean of the words' vectors, which are drawn from a seed of their own."""

    kind: ClassVar[str] = "tiny-pretrained-texts"
    about: ClassVar[str] = "the mean of the words' vectors, for tests"
    inputs: ClassVar[InputKind] = InputKind.TEXTS
    abilities: ClassVar[frozenset[Ability]] = frozenset({Ability.FEATURES, Ability.PRETRAINED})
    default_shape: ClassVar[tuple[int, ...] | None] = (8,)
    max_length: int
    num_classes: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.max_length,)

    @property
    def num_features(self) -> int:
        return FEATURES

    @classmethod
    def fields_for(cls, input_shape: Sequence[int], num_classes: int) -> dict[str, Any]:
        return {"max_length": input_shape[0], "num_classes": num_classes}

    def build(self, layers: Any = None) -> EncoderWithHead:
        return EncoderWithHead(MeanOfWords(), nn.Linear(FEATURES, self.num_classes))

    def pretrained_weights(self) -> dict[str, Tensor]:
        with torch.random.fork_rng():
            torch.manual_seed(7)
            state = self.build().state_dict()
        state["encoder.words.weight"][1] = 0.0  # a word that is not known speaks for nothing
        return {name: value for name, value in state.items() if not name.startswith("head.")}

    def tokenizer_json(self) -> str:
        vocabulary = {word: position for position, word in enumerate(WORDS)}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        return str(tokenizer.to_str())
