import csv
import io
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from nescio.studies.sensoy2018 import (
    calibration,
    deaths,
    drawing,
    figure1,
    figure2,
    figure3,
    figure45,
    losses,
    table1,
)
from nescio.studies.sensoy2018.book import Book, label, spread
from nescio.studies.sensoy2018.experiments import COMPARED
from nescio.studies.sensoy2018.figure45 import over_epsilons
from nescio.studies.sensoy2018.results import Result

EMPTY = Book("paper", [])


def lines(axes):
    """label -> y of every line that has one."""
    found = {line.get_label(): np.asarray(line.get_ydata(), float) for line in axes.lines}
    return {name: values for name, values in found.items() if not name.startswith("_")}


def legend_names(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("module", [figure1, figure2, figure3, figure45, losses])
def test_nothing_is_drawn_of_nothing(module):
    assert module.draw(EMPTY) == []


def test_figure1(book):
    (drawn,) = figure1.draw(book)
    tops = drawn.figure.axes[:3]
    assert [axes.get_title(loc="left") for axes in tops] == ["softmax (L2)", "EDL", "EDL (as in the paper)"]
    edl = book.numbers("digits", "edl", "rotation")[0]
    np.testing.assert_allclose(lines(tops[1])["uncertainty"], edl["uncertainty"])
    np.testing.assert_allclose(lines(tops[1])["1"], np.array(edl["probabilities"])[:, 1])
    assert "uncertainty" not in lines(tops[0])
    assert legend_names(drawn.figure)[0] == "1"
    assert len(drawn.rows) == 3 * 19
    assert "narrowest 1" in drawn.caption
    assert "; seed 0." in drawn.caption
    strips = drawn.figure.axes[3:]
    assert all(axes.images[0].get_array().shape == (28, 280) for axes in strips)


def test_figure1_names_the_seeds_it_shows(book):
    (drawn,) = figure1.draw(
        Book("quick", [each for each in book.results if (each.variant, each.seed) != ("edl", 0)])
    )
    assert "seeds: L2 0, EDL 1, EDL (as in the paper) 0." in drawn.caption
    assert {(row["method"], row["seed"]) for row in drawn.rows} == {("l2", 0), ("edl", 1), ("edl-paper", 0)}


def test_figure1_draws_the_one_and_what_is_probable():
    numbers = {"classes": ["0", "1", "2"], "probabilities": [[0.1, 0.05, 0.85], [0.15, 0.05, 0.8]]}
    assert figure1.classes_drawn([numbers]) == [1, 2]


def test_figure2(book):
    (drawn,) = figure2.draw(book)
    above, below = drawn.figure.axes
    curves = [each["threshold"] for each in book.numbers("digits", "edl", "known")]
    assert len(curves) == 2
    kept = 100 * np.mean([curve["coverage"] for curve in curves], axis=0)
    np.testing.assert_allclose(lines(below)["EDL"], kept)
    accuracy = [[np.nan if a is None else 100 * a for a in curve["accuracy"]] for curve in curves]
    np.testing.assert_allclose(lines(above)["EDL"], np.mean(accuracy, axis=0))
    assert len(above.collections) == len(below.collections) == 1  # the shade of the one with two seeds
    assert len(drawn.rows) == 3 * 101
    for axes in (above, below):
        assert [line.get_marker() for line in axes.lines] == ["o", "*"]
        assert axes.get_xlim()[1] > 1


def test_figure3(book):
    (drawn,) = figure3.draw(book)
    (axes,) = drawn.figure.axes
    assert list(lines(axes)) == ["L2", "Dropout", "EDL", "EDL (as in the paper)"]
    share = np.mean([each["share"]["unknown"] for each in book.numbers("digits", "l2", "strangers")], axis=0)
    np.testing.assert_allclose(lines(axes)["L2"], share)
    row = next(row for row in figure3.table(book, "digits") if row[0] == "Dropout")
    scores = book.numbers("digits", "dropout", "strangers")[0]["scores"]
    assert row[1] == f"{100 * scores['unknown_median_entropy']:.1f}"
    assert row[3] == f"{scores['entropy_auroc']:.3f}"
    missing = next(row for row in figure3.table(book, "digits") if row[0] == "MNFG")
    assert missing[1:] == ("-",) * 5


def test_figure4(book):
    paper, honest = figure45.draw(book)
    assert [paper.name, honest.name] == ["figure4", "figure4-honest"]  # no ensemble was measured
    accuracy, entropy = paper.figure.axes
    curves = [each["curve"] for each in book.numbers("digits", "edl", "fgsm")]
    np.testing.assert_allclose(
        lines(accuracy)["EDL"], 100 * np.mean([curve["accuracy"] for curve in curves], axis=0)
    )
    np.testing.assert_allclose(
        lines(entropy)["EDL"], 100 * np.mean([curve["entropy"] for curve in curves], axis=0)
    )
    assert accuracy.get_xlim()[0] == 0
    transferred = honest.figure.axes[1]
    own = [each["curve"]["accuracy"] for each in book.numbers("digits", "l2", "fgsm")]
    np.testing.assert_allclose(lines(transferred)["L2"], 100 * np.mean(own, axis=0))
    stuck = book.numbers("digits", "edl-paper", "pgd")[0]["curve"]["without_gradient"]
    np.testing.assert_allclose(lines(honest.figure.axes[0])["EDL (as in the paper)"], 100 * np.array(stuck))
    assert {row["attack"] for row in honest.rows} == {"fgsm", "transfer", "pgd"}


def test_deep_ensemble_is_left_out_of_the_paper_s_panels_and_shown_in_its_own(book):
    results = [each for each in book.results if each.variant == "l2"]
    ensemble = [type(each)(**{**vars(each), "variant": "ensemble"}) for each in results]
    with_ensemble = Book("quick", [*book.results, *ensemble])
    drawn = {each.name: each for each in figure45.draw(with_ensemble)}
    assert list(drawn) == ["figure4", "figure4-ensemble", "figure4-honest"]
    assert "Deep Ensemble" not in legend_names(drawn["figure4"].figure)
    assert "Deep Ensemble" in legend_names(drawn["figure4-ensemble"].figure)


def test_means_over_epsilon_leave_zero_out(book):
    curve = book.numbers("digits", "dropout", "fgsm")[0]["curve"]
    assert over_epsilons(book, "digits", "dropout", "fgsm", "accuracy") == pytest.approx(
        np.mean(curve["accuracy"][1:])
    )
    assert over_epsilons(book, "digits", "mnfg", "fgsm", "accuracy") is None


def test_attacks_are_compared_at_the_same_strength(book):
    assert figure45.shared_epsilons(book, "digits") == [0.1]  # FGSM has 0.3 as well
    row = dict(zip(figure45.HEADER, figure45.table(book, "digits")[1], strict=True))
    curves = {part: book.numbers("digits", "dropout", part)[0]["curve"] for part in ("fgsm", "pgd")}
    assert (row["method"], row["samples"]) == ("Dropout", "2")
    assert row["FGSM: accuracy, %"] == f"{100 * curves['fgsm']['accuracy'][1]:.1f}"
    assert row["PGD: accuracy, %"] == f"{100 * curves['pgd']['accuracy'][1]:.1f}"
    assert row["PGD: zero gradient, %"] == f"{100 * curves['pgd']['without_gradient'][1]:.1f}"


def test_settings_of_attacks_are_those_of_whatever_seed_has_them(book):
    first, second = book.of("digits", "l2")
    first = replace(first, parts={name: part for name, part in first.parts.items() if name != "fgsm"})
    assert figure45.shared_epsilons(Book("quick", [first, second]), "digits") == [0.1]
    assert figure45.shared_epsilons(Book("quick", []), "digits") == []


def test_what_no_evidence_costs():
    def of(rejected):
        known = {"scores": {"accuracy": 0.95}, "evidence": {"rejected": rejected}}
        return Result("mnist", "edl-paper", 0, {}, {"known": {"settings": {}, "numbers": known}})

    said = table1.without_evidence(Book("paper", [of(0.04)]))
    assert said.startswith(
        " With EDL (as in the paper) 4.00% of the images of MNIST have none; of the others 98.96%"
    )
    assert [table1.without_evidence(Book("paper", results)) for results in ([], [of(0.0)])] == ["", ""]


def test_every_wrong_image_counts_alike():
    curve = {"epsilon": [0, 0.1, 0.2, 0.3], "accuracy": [0.5, 1.0, 0.9, 0.4]}
    curve["entropy_when_wrong"] = [0.0, None, 0.8, 0.1]
    part = {"settings": {}, "numbers": {"curve": curve}}
    book = Book("paper", [Result("mnist", "l2", 0, {}, {"pgd": part})])
    found = over_epsilons(book, "mnist", "l2", "pgd", "entropy_when_wrong")
    assert found == pytest.approx((1 * 0.8 + 6 * 0.1) / 7)
    assert over_epsilons(book, "mnist", "l2", "pgd", "entropy_when_wrong", [0.1]) is None


def test_losses(book):
    (drawn,) = losses.draw(book)
    assert [label.get_text() for label in drawn.figure.axes[0].get_yticklabels()] == list(
        losses.LOSSES.values()
    )
    assert len(drawn.rows) == 6
    rows = losses.table(book)
    assert [row[0] for row in rows] == list(losses.LOSSES.values())
    values = book.values("digits", "edl-type2", "known", "scores", "accuracy")
    assert rows[2][1:3] == ("2", spread(values, 2))
    assert [axes.get_xscale() for axes in drawn.figure.axes] == ["linear", "linear", "log", "linear"]
    low, high = drawn.figure.axes[2].get_xlim()
    evidence = [row["median total evidence"] for row in drawn.rows]
    assert low < min(evidence) < max(evidence) < high
    assert np.log10([low, high]) == pytest.approx(np.round(np.log10([low, high])))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], "-"),
        ([9_999.0], "9999"),
        ([10_000.0], "1.0e4"),
        ([2.1e9, 2.9e9], "2.5e9 ± 5.7e8"),
        ([40.0, 60.0], "50 ± 14"),
    ],
)
def test_large_numbers_are_short(values, text):
    assert losses.shown(values, 0, 1.0) == text


