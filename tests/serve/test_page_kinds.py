"""The page for models of photos, of texts and of tables: each gets the input that suits it."""

import io
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.data.preprocess.words import WORDS
from tests.inference.pretrained import TinySpec
from tests.inference.small_texts import BagOfWordsSpec
from tests.serve.helpers import PICTURE, encoded, pictures, untrained
from tests.serve.test_page import contrast, luminance, style

from nescio.data import Dataset, Table, TextPreprocess, open_source
from nescio.inference.model import TrainedModel, untrained_model
from nescio.methods import EDL
from nescio.serve.app import create_app
from nescio.serve.limits import Limits
from nescio.training import TrainingSettings

NARROW = {"width": 390, "height": 800}
UNKNOWN = "I do not know"
OVERFLOWING = (
    "all => all.filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML)"
)
OVERLAPPING = """parts => parts.filter((one, i) =>
    i > 0 && one.getBoundingClientRect().top < parts[i - 1].getBoundingClientRect().bottom - 1)
    .map(one => one.outerHTML)"""
FOCUSED = "(document.activeElement.closest('.button') ?? document.activeElement)"
NAMELESS = """all => all.filter(one => !one.getAttribute('aria-label') && !one.textContent.trim()
    && ![...(one.labels ?? [])].some(label => label.textContent.trim())).map(one => one.outerHTML)"""


def card(page, model, part):
    return page.locator(f".card[data-model='{model}'] {part}")


def photo(colour):
    """A PNG of one colour, wider than high."""
    file = io.BytesIO()
    pixels = np.tile(np.array(colour, np.uint8), (40, 60, 1))
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def upload(page, content, name="fruit.png"):
    file = {"name": name, "mimeType": "image/png", "buffer": content}
    page.get_by_label("Choose a picture").set_input_files(file)


@pytest.fixture(scope="module")
def fruit(tmp_path_factory):
    """Red and green squares, by a head on the tests' own pretrained encoder."""
    pixels = torch.zeros(40, 3, 40, 40, dtype=torch.uint8)
    labels = torch.arange(40) % 2
    noise = torch.randint(
        150, 256, (40, 40, 40), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )
    for number, label in enumerate(labels.tolist()):
        pixels[number, label] = noise[number]
    data = Dataset(pixels, labels, ("apple", "pear"), "fruit", resize="crop")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_CACHE", str(tmp_path_factory.mktemp("cache")))
        settings = TrainingSettings(epochs=20, batch_size=20, learning_rate=0.01)
        return TrainedModel.train(data, network=TinySpec(40, 2), settings=settings)


