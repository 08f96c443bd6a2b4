import math
import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
import torch

from nescio.demo import _figures as figures
from nescio.demo._run import ANGLES
from nescio.plots import PALETTE
from nescio.plots._rotation import PEAK
from nescio.plots._style import LINE_COLOURS

NAMES = ["entropy_letters", "entropy_digits", "rotation_softmax", "rotation_evidential", "accuracy", "share"]


@pytest.fixture(scope="module")
def drawn(outcome):
    return figures.charts(outcome)


def lines(figure):
    """label -> (x, y) of the first axes."""
    return {line.get_label(): line.get_data() for line in figure.axes[0].lines}


def test_every_chart_is_well_formed_and_refers_to_itself_only(drawn):
    assert list(drawn) == NAMES
    for name, text in drawn.items():
        ET.fromstring(text.replace("<svg ", '<svg xmlns:xlink="x" ', 1))
        assert "http" not in text
        assert text.count('id="') == text.count(f'id="{name}-')
        assert text.count("url(#") == text.count(f"url(#{name}-")


def test_colours_are_those_of_the_page(drawn):
    for text in drawn.values():
        assert "var(--blue, #0072b2)" in text
        for colour in PALETTE.values():
            assert text.count(colour) == text.count(f", {colour})")


def test_the_same_outcome_gives_the_same_charts(outcome, drawn):
    assert figures.charts(outcome) == drawn


def test_the_style_stays_here(outcome):
    before = dict(mpl.rcParams)
    figures.charts(outcome)
    assert dict(mpl.rcParams) == before


def test_axes_are_named(outcome):
    for figure in (
        figures.entropy_figure(outcome, "letters"),
        figures.accuracy_figure(outcome),
        figures.share_figure(outcome),
    ):
        axes = figure.axes[0]
        assert axes.get_xlabel()
        assert axes.get_ylabel()
        assert axes.get_legend() is not None


def test_entropy_curves_count_the_samples(outcome):
    drawn = lines(figures.entropy_figure(outcome, "letters"))
    assert list(drawn) == ["evidential", "softmax"]
    for measured in outcome.both:
        at, share = (np.asarray(values) for values in drawn[measured.name])
        entropy = measured.letters.entropy().double().numpy() / math.log(10)
        middle = len(at) // 2
        assert at[middle] == pytest.approx(0.5)
        assert share[middle] == pytest.approx(np.mean(entropy <= at[middle]))
        assert share[-1] == 1


def test_rotation_shows_the_one_first_and_uncertainty_where_there_is_one(outcome):
    ours = lines(figures.rotation_figure(outcome, outcome.evidential))
    usual = lines(figures.rotation_figure(outcome, outcome.softmax))
    assert next(iter(ours)) == next(iter(usual)) == "it is a 1"
    assert "uncertainty" not in usual
    assert torch.equal(torch.as_tensor(ours["uncertainty"][1]), outcome.evidential.rotated.uncertainty)
    assert list(ours["it is a 1"][0]) == list(ANGLES)
    assert torch.equal(torch.as_tensor(usual["it is a 1"][1]), outcome.softmax.rotated.probabilities[:, 1])


def test_rotation_draws_the_classes_that_matter(outcome):
    names = list(lines(figures.rotation_figure(outcome, outcome.softmax)))
    drawn = [int(name.removeprefix("it is a ")) for name in names]
    peaks = torch.stack([measured.rotated.probabilities.amax(0) for measured in outcome.both]).amax(0)
    wanted = {1} | {label for label in range(10) if peaks[label] >= PEAK}
    assert set(drawn) <= wanted
    assert len(drawn) == min(len(wanted), len(LINE_COLOURS))


def test_the_strip_shows_the_one_below_its_angles(outcome):
    strip = figures.rotation_figure(outcome, outcome.softmax).axes[1]
    shown = strip.images[0].get_array()
    assert shown.shape == (28, 280)
    assert np.array_equal(shown[:, 28:56], outcome.inputs.rotated[2, 0].numpy())
    assert tuple(strip.images[0].get_extent()) == (-10, 190, 0, 1)


def test_accuracy_at_the_last_threshold_is_the_accuracy(outcome):
    drawn = lines(figures.accuracy_figure(outcome))
    for measured in outcome.both:
        assert drawn[measured.name][1][-1] == pytest.approx(100 * measured.figures["accuracy"])


def test_shares_count_what_is_kept(outcome):
    drawn = lines(figures.share_figure(outcome))
    for measured in outcome.both:
        for of in ("digits", "letters"):
            kept = (getattr(measured, of).uncertainty <= 0.5).double().mean()
            assert drawn[f"{of}, {measured.name}"][1][50] == pytest.approx(100 * float(kept))
