import torch

from nescio.encoders import MLPSpec
from nescio.methods import FFGU, FFLU, Batch
from nescio.methods.baselines._bayesian import bayesian_layers, log_uniform_divergence


def test_it_differs_from_ffgu_in_its_prior():
    mean, log_sigma = torch.tensor([0.3, -1.0]), torch.tensor([-2.0, 0.5])
    assert FFLU.prior_divergence(mean, log_sigma) == log_uniform_divergence(mean, log_sigma)
    assert FFLU.prior_divergence(mean, log_sigma) != FFGU.prior_divergence(mean, log_sigma)
    assert (FFLU.name, FFLU.requires, FFLU.is_stochastic) == ("fflu", FFGU.requires, True)


def test_fflu_leaves_what_does_not_matter_undecided():
    torch.manual_seed(0)
    method = FFLU()
    module = method.build(MLPSpec(2, 2, hidden=()))
    inputs = torch.randn(256, 2)
    batch = Batch(inputs, (inputs[:, 0] > 0).long())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.02)
    for _ in range(500):
        optimizer.zero_grad()
        method.objective(module, batch, 1.0, 256)[0].backward()
        optimizer.step()
    (layer,) = bayesian_layers(module)
    log_ratio = 2 * layer.weight_log_sigma - layer.weight.square().log()
    useful, useless = log_ratio.detach().amin(0).tolist()
    assert useful < -2
    assert useless > 0
