import math

import pytest
import torch
from sklearn.metrics import confusion_matrix as reference
from sklearn.metrics import precision_recall_fscore_support
from tests.metrics.naive import opinions, random_opinion, random_prediction

from nescio.errors import InputError
from nescio.metrics import class_measures, confusion_matrix


def test_as_scikit_learn_counts():
    prediction = random_prediction(200, 5, seed=1)
    labels = torch.randint(0, 5, (200,), generator=torch.Generator().manual_seed(2))
    assert confusion_matrix(prediction, labels).tolist() == reference(labels, prediction.labels).tolist()
    precision, recall, _, count = precision_recall_fscore_support(labels, prediction.labels)
    found = class_measures(prediction, labels)
    assert found.precision.tolist() == pytest.approx(precision.tolist())
    assert found.recall.tolist() == pytest.approx(recall.tolist())
    assert found.count.tolist() == count.tolist()


def test_uncertainty_is_averaged_over_the_true_class():
    prediction = random_opinion(60, 3, seed=3)
    labels = torch.arange(60) % 3
    found = class_measures(prediction, labels).mean_uncertainty
    for label in range(3):
        assert float(found[label]) == pytest.approx(float(prediction.uncertainty[labels == label].mean()))


def test_what_is_not_accepted_is_not_counted():
    prediction = random_prediction(200, 5, seed=1)
    labels = torch.arange(200) % 5
    accepted = torch.arange(200) % 3 > 0
    found = confusion_matrix(prediction, labels, accepted)
    assert found.tolist() == reference(labels[accepted], prediction.labels[accepted]).tolist()
    with pytest.raises(InputError, match=r"accepted must be a bool tensor of shape \(200,\), got int64"):
        confusion_matrix(prediction, labels, labels)


def test_no_evidence_is_no_answer():
    prediction = opinions([[4.0, 0.0], [0.0, 0.0], [0.0, 0.0]])
    labels = torch.tensor([0, 0, 1])
    assert confusion_matrix(prediction, labels).tolist() == [[1, 0], [0, 0]]
    found = class_measures(prediction, labels)
    assert found.recall.tolist() == [0.5, 0.0]
    assert found.precision[0] == 1
    assert math.isnan(found.precision[1])


def test_a_class_without_samples():
    prediction = opinions([[4.0, 0.0, 1.0], [4.0, 0.0, 0.0]])
    found = class_measures(prediction, torch.tensor([0, 0]))
    assert found.count.tolist() == [2, 0, 0]
    assert math.isnan(found.recall[2])
    assert math.isnan(found.mean_uncertainty[2])


def test_labels_that_do_not_fit():
    with pytest.raises(InputError, match=r"labels must be 0 to 1, got 0 to 2"):
        confusion_matrix(opinions([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 2]))
