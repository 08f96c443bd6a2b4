"""A package of its own adds to nescio by entry points, in a few lines each, and no file of src knows it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nescio

PACKAGE = Path(__file__).parent / "plugin_package"
SOURCE = Path(nescio.__file__).parent
MOST_LINES = 40


def entry_points_of(pyproject):
    """The tables of entry points as an installer writes them to entry_points.txt."""
    lines = []
    for group, entries in re.findall(r'\[project\.entry-points\."(.*?)"\]\n((?:\w.*\n)+)', pyproject):
        lines.append(f"[{group}]")
        lines += re.findall(r'(\w+ = )"(.*)"', entries)
    return "\n".join("".join(line) for line in lines) + "\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder as an installer leaves it: the package, and beside it what it is and brings."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(PACKAGE / "src" / "nescio_example", site / "nescio_example")
    info = site / "nescio_example-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nescio-example\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points_of((PACKAGE / "pyproject.toml").read_text()))
    return site


@pytest.mark.timeout(900)
def test_a_package_that_extends_nescio_passes_its_own_tests(site):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(SOURCE.parent)])}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PACKAGE / "tests")]
    done = subprocess.run(words, env=environment, cwd=site, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d\d passed", done.stdout)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("src/nescio_example/*.py")), ids=lambda path: path.name)
def test_each_takes_few_lines(path):
    assert len(path.read_text().splitlines()) <= MOST_LINES


def test_no_file_of_nescio_knows_it():
    added = ("nescio_example", "hinge", "FiltersSpec", "LinesOfRows", "nearness")
    for path in SOURCE.rglob("*.py"):
        content = path.read_text().lower()
        for name in added:
            assert name.lower() not in content, f"{path} mentions {name}"


def test_without_the_package_its_names_are_refused():
    with pytest.raises(nescio.InputError, match=r"method must be one of softmax, .*, got 'hinge'"):
        nescio.make_method("hinge")
