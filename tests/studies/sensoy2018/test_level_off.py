import pytest
from tests.studies.sensoy2018.made import EMPTY, result, results_of

from nescio.studies.sensoy2018 import _level_off as level_off


def curve(*accuracies, member=None):
    numbers = {"epoch": list(range(1, len(accuracies) + 1)), "held_out_accuracy": list(accuracies)}
    if member:
        numbers["epoch"] = [1, 2] * (len(accuracies) // 2)
        numbers["member"] = member
    return numbers


@pytest.mark.parametrize(
    ("accuracies", "gain"),
    [((0.5, 0.9, 0.95, 0.96, 0.97), 0.07), ((0.5, 0.6), 0.1), ((0.9,), 0.0), ((0.9, 0.9, 0.9, 0.88), -0.02)],
)
def test_gain_is_from_three_epochs_before_the_last(accuracies, gain):
    assert level_off.gain(accuracies) == pytest.approx(gain)


def test_members_are_looked_at_one_by_one():
    both = curve(0.5, 0.7, 0.6, 0.9, member=[1, 1, 2, 2])
    assert level_off.members(both) == [[0.5, 0.7], [0.6, 0.9]]
    made = results_of([result("ensemble", training=both)])
    assert level_off.table(made).rows == [("Deep Ensemble on MNIST", "2", "80.00", "+25.00", "+30.00", "no")]


def test_the_seed_that_gained_most_decides():
    flat, rising = curve(0.99, 0.99, 0.99, 0.992), curve(0.99, 0.99, 0.99, 0.995)
    made = results_of([result("edl", training=flat), result("edl", seed=1, training=rising)])
    assert level_off.table(made).rows == [("EDL on MNIST", "4", "99.35", "+0.35", "+0.50", "no")]
    made = results_of([result("edl", training=flat)])
    assert level_off.table(made).rows[0][-3:] == ("+0.20", "+0.20", "yes")


def test_seeds_that_go_up_and_down_level_off_on_average():
    falling, rising = curve(0.99, 0.99, 0.99, 0.988), curve(0.99, 0.99, 0.99, 0.994)
    made = results_of([result("edl", training=falling), result("edl", seed=1, training=rising)])
    assert level_off.table(made).rows[0][-3:] == ("+0.10", "+0.40", "on average")


def test_a_training_without_images_kept_apart_is_marked():
    made = results_of([result("edl", training={"epoch": [1, 2], "accuracy": [0.5, 0.6]})])
    assert level_off.table(made).rows == [("EDL on MNIST", "2", "-", "-", "-", "not known")]
    assert level_off.table(EMPTY).rows == []


def test_what_was_measured(results):
    rows = {row[0]: row for row in level_off.table(results).rows}
    arms = ("L2", "Dropout", "EDL", "EDL (as printed)")
    assert set(rows) == {f"{arm} on digits" for arm in arms}
    assert rows["EDL on digits"][1] == "2"
    assert rows["EDL on digits"][-1] in ("yes", "no")
