"""A network for texts that is small enough for tests: the mean of the words' vectors, and a dense layer."""

from dataclasses import dataclass

from torch import nn

from nescio._kinds import InputKind
from nescio.encoders import EncoderSpec, register_encoder


class BagOfWords(nn.Module):
    def __init__(self, num_words, num_classes):
        super().__init__()
        self.words = nn.Embedding(num_words, 8)
        self.head = nn.Linear(8, num_classes)

    def forward(self, ids):
        mask = (ids != 0).unsqueeze(-1)  # (N, L, 1)
        return self.head((self.words(ids) * mask).sum(1) / mask.sum(1))


@register_encoder
@dataclass(frozen=True)
class BagOfWordsSpec(EncoderSpec):
    kind = "bag-of-words-of-tests"
    about = "the mean of the words' vectors"
    inputs = InputKind.TEXTS
    abilities = frozenset()
    max_length: int = 4
    num_classes: int = 3
    num_words: int = 5

    @property
    def input_shape(self):
        return (self.max_length,)

    @classmethod
    def fields_for(cls, input_shape, num_classes):
        return {"max_length": input_shape[0], "num_classes": num_classes}

    def build(self, layers=None):
        return BagOfWords(self.num_words, self.num_classes)
