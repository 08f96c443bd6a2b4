"""Data that the tests of several modules train on."""

import os

import pytest
import torch

from nescio.data import Dataset, load


@pytest.fixture(scope="package")
def digits(session_cache) -> Dataset:
    """600 digits of scikit-learn, 28 x 28."""
    os.environ["NESCIO_CACHE"] = str(session_cache)
    return load("digits").subset(600, torch.Generator().manual_seed(0))
