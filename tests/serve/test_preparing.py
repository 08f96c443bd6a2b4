"""From inputs to what a model takes: pictures and pixels, broken ones among them."""

import io
import json
import struct
import zlib
from dataclasses import replace

import pytest
from tests.data.preprocess.words import WORDS
from tests.inference.small_texts import BagOfWordsSpec
from tests.serve.helpers import COLOUR, PICTURE, encoded, pair, pictures, reason, untrained

from nescio._kinds import InputKind
from nescio.data import ImagePreprocess, Input, Row, RowPreprocess, TableSchema, TextPreprocess
from nescio.data._columns import NumberColumn
from nescio.encoders import MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL
from nescio.serve._errors import RequestError
from nescio.serve._parsing import FileInputs
from nescio.serve._preparing import refuse_other_kinds
from nescio.serve.app import create_app
from nescio.serve.limits import Limits


def test_every_way_to_send_a_picture_gives_the_same(ask):
    picture = pictures(1)[0]
    exact = picture.tolist()
    bodies = [
        {"json": {"inputs": [exact]}},
        {"json": {"inputs": [[exact]]}},
        {"json": {"inputs": [[[float(pixel) for pixel in row] for row in exact]]}},
        {"files": [("files", ("a.png", encoded(picture), "image/png"))]},
        {"files": [("files", ("a.bin", encoded(picture, "BMP"), "application/octet-stream"))]},
    ]
    results = [ask("POST", "/v1/opinions", **body).json()["results"] for body in bodies]
    for other in results[1:]:
        assert other[0]["opinions"][0]["probabilities"] == pytest.approx(
            results[0][0]["opinions"][0]["probabilities"], rel=1e-5
        )


@pytest.mark.parametrize("pixel", [-1, 256, 255.5, -0.001, 1e30])
def test_pixels_have_a_range(ask, pixel):
    picture = pictures(1)[0].tolist()
    picture[3][4] = pixel
    response = ask("POST", "/v1/opinions", json={"inputs": [picture]})
    assert response.status_code == 422
    assert "has pixels that are not 0 to 255" in reason(response)


def huge_png():
    """A PNG whose header says 50,000 x 50,000."""

    def chunk(name, content):
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 50_000, 50_000, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        (b"these are words", 422, "is not a PNG"),
        (b"", 422, "is not a PNG"),
        (encoded(pictures(1)[0], "JPEG")[:-60], 422, "is damaged"),
        (encoded(pictures(1)[0])[:90], 422, "is damaged"),
        (huge_png(), 413, "pixels"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", 422, "is not a PNG"),
    ],
)
def test_bad_pictures(ask, content, status, words):
    response = ask("POST", "/v1/opinions", files=[("files", ("a.png", content, "image/png"))])
    assert response.status_code == status
    assert words in reason(response)


def test_pictures_have_a_number_of_pixels_in_all(ask):
    app = create_app(pair(), Limits(max_pixels=600))
    file = ("files", ("a.png", encoded(pictures(1)[0]), "image/png"))
    assert ask("POST", "/v1/opinions", app=app, files=[file] * 2).status_code == 200
    response = ask("POST", "/v1/opinions", app=app, files=[file] * 3)
    assert response.status_code == 413
    assert "at most 600 in all" in reason(response)


def test_picture_formats(ask):
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGBA", (40, 30), (10, 20, 30, 40)).save(file, "PNG")
    app = create_app({"colour": untrained(COLOUR, EDL())})
    response = ask(
        "POST", "/v1/opinions", app=app, files=[("files", ("a.png", file.getvalue(), "image/png"))]
    )
    assert response.status_code == 200


def test_texts_and_rows_for_models_that_take_others():
    rows = FileInputs((Input("1", Row(("1", "2"), ("a", "b"), "input 1")),), None, InputKind.ROWS)
    texts = FileInputs((), None, InputKind.TEXTS)
    numbers = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2)
    with pytest.raises(RequestError, match="the model m takes rows, not texts"):
        refuse_other_kinds(texts, "m", numbers)
    with pytest.raises(RequestError, match="the model m knows its columns by their numbers: 1, 2"):
        refuse_other_kinds(rows, "m", numbers)
    numbered = Row(("5", "6"), ("2", "1"), "input 1")
    refuse_other_kinds(FileInputs((Input("1", numbered),), None, InputKind.ROWS), "m", numbers)
    assert numbers.prepare(numbered).tolist() == [6, 5]
    named = RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2, TableSchema.of_numbers(("a", "b")))
    refuse_other_kinds(rows, "m", named)
    refuse_other_kinds(FileInputs((), None), "m", named)  # files say themselves what they are


def test_a_text_that_is_longer_than_the_model_reads_has_a_note(ask):
    spec = BagOfWordsSpec()
    model = TrainedModel(spec.build(), EDL(), ("a", "b", "c"), TextPreprocess(WORDS, 4), spec)
    texts = ["hello", "hello you " * 5, " "]
    response = ask("POST", "/v1/opinions", app=create_app({"texts": model}), json={"inputs": texts})
    (result,) = response.json()["results"]
    assert result["notes"] == [{"name": "2", "note": "longer than 4 tokens: the model reads the first 4"}]
    assert [opinion["error"] for opinion in result["opinions"]] == [None, None, "is an empty text"]


def test_a_model_of_images_from_0_to_1_reads_pictures_and_bytes_in_its_own_units(ask):
    """Whatever way they come: pixels that are 255 times too large would make it sure of everything."""
    model = untrained(PICTURE, EDL())
    preprocess = ImagePreprocess(model.input_shape, (0.0,), (1.0,), white=1.0)
    app = create_app({"m": replace(model, preprocess=preprocess)})
    picture = pictures(1)[0]
    numbers = (picture.double() / 255).tolist()
    bodies = [
        {"json": {"inputs": [numbers]}},
        {"files": [("files", ("a.png", encoded(picture), "image/png"))]},
        {"content": picture.numpy().tobytes(), "headers": {"content-type": "application/octet-stream"}},
    ]
    answers = []
    for body in bodies:
        (result,) = ask("POST", "/v1/opinions", app=app, **body).json()["results"]
        answers.append(result["opinions"][0]["probabilities"])
    for other in answers[1:]:
        assert other == pytest.approx(answers[0], rel=1e-5)


def test_an_array_does_not_stand_for_columns_of_which_differences_are_kept(ask):
    schema = TableSchema((NumberColumn("time", offset=1.7e9), NumberColumn("value")), has_names=True)
    spec = MLPSpec(2, 3, hidden=(4,))
    model = untrained(spec, EDL())
    app = create_app({"m": replace(model, preprocess=RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2, schema))})
    row = {"time": 1.7e9, "value": 0}
    assert ask("POST", "/v1/opinions", app=app, json={"inputs": [row]}).status_code == 200
    refused = ask("POST", "/v1/opinions", app=app, json={"inputs": [[1.7e9, 0]]})
    assert "too few digits for the numbers of time" in reason(refused)
    inputs = ask("GET", "/openapi.json", app=app).json()["components"]["schemas"]
    assert '"type": "array", "minItems": 2' not in json.dumps(inputs)
