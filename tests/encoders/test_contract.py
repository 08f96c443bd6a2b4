"""What every encoder must do. One joins by being registered; `nescio.testing` has the checks."""

import pytest

from nescio.encoders import ENCODERS, InputKind, make_encoder
from nescio.testing import ENCODER_CHECKS

SHAPES = {InputKind.IMAGES: (1, 16, 18), InputKind.ROWS: (5,)}


@pytest.mark.parametrize("check", ENCODER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", ENCODERS)
def test_contract(name, check):
    check(make_encoder(name, SHAPES[ENCODERS.get(name).inputs], 3))
