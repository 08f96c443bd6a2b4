"""What an epoch came to, summed over its batches."""

import pytest
import torch

from nescio.methods import EDL, Batch, Softmax
from nescio.training._runtime import make_fabric
from nescio.training._totals import EpochTotals


def test_means_are_over_samples_and_losses_over_weights():
    fabric = make_fabric("cpu", "float32")
    totals = EpochTotals()
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]])
    first = Batch(torch.zeros(3, 1), torch.tensor([0, 0, 0]), torch.tensor([1.0, 1.0, 2.0]))
    totals.add(Softmax(), torch.tensor(0.5), logits, first)
    second = Batch(torch.zeros(1, 1), torch.tensor([1]), torch.tensor([4.0]))
    totals.add(Softmax(), torch.tensor(2.0), logits[1:2], second)
    means = totals.means(fabric)
    assert means["loss"] == pytest.approx((0.5 * 4 + 2.0 * 4) / 8)
    assert means["accuracy"] == 3 / 4
    assert totals.greatest(fabric) is None


def test_the_greatest_evidence_is_kept_also_of_what_does_not_count():
    fabric = make_fabric("cpu", "float32")
    totals = EpochTotals()
    batch = Batch(torch.zeros(2, 1), torch.tensor([0, 1]))
    relu = EDL(evidence="relu")
    totals.add(relu, torch.tensor(1.0), torch.tensor([[2.0, -1.0], [0.5, -3.0]]), batch)
    totals.add(relu, torch.tensor(1.0), torch.tensor([[1.0, 7.0], [0.5, -3.0]]), batch, counts=False)
    assert totals.greatest(fabric).tolist() == [2, 7]
    assert totals.means(fabric)["loss"] == 1.0
