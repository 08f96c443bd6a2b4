import re
from dataclasses import replace

import pytest
from tests.studies.page import Page

from nescio.errors import DataError
from nescio.plots import panels, style
from nescio.studies._claims import NOT_REPRODUCED, PARTLY, REPRODUCED, CheckedClaim, Claim, Verdict
from nescio.studies._figures import Figure
from nescio.studies.report import HTML, MARKDOWN, Report, Table, machines, render, write_report
from nescio.studies.results import Result


@pytest.fixture
def report():
    with style():
        picture, grid = panels(1)
        grid[0][0].plot([0, 1])
    claim = Claim("Water is wet", "rain", "it drips; partly: it shines", lambda results, arm: None)
    verdicts = {
        "A": Verdict(REPRODUCED, "wet"),
        "B": Verdict(PARTLY, "damp"),
        "C": Verdict(NOT_REPRODUCED, "ice"),
    }
    return Report(
        title="Rain, reproduced",
        introduction=["It falls & falls."],
        command="nescio study rain --out DIR",
        notices=[("Beware:", "of <puddles>.")],
        claims=[CheckedClaim(claim, "", verdicts)],
        tables=[Table("drops", "Drops", "How many.", ("cloud", "drops"), [("one", "5"), ("two", "7")])],
        figures=[Figure("rain", "The rain", "It rises.", picture, [{"x": 1}])],
        differences=["It was warmer."],
        settings=Table("settings", "Settings", "All.", ("a",), [("b",)]),
        hardware=["a kettle"],
        files={"clouds": [{"cloud": "one"}], "nothing": []},
    )


def test_everything_is_written(report, tmp_path):
    path = write_report(report, tmp_path)
    assert path == tmp_path / "report.html"
    names = {each.name for each in (tmp_path / "figures").iterdir()}
    assert names == {"rain.png", "rain.svg", "rain.csv", "clouds.csv"}
    assert (tmp_path / "figures" / "clouds.csv").read_text() == "cloud\none\n"


def test_the_page_is_whole_and_takes_nothing_from_outside(report):
    text = render(report, HTML)
    page = Page(text)
    assert text.lstrip().startswith("<!doctype html>")
    assert page.open == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert {"rain", "drops", "settings"} <= set(ids)
    assert page.tags.count("svg") == 1
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    assert "of &lt;puddles&gt;" in text
    assert '<a href="#rain">' in text


def test_the_markdown(report):
    text = render(report, MARKDOWN)
    lines = text.splitlines()
    assert lines[0] == "# Rain, reproduced"
    assert "**Beware:** of <puddles>." in lines
    assert "3 verdicts: 1 reproduced, 1 partly, 1 not reproduced, 0 not measured." in lines
    assert "- Water is wet. **C:** ice." in lines
    assert "| | | B | **partly** | damp |" in lines
    assert "![The rain](figures/rain.png)" in lines
    assert "| two | 7 |" in lines
    assert "- a kettle" in lines


def test_on_other_data_there_are_numbers_and_no_verdicts(report):
    (checked,) = report.claims
    nothing = replace(checked, stand_in="ice", verdicts={"": Verdict("not measured", "no results")})
    other = replace(report, claims=[replace(checked, stand_in="snow"), nothing])
    assert sum(other.tally.values()) == 0
    assert [each.stand_in for each in other.seen] == ["snow"]
    for template in (MARKDOWN, HTML):
        text = render(other, template)
        assert "What is to be seen" in text
        assert "damp" in text
        assert "verdicts:" not in text
        assert not re.search(r"class=\"mark|\*\*(not |)reproduced|partly<", text)
    assert Page(render(other, HTML)).open == []


def test_verdicts_are_counted_and_those_unlike_the_paper_found(report):
    assert report.tally == {"reproduced": 1, "partly": 1, "not reproduced": 1, "not measured": 0}
    assert [found[0][1] for found in report.unlike.values()] == ["C", "B"]
    assert report.anchors == ["drops", "rain"]


def test_a_report_of_nothing():
    empty = Report("Nothing", [], "nescio")
    assert "No result to draw yet" in render(empty, HTML)
    assert "No result to draw yet" in render(empty, MARKDOWN)
    assert Page(render(empty, HTML)).open == []


def test_a_folder_that_can_not_be_written_to(report, tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(DataError, match="can't be written to"):
        write_report(report, tmp_path)


def test_headings_of_a_study_that_is_not_of_one_paper(report):
    assert "What the paper claims, and what we find" in render(report, HTML)
    other = replace(report, claims_title="Weather", says_title="the forecast", differences_title="Mind")
    page = render(other, HTML)
    assert "<h2>Weather</h2>" in page
    assert "<h2>Mind</h2>" in page
    text = render(other, MARKDOWN)
    assert "| the forecast |" in text
    assert "## Mind" in text


def test_every_machine_is_named_once():
    made = {"hardware": {"processor": "kettle", "cores": 2, "threads": 1}, "versions": {"torch": "3"}}
    results = [Result("rain", "a", seed, provenance={"drops": made, "clouds": {}}) for seed in range(2)]
    assert machines(results) == ["kettle, 2 cores, 1 threads; torch 3"]
