from dataclasses import replace

from tests.studies.successors.made import result, results_of

from nescio.studies.successors._leaderboard import leaderboard
from nescio.studies.successors._notices import missing_results
from nescio.studies.successors._report import make_report
from nescio.studies.successors._sets import SETS
from nescio.studies.successors.experiments import study_of


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
    now = replace(result("edl", posthoc={}), settings={"posthoc": {"version": 3}})
    assert make_report(results_of([now])).notices == []
    before = {"posthoc": {"version": 2}}
    made = [
        now,
        replace(result("softmax", posthoc={}), settings=before),
    ]  # which has no opinions: nothing changed
    assert make_report(results_of(made)).notices == []
    made.append(replace(now, settings=before, seed=1))
    made.append(replace(result("red", posthoc={}), settings=before))
    made.append(replace(result("edl", "cifar5-lenet", posthoc={}), settings=before))
    (notice,) = make_report(results_of(made)).notices
    assert notice[0] == "To be measured again:"
    assert notice[1].endswith(
        "(docs/decisions/0037), on letter, A to T: EDL (library's default) [seed 1], RED; "
        "CIFAR5 (LeNet): EDL (library's default)."
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


def test_a_data_set_all_of_whose_results_are_of_two_networks_is_named_as_a_whole():
    provenance = {"plain": {"weights": "1"}, "posthoc": {"weights": "2"}}
    made = [result("edl", posthoc={})]
    for arm in SETS["cifar5-lenet"].arms:
        made.append(replace(result(arm, "cifar5-lenet", posthoc={}), provenance=provenance))
    (notice,) = make_report(results_of(made)).notices
    assert "of two networks: CIFAR5 (LeNet): all methods. `nescio study" in notice[1]
