import pytest
import typer
from tests.studies.successors.conftest import replace_sets
from typer.testing import CliRunner

from nescio.cli._reproduce import ManyNames
from nescio.cli._study import study
from nescio.errors import InputError


@pytest.fixture
def app(monkeypatch):
    """The command, with the study in small."""
    replace_sets(monkeypatch)
    app = typer.Typer()
    app.command(cls=ManyNames)(study)
    return app


def test_it_trains_a_part_and_a_second_call_only_what_is_missing(app, tmp_path):
    out = str(tmp_path / "out")
    words = ["successors", "--only", "pixels", "--methods", "softmax", "--out", out]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert (tmp_path / "out" / "report.html").resolve().as_uri() in first.stdout
    assert "pixels/softmax-0: plain, posthoc, scores measured" in first.stderr
    records = sorted(path.name.split("-")[0] for path in (tmp_path / "out" / "store").iterdir())
    assert records == ["plain", "posthoc", "scores"]
    second = CliRunner().invoke(app, words)
    assert second.stderr.strip() == ""


def test_a_report_of_what_is_there(app, tmp_path):
    result = CliRunner().invoke(app, ["successors", "--report-only", "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "store").exists()
    assert "not measured" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["predecessors"], "name must be one of successors, got 'predecessors'"),
        (["successors", "--only", "mnist"], "only must be of pixels, features"),
        (["successors", "--seeds", "0"], "seeds must be a whole number from 1 on"),
        (["successors", "--on", "moon"], "on must be"),
    ],
)
def test_what_there_is_not(app, tmp_path, words, message):
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)
