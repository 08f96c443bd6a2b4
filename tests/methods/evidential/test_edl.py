import pytest
import torch

import nescio as ev
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.methods import EDL, Batch
from nescio.methods._shared import weight_penalty
from nescio.methods.evidential.edl import default_divergence_weight


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return Batch(torch.randn(8, 5), torch.arange(8) % 3)


@pytest.fixture
def module():
    torch.manual_seed(1)
    return MLPSpec(5, 3).build()


def test_edl_minimises_the_evidential_loss(module, batch):
    loss, logits = EDL(weight_decay=0.1).objective(module, batch, epoch=4.0, num_train=100)
    expected = ev.EvidentialLoss()(logits, batch.labels, epoch=4.0) + weight_penalty(module, 0.1)
    torch.testing.assert_close(loss, expected)


def test_the_weight_of_the_divergence_by_classes():
    assert [default_divergence_weight(k) for k in (2, 10, 100, 1000)] == pytest.approx([1, 1, 0.01, 0.0001])
    assert EDL().loss_for(100).divergence_weight == pytest.approx(0.01)
    assert EDL(divergence_weight=0.5).loss_for(100).divergence_weight == 0.5
    assert ev.EvidentialLoss.paper().divergence_weight == 1.0


def test_the_last_biases_start_where_told():
    module = EDL(evidence="relu", output_bias=1.0).build(LeNetSpec(filters=(2, 3), hidden=4))
    assert module[-1].bias.tolist() == [1.0] * 10
    assert not (module[-4].bias == 1.0).any()