def died(seed, dead, accuracy):
    numbers = {"scores": {"accuracy": accuracy}, "evidence": {"dead": dead}}
    return Result("deaths", "edl-paper-bias-0", seed, {}, {"known": {"settings": {}, "numbers": numbers}})


def test_deaths():
    book = Book("paper", [died(0, [], 0.9), died(1, [3, 7], 0.7), died(2, [4], 0.8)])
    nothing, some = deaths.table(book)
    assert nothing == ("at 1", "-", "-", "-", "-")
    assert some == ("as usual, near 0", "3", "2", "3", "80.0 ± 10.0")
    assert [row["dead"] for row in deaths.rows(book)] == ["", "3 7", "4"]


def test_deaths_are_counted_in_what_was_measured(book):
    for row in deaths.table(book):
        assert row[1] == "1"
        assert int(row[2]) <= int(row[3]) <= 10 * int(row[2])


def test_table1(book):
    header, rows = table1.header(book), table1.table(book)
    assert len(rows) == len(COMPARED)
    assert all(len(row) == len(header) for row in rows)
    by_name = {row[0]: row for row in rows}
    values = book.values("digits", "edl", "known", "scores", "accuracy")
    assert by_name["EDL"][1:3] == ("2", spread(values, 2))
    assert by_name["FFGU"][1:] == ("0", "-", "-", "99.1", "-", "-", "78")
    assert "digits, u = 1 is wrong" in header
    assert {row["method"] for row in table1.rows(book)} >= {"l2", "edl", "edl-type2"}


