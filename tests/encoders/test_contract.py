"""What every encoder must do. One joins by being registered; `nescio.testing` has the checks."""

import pytest

from nescio.encoders import ENCODERS, InputKind, make_encoder
from nescio.testing import ENCODER_CHECKS

SHAPES = {InputKind.IMAGES: (1, 16, 18), InputKind.ROWS: (5,), InputKind.TEXTS: (9,)}
# Of those that need three channels or larger images.
OWN_SHAPES = {"efficientnet-lite0": (3, 32, 34)}
# Those of the package; for hf see test_hf.py, and what other tests have registered is theirs.
OURS = [name for name in ENCODERS if not name.startswith("hf-")]
OURS = [name for name in OURS if ENCODERS.get(name).__module__.startswith("nescio.")]


@pytest.mark.parametrize("check", ENCODER_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", OURS)
def test_contract(name, check):
    shape = OWN_SHAPES.get(name) or SHAPES[ENCODERS.get(name).inputs]
    check(make_encoder(name, shape, 3))
