import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from evidentia import __version__
from evidentia.cli import app


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["evidentia", *words])
        monkeypatch.setattr("warnings.showwarning", None)
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


def test_version_and_help(run):
    assert run("--version") == (0, f"evidentia {__version__}\n", "")
    code, out, _ = run("--help")
    assert code == 0
    assert "data" in out


def test_an_unknown_command_is_a_usage_error(run):
    code, _, err = run("dance")
    assert code == 2
    assert "dance" in err


def test_an_error_is_one_line_and_code_1(run):
    code, out, err = run("data", "show", "imagenet")
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no data set 'imagenet'")
    assert len(err.splitlines()) == 1


def test_debug_shows_the_traceback(run):
    code, _, err = run("--debug", "data", "show", "imagenet")
    assert code == 1
    assert err.startswith("Traceback")


def test_data_list_tells_what_is_here(run, empty_cache):
    code, out, _ = run("data", "list")
    assert code == 0
    assert "letters" in out
    assert "here" not in out
    assert run("data", "fetch", "digits")[0] == 0
    assert "here" in run("data", "list")[1]


def test_data_fetch_counts_what_it_brought(run, session_cache):
    code, out, _ = run("data", "fetch", "digits")
    assert (code, out) == (0, f"digits: 5,000 images, verified, in {session_cache / 'digits'}\n")


def test_data_fetch_of_what_is_made(run):
    code, _, err = run("data", "fetch", "letters")
    assert code == 1
    assert "can't fetch letters; to fetch: digits" in err


def test_data_show_writes_a_png(run, tmp_path):
    code, out, _ = run("data", "show", "digits", "--out", str(tmp_path / "new" / "d.png"), "--split", "test")
    assert code == 0
    assert "1000 images" in out
    assert np.asarray(Image.open(tmp_path / "new" / "d.png")).shape[2] == 3


def test_data_show_of_a_folder_warns_in_one_line(run, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.new("L", (8, 8)).save(tmp_path / name / "0.png")
    (tmp_path / "a" / "1.png").write_text("text")
    code, _, err = run("data", "show", str(tmp_path), "--out", str(tmp_path / "sheet.png"))
    assert code == 0
    assert err.startswith("warning: 1 of 3 files")
    code, _, err = run("data", "show", str(tmp_path), "--strict")
    assert code == 1
    assert err.startswith("error: 1 of 3 files")


def test_the_installed_command_answers_help_without_torch():
    code = (
        "import sys; sys.argv = ['evidentia', '--help']\n"
        "from evidentia.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
