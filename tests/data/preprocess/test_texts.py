import sys

import pytest
import torch
from tests.data.preprocess.words import WORDS

from nescio.data import Picture, Row, Text, TextPreprocess
from nescio.errors import DataError, InputError, MissingExtraError, NescioWarning


def tokens(text, max_length=4, **settings):
    value = text if isinstance(text, Row | torch.Tensor) else Text(text, "a text")
    return TextPreprocess(WORDS, max_length, **settings).prepare(value).tolist()


def test_ids_with_zeros_behind_the_end():
    assert tokens("Hello you") == [2, 3, 0, 0]
    assert tokens("what now") == [1, 1, 0, 0]
    assert tokens("bye", pad_id=9) == [4, 9, 9, 9]
    assert TextPreprocess(WORDS, 4).prepare(Text("bye", "a text")).dtype == torch.int64


def test_half_of_a_surrogate_pair_costs_no_more_than_itself():
    assert tokens("hello \ud83d you") == [2, 1, 3, 0]


def test_a_text_that_is_too_long_is_cut_and_said():
    with pytest.warns(NescioWarning, match="a text is longer than 2 tokens; the model reads the first 2"):
        assert tokens("hello hello you", 2) == [2, 2]


def test_that_a_text_was_cut_can_be_returned_instead():
    preprocess = TextPreprocess(WORDS, 2)
    ids, is_cut = preprocess.prepare_with_cut(Text("hello hello you", "a text"))
    assert (ids.tolist(), is_cut) == ([2, 2], True)
    ids, is_cut = preprocess.prepare_with_cut(Text("hello you", "a text"))
    assert (ids.tolist(), is_cut) == ([2, 3], False)
    assert preprocess.prepare_with_cut(torch.tensor([2, 3]))[1] is False


def test_a_text_of_a_megabyte():
    with pytest.warns(NescioWarning, match="longer than 4 tokens"):
        assert tokens("bye " * 250_000) == [4, 4, 4, 4]
    with pytest.warns(NescioWarning, match="longer than 4 tokens"):
        assert tokens("hello" + " " * 1_000_000 + "bye") == [2, 0, 0, 0]


@pytest.mark.parametrize("text", ["", "  \n\t "])
def test_an_empty_text_is_refused(text):
    with pytest.raises(DataError, match="is an empty text"):
        tokens(text)
    with pytest.raises(DataError, match="text 2 is empty"):
        TextPreprocess(WORDS, 4).prepare_texts(["hello", text])


def test_many_texts_at_once_are_the_same_as_one_by_one():
    preprocess = TextPreprocess(WORDS, 4)
    texts = ["hello", "you bye", "something else here"] * 700
    many = preprocess.prepare_texts(texts)
    one_by_one = torch.stack([preprocess.prepare(Text(text, "t")) for text in texts[:3]])
    assert torch.equal(many, one_by_one.repeat(700, 1))


def test_many_that_are_too_long_are_counted():
    with pytest.warns(NescioWarning, match="2 of 3 texts are longer than 1 tokens"):
        TextPreprocess(WORDS, 1).prepare_texts(["hello you", "bye", "you you"])


def test_the_column_of_a_table():
    row = Row(("7", "hello you"), ("number", "question"), "q.csv, line 2")
    assert tokens(row, column="question") == [2, 3, 0, 0]
    assert tokens(Row(("bye",), ("whatever",), "q.csv, line 2"), column="question") == [4, 0, 0, 0]
    assert tokens(Row(("bye",), None, "q.csv, line 1")) == [4, 0, 0, 0]
    with pytest.raises(DataError, match=r"q.csv, line 2: the model needs the column intent"):
        tokens(row, column="intent")
    with pytest.raises(DataError, match=r"q.csv, line 2: one column with a text expected, got 2 columns"):
        tokens(row)
    # As JSON lines have it where other lines have the column.
    with pytest.raises(
        DataError, match=r"q.jsonl, line 2: the model needs the column question, which is empty here"
    ):
        tokens(Row(("", "play"), ("question", "q"), "q.jsonl, line 2"), column="question")
    with pytest.raises(DataError, match="is an empty text"):
        tokens(Row(("",), ("question",), "q.csv, line 2"), column="question")
    with pytest.raises(DataError, match=r"q.csv, line 3: 3 columns expected, got 2"):
        tokens(Row(("7", "8"), ("number", "other", "question"), "q.csv, line 3"), column="question")


def test_ids_as_they_are():
    assert tokens(torch.tensor([2, 3, 0, 0], dtype=torch.int32)) == [2, 3, 0, 0]
    with pytest.raises(DataError, match="must be 4 ids of tokens, got 2"):
        tokens(torch.tensor([2, 3]))
    with pytest.raises(DataError, match="the model takes texts, not 4 numbers"):
        tokens(torch.zeros(4))
    with pytest.raises(DataError, match="the model takes texts, not pictures"):
        TextPreprocess(WORDS, 4).prepare(Picture(b"", "a.png"))


def test_a_batch_stays_as_it_is():
    batch = torch.tensor([[2, 3, 0, 0]])
    assert TextPreprocess(WORDS, 4)(batch) is batch


@pytest.mark.parametrize("tokenizer", ["no JSON", "[]", '{"version": "1.0"}', None])
def test_what_is_no_tokenizer_is_refused(tokenizer):
    with pytest.raises(InputError, match=r"tokenizer must be JSON as tokenizer.json holds it"):
        TextPreprocess(tokenizer, 4)


def test_a_tokenizer_that_can_not_be_read():
    with pytest.raises(InputError, match="tokenizer can't be read"):
        TextPreprocess('{"model": {"type": "unheard of"}}', 4).prepare(Text("hello", "t"))


def test_without_tokenizers_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(MissingExtraError, match=r"tokenizers is not installed.*nescio\[text\]"):
        tokens("hello", 3)
