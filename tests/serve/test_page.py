import base64
import io
import json
import re
from importlib import resources
from urllib.parse import urlsplit

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.data.preprocess import Preprocess
from nescio.encoders import LeNetSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax
from nescio.metrics.rotation import rotate
from nescio.opinions.opinion import Opinion
from nescio.serve._models import bundled_paths, load_models
from nescio.serve.limits import Limits

UNKNOWN = "I do not know"
LETTER = "C"  # one that looks like no digit
# Of the bundled pair.
SAYS = ".card[data-model=edl] .sentence"
DETAIL = ".card[data-model=edl] .detail"
BARS = ".card[data-model=edl] .bars"
CHART = "figure[data-model=edl] svg"
SHORT = ".short [data-model=edl]"
SOFTMAX_SAYS = ".card[data-model=softmax] .sentence"
SOFTMAX_DETAIL = ".card[data-model=softmax] .detail"
SOFTMAX_CHART = "figure[data-model=softmax] svg"


@pytest.fixture
def page(visit, expect):
    """The page with the first sample, a 1, looked at."""
    page = visit()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    return page


@pytest.fixture(scope="module")
def samples():
    """name -> picture (28, 28)."""
    text = (resources.files("nescio.serve") / "page" / "samples.json").read_text()
    pictures = [one for group in json.loads(text)["groups"].values() for one in group]
    return {
        one["name"]: np.frombuffer(base64.b64decode(one["pixels"]), np.uint8).reshape(28, 28)
        for one in pictures
    }


def uncertainty(page):
    return float(page.locator(f"{BARS} .doubt .number").get_attribute("title"))


def sample(page, name):
    return page.get_by_role("button", name=re.compile(f"^Sample (digit|letter) {name}"))


def slide(page, label, value):
    page.get_by_label(label, exact=True).fill(str(value))


def draw_one(page):
    """One stroke from top to bottom, a little slanted."""
    box = page.locator("#pad").bounding_box()
    x, y, side = box["x"], box["y"], box["width"]
    page.mouse.move(x + 0.55 * side, y + 0.15 * side)
    page.mouse.down()
    page.mouse.move(x + 0.45 * side, y + 0.85 * side, steps=12)
    page.mouse.up()


def png(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def upload(page, content, name="picture.png"):
    page.get_by_label("Upload a picture").set_input_files(
        {"name": name, "mimeType": "image/png", "buffer": content}
    )


def test_a_drawn_one_is_a_one_and_turned_it_is_doubted(page, expect):
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(SAYS)).to_have_text("Nothing to look at yet")
    draw_one(page)
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(page.locator(SOFTMAX_SAYS)).to_have_text("It is a 1")
    upright = uncertainty(page)
    assert upright < 0.2
    slide(page, "Turn it", 90)
    expect(page.locator("#degrees")).to_have_text("90°")
    expect(page.locator(CHART)).to_have_attribute("aria-label", re.compile("90°"))
    assert uncertainty(page) >= min(2 * upright, 0.5)


def test_a_letter_is_not_known(page, expect):
    sample(page, LETTER).click()
    expect(page.locator(SAYS)).to_have_text(UNKNOWN)
    expect(page.locator(SOFTMAX_SAYS)).to_have_text(re.compile("^It is an? [0-9]$"))
    expect(sample(page, LETTER)).to_have_attribute("aria-pressed", "true")
    assert uncertainty(page) >= 0.5
    masses = page.locator(f"{BARS} .number").evaluate_all("all => all.map(one => Number(one.title))")
    assert len(masses) == 11
    assert sum(masses) == pytest.approx(1, abs=0.01)


def test_an_uploaded_picture_is_looked_at(page, samples, expect):
    upload(page, png(np.kron(samples["7"], np.ones((5, 5), np.uint8))))
    expect(page.locator(SAYS)).to_have_text("It is a 7")
    upload(page, png(255 - samples["3"]))
    page.get_by_label("swap light and dark").check()
    expect(page.locator(SAYS)).to_have_text("It is a 3")


def test_a_file_that_is_no_picture_is_refused_and_nothing_is_lost(page, expect):
    upload(page, b"not a picture", "note.png")
    expect(page.get_by_role("alert")).to_contain_text("note.png is not a picture")
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    sample(page, "4").click()
    expect(page.locator(SAYS)).to_have_text("It is a 4")
    expect(page.get_by_role("alert")).to_be_hidden()


