import pytest

from nescio.cli._time_left import Piece, StudyTimeLeft, TimeLeft, in_words


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (59, "59 s"),
        (61, "2 min"),
        (3540, "59 min"),
        (3600, "1 h"),
        (7860, "2 h 11 min"),
        (90000, "25 h"),
    ],
)
def test_a_time_in_words(seconds, words):
    assert in_words(seconds) == words


def test_the_first_step_counts_where_it_is_said_how_long_it_was():
    clock = Clock()
    left = TimeLeft(clock)
    clock.now += 500  # features were computed, packages imported
    assert left.text(1, 4, step=1, seconds=10) == ", about 30 s left"
    clock.now += 20
    assert left.text(2, 4, step=1, seconds=20) == ", about 30 s left"
    clock.now += 30
    assert left.text(4, 4, step=1, seconds=15) == ""


def test_what_an_earlier_run_did_takes_no_time():
    clock = Clock()
    left = TimeLeft(clock)
    clock.now += 1000  # loading
    assert left.text(500, 1000) == ""
    clock.now += 10
    assert left.text(600, 1000) == ", about 40 s left"


PIECES = [Piece("a/one", "a", 10), Piece("a/two", "a", 20), Piece("b/one", "b", 5)]


def test_a_study_takes_what_its_epochs_take():
    clock = Clock()
    left = StudyTimeLeft(PIECES, clock)
    assert left.text() == ""
    for _ in range(10):
        clock.now += 2
        left.epoch("a/one")
    assert left.text() == ", about 50 s left in all"  # 25 epochs of 2 s: of b nothing is known
    clock.now += 10  # measured
    left.finished("a/one")
    assert left.text() == ", about 2 min left in all"  # 25 epochs of 3 s


def test_groups_have_paces_of_their_own():
    clock = Clock()
    left = StudyTimeLeft(PIECES, clock)
    clock.now += 10
    left.finished("a/one")
    clock.now += 100
    left.epoch("b/one")
    assert left.text() == ", about 7 min left in all"  # 20 of 1 s and 4 of 100 s
    for name in ("a/two", "b/one"):
        left.finished(name)
    assert left.text() == ""


def test_a_training_for_another_takes_time_and_is_no_progress():
    clock = Clock()
    left = StudyTimeLeft(PIECES, clock)
    clock.now += 10
    left.epoch("a/one, source of transfer")
    assert left.text() == ""
    left.epoch("somebody else's")
    left.finished("nobody")
    clock.now += 10
    left.epoch("a/one")
    assert left.text() == ", about 12 min left in all"  # 34 of 20 s
