from dataclasses import replace

import pytest
import torch

from nescio.errors import InputError
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.posthoc.trust import Trust

FEATURES = torch.randn(400, 5, generator=torch.Generator().manual_seed(0)) + 2


@pytest.fixture(scope="module")
def trust():
    return Trust.fit(FEATURES[:300], FEATURES[300:])


def test_the_temperature_comes_before_the_discount(trust):
    opinion = Opinion(torch.tensor([[100.0, 1.0], [3.0, 8.0]]))
    said = Posthoc(Temperature(0.5), trust).apply(opinion, FEATURES[:2])
    expected = Opinion(opinion.evidence.sqrt()).discount(trust(FEATURES[:2]))
    torch.testing.assert_close(said.prediction.evidence, expected.evidence)
    torch.testing.assert_close(said.p_values, trust.p_values(FEATURES[:2]))


def test_probabilities_are_mixed_with_equal_ones(trust):
    far = FEATURES[:1] * torch.tensor([1.0, -9, 1, -9, 1])
    said = Posthoc(None, trust).apply(Categorical(torch.tensor([[1.0, 0.0]])), far)
    assert float(said.prediction.uncertainty) > 0.9
    assert said.prediction.labels.tolist() == [0]


def test_nothing_fitted_changes_nothing():
    opinion = Opinion(torch.ones(2, 3))
    said = Posthoc().apply(opinion)
    assert said.prediction is opinion
    assert said.p_values is None
    assert Posthoc().describe() == ""


def test_trust_without_features_is_refused(trust):
    with pytest.raises(InputError, match="features must be given"):
        Posthoc(None, trust).apply(Opinion(torch.ones(2, 3)))


def test_kept_and_made_again_it_is_the_same(trust):
    both = Posthoc(Temperature(1.5), trust)
    again = Posthoc.from_parts(both.settings(), both.tensors())
    assert again.same_as(both)
    assert both.describe().startswith("temperature: scale 1.5; trust: by the distance to 300 training inputs")
    assert not both.same_as(None)
    assert not both.same_as(Posthoc(Temperature(1.4), trust))
    other = Trust.fit(FEATURES[1:301], FEATURES[300:])
    assert not both.same_as(Posthoc(Temperature(1.5), other))
    empty = Posthoc.from_parts(Posthoc().settings(), {})
    assert empty.same_as(Posthoc())


def test_numbers_that_differ_by_rounding_are_fitted_alike(trust):
    both = Posthoc(Temperature(1.5, 0.7, 3.0), trust)
    assert both.is_fitted_like(Posthoc(Temperature(1.500001, 0.7, 3.00001), trust))
    for other in (
        Posthoc(Temperature(1.6, 0.7, 3.0), trust),
        Posthoc(Temperature(1.5), trust),
        Posthoc(Temperature(1.5, 0.7, 3.0)),
        Posthoc(Temperature(1.5, 0.7, 3.0), Trust.fit(FEATURES[:300], FEATURES[300:] + 3)),
        Posthoc(Temperature(1.5, 0.7, 3.0), replace(trust, half_at=0.0011)),
    ):
        assert not both.is_fitted_like(other)


def test_probabilities_of_their_own_are_kept_and_files_from_before_are_read(trust):
    both = Posthoc(Temperature(1.5, 0.7, 3.0), trust)
    again = Posthoc.from_parts(both.settings(), both.tensors())
    assert again.temperature == both.temperature
    assert not again.same_as(Posthoc(Temperature(1.5), trust))
    assert "probabilities with scale 0.7 and shift 3" in both.describe()
    before = Posthoc.from_parts({"temperature": {"scale": 1.5}, "trust": None}, {})
    assert before.temperature == Temperature(1.5)
    assert before.settings() == {"temperature": {"scale": 1.5}, "trust": None}
