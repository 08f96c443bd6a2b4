import subprocess
import sys
from dataclasses import replace

import pytest
import typer
from tests.studies.small import DEAD, DIGITS
from typer.testing import CliRunner

from nescio.cli._reproduce import ManyNames, reproduce
from nescio.errors import InputError, MissingExtraError
from nescio.studies.sensoy2018.presets import PRESETS, Entry


@pytest.fixture
def app(monkeypatch):
    """The command, with the paper in small as `quick`."""
    entries = (Entry("l2", measurements=("known",)), Entry("edl", measurements=("known", "rotation")))
    training = {**DIGITS.training, "epochs": 1}
    monkeypatch.setitem(PRESETS, "quick", (replace(DIGITS, entries=entries, training=training), DEAD))
    app = typer.Typer()
    app.command(cls=ManyNames)(reproduce)
    return app


def test_it_makes_a_report_and_a_second_call_only_what_is_missing(app, tmp_path):
    out = str(tmp_path / "out")
    first = CliRunner().invoke(app, ["--out", out, "--sets", "digits", "--methods", "l2"])
    assert first.exit_code == 0, first.output
    assert (tmp_path / "out" / "report.html").resolve().as_uri() in first.stdout
    assert "digits/l2-0: training, 1 epochs" in first.stderr
    second = CliRunner().invoke(app, ["--sets", "digits", "--methods", "l2", "edl", "--out", out])
    assert second.exit_code == 0, second.output
    assert "digits/edl-0: training, known, rotation measured" in second.stderr
    assert "l2-0" not in second.stderr
    records = [path.name.split("-")[0] for path in (tmp_path / "out" / "store").iterdir()]
    assert sorted(records) == ["known", "known", "rotation", "training", "training"]
    third = CliRunner().invoke(app, ["--sets", "digits", "--methods", "l2", "edl", "--out", out])
    assert third.stderr.strip() == ""


@pytest.fixture
def planned(monkeypatch):
    """What the command asks for, without doing it."""
    asked = {}
    monkeypatch.setattr(
        "nescio.studies.sensoy2018.presets.plan", lambda *given: asked.update(given=given) or []
    )
    monkeypatch.setattr("nescio.studies.runner.run", lambda *given: asked.update(ran=given))
    return asked


def test_names_can_be_said_in_a_row_or_one_by_one(app, planned, tmp_path):
    row = ["--only", "table1", "figure1", "--methods", "l2", "--seeds", "2", "--out", str(tmp_path)]
    single = ["--only", "table1", "--only", "figure1", "--out", str(tmp_path), "--seeds=2", "--methods=l2"]
    for words in (row, single):
        assert CliRunner().invoke(app, words).exit_code == 0
        assert planned["given"] == ("quick", 2, (), ["l2"], ["table1", "figure1"])


def test_where_it_runs_and_where_it_writes(app, planned, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(app, ["--preset", "paper", "--on", "ray"]).exit_code == 0
    experiments, folder, on, _ = planned["ran"]
    assert (experiments, str(folder), on) == ([], "results/paper", "ray")
    assert (tmp_path / "results" / "paper" / "report.html").exists()


def test_a_word_that_belongs_to_no_option(app):
    result = CliRunner().invoke(app, ["--seeds", "2", "edl"])
    assert result.exit_code == 2
    assert "unexpected extra argument" in result.stderr


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"preset": "slow"}, "preset must be one of"),
        ({"seeds": 0}, "seeds must be a whole number from 1 on"),
        ({"sets": ["cifar5"]}, "sets must be of digits"),
        ({"methods": ["mnf"]}, "methods must be of"),
        ({"only": ["figure9"]}, "only must be of"),
        ({"on": "moon"}, "on must be one of here, ray"),
    ],
)
def test_bad_names(app, tmp_path, given, message):
    with pytest.raises(InputError, match=message):
        reproduce(**{"out": tmp_path / "new", "seeds": 1, **given})
    assert not (tmp_path / "new" / "store").exists()


def test_out_is_a_file(app, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="--out must be a folder to write to"):
        reproduce(out=tmp_path / "file")


def test_a_missing_extra(app, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match="jinja2 is not installed"):
        reproduce(out=tmp_path)


def test_torch_is_not_waited_for_by_the_import():
    code = "import sys, nescio.cli._reproduce; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