@pytest.fixture(scope="module")
def intents():
    """A text model of 30 classes that was never trained."""
    preprocess = TextPreprocess(WORDS, max_length=4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        spec = BagOfWordsSpec(4, 30)
        module = EDL().build(spec).eval()
    classes = tuple(f"intent number {number}" for number in range(30))
    return TrainedModel(module, EDL(), classes, preprocess, spec)


@pytest.fixture(scope="module")
def animals(tmp_path_factory):
    """From a CSV with numbers, categories, dates and gaps."""
    path = tmp_path_factory.mktemp("tables") / "animals.csv"
    lines = ["weight,habitat,seen,label"]
    generator = np.random.default_rng(0)
    for number in range(120):
        is_fox = number % 2 == 0
        weight = f"{generator.normal(6.0 if is_fox else 11.0, 0.5):.2f}"
        if number % 10 == 3:
            weight = ""
        habitat = ("town", "field")[generator.integers(2)] if is_fox else "forest"
        lines.append(
            f"{weight},{habitat},{1 + number % 28}/{1 + number % 12}/2024,{'fox' if is_fox else 'badger'}"
        )
    path.write_text("\n".join(lines))
    settings = TrainingSettings(epochs=25, batch_size=30, learning_rate=0.02)
    return TrainedModel.train(open_source(path), settings=settings)


def test_a_photo_model_has_an_upload_with_a_preview(visit, serve, fruit, expect):
    page = visit(serve({"fruit": fruit}))
    expect(page.locator("#remark")).to_be_hidden()
    expect(page.get_by_role("navigation")).to_be_hidden()
    expect(card(page, "fruit", "h2")).to_have_text("fruit")
    expect(card(page, "fruit", ".about")).to_contain_text("(tiny-pretrained, trained on fruit)")
    expect(card(page, "fruit", ".sentence")).to_have_text("Nothing to look at yet")
    for gone in (
        "#pad",
        "#samples",
        "#angle",
        "#turned",
        "#about-digits",
        "#photo-pictures",
        "#triangle",
    ):
        expect(page.locator(gone)).to_be_hidden()
    expect(page.locator("#classes")).to_contain_text("It knows 2 classes")
    expect(page.locator("#classes p")).to_have_text("apple, pear")
    for name, colour in (("apple", (200, 0, 0)), ("pear", (0, 200, 0))):
        upload(page, photo(colour), f"{name}.png")
        expect(card(page, "fruit", ".sentence")).to_have_text(f"It is “{name}”")
        expect(page.locator("#photo-name")).to_have_text(f"{name}.png")
    assert page.locator("#photo-preview").evaluate("one => [one.width, one.height]") == [60, 40]
    assert page.locator("#photo-seen").evaluate("one => [one.width, one.height]") == [40, 40]
    shown = page.locator("#photo-seen").evaluate(
        "one => [...one.getContext('2d').getImageData(0, 0, 1, 1).data]"
    )
    assert shown == [0, 200, 0, 255]  # cropped: no bars
    page.get_by_label("Threshold").fill("0")
    expect(card(page, "fruit", ".sentence")).to_have_text(UNKNOWN)


def test_a_file_that_is_no_picture_is_refused_on_the_card(visit, serve, fruit, expect):
    page = visit(serve({"fruit": fruit}))
    upload(page, b"not a picture", "note.png")
    expect(card(page, "fruit", ".sentence")).to_have_text("No answer")
    expect(card(page, "fruit", ".detail")).to_have_text("note.png is not a PNG, JPEG, BMP or WebP picture")
    expect(page.locator("#photo-pictures")).to_be_hidden()
    upload(page, photo((200, 0, 0)))
    expect(card(page, "fruit", ".sentence")).to_have_text("It is “apple”")
    assert ["422" in text for text in visit.complaints] == [True]
    visit.complaints.clear()


def test_pictures_that_are_replaced_are_let_go(visit, serve, fruit, expect):
    page = visit(serve({"fruit": fruit}))
    page.evaluate("""() => {
        window.closedPictures = 0;
        const close = ImageBitmap.prototype.close;
        ImageBitmap.prototype.close = function () { window.closedPictures += 1; close.call(this); };
        const decode = window.createImageBitmap;
        window.createImageBitmap = async (file) => {
            const image = await decode(file);
            if (file.name === "slow.png") await new Promise((resolve) => setTimeout(resolve, 300));
            return image;
        };
    }""")
    upload(page, photo((200, 0, 0)), "first.png")
    expect(card(page, "fruit", ".sentence")).to_have_text("It is “apple”")
    upload(page, photo((200, 0, 0)), "slow.png")
    upload(page, photo((0, 200, 0)), "last.png")
    expect(card(page, "fruit", ".sentence")).to_have_text("It is “pear”")
    page.wait_for_timeout(400)
    assert page.evaluate("window.closedPictures") == 2
    expect(page.locator("#photo-name")).to_have_text("last.png")


def test_a_file_that_is_too_large_is_refused_before_it_is_sent(visit, serve, fruit, expect):
    page = visit(serve({"fruit": fruit}, Limits(max_body=2**20)))
    sent = []
    page.on("request", lambda request: sent.append(request.method))
    upload(page, photo((0, 200, 0)) + bytes(3 * 2**19), "large.png")
    expect(card(page, "fruit", ".sentence")).to_have_text("No answer")
    expect(card(page, "fruit", ".detail")).to_have_text(
        "It is too large: 1.5 MiB, and the server takes at most 1 MiB."
    )
    assert "POST" not in sent
    expect(page.locator("#photo-pictures")).to_be_hidden()  # nor is it decoded
    expect(page.locator("#trouble")).to_be_hidden()
    upload(page, photo((200, 0, 0)) + bytes(2**19))  # what comes behind a picture is passed over
    expect(card(page, "fruit", ".sentence")).to_have_text("It is “apple”")


def test_a_text_model_has_a_box_and_says_when_a_text_is_too_long(visit, serve, intents, expect):
    page = visit(serve({"intents": intents}))
    expect(card(page, "intents", ".sentence")).to_have_text("Nothing to read yet")
    for gone in ("#pad", "#samples", "#angle", "#photo", "#table"):
        expect(page.locator(gone)).to_be_hidden()
    expect(page.locator("#words-help")).to_contain_text("the first 4 tokens")
    box = page.get_by_label("A text")
    box.fill("hello you")
    expect(card(page, "intents", ".detail")).to_contain_text("Uncertainty")
    # Thirty classes: the five strongest, the others, and uncertainty.
    names = card(page, "intents", ".bars .name")
    expect(names).to_have_count(7)
    expect(names.nth(5)).to_have_text("25 others")
    numbers = card(page, "intents", ".bars .number")
    masses = numbers.evaluate_all("all => all.map(one => Number(one.title))")
    assert sum(masses) == pytest.approx(1, abs=0.01)
    assert masses[:5] == sorted(masses[:5], reverse=True)
    expect(page.locator("#words-note")).to_be_empty()
    box.fill("hello you there hello you")
    note = "This text is longer than 4 tokens: the model reads the first 4."
    expect(page.locator("#words-note")).to_have_text(note)
    page.get_by_role("button", name="Clear").click()
    expect(card(page, "intents", ".sentence")).to_have_text("Nothing to read yet")
    expect(page.locator("#words-note")).to_be_empty()
    expect(box).to_be_focused()
    summary = page.locator("#classes summary")
    expect(page.locator("#classes p")).to_be_hidden()
    summary.click()
    expect(page.locator("#classes p")).to_contain_text("intent number 29")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_is_written_into_has_an_edge_that_is_seen(visit, serve, intents, animals, expect, scheme):
    for name, model, field in (("intents", intents, "#words"), ("animals", animals, ".field input")):
        page = visit(serve({name: model}), color_scheme=scheme)
        expect(page.locator(field).first).to_be_visible()
        edge = luminance(style(page, field, "borderTopColor"))
        for around in (field, ".panel"):
            assert contrast(edge, luminance(style(page, around, "backgroundColor"))) >= 3, (field, around)


def test_a_table_model_has_a_form_of_its_columns(visit, serve, animals, expect):
    page = visit(serve({"animals": animals}))
    weight = page.get_by_label("weight", exact=True)
    habitat = page.get_by_label("habitat", exact=True)
    seen = page.get_by_label("seen", exact=True)
    expect(page.locator(".field")).to_have_count(3)
    assert float(weight.input_value()) == pytest.approx(8.5, abs=0.5)
    expect(page.locator("#hint-0")).to_have_text(re.compile(r"^mostly [\d.]+ to [\d.]+; may stay empty$"))
    expect(habitat.locator("option")).to_have_text(["field", "forest", "town", "another one"])
    expect(seen).to_have_attribute("type", "date")
    expect(card(page, "animals", ".detail")).to_contain_text("Uncertainty")

    weight.fill("6")
    habitat.select_option("town")
    seen.fill("2024-05-13")
    with page.expect_request(lambda request: "6.1" in (request.post_data or "")) as sent:
        weight.fill("6.1")
    row = {"weight": "6.1", "habitat": "town", "seen": "13/05/2024"}
    assert sent.value.post_data_json["inputs"] == [row]
    expect(card(page, "animals", ".sentence")).to_have_text("It is “fox”")
    weight.fill("11")
    habitat.select_option("forest")
    expect(card(page, "animals", ".sentence")).to_have_text("It is “badger”")
    weight.fill("")  # training saw gaps here
    expect(card(page, "animals", ".detail")).to_contain_text("Uncertainty")
    weight.fill("900")
    expect(page.locator("#hint-0")).to_contain_text("far from what it learned")
    seen.fill("")
    expect(card(page, "animals", ".sentence")).to_have_text("No answer")
    expect(card(page, "animals", ".detail")).to_have_text("“seen” must be filled in.")
    expect(seen).to_have_attribute("aria-invalid", "true")
    page.get_by_role("button", name="Usual values").click()
    expect(card(page, "animals", ".detail")).to_contain_text("Uncertainty")
    expect(seen).to_have_attribute("aria-invalid", "false")


def test_a_model_with_trust_says_how_usual_an_input_is(visit, serve, animals, expect):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 3
    rows = torch.randn(900, 4, generator=generator)
    rows[torch.arange(900), labels] += 4
    data = Table(rows, labels, ("a", "b", "c"), "blobs")
    settings = TrainingSettings(epochs=4, learning_rate=0.01, device="cpu")
    trusted = TrainedModel.train(data, settings=settings, posthoc="all")
    page = visit(serve({"trusted": trusted, "animals": animals}))
    page.get_by_role("button", name="trusted").click()
    fields = page.locator(".field input")
    for place, value in enumerate(("4", "0", "0", "0")):
        fields.nth(place).fill(value)
    usual = card(page, "trusted", ".usual")
    expect(card(page, "trusted", ".sentence")).to_have_text("It is an a")
    expect(usual).to_have_text(re.compile(r"^Of known inputs, \d+% lie as far from the training data\.$"))
    assert card(page, "trusted", "> *:not([hidden])").evaluate_all(OVERLAPPING) == []
    fields.nth(3).fill("90")
    expect(card(page, "trusted", ".sentence")).to_have_text(UNKNOWN)
    expect(usual).to_have_text("Of known inputs, 1% lie as far from the training data.")
    expect(usual).to_have_attribute("title", re.compile(r"^p-value 0\.011: "))  # 1 of 91
    fields.nth(3).fill("")
    expect(usual).to_be_hidden()
    page.get_by_role("button", name="animals").click()
    expect(card(page, "animals", ".detail")).to_contain_text("Uncertainty")
    expect(card(page, "animals", ".usual")).to_be_hidden()


def test_the_keyboard_reaches_every_input(visit, serve, fruit, intents, animals, expect):
    expected = {
        "fruit": ["photo-file", "threshold"],
        "intents": ["words", "words-clear", "threshold"],
        "animals": ["field-0", "field-1", "field-2", "usual", "threshold"],
    }
    page = visit(serve({"fruit": fruit, "intents": intents, "animals": animals}))
    for name, ids in expected.items():
        button = page.get_by_role("button", name=name)
        button.focus()
        page.keyboard.press("Enter")
        expect(card(page, name, "h2")).to_be_visible()
        expect(button).to_be_focused()
        page.locator("#groups button").last.focus()
        reached = []
        for _ in range(20):
            if "threshold" in reached:
                break
            page.keyboard.press("Tab")
            found = page.evaluate("document.activeElement.id")
            if found in reached:  # a field of a date has several stops
                continue
            reached.append(found)
            assert page.evaluate(f"getComputedStyle({FOCUSED}).outlineStyle") != "none", found
        assert reached == ids


def test_numbers_without_names_have_fields_too(visit, serve, expect):
    model = untrained_model(torch.randn(50, 120, generator=torch.Generator().manual_seed(0)), ("a", "b", "c"))
    page = visit(serve({"rows": model}))
    expect(page.locator(".field")).to_have_count(100)
    expect(page.locator("#table-help")).to_contain_text("20 further columns keep their usual values.")
    page.get_by_label("Column 7", exact=True).fill("2.5")
    expect(card(page, "rows", ".detail")).to_contain_text("Uncertainty")
    expect(page.locator("#triangle")).to_be_visible()


def test_all_kinds_at_once_are_chosen_by_name(visit, serve, fruit, intents, animals, expect):
    models = {"fruit": fruit, "intents": intents, "old": animals, "new": animals}
    page = visit(serve(models))
    buttons = page.get_by_role("navigation", name="Models").get_by_role("button")
    expect(buttons).to_have_text(["fruit", "intents", "old, new"])
    buttons.nth(2).click()
    expect(page.locator(".card h2")).to_contain_text(["old", "new"])
    expect(card(page, "old", ".detail")).to_contain_text("Uncertainty")
    expect(card(page, "new", ".detail")).to_contain_text("Uncertainty")
    buttons.nth(1).focus()
    page.keyboard.press("Enter")
    expect(page.get_by_label("A text")).to_be_visible()
    expect(card(page, "intents", ".sentence")).to_have_text("Nothing to read yet")
    expect(page.locator(".cards .card")).to_have_count(1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_on_a_narrow_screen_nothing_overflows_and_all_has_a_name(
    visit, serve, fruit, intents, animals, expect, scheme
):
    at = serve({"fruit": fruit, "intents": intents, "animals": animals})
    page = visit(at, viewport=NARROW, color_scheme=scheme)
    upload(page, photo((200, 0, 0)), f"{'long' * 30}.png")
    expect(page.locator("#photo .short")).to_have_text("fruit: It is “apple”")
    for name in ("fruit", "intents", "animals"):
        page.get_by_role("button", name=name).click()
        expect(card(page, name, "h2")).to_have_text(name)
        if name == "intents":
            page.get_by_label("A text").fill("hello " * 40)
            expect(page.locator("#words-note")).not_to_be_empty()
        assert page.locator("body *:visible").evaluate_all(OVERFLOWING) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
        controls = page.locator(
            "button:visible, input:visible, select:visible, textarea:visible, [role=img]:visible"
        )
        assert controls.evaluate_all(NAMELESS) == []


def requests_of_the_documents():
    """The requests that docs/service.md shows for curl; those with dots are not whole."""
    text = (Path(__file__).parents[2] / "docs" / "service.md").read_text(encoding="utf-8")
    lines = text.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("curl ") and "..." not in line]


def as_request(line, files):
    """What curl would send: the path, and what httpx takes for the rest."""
    words = shlex.split(line)[1:]
    path = words.pop().partition(":8000")[2]
    form, headers, content = [], {}, None
    for option, value in zip(words[::2], words[1::2], strict=True):
        name, _, rest = value.partition("=")
        if option == "-F" and rest.startswith("@"):
            form.append((name, (rest[1:], files[rest[1:]])))
        elif option == "-F":
            form.append((name, (None, rest)))
        elif option == "-H":
            name, _, rest = value.partition(": ")
            headers[name] = rest
        else:
            assert option in ("-d", "--data-binary")
            content = files[value[1:]] if value.startswith("@") else value
    return path, {"headers": headers, "content": content, "files": form or None}


@pytest.mark.parametrize("line", requests_of_the_documents())
def test_the_requests_of_the_documents_are_answered(ask, intents, animals, line):
    two = pictures(2)
    array = io.BytesIO()
    np.save(array, two.numpy())
    files = {
        "one.png": encoded(two[0]),
        "two.jpg": encoded(two[1], "JPEG"),
        "pixels.raw": two.numpy().tobytes(),
        "images.npy": array.getvalue(),
    }
    models = {"edl": untrained(PICTURE, EDL()), "intents": intents}
    if "habitat" in line:
        models = {"animals": animals}  # all models are asked
        line = line.replace("2024-05-13", "13/5/2024")  # as dates are written in this table
    path, content = as_request(line, files)
    answer = ask("POST", path, app=create_app(models), **content)
    assert answer.status_code == 200, answer.text
    asked = answer.json()["results"][0]["opinions"]
    assert all(opinion.get("error") is None for opinion in asked)
