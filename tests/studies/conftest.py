import pytest
from tests.studies.small import SMALL

from nescio.studies.runner import run
from nescio.studies.sensoy2018._results import PaperResults
from nescio.studies.sensoy2018.presets import PRESETS


@pytest.fixture
def _small(monkeypatch):
    """`quick` is the study in small."""
    monkeypatch.setitem(PRESETS, "quick", SMALL)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of the study in small, computed once."""
    folder = tmp_path_factory.mktemp("study")
    experiments = []
    for comparison in SMALL:
        experiments += comparison.experiments()
    run(experiments, folder)
    return folder


@pytest.fixture(scope="session")
def results(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", SMALL)
        return PaperResults.read(folder, "quick")
