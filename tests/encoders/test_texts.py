import pytest
import torch
from torch import nn

from nescio.encoders._texts import TextEncoder, mean_over_tokens, token_mask
from nescio.errors import InputError


class Mean(TextEncoder):
    """The mean of embeddings; it remembers what it was given."""

    def __init__(self):
        super().__init__(vocabulary=50)
        self.words = nn.Embedding(50, 3)
        self.seen = []

    def encode(self, ids, mask):
        self.seen.append(tuple(ids.shape))
        return mean_over_tokens(self.words(ids), mask)


def texts(lengths, width):
    ids = torch.randint(1, 50, (len(lengths), width), generator=torch.Generator().manual_seed(0))
    for row, length in zip(ids, lengths, strict=True):
        row[length:] = 0
    return ids


def test_a_text_ends_behind_its_last_token():
    ids = torch.tensor([[5, 0, 7, 0, 0], [1, 2, 3, 4, 5], [0, 0, 0, 0, 0]])
    assert token_mask(ids).long().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0]]


def test_the_end_may_be_another_id():
    ids = torch.tensor([[5, 9, 0, 9, 9], [0, 0, 0, 0, 0]])
    assert token_mask(ids, 9).long().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]


def test_the_mean_is_over_tokens_alone():
    states = torch.tensor([[[1.0], [3.0], [100.0]]])
    assert mean_over_tokens(states, torch.tensor([[True, True, False]])).tolist() == [[2.0]]


def test_places_that_are_empty_everywhere_are_not_computed():
    encoder = Mean()
    encoder(texts([2, 4, 3], 90))
    encoder(torch.zeros(2, 90, dtype=torch.int64))
    assert encoder.seen == [(3, 4), (2, 1)]


def test_many_texts_are_encoded_by_length_and_come_back_in_their_order():
    encoder = Mean()
    ids = texts([1 + 7 * place % 60 for place in range(70)], 64)
    expected = torch.cat([encoder(text[None]) for text in ids])
    encoder.seen.clear()
    with torch.no_grad():
        torch.testing.assert_close(encoder(ids), expected.detach())
    assert [shape[0] for shape in encoder.seen] == [32, 32, 6]
    assert encoder.seen[0][1] < encoder.seen[1][1] <= encoder.seen[2][1] <= 60


def test_with_gradients_a_batch_stays_whole():
    encoder = Mean()
    encoder(texts([3] * 40, 8)).sum().backward()
    assert encoder.seen == [(40, 3)]


def test_no_texts_at_all():
    with torch.no_grad():
        assert Mean()(torch.zeros(0, 7, dtype=torch.int64)).shape == (0, 3)


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        (
            torch.zeros(2, 5),
            r"ids of its tokens, whole numbers \(N, L\), got torch.float32 of shape \(2, 5\)",
        ),
        (torch.ones(5, dtype=torch.int64), r"got torch.int64 of shape \(5,\)"),
        (torch.tensor([[3, 50]]), "from 0 to 49, got 3 to 50: were they made by the tokenizer of another"),
        (torch.tensor([[-1, 4]]), "from 0 to 49, got -1 to 4"),
    ],
)
def test_what_are_no_ids(ids, reason):
    with pytest.raises(InputError, match=reason):
        Mean()(ids)
