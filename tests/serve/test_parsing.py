"""From a body to inputs: what is refused, and that it costs nothing."""

import io
import json
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from tests.serve.helpers import COLOUR, PICTURE, ROWS, encoded, pair, pictures, reason, untrained

from nescio._kinds import InputKind
from nescio.data import Place, Row, Text
from nescio.errors import DataError
from nescio.methods import EDL
from nescio.serve import _parsing
from nescio.serve._errors import RequestError
from nescio.serve._parsing import SentFiles, parse_json
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

JSON = {"content-type": "application/json"}
FORM = "multipart/form-data; boundary=x"
FIELD = b'--x\r\nContent-Disposition: form-data; name="models"\r\n\r\nedl\r\n--x--\r\n'


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"", 400, "the body is empty"),
        (b"{", 400, "the body is not JSON"),
        (b"\xff\xfe", 400, "the body is not JSON"),
        (b"[" * 100_000, 400, "the body is not JSON"),
        (b'{"inputs": [[NaN]]}', 400, "the body is not JSON"),
        (b'{"inputs": [[-Infinity]]}', 400, "the body is not JSON"),
        (b"[]", 422, "the body must be"),
        (b"null", 422, "the body must be"),
        (b'{"input": [[1]]}', 422, "the body must be"),
        (b'{"inputs": [[1]], "model": "edl"}', 422, "the body must be"),
        (b'{"inputs": 1}', 422, "inputs must be a list"),
        (b'{"inputs": []}', 422, "there must be 1 to 10,000 inputs, got 0"),
        (b'{"inputs": [1, 2]}', 422, "inputs must be a list of arrays, got numbers"),
        (b'{"inputs": [[1, 2]]}', 422, "must be 1 x 16 x 16 numbers, got 2"),
        (b'{"inputs": [[[]]]}', 422, "must be 1 x 16 x 16 numbers, got 1 x 0"),
        (b'{"inputs": [[1, 2], [1]]}', 422, "all of one shape"),
        (b'{"inputs": [[[1, 2], [1]]]}', 422, "all of one shape"),
        (b'{"inputs": [[["1"]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[null]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[{}]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [{}]}', 422, "takes images, not objects by the names of columns"),
        (b'{"inputs": ["hello"]}', 422, "takes images, not texts"),
        (b'{"inputs": [[{"0": 1}]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1], 100000000000]]}', 422, "all of one shape"),
        (b'{"inputs": [[[1]], 100000000000]}', 422, "all of one shape"),
        (b'{"inputs": [[[[1]]]]}', 422, "must be 1 x 16 x 16 numbers, got 1 x 1 x 1"),
        (b'{"inputs": [[[true]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, false]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, true]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[[1, "2"]]]}', 422, "arrays of numbers"),
        (b'{"inputs": [[1e999]]}', 400, "Number out of range"),
        (b'{"inputs": [[1e300]]}', 422, "must be 1 x 16 x 16 numbers, got 1"),
        (b'{"inputs": [[1' + b"0" * 400 + b"]]}", 422, "numbers"),
        (b'{"inputs": [[1]], "models": "edl"}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": [1]}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": null}', 422, "models must be a list of names"),
        (b'{"inputs": [[1]], "models": []}', 422, "models must name one or more"),
        (
            b'{"inputs": [[1]], "models": ["edl", "gpt"]}',
            404,
            "there is no such model; there are: edl, softmax",
        ),
    ],
)
def test_bad_json(ask, body, status, words):
    response = ask("POST", "/v1/opinions", content=body, headers=JSON)
    assert (response.status_code, words in reason(response)) == (status, True), response.text


def test_too_many_inputs(ask):
    body = json.dumps({"inputs": [[0]] * 10_001})
    response = ask("POST", "/v1/opinions", content=body, headers=JSON)
    assert response.status_code == 422
    assert reason(response) == "there must be 1 to 10,000 inputs, got 10,001"
    files = [("files", ("a.png", b"x", "image/png"))] * 4
    response = ask("POST", "/v1/opinions", files=files, app=create_app(pair(), Limits(max_inputs=3)))
    assert response.status_code == 422
    assert reason(response) == "there must be 1 to 3 inputs, got more"


