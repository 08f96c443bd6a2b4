"""The report: every table, figure and claim, as one HTML file and as Markdown, from the results alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl

from nescio._files import write_atomically
from nescio.errors import DataError
from nescio.plots import PALETTE, STYLE, svg
from nescio.studies.sensoy2018 import calibration, deaths, figure1, figure2, figure3, figure45, losses, table1
from nescio.studies.sensoy2018.book import ROLES, STRANGERS_OF, TITLES, Book, label
from nescio.studies.sensoy2018.claims import MARKS, NOT, PARTLY, Checked, Verdict, check_all
from nescio.studies.sensoy2018.differences import differences
from nescio.studies.sensoy2018.drawing import Drawn, as_csv, write_drawn
from nescio.studies.sensoy2018.experiments import FGSM, KNOWN, PRESETS, STRANGERS
from nescio.studies.sensoy2018.results import TRAINING

HTML, MARKDOWN = "report.html.j2", "report.md.j2"
DRAWINGS = (figure1.draw, figure2.draw, figure3.draw, figure45.draw, losses.draw)


@dataclass(frozen=True)
class Table:
    """A table for people: an anchor, a title, what it shows, a header and lines of text."""

    name: str
    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Report:
    """Everything that is shown."""

    preset: str
    claims: Sequence[Checked]
    tables: dict[str, Table]
    figures: dict[str, Drawn]
    missing: Sequence[str]
    left_out: Sequence[str]
    stand_ins: Sequence[str]
    differences: Sequence[str]
    hardware: Sequence[str]

    @property
    def tally(self) -> dict[str, int]:
        """How many verdicts have each mark."""
        return {mark: len(self._marked(mark)) for mark in MARKS}

    @property
    def unlike(self) -> dict[str, list[tuple[Checked, str, Verdict]]]:
        """The verdicts that are not, or only partly, the paper's: claim, what was checked, verdict."""
        return {mark: self._marked(mark) for mark in (NOT, PARTLY)}

    def _marked(self, mark: str) -> list[tuple[Checked, str, Verdict]]:
        return [
            (checked, subject, verdict)
            for checked in self.claims
            for subject, verdict in checked.verdicts.items()
            if verdict.mark == mark
        ]


def make_report(book: Book) -> Report:
    """From results to all that is shown."""
    figures = {drawn.name: drawn for draw in DRAWINGS for drawn in draw(book)}
    tables = {table.name: table for table in _tables(book)}
    return Report(
        book.preset,
        check_all(book),
        tables,
        figures,
        missing_results(book),
        book.left_out,
        _stand_ins(book),
        differences(book),
        _hardware(book),
    )


def missing_results(book: Book) -> list[str]:
    """The experiments of the preset without a result, or without all of its parts."""
    found = {(each.study, each.variant, each.seed): set(each.parts) for each in book.results}
    return [
        experiment.name
        for study in PRESETS[book.preset]
        for experiment in study.experiments()
        if not {TRAINING, *experiment.parts}
        <= found.get((study.name, experiment.variant.name, experiment.seed), set())
    ]


def _tables(book: Book) -> list[Table]:
    return [
        Table(
            "table1",
            "Table 1: accuracy on the test images, %",
            "As in the paper, a prediction without any evidence (u = 1) counts as wrong; by arg-max it may "
            "be right by chance. ± is the standard deviation over the seeds." + table1.without_evidence(book),
            table1.header(book),
            table1.table(book),
        ),
        *(table for study in book.studies for table in _study_tables(book, study)),
        Table(
            "losses-table",
            "The three losses, all else alike",
            "Means over the seeds ± their standard deviation.",
            losses.HEADER,
            losses.table(book),
        ),
        Table(
            "deaths",
            "How often a class dies with ReLU evidence",
            "The paper's loss and evidence on the embedded digits. A class is counted as dead when its "
            "evidence is zero on every test image. A ReLU output that is zero on every training image "
            "gets no gradient from the loss, and seldom comes back.",
            deaths.HEADER,
            deaths.table(book),
        ),
        Table(
            "settings",
            "Settings, seeds and time",
            "Samples: draws that a prediction is the mean of, when measured / when attacked. Times are by "
            "the clock, whatever else the machine was doing.",
            SETTINGS_HEADER,
            _settings(book),
        ),
    ]


