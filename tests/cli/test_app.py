import subprocess
import sys

import pytest
from PIL import Image

from nescio import __version__
from nescio.cli import app
from nescio.data import load


@pytest.fixture
def run(monkeypatch, capsys):
    def call(*words):
        monkeypatch.setattr(sys, "argv", ["nescio", *words])
        monkeypatch.setattr("warnings.showwarning", None)
        with pytest.raises(SystemExit) as ended:
            app.main()
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call


@pytest.fixture
def photos(tmp_path):
    for name in ("a", "b"):
        (tmp_path / "photos" / name).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "photos" / name / "0.png")
    return tmp_path / "photos"


def test_version_and_help(run):
    assert run("--version") == (0, f"nescio {__version__}\n", "")
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
    assert err.startswith("error: there is no file or folder imagenet, nor a data set of that name")
    assert len(err.splitlines()) == 1


def test_debug_shows_the_traceback(run):
    code, _, err = run("--debug", "data", "show", "imagenet")
    assert code == 1
    assert err.startswith("Traceback")


def test_a_bug_is_one_line_too(run, photos, monkeypatch):
    def fail(*_):
        raise TypeError("one\ntwo")

    monkeypatch.setattr("nescio.data.contact_sheet", fail)
    code, _, err = run("data", "show", str(photos))
    assert (code, err) == (1, "error: TypeError: one (a bug; --debug shows where)\n")
    assert run("--debug", "data", "show", str(photos))[2].startswith("Traceback")


@pytest.mark.parametrize("words", [["--help"], ["data", "list"], ["data", "fetch", "digits"]])
def test_torch_is_not_waited_for_in_vain(words):
    code = (
        f"import sys; sys.argv = ['nescio', *{words}]\n"
        "from nescio.cli.app import main\n"
        "try: main()\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    load("digits")  # so that fetching has nothing to do
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
