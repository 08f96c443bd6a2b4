import logging

import pytest
from rich.console import Console

from nescio.cli._console import counting_progress, epoch_progress, logs_kept_quiet, print_table

METRICS = {"epoch": 2, "loss": 0.5, "accuracy": 0.75, "uncertainty": 0.25, "seconds": 0.01}


@pytest.mark.parametrize(("rank", "seen"), [(None, True), ("0", True), ("1", False)])
def test_one_process_shows_the_progress(monkeypatch, capsys, rank, seen):
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("RANK", raising=False)
    if rank is not None:
        monkeypatch.setenv("RANK", rank)
        monkeypatch.setenv("WORLD_SIZE", "2")
    with epoch_progress(4, "edl") as report:
        report("edl", METRICS)
    shown = capsys.readouterr().err
    assert ("accuracy 0.750" in shown and "2/4" in shown) if seen else shown == ""


@pytest.mark.parametrize(("rank", "seen"), [("0", True), ("1", False)])
def test_without_a_terminal_an_epoch_is_a_line(monkeypatch, capsys, rank, seen):
    monkeypatch.setattr(Console, "is_terminal", False)
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    times = iter([100.0, 116.0])
    with epoch_progress(4, "ensemble", members=3, clock=lambda: next(times)) as report:
        report("ensemble", METRICS | {"seconds": 4.0})
        report("ensemble", METRICS | {"member": 2, "seconds": 4.0})
    lines = capsys.readouterr().err.splitlines()
    figures = "loss 0.500  accuracy 0.750  uncertainty 0.250"
    expected = [
        f"ensemble: epoch 2 of 12: {figures}, about 40 s left",  # 4 s for one, and 10 more
        f"ensemble: epoch 6 of 12: {figures}, about 24 s left",  # 20 s for five, and 6 more
    ]
    assert [line for line in lines if line] == (expected if seen else [])


def counted(*moments):
    """Count at these moments: (seconds, done, total); the clock begins at 0."""
    now = 0.0
    say = counting_progress("features", clock=lambda: now)
    for seconds, done, total in moments:
        now = seconds
        say(done, total)


def test_a_count_says_what_is_left_and_ends_without(monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    counted((6.0, 256, 1024), (12.0, 512, 1024), (13.0, 768, 1024), (14.0, 1024, 1024))
    assert capsys.readouterr().err.splitlines() == [
        "features: 256 of 1,024, 6 s",
        "features: 512 of 1,024, 12 s, about 12 s left",
        "features: 1,024 of 1,024, 14 s",  # the one before came too soon after a line
    ]


def test_a_second_count_takes_its_own_time(monkeypatch, capsys):
    monkeypatch.delenv("RANK", raising=False)
    counted((100.0, 10, 20), (200.0, 20, 20), (210.0, 10, 30), (220.0, 20, 30))
    assert capsys.readouterr().err.splitlines() == [
        "features: 10 of 20, 100 s",
        "features: 20 of 20, 200 s",
        "features: 10 of 30, 10 s",
        "features: 20 of 30, 20 s, about 10 s left",
    ]


def test_a_table_shows_names_as_they_are_and_whole(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "40")
    name = "pictures[bold]/" + "x" * 50 + ".png"
    print_table(["file", "answer"], [[name, "[red]cat"]])
    shown = capsys.readouterr().out
    assert name in "".join(line.partition("   ")[0].strip() for line in shown.splitlines()[2:])
    assert "[red]cat" in shown


def test_members_come_one_after_the_other(monkeypatch, capsys):
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("RANK", raising=False)
    with epoch_progress(4, "ensemble", members=3) as report:
        report("ensemble", METRICS | {"member": 3})
    assert "10/12" in capsys.readouterr().err


def test_logs_are_quiet_for_a_while(caplog):
    logger = logging.getLogger("some.library")
    with logs_kept_quiet():
        logger.warning("about itself")
        logger.error("something is wrong")
    logger.warning("again")
    assert caplog.messages == ["something is wrong", "again"]
