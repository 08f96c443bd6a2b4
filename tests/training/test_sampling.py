"""Classes of unequal size: weights and a sampler."""

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

import nescio as ev
from nescio.training import Samples
from nescio.training._sampling import balanced_order, class_weights, with_class_weights

LABELS = torch.tensor([0] * 70 + [1] * 25 + [2] * 5)


def test_balanced_weights_are_those_of_scikit_learn():
    expected = compute_class_weight("balanced", classes=np.arange(3), y=LABELS.numpy())
    assert class_weights(LABELS, "balanced").tolist() == pytest.approx(expected.tolist())
    assert class_weights(LABELS, None) is None
    assert class_weights(LABELS, (1.0, 2.0, 0.0)).tolist() == [1, 2, 0]
    with pytest.raises(ev.InputError, match="class_weight must have a number for each of 3 classes, got 2"):
        class_weights(LABELS, (1.0, 2.0))


def test_classes_of_held_out_samples_alone_have_a_weight_too():
    assert class_weights(LABELS, "balanced", 5).shape == (5,)
    assert class_weights(LABELS, "balanced", 5)[:3].tolist() == class_weights(LABELS, "balanced").tolist()
    with pytest.raises(ev.InputError, match="class_weight must have a number for each of 5 classes, got 3"):
        class_weights(LABELS, (1.0, 2.0, 3.0), 5)


def test_samples_count_as_their_classes_do_times_what_they_counted_before():
    samples = Samples(torch.zeros(3, 1), torch.tensor([0, 1, 1]), torch.tensor([1.0, 2.0, 3.0]))
    weighted = with_class_weights(samples, torch.tensor([10.0, 0.5]))
    assert weighted.weights.tolist() == [10, 1, 1.5]
    plain = Samples(samples.inputs, samples.labels)
    assert with_class_weights(plain, torch.tensor([10.0, 0.5])).weights.tolist() == [10, 0.5, 0.5]
    assert with_class_weights(plain, None) is plain


def test_a_balanced_order_has_as_many_of_every_class():
    order = balanced_order(LABELS, torch.Generator().manual_seed(0))
    assert len(order) == len(LABELS)
    counts = LABELS[order].bincount()
    assert counts.max() - counts.min() <= 2
    # The few samples of the rare class come alike, but for those that the last places had no room for.
    rare = order[LABELS[order] == 2].bincount(minlength=100)[-5:]
    assert rare.sum() >= 32
    assert rare.max() <= 7
    assert order[LABELS[order] == 0].bincount().max() == 1
    again = balanced_order(LABELS, torch.Generator().manual_seed(0))
    assert torch.equal(order, again)


def test_a_class_without_samples_is_left_out():
    order = balanced_order(torch.tensor([0, 0, 0, 2]), torch.Generator().manual_seed(0))
    assert sorted(order.tolist()) in [sorted([a, b, 3, 3]) for a, b in ((0, 1), (0, 2), (1, 2))]