def test_how_good_the_probabilities_are(book):
    rows = {row[0]: row[1:] for row in calibration.table(book, "digits")}
    assert list(rows) == [label(variant) for variant in COMPARED]
    scores = book.numbers("digits", "dropout", "known")[0]["scores"]
    assert rows["Dropout"] == (
        f"{100 * scores['ece']:.2f}",
        f"{scores['nll']:.4f}",
        f"{scores['brier']:.4f}",
        f"{100 * scores['aurc']:.3f}",
    )
    assert all("±" in cell for cell in rows["EDL"])  # two seeds
    assert rows["MNFG"] == ("-",) * 4


def test_the_published_numbers_are_those_of_the_paper():
    rows = {row[0]: row for row in table1.table(EMPTY)}
    printed = {
        "L2": ("99.4", "76"),
        "Dropout": ("99.5", "84"),
        "Deep Ensemble": ("99.3", "79"),
        "FFGU": ("99.1", "78"),
        "FFLU": ("99.1", "77"),
        "MNFG": ("99.3", "84"),
        "EDL": ("99.3", "83"),
    }
    for name, cells in printed.items():
        assert (rows[name][4], rows[name][7]) == cells


@pytest.mark.parametrize(
    ("values", "text"), [([], "-"), ([0.5], "50.0"), ([0.5, 0.7], "60.0 ± 14.1"), ([0.5, 0.5], "50.0 ± 0.0")]
)
def test_spread(values, text):
    assert spread(values) == text


def test_a_figure_is_written_three_times_and_the_same_each_time(book, tmp_path):
    for name in ("first", "second"):
        drawing.write_drawn(figure2.draw(book)[0], tmp_path / name)
    for kind in ("png", "svg", "csv"):
        first, second = ((tmp_path / name / f"figure2.{kind}").read_bytes() for name in ("first", "second"))
        assert first == second
    with Image.open(tmp_path / "first" / "figure2.png") as picture:
        assert min(picture.size) > 800
    ET.fromstring((tmp_path / "first" / "figure2.svg").read_text())
    rows = list(csv.DictReader(io.StringIO((tmp_path / "first" / "figure2.csv").read_text())))
    assert len(rows) == 3 * 101
    found = book.numbers("digits", "edl", "known")[1]["threshold"]["coverage"][50]
    row = next(row for row in rows if (row["method"], row["seed"], row["threshold"]) == ("edl", "1", "0.5"))
    assert float(row["coverage"]) == found


def test_looks_differ_in_colour_dashes_and_marker():
    for values in zip(*(drawing.LOOKS[name] for name in COMPARED), strict=True):
        assert len(set(values)) == len(COMPARED)