@pytest.mark.parametrize(
    "inputs",
    [
        [[["a" * 20_000, *[None] * 3000]]],
        [[[0] * 2000], ["a" * 20_000] * 2000],
    ],
)
def test_words_among_the_inputs_cost_no_memory(inputs):
    body = json.dumps({"inputs": inputs}).encode()
    tracemalloc.start()
    try:
        with pytest.raises(RequestError, match="arrays of numbers"):
            parse_json(body, Limits())
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * len(body) + 2**20


def test_lists_without_end_are_not_even_read(monkeypatch):
    monkeypatch.setattr(_parsing, "MAX_LISTS", 1000)
    monkeypatch.setattr(_parsing, "_decode_json", lambda *_: pytest.fail("it was read"))
    with pytest.raises(RequestError, match="too many lists; at most 1,000") as refused:
        parse_json(json.dumps({"inputs": [[]] * 1001}).encode(), Limits())
    assert refused.value.status == 413


@pytest.mark.parametrize(
    ("content", "status", "words"),
    [
        ({"files": [("other", ("a.png", b"x", "image/png"))]}, 422, "no others"),
        ({"files": [("files", (None, b"x"))]}, 422, "with a file name"),
        ({"files": [("models", ("a.png", b"x", "image/png"))]}, 422, "models must be names"),
        ({"files": [("models", (None, b"edl"))]}, 422, "1 to 10,000 inputs, got 0"),
        ({"content": b"--x--", "headers": {"content-type": "multipart/form-data"}}, 400, "boundary"),
        ({"content": b"junk", "headers": {"content-type": "multipart/form-data; boundary=x"}}, 400, "form"),
        ({"content": FIELD, "headers": {"content-type": f"{FORM}; charset=undefined"}}, 400, "charset"),
        ({"content": FIELD, "headers": {"content-type": f"{FORM}; charset=no-such"}}, 400, "charset"),
    ],
)
def test_bad_forms(ask, content, status, words):
    response = ask("POST", "/v1/opinions", **content)
    assert (response.status_code, words in reason(response)) == (status, True), response.text


def test_a_large_upload_stays_in_memory(ask, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an upload went to the disk")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    monkeypatch.setattr("tempfile.SpooledTemporaryFile.rollover", refuse)
    large = torch.randint(256, (1500, 1500), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    content = encoded(large)
    assert len(content) > 2**21
    response = ask("POST", "/v1/opinions", files=[("files", ("a.png", content, "image/png"))])
    assert response.status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "image/png", ""])
def test_other_content_types(ask, kind):
    response = ask("POST", "/v1/opinions", content=b"x", headers={"content-type": kind})
    assert response.status_code == 415
    assert reason(response) == (
        "send application/json, multipart/form-data, application/octet-stream or application/x-npy"
    )


def sent(ask, name, content, **limits):
    app = create_app({"rows": untrained(ROWS, EDL())}, Limits(**limits))
    return ask("POST", "/v1/opinions", app=app, files=[("files", (name, content))])


def test_tables_and_arrays_are_read_as_on_the_command_line(ask):
    response = sent(ask, "t/new.csv", b"1,2,3,4\n5,six,7,8\n")
    (result,) = response.json()["results"]
    first, second = result["opinions"]
    assert (first["name"], first["error"]) == ("t/new.csv:1", None)
    assert second["error"].startswith("new.csv, line 2, column 2: a finite number expected")
    array = io.BytesIO()
    np.savez(array, features=np.array([[1.0, 2, 3, 4]]))
    (again,) = sent(ask, "new.npz", array.getvalue()).json()["results"]
    assert again["opinions"] == [first | {"name": "new.npz:1"}]


def test_a_small_file_that_grows_when_it_is_read(ask):
    array = io.BytesIO()
    np.savez_compressed(array, features=np.zeros((100_000, 4)))
    assert len(array.getvalue()) < 20_000
    response = sent(ask, "x.npz", array.getvalue(), max_values=100_000)
    assert response.status_code == 413
    assert reason(response) == "x.npz is too large unpacked; at most 800,000 bytes"
    response = sent(ask, "x.csv", b"1,2,3,4\n" * 20_000)
    assert response.status_code == 422
    assert "there must be 1 to 10,000 inputs, got 20,000" in reason(response)


def test_a_table_of_too_many_cells(ask, monkeypatch):
    monkeypatch.setattr(_parsing, "MAX_LISTS", 100)
    response = sent(ask, "x.csv", b"1,2,3,4\n" * 100)
    assert response.status_code == 413
    assert reason(response) == "x.csv has too many cells; at most 100"


