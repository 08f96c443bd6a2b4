import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, minimize_scalar

from nescio.errors import InputError
from nescio.metrics import negative_log_likelihood as nll_of
from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion
from nescio.posthoc.temperature import (
    LARGEST_SCALE,
    LEAST_SCALE,
    LOG_SCALE_DEVIATION,
    SHIFT_DEVIATION,
    Temperature,
    _ClassObjective,
)


def drawn_opinion(count, classes, true_scale, seed=0):
    """Opinions whose labels are drawn from their probabilities at another scale than theirs."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(count, classes, generator=generator)
    honest = Opinion(logits.exp())
    labels = torch.multinomial(honest.probabilities, 1, generator=generator).squeeze(1)
    return Opinion((logits / true_scale).exp()), labels


def drawn_softmax(count, classes, true_scale, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, classes, generator=generator)
    labels = torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    return Categorical((logits / true_scale).softmax(-1)), labels


# ------------------------------------------------------------------------------------------------ application


def test_evidence_to_the_power_of_the_scale():
    opinion = Opinion(torch.tensor([[4.0, 0.0, 0.25]]), prior=0.5, raw_labels=torch.tensor([0]))
    scaled = Temperature(1.5).apply(opinion)
    torch.testing.assert_close(scaled.evidence, torch.tensor([[8.0, 0.0, 0.125]]))
    assert scaled.prior == 0.5
    assert scaled.labels.tolist() == [0]


def test_probabilities_to_the_power_of_the_scale():
    prediction = Categorical(torch.tensor([[0.6, 0.3, 0.1]]))
    expected = prediction.probabilities**2 / (prediction.probabilities**2).sum()
    torch.testing.assert_close(Temperature(2.0).apply(prediction).probabilities, expected)


def test_a_scale_of_one_changes_no_bit():
    prediction = Categorical(torch.tensor([[0.6, 0.3, 0.1]]))
    assert Temperature(1).apply(prediction) is prediction


def test_zero_probabilities_and_much_evidence_stay_finite():
    sure = Temperature(10).apply(Categorical(torch.tensor([[1.0, 0.0]])))
    assert sure.probabilities.tolist() == [[1.0, 0.0]]
    much = Temperature(10).apply(Opinion(torch.tensor([[1e29, 3.0]])))
    assert much.probabilities.isfinite().all()
    assert much.uncertainty.isfinite().all()


@pytest.mark.parametrize("scale", [0, -1, 11, math.nan, math.inf, "1", True])
def test_a_scale_that_is_none_is_refused(scale):
    with pytest.raises(InputError, match="scale must be"):
        Temperature(scale)


# ------------------------------------------------------------------------------------------------ fitting


@pytest.mark.parametrize("true_scale", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("draw", [drawn_opinion, drawn_softmax])
def test_the_scale_that_the_labels_were_drawn_at_is_found(draw, true_scale):
    prediction, labels = draw(20_000, 5, true_scale)
    assert Temperature.fit(prediction, labels).scale == pytest.approx(true_scale, rel=0.05)


def test_it_is_the_minimum_that_scipy_finds():
    prediction, labels = drawn_softmax(500, 4, 1.7)
    trust = torch.linspace(0.5, 1, 500)

    def objective(log_scale):
        powers = prediction.probabilities.double() ** math.exp(log_scale)
        said = powers / powers.sum(1, keepdim=True)
        said = trust[:, None] * said + (1 - trust[:, None]) / 4
        of_labels = said[torch.arange(500), labels].log().mean()
        return -float(of_labels) + (log_scale / LOG_SCALE_DEVIATION) ** 2 / 2 / 500

    expected = minimize_scalar(objective, bounds=(-2.3, 2.3), method="bounded", options={"xatol": 1e-9})
    fitted = Temperature.fit(prediction, labels, trust)
    assert math.log(fitted.scale) == pytest.approx(expected.x, abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(2, 6), st.booleans(), st.booleans())
def test_the_likelihood_of_held_out_labels_never_falls(seed, count, classes, has_evidence, has_trust):
    generator = torch.Generator().manual_seed(seed)
    logits = 4 * torch.randn(count, classes, generator=generator)
    labels = torch.randint(classes, (count,), generator=generator)
    trust = torch.rand(count, generator=generator) if has_trust else None
    prediction = Opinion.from_logits(logits) if has_evidence else Categorical.from_logits(logits)
    fitted = Temperature.fit(prediction, labels, trust)
    assert LEAST_SCALE <= fitted.scale <= LARGEST_SCALE
    before = prediction
    after = fitted.apply(prediction)
    if trust is not None:
        before = before.discount(trust)
        after = after.discount(trust)
    assert nll_of(after, labels) <= nll_of(before, labels) + 1e-9
    assert after.labels.equal(before.labels)


@pytest.mark.parametrize("count", [25, 50])
def test_few_samples_leave_the_scale_near_one(count):
    # One is wrong and hardly trusted: all the others get more likely, the surer they are.
    opinion = Opinion(torch.tensor([[30.0, 1.0, 1.0]]).repeat(count, 1))
    labels = torch.zeros(count, dtype=torch.int64)
    labels[0] = 1
    trust = torch.ones(count)
    trust[0] = 1e-3
    fitted = Temperature.fit(opinion, labels, trust)
    assert 1 < fitted.scale < 2


def test_only_predictions_have_a_temperature():
    with pytest.raises(InputError, match="prediction must be an Opinion or a Categorical"):
        Temperature(2.0).apply(torch.tensor([[0.5, 0.5]]))


def test_doubt_stays_where_all_answers_are_right():
    evidence = torch.full((100, 10), 0.01)
    evidence[torch.arange(100), torch.arange(100) % 10] = 50.0
    fitted = Temperature.fit(Opinion(evidence), torch.arange(100) % 10)
    assert fitted.scale > 1
    after = fitted.apply(Opinion(evidence))
    assert 1e-3 < float(after.uncertainty.mean()) < 0.05


def test_without_any_evidence_there_is_nothing_to_scale():
    vacuous = Opinion(torch.zeros(20, 3))
    assert Temperature.fit(vacuous, torch.arange(20) % 3) == Temperature(1.0)


def test_one_class_alone_can_be_fitted_to():
    prediction, _ = drawn_softmax(50, 3, 1.0)
    labels = torch.zeros(50, dtype=torch.int64)
    assert math.isfinite(Temperature.fit(prediction, labels).scale)


def test_a_single_sample_can_be_fitted_to():
    assert math.isfinite(Temperature.fit(Categorical(torch.tensor([[0.7, 0.3]])), torch.tensor([1])).scale)


@pytest.mark.parametrize(
    ("prediction", "labels", "trust", "match"),
    [
        (Categorical(torch.tensor([[math.nan, 1.0]])), torch.tensor([0]), None, "finite"),
        (Categorical(torch.tensor([0.5, 0.5])), torch.tensor([0]), None, "prediction must be"),
        (Categorical(torch.zeros(0, 2)), torch.zeros(0, dtype=torch.int64), None, "one or more"),
        (
            Categorical(torch.tensor([[0.5, 0.5]])),
            torch.tensor([0.0]),
            None,
            "labels must be a tensor",
        ),
        (
            Categorical(torch.tensor([[0.5, 0.5]])),
            torch.tensor([0, 1]),
            None,
            "labels must be a tensor",
        ),
        (Categorical(torch.tensor([[0.5, 0.5]])), torch.tensor([2]), None, "labels must be 0 to 1, got 2"),
        (Categorical(torch.tensor([[0.5, 0.5]])), torch.tensor([-1]), None, "labels must be 0 to 1, got -1"),
        (
            torch.tensor([[0.5, 0.5]]),
            torch.tensor([0]),
            None,
            r"prediction must be an Opinion or a Categorical, got float32 \(1, 2\)",
        ),
        (
            np.array([[0.5, 0.5]]),
            torch.tensor([0]),
            None,
            "prediction must be an Opinion or a Categorical, got ndarray",
        ),
        (Categorical(torch.tensor([[0.5, 0.5]])), torch.tensor([0]), torch.tensor([1.5]), "trust must be"),
        (Categorical(torch.tensor([[0.5, 0.5]])), torch.tensor([0]), torch.tensor([math.nan]), "trust must"),
        (Categorical(torch.tensor([[0.5, 0.5]])), torch.tensor([0]), torch.tensor(1.0), "trust must be"),
    ],
)
def test_what_can_not_be_fitted_to_is_refused(prediction, labels, trust, match):
    with pytest.raises(InputError, match=match):
        Temperature.fit(prediction, labels, trust)


def test_the_most_probable_class_stays_where_evidence_gets_too_large_or_too_small():
    opinion = Opinion(torch.tensor([[2000.0, 3000.0], [1e-5, 2e-5], [0.0, 0.0]]))
    said = Temperature(10).apply(opinion)
    assert said.labels.tolist() == [1, 1, 0]
    assert said.evidence.isfinite().all()
    # Held at the most that evidence can be, in its proportions.
    torch.testing.assert_close(said.evidence[0, 1] / said.evidence[0, 0], torch.tensor(1.5**10))
    assert said.is_vacuous.tolist() == [False, True, True]


# ---------------------------------------------------------------------------- probabilities of their own


def naive_probabilities(evidence, prior, scale, shift):
    strengthened = math.exp(shift) * evidence**scale + prior
    return strengthened / strengthened.sum(-1, keepdim=True)


def test_probabilities_have_the_scale_and_the_shift_of_the_formula():
    opinion = Opinion(torch.tensor([[4.0, 0.0, 0.25]]), prior=0.5, raw_labels=torch.tensor([0]))
    said = Temperature(1.5, class_scale=0.5, class_shift=2.0).apply(opinion)
    torch.testing.assert_close(said.probabilities, naive_probabilities(opinion.evidence, 0.5, 0.5, 2.0))
    of_scale = Temperature(1.5).apply(opinion)
    torch.testing.assert_close(said.uncertainty, of_scale.uncertainty)
    torch.testing.assert_close(said.belief, (1 - said.uncertainty)[:, None] * said.probabilities)
    assert said.prior == 0.5
    assert said.labels.tolist() == [0]


def test_a_vacuous_opinion_stays_one_and_has_equal_probabilities():
    said = Temperature(2.0, class_scale=0.5, class_shift=9.0).apply(Opinion(torch.zeros(2, 4)))
    assert said.is_vacuous.all()
    assert said.uncertainty.tolist() == [1.0, 1.0]
    torch.testing.assert_close(said.probabilities, torch.full((2, 4), 0.25))


def test_much_and_little_evidence_have_finite_probabilities():
    opinion = Opinion(torch.tensor([[1e29, 3.0, 0.0], [1e-30, 1e-38, 0.0]]))
    for temperature in (Temperature(10, 10, 20), Temperature(0.1, 10, -20), Temperature(1, 0.1, 20)):
        said = temperature.apply(opinion)
        assert said.probabilities.isfinite().all()
        torch.testing.assert_close(said.probabilities.sum(-1), torch.ones(2))
        assert said.labels.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_evidence_of_a_class_stays_none_whatever_the_shift(dtype):
    """A small scale brings all evidence near 1, and a shift multiplies it; none stays none."""
    said = Temperature(1.0, class_scale=0.1, class_shift=15.0).apply(Opinion(torch.eye(3, dtype=dtype)[:1]))
    expected = 1 / (math.exp(15.0) + 3)
    torch.testing.assert_close(said.probabilities[0, 1:], torch.full((2,), expected, dtype=dtype))


def test_probabilities_of_their_own_are_nothing_to_a_categorical():
    prediction = Categorical(torch.tensor([[0.6, 0.3, 0.1]]))
    assert Temperature(1.0, class_scale=0.5, class_shift=1.0).apply(prediction) is prediction


def too_careful_opinion(count, scale, shift, seed=0):
    """Opinions that doubt what is right: labels are drawn from other probabilities than they say."""
    generator = torch.Generator().manual_seed(seed)
    evidence = (2.5 * torch.randn(count, 6, generator=generator)).exp()
    honest = naive_probabilities(evidence.double(), 1.0, scale, shift)
    return Opinion(evidence), torch.multinomial(honest, 1, generator=generator).squeeze(1)


def test_the_scale_and_the_shift_that_labels_were_drawn_at_are_found():
    opinion, labels = too_careful_opinion(40_000, 0.8, 3.0)
    fitted = Temperature.fit(opinion, labels)
    assert fitted.class_scale == pytest.approx(0.8, rel=0.05)
    assert fitted.class_shift == pytest.approx(3.0, abs=0.25)
    # The shift goes to the probabilities alone: doubt is what the scale leaves of it.
    said = fitted.apply(opinion)
    torch.testing.assert_close(said.uncertainty, Temperature(fitted.scale).apply(opinion).uncertainty)
    assert nll_of(said, labels) < nll_of(Temperature(fitted.scale).apply(opinion), labels) - 0.03


@pytest.mark.parametrize("has_trust", [False, True])
def test_scale_and_shift_are_the_minimum_that_scipy_finds(has_trust):
    opinion, labels = too_careful_opinion(400, 0.7, 2.0)
    trust = torch.linspace(0.5, 1, 400) if has_trust else None
    factors = (torch.ones(400) if trust is None else trust).double()[:, None]

    def objective(point):
        said = naive_probabilities(opinion.evidence.double(), 1.0, math.exp(point[0]), point[1])
        said = factors * said + (1 - factors) / 6
        prior = (point[0] / LOG_SCALE_DEVIATION) ** 2 / 2 + (point[1] / SHIFT_DEVIATION) ** 2 / 2
        return prior / 400 - float(said[torch.arange(400), labels].log().mean())

    expected = minimize(objective, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 1e-12})
    fitted = Temperature.fit(opinion, labels, trust)
    assert math.log(fitted.class_scale) == pytest.approx(expected.x[0], abs=2e-3)
    assert fitted.class_shift == pytest.approx(expected.x[1], abs=2e-2)


def test_the_gradient_is_that_of_differences():
    opinion, labels = too_careful_opinion(50, 0.7, 2.0)
    objective = _ClassObjective(opinion, labels, torch.linspace(0, 1, 50))
    for point in ([0.0, 0.0], [-0.4, 3.0], [0.7, -6.0]):
        _, gradient = objective.value_and_gradient(point)
        for axis in (0, 1):
            step = 1e-6
            higher, lower = list(point), list(point)
            higher[axis] += step
            lower[axis] -= step
            difference = objective.value_and_gradient(higher)[0] - objective.value_and_gradient(lower)[0]
            assert gradient[axis] == pytest.approx(difference / (2 * step), rel=1e-4, abs=1e-7)


@pytest.mark.parametrize("evidence", ["relu", "softplus"])
def test_evidence_of_zero_can_be_fitted_to(evidence):
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(200, 4, generator=generator)
    labels = logits.argmax(1)
    labels[:20] = 0
    fitted = Temperature.fit(Opinion.from_logits(logits, evidence), labels)
    said = fitted.apply(Opinion.from_logits(logits, evidence))
    assert math.isfinite(nll_of(said, labels))
    assert nll_of(said, labels) <= nll_of(Opinion.from_logits(logits, evidence), labels)


def test_few_samples_leave_the_shift_near_none():
    evidence = torch.full((25, 5), 0.5)
    evidence[:, 0] = 20.0
    fitted = Temperature.fit(Opinion(evidence), torch.zeros(25, dtype=torch.int64))
    assert 0 <= fitted.class_shift < 2
    assert float(fitted.apply(Opinion(evidence)).max_probability()[0]) < 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"class_scale": 0.0}, "class_scale must be a number from 0.1 on"),
        ({"class_scale": 11}, "class_scale must be at most 10"),
        ({"class_scale": 1.0, "class_shift": 21.0}, "class_shift must be at most 20"),
        ({"class_scale": 1.0, "class_shift": math.nan}, "class_shift must be a number"),
        ({"class_shift": 1.0}, "class_shift must be 0 without class_scale"),
    ],
)
def test_a_scale_or_a_shift_of_probabilities_that_is_none_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Temperature(**arguments)
