import pytest
from tests.studies.sensoy2018.small import SMALL

from nescio.studies.sensoy2018.book import Book
from nescio.studies.sensoy2018.engine import run_all
from nescio.studies.sensoy2018.experiments import PRESETS


@pytest.fixture
def _small(monkeypatch):
    """`quick` is the paper in small."""
    monkeypatch.setitem(PRESETS, "quick", SMALL)


@pytest.fixture(scope="session")
def folder(session_cache, tmp_path_factory):
    """All results of the paper in small, computed once."""
    folder = tmp_path_factory.mktemp("paper")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_CACHE", str(session_cache))
        run_all([each for study in SMALL for each in study.experiments()], folder)
    return folder


@pytest.fixture(scope="session")
def book(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", SMALL)
        return Book.read(folder, "quick")