def test_texts_and_rows():
    body = json.dumps({"inputs": [{"a": 1, "b": None, "c": "x"}, {"a": [1]}], "models": ["m"]})
    parsed = parse_json(body.encode(), Limits())
    assert (parsed.names, parsed.options.models, parsed.kind) == (("1", "2"), ("m",), InputKind.ROWS)
    row, nested = parsed.inputs
    assert row.value == Row(("1", "", "x"), ("a", "b", "c"), "input 1")
    with pytest.raises(
        DataError, match="input 2, column a: a number, a text, true or false expected, got list"
    ):
        nested.value.cell(0)  # an error once somebody needs that column
    parsed = parse_json(b'{"inputs": ["hello", ""]}', Limits())
    assert parsed.kind == InputKind.TEXTS
    assert [one.value for one in parsed.inputs] == [Text("hello", "input 1"), Text("", "input 2")]


@pytest.mark.parametrize("inputs", ['["a", {}]', '[{}, "a"]', '["a", 1]', "[{}, [1]]", '[[1], "a"]'])
def test_inputs_of_several_kinds(inputs):
    with pytest.raises(RequestError, match=r"inputs must (all )?be"):
        parse_json(b'{"inputs": %b}' % inputs.encode(), Limits())


def test_rows_of_too_many_cells():
    inputs = [{str(column): 0 for column in range(1000)}] * 2001
    with pytest.raises(RequestError, match="too many cells; at most 2,000,000"):
        parse_json(json.dumps({"inputs": inputs}).encode(), Limits())


def test_a_parquet_file_that_takes_far_more_than_it_is():
    file = io.BytesIO()
    pq.write_table(pa.table({"a": pa.array([0] * 2_000_001, pa.int8())}), file)
    assert len(file.getvalue()) < 100_000
    sent = SentFiles((Place("a.parquet", file.getvalue()),), None)
    with pytest.raises(RequestError, match=r"a.parquet has too many cells"):
        sent.open(Limits())


def as_npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


RAW = {"content-type": "application/octet-stream"}
NPY = {"content-type": "application/x-npy"}


def test_arrays_as_they_are_are_answered_as_json_is(ask):
    """Bytes, floats and .npy files in both orders: what they say is what the same numbers say as JSON."""
    app = create_app(pair())
    three = pictures(3)
    expected = ask("POST", "/v1/opinions", app=app, json={"inputs": three.tolist()}).json()
    array = three.numpy()
    bodies = [
        (array.tobytes(), RAW, ""),
        (array.astype("<f4").tobytes(), RAW, "?dtype=float32"),
        (as_npy(array), NPY, ""),
        (as_npy(array[:, None]), NPY, ""),
        (as_npy(np.asfortranarray(array)), NPY, ""),
        (as_npy(array.astype(">i4")), NPY, ""),
        (as_npy(array.astype("f8")), NPY, ""),
    ]
    for content, headers, query in bodies:
        response = ask("POST", f"/v1/opinions{query}", app=app, content=content, headers=headers)
        assert response.json() == expected


@pytest.mark.parametrize(
    ("content", "headers", "query", "status", "words"),
    [
        (bytes(255), RAW, "", 422, "inputs of 1 x 16 x 16 numbers of uint8 each, 256 bytes, got 255 bytes"),
        (bytes(10), RAW, "?dtype=float32", 422, "must be numbers of float32, got 10 bytes"),
        (bytes(256), RAW, "?dtype=float64", 422, "dtype must be uint8 or float32"),
        (bytes(256 * 3), RAW, "", 422, "there must be 1 to 2 inputs, got 3"),
        (b"", RAW, "", 400, "the body is empty"),
        (b'{"inputs": [[[1]]]}', {"content-type": "application/json"}, "?dtype=uint8", 422, "dtype is for"),
        (b"\x93NUMPY", NPY, "", 400, "not a .npy file"),
        (b"junk" * 100, NPY, "", 400, "not a .npy file"),
        (as_npy(np.zeros((1, 16, 16), "u1"))[:-1], NPY, "", 422, "the array must fill the file"),
        (as_npy(np.zeros((1, 16, 16), "u1")) + b"x", NPY, "", 422, "the array must fill the file"),
        (
            as_npy(np.zeros((1, 1, 2), "u4")).replace(b"(1, 1, 2),", b"(1,-1,-2),"),
            NPY,
            "",
            422,
            "must fill the file",
        ),
        (as_npy(np.zeros(256, "u1")), NPY, "", 422, "inputs along its first axis, got the shape (256,)"),
        (as_npy(np.zeros((3, 16, 16), "u1")), NPY, "", 422, "there must be 1 to 2 inputs, got 3"),
        (as_npy(np.zeros((1, 16, 16), "?")), NPY, "", 422, "whole or floating-point numbers, got bool"),
        (as_npy(np.zeros((1, 16, 16), "S3")), NPY, "", 422, "whole or floating-point numbers"),
        (
            as_npy(np.full((1, 16, 16), np.nan)),
            NPY,
            "",
            422,
            "can't answer the input: has a value that is not",
        ),
        (bytes(256), RAW, "?fields=colour", 422, "fields must be one or more of name, answer"),
        (bytes(256), RAW, "?fields=", 422, "fields must be one or more of"),
        (bytes(256), RAW, "?colour=red", 422, "the query has models, fields and dtype, no others"),
        (bytes(256), RAW, "?models=gpt", 404, "there is no such model; there are: edl, softmax"),
        (bytes(256), RAW, "?" + "models=edl&" * 1001, 422, "the query has too many parts"),
    ],
)
def test_bad_arrays_and_queries(ask, content, headers, query, status, words):
    app = create_app(pair(), Limits(max_inputs=2))
    response = ask("POST", f"/v1/opinions{query}", app=app, content=content, headers=headers)
    assert (response.status_code, words in reason(response)) == (status, True), response.text


