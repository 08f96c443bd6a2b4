import pytest
import torch
from tests.training.small import squares, stored

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


def test_samples_on_the_disk_are_read_when_they_are_taken():
    samples = squares(20, weighted=True)
    from_disk, rows = stored(samples)
    assert (samples.is_resident, from_disk.is_resident) == (True, False)
    assert (samples.readers, from_disk.readers) == (0, 1)
    assert from_disk.input_size == 400
    assert from_disk.weight_at(torch.tensor([2, 3])) == samples.take(torch.tensor([2, 3])).total_weight
    assert rows.counts == []
    assert torch.equal(from_disk.take(torch.tensor([5, 1])).read(), samples.inputs[[5, 1]])
    assert rows.counts == [2]
    assert torch.equal(from_disk.input_range, samples.input_range)
    assert torch.equal(from_disk.read(), samples.inputs)
