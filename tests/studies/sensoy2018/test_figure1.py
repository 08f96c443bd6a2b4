import numpy as np
from tests.studies.sensoy2018.lines import legend_names, lines
from tests.studies.sensoy2018.made import EMPTY

from nescio.studies.sensoy2018 import _figure1 as figure1
from nescio.studies.sensoy2018._results import PaperResults


def test_nothing_is_drawn_of_nothing():
    assert figure1.draw(EMPTY) == []


def test_figure1(results):
    (figure,) = figure1.draw(results)
    tops = figure.picture.axes[:3]
    assert [axes.get_title(loc="left") for axes in tops] == ["softmax (L2)", "EDL", "EDL (as printed)"]
    edl = results.numbers("digits", "edl", "rotation")[0]
    np.testing.assert_allclose(lines(tops[1])["uncertainty"], edl["uncertainty"])
    np.testing.assert_allclose(lines(tops[1])["1"], np.array(edl["probabilities"])[:, 1])
    assert "uncertainty" not in lines(tops[0])
    assert legend_names(figure.picture)[0] == "1"
    assert len(figure.rows) == 3 * 19
    assert "narrowest 1" in figure.caption
    assert "; seed 0." in figure.caption
    strips = figure.picture.axes[3:]
    assert all(axes.images[0].get_array().shape == (28, 280) for axes in strips)


def test_the_seeds_that_are_shown_are_named(results):
    left = [each for each in results.results if (each.arm, each.seed) != ("edl", 0)]
    (figure,) = figure1.draw(PaperResults(left, "quick"))
    assert "seeds: L2 0, EDL 1, EDL (as printed) 0." in figure.caption
    shown = {(row["method"], row["seed"]) for row in figure.rows}
    assert shown == {("l2", 0), ("edl", 1), ("edl-printed", 0)}


def test_the_one_and_what_is_probable_are_drawn():
    numbers = {"classes": ["0", "1", "2"], "probabilities": [[0.1, 0.05, 0.85], [0.15, 0.05, 0.8]]}
    assert figure1.classes_drawn([numbers]) == [1, 2]
