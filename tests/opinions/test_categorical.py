import math

import numpy as np
import pytest
import torch

import nescio as ev
from nescio.errors import InputError
from nescio.opinions.categorical import Categorical, Prediction
from nescio.opinions.opinion import Opinion


@pytest.fixture
def prediction():
    return Categorical.from_logits(torch.tensor([[2.0, 0.0, -1.0], [0.0, 0.0, 0.0]]))


def test_softmax_and_what_follows(prediction):
    torch.testing.assert_close(prediction.probabilities.sum(1), torch.ones(2))
    assert prediction.num_classes == 3
    assert prediction.labels[0] == 0
    assert prediction.entropy()[1].item() == pytest.approx(math.log(3))
    assert prediction.uncertainty[1].item() == pytest.approx(1)
    assert prediction.max_probability()[1].item() == pytest.approx(1 / 3)
    assert prediction.is_vacuous.tolist() == [False, False]


def test_an_opinion_is_a_predictive_and_so_is_a_prediction(prediction):
    assert isinstance(prediction, Prediction)
    assert isinstance(ev.Opinion.from_evidence(torch.ones(2, 3)), Prediction)


def test_arrays_length_index_and_repr(prediction):
    arrays = prediction.numpy()
    assert set(arrays) == {"uncertainty", "probabilities", "labels", "is_vacuous"}
    np.testing.assert_allclose(arrays["probabilities"], prediction.probabilities.numpy())
    assert len(prediction) == 2
    assert torch.equal(prediction[1:].probabilities, prediction.probabilities[1:])
    assert repr(prediction) == "Categorical(batch (2,), 3 classes)"


@pytest.mark.parametrize("num_classes", range(2, 60))
def test_the_uncertainty_of_equal_probabilities_is_never_above_one(num_classes):
    even = Categorical(torch.full((1, num_classes), 1 / num_classes))
    assert float(even.uncertainty) <= 1
    assert float(even.uncertainty) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("index", [0, slice(1, 2), (1, 2), (..., 0), torch.tensor([1, 0])])
def test_an_index_goes_to_the_batch_axes(index):
    # As many classes as columns: the shape alone would not tell a class axis from a batch axis.
    probabilities = torch.rand(2, 3, 3, generator=torch.Generator().manual_seed(0)).softmax(-1)
    first_class = Categorical(probabilities)[index].probabilities[..., 0]
    assert torch.equal(first_class, probabilities[..., 0][index])


def test_a_single_prediction(prediction):
    with pytest.raises(TypeError, match="has no length"):
        len(prediction[0])
    with pytest.raises(ev.InputError, match="can't be indexed"):
        prediction[0][0]


def test_predictions_are_in_single_or_double_precision():
    with pytest.raises(ev.InputError, match="probabilities must be float32 or float64, got float16"):
        Categorical(torch.ones(2, 3, dtype=torch.float16))


def test_discounted_probabilities_are_those_of_a_discounted_opinion():
    opinion = Opinion(torch.tensor([[3.0, 0.5, 0.0], [0.0, 0.0, 9.0]]))
    trust = torch.tensor([0.25, 0.9])
    discounted = Categorical(opinion.probabilities).discount(trust)
    torch.testing.assert_close(discounted.probabilities, opinion.discount(trust).probabilities)


def test_without_trust_a_prediction_is_as_uncertain_as_can_be():
    prediction = Categorical(torch.tensor([[1.0, 0.0]]))
    assert float(prediction.discount(0.0).uncertainty) == 1.0
    assert prediction.discount(1.0).probabilities.tolist() == [[1.0, 0.0]]


def test_what_trust_there_was_is_said_in_short():
    with pytest.raises(InputError, match=r"trust must be 0 to 1, got -0\.5 to 2$"):
        Categorical(torch.full((3, 2), 0.5)).discount(torch.tensor([0.5, 2.0, -0.5]))


@pytest.mark.parametrize("trust", [1.5, -0.1, torch.tensor([0.5, 0.5, 0.5]), float("nan")])
def test_trust_that_is_none_is_refused(trust):
    with pytest.raises(InputError, match="trust must"):
        Categorical(torch.tensor([[1.0, 0.0], [0.5, 0.5]])).discount(trust)


def test_an_uncertainty_of_its_own_and_raw_labels_come_before_what_the_probabilities_say():
    probabilities = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    own = torch.tensor([0.25, 0.0, 1.0])
    prediction = Categorical(probabilities, own, torch.tensor([1, 0, 1]))
    assert torch.equal(prediction.uncertainty, own)
    assert prediction.labels.tolist() == [1, 0, 1]
    assert prediction.is_vacuous.tolist() == [False, False, True]
    assert isinstance(prediction, Prediction)
    last = prediction[1:]
    assert torch.equal(last.uncertainty, own[1:])
    assert last.labels.tolist() == [0, 1]
    np.testing.assert_array_equal(last.numpy()["is_vacuous"], [False, True])
    discounted = prediction.discount(0.5)
    torch.testing.assert_close(discounted.uncertainty, torch.tensor([0.625, 0.5, 1.0]))
    assert discounted.labels.tolist() == [1, 0, 1]


def test_what_does_not_fit_the_probabilities_is_refused():
    probabilities = torch.full((2, 2), 0.5)
    for uncertainty in (torch.zeros(3), torch.zeros(2, dtype=torch.long), [0.0, 1.0]):
        with pytest.raises(ev.InputError, match=r"own_uncertainty must be a tensor of .* shape \(2,\), got"):
            Categorical(probabilities, uncertainty)
    with pytest.raises(ev.InputError, match="own_uncertainty must be 0 to 1, got -3 to 7"):
        Categorical(probabilities, torch.tensor([7.0, -3.0]))
    for labels in (torch.zeros(1, dtype=torch.long), torch.zeros(2), [0, 1]):
        with pytest.raises(ev.InputError, match=r"raw_labels must be a tensor of .* of shape \(2,\), got"):
            Categorical(probabilities, torch.zeros(2), labels)


def test_on_another_device_or_in_another_precision():
    own = torch.tensor([0.25, 1.0])
    prediction = Categorical(torch.full((2, 2), 0.5), own, torch.tensor([1, 0])).to(torch.float64)
    assert prediction.probabilities.dtype == prediction.uncertainty.dtype == torch.float64
    assert prediction.labels.tolist() == [1, 0]
    moved = prediction.to("meta")
    assert moved.uncertainty.device.type == moved.labels.device.type == "meta"
    assert Categorical(torch.full((2, 2), 0.5)).to(torch.float64).own_uncertainty is None


def test_arrays_are_copies(prediction):
    before = prediction.probabilities.clone()
    prediction.numpy()["probabilities"].fill(0)
    assert torch.equal(prediction.probabilities, before)
