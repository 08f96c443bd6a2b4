"""What every method must do. One joins by being registered; `nescio.testing` has the checks."""

import dataclasses

import pytest

from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import METHODS, make_method
from nescio.testing import METHOD_CHECKS, _learns_and_lasts

SPECS = {
    "lenet": LeNetSpec(1, 16, 16, 10, filters=(4, 6), hidden=16),
    "mlp": MLPSpec(5, 2, hidden=(8,)),
}
# Few passes and short flows, for speed.
WANTED = {"samples": 3, "num_members": 2, "flow_length": 2}


def made(name, wanted=WANTED):
    fields = {field.name for field in dataclasses.fields(METHODS.get(name))}
    return make_method(name, **{key: value for key, value in wanted.items() if key in fields})


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("check", METHOD_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", METHODS)
def test_contract(name, check, spec):
    wanted = dict(WANTED)
    if check is _learns_and_lasts:
        wanted["warm_up_epochs"] = 100  # these data are too few to outweigh a prior
    method = made(name, wanted)
    check(method, method.default_encoder(SPECS[spec]))
