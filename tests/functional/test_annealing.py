import pytest
from tests import references as ref

from nescio import InputError
from nescio.functional import default_divergence_weight, linear_annealing
from nescio.functional._risk_formulas import RISKS
from nescio.functional.annealing import FULL_WEIGHTS


@pytest.mark.parametrize("epoch", [0, 0.25, 5, 9.99, 10, 30])
def test_the_divergence_grows_linearly_to_its_weight(epoch):
    assert linear_annealing(epoch, 10) == pytest.approx(ref.naive_annealing(epoch, 10))
    assert linear_annealing(epoch, 0) == 1.0


@pytest.mark.parametrize("epoch", [-1, float("nan"), "1", None])
def test_an_epoch_that_is_none_is_refused(epoch):
    with pytest.raises(InputError, match="epoch must be a number from 0 on, got "):
        linear_annealing(epoch, 10)


def test_the_weight_is_full_up_to_ten_classes_and_falls_with_their_square():
    assert [default_divergence_weight(k) for k in (2, 5, 10)] == [0.1, 0.1, 0.1]
    assert [default_divergence_weight(k) for k in (20, 100, 1000)] == pytest.approx(
        [0.1 * 2**-2.5, 0.1 * 10**-2.5, 1e-6]
    )
    assert default_divergence_weight(20, risk="squared_error") == pytest.approx(0.25)


@pytest.mark.parametrize("classes", [1, 0, 2.5, None])
def test_a_number_of_classes_that_is_none_is_refused(classes):
    with pytest.raises(InputError, match="num_classes must be a whole number from 2 on, got "):
        default_divergence_weight(classes)


def test_every_risk_has_a_weight_and_others_are_refused():
    assert FULL_WEIGHTS.keys() == RISKS.keys()
    with pytest.raises(InputError, match=r"risk must be one of squared_error, .*, got 'squared'"):
        default_divergence_weight(10, risk="squared")


@pytest.mark.parametrize("epochs", [-10, float("nan"), None])
def test_epochs_that_are_none_are_refused(epochs):
    with pytest.raises(InputError, match="epochs must be a number from 0 on"):
        linear_annealing(2, epochs)
