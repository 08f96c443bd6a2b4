import numpy as np
import pytest
import torch

from nescio.opinions._indexing import at_batch_index

VALUES = torch.arange(24.0).view(2, 3, 4)


@pytest.mark.parametrize(
    "index",
    [0, -1, slice(1), (1, 2), (slice(None), 0), ..., (..., 1), [1, 0], np.array([[True, False, True]] * 2)],
    ids=str,
)
def test_an_index_is_that_of_the_batch(index):
    positions = np.arange(6).reshape(2, 3)[index]
    assert torch.equal(at_batch_index(VALUES, index), VALUES.reshape(6, 4)[torch.as_tensor(positions)])


@pytest.mark.parametrize("index", [2, (0, 0, 0), (slice(None), slice(None), 1)])
def test_an_index_does_not_reach_the_classes(index):
    with pytest.raises(IndexError):
        at_batch_index(VALUES, index)
