from dataclasses import replace

import pytest
from tests.studies.page import Page
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.report import HTML, MARKDOWN, render
from nescio.studies.successors._leaderboard import leaderboard
from nescio.studies.successors._notices import missing_results
from nescio.studies.successors._report import make_report, write
from nescio.studies.successors._sets import SETS
from nescio.studies.successors.experiments import study_of


@pytest.mark.usefixtures("_small")
def test_the_study_in_small_from_training_to_report(folder):
    path = write(folder)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert "What is claimed, and what we find" in text
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "### Digits: known inputs" in markdown
    assert "### Digits by features against letters" in markdown
    assert "Not measured yet" not in markdown
    assert (folder / "figures" / "trust.png").exists()
    assert "0022" in markdown  # where settings were chosen


def test_what_is_missing_is_said():
    experiments = study_of().select(["letter", "clinc150"], ["edl", "red"]).experiments
    results = results_of([result("edl", posthoc={}), result("edl", seed=1)], experiments)
    there = "2 of 3 seeds as trained and 1 of 3 seeds with temperature and trust"
    assert missing_results(results) == {
        "letter": {there: ["edl"], "nothing": ["red"]},
        "clinc150": {"nothing": ["edl", "red"]},
    }
    (notice,) = make_report(results).notices
    assert f"letter, A to T: {there} of EDL (library's default), nothing of RED; " in notice[1]


def test_what_was_measured_as_trained_alone_is_not_called_nothing():
    experiments = study_of().select(["letter"], ["edl", "red"]).experiments
    made = [result("edl", posthoc={}), result("edl", seed=1, posthoc={}), result("red")]
    assert missing_results(results_of(made, experiments)) == {
        "letter": {
            "2 of 3 seeds": ["edl"],
            "1 of 3 seeds as trained and none of 3 seeds with temperature and trust": ["red"],
        }
    }


def test_numbers_of_a_former_version_are_said():
    now = result("edl", posthoc={})
    assert make_report(results_of([now])).notices == []
    before = {"posthoc": {"version": 1}}
    made = [now]
    made.append(replace(now, settings=before, seed=1))
    made.append(replace(result("red", posthoc={}), settings=before))
    for arm in SETS["cifar5-lenet"].arms:
        made.append(replace(result(arm, "cifar5-lenet", posthoc={}), settings=before))
    (notice,) = make_report(results_of(made)).notices
    assert notice[0] == "To be measured again:"
    assert notice[1].endswith(
        "the prior of docs/decisions/0021, on letter, A to T: EDL (library's default) [seed 1], RED; "
        "CIFAR5 (LeNet): all methods."
    )
    assert f"**{notice[0]}** {notice[1]}" in leaderboard(results_of(made))


def test_results_of_two_networks_are_named():
    made = []
    for seed in (0, 1, 2):
        # The third was trained twice to the same weights.
        weights = f"{min(seed, 1)}"
        provenance = {
            "plain": {"training_seconds": 1.5, "weights": "1"},
            "posthoc": {"training_seconds": 2.5, "weights": weights},
        }
        if seed == 1:
            del provenance["plain"]["weights"]  # of the time before they were kept
        made.append(replace(result("edl", seed=seed, posthoc={}), provenance=provenance))
    (notice,) = make_report(results_of(made)).notices
    assert notice[0] == "Of two networks:"
    assert "letter, A to T: EDL (library's default) [seed 0, 1]. `nescio study" in notice[1]
    assert f"**{notice[0]}** {notice[1]}" in leaderboard(results_of(made))
    assert make_report(results_of(made[2:])).notices == []


@pytest.mark.parametrize("template", [HTML, MARKDOWN])
def test_a_report_without_results(template):
    text = render(make_report(EMPTY), template)
    assert "not measured" in text
    assert "No result to draw yet" in text


def test_what_methods_do_not_share_is_said():
    said = make_report(EMPTY).differences[1]
    assert said.startswith(
        "Networks of DAEDL, F-EDL, FFGU, FFLU, MNFG, Deep Ensemble have no dropout, those of the other "
        "methods have 0.3 on CLINC150; 20 Newsgroups, the first 15; CIFAR5, 0.5 on MNIST; CIFAR5 (LeNet), "
        "and none on letter, A to T, where MC dropout alone has 0.5."
    )
    assert said.endswith("NatPN fits its density for up to 100 epochs more, the network as it is.")
    assert "one number of steps" not in " ".join(make_report(EMPTY).introduction)


def test_what_the_reported_data_had_a_part_in_is_said():
    introduction = " ".join(make_report(EMPTY).introduction)
    assert "because CLINC150 had an ECE of 3.0 %" in introduction
    assert "letter was among the reasons" in introduction


def test_settings_are_said():
    report = make_report(results_of([result("red"), result("red", seed=1)]))
    (row,) = report.settings.rows
    assert row[:5] == ["letter, A to T", "RED", "0, 1", "3", "4"]
    assert report.settings.header[-1] == "settings"
    assert "divergence_weight 1" in row[-1]
