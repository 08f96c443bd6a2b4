import json

import pytest

from nescio.inference.records import FIELDS
from nescio.serve._answers import encode_records, encode_result, encode_results

NAMES = ("1.png", 'a "quoted" ü.png')
RECORD = {
    "answer": "cat",
    "label": "cat",
    "best": "cat",
    "accepted": True,
    "probability": 0.5,
    "probabilities": [0.5, 0.25, 0.25],
    "belief": None,
    "uncertainty": 0.125,
    "entropy": 1e-9,
    "p_value": None,
    "set": [],
    "error": None,
}
FAILED = {"error": "has a value that is not finite"}


@pytest.mark.parametrize(
    "wanted", [FIELDS, ("name",), ("best", "uncertainty"), ("name", "label"), ("error",)]
)
def test_the_text_is_that_of_the_records_with_the_wanted_fields(wanted):
    answers = encode_records([dict(RECORD), dict(FAILED)], wanted)
    text = encode_results([encode_result("edl", NAMES, answers, wanted, {1: "it is long"})])
    expected = []
    for name, record in zip(NAMES, (RECORD, FAILED), strict=True):
        whole = {**record, "name": name}
        expected.append({field: whole.get(field) for field in wanted})
    expected[1]["error"] = FAILED["error"]
    (result,) = json.loads(text)["results"]
    assert result == {
        "model": "edl",
        "opinions": expected,
        "notes": [{"name": NAMES[1], "note": "it is long"}],
    }
    assert list(result["opinions"][0]) == list(wanted)
    assert [answer.error for answer in answers] == [None, FAILED["error"]]


def test_several_models_are_one_list_and_one_without_notes_has_none():
    results = [encode_result(name, (), [], FIELDS, {}) for name in ("edl", "softmax")]
    assert json.loads(encode_results(results)) == {
        "results": [
            {"model": "edl", "opinions": [], "notes": []},
            {"model": "softmax", "opinions": [], "notes": []},
        ]
    }
