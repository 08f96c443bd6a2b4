"""Batch by batch, and over two processes, the classes give what the functions give at once."""

import json
import subprocess
import sys

import pytest
import torch
from tests.processes import environment
from torchmetrics import MetricCollection

from nescio import AbstentionRule, Categorical, InputError, Opinion, _precision, metrics
from nescio.metrics import streaming

CLASSES = 4


def opinions(count, seed=0, scale=1.0):
    """Evidence of any strength, some of it none at all; labels that are often the most likely class."""
    generator = torch.Generator().manual_seed(seed)
    evidence = scale * torch.randn(count, CLASSES, generator=generator).mul(1.5).exp()
    evidence[::7] = 0.0
    guessed = torch.randint(CLASSES, (count,), generator=generator)
    is_right = torch.rand(count, generator=generator) < 0.7
    return Opinion(evidence), torch.where(is_right, evidence.argmax(1), guessed)


def right(prediction, labels):
    return (prediction.labels == labels) & ~prediction.is_vacuous


# Each class beside what it must give, by the functions.
EXPECTED = {
    "accuracy": (streaming.Accuracy(), metrics.accuracy),
    "raw": (streaming.RawAccuracy(), metrics.raw_accuracy),
    "answered": (streaming.AnsweredShare(), lambda p, y: metrics.answered_share(p)),
    "answered_accuracy": (streaming.AnsweredAccuracy(), metrics.answered_accuracy),
    "nll": (streaming.NegativeLogLikelihood(), metrics.negative_log_likelihood),
    "brier": (streaming.BrierScore(), metrics.brier_score),
    "ece": (streaming.ExpectedCalibrationError(), metrics.expected_calibration_error),
    "ece_5": (
        streaming.ExpectedCalibrationError(bins=5),
        lambda p, y: metrics.expected_calibration_error(p, y, bins=5),
    ),
    "uncertainty": (streaming.MeanUncertainty(), lambda p, y: float(p.uncertainty.mean())),
    "entropy": (streaming.MeanUncertainty("entropy"), lambda p, y: float(p.entropy().mean())),
    "accepted_accuracy": (
        streaming.AcceptedAccuracy(0.4),
        lambda p, y: metrics.accuracy_against_threshold(p, y, torch.tensor([0.4])).accuracy.item(),
    ),
    "accepted": (
        streaming.AcceptedShare(0.4),
        lambda p, y: metrics.accuracy_against_threshold(p, y, torch.tensor([0.4])).coverage.item(),
    ),
    "aurc": (
        streaming.AreaUnderRiskCoverage(),
        lambda p, y: metrics.area_under_risk_coverage(p.uncertainty, right(p, y)),
    ),
    "augrc": (
        streaming.AreaUnderGeneralizedRiskCoverage("entropy"),
        lambda p, y: metrics.area_under_generalized_risk_coverage(p.entropy(), right(p, y)),
    ),
    "excess": (streaming.ExcessArea(), lambda p, y: metrics.excess_area(p.uncertainty, right(p, y))),
    "confusion": (streaming.ConfusionMatrix(CLASSES), metrics.confusion_matrix),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_batches_give_what_the_function_gives_at_once(name):
    metric, function = EXPECTED[name]
    prediction, labels = opinions(120)
    metric.reset()
    for rows in torch.arange(120).split(37):  # batches of unequal size
        metric.update(prediction[rows], labels[rows])
    expected = torch.as_tensor(function(prediction, labels))
    torch.testing.assert_close(metric.compute(), expected, check_dtype=False, rtol=1e-6, atol=1e-7)
    metric.reset()
    metric.update(prediction[:10], labels[:10])
    expected = torch.as_tensor(function(prediction[:10], labels[:10]))
    torch.testing.assert_close(
        metric.compute(), expected, check_dtype=False, rtol=1e-6, atol=1e-7, equal_nan=True
    )


def test_all_public_classes_are_compared():
    compared = {type(metric).__name__ for metric, _ in EXPECTED.values()}
    assert compared | {"OODDetection"} == set(streaming.__all__)


def test_ood_detection_by_any_measure():
    known, _ = opinions(50)
    ood, _ = opinions(30, seed=1, scale=0.2)
    expected = metrics.detection_by_measure(known, ood)
    for measure in ("uncertainty", "mutual_information"):
        metric = streaming.OODDetection(measure)
        metric.update(known[:20], is_ood=False)
        both = Opinion(torch.cat([known.evidence[20:], ood.evidence]))
        metric.update(both, is_ood=torch.arange(60) >= 30)
        found = metric.compute()
        for name in ("auroc", "aupr", "fpr95"):
            assert float(found[name]) == pytest.approx(getattr(expected[measure], name), abs=1e-7)


def test_a_collection_gives_labels_to_all():
    prediction, labels = opinions(40)
    several = MetricCollection(
        [
            streaming.Accuracy(),
            streaming.MeanUncertainty(),
            streaming.AcceptedShare(),
            streaming.AnsweredShare(),
        ]
    )
    several.update(prediction, labels)
    found = several.compute()
    assert float(found["Accuracy"]) == pytest.approx(metrics.accuracy(prediction, labels))
    assert float(found["AcceptedShare"]) == pytest.approx(
        float((prediction.uncertainty <= 0.5).float().mean())
    )


@pytest.mark.parametrize("num_classes", [2, 6, 7, 12])
def test_equal_probabilities_are_accepted_at_one_as_the_function_accepts_them(num_classes):
    even = Categorical(torch.full((3, num_classes), 1 / num_classes))
    labels = torch.tensor([0, 1, 0])
    share = streaming.AcceptedShare(1.0)
    accuracy = streaming.AcceptedAccuracy(1.0)
    share.update(even)
    accuracy.update(even, labels)
    curve = metrics.accuracy_against_threshold(even, labels, torch.ones(1))
    assert float(share.compute()) == curve.coverage.item() == 1.0
    assert float(accuracy.compute()) == pytest.approx(curve.accuracy.item())
    assert float(accuracy.compute()) == pytest.approx(2 / 3)


def test_an_uncertainty_that_equals_the_threshold_is_accepted():
    metric = streaming.AcceptedShare()
    metric.update(Opinion(torch.tensor([[1.0, 1.0], [1.0, 0.9]])))  # u = 2 / S: 0.5 and a little more
    assert float(metric.compute()) == 0.5


def test_a_rule_decides_instead_of_a_threshold():
    prediction, labels = opinions(400)
    rule = AbstentionRule.for_coverage(prediction, labels, 0.5)
    accepted = rule.accept(prediction)
    accuracy = streaming.AcceptedAccuracy(rule=rule)
    share = streaming.AcceptedShare(rule=rule)
    accuracy.update(prediction, labels)
    share.update(prediction)
    assert float(share.compute()) == pytest.approx(float(accepted.float().mean()))
    assert float(accuracy.compute()) == pytest.approx(
        float(right(prediction, labels)[accepted].float().mean()), abs=1e-6
    )


def test_a_categorical_and_predictions_of_pixels():
    prediction = Categorical(torch.tensor([[[0.9, 0.1], [0.2, 0.8]], [[0.6, 0.4], [0.5, 0.5]]]))
    labels = torch.tensor([[0, 0], [0, 1]])
    metric = streaming.Accuracy()
    metric.update(prediction, labels)
    assert float(metric.compute()) == metrics.accuracy(prediction, labels) == 0.5
    area = streaming.AreaUnderRiskCoverage()
    area.update(prediction, labels)
    expected = metrics.area_under_risk_coverage(prediction.uncertainty, right(prediction, labels))
    assert float(area.compute()) == pytest.approx(expected)


def test_where_nothing_is_accepted_or_answered_the_accuracy_is_nan():
    nothing = Opinion(torch.zeros(2, 3))
    for metric in (streaming.AcceptedAccuracy(0.5), streaming.AnsweredAccuracy()):
        metric.update(nothing, torch.tensor([0, 1]))
        assert metric.compute().isnan()


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
@pytest.mark.parametrize(
    "metric", [streaming.Accuracy(), streaming.ExpectedCalibrationError(), streaming.OODDetection()]
)
def test_without_a_sample_there_is_no_figure(metric):
    metric.reset()
    with pytest.raises(InputError, match="one sample or more: call update before compute"):
        metric.compute()


def test_what_does_not_fit_is_refused():
    prediction, labels = opinions(6)
    with pytest.raises(InputError, match="labels must be a tensor of whole numbers of shape"):
        streaming.Accuracy().update(prediction, labels[:4])
    with pytest.raises(InputError, match="prediction must be of 3 classes, got 4"):
        streaming.ConfusionMatrix(3).update(prediction, labels)
    with pytest.raises(InputError, match="is_ood must be True, False or bool"):
        streaming.OODDetection().update(prediction, labels)
    with pytest.raises(InputError, match="measure must be one of entropy"):
        streaming.MeanUncertainty("doubt")
    with pytest.raises(InputError, match="rule must be an AbstentionRule"):
        streaming.AcceptedShare(rule=0.5)
    with pytest.raises(InputError, match="bins must be a whole number from 1 on"):
        streaming.ExpectedCalibrationError(bins=0)


def test_a_device_without_float64_is_given_none(monkeypatch):
    metric = streaming.Accuracy()
    monkeypatch.setattr(_precision, "no_float64_anywhere", True)
    metric.to("cpu")
    assert metric.total.dtype == torch.float32
    prediction, labels = opinions(30)
    metric.update(prediction, labels)
    assert metric.total.dtype == torch.float32
    assert float(metric.compute()) == pytest.approx(metrics.accuracy(prediction, labels), abs=1e-6)
    moved = []

    def to_device(tensor):
        moved.append(tensor.dtype)
        return tensor

    streaming.Accuracy()._apply(to_device)
    assert torch.float64 not in moved
    metric.reset()
    assert metric.total.dtype == torch.float32


TWO_PROCESSES = """
import json, sys, torch
torch.distributed.init_process_group("gloo")
rank = torch.distributed.get_rank()
from tests.metrics.test_streaming import EXPECTED, opinions
from nescio.metrics.streaming import OODDetection
prediction, labels = opinions(91)
mine = torch.arange(91)[:60] if rank == 0 else torch.arange(91)[60:]  # of unequal length
found = {}
for name, (metric, _) in EXPECTED.items():
    for rows in mine.split(25):
        metric.update(prediction[rows], labels[rows])
    found[name] = metric.compute().tolist()
ood = OODDetection()
ood.update(prediction[mine], is_ood=rank == 1)  # each process has samples of one kind alone
found["ood"] = {name: float(value) for name, value in ood.compute().items()}
open(sys.argv[1] + str(rank), "w").write(json.dumps(found))
"""


def test_two_processes_give_what_one_gives(tmp_path):
    script = tmp_path / "two.py"
    script.write_text(TWO_PROCESSES)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*launch, str(script), str(tmp_path / "found")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    prediction, labels = opinions(91)
    for rank in range(2):
        found = json.loads((tmp_path / f"found{rank}").read_text())
        for name, (_, function) in EXPECTED.items():
            expected = torch.as_tensor(function(prediction, labels))
            torch.testing.assert_close(
                torch.tensor(found[name]), expected, check_dtype=False, rtol=1e-6, atol=1e-7
            )
        of_ood = metrics.detection(prediction.uncertainty[:60], prediction.uncertainty[60:])
        assert found["ood"]["auroc"] == pytest.approx(of_ood.auroc, abs=1e-7)
        assert found["ood"]["fpr95"] == pytest.approx(of_ood.fpr95, abs=1e-7)