def test_the_threshold_decides(page, expect):
    opinion, summary = page.locator(SAYS), page.locator("#sample-summary")
    expect(page.locator("#threshold-value")).to_have_text("0.50 (its own)")
    sample(page, LETTER).click()
    expect(opinion).to_have_text(UNKNOWN)
    slide(page, "Threshold", 1)
    expect(opinion).to_have_text(re.compile("^It is"))
    expect(summary).to_have_text("Rejected at this threshold: 0 of 10 digits, 0 of 8 letters.")
    slide(page, "Threshold", 0)
    expect(opinion).to_have_text(UNKNOWN)
    expect(summary).to_have_text("Rejected at this threshold: 10 of 10 digits, 8 of 8 letters.")
    expect(sample(page, "0")).to_have_accessible_name("Sample digit 0: rejected, it does not know")
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("#threshold-value")).to_have_text("0.50 (its own)")
    expect(sample(page, "0")).to_have_accessible_name("Sample digit 0: the evidential model says 0")


def test_a_rule_that_is_no_threshold_has_no_line(page, expect):
    def by_entropy(route):
        models = [model | {"threshold": None} for model in route.fetch().json()["models"]]
        route.fulfill(json={"models": models})

    page.route("**/v1/models", by_entropy)
    page.reload()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(page.locator("#threshold-value")).to_have_text("its own rule")
    expect(page.locator("#sample-summary")).to_contain_text("Rejected by its own rule: ")
    expect(page.locator(SOFTMAX_DETAIL)).not_to_contain_text("threshold")
    lines = page.locator(f"{CHART} line.threshold, {BARS} .mark")
    expect(lines).to_have_count(0)
    slide(page, "Threshold", 0)
    expect(page.locator(SAYS)).to_have_text(UNKNOWN)
    expect(lines).to_have_count(2)
    page.get_by_role("button", name="Reset").click()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(lines).to_have_count(0)


def test_a_second_finger_draws_nothing(page, expect):
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(SAYS)).to_have_text("Nothing to look at yet")
    ink = """pad => {
        const box = pad.getBoundingClientRect();
        const at = (x, y, isPrimary) => ({ clientX: box.x + x, clientY: box.y + y, isPrimary, button: 0 });
        pad.setPointerCapture = () => {};
        const send = (kind, where) => pad.dispatchEvent(new PointerEvent(kind, where));
        send("pointerdown", at(20, 20, true));
        send("pointerdown", at(150, 150, false));
        send("pointermove", at(160, 160, false));
        send("pointerup", at(160, 160, false));
        send("pointermove", at(20, 60, true));
        send("pointerup", at(20, 60, true));
        const scale = pad.width / box.width;
        const lit = (x, y) => pad.getContext("2d").getImageData(x * scale, y * scale, 1, 1).data[0];
        return [lit(20, 40), lit(90, 90), lit(155, 155)];
    }"""
    assert page.locator("#pad").evaluate(ink) == [255, 0, 0]


def angles_of(page, chart):
    """How many points each line of a chart has."""
    lines = page.locator(f"{chart} polyline").evaluate_all(
        "all => all.map(one => one.getAttribute('points'))"
    )
    return [len(line.split()) for line in lines]


def test_turning_by_itself_fills_both_charts(page, expect):
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.get_by_role("button", name="Stop turning")).to_be_visible()
    expect(page.get_by_role("button", name="Turn by itself")).to_be_visible(timeout=60_000)
    expect(page.locator("#degrees")).to_have_text("180°")
    assert len(angles_of(page, CHART)) >= 2
    assert set(angles_of(page, CHART) + angles_of(page, SOFTMAX_CHART)) == {37}
    expect(page.locator(CHART).locator("..").locator(".strip canvas")).to_have_count(10)
    sample(page, "4").click()
    expect(page.locator("#degrees")).to_have_text("0°")
    expect(page.locator(SAYS)).to_have_text("It is a 4")


