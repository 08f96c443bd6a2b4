import re
from pathlib import Path

import pytest
from tests.studies.sensoy2018.made import result, results_of
from tools.result_numbers import DOCUMENTS, MARKED, ROOT, rewrite

from nescio.studies.report import MARKDOWN, render
from nescio.studies.sensoy2018._report import make_report
from nescio.studies.sensoy2018._results import PaperResults


@pytest.fixture(scope="module")
def committed():
    return PaperResults.read(ROOT / "results" / "paper", "paper")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_of_a_document_is_that_of_the_committed_results(name, committed):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert MARKED.search(text)
    assert rewrite(text, committed) == text, "call: python tools/result_numbers.py"


def test_the_committed_report_is_made_from_the_committed_results(committed):
    text = (ROOT / "results" / "paper" / "report.md").read_text(encoding="utf-8")
    assert render(make_report(committed), MARKDOWN) == text, "call: nescio reproduce --preset paper"


@pytest.mark.parametrize("name", ["docs/methods.md", "docs/limits.md"])
def test_no_result_stands_outside_the_marks(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    text = MARKED.sub("", text)
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)
    text = text.replace("95% interval", "interval")
    assert re.findall(r"\d+(?:\.\d+)?%|\b0\.\d{3,}\b(?! and no dropout)|\d+e-\d+(?! )", text) == []


def made():
    curve = {"epsilon": [0.0, 0.08], "accuracy": [0.9, 0.125]}
    first = {"known": {"scores": {"ece": 0.0204, "aurc": 0.00011}}, "pgd": {"curve": curve}}
    second = {"known": {"scores": {"ece": 0.0206, "aurc": 0.00013}}}
    return results_of([result("edl", **first), result("edl", seed=1, **second)])


@pytest.mark.parametrize(
    ("source", "written"),
    [
        ("mnist/edl known scores.ece % 2", "2.05%"),
        ("mnist/edl known scores.ece . 4", "0.0205"),
        ("mnist/edl known scores.aurc e 1", "1.2e-4"),
        ("mnist/edl pgd curve.accuracy[epsilon=0.08] % 1", "12.5%"),
        ("mnist/l2 known scores.ece % 2", "(not measured yet)"),
        ("dead edl-relu", "(not measured yet)"),
        ("epochs mnist/l2", "(not measured yet)"),
    ],
)
def test_how_numbers_are_written(source, written):
    text = f"before <!-- = {source} -->old\nnumber<!-- / --> after"
    again = rewrite(text, made())
    assert again == f"before <!-- = {source} -->{written}<!-- / --> after"
    assert rewrite(again, made()) == again


def test_a_mark_that_names_no_number():
    with pytest.raises(SystemExit, match="this is no number of the results: 'mnist/edl known'"):
        rewrite("<!-- = mnist/edl known --><!-- / -->", made())


def test_the_documents_exist():
    assert all(Path(ROOT, name).exists() for name in DOCUMENTS)
