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
    assert "letter, A to T: letter U to Z" in figure.caption


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