def test_turning_ends_when_it_is_stopped_or_another_picture_comes(page, expect):
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.locator("#degrees")).not_to_have_text("0°")
    page.get_by_role("button", name="Stop turning").click()
    expect(page.get_by_role("button", name="Turn by itself")).to_be_visible()
    stopped = page.locator("#degrees").text_content()
    page.wait_for_timeout(500)  # several steps
    expect(page.locator("#degrees")).to_have_text(stopped)
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.locator("#degrees")).not_to_have_text(re.compile(f"^(0°|{stopped})$"))
    sample(page, "8").click()
    expect(page.locator(SAYS)).to_have_text("It is an 8")
    page.wait_for_timeout(500)
    expect(page.get_by_role("button", name="Turn by itself")).to_be_visible()
    expect(page.locator("#degrees")).to_have_text("0°")


def test_where_motion_is_not_wanted_the_charts_are_filled_at_once(visit, expect):
    page = visit(reduced_motion="reduce")
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.locator(f"{SOFTMAX_CHART} polyline").first).to_be_visible()
    assert set(angles_of(page, CHART)) == {37}
    expect(page.locator("#degrees")).to_have_text("0°")


@pytest.mark.parametrize(("width", "scheme"), [(375, "light"), (320, "dark")])
def test_nothing_overflows_a_narrow_screen(visit, expect, width, scheme):
    page = visit(viewport={"width": width, "height": 700}, color_scheme=scheme, has_touch=True)
    sample(page, LETTER).click()
    expect(page.locator(SHORT)).to_have_text(UNKNOWN)
    wide = (
        "all => all.filter(one => one.getBoundingClientRect().right > innerWidth).map(one => one.outerHTML)"
    )
    assert page.locator("body *:visible").evaluate_all(wide) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read(visit, expect, scheme):
    page = visit(color_scheme=scheme)
    sample(page, LETTER).click()
    expect(page.locator(SAYS)).to_have_text(UNKNOWN)
    card = luminance(style(page, ".card", "backgroundColor"))
    for text in (SAYS, SOFTMAX_SAYS, ".card .small", ".card .number", "#about + p a"):
        assert contrast(luminance(style(page, text, "color")), card) >= 4.5, text
    expect(page.locator(".sample.rejected").first).to_be_visible()
    button = luminance(style(page, ".sample.rejected", "backgroundColor"))
    for text in (".sample.rejected span", ".sample:not(.rejected) span"):
        assert contrast(luminance(style(page, text, "color")), button) >= 4.5, text


def contrast(one, other):
    """Of two luminances, as WCAG 2 defines it."""
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)


def style(page, selector, name):
    return page.locator(selector).first.evaluate(f"one => getComputedStyle(one).{name}")


def luminance(colour):
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def test_the_keyboard_reaches_everything(page, expect):
    reached = []
    page.locator("body").press("Tab")
    for _ in range(30):
        focused = page.locator(":focus")
        reached.append(focused.evaluate("one => one.id || one.getAttribute('aria-label') || one.textContent"))
        ring = focused.evaluate("one => getComputedStyle(one.closest('.button') ?? one).outlineStyle")
        assert ring != "none", reached[-1]
        if reached[-1].startswith(f"Sample letter {LETTER}"):
            break
        page.keyboard.press("Tab")
    assert reached[:5] == ["clear", "upload", "angle", "turn", "threshold"]
    page.keyboard.press("Enter")
    expect(page.locator(SAYS)).to_have_text(UNKNOWN)
    page.locator("#angle").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#degrees")).to_have_text("5°")


def test_every_control_has_a_name_and_the_sentence_is_spoken(page):
    nameless = """all => all.filter(one => !one.getAttribute('aria-label') && !one.textContent.trim()
        && ![...(one.labels ?? [])].some(label => label.textContent.trim())).map(one => one.outerHTML)"""
    assert page.locator("button, input, select, a, [role=img]").evaluate_all(nameless) == []
    assert page.locator(SAYS).get_attribute("aria-live") == "polite"


def test_a_finger_draws(visit, expect):
    page = visit(viewport={"width": 375, "height": 800}, has_touch=True, is_mobile=True)
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    pad = page.locator("#pad")
    pad.scroll_into_view_if_needed()
    box = pad.bounding_box()
    session = page.context.new_cdp_session(page)
    for step in range(11):
        place = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] * (0.15 + 0.07 * step)}
        kind = "touchMove" if step else "touchStart"
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [place]})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(pad).to_have_class("inked")
    expect(page.locator(SHORT)).to_have_text("It is a 1")
    assert page.evaluate("scrollY") == 0


