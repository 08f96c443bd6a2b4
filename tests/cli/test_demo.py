import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from nescio.cli._demo import demo
from nescio.errors import InputError, MissingExtraError

SMALL = ("--epochs", "1", "--samples", "100")


@pytest.fixture(scope="module")
def app():
    app = typer.Typer()
    app.command()(demo)
    return app


def test_the_demo_prints_a_table_and_where_to_go_on(app, tmp_path):
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "a" / "b"), *SMALL])
    assert result.exit_code == 0, result.output
    report = tmp_path / "a" / "b" / "report.html"
    assert report.is_file()
    words = result.stdout.split()
    assert report.as_uri() in words
    assert str(report.parent / "edl.safetensors") in words
    assert "nescio train --help" in result.stdout
    table = [line.split() for line in result.stdout.splitlines() if "right answers" in line]
    shown = table[0][-2:]
    assert all(value.endswith("%") for value in shown)
    assert f"<td>{shown[0]}</td><td>{shown[1]}</td>" in report.read_text(encoding="utf-8")
    assert max(map(len, result.stdout.splitlines()[1:-4])) <= 80


def test_help_hides_what_tests_need(app):
    shown = CliRunner().invoke(app, ["--help"]).stdout
    assert "--out" in shown
    assert "--seed" in shown
    assert "--samples" not in shown


@pytest.fixture
def untrained(monkeypatch):
    """Whatever is wrong shows before anything is trained."""
    monkeypatch.setattr("nescio.demo._run.run_demo", None)


def test_out_is_a_file(untrained, tmp_path):
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=f"--out must be a folder to write to, got {out}: "):
            demo(out)


def test_out_can_not_be_written_to(untrained, tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)
    with pytest.raises(InputError, match=f"--out must be a folder to write to, got {tmp_path}: not allowed"):
        demo(tmp_path)


@pytest.mark.parametrize(("name", "value"), [("seed", -1), ("epochs", 0), ("samples", 5)])
def test_bad_settings(untrained, tmp_path, name, value):
    with pytest.raises(InputError, match=name):
        demo(tmp_path / "new", **{name: value})
    assert not (tmp_path / "new").exists()


def test_a_missing_extra(untrained, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(MissingExtraError, match="jinja2 is not installed"):
        demo(tmp_path)


def test_torch_is_not_waited_for_by_the_import():
    code = "import sys, nescio.cli._demo; print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
