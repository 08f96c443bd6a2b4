"""write_card: a model card as report.html, one file with everything in it, and as card.md for a model hub."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nescio._files import write_atomically
from nescio._kinds import InputKind
from nescio.data import LabelledData
from nescio.errors import DataError, InputError
from nescio.inference.model import TrainedModel
from nescio.opinions.categorical import Prediction
from nescio.reports import _words
from nescio.reports._page import page_template, require_extras
from nescio.reports._results import Results, measure
from nescio.reports._samples import Sample, column_names, count_columns, samples_at

PAGE = "report.html.j2"
CARD = "card.md.j2"
PICTURES = "card"  # the folder of the pictures of card.md
LARGEST_MATRIX = 30  # classes; of more, the pairs that are confused most are listed
LISTED_CLASSES = 20  # of card.md; the page lists all
LICENSE = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
# What model hubs call the task.
TASKS = {
    InputKind.IMAGES: ("image-classification", "Image classification"),
    InputKind.TEXTS: ("text-classification", "Text classification"),
    InputKind.ROWS: ("tabular-classification", "Tabular classification"),
}


@dataclass(frozen=True)
class CardContext:
    """What a model card says that neither the model nor the data know.

    Args:
        name: Name of the model. Default: its data's and its method's.
        model_file: Name of the model file, as it is called in the examples.
        split: How the data that was measured on was chosen, part of a sentence.
        ood_name: Name of the out-of-distribution data.
        license: Identifier of the model's license, as model hubs know it.
        command: The command that wrote the card.

    Raises:
        InputError: If license is no such identifier.

    Example:
        >>> CardContext(name="fruit", split="a fifth of the pictures, held out").license
        'unknown'
    """

    name: str = ""
    model_file: str = "model.safetensors"
    split: str = ""
    ood_name: str = "other data"
    license: str = "unknown"
    command: str = ""

    def __post_init__(self) -> None:
        if not LICENSE.fullmatch(self.license):
            raise InputError(f"license must be an identifier like mit or apache-2.0, got {self.license!r}")


def write_card(
    model: TrainedModel,
    data: LabelledData,
    folder: str | Path,
    *,
    prediction: Prediction | None = None,
    ood: Prediction | None = None,
    context: CardContext | None = None,
) -> Path:
    """Write a model card: report.html, card.md, and the pictures of card.md in the folder card.

    Args:
        model: The model.
        data: Labelled data that the model was not trained on.
        folder: Where to write; it is made where there is none. Files of an earlier card are replaced.
        prediction: What the model says of the data, where that is known already.
        ood: What the model says of out-of-distribution inputs; None where there are none.
        context: What else there is to say.

    Returns:
        The path of report.html.

    Raises:
        MissingExtraError: If matplotlib or jinja2 is not installed.
        DataError: If the data does not fit the model, or the folder can't be written to.

    Example:
        >>> import tempfile
        >>> import nescio, torch
        >>> rows = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).repeat(20, 1)
        >>> table = nescio.data.Table(rows, torch.arange(40) % 2, ("up", "down"), "forty rows")
        >>> settings = nescio.TrainingSettings(epochs=30, batch_size=8, learning_rate=0.01)
        >>> model = nescio.TrainedModel.train(table, settings=settings)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = write_card(model, table, folder)
        ...     "Of 40 rows, 40 were answered rightly" in path.read_text(encoding="utf-8")
        True
    """
    require_extras()
    context = context or CardContext()
    labels = model.labels_of(data)
    if prediction is None:
        prediction = model.predict(model.preprocess.inputs_of(data), independent=True)
    results = measure(model, prediction, labels, ood)
    content = CardContent(model, data, results, context)
    folder = Path(folder)
    try:
        files = _pictures_of(content)
        _remove_others(folder / PICTURES, list(files))
        for name, picture in files.items():
            write_atomically(folder / PICTURES / name, picture)
        _write_text(folder / "card.md", render(content, CARD))
        _write_text(folder / "report.html", render(content, PAGE))
    except OSError as error:
        raise DataError(f"{folder} can't be written to: {error.strerror or error}") from error
    return folder / "report.html"


class CardContent:
    """Everything that both forms of the card show.

    Args:
        model: The model.
        data: The data that was measured on.
        results: What was measured.
        context: What else there is to say.
    """

    def __init__(
        self, model: TrainedModel, data: LabelledData, results: Results, context: CardContext
    ) -> None:
        from nescio.reports._figures import draw_figures

        self.model = model
        self.data = data
        self.results = results
        self.context = context
        self.columns = column_names(data)
        self.num_columns = count_columns(data)
        self.mistakes = samples_at(data, results, model.classes, results.surest_mistakes())
        self.doubtful = samples_at(data, results, model.classes, results.most_doubtful())
        self.figures = draw_figures(results, model.classes, LARGEST_MATRIX)

    @property
    def name(self) -> str:
        """Name of the model."""
        if self.context.name:
            return self.context.name
        trained_on = self.model.training.get("data", {}).get("name", self.data.name)
        return f"{trained_on}, {self.model.method.name}"

    @property
    def task(self) -> tuple[str, str]:
        """What model hubs call the task, as an identifier and in words."""
        return TASKS[self.data.kind]

    @property
    def tags(self) -> list[str]:
        """What the model is found by on a hub."""
        tags = ["nescio", "uncertainty", self.model.method.name]
        if self.results.has_evidence:
            tags.append("evidential-deep-learning")
        if self.model.encoder is not None:
            tags.append(self.model.encoder.spec.kind.partition(":")[0])
        return tags

    @property
    def class_rows(self) -> list[dict[str, Any]]:
        """Each class with its measures."""
        found = self.results.of_classes
        rows = []
        for place, name in enumerate(self.model.classes):
            row = {
                "name": name,
                "count": int(found.count[place]),
                "precision": float(found.precision[place]),
                "recall": float(found.recall[place]),
                "uncertainty": float(found.mean_uncertainty[place]),
            }
            rows.append(row)
        return rows

    @property
    def hardest_class_rows(self) -> list[dict[str, Any]]:
        """The classes that are found least often, those without inputs last."""
        return sorted(self.class_rows, key=_recall_of)[:LISTED_CLASSES]

    @property
    def absent_classes(self) -> list[str]:
        """The classes of which there was no input."""
        return [row["name"] for row in self.class_rows if row["count"] == 0]


def _recall_of(row: dict[str, Any]) -> float:
    return row["recall"] if row["count"] else 2.0


def render(content: CardContent, template: str) -> str:
    """A card as text.

    Args:
        content: What is shown.
        template: PAGE or CARD.
    """
    from nescio import __version__

    filters: dict[str, Callable[..., str]] = {
        "md": _markdown,
        "quoted": _quoted,
        "slug": _slug,
        "percent": _words.percent,
        "share": _words.share,
        "number": _words.number,
        "short": _words.short_name,
    }
    page = page_template(Path(__file__).with_name(template), filters)
    charts = {}
    if template == PAGE:
        charts = _charts_of(content)
    return page.render(
        card=content,
        model=content.model,
        results=content.results,
        context=content.context,
        words=_words,
        charts=charts,
        pairs=content.results.confused_pairs(),
        largest_matrix=LARGEST_MATRIX,
        listed_classes=LISTED_CLASSES,
        version=__version__,
    )


def _charts_of(content: CardContent) -> dict[str, Any]:
    """The figures as SVG elements that take their colours from the page."""
    from markupsafe import Markup

    from nescio.plots import svg

    charts = {}
    for name, figure in content.figures.items():
        charts[name] = Markup(svg(figure, name))
    return charts


def _pictures_of(content: CardContent) -> dict[str, bytes]:
    """The files of card.md by name: charts and thumbnails."""
    from nescio.plots import png

    files = {}
    for name, figure in content.figures.items():
        files[f"{name}.png"] = png(figure)
    for name, samples in (("mistake", content.mistakes), ("doubtful", content.doubtful)):
        files |= _thumbnails(name, samples)
    return files


def _thumbnails(name: str, samples: Sequence[Sample]) -> dict[str, bytes]:
    files = {}
    for place, sample in enumerate(samples, start=1):
        if sample.picture is not None:
            files[f"{name}-{place:02}.png"] = sample.picture
    return files


def _remove_others(folder: Path, kept: Sequence[str]) -> None:
    """Remove the pictures of an earlier card that the new one does not have; what is not ours stays."""
    ours = re.compile(r"(mistake|doubtful)-\d\d\.png|(confusion|calibration|risk_coverage|ood)\.png")
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name not in kept and ours.fullmatch(path.name):
            path.unlink()


def _write_text(path: Path, text: str) -> None:
    # A name may hold bytes of a file's name that are no text.
    write_atomically(path, text.encode("utf-8", "backslashreplace"))


def _markdown(text: object) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no cell that ends early."""
    escaped = _words.on_one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_{}\[\]#|~$])", r"\\\1", escaped)


def _quoted(text: object) -> str:
    """A text as YAML reads it back: JSON is YAML."""
    return json.dumps(_words.on_one_line(text), ensure_ascii=False)


def _slug(text: object) -> str:
    """An identifier made of a name."""
    return re.sub(r"[^a-z0-9]+", "-", str(text).lower()).strip("-") or "data"