def test_the_picture_that_is_shown_is_the_one_that_is_sent(page, expect):
    sample(page, "5").click()
    expect(page.locator(SAYS)).to_have_text("It is a 5")
    with page.expect_request("**/v1/opinions") as sent:
        slide(page, "Turn it", 35)
    shown = page.locator("#seen").evaluate(
        "one => [...one.getContext('2d').getImageData(0, 0, 28, 28).data].filter((_, i) => i % 4 === 0)"
    )
    assert np.ravel(sent.value.post_data_json["inputs"]).tolist() == shown


def test_the_latest_picture_wins(page, expect):
    held, asked = [], []
    page.route("**/v1/opinions", lambda route: held.append(route), times=1)
    page.on("request", lambda request: asked.append(request))
    with page.expect_request("**/v1/opinions"):
        sample(page, "7").click()
    sample(page, "2").click()
    sample(page, "6").click()
    held[0].continue_()
    expect(page.locator(SAYS)).to_have_text("It is a 6")
    page.wait_for_timeout(300)
    expect(page.locator(SAYS)).to_have_text("It is a 6")
    assert len(asked) == 2  # nobody asked for the 2 any more


def test_until_the_first_answer_there_is_none(page, expect):
    held = []
    page.get_by_role("button", name="Clear").click()
    page.route("**/v1/opinions", lambda route: held.append(route), times=1)
    with page.expect_request("**/v1/opinions"):
        sample(page, "7").click()
    expect(page.locator(SAYS)).to_have_text("No answer yet")
    held[0].continue_()
    expect(page.locator(SAYS)).to_have_text("It is a 7")


def test_a_busy_server_is_asked_again(page, visit, expect):
    busy = {"status": 503, "headers": {"Retry-After": "1"}, "json": {"error": "too busy"}}
    page.route("**/v1/opinions", lambda route: route.fulfill(**busy), times=1)
    sample(page, "9").click()
    expect(page.get_by_role("alert")).to_contain_text("The server is busy. It is asked again in 1 s.")
    expect(page.locator(SAYS)).to_have_text("It is a 9")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert len(visit.complaints) == 1
    assert "503" in visit.complaints.pop()


def test_the_page_has_the_patience_of_the_service():
    text = (resources.files("nescio.serve") / "page" / "api.js").read_text()
    milliseconds = int(re.search(r"const PATIENCE = ([\d_]+);", text)[1])
    limits = Limits()
    assert milliseconds >= 1000 * (limits.read_timeout + limits.answer_timeout + limits.write_timeout)


def test_a_server_that_is_gone_is_told_of_and_found_again(visit, serving_here, serve, expect):
    pair = load_models(bundled_paths())
    with serving_here(pair) as at:
        page = visit(at)
        expect(page.locator(SAYS)).to_have_text("It is a 1")
    sample(page, "7").click()
    expect(page.get_by_role("alert")).to_contain_text("The server can't be reached. Is it running?")
    serve(pair, port=urlsplit(at).port)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(SAYS)).to_have_text("It is a 7")
    expect(page.get_by_role("alert")).to_be_hidden()
    assert all("ERR_CONNECTION_REFUSED" in text for text in visit.complaints)
    visit.complaints.clear()


def card(page, model, part):
    return page.locator(f".card[data-model='{model}'] {part}")


def untrained(method, spec, shape):
    torch.manual_seed(0)
    classes = tuple(f"kind {number}" for number in range(spec.num_classes))
    fields = {"input_shape": shape, "mean": (0.0,) * shape[0], "scale": (1.0,) * shape[0]}
    preprocess = Preprocess.from_dict(fields)
    return TrainedModel(method.build(spec).eval(), method, classes, preprocess, spec)


