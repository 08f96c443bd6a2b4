import base64
import dataclasses
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
import torch
from PIL import Image

from nescio.demo import _report as report
from nescio.errors import DataError
from nescio.inference.model import TrainedModel

EMPTY = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Checks that what is opened is closed, and collects what there is."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, *pair) for pair in attrs]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def values(self, name):
        return [value for _, key, value in self.attributes if key == name]


@pytest.fixture(scope="module")
def text(outcome):
    return report.render(outcome)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_the_page_is_whole(text, page):
    assert text.lstrip().startswith("<!doctype html>")
    assert page.open == []
    ids = page.values("id")
    assert len(ids) == len(set(ids))
    for section in ("numbers", "opinions", "entropy", "rotation", "threshold", "next"):
        assert section in ids


def test_nothing_is_taken_from_outside(text, page):
    assert "http" not in text
    assert not {"script", "link", "iframe"} & set(page.tags)
    addresses = page.values("src") + page.values("href") + page.values("xlink:href")
    assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
    assert not re.search(r"url\((?!#)|@import", text)


def test_it_fits_a_telephone_and_the_dark(text):
    assert '<meta name="viewport" content="width=device-width' in text
    assert "prefers-color-scheme: dark" in text


def test_all_charts_and_samples_are_there(page):
    assert page.tags.count("svg") == 6
    assert page.tags.count("img") == 12
    assert all(page.values("alt"))


def test_the_table_says_what_was_measured(outcome, text):
    rows = {row.label: row for row in report.table(outcome)}
    assert len(rows) == 6
    ours, usual = outcome.evidential.figures, outcome.softmax.figures
    first = rows["right answers on digits"]
    assert (first.evidential, first.softmax) == (
        f"{100 * ours['accuracy']:.1f}%",
        f"{100 * usual['accuracy']:.1f}%",
    )
    detection = rows["detection of letters by entropy, AUROC"]
    assert (detection.evidential, detection.softmax) == (f"{ours['auroc']:.3f}", f"{usual['auroc']:.3f}")
    for row in rows.values():
        assert f"{row.label}</th><td>{row.evidential}</td><td>{row.softmax}</td>" in text


def test_a_sample_is_the_opinion_of_its_image(outcome):
    data, opinion = outcome.inputs.test, outcome.evidential.digits
    samples = report.digit_samples(outcome)
    assert {sample.answer is None for sample in samples} == {True, False}
    for sample in samples:
        pixels = np.array(Image.open(io.BytesIO(base64.b64decode(sample.picture.partition(",")[2]))))
        index = int((data.images[:, 0] == torch.as_tensor(pixels)).all(dim=(1, 2)).nonzero()[0])
        assert sample.truth == str(int(data.labels[index]))
        assert sample.belief == tuple(opinion.belief[index].tolist())
        assert sum(sample.belief) + sample.uncertainty == pytest.approx(1, abs=1e-5)
        assert sample.probabilities == tuple(outcome.softmax.digits.probabilities[index].tolist())
        known = float(opinion.uncertainty[index]) < 0.5
        assert sample.answer == (str(int(opinion.labels[index])) if known else None)


def test_the_last_digits_are_those_in_most_doubt(outcome):
    samples = report.digit_samples(outcome)
    most = outcome.evidential.digits.uncertainty.sort(descending=True).values[:2].tolist()
    assert [sample.uncertainty for sample in samples[-2:]] == most


def test_the_first_samples_are_of_different_classes(outcome):
    assert [sample.truth for sample in report.digit_samples(outcome)[:4]] == ["0", "2", "5", "7"]
    assert [sample.truth for sample in report.letter_samples(outcome)] == list("ABDFGI")


@pytest.fixture
def sample(outcome):
    return report.letter_samples(outcome)[0]


@pytest.mark.parametrize(
    ("answer", "verdict"), [("7", "It is a 7"), ("8", "It is an 8"), (None, "I do not know")]
)
def test_the_verdict_in_words(sample, answer, verdict):
    assert dataclasses.replace(sample, answer=answer).verdict == verdict


@pytest.mark.parametrize(("most", "words"), [(0.9996, "An 8, above 99.9%"), (0.514, "An 8, 51.4%")])
def test_softmax_in_words(sample, most, words):
    said = dataclasses.replace(sample, softmax_answer="8", probabilities=(most, 1 - most))
    assert said.softmax_verdict == words


def test_sure_of_letters(outcome, text):
    share = (outcome.softmax.letters.probabilities.amax(1) >= 0.9).double().mean()
    assert report.sure_of_letters(outcome) == pytest.approx(float(share))


def test_the_folder_holds_the_report_and_both_models(outcome, text, tmp_path):
    path = report.write_report(outcome, tmp_path / "new")
    assert path.read_text(encoding="utf-8") == text
    assert {file.name for file in path.parent.iterdir()} == {
        "report.html",
        "edl.safetensors",
        "softmax.safetensors",
    }
    for name, measured in (("edl", outcome.evidential), ("softmax", outcome.softmax)):
        loaded = TrainedModel.load(path.parent / f"{name}.safetensors")
        again = loaded.predict(outcome.inputs.test.images)
        assert torch.equal(again.probabilities, measured.digits.probabilities)


def test_a_folder_that_can_not_be_written_to(outcome, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="file can't be written to"):
        report.write_report(outcome, tmp_path / "file")
