import inspect
import sys

import matplotlib as mpl
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from tests.metrics.naive import random_opinion

from nescio import plots
from nescio.errors import InputError, MissingExtraError
from nescio.plots._style import DASHES, LINE_COLOURS, MARKERS, line_look


def test_the_style_stays_here():
    before = dict(mpl.rcParams)
    with plots.style(dark=True):
        assert mpl.rcParams["text.color"] == plots.DARK_PALETTE["ink"]
    assert dict(mpl.rcParams) == before
    assert plots.colour("ink") == plots.PALETTE["ink"]


def test_dark_inside_dark_stays_dark_unless_light_is_asked_for():
    with plots.style(dark=True):
        with plots.style():
            assert plots.colour("blue") == plots.DARK_PALETTE["blue"]
        with plots.style(dark=False):
            assert plots.colour("blue") == plots.PALETTE["blue"]
        assert plots.colour("blue") == plots.DARK_PALETTE["blue"]


def test_the_theme_is_restored_after_an_error():
    with pytest.raises(KeyError), plots.style(dark=True):
        raise KeyError
    assert plots.colour("grid") == plots.PALETTE["grid"]


def test_an_unknown_colour_is_refused():
    with pytest.raises(InputError, match=r"name must be one of blue, vermillion, .*, got 'pink'"):
        plots.colour("pink")


def test_lines_differ_by_colour_and_by_dashes():
    assert len(set(LINE_COLOURS)) == len(set(map(str, DASHES))) == len(set(MARKERS)) == 6
    axes = Figure().add_subplot()
    seen = []
    for place in range(7):
        look = line_look(axes, None, f"line {place}")
        axes.plot([0, 1], **look)
        seen.append((to_hex(look["color"]), str(look["linestyle"])))
    assert len(set(seen)) == 6
    assert seen[6] == seen[0]
    assert line_look(axes, {"color": "red", "label": "mine"}, "other")["label"] == "mine"


def test_a_line_without_a_name_takes_no_colour_from_the_next():
    axes = Figure().add_subplot()
    axes.plot([0, 1], label="_hidden")
    assert line_look(axes, None, None) == {"color": plots.PALETTE["blue"], "linestyle": "-"}


@pytest.mark.parametrize("draw", [plots.panel, lambda: plots.panels(2), lambda: plots.style().__enter__()])
def test_without_matplotlib_the_extra_is_named(monkeypatch, draw):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingExtraError, match=r"^matplotlib is not installed; .*nescio\[demo\]"):
        draw()


@pytest.mark.parametrize("name", [name for name in plots.__all__ if name.endswith("Display")])
def test_each_display_says_so_too(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    display = object.__new__(getattr(plots, name))
    made = {
        "BeliefDisplay": lambda: display.__init__([[0.5, 0.2]], [0.3]),
        "ConfusionDisplay": lambda: display.__init__([[1, 0], [0, 1]]),
        "DirichletDisplay": lambda: display.__init__([1.0, 1.0, 1.0]),
        "EntropyCDFDisplay": lambda: display.__init__([0, 0.5], [0, 1], num_classes=2),
        "ReliabilityDisplay": lambda: display.__init__(None),
        "RiskCoverageDisplay": lambda: display.__init__([1.0], [0.5]),
        "RotationDisplay": lambda: display.__init__([0, 90], [[0.5, 0.5], [0.5, 0.5]]),
        "ThresholdDisplay": lambda: display.__init__([0.0, 1.0], [0.5, 0.5]),
        "UncertaintyDisplay": lambda: display.__init__({"known": [0.5]}),
    }
    made[name]()
    with pytest.raises(MissingExtraError, match=r"nescio\[demo\]"):
        display.plot()


PREDICTION = random_opinion(60, 3, seed=1)
LABELS = torch.arange(60) % 3
# What takes a look for itself, by what argument, and where it shows.
TAKES_A_LOOK = [
    (plots.ReliabilityDisplay, (PREDICTION, LABELS), "point_kw", lambda display: display.points_[0]),
    (plots.RiskCoverageDisplay, (PREDICTION, LABELS), "line_kw", lambda display: display.line_),
    (plots.ThresholdDisplay, (PREDICTION, LABELS), "line_kw", lambda display: display.line_),
    (plots.EntropyCDFDisplay, (PREDICTION,), "line_kw", lambda display: display.line_),
]


@pytest.mark.parametrize(("display", "given", "argument", "drawn"), TAKES_A_LOOK)
def test_the_callers_look_wins(display, given, argument, drawn):
    made = display.from_predictions(*given, ax=Figure().add_subplot())
    assert to_hex(drawn(made).get_color()) == plots.PALETTE["blue"].lower()
    made.plot(Figure().add_subplot(), **{argument: {"color": "#ff0000"}})
    assert to_hex(drawn(made).get_color()) == "#ff0000"
    made = display.from_predictions(*given, ax=Figure().add_subplot(), **{argument: {"color": "#ff0000"}})
    assert to_hex(drawn(made).get_color()) == "#ff0000"


def test_every_display_that_takes_a_look_is_among_them():
    takes = set()
    for name in plots.__all__:
        thing = getattr(plots, name)
        plot = getattr(thing, "plot", None)
        if plot and any(parameter.endswith("_kw") for parameter in inspect.signature(plot).parameters):
            takes.add(thing)
    assert takes == {display for display, *_ in TAKES_A_LOOK}