def test_models_of_other_inputs_or_classes_are_chosen_by_name(visit, serve, expect):
    models = {
        "clothes": untrained(EDL(), LeNetSpec(1, 28, 28, 2), (1, 28, 28)),
        "usual": untrained(Softmax(), LeNetSpec(1, 28, 28, 2), (1, 28, 28)),
        "colour": untrained(EDL(), LeNetSpec(3, 20, 32, 15), (3, 20, 32)),
        "odd": untrained(EDL(), LeNetSpec(5, 28, 28, 2), (5, 28, 28)),
    }
    at = serve(models)
    page = visit(at)
    expect(page.locator("#remark")).to_contain_text("odd takes inputs of shape 5 x 28 x 28")
    buttons = page.get_by_role("navigation", name="Models").get_by_role("button")
    expect(buttons).to_have_text(["clothes, usual", "colour"])
    # No digits for a model that knows none.
    expect(page.locator("#samples")).to_be_hidden()
    expect(page.locator("#about-digits")).to_be_hidden()
    expect(page.locator(".card h2")).to_contain_text(["clothes", "usual"])
    expect(card(page, "clothes", ".sentence")).to_have_text("Nothing to look at yet")
    draw_one(page)
    expect(card(page, "clothes", ".detail")).to_contain_text("Uncertainty")
    expect(card(page, "clothes", ".bars li")).to_have_count(3)
    expect(card(page, "usual", ".bars li")).to_have_count(2)
    expect(page.locator("#triangle")).to_be_hidden()
    buttons.nth(1).click()
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#pad")).to_be_hidden()
    expect(page.locator("#turned")).to_be_hidden()
    expect(card(page, "clothes", ".sentence")).to_have_count(0)
    expect(card(page, "colour", ".bars li")).to_have_count(7)  # five of 15, the others, and uncertainty
    expect(card(page, "colour", ".bars .others .name")).to_have_text("10 others")


@pytest.fixture
def two_groups(visit, serve, expect):
    """Digits to draw, and models of other pictures; the digits are shown."""
    models = {
        **load_models(bundled_paths()),
        "colour": untrained(EDL(), LeNetSpec(3, 20, 32, 15), (3, 20, 32)),
    }
    page = visit(serve(models))
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    return page, page.get_by_role("navigation", name="Models").get_by_role("button")


def leave_while_samples_are_fetched(page, buttons):
    """Choose the first models and, before they have their samples, the second; gives the held request."""
    buttons.nth(1).click()
    held = []
    page.route("**/samples.json", lambda route: held.append(route), times=1)
    with page.expect_request("**/samples.json"):
        buttons.nth(0).click()
    buttons.nth(1).click()
    return held[0]


def test_models_that_are_chosen_while_others_open(two_groups, expect):
    page, buttons = two_groups
    request = leave_while_samples_are_fetched(page, buttons)
    with page.expect_response("**/samples.json"):
        request.continue_()
    page.wait_for_timeout(200)
    expect(page.locator("#samples")).to_be_hidden()
    expect(card(page, "colour", ".sentence")).to_have_text("Nothing to look at yet")
    buttons.nth(0).click()
    expect(page.locator(SAYS)).to_have_text("It is a 1")


def test_what_fails_for_models_that_are_left_is_not_told(two_groups, visit, expect):
    page, buttons = two_groups
    request = leave_while_samples_are_fetched(page, buttons)
    request.abort()
    page.wait_for_timeout(200)
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(card(page, "colour", ".sentence")).to_have_text("Nothing to look at yet")
    assert len(visit.complaints) == 1
    visit.complaints.clear()


def test_trying_again_stays_with_the_models_that_were_chosen(visit, serve, expect):
    models = {
        "colour": untrained(EDL(), LeNetSpec(3, 20, 32, 15), (3, 20, 32)),
        **load_models(bundled_paths()),
    }
    page = visit(serve(models))
    buttons = page.get_by_role("navigation", name="Models").get_by_role("button")
    expect(card(page, "colour", ".sentence")).to_have_text("Nothing to look at yet")
    page.route("**/samples.json", lambda route: route.abort(), times=1)
    buttons.nth(1).click()
    expect(page.get_by_role("alert")).to_contain_text("The server can't be reached")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(buttons.nth(1)).to_have_attribute("aria-pressed", "true")
    assert len(visit.complaints) == 1
    visit.complaints.clear()


