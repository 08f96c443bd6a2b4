"""A tokenizer of five words, as JSON."""

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

_VOCABULARY = {"[PAD]": 0, "[UNK]": 1, "hello": 2, "you": 3, "bye": 4}


def _words():
    tokenizer = Tokenizer(models.WordLevel(_VOCABULARY, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return tokenizer.to_str()


WORDS = _words()
