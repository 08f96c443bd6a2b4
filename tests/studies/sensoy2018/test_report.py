import re
from pathlib import Path

import pytest
from tests.studies.page import Page
from tests.studies.small import one

from nescio.errors import InputError
from nescio.studies._claims import NOT_REPRODUCED, PARTLY
from nescio.studies.report import MARKDOWN, Report, render
from nescio.studies.results import unfinished
from nescio.studies.runner import store_in
from nescio.studies.sensoy2018 import _report as report
from nescio.studies.sensoy2018._claims import CLAIMS, check_all
from nescio.studies.sensoy2018._results import PaperResults

pytestmark = pytest.mark.usefixtures("_small")
FIGURES = ["figure1", "figure2", "figure3", "figure4", "figure4-honest", "losses"]


@pytest.fixture
def made(results):
    return report.make_report(results)


@pytest.fixture
def text(made):
    return render(made, MARKDOWN)


def test_everything_is_written(folder, tmp_path, results):
    (tmp_path / "store").symlink_to(folder / "store")
    path = report.write(tmp_path, "quick")
    names = {each.name for each in (tmp_path / "figures").iterdir()}
    expected = {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg", "csv")}
    assert names == expected | {"table1.csv", "dead_classes.csv"}
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(FIGURES) <= set(ids)
    assert page.tags.count("svg") == len(FIGURES)
    links = {address[1:] for address in page.values("href") if address.startswith("#")}
    assert links <= set(ids)
    words = (tmp_path / "report.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"(figures/{name}.png)" in words


def test_the_markdown_has_whole_tables(text):
    lines = text.splitlines()
    widths = [line.count("|") for line in lines]
    rules = [place for place, line in enumerate(lines) if set(line) == {"|", "-"}]
    for place in rules:
        assert widths[place - 1] == widths[place] == widths[place + 1], lines[place - 1]
    assert len(rules) == 9


@pytest.fixture(scope="module")
def judged():
    """The claims alone, on the committed results of the paper's own data."""
    results = PaperResults.read(Path(__file__).parents[3] / "results" / "paper", "paper")
    return Report("Claims", [], "nescio", claims=check_all(results))


def test_every_claim_on_the_papers_data_is_shown_with_its_rule_and_numbers(judged):
    text = render(judged, MARKDOWN)
    assert [each.claim for each in judged.judged] == list(CLAIMS)
    assert judged.seen == []
    for each in judged.claims:
        assert text.count(f"| {each.claim.says}.<br>*Rule: {each.claim.rule}.*") == 1
        for subject, verdict in each.verdicts.items():
            assert f"| {subject or 'all'} | **{verdict.mark}** | {verdict.found} |" in text


def test_those_unlike_the_paper_are_listed(judged):
    text = render(judged, MARKDOWN)
    head = text[: text.index("### All claims")]
    listed = 0
    for each in judged.claims:
        for subject, verdict in each.verdicts.items():
            said = f"- {each.claim.says}. **{subject}:** {verdict.found}."
            if not subject:
                said = f"- {each.claim.says}: {verdict.found}."
            is_unlike = verdict.mark in (NOT_REPRODUCED, PARTLY)
            assert (said in head) == is_unlike
            listed += is_unlike
    assert listed > 0


def test_the_quick_run_is_not_taken_for_the_paper(text, made):
    assert "This is the quick run, not the paper" in text
    assert "digits for MNIST, letters for notMNIST" in text
    assert made.judged == []
    assert "reproduced**" not in text
    assert "verdicts:" not in text
    shown = {each.claim.says for each in made.seen}
    assert "EDL's uncertainty rises sharply when the 1 is turned" in shown
    for each in made.seen:
        assert f"| {each.claim.says}. | {each.claim.shown_in} | {each.stand_in} |" in text
        assert "CIFAR5" not in each.claim.says


def test_settings_and_hardware_are_said(made, results):
    rows = [dict(zip(made.settings.header, row, strict=True)) for row in made.settings.rows]
    assert ("digits", "L2", "0, 1") in [(row["data"], row["method"], row["seeds"]) for row in rows]
    dropout = next(row for row in rows if row["method"] == "Dropout")
    assert (dropout["epochs"], dropout["batch"], dropout["kept apart"]) == ("2", "64", "100")
    assert dropout["samples"] == "4 / 2"  # when measured, when attacked
    assert "dropout 0.5" in dropout["settings"]
    assert "samples" not in dropout["settings"]
    assert next(row for row in rows if row["method"] == "EDL")["samples"] == "-"
    hardware = results.results[0].provenance["known"]["hardware"]
    assert f"{hardware['cores']} cores, {hardware['threads']} threads" in made.hardware[0]


def test_nothing_is_missing_of_a_whole_run(made, results):
    assert unfinished(results.experiments, results.results) == []
    assert [heading for heading, _ in made.notices] == ["This is the quick run, not the paper's experiment:"]


def test_what_is_missing_is_shown_as_missing(folder, tmp_path):
    (tmp_path / "store").mkdir()
    for arm, left_out in (("edl", "pgd"), ("l2", "")):
        for each in one(arm).measurements:
            path = store_in(folder).path(one(arm).plan, each)
            if each.name != left_out:
                (tmp_path / "store" / path.name).write_bytes(path.read_bytes())
    text = render(report.make_report(PaperResults.read(tmp_path, "quick")), MARKDOWN)
    said = re.search(r"\*\*Not measured yet:\*\* (.*?)\. These", text)[1].split(", ")
    assert "digits/edl-0" in said
    assert "digits/dropout-0" in said
    assert "digits/l2-0" not in said
    assert "reproduced**" not in text
    assert "`nescio reproduce --preset quick --out DIR`, where DIR is the folder of this report" in text


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_a_report_of_nothing(tmp_path, preset):
    text = report.write(tmp_path, preset).read_text(encoding="utf-8")
    assert "No result to draw yet" in text
    assert "Not measured yet" in text
    assert Page(text).open == []


def test_no_such_preset(tmp_path):
    with pytest.raises(InputError, match="preset must be one of"):
        report.write(tmp_path, "slow")
