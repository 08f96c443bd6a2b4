import errno
import html
import sys
from dataclasses import replace

import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from markdown_it import MarkdownIt
from tests.reports.cases import NASTY, corners, images, page_of, trained
from tests.studies.page import Page

from nescio.data import Table, Texts
from nescio.errors import DataError, InputError, MissingExtraError
from nescio.metrics import accuracy, expected_calibration_error
from nescio.opinions import Opinion
from nescio.reports import CardContext, write_card
from nescio.reports import _card as card

SECTIONS = (
    "what",
    "confusion-part",
    "calibration-part",
    "risk-part",
    "mistakes",
    "doubtful",
    "classes",
    "use",
)


@pytest.fixture(scope="module")
def table():
    return corners(noise=0.5)


@pytest.fixture(scope="module")
def model(table):
    return trained(table)


@pytest.fixture(scope="module")
def held_out():
    return corners(90, noise=0.5, seed=1)


@pytest.fixture(scope="module")
def folder(model, held_out, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "new"
    context = CardContext("corners of a cube", split="new ones", ood_name="emptiness", license="mit")
    path = write_card(model, held_out, folder, ood=Opinion(torch.zeros(20, 3)), context=context)
    assert path == folder / "report.html"
    return folder


def front_matter(folder):
    return yaml.safe_load((folder / "card.md").read_text(encoding="utf-8").split("---\n")[1])


def markdown(folder):
    """The card as a model hub shows it."""
    text = (folder / "card.md").read_text(encoding="utf-8").split("\n---\n", 1)[1]
    return MarkdownIt("commonmark", {"html": True}).enable("table").render(text)


def test_the_page_is_whole(folder):
    text, page = page_of(folder / "report.html")
    for section in (*SECTIONS, "ood-part"):
        assert section in page.values("id")
    assert page.tags.count("svg") == 4
    assert text.lstrip().startswith("<!doctype html>")
    assert "prefers-color-scheme: dark" in text
    assert 'content="width=device-width' in text


def test_the_page_says_what_was_measured(folder, model, held_out):
    text, _ = page_of(folder / "report.html")
    prediction = model.predict(held_out.features, independent=True)
    share = accuracy(prediction, held_out.labels)
    assert 0.5 < share < 1
    assert f"<b>{100 * share:.1f}%</b><span>right answers; 95% interval" in text
    assert "corners of a cube" in text
    assert "90 rows from corners; new ones" in text
    assert "20 inputs of emptiness are of none of these classes" in text


def test_the_hub_understands_the_card(folder, model, held_out):
    found = ModelCard.load(folder / "card.md").data
    assert found.library_name == "nescio"
    assert found.license == "mit"
    assert found.pipeline_tag == "tabular-classification"
    assert {"nescio", "edl", "evidential-deep-learning"} <= set(found.tags)
    prediction = model.predict(held_out.features, independent=True)
    measured = {result.metric_type: result for result in found.eval_results}
    first = measured["accuracy"]
    assert first.metric_value == pytest.approx(accuracy(prediction, held_out.labels), abs=1e-6)
    assert (first.task_type, first.dataset_name, first.dataset_type) == (
        "tabular-classification",
        "corners",
        "corners",
    )
    error = expected_calibration_error(prediction, held_out.labels)
    assert measured["expected_calibration_error"].metric_value == pytest.approx(error, abs=1e-6)
    assert measured["roc_auc"].metric_value == 1
    assert front_matter(folder)["model-index"][0]["name"] == "corners of a cube"


def test_the_pictures_of_the_card_are_there(folder):
    page = Page(markdown(folder))
    assert page.open == []
    named = page.values("src")
    assert named == [f"card/{name}.png" for name in ("confusion", "calibration", "risk_coverage", "ood")]
    assert {f"card/{path.name}" for path in (folder / "card").iterdir()} == set(named)


def test_tables_of_the_card_are_tables(folder):
    page = Page(markdown(folder))
    assert page.tags.count("table") == 6
    assert "|" not in markdown(folder)


def test_images_are_shown_in_both(tmp_path):
    data = images(30)
    model = trained(data, epochs=2)
    labels = data.labels.clone()
    labels[:14] = (labels[:14] + 1) % 3
    write_card(model, replace(data, labels=labels), tmp_path)
    _, page = page_of(tmp_path / "report.html")
    mistakes = len(list((tmp_path / "card").glob("mistake-*.png")))
    assert mistakes == 12
    assert page.tags.count("img") == 24
    shown = [name for name in Page(markdown(tmp_path)).values("src") if "-" in name]
    assert len(shown) == 24
    assert all((tmp_path / name).is_file() for name in shown)
    assert front_matter(tmp_path)["pipeline_tag"] == "image-classification"


def test_pictures_of_an_earlier_card_go_and_others_stay(tmp_path):
    data = images(30)
    model = trained(data, epochs=15)
    (tmp_path / "card").mkdir()
    for name in ("mistake-12.png", "ood.png", "holiday.png"):
        (tmp_path / "card" / name).touch()
    write_card(model, data, tmp_path)
    left = {path.name for path in (tmp_path / "card").iterdir()}
    assert "holiday.png" in left
    assert not {"mistake-12.png", "ood.png"} & left


def test_texts_are_shown_as_text(model, held_out, tmp_path):
    texts = Texts(
        tuple(f"<b>text</b> {place} | *x*" for place in range(90)), held_out.labels, held_out.classes, "talk"
    )
    prediction = model.predict(held_out.features)
    write_card(model, texts, tmp_path, prediction=prediction)
    text, _ = page_of(tmp_path / "report.html")
    assert '<p class="quote">&lt;b&gt;text&lt;/b&gt; ' in text
    assert "&lt;b&gt;text&lt;/b&gt; " in markdown(tmp_path)
    assert "<em>" not in markdown(tmp_path)
    assert front_matter(tmp_path)["pipeline_tag"] == "text-classification"


def test_names_are_never_markup(tmp_path):
    data = corners(80, NASTY, noise=0.6)
    data = Table(data.features, data.labels, NASTY, "<img src=x> & 'data'\n---", None)
    model = trained(data, epochs=3)
    write_card(model, data, tmp_path, context=CardContext(name="</title><b>it"))
    text, page = page_of(tmp_path / "report.html")
    assert "alert(1)" in text
    assert page.tags.count("img") == 0
    assert page.tags.count("h1") == 1
    shown = markdown(tmp_path)
    assert "<script" not in shown
    assert "<img src=x" not in shown
    assert "a | b * c_d $x_{" in shown
    found = front_matter(tmp_path)["model-index"][0]
    assert found["name"] == "</title><b>it"
    assert found["results"][0]["dataset"]["name"] == "<img src=x> & 'data' ---"


def test_no_mistake_and_a_class_that_is_absent(tmp_path):
    data = corners(120, noise=0.01)
    model = trained(data)
    write_card(model, data.take(data.labels < 2), tmp_path)
    text, page = page_of(tmp_path / "report.html")
    assert "There is no wrong answer among the 80 rows." in text
    assert "No class was taken for another." in text
    assert "1 of the 3 classes had no rows here, and nothing is known of them: blue" in text
    assert page.tags.count("svg") == 2
    assert "nan" not in text.lower().replace("nanum", "")
    assert "| blue | 0 | - | - | - |" in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_softmax_has_no_evidence(table, held_out, tmp_path):
    model = trained(table, "softmax")
    write_card(model, held_out, tmp_path, ood=model.predict(torch.zeros(5, 3)))
    text, _ = page_of(tmp_path / "report.html")
    assert "This model has no evidence, only probabilities." in text
    assert "evidential-deep-learning" not in front_matter(tmp_path)["tags"]


def test_five_hundred_classes(tmp_path):
    classes = tuple(f"class {place}" for place in range(500))
    labels = torch.arange(500).repeat(2)
    data = Table(torch.randn(1000, 4), labels, classes, "many")
    write_card(trained(data, epochs=1), data.take(labels < 499), tmp_path)
    text, _ = page_of(tmp_path / "report.html")
    assert not (tmp_path / "card" / "confusion.png").exists()
    assert "With 500 classes a matrix can't be read." in text
    assert text.count('<tr><th scope="row">class ') >= 515
    shown = (tmp_path / "card.md").read_text(encoding="utf-8")
    assert "report.html lists all 500" in shown
    assert len(shown.splitlines()) < 250


def test_guessing_is_said(table, held_out, tmp_path):
    model = trained(table, epochs=1)
    blind = Opinion(torch.tensor([[1.0, 0.0, 0.0]]).repeat(90, 1))
    write_card(model, held_out, tmp_path, prediction=blind)
    text, _ = page_of(tmp_path / "report.html")
    assert "No better than guessing." in text
    assert "**No better than guessing.**" in (tmp_path / "card.md").read_text(encoding="utf-8")


def test_a_name_that_is_no_text(model, held_out, tmp_path):
    """As a file's name may be: bytes that are no UTF-8."""
    write_card(model, replace(held_out, name="bad\udcff"), tmp_path)
    assert "bad\\udcff" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_missing_extra_is_said_before_anything_is_predicted(model, held_out, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(type(model), "predict", None)
    with pytest.raises(MissingExtraError, match=r"nescio\[demo\]"):
        write_card(model, held_out, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_can_not_be_written_to(model, held_out, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file can't be written to"):
        write_card(model, held_out, tmp_path / "file")


def test_a_disk_that_is_full(model, held_out, tmp_path, monkeypatch):
    def fail(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(card, "write_atomically", fail)
    with pytest.raises(DataError, match="can't be written to: No space left on device"):
        write_card(model, held_out, tmp_path)


def test_data_of_other_classes(model, tmp_path):
    with pytest.raises(DataError, match="classes that the model never saw: a"):
        write_card(model, corners(9, ("a", "b", "c")), tmp_path)


@pytest.mark.parametrize("license", ["", "my own", "mit\ntags: []"])
def test_a_license_that_is_none(license):
    with pytest.raises(InputError, match="license must be an identifier like mit"):
        CardContext(license=license)


@pytest.mark.parametrize(
    "text", ["a*b_c", "[x](y)", "<b>", "1 | 2", "`code`", "# no title", "a\\b", "&lt;", "~~no~~"]
)
def test_markdown_shows_what_it_is_given(text):
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(card._markdown(text))
    assert html.unescape(rendered) == f"<p>{text}</p>\n"


LOOKS = [("light", 1200), ("dark", 1200), ("light", 390), ("dark", 390)]


@pytest.fixture(scope="module")
def nasty_folder(tmp_path_factory):
    """Names that are hard to lay out, and a matrix wider than a telephone."""
    folder = tmp_path_factory.mktemp("nasty")
    classes = (*NASTY, *(f"another class {place}" for place in range(16)))
    data = corners(200, classes, noise=0.4)
    write_card(trained(data, epochs=1), data, folder, context=CardContext(name="x" * 300))
    return folder


@pytest.mark.parametrize("which", ["folder", "nasty_folder"])
@pytest.mark.parametrize(("scheme", "width"), LOOKS)
def test_it_fits_every_screen(browser, request, which, scheme, width):
    address = (request.getfixturevalue(which) / "report.html").as_uri()
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    asked = []
    problems = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda message: problems.append(message.text))
    page.goto(address)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert asked == [address]
    assert problems == []
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    dark = ["rgb(20, 24, 29)", "rgb(232, 236, 240)"]
    light = ["rgb(255, 255, 255)", "rgb(27, 31, 36)"]
    assert colours == {"light": light, "dark": dark}[scheme]
    ink = page.evaluate("getComputedStyle(document.querySelector('.chart svg text')).fill")
    assert ink == colours[1]
    page.close()
