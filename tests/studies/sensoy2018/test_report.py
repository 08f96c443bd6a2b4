import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from tests.studies.sensoy2018.small import SMALL

from nescio.errors import DataError, InputError
from nescio.studies.sensoy2018 import report
from nescio.studies.sensoy2018.book import Book
from nescio.studies.sensoy2018.claims import CLAIMS, MARKS, NOT, PARTLY, REPRODUCED
from nescio.studies.sensoy2018.experiments import PRESETS
from nescio.studies.sensoy2018.results import write_result

pytestmark = pytest.mark.usefixtures("_small")
EMPTY_TAGS = {"meta", "img", "br", "link", "input", "hr"}
FIGURES = ["figure1", "figure2", "figure3", "figure4", "figure4-honest", "losses"]


class Page(HTMLParser):
    """Checks that what is opened is closed, and collects what there is."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def values(self, name):
        return [value for key, value in self.attributes if key == name]


@pytest.fixture
def made(book):
    return report.make_report(book)


@pytest.fixture(scope="module")
def written(folder):
    """The folder with the results and, now, the report of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(PRESETS, "quick", SMALL)
        report.write_report(folder, "quick")
    return folder


def test_what_was_made_with_other_settings_is_left_out_and_said(book, tmp_path):
    (first, third), (second,) = book.of("digits", "l2"), book.of("digits", "edl-paper")
    first = replace(first, trained={**first.trained, "data": "mnist"})
    part = second.parts["pgd"]
    stale = {**part, "settings": {**part["settings"], "steps": 99}}
    second = replace(second, parts={**second.parts, "pgd": stale})
    for each in (first, second, third):
        write_result(tmp_path / "results" / each.study / f"{each.variant}-{each.seed}.json", each)
    found = Book.read(tmp_path, "quick")
    names = [f"{each.study}/{each.variant}-{each.seed}" for each in (first, second)]
    assert found.left_out == sorted([names[0], f"{names[1]}: pgd"])
    assert [set(each.parts) for each in found.results if each.variant == second.variant] == [
        set(second.parts) - {"pgd"}
    ]
    made = report.make_report(found)
    assert f"{second.study}/{second.variant}-{second.seed}" in made.missing
    assert f"Left out**, as made with other settings: {', '.join(found.left_out)}" in report.render(
        made, report.MARKDOWN
    )


def test_everything_is_written(written):
    names = {path.name for path in (written / "figures").iterdir()}
    assert names == {f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg", "csv")} | {
        "table1.csv",
        "deaths.csv",
    }
    assert (written / "report.html").exists()
    text = (written / "report.md").read_text(encoding="utf-8")
    for name in FIGURES:
        assert f"(figures/{name}.png)" in text


def test_the_page_is_whole_and_takes_nothing_from_outside(written):
    text = (written / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert text.lstrip().startswith("<!doctype html>")
    assert page.open == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    assert set(FIGURES) <= set(ids)
    assert page.tags.count("svg") == len(FIGURES)
    assert not {"script", "link", "iframe"} & set(page.tags)
    assert not re.search(r"url\((?!#)|@import|https?://", text)
    addresses = page.values("src") + page.values("href") + page.values("xlink:href")
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in addresses)
    assert {address[1:] for address in page.values("href") if address.startswith("#")} <= set(ids)


def test_the_markdown_has_whole_tables(written):
    lines = (written / "report.md").read_text(encoding="utf-8").splitlines()
    widths = [line.count("|") for line in lines]
    for place, line in enumerate(lines):
        if set(line) == {"|", "-"}:
            assert widths[place - 1] == widths[place] == widths[place + 1], lines[place - 1]
    assert sum(set(line) == {"|", "-"} for line in lines) == 8


