import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure
from sklearn.metrics import confusion_matrix as reference
from tests.metrics.naive import random_prediction

from nescio import Opinion
from nescio.errors import InputError
from nescio.plots import ConfusionDisplay

PREDICTION = random_prediction(200, 5, seed=1)
LABELS = torch.randint(0, 5, (200,), generator=torch.Generator().manual_seed(2))


def numbers(display):
    return {place: int(text.get_text()) for place, text in display.texts_.items()}


def test_without_abstention_it_is_the_usual_matrix():
    display = ConfusionDisplay.from_predictions(PREDICTION, LABELS, ax=Figure().add_subplot())
    expected = reference(LABELS, PREDICTION.labels)
    assert display.unknown is None
    assert display.counts.tolist() == expected.tolist()
    assert sum(numbers(display).values()) == 200
    assert [text.get_text() for text in display.ax_.get_xticklabels()] == list("01234")


def test_what_is_not_accepted_is_in_the_last_column():
    accepted = torch.arange(200) % 4 > 0
    axes = Figure().add_subplot()
    display = ConfusionDisplay.from_predictions(
        PREDICTION, LABELS, accepted=accepted, classes=("a", "b", "c", "d", "e"), ax=axes
    )
    expected = reference(LABELS[accepted], PREDICTION.labels[accepted])
    assert display.counts.tolist() == expected.tolist()
    assert display.unknown.tolist() == LABELS[~accepted].bincount(minlength=5).tolist()
    assert sum(numbers(display).values()) == 200
    assert axes.get_xticklabels()[-1].get_text() == "I do not know"
    assert numbers(display)[0, 5] == display.unknown[0]


def test_vacuous_opinions_are_no_answers():
    opinion = Opinion(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    display = ConfusionDisplay.from_predictions(opinion, torch.tensor([0, 1]), ax=Figure().add_subplot())
    assert numbers(display) == {(0, 0): 1, (1, 2): 1}


def test_right_wrong_and_unknown_have_colours_of_their_own():
    display = ConfusionDisplay([[4, 4], [0, 4]], unknown=[0, 4])
    display.plot(Figure().add_subplot())
    colours = {patch.get_xy(): patch.get_facecolor()[:3] for patch in display.ax_.patches}
    assert colours[0, 0] == colours[1, 1]
    assert len({colours[0, 0], colours[1, 0], colours[2, 1]}) == 3


def test_a_figure_of_its_own_has_room_for_all_names():
    display = ConfusionDisplay([[4, 4], [0, 4]], unknown=[0, 4], classes=("x" * 18, "b")).plot()
    display.figure_.draw_without_rendering()
    boxes = [text.get_window_extent() for text in [*display.ax_.get_xticklabels(), display.ax_.xaxis.label]]
    assert min(box.y0 for box in boxes) >= 0
    assert min(text.get_window_extent().x0 for text in display.ax_.get_yticklabels()) >= 0
    pyplot.close(display.figure_)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match=r"counts must be a square matrix \(K, K\), got shape \(1, 2\)"):
        ConfusionDisplay([[1, 2]])
    with pytest.raises(InputError, match=r"unknown must be a number for each class, got shape \(1,\)"):
        ConfusionDisplay([[1, 2], [3, 4]], unknown=[1])
    with pytest.raises(InputError, match="accepted must be a bool tensor"):
        ConfusionDisplay.from_predictions(PREDICTION, LABELS, accepted=torch.ones(200))
