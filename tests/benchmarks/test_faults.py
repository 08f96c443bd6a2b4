"""The attacks of `python -m benchmarks.faults`, a few of each: real files, real kills."""

import os
import random
import sys

import pytest
from benchmarks import faults_kills
from benchmarks.faults_files import Data, Models, Mutated, Outcome, change_somewhere, damaged, read_all
from benchmarks.faults_kills import Work, attempt, kill_saves, killed

from nescio._files import write_atomically

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="processes are forked")


def write_ten(folder):
    """Ten files, each as soon as the one before is there, and each whole or not at all."""
    for number in range(10):
        path = folder / str(number)
        if not path.exists():
            write_atomically(path, b"x" * 1000)


def contents(folder):
    return [path.read_text() for path in sorted(folder.iterdir())]


def test_work_that_is_killed_and_goes_on_ends_the_same(tmp_path):
    result = killed(Work(write_ten, contents), 5, tmp_path, seed=0)
    assert result.kills >= 5
    assert result.faults == []


def test_work_that_takes_what_was_cut_for_whole_is_found_out(tmp_path, monkeypatch):
    states = iter(["ended", "killed", "ended"])

    def write(folder):
        path = folder / "file"
        if not path.exists():
            path.write_text("whole")

    def attempted(do, folder, seconds):
        state = next(states)
        if state == "killed":
            (folder / "file").write_text("who")
        else:
            do(folder)
        return state

    monkeypatch.setattr(faults_kills, "attempt", attempted)
    result = killed(Work(write, contents), 1, tmp_path, seed=0)
    assert (result.kills, result.ended) == (1, 1)
    assert result.faults == [f"{tmp_path / 'killed-0'}: another result"]


def test_work_that_leaves_something_behind_is_found_out(tmp_path, monkeypatch):
    states = iter(["ended", "killed", "ended"])

    def attempted(do, folder, seconds):
        state = next(states)
        if state == "killed":
            (folder / "left").touch()
        else:
            do(folder)
        return state

    monkeypatch.setattr(faults_kills, "attempt", attempted)
    work = Work(lambda folder: (folder / "done").touch(), files_in_done)
    result = killed(work, 1, tmp_path, seed=0)
    assert (result.kills, result.ended) == (1, 1)
    assert "other files: left" in result.faults[0]


def files_in_done(folder):
    return (folder / "done").exists()


def test_what_an_attempt_comes_to(tmp_path):
    assert attempt(lambda folder: None, tmp_path, 60) == "ended"
    assert attempt(lambda folder: (folder / "none").read_text(), tmp_path, 60) == "failed"
    assert attempt(endless, tmp_path, 0.05) == "killed"


def endless(folder):
    while True:
        pass


def test_saves_that_are_killed(tmp_path):
    result = kill_saves(10, tmp_path / "saves")
    assert (result.kills, result.faults) == (10, [])


def test_changed_files_are_answered_or_refused(tmp_path):
    data = Data(tmp_path / "data")
    outcomes = read_all(Mutated(data.write, data.read), 60, tmp_path / "changed")
    assert [outcome.number for outcome in outcomes] == list(range(60))
    assert [outcome for outcome in outcomes if outcome.fault] == []
    assert {outcome.said for outcome in outcomes} == {"answer", "refused"}


def test_changed_models_are_answered_or_refused(tmp_path):
    models = Models(tmp_path / "models")
    outcomes = read_all(Mutated(models.write, models.read), 40, tmp_path / "changed")
    assert [outcome for outcome in outcomes if outcome.fault] == []


def test_what_counts_as_a_fault(tmp_path):
    assert Outcome(0, "", "refused", 1.0, 10.0).fault is None
    assert Outcome(0, "", "answer", 6.0, 10.0).fault == "6.0 s"
    assert Outcome(0, "", "answer", 1.0, 2000.0).fault == "2000 MB"
    assert Outcome(0, "", "KeyError: 3", 1.0, 10.0).fault == "KeyError: 3"


def test_a_process_that_dies_is_a_fault_and_the_next_file_is_read(tmp_path):
    def write(number, folder):
        (folder / "f").write_text(str(number))
        return "made", folder / "f"

    def read(path):
        if path.read_text() == "2":
            os._exit(1)

    outcomes = read_all(Mutated(write, read), 5, tmp_path / "dying")
    assert [outcome.fault is None for outcome in outcomes] == [True, True, False, True, True]


def test_the_same_number_makes_the_same_change():
    content = bytes(range(256))
    assert damaged(content, random.Random(7)) == damaged(content, random.Random(7))
    tree = {"a": [1, {"b": 2}], "c": "d"}
    before = repr(tree)
    change_somewhere(tree, random.Random(1))
    assert repr(tree) != before