def test_every_claim_is_shown_with_its_rule_and_numbers(written, made):
    text = (written / "report.md").read_text(encoding="utf-8")
    assert [each.claim for each in made.claims] == list(CLAIMS)
    for each in made.claims:
        assert text.count(f"| {each.claim.says}.<br>*Rule: {each.claim.rule}.* |") == 1
        for subject, verdict in each.verdicts.items():
            assert f"| {subject or 'all'} | **{verdict.mark}** | {verdict.found} |" in text


def test_the_verdicts_are_counted_and_those_unlike_the_paper_listed(written, made):
    marks = [verdict.mark for each in made.claims for verdict in each.verdicts.values()]
    assert made.tally == {mark: marks.count(mark) for mark in MARKS}
    assert sum(made.tally.values()) == len(marks)
    text = (written / "report.md").read_text(encoding="utf-8")
    assert f"{len(marks)} verdicts: {made.tally[REPRODUCED]} reproduced, " in text
    head = text[: text.index("### All claims")]
    for each in made.claims:
        for subject, verdict in each.verdicts.items():
            said = f"- {each.claim.says}. **{subject or 'Here'}, on {each.on}:** {verdict.found}."
            assert (said in head) == (verdict.mark in (NOT, PARTLY))


def test_the_quick_run_is_not_taken_for_the_paper(written):
    for name in ("report.md", "report.html"):
        text = (written / name).read_text(encoding="utf-8")
        assert "This is the quick run, not the paper" in text
        assert "digits for MNIST, letters for notMNIST" in text
    assert "Data: digits and letters." in text
    assert "Data: MNIST" not in text


def test_settings_and_hardware_are_said(made, book):
    rows = made.tables["settings"].rows
    assert ("digits", "L2", "0, 1") in [tuple(row[:3]) for row in rows]
    dropout = next(row for row in rows if row[1] == "Dropout")
    assert dropout[3:5] == ("2", "64")
    assert dropout[6] == "4 / 2"  # when measured, when attacked
    assert "dropout 0.5" in dropout[7]
    assert "samples" not in dropout[7]
    assert next(row for row in rows if row[1] == "EDL")[6] == "-"
    hardware = book.results[0].made["hardware"]
    assert f"{hardware['cores']} cores, {hardware['threads']} threads" in made.hardware[0]


def test_nothing_is_missing_of_a_whole_run(made):
    assert made.missing == []


def test_what_is_missing_is_shown_as_missing(book, tmp_path):
    some = [each for each in book.results if each.variant in ("edl", "l2") and each.seed == 0]
    for each in some:
        parts = {name: part for name, part in each.parts.items() if (each.variant, name) != ("edl", "pgd")}
        path = tmp_path / "results" / each.study / f"{each.variant}-{each.seed}.json"
        write_result(path, type(each)(**{**vars(each), "parts": parts}))
    report.write_report(tmp_path, "quick")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    said = re.search(r"\*\*Not measured yet:\*\* (.*?)\. These", text, flags=re.DOTALL)[1]
    assert "digits/edl-0" in said
    assert "digits/dropout-0" in said
    assert "digits/l2-0" not in said
    assert "**not measured**" in text
    assert "`nescio reproduce --preset quick --out DIR`, where DIR is the folder of this report" in text


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_a_report_of_nothing(tmp_path, preset):
    path = report.write_report(tmp_path, preset)
    text = path.read_text(encoding="utf-8")
    assert "No result to draw yet" in text
    assert "Not measured yet" in text
    assert Page(text).open == []


def test_results_of_another_preset_are_left_out(folder):
    assert Book.read(folder, "quick").results
    assert {each.study for each in Book.read(folder, "paper").results} <= {"deaths"}


def test_no_such_preset(tmp_path):
    with pytest.raises(InputError, match="preset must be one of"):
        report.write_report(tmp_path, "slow")


def test_a_folder_that_can_not_be_written_to(tmp_path):
    (tmp_path / "report.md").mkdir()
    with pytest.raises(DataError, match="can't be written to"):
        report.write_report(tmp_path, "quick")
