"""The exponential moving average of weights."""

import pytest
import torch
from torch import nn

from nescio.training._average import SOON, WeightAverage


def test_the_average_is_what_its_formula_says():
    module = nn.Linear(1, 1, bias=False)
    average = WeightAverage(module, decay=0.5)
    expected = module.weight.item()
    for step in range(1, 30):
        with torch.no_grad():
            module.weight.fill_(step)
        average.update()
        decay = min(0.5, step / (step + SOON))
        expected = decay * expected + (1 - decay) * step
    with average.in_place():
        assert module.weight.item() == pytest.approx(expected, rel=1e-6)
    assert module.weight.item() == 29
    average.put_in()
    assert module.weight.item() == pytest.approx(expected, rel=1e-6)


def test_buffers_are_averaged_and_counters_are_left_alone():
    module = nn.BatchNorm1d(2)
    average = WeightAverage(module, decay=0.9)
    module(torch.tensor([[1.0, 10.0], [3.0, 30.0]]))
    average.update()
    with average.in_place():
        assert int(module.num_batches_tracked) == 1
        # running_mean went from 0 to 0.1 * (2, 20); the first average keeps 1 / (1 + SOON) of the 0.
        kept = SOON / (1 + SOON)
        assert module.running_mean.tolist() == pytest.approx([0.2 * kept, 2.0 * kept])


def test_packed_and_unpacked_it_goes_on():
    module = nn.Linear(3, 2)
    average = WeightAverage(module, decay=0.9)
    average.update()
    other = WeightAverage(nn.Linear(3, 2), decay=0.9)
    other.unpack(average.pack())
    assert other.steps == 1
    packed = other.pack()
    for name, value in average.pack().items():
        assert torch.equal(packed[name], value)
