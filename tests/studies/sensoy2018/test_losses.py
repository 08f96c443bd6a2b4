import numpy as np
import pytest
from tests.studies.sensoy2018.made import EMPTY

from nescio.studies._estimates import estimate, text_of
from nescio.studies.sensoy2018 import _losses as losses


def test_nothing_is_drawn_of_nothing():
    assert losses.draw(EMPTY) == []


def test_losses(results):
    (figure,) = losses.draw(results)
    axes = figure.picture.axes
    assert [label.get_text() for label in axes[0].get_yticklabels()] == list(losses.LOSSES.values())
    assert len(figure.rows) == 3 + 1 + 2
    assert [each.get_xscale() for each in axes] == ["linear", "linear", "log", "linear"]
    low, high = axes[2].get_xlim()
    evidence = [row["median total evidence"] for row in figure.rows]
    assert low < min(evidence) < max(evidence) < high
    assert np.log10([low, high]) == pytest.approx(np.round(np.log10([low, high])))


def test_table(results):
    rows = losses.table(results).rows
    assert [row[0] for row in rows] == list(losses.LOSSES.values())
    values = results.values("digits", "edl", "known", "scores", "accuracy")
    assert rows[0][1:3] == ("3", text_of(estimate(values, is_share=True, images=200), 2, 100))
    assert "[" in rows[1][2]  # one seed: the accuracy's interval is over the images
    assert "[" not in rows[1][3]
    assert "[" in rows[0][4]
    assert "[" not in rows[0][5]  # evidence