def test_samples_that_are_refused_hide_no_answer(visit, serve, expect):
    """A service that takes fewer inputs at once than there are samples, or angles."""
    page = visit(serve(load_models(bundled_paths()), Limits(max_inputs=5)), reduced_motion="reduce")
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(page.locator(".sample span").first).to_be_empty()
    expect(page.locator("#sample-summary")).to_be_empty()
    with page.expect_response("**/v1/opinions") as answered:
        sample(page, "7").click()
    assert answered.value.ok  # the samples are not asked about again
    expect(page.locator(SAYS)).to_have_text("It is a 7")
    page.get_by_role("button", name="Turn by itself").click()
    expect(page.get_by_role("alert")).to_contain_text(
        "It can't be turned at once: there must be 1 to 5 inputs, got 37."
    )
    expect(page.get_by_role("button", name="Turn by itself")).to_be_visible()
    expect(page.locator(SAYS)).to_have_text("It is a 7")
    assert ["422" in text for text in visit.complaints] == [True, True]
    visit.complaints.clear()


def test_samples_that_can_not_be_asked_about_hide_no_answer(page, visit, expect):
    def only_one(route):
        if len(route.request.post_data_json["inputs"]) == 1:
            route.continue_()
        else:
            route.fulfill(status=500, json={"error": "it broke"})

    page.route("**/v1/opinions", only_one)
    page.reload()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    expect(page.get_by_role("alert")).to_contain_text("The server said no: it broke")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(SAYS)).to_have_text("Nothing to look at yet")
    page.unroute("**/v1/opinions")
    sample(page, "7").click()
    expect(page.locator(SAYS)).to_have_text("It is a 7")
    expect(page.locator("#sample-summary")).to_contain_text("Rejected by its own rule")
    assert {"500" in text for text in visit.complaints} == {True}
    visit.complaints.clear()


@pytest.mark.parametrize(
    ("kept", "gone", "remark"),
    [("softmax", SAYS, "No evidential model"), ("edl", SOFTMAX_SAYS, "No softmax model")],
)
def test_one_model_alone_is_shown_and_the_other_said_to_be_missing(page, expect, kept, gone, remark):
    def without(route):
        models = [model for model in route.fetch().json()["models"] if model["name"] == kept]
        route.fulfill(json={"models": models})

    page.route("**/v1/models", without)
    page.reload()
    expect(page.locator("#remark")).to_contain_text(remark)
    expect(page.locator(gone)).to_have_count(0)
    expect(page.locator(SOFTMAX_SAYS if kept == "softmax" else SAYS)).to_have_text("It is a 1")
    page.get_by_role("button", name="Sample digit 6").click()
    expect(page.locator(SOFTMAX_SAYS if kept == "softmax" else SAYS)).to_have_text("It is a 6")


@pytest.fixture(scope="module")
def module(browser, address):
    """What a function of the page's own gives, asked in the browser."""
    page = browser.new_page()
    page.goto(f"{address}/icon.svg")

    def call(file, body, *values):
        return page.evaluate(f"async v => {{ const m = await import('/{file}'); {body} }}", list(values))

    yield call
    page.close()


TO_LIST = "return {...result, values: [...result.values]};"


def pictured(pixels):
    channels, height, width = pixels.shape
    return {"channels": channels, "height": height, "width": width, "values": pixels.ravel().tolist()}


def as_array(picture):
    shape = (picture["channels"], picture["height"], picture["width"])
    return np.array(picture["values"]).reshape(shape)


TYPED = "const p = {...v[0], values: Float32Array.from(v[0].values)};"


def test_the_page_turns_as_the_library_does(module):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 12, 17), dtype=np.uint8)
    for angle in (5, 90, 135, 180):
        turned = module(
            "picture.js", f"{TYPED} const result = m.turn(p, v[1]); {TO_LIST}", pictured(pixels), angle
        )
        expected = rotate(torch.from_numpy(pixels), [angle])[0].numpy()
        assert np.abs(as_array(turned) - expected).max() < 0.6


@pytest.mark.parametrize("size", [(28, 28), (9, 50), (61, 40)])
def test_the_page_scales_as_pillow_does(module, size):
    pixels = np.random.default_rng(0).integers(0, 256, (1, 61, 40), dtype=np.uint8)
    scaled = module(
        "picture.js", f"{TYPED} const result = m.resize(p, ...v[1]); {TO_LIST}", pictured(pixels), size
    )
    expected = np.asarray(Image.fromarray(pixels[0]).resize(size[::-1], Image.Resampling.BILINEAR))
    assert np.abs(as_array(scaled)[0] - expected).max() < 1.6  # Pillow rounds twice


