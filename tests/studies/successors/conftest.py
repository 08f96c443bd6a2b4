import pytest
from tests.studies.successors.small import SMALL

from nescio.studies.runner import run
from nescio.studies.successors._results import SuccessorResults
from nescio.studies.successors._sets import SETS
from nescio.studies.successors.experiments import plan


def replace_sets(patch):
    """The study is the one in small."""
    for name in reversed(list(SETS)):  # put back the other way round, in their own order
        patch.delitem(SETS, name)
    for name, each in SMALL.items():
        patch.setitem(SETS, name, each)


@pytest.fixture
def _small(monkeypatch):
    replace_sets(monkeypatch)


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """The folder of the study in small, computed once."""
    folder = tmp_path_factory.mktemp("successors")
    with pytest.MonkeyPatch.context() as patch:
        replace_sets(patch)
        run(plan(), folder)
    return folder


@pytest.fixture
def results(folder, _small):
    return SuccessorResults.read(folder)
