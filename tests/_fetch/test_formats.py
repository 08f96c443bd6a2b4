import numpy as np

from nescio._fetch.formats import idx_bytes


def test_idx_header_is_the_published_format():
    assert idx_bytes(np.zeros((2, 3, 4), np.uint8))[:16] == bytes.fromhex("00000803000000020000000300000004")