def test_ink_is_centred_as_mnist_is(module):
    ink = np.zeros((1, 280, 280), np.uint8)
    ink[0, 20:180, 200:220] = 255  # an L, off the middle
    ink[0, 160:180, 200:270] = 255
    result = module("picture.js", f"{TYPED} const result = m.centre(p, 28, 28); {TO_LIST}", pictured(ink))
    seen = as_array(result)[0]
    rows, columns = np.nonzero(seen > 1)
    assert np.ptp(rows) + 1 == 20
    assert np.ptp(columns) + 1 == 9
    middle = [(seen * (grid + 0.5)).sum() / seen.sum() for grid in np.indices((28, 28))]
    assert np.abs(np.array(middle) - 14).max() <= 0.5


def test_an_empty_pad_is_an_empty_picture(module):
    ink = np.zeros((1, 280, 280), np.uint8)
    result = module("picture.js", f"{TYPED} const result = m.centre(p, 28, 28); {TO_LIST}", pictured(ink))
    assert as_array(result).shape == (1, 28, 28)
    assert as_array(result).max() == 0


def alphas(page):
    return [float(number) for number in re.findall(r": ([\d.]+)", page.locator("#alphas").text_content())]


def test_the_triangle_follows_the_prior(page, expect):
    """The same belief and uncertainty under four times the prior: all alphas are four times as large."""
    expect(page.locator("#alphas")).to_contain_text("alpha")
    before = alphas(page)

    def with_prior(route):
        body = route.fetch().json()
        for model in body["models"]:
            if model["evidential"]:
                model["prior"] = 4
        route.fulfill(json=body)

    page.route("**/v1/models", with_prior)
    page.reload()
    expect(page.locator(SAYS)).to_have_text("It is a 1")
    for alpha, usual in zip(alphas(page), before, strict=True):
        assert alpha == pytest.approx(4 * usual, abs=0.5 + 4 * 0.05, rel=0.005)


@pytest.mark.parametrize("rates", [None, [0.05, 0.2, 0.05, 0.4, 0.3]])
@pytest.mark.parametrize("prior", [1.0, 0.25, 3.0])
def test_the_density_is_the_one_of_the_opinion(module, prior, rates):
    evidence = torch.tensor([0.0, 7.5, 0.25, 420.0, 3.0], dtype=torch.float64)
    base_rates = None if rates is None else torch.tensor(rates, dtype=torch.float64)
    opinion = Opinion(evidence, prior, base_rates=base_rates)
    answer = {"probabilities": opinion.probabilities.tolist(), "uncertainty": float(opinion.uncertainty)}
    alpha = module("dirichlet.js", "return m.alphaOf(v[0], v[1]);", answer, prior)
    assert alpha == pytest.approx(opinion.alpha.tolist())
    three = module("dirichlet.js", "return m.strongest(v[0], 3);", alpha)
    assert three == [3, 1, 4]
    # Shares among three classes have the Dirichlet of their own alpha: shown by sampling that of all.
    torch.manual_seed(0)
    draws = opinion.dirichlet().sample((50_000,))[:, three]
    shares = draws / draws.sum(1, keepdim=True)
    reduced = torch.distributions.Dirichlet(opinion.alpha[three])
    assert shares.mean(0).tolist() == pytest.approx(reduced.mean.tolist(), rel=0.02)
    assert shares.var(0).tolist() == pytest.approx(reduced.variance.tolist(), rel=0.05)
    point = torch.tensor([0.9, 0.07, 0.03], dtype=torch.float64)
    density = module(
        "dirichlet.js",
        "return m.logDensity(v[0])(v[1].map(Math.log));",
        [alpha[i] for i in three],
        point.tolist(),
    )
    assert density == pytest.approx(float(reduced.log_prob(point)), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [("1", "It is a 1"), ("8", "It is an 8"), ("F", "It is an F"), ("ankle boot", "It is “ankle boot”")],
)
def test_what_it_says_is_english(module, name, said):
    assert module("verdict.js", "return m.itIs(v[0]);", name) == said
