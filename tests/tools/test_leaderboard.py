import pytest
from tools.leaderboard import FOLDER, PAGE

from nescio.studies.report import MARKDOWN, render
from nescio.studies.runner import store_in
from nescio.studies.successors._leaderboard import leaderboard
from nescio.studies.successors._report import make_report
from nescio.studies.successors._results import SuccessorResults


@pytest.fixture(scope="module")
def committed():
    return SuccessorResults.read(FOLDER)


def test_the_page_is_that_of_the_committed_results(committed):
    assert PAGE.read_text(encoding="utf-8") == leaderboard(committed), "call: python tools/leaderboard.py"


def test_the_committed_report_is_made_from_the_committed_results(committed):
    text = (FOLDER / "report.md").read_text(encoding="utf-8")
    assert render(make_report(committed), MARKDOWN) == text, "call: nescio study successors --report-only"


def test_every_record_belongs_to_the_study(committed):
    """A record that nothing asks for any more is to be removed."""
    store = store_in(FOLDER)
    asked = set()
    for experiment in committed.experiments:
        for measurement in experiment.measurements:
            asked.add(store.path_to_read(experiment.plan, measurement))
    assert set(store.paths()) <= asked
