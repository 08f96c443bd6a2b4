"""Data that the tests of several modules train on."""

import pytest
import torch

from nescio.data import Dataset, load


@pytest.fixture(scope="package")
def digits() -> Dataset:
    """600 digits of scikit-learn, 28 x 28."""
    return load("digits").subset(600, torch.Generator().manual_seed(0))
