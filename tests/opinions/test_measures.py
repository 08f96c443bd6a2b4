import pytest
import torch

from nescio import Categorical, InputError, Opinion
from nescio.opinions import MEASURES, Measure, register_measure
from nescio.opinions.measures import measures_for

OURS = [
    "entropy",
    "max_probability",
    "uncertainty",
    "mutual_information",
    "expected_entropy",
    "differential_entropy",
    "dissonance",
    "normalized_entropy",
]


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setattr(MEASURES, "_items", dict(MEASURES._items))
    return MEASURES


@pytest.mark.parametrize("prior", [1.0, 0.1, 10.0])
@pytest.mark.parametrize("name", OURS)
def test_values_stay_within_the_range(name, prior):
    generator = torch.Generator().manual_seed(0)
    evidence = 10 ** (8 * torch.rand(200, 5, generator=generator, dtype=torch.float64) - 4)
    evidence[0] = 0
    opinion = Opinion(evidence, prior)
    measure = MEASURES.get(name)
    value = measure(opinion)
    assert value.shape == (200,)
    if measure.lowest is not None:
        assert float(value.min()) >= measure.lowest - 1e-12
    assert float(value.max()) <= measure.highest(5) + 1e-12
    assert measure.about
    assert measure.unit in ("nats", "share")


TOTAL = ["entropy", "max_probability", "uncertainty", "differential_entropy", "normalized_entropy"]


@pytest.mark.parametrize("name", [*TOTAL, "mutual_information"])
def test_no_evidence_is_the_most_doubt(name):
    opinion = Opinion(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [90.0, 0.0, 0.0]], dtype=torch.float64))
    doubt = MEASURES.get(name).doubt(opinion).tolist()
    assert doubt == sorted(doubt, reverse=True)
    assert doubt[0] <= MEASURES.get(name).highest(3) + 1e-12
    if name in TOTAL:
        assert doubt[0] == pytest.approx(MEASURES.get(name).highest(3))


def test_vacuity_is_another_name_for_uncertainty():
    assert MEASURES.get("vacuity") is MEASURES.get("uncertainty")


def test_what_is_compared():
    opinion = Opinion(torch.ones(2, 3))
    softmax = Categorical(torch.full((2, 4), 0.25))
    assert [measure.name for measure in measures_for(opinion)] == OURS[:-1]
    assert [measure.name for measure in measures_for(softmax)] == OURS[:2]
    own_doubt = Categorical(softmax.probabilities, softmax.uncertainty)
    assert [measure.name for measure in measures_for(own_doubt)] == OURS[:3]


def test_a_measure_of_evidence_needs_an_opinion():
    softmax = Categorical(torch.full((2, 4), 0.25))
    with pytest.raises(InputError, match="the measure mutual_information needs an Opinion"):
        MEASURES.get("mutual_information")(softmax)
    assert MEASURES.get("uncertainty")(softmax).tolist() == [1.0, 1.0]


def test_a_measure_of_ones_own(registry):
    strength = Measure("strength", "total", "evidence", lambda p: p.strength, higher_is_doubt=False)
    register_measure(strength)
    opinion = Opinion(torch.tensor([[1.0, 0.0], [5.0, 0.0]]))
    assert registry.get("strength").doubt(opinion).tolist() == [-3.0, -7.0]
    assert strength in measures_for(opinion)
    with pytest.raises(InputError, match="there is another measure called 'strength' already"):
        register_measure(Measure("strength", "other", "nats", lambda p: p.strength))


def test_what_is_no_measure_is_refused(registry):
    with pytest.raises(InputError, match="a measure must be a Measure, got 'entropy'"):
        register_measure("entropy")
    with pytest.raises(InputError, match="the measure 'doubt' must be a Measure of this name"):
        registry.register("doubt", registry.get("entropy"))
    with pytest.raises(InputError, match="compared must be one of always, opinion, never, got 'often'"):
        Measure("m", "m", "nats", lambda p: p.uncertainty, compared="often")
