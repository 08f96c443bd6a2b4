from dataclasses import dataclass

import pytest
import torch

from nescio import Categorical, Opinion
from nescio.errors import InputError
from nescio.posthoc._arguments import percent, require_fields, require_prediction


@dataclass
class Pair:
    first: int
    second: int = 0


def test_predictions_are_opinions_and_categoricals():
    for prediction in (Opinion(torch.ones(1, 2)), Categorical(torch.full((1, 2), 0.5))):
        assert require_prediction(prediction) is prediction
    with pytest.raises(InputError, match="prediction must be an Opinion or a Categorical, got float32"):
        require_prediction(torch.ones(1, 2))


def test_all_fields_and_no_others():
    assert require_fields("a pair", Pair, {"first": 1, "second": 2}) == {"first": 1, "second": 2}
    with pytest.raises(InputError, match="a pair must be a mapping of fields, got int"):
        require_fields("a pair", Pair, 3)
    with pytest.raises(InputError, match="exactly its fields, got none of: second; and unknown: third"):
        require_fields("a pair", Pair, {"first": 1, "third": 3})
    with pytest.raises(InputError, match="got none of: -; and unknown: third"):
        require_fields("a pair", Pair, {"first": 1, "second": 2, "third": 3})


def test_shares_in_words():
    assert (percent(0.05), percent(1 / 3, 3), percent(0.9999999)) == ("5%", "33.3%", "99.99999%")
