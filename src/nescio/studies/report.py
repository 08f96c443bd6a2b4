"""Report: tables, figures and claims of a study as one HTML file and as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nescio._files import write_atomically
from nescio.errors import DataError
from nescio.plots import style, svg
from nescio.reports._page import page_template
from nescio.studies._claims import MARKS, NO_RESULTS, NOT_REPRODUCED, PARTLY, CheckedClaim, Verdict
from nescio.studies._figures import Figure, Row, to_csv, write_figure
from nescio.studies.results import Result

HTML = "report.html.j2"
MARKDOWN = "report.md.j2"


@dataclass(frozen=True)
class Table:
    """A table for people.

    Args:
        name: Its anchor.
        title: Above it.
        caption: What it shows, below it.
        header: The headings of the columns.
        rows: Lines of text.
    """

    name: str
    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Everything that is shown.

    Args:
        title: Title of the page.
        introduction: Paragraphs at its beginning.
        command: What makes the report.
        notices: What must not be overlooked, each a heading and a text.
        claims: What was checked.
        tables: Tables in their order.
        figures: Figures in their order.
        differences: How the study differs from what it reproduces, a sentence or two each.
        settings: The table of settings.
        hardware: The machines that had a part in it.
        files: Further CSV files by name.
        claims_title: Heading of the claims.
        says_title: Heading of the column that says what is claimed.
        differences_title: Heading of `differences`.
    """

    title: str
    introduction: Sequence[str]
    command: str
    notices: Sequence[tuple[str, str]] = ()
    claims: Sequence[CheckedClaim] = ()
    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    differences: Sequence[str] = ()
    settings: Table | None = None
    hardware: Sequence[str] = ()
    files: Mapping[str, Sequence[Row]] = field(default_factory=dict)
    claims_title: str = "What the paper claims, and what we find"
    says_title: str = "the paper says"
    differences_title: str = "What differs from the paper's set-up"

    @property
    def anchors(self) -> list[str]:
        """The names of all tables and figures."""
        names = []
        for table in self.tables:
            names.append(table.name)
        for figure in self.figures:
            names.append(figure.name)
        return names

    @property
    def judged(self) -> list[CheckedClaim]:
        """The claims that were checked on the data that they are about: only these have a verdict."""
        return [checked for checked in self.claims if not checked.stand_in]

    @property
    def seen(self) -> list[CheckedClaim]:
        """The claims of which something is to be seen on other data; those without any number left out."""
        found = []
        for checked in self.claims:
            is_measured = any(verdict.found != NO_RESULTS for verdict in checked.verdicts.values())
            if checked.stand_in and is_measured:
                found.append(checked)
        return found

    @property
    def tally(self) -> dict[str, int]:
        """How many verdicts have each mark."""
        return {mark: len(self.marked(mark)) for mark in MARKS}

    @property
    def unlike(self) -> dict[str, list[tuple[CheckedClaim, str, Verdict]]]:
        """The verdicts that are not, or only partly, the paper's."""
        return {mark: self.marked(mark) for mark in (NOT_REPRODUCED, PARTLY)}

    def marked(self, mark: str) -> list[tuple[CheckedClaim, str, Verdict]]:
        """The judged claims with this mark: claim, label of what was checked, verdict."""
        found = []
        for checked in self.judged:
            for subject, verdict in checked.verdicts.items():
                if verdict.mark == mark:
                    found.append((checked, subject, verdict))
        return found


def machines(results: Sequence[Result]) -> list[str]:
    """Every machine that had a part in results, and the versions used, each once."""
    said: dict[str, None] = {}
    for result in results:
        for provenance in result.provenance.values():
            if "hardware" not in provenance:
                continue
            hardware = provenance["hardware"]
            versions = ", ".join(f"{name} {version}" for name, version in provenance["versions"].items())
            machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['threads']} threads"
            said[f"{machine}; {versions}"] = None
    return list(said)


def training_columns(found: Sequence[Result]) -> dict[str, str]:
    """What all studies say of the trainings of an arm, by the heading of the column.

    Args:
        found: Results of the arm, one or more, of one seed each.
    """
    training = found[0].training["training"]
    seconds = []
    for result in found:
        provenance = next(iter(result.provenance.values()), {})
        if provenance.get("training_seconds") is not None:
            seconds.append(provenance["training_seconds"])
    return {
        "seeds": ", ".join(str(result.seed) for result in found),
        "epochs": str(training["epochs"]),
        "batch": str(training["batch_size"]),
        "rate": f"{training['learning_rate']:g}, {training['schedule']}",
        "training, s": f"{statistics.fmean(seconds):.0f}" if seconds else "-",
    }


def settings_text(settings: Mapping[str, Any]) -> str:
    """Settings in a row: the name and the value of each."""
    said = []
    for name, value in settings.items():
        said.append(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}")
    return ", ".join(said)


def settings_table(caption: str, rows: Sequence[Mapping[str, str]]) -> Table | None:
    """The table of settings; None if there is no row.

    Args:
        caption: What it shows, below it.
        rows: The cells of each row by the headings of the columns, the same in all.
    """
    if not rows:
        return None
    cells = [list(row.values()) for row in rows]
    return Table("settings", "Settings, seeds and time", caption, list(rows[0]), cells)


def render(report: Report, template: str) -> str:
    """A report as text.

    Args:
        report: What is shown.
        template: HTML or MARKDOWN.
    """
    from markupsafe import Markup

    charts = {}
    if template == HTML:
        with style(dark=False):
            for figure in report.figures:
                charts[figure.name] = Markup(svg(figure.picture, figure.name))
    return page_template(Path(__file__).with_name(template)).render(report=report, charts=charts)


def write_report(report: Report, folder: Path) -> Path:
    """Write report.html, report.md, and for each figure PNG, SVG and CSV; gives the path of report.html.

    Raises:
        DataError: If the folder can't be written to.
    """
    try:
        for figure in report.figures:
            write_figure(figure, folder / "figures")
        for name, rows in report.files.items():
            if rows:
                write_atomically(folder / "figures" / f"{name}.csv", to_csv(rows).encode())
        write_atomically(folder / "report.md", render(report, MARKDOWN).encode())
        write_atomically(folder / "report.html", render(report, HTML).encode())
    except OSError as error:
        raise DataError(f"{folder} can't be written to: {error.strerror or error}") from error
    return folder / "report.html"
