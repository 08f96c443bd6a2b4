import torch
from torch import nn

from nescio.training._checkpoint import pack_optimizer, unpack_optimizer


def optimizer_of(weight):
    return torch.optim.Adam([weight], fused=True)


def test_an_optimizer_goes_on_as_if_nothing_had_been():
    weight = nn.Parameter(torch.rand(2, 3, 4, 4).contiguous(memory_format=torch.channels_last))
    optimizer = optimizer_of(weight)
    weight.grad = torch.rand_like(weight)
    optimizer.step()
    again = nn.Parameter(weight.detach().clone(memory_format=torch.preserve_format))
    restored = optimizer_of(again)
    packed = pack_optimizer(optimizer)
    assert sorted(packed) == ["0.exp_avg", "0.exp_avg_sq", "0.step"]
    read = {name: value.clone(memory_format=torch.contiguous_format) for name, value in packed.items()}
    unpack_optimizer(read, restored)
    again.grad = weight.grad.clone(memory_format=torch.preserve_format)
    for each in (optimizer, restored):
        each.step()
    assert torch.equal(again, weight)


def test_without_a_state_nothing_changes():
    optimizer = optimizer_of(nn.Parameter(torch.zeros(2)))
    unpack_optimizer({}, optimizer)
    assert optimizer.state_dict()["state"] == {}
