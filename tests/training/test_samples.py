import pytest
import torch

import nescio as ev
from nescio.training import Samples


@pytest.mark.parametrize(("inputs", "labels"), [(0, 0), (3, 2)])
def test_samples_that_do_not_fit(inputs, labels):
    with pytest.raises(ev.DataError, match=f"a training needs samples, got {inputs} with {labels} labels"):
        Samples(torch.zeros(inputs, 2), torch.zeros(labels, dtype=torch.long))


def test_some_of_them_keep_their_weights():
    samples = Samples(torch.arange(8.0).view(4, 2), torch.tensor([0, 1, 2, 3]), torch.tensor([1.0, 2, 3, 4]))
    some = samples.take(torch.tensor([3, 1]))
    assert some.labels.tolist() == [3, 1]
    assert some.inputs.tolist() == [[6, 7], [2, 3]]
    assert some.total_weight == 6
    assert samples.input_range.tolist() == [6, 6]
