"""The OpenAPI document and the application: schemathesis tries what the document allows, and more."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from tests.data.preprocess.words import WORDS
from tests.inference.small_texts import BagOfWordsSpec
from tests.serve.helpers import PICTURE, ROWS, untrained

from nescio.data import RowPreprocess, TableSchema, TextPreprocess
from nescio.data._columns import CategoryColumn, NumberColumn
from nescio.encoders import MLPSpec
from nescio.inference.model import TrainedModel
from nescio.methods import EDL, Softmax
from nescio.serve._openapi import _row_schema
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

rows = create_app(
    {"edl": untrained(ROWS, EDL()), "softmax": untrained(ROWS, Softmax())}, Limits(max_inputs=20)
)
SCHEMA = TableSchema(
    (NumberColumn("height", filled=5.0), CategoryColumn("colour", ("blue", "red"), has_gaps=True))
)
FLOWERS = TrainedModel(
    EDL().build(MLPSpec(5, 3, hidden=(8,))),
    EDL(),
    ("a", "b", "c"),
    RowPreprocess((5,), (0.0,) * 5, (1.0,) * 5, SCHEMA),
    MLPSpec(5, 3, hidden=(8,)),
)
TEXTS = TrainedModel(
    BagOfWordsSpec().build(), EDL(), ("a", "b", "c"), TextPreprocess(WORDS, 4), BagOfWordsSpec()
)
flowers = create_app({"flowers": FLOWERS}, Limits(max_inputs=20))
texts = create_app({"texts": TEXTS}, Limits(max_inputs=20))
pictures = create_app({"edl": untrained(PICTURE, EDL())}, Limits(max_inputs=2))


schemathesis.serializer.alias("application/x-npy", "application/octet-stream")


def call(case, *excluded):
    # A schema can't say how many bytes an array has: that others are refused is no fault.
    if case.media_type in ("application/octet-stream", "application/x-npy"):
        excluded = (*excluded, positive_data_acceptance)
    case.call_and_validate(excluded_checks=list(excluded))


def test_a_gap_is_allowed_where_training_saw_one():
    columns = (CategoryColumn("a", ("x", "y"), has_gaps=True), CategoryColumn("b", ("x", "y")))
    properties = _row_schema(TableSchema(columns))["properties"]
    assert "null" in properties["a"]["type"]
    assert "null" not in properties["b"]["type"]


def some(examples):
    """The same examples in every run."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.explicit, Phase.generate],
    )


@schemathesis.openapi.from_asgi("/openapi.json", rows).parametrize()
@some(25)
def test_rows(case):
    # Of several rows, one that does not fit has an error of its own, and the others are answered.
    call(case, negative_data_rejection)


@pytest.mark.filterwarnings("ignore::nescio.NescioWarning")
@schemathesis.openapi.from_asgi("/openapi.json", flowers).parametrize()
@some(15)
def test_rows_by_name(case):
    call(case, negative_data_rejection)


@pytest.mark.filterwarnings("ignore::nescio.NescioWarning")
@schemathesis.openapi.from_asgi("/openapi.json", texts).parametrize()
@some(15)
def test_texts(case):
    call(case, negative_data_rejection)


@schemathesis.openapi.from_asgi("/openapi.json", pictures).include(path="/v1/opinions").parametrize()
@some(6)
def test_pictures(case):
    # A schema can't say which bytes are a picture: that others are refused is no fault.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