def _study_tables(book: Book, study: str) -> Iterator[Table]:
    """Of one data set, what was measured of it."""
    if book.variants(study, KNOWN):
        yield Table(
            f"probabilities-{study}",
            f"How good the probabilities are, {TITLES[study]}",
            "Lower is better for all. Calibration error: how far confidence is from accuracy. AURC: the "
            "share of errors among the most certain images, averaged over how many these are; certain by u "
            "for EDL and by entropy for the others. Means over the seeds ± their standard deviation.",
            calibration.HEADER,
            calibration.table(book, study),
        )
    if book.variants(study, STRANGERS):
        yield Table(
            f"strangers-{study}",
            f"{TITLES[study]} networks on {STRANGERS_OF[study]}",
            "Entropy in percent of its maximum; AUROC, AUPR and FPR95 tell the known from the unknown by "
            "entropy, the unknown being the positive class.",
            figure3.HEADER,
            figure3.table(book, study),
        )
    if book.variants(study, FGSM):
        epsilons = ", ".join(f"{each:g}" for each in figure45.shared_epsilons(book, study))
        yield Table(
            f"attacks-{study}",
            f"Attacks on {TITLES[study]}, all at the same strength",
            f"Means over epsilon {epsilons}; of the entropy when wrong over all wrong images. Zero "
            "gradient: of the images as they are, and where PGD has left them. Samples: draws that each "
            "attacked prediction is the mean of, for methods that draw.",
            figure45.HEADER,
            figure45.table(book, study),
        )


SETTINGS_HEADER = (
    "data",
    "method",
    "seeds",
    "epochs",
    "batch",
    "rate",
    "samples",
    "settings",
    "training, s",
)


def _settings(book: Book) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for study in PRESETS[book.preset]:
        for experiment in (each for each in study.experiments() if each.seed == 0):
            variant = experiment.variant.name
            results = book.of(study.name, variant)
            if not results:
                continue
            trained = results[0].trained
            training = trained["training"]
            seconds = [each.made["seconds"][TRAINING] for each in results if TRAINING in each.parts]
            rows.append(
                (
                    study.name,
                    label(variant),
                    ", ".join(str(each.seed) for each in results),
                    str(training["epochs"]),
                    str(training["batch_size"]),
                    f"{training['learning_rate']:g}, {training['schedule']}",
                    " / ".join(str(one) for one in experiment.samples or ("-",)),
                    _described(trained),
                    f"{statistics.fmean(seconds):.0f}" if seconds else "-",
                )
            )
    return rows


def _described(trained: Any) -> str:
    """The method's settings, those apart that have a column, and the dropout of the network."""
    method = {name: value for name, value in trained["method"].items() if name not in ("name", "samples")}
    method["dropout"] = trained["network"]["dropout"]
    return ", ".join(f"{name} {_short(value)}" for name, value in method.items() if value is not None)


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _stand_ins(book: Book) -> list[str]:
    return [
        f"{TITLES[study]} for {TITLES[role]}, {STRANGERS_OF[study]} for {STRANGERS_OF[role]}"
        for role, study in ROLES[book.preset].items()
        if study is not None and study != role
    ]


def _hardware(book: Book) -> list[str]:
    """Every machine that had a part in it, and the versions used."""
    said = []
    places = [
        at
        for each in book.results
        if each.made
        for at in (each.made, *each.made.get("elsewhere", {}).values())
    ]
    for made in places:
        hardware, versions = made["hardware"], made["versions"]
        said.append(
            f"{hardware['processor']}, {hardware['cores']} cores, {hardware['threads']} threads; "
            + ", ".join(f"{name} {version}" for name, version in versions.items())
        )
    return list(dict.fromkeys(said))


def render(report: Report, template: str) -> str:
    """As text from a template."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=template.endswith(".html.j2"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    charts = {}
    if template == HTML:
        with mpl.rc_context(STYLE):
            charts = {name: Markup(svg(drawn.figure, name)) for name, drawn in report.figures.items()}
    return environment.get_template(template).render(report=report, charts=charts, palette=PALETTE)


def write_report(folder: Path, preset: str) -> Path:
    """report.html, report.md, and for each figure PNG, SVG and CSV; gives the path of report.html."""
    book = Book.read(folder, preset)
    report = make_report(book)
    try:
        for drawn in report.figures.values():
            write_drawn(drawn, folder / "figures")
        for name, rows in (("table1", table1.rows(book)), ("deaths", deaths.rows(book))):
            if rows:
                write_atomically(folder / "figures" / f"{name}.csv", as_csv(rows).encode())
        write_atomically(folder / "report.md", render(report, MARKDOWN).encode())
        write_atomically(folder / "report.html", render(report, HTML).encode())
    except OSError as error:
        raise DataError(f"{folder} can't be written to: {error.strerror or error}") from error
    return folder / "report.html"
