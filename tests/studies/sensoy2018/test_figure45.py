from dataclasses import replace

import numpy as np
import pytest
from tests.studies.sensoy2018.lines import has_band, legend_names, lines
from tests.studies.sensoy2018.made import EMPTY, result, results_of

from nescio.metrics import wilson_interval
from nescio.studies.sensoy2018 import _figure45 as figure45
from nescio.studies.sensoy2018._figure45 import estimate_over, mean_over
from nescio.studies.sensoy2018._results import PaperResults


def test_nothing_is_drawn_of_nothing():
    assert figure45.draw(EMPTY) == []


def test_figure4(results):
    paper, honest = figure45.draw(results)
    assert [paper.name, honest.name] == ["figure4", "figure4-honest"]  # no ensemble was measured
    accuracy, entropy = paper.picture.axes
    curves = [each["curve"] for each in results.numbers("digits", "edl", "fgsm")]
    expected = 100 * np.mean([curve["accuracy"] for curve in curves], axis=0)
    np.testing.assert_allclose(lines(accuracy)["EDL"], expected)
    expected = 100 * np.mean([curve["entropy"] for curve in curves], axis=0)
    np.testing.assert_allclose(lines(entropy)["EDL"], expected)
    assert accuracy.get_xlim()[0] == 0
    assert [has_band(accuracy, place) for place in range(4)] == [True] * 4
    assert [has_band(entropy, place) for place in range(4)] == [False, False, True, False]  # EDL: three seeds
    assert "on 20 test images" in paper.caption
    assert {row["attack"] for row in honest.rows} == {"fgsm", "transfer", "pgd"}


def test_the_honest_panels(results):
    honest = figure45.draw(results)[-1]
    transferred = honest.picture.axes[1]
    own = [each["curve"]["accuracy"] for each in results.numbers("digits", "l2", "fgsm")]
    np.testing.assert_allclose(lines(transferred)["L2"], 100 * np.mean(own, axis=0))
    stuck = results.numbers("digits", "edl-printed", "pgd")[0]["curve"]["without_gradient"]
    np.testing.assert_allclose(lines(honest.picture.axes[0])["EDL (as printed)"], 100 * np.array(stuck))
    assert "PGD takes 2 smaller steps" in honest.caption
    assert "Against Dropout its gradient is a mean over fresh draws" in honest.caption


def test_who_was_not_shown_images_made_on_l2_is_named(results):
    assert "Not measured for" not in figure45.draw(results)[-1].caption
    kept = [each for each in results.results if each.arm != "edl"]
    for each in results.of("digits", "edl"):
        numbers = {name: found for name, found in each.numbers.items() if name != "transfer"}
        kept.append(replace(each, numbers=numbers))
    honest = figure45.draw(PaperResults(kept, "quick"))[-1]
    assert "is shown them. Not measured for EDL. PGD takes" in honest.caption


def test_who_was_shown_images_of_a_former_l2_network_is_named(results):
    for caption in (figure45.draw(results)[-1].caption, figure45.table(results, "digits").caption):
        assert "former L2" not in caption
    changed = []
    for each in results.results:
        if each.arm in ("edl", "edl-printed") and "transfer" in each.settings:
            transfer = each.settings["transfer"]
            source = transfer["source"]
            training = {**source["training"], "epochs": 1}
            transfer = {**transfer, "source": {**source, "training": training}}
            each = replace(each, settings={**each.settings, "transfer": transfer})
        changed.append(each)
    former = PaperResults(changed, "quick")
    said = "EDL, EDL (as printed) were shown images of a former L2 network (epochs 1 instead of 2). "
    assert said in figure45.draw(former)[-1].caption
    assert said in figure45.table(former, "digits").caption
    one = PaperResults([each for each in changed if each.arm != "edl-printed"], "quick")
    assert "EDL was shown images of a former L2 network" in figure45.table(one, "digits").caption


def test_the_same_draws_in_every_step_are_named(results):
    (dropout,) = results.of("digits", "dropout")
    settings = {**dropout.settings, "pgd": {**dropout.settings["pgd"], "fresh_draws": False}}
    others = [each for each in results.results if each.arm != "dropout"]
    honest = figure45.draw(PaperResults([*others, replace(dropout, settings=settings)], "quick"))[-1]
    assert "Against Dropout it is a mean over the same few draws" in honest.caption


def test_deep_ensemble_is_left_out_of_the_paper_s_panels_and_shown_in_its_own(results):
    ensemble = [replace(each, arm="ensemble") for each in results.of("digits", "l2")]
    drawn = figure45.draw(PaperResults([*results.results, *ensemble], "quick"))
    assert [each.name for each in drawn] == ["figure4", "figure4-ensemble", "figure4-honest"]
    assert "Deep Ensemble" not in legend_names(drawn[0].picture)
    assert "Deep Ensemble" in legend_names(drawn[1].picture)
    columns = [each.picture.legends[0]._ncols for each in drawn]
    assert columns == [4, 3, 3]  # nine names in three of three


def test_means_over_epsilon_leave_zero_out(results):
    curve = results.numbers("digits", "dropout", "fgsm")[0]["curve"]
    found = estimate_over(results, "digits", "dropout", "fgsm", "accuracy")
    assert found.mean == pytest.approx(np.mean(curve["accuracy"][1:]))
    assert found.interval == wilson_interval(found.mean, 20)
    assert estimate_over(results, "digits", "mnfg", "fgsm", "accuracy") is None


def test_attacks_are_compared_at_the_same_strength(results):
    assert figure45.shared_epsilons(results, "digits") == [0.1]  # FGSM has 0.3 as well
    table = figure45.table(results, "digits")
    row = dict(zip(table.header, table.rows[1], strict=True))
    curves = {attack: results.numbers("digits", "dropout", attack)[0]["curve"] for attack in ("fgsm", "pgd")}
    assert (row["method"], row["samples"]) == ("Dropout", "2")
    assert row["FGSM: accuracy, %"].startswith(f"{100 * curves['fgsm']['accuracy'][1]:.1f} [")
    assert row["PGD: accuracy, %"].startswith(f"{100 * curves['pgd']['accuracy'][1]:.1f} [")
    assert row["PGD: zero gradient, %"].startswith(f"{100 * curves['pgd']['without_gradient'][1]:.1f} [")
    assert "[" not in row["PGD: entropy when wrong, %"]
    assert "epsilon 0.1;" in table.caption


def test_no_epsilons_of_nothing():
    assert figure45.shared_epsilons(EMPTY, "mnist") == []


def test_every_wrong_image_counts_alike():
    curve = {"epsilon": [0, 0.1, 0.2, 0.3], "accuracy": [0.5, 1.0, 0.9, 0.4]}
    curve["entropy_when_wrong"] = [0.0, None, 0.8, 0.1]
    assert mean_over(curve, "entropy_when_wrong") == pytest.approx((1 * 0.8 + 6 * 0.1) / 7)
    assert mean_over(curve, "entropy_when_wrong", [0.1]) is None
    made = results_of([result("l2", pgd={"curve": curve})])
    found = estimate_over(made, "mnist", "l2", "pgd", "entropy_when_wrong")
    assert found.mean == pytest.approx((1 * 0.8 + 6 * 0.1) / 7)