def test_an_array_without_a_shape_needs_models_that_agree(ask):
    app = create_app({"grey": untrained(PICTURE, EDL()), "colour": untrained(COLOUR, EDL())})
    response = ask("POST", "/v1/opinions", app=app, content=bytes(256), headers=RAW)
    assert response.status_code == 422
    assert "different shapes" in reason(response)
    response = ask("POST", "/v1/opinions?models=grey", app=app, content=bytes(256), headers=RAW)
    assert [result["model"] for result in response.json()["results"]] == ["grey"]


@pytest.mark.parametrize("where", ["query", "body", "form"])
def test_fields_that_are_asked_for_alone(ask, where):
    app = create_app(pair())
    one = pictures(1)
    whole = ask("POST", "/v1/opinions", app=app, json={"inputs": one.tolist()}).json()["results"][0]
    content = {
        "query": {"json": {"inputs": one.tolist(), "models": ["edl"]}},
        "body": {"json": {"inputs": one.tolist(), "models": ["edl"], "fields": ["uncertainty", "label"]}},
        "form": {
            "files": [("files", ("1", encoded(one[0])))],
            "data": {"models": "edl", "fields": "uncertainty,label"},
        },
    }
    query = "?fields=uncertainty,label" if where == "query" else ""
    response = ask("POST", f"/v1/opinions{query}", app=app, **content[where])
    (result,) = response.json()["results"]
    (opinion,) = whole["opinions"]
    assert result["opinions"] == [{"label": opinion["label"], "uncertainty": opinion["uncertainty"]}]


def test_an_error_is_said_whatever_fields_are_asked_for(ask):
    floats = pictures(2).float().numpy()
    floats[1] = np.inf
    content = floats.astype("<f4").tobytes()
    response = ask("POST", "/v1/opinions?fields=best&dtype=float32&models=edl", content=content, headers=RAW)
    first, second = response.json()["results"][0]["opinions"]
    assert list(first) == ["best"]
    assert second == {"best": None, "error": "has a value that is not finite"}


def test_what_the_body_says_goes_before_the_query(ask):
    body = {"inputs": pictures(1).tolist(), "models": ["edl"], "fields": ["best"]}
    response = ask("POST", "/v1/opinions?models=softmax&fields=label", json=body)
    (result,) = response.json()["results"]
    assert (result["model"], list(result["opinions"][0])) == ("edl", ["best"])


def test_a_refusal_names_the_file(ask):
    response = ask("POST", "/v1/opinions", files=[("files", ("rows.csv", b"a,b\n1,2\n"))])
    assert response.status_code == 422
    assert reason(response).startswith("the model edl can't answer rows.csv:1: the model takes pictures")
    app = create_app(pair(), Limits(max_pixels=300))
    two = [("files", (name, encoded(picture))) for name, picture in zip("ab", pictures(2), strict=True)]
    response = ask("POST", "/v1/opinions", app=app, files=two)
    assert response.status_code == 413
    assert reason(response) == "the pictures have too many pixels; at most 300 in all, b is above"
