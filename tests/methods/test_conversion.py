from collections import UserDict

import pytest
import torch
from torch import nn

import nescio as ev
from nescio.data.preprocess import RowPreprocess
from nescio.encoders import MLPSpec
from nescio.methods import EDL, Softmax
from nescio.methods.conversion import from_softmax
from nescio.training import Samples, TrainingSettings, fit


def centers():
    return 3 * torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def blobs():
    generator = torch.Generator().manual_seed(1)
    labels = torch.arange(400) % 4
    return Samples(centers()[labels] + torch.randn(400, 6, generator=generator), labels)


@pytest.fixture(scope="module")
def softmax(blobs):
    torch.manual_seed(0)
    module = MLPSpec(6, 4).build()
    preprocess = RowPreprocess((6,), (0.0,) * 6, (1.0,) * 6)
    fit(Softmax(), module, preprocess, blobs, TrainingSettings(epochs=15, batch_size=32, learning_rate=1e-2))
    return module


def test_the_answers_stay_and_the_evidence_is_sound(softmax, blobs):
    converted = from_softmax(softmax, blobs.inputs)
    with torch.no_grad():
        before, after = softmax(blobs.inputs), converted(blobs.inputs)
    torch.testing.assert_close(after.softmax(1), before.softmax(1), rtol=1e-3, atol=1e-5)
    moved = (converted[-1].bias - softmax[-1].bias).detach()
    torch.testing.assert_close(after - before, moved[0].expand(400, 4), rtol=0, atol=1e-4)
    assert float(moved.max() - moved.min()) < 1e-5
    assert float(ev.Opinion.from_logits(after.double()).evidence.sum(1).median()) == pytest.approx(
        40, rel=1e-5
    )


def test_the_given_network_is_left_alone(softmax, blobs):
    before = softmax[-1].bias.clone()
    from_softmax(softmax, blobs.inputs)
    assert torch.equal(softmax[-1].bias, before)


def test_a_few_epochs_make_it_evidential(softmax, blobs):
    converted = from_softmax(softmax, blobs.inputs)
    between = centers().mean(0) + torch.randn(200, 6, generator=torch.Generator().manual_seed(2))
    before = opinions(converted, blobs.inputs, between)
    settings = TrainingSettings(epochs=8, batch_size=32, learning_rate=3e-3)
    history = fit(
        EDL(annealing_epochs=2), converted, RowPreprocess((6,), (0.0,) * 6, (1.0,) * 6), blobs, settings
    )
    known, strange = opinions(converted, blobs.inputs, between)
    assert history[-1]["accuracy"] > 0.99
    assert auroc(known.uncertainty, strange.uncertainty) > 0.99
    assert known.uncertainty.median() < 0.01 < before[0].uncertainty.median() < 0.5
    assert strange.uncertainty.median() > 0.9


def opinions(network, *inputs):
    with torch.no_grad():
        return [ev.Opinion.from_logits(network(one)) for one in inputs]


def auroc(known, strange):
    """The chance that a strange input is more uncertain than a known one, by counting all pairs."""
    return float((strange.unsqueeze(1) > known.unsqueeze(0)).double().mean())


def test_a_new_head_for_other_classes(softmax):
    converted = from_softmax(softmax, num_classes=7)
    assert converted(torch.zeros(2, 6)).shape == (2, 7)
    assert torch.equal(converted[0].weight, softmax[0].weight)


class Named(nn.Module):
    """The head is defined first and runs last; a helper runs after it when asked."""

    def __init__(self, after=None, helper=False):
        super().__init__()
        self.head, self.body, self.side = nn.Linear(5, 4), nn.Linear(6, 5), nn.Linear(5, 4)
        self.after, self.helper = after or nn.Identity(), helper

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        logits = self.head(hidden)
        if self.helper:
            self.side(hidden)
        return self.after(logits)


