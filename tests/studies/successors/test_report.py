import pytest
from tests.studies.page import Page
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies.report import HTML, MARKDOWN, render
from nescio.studies.successors._report import make_report, write


@pytest.mark.usefixtures("_small")
def test_the_study_in_small_from_training_to_report(folder):
    path = write(folder)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert "What is claimed, and what we find" in text
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "### Digits: known inputs" in markdown
    assert "### Digits by features against letters" in markdown
    assert "Not measured yet" not in markdown
    assert (folder / "figures" / "trust.png").exists()
    assert "0022" in markdown  # where settings were chosen


@pytest.mark.parametrize("template", [HTML, MARKDOWN])
def test_a_report_without_results(template):
    text = render(make_report(EMPTY), template)
    assert "not measured" in text
    assert "No result to draw yet" in text


def test_what_methods_do_not_share_is_said():
    said = make_report(EMPTY).differences[1]
    assert said.startswith(
        "Networks of DAEDL, F-EDL, FFGU, FFLU, MNFG, Deep Ensemble have no dropout, those of the other "
        "methods have 0.3 on CLINC150; 20 Newsgroups, the first 15; CIFAR5, 0.5 on MNIST; CIFAR5 (LeNet), "
        "and none on letter, A to T, where MC dropout alone has 0.5."
    )
    assert said.endswith("NatPN fits its density for up to 100 epochs more, the network as it is.")
    assert "one number of steps" not in " ".join(make_report(EMPTY).introduction)


def test_what_the_reported_data_had_a_part_in_is_said():
    introduction = " ".join(make_report(EMPTY).introduction)
    assert "because CLINC150 had an ECE of 3.0 %" in introduction
    assert "letter was among the reasons" in introduction


def test_settings_are_said():
    report = make_report(results_of([result("red"), result("red", seed=1)]))
    (row,) = report.settings.rows
    assert row[:5] == ["letter, A to T", "RED", "0, 1", "3", "4"]
    assert report.settings.header[-1] == "settings"
    assert "divergence_weight 1" in row[-1]
