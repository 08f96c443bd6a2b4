import io

import pytest
from rich.console import Console

from nescio._fetch import progress


@pytest.fixture
def terminal(monkeypatch):
    """What a terminal of 120 columns was given."""
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=120)
    monkeypatch.setattr(progress, "Console", lambda **_: console)
    return screen


def test_without_a_terminal_one_plain_line(capsys):
    with progress.reporting("mnist from a place") as report:
        report.stage("asking")
        report.expect(100)
        report.update(50)
    assert capsys.readouterr().err == "fetching mnist from a place\n"


def test_on_a_terminal_the_stages_and_no_bytes_before_there_are_any(terminal):
    with progress.reporting("mnist from [a] place") as report:
        for stage in ("asking", "unpacking"):
            report.stage(stage)
            report._progress.refresh()
    assert "mnist from [a] place: asking" in terminal.getvalue()
    assert "mnist from [a] place: unpacking" in terminal.getvalue()
    assert "bytes" not in terminal.getvalue()


def test_on_a_terminal_the_bytes_of_a_download(terminal):
    with progress.reporting("mnist") as report:
        report.stage("fetching")
        report.expect(2000)
        report.update(500)
        report._progress.refresh()
        report.stage("fetching the next")
        report.expect(0)  # a server that does not tell
        report.update(700)
        report._progress.refresh()
    assert "0.5/2.0 kB" in terminal.getvalue()
    assert "700/? bytes" in terminal.getvalue()