@pytest.mark.parametrize("network", [Named(), Named(helper=True)], ids=["plain", "helper runs last"])
def test_the_sample_finds_the_head(network, blobs):
    converted = from_softmax(network, blobs.inputs)
    changed = [k for k, v in converted.state_dict().items() if not v.equal(network.state_dict()[k])]
    assert changed == ["head.bias"]
    assert from_softmax(network, blobs.inputs, num_classes=7).head.out_features == 7


def test_the_head_by_its_name():
    converted = from_softmax(Named(), head="head", num_classes=3)
    assert (converted.head.out_features, converted.body.out_features) == (3, 5)
    assert converted(torch.zeros(2, 6)).shape == (2, 3)
    nested = from_softmax(nn.Sequential(nn.Linear(6, 4), nn.Sequential(nn.Linear(4, 4))), num_classes=3)
    assert nested(torch.zeros(2, 6)).shape == (2, 3)


def test_parts_held_in_evaluation_stay_so(blobs):
    network = nn.Sequential(nn.BatchNorm1d(6).eval(), nn.Dropout(), nn.Linear(6, 4))
    converted = from_softmax(network, blobs.inputs)
    assert [part.training for part in converted] == [False, True, True]
    assert not converted[2]._forward_hooks


SAMPLE = torch.zeros(2, 6)


class BatchEncoding(UserDict):
    """What a tokenizer gives: a mapping that is no dict."""


TOKENS = BatchEncoding(input_ids=torch.zeros(2, 6), attention_mask=torch.ones(2, 6))


@pytest.mark.parametrize(
    ("convert", "reason"),
    [
        (lambda: from_softmax(nn.Sequential(nn.ReLU())), "must hold an nn.Linear .* got none"),
        (lambda: from_softmax(nn.Linear(3, 2)), "must hold an nn.Linear .* got none"),
        (lambda: from_softmax(nn.Sequential(nn.Linear(6, 4, bias=False)), SAMPLE), "must have a bias"),
        (
            lambda: from_softmax(nn.Sequential(nn.Linear(6, 4), nn.Unflatten(1, (2, 2))), SAMPLE),
            r"must give the logits \(N, K\): the output of 0, \(2, 4\), is not the network's own, \(2, 2, 2",
        ),
        (lambda: from_softmax(Named(nn.LogSoftmax(1)), SAMPLE), "the output of head, .* take off what comes"),
        (lambda: from_softmax(Named(nn.ReLU(inplace=True)), SAMPLE + 1), "the output of head"),
        (lambda: from_softmax(Named(), SAMPLE, head="body"), "the output of body"),
        (lambda: from_softmax(Named(), SAMPLE, head="side"), "the head side took no part"),
        (lambda: from_softmax(Named(), head="tail"), "must name .* head, body, side, got 'tail'"),
        (lambda: from_softmax(Named(), head="after"), "must name an nn.Linear"),
        (lambda: from_softmax(Named()), "more than one nn.Linear, head, body, side: give a sample, or head="),
        (lambda: from_softmax(Named(), SAMPLE / 0), "must be finite"),
        (
            lambda: from_softmax(Named(), TOKENS),
            r"must be one tensor \(N, ...\), got a BatchEncoding of input_ids, attention_mask; .* head=",
        ),
        (lambda: from_softmax(Named(), dict(TOKENS), head="head"), "got a dict of input_ids, attention_mask"),
        (lambda: from_softmax(Named(), [[0.0] * 6]), r"sample must be a tensor \(N, ...\), got list"),
        (lambda: from_softmax(Named(), torch.zeros(2, 5)), r"can't take the sample \(2, 5\): "),
        (lambda: from_softmax(Named(), num_classes=1), "num_classes must be a whole number from 2 on, got 1"),
        (lambda: from_softmax(Named(), num_classes="3"), "num_classes must be a whole number from 2 on"),
        (lambda: from_softmax(Named(), SAMPLE[:0]), "sample must have one input or more, got none"),
    ],
)
def test_what_can_not_be_converted(convert, reason):
    torch.manual_seed(0)
    with pytest.raises(ev.InputError, match=reason):
        convert()
