"""The OpenAPI document and the application: schemathesis tries what the document allows, and more."""

import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.specs.openapi.checks import positive_data_acceptance
from tests.serve.helpers import PICTURE, ROWS, untrained

from nescio.methods import EDL, Softmax
from nescio.serve.app import create_app
from nescio.serve.limits import Limits

rows = create_app(
    {"edl": untrained(ROWS, EDL()), "softmax": untrained(ROWS, Softmax())}, Limits(max_inputs=20)
)
pictures = create_app({"edl": untrained(PICTURE, EDL())}, Limits(max_inputs=2))


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
    case.call_and_validate()


@schemathesis.openapi.from_asgi("/openapi.json", pictures).include(path="/v1/opinions").parametrize()
@some(6)
def test_pictures(case):
    # A schema can't say which bytes are a picture: that others are refused is no fault.
    case.call_and_validate(excluded_checks=[positive_data_acceptance])
