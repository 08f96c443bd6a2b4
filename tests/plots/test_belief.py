import pytest
import torch
from matplotlib import pyplot
from matplotlib.figure import Figure

from nescio import Categorical, Opinion
from nescio.errors import InputError
from nescio.plots import BeliefDisplay


def widths(display):
    return [[bar.get_width() for bar in bars] for bars in display.bars_]


def test_bars_are_beliefs_and_the_last_the_uncertainty():
    opinion = Opinion(torch.tensor([6.0, 2.0]))
    display = BeliefDisplay.from_opinions(opinion, classes=("cat", "dog"), ax=Figure().add_subplot())
    assert widths(display)[0] == pytest.approx([0.6, 0.2, 0.2])
    assert sum(widths(display)[0]) == pytest.approx(1)
    assert [text.get_text() for text in display.ax_.texts] == ["0.60", "0.20", "0.20"]
    first, *_, last = display.bars_[0]
    assert first.get_facecolor() != last.get_facecolor()


def test_several_opinions_share_the_room_of_a_class_and_have_names():
    opinions = Opinion(torch.tensor([[6.0, 2.0], [0.0, 0.0], [0.0, 8.0]]))
    names = ["a", "b", "c"]
    display = BeliefDisplay.from_opinions(opinions, names=names, ax=Figure().add_subplot())
    assert widths(display)[1] == [0, 0, 1]
    tops = [bars[0].get_y() for bars in display.bars_]
    heights = [bars[0].get_height() for bars in display.bars_]
    assert tops == sorted(tops)
    assert tops[0] + heights[0] == pytest.approx(tops[1])
    assert display.ax_.get_legend_handles_labels()[1] == names
    assert len({bars[0].get_hatch() for bars in display.bars_}) == 3


def test_of_many_classes_the_strongest_are_drawn_in_their_order():
    evidence = torch.zeros(40)
    evidence[[30, 4, 12]] = torch.tensor([9.0, 5.0, 7.0])
    display = BeliefDisplay.from_opinions(Opinion(evidence), most_classes=3, ax=Figure().add_subplot())
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["4", "12", "30", "I do not know"]


def test_names_fit_beside_the_axes_of_a_figure_of_its_own():
    display = BeliefDisplay.from_opinions(Opinion(torch.ones(2)), classes=("x" * 18, "y"))
    display.figure_.draw_without_rendering()
    edges = [text.get_window_extent().x0 for text in display.ax_.get_yticklabels()]
    assert min(edges) >= 0
    pyplot.close(display.figure_)


def test_bad_input_is_refused():
    with pytest.raises(InputError, match="opinions must be an Opinion, got Categorical"):
        BeliefDisplay.from_opinions(Categorical(torch.tensor([0.5, 0.5])))
    with pytest.raises(InputError, match="1 to 6 opinions are needed"):
        BeliefDisplay.from_opinions(Opinion(torch.ones(7, 2)))
    with pytest.raises(InputError, match=r"1 to 6 opinions are needed, got \(0, 2\) and \(0,\)"):
        BeliefDisplay.from_opinions(Opinion(torch.ones(0, 2)))
    with pytest.raises(InputError, match=r"1 to 6 opinions are needed, got \(2, 2, 3\) and \(2, 2\)"):
        BeliefDisplay.from_opinions(Opinion(torch.ones(2, 2, 3)))
    with pytest.raises(InputError, match="names must be those of 1 opinions, got 2"):
        BeliefDisplay([[0.5, 0.2]], [0.3], names=["a", "b"])
    with pytest.raises(InputError, match="most_classes must be a whole number from 1 on, got 0"):
        BeliefDisplay([[0.5, 0.2]], [0.3]).plot(most_classes=0)
