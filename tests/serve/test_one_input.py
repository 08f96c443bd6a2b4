"""Which bodies are one plain input, and how its answer is put together."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.serve.helpers import COLOUR, PICTURE, pair, pictures, untrained

from nescio.inference.records import FIELDS
from nescio.methods import EDL
from nescio.serve import Limits
from nescio.serve._answers import Answer, encode_result, encode_results
from nescio.serve._errors import RequestError
from nescio.serve._models import ServedModel
from nescio.serve._one_input import OneInput

RAW = b"application/octet-stream"


def one_input(models):
    served = [ServedModel(name, model) for name, model in models.items()]
    return OneInput(served, Limits()), served


def test_a_picture_is_the_same_array_for_models_that_prepare_alike():
    plan, models = one_input(pair())
    picture = pictures(1)
    by_bytes = plan.values_of(RAW, picture.numpy().tobytes())
    by_json = plan.values_of(b"application/json", json.dumps({"inputs": picture.tolist()}).encode())
    assert list(by_bytes) == list(by_json) == models
    for values in (*by_bytes.values(), *by_json.values()):
        np.testing.assert_array_equal(values, picture[:, None].numpy())
    assert by_bytes[models[0]] is by_bytes[models[1]]


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        (RAW, bytes(255)),
        (RAW, bytes(512)),
        (b"application/octet-stream; charset=binary", bytes(256)),
        (b"application/x-npy", bytes(256)),
        (b"application/json", b'{"inputs": ["a text"]}'),
        (b"application/json", b'{"inputs": [[[0.5, 2], [1, 2]]]}'),
    ],
)
def test_all_else_is_left_to_others(content_type, body):
    plan, _ = one_input(pair())
    assert plan.values_of(content_type, body) is None


def test_what_can_not_be_read_is_an_error():
    plan, _ = one_input(pair())
    with pytest.raises(RequestError, match="not JSON"):
        plan.values_of(b"application/json", b"{")


def test_models_of_different_inputs_can_not_share_one():
    plan, _ = one_input({"grey": untrained(PICTURE, EDL()), "colour": untrained(COLOUR, EDL())})
    assert not plan.is_possible
    plan, _ = one_input(pair())
    assert plan.is_possible


def test_answers_of_many_classes_are_left_to_others():
    model = untrained(PICTURE, EDL())
    many = replace(model, classes=tuple(map(str, range(501))))
    plan, _ = one_input({"many": many})
    assert not plan.is_possible


def test_the_answer_is_what_the_usual_encoding_gives():
    plan, models = one_input(pair())
    answers = [Answer(b'"answer":"cat"}', None)]
    waiting = SimpleNamespace(answers=dict.fromkeys(models, answers))
    expected = [encode_result(model.name, ["1"], answers, FIELDS, {}) for model in models]
    assert plan.encode(waiting) == encode_results(expected)
    assert json.loads(plan.encode(waiting))["results"][1]["opinions"] == [{"name": "1", "answer": "cat"}]
