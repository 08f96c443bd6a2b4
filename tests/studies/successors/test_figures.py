import pytest
from matplotlib.figure import Figure as Picture
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.successors._arms import label
from nescio.studies.successors._figures import draw, draw_ranks
from nescio.studies.successors._ranks import Ranking
from nescio.studies.successors._sets import ALL_ARMS


def everywhere(posthoc=None):
    made = []
    for name in ("letter", "clinc150"):
        for place, arm in enumerate(ALL_ARMS):
            made.append(result(arm, name, auroc=0.9 - place / 100, posthoc=posthoc))
    return results_of(made)


def texts(axes):
    return [each.get_text() for each in axes.texts]


def test_nothing_to_draw():
    assert draw(EMPTY) == []


def test_ranks_with_a_label_for_every_method_and_the_critical_difference():
    figures = {figure.name: figure for figure in draw(everywhere(posthoc={"auroc": 0.95}))}
    assert set(figures) == {"ranks-auroc", "ranks-accuracy", "ranks-nll", "ranks-ece", "ranks-aurc", "trust"}
    figure = figures["ranks-auroc"]
    assert len(figure.picture.axes) == 2
    said = texts(figure.picture.axes[0])
    assert f"{label('softmax')}  1.0" in said
    assert f"{len(ALL_ARMS)}.0  {label(ALL_ARMS[-1])}" in said
    assert any(text.startswith("critical difference") for text in said)
    assert figure.rows[0] == {"variant": "plain", "method": "softmax", "mean_rank": 1.0}
    assert figure.caption.endswith(" Ranked over: letter, A to T: letter U to Z, CLINC150: out of scope.")
    assert "Methods under one bar are not shown to differ by Nemenyi's test" in figure.caption


def test_what_is_ranked_over_is_said_of_each_variant_where_it_differs():
    made = []
    for name in ("letter", "clinc150", "20newsgroups"):
        for place, arm in enumerate(ALL_ARMS):
            posthoc = {} if name != "clinc150" else None
            made.append(result(arm, name, accuracy=0.9 - place / 100, posthoc=posthoc))
    figures = {figure.name: figure for figure in draw(results_of(made))}
    caption = figures["ranks-accuracy"].caption
    assert "ranked over letter, A to T, CLINC150, 20 Newsgroups, the first 15; with temperature" in caption
    assert caption.endswith("ranked over letter, A to T, 20 Newsgroups, the first 15.")
    assert "Ranked over:" not in caption


def test_a_critical_difference_that_does_not_fit_is_said():
    axes = Picture().subplots()
    draw_ranks(
        axes, Ranking({"softmax": 1.0, "edl": 2.0, "red": 3.0}, ("x", "y"), 0.0, 1.0, 2.5), "as trained"
    )
    assert "critical difference 2.5 (cut off)" in texts(axes)
    axes = Picture().subplots()
    draw_ranks(
        axes, Ranking({"softmax": 1.0, "edl": 2.0, "red": 3.0}, ("x", "y"), 0.0, 1.0, 1.5), "as trained"
    )
    assert "critical difference 1.5" in texts(axes)


def test_labels_do_not_lie_on_each_other():
    (figure, *_) = draw(everywhere())
    assert len(figure.picture.axes) == 1  # nothing with temperature and trust
    places = {}
    for each in figure.picture.axes[0].texts:
        if any(label(arm) in each.get_text() for arm in ALL_ARMS):
            places.setdefault(each.get_ha(), []).append(each.get_position()[1])
    for levels in places.values():
        assert len(set(levels)) == len(levels)


def test_what_trust_changes_by_ood_set():
    results = results_of([result("edl", "mnist", auroc=0.9, posthoc={"auroc": 0.99}), result("edl")])
    (figure,) = draw(results)
    assert figure.name == "trust"
    titles = [axes.get_title() for axes in figure.picture.axes if axes.get_title()]
    assert titles[0] == "letter, A to T,\nagainst letter U to Z"
    assert len(titles) == 4
    found = {(row["set"], row["ood"], row["variant"]): row["auroc"] for row in figure.rows}
    assert found["mnist", "letters", "posthoc"] == 0.99


def trust_panels(results):
    """The panels of the figure, by their title."""
    (figure,) = [each for each in draw(results) if each.name == "trust"]
    return figure, {axes.get_title(): axes for axes in figure.picture.axes if axes.get_title()}


def test_the_rows_of_trust_have_the_seed_of_the_training():
    figure, _ = trust_panels(results_of([result("edl", seed=2, auroc=0.9), result("edl", seed=1, auroc=0.8)]))
    assert [(row["seed"], row["auroc"]) for row in figure.rows] == [(1, 0.8), (2, 0.9)]


def test_panels_of_trust_are_equally_wide_and_have_the_planned_methods_alone():
    made = [result("edl", auroc=0.9), result("red", auroc=0.7), result("edl", "cifar5-lenet", auroc=0.75)]
    _, panels = trust_panels(results_of(made))
    letter = panels["letter, A to T,\nagainst letter U to Z"]
    lenet = panels["CIFAR5 (LeNet),\nagainst unseen five"]
    widths = [axes.get_xlim()[1] - axes.get_xlim()[0] for axes in (letter, lenet)]
    assert widths[0] == pytest.approx(widths[1]) == pytest.approx(0.32)
    assert [text.get_text() for text in letter.get_yticklabels()] == [label(arm) for arm in ALL_ARMS]
    assert [text.get_text() for text in lenet.get_yticklabels()] == ["Softmax", "EDL (library's default)"]
    assert texts(letter) == []


def test_a_mean_beyond_the_panel_of_trust_is_an_arrow_with_its_number():
    made = [result("edl", auroc=0.95), result("red", auroc=0.28, posthoc={"auroc": 0.45})]
    _, panels = trust_panels(results_of(made))
    (axes,) = panels.values()
    assert texts(axes) == ["0.28", "0.45"]
    arrows = [line for line in axes.lines if line.get_marker() == "<"]
    low, high = axes.get_xlim()
    assert high == pytest.approx(0.95 + 0.012)
    for arrow in arrows:
        assert low < arrow.get_xdata()[0] < high
        assert arrow.get_ydata()[0] == ALL_ARMS.index("red")
