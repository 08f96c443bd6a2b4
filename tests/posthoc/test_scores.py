import math

import pytest
import torch
from tests.references import naive_knn, naive_mahalanobis, naive_vim

from nescio.errors import InputError, NotFiniteError
from nescio.metrics import detection
from nescio.posthoc.scores import (
    LOGIT_SCORES,
    KNNScore,
    MahalanobisScore,
    ViMScore,
    energy_score,
    max_probability_score,
)

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(30, 5, generator=GENERATOR, dtype=torch.float64) * 3
TRAIN = torch.randn(200, 6, generator=GENERATOR, dtype=torch.float64) * torch.arange(1.0, 7.0)
LABELS = torch.arange(200) % 4
TRAIN += torch.eye(6, dtype=torch.float64)[LABELS] * 8
NEW = torch.randn(25, 6, generator=GENERATOR, dtype=torch.float64) * 5
WEIGHT = torch.randn(4, 6, generator=GENERATOR, dtype=torch.float64)
BIAS = torch.randn(4, generator=GENERATOR, dtype=torch.float64)


def test_scores_of_logits_are_those_of_the_formulas():
    for row, values in zip(
        LOGITS.tolist(), zip(*(f(LOGITS) for f in LOGIT_SCORES.values()), strict=True), strict=True
    ):
        exponentials = [math.exp(z) for z in row]
        p = [e / sum(exponentials) for e in exponentials]
        expected = {
            "max_probability": 1 - max(p),
            "entropy": -sum(q * math.log(q) for q in p),
            "max_logit": -max(row),
            "energy": -math.log(sum(exponentials)),
        }
        for name, value in zip(LOGIT_SCORES, values, strict=True):
            assert float(value) == pytest.approx(expected[name])


def test_energy_has_a_temperature():
    expected = [-2.5 * math.log(sum(math.exp(z / 2.5) for z in row)) for row in LOGITS.tolist()]
    assert energy_score(LOGITS, 2.5).tolist() == pytest.approx(expected)


def test_large_logits_do_not_overflow_and_the_surest_are_told_apart():
    large = torch.tensor([[1e4, -1e4], [80.0, 0.0], [40.0, 0.0]])
    for function in LOGIT_SCORES.values():
        assert function(large).isfinite().all()
    surest = max_probability_score(large[1:])
    assert 0 < surest[0] < surest[1] < 1e-15


@pytest.mark.parametrize("k", [1, 5, 200])
def test_knn_is_the_distance_by_looking_at_all(k):
    score = KNNScore.fit(TRAIN, k)
    expected = [naive_knn(TRAIN.tolist(), row, k) for row in NEW.tolist()]
    assert score(NEW).tolist() == pytest.approx(expected)


def test_knn_is_the_same_in_chunks(monkeypatch):
    whole = KNNScore.fit(TRAIN)(NEW)
    monkeypatch.setattr("nescio.posthoc.scores._CHUNK", 7)
    assert torch.allclose(KNNScore.fit(TRAIN)(NEW), whole)


def test_mahalanobis_is_the_distance_by_the_formula():
    score = MahalanobisScore.fit(TRAIN, LABELS)
    expected = [naive_mahalanobis(TRAIN, LABELS, row) for row in NEW]
    assert score(NEW).tolist() == pytest.approx(expected, rel=1e-6)
    assert MahalanobisScore.fit(TRAIN.float(), LABELS)(NEW.float()).tolist() == pytest.approx(
        expected, rel=1e-3
    )


def test_mahalanobis_takes_features_that_never_vary():
    flat = torch.cat([TRAIN, torch.ones(200, 2)], 1)
    new = torch.cat([NEW, torch.ones(25, 2)], 1)
    expected = MahalanobisScore.fit(TRAIN, LABELS)(NEW)
    assert torch.allclose(MahalanobisScore.fit(flat, LABELS)(new), expected, rtol=1e-5)
    off = new.clone()
    off[:, -1] = 2
    assert (MahalanobisScore.fit(flat, LABELS)(off) > 1e3 * expected).all()


def test_vim_is_that_of_the_paper():
    train_logits = TRAIN @ WEIGHT.T + BIAS
    logits = NEW @ WEIGHT.T + BIAS
    score = ViMScore.fit(TRAIN, train_logits, WEIGHT, BIAS, dimensions=4)
    expected = [
        naive_vim(TRAIN, train_logits, WEIGHT, BIAS, row, out, 4)
        for row, out in zip(NEW, logits, strict=True)
    ]
    assert score(NEW, logits).tolist() == pytest.approx(expected)
    without = ViMScore.fit(TRAIN, train_logits, WEIGHT, dimensions=4)
    assert without.origin.tolist() == [0] * 6


def test_vim_without_a_last_layer_looks_from_the_mean():
    score = ViMScore.fit(TRAIN, LOGITS[:1].expand(200, 5))
    assert torch.allclose(score.origin, TRAIN.mean(0))
    assert score.residual.shape == (6, 3)


@pytest.mark.parametrize(("width", "dimensions"), [(10, 5), (768, 512), (2048, 1000)])
def test_vim_takes_the_published_dimensions(width, dimensions):
    features = torch.randn(5, width, generator=torch.Generator().manual_seed(1))
    assert ViMScore.fit(features, torch.zeros(5, 2)).residual.shape == (width, width - dimensions)


def test_vim_without_a_residual_is_the_energy():
    line = torch.linspace(-1, 1, 50)[:, None] * torch.tensor([[1.0, 0.0]])
    score = ViMScore.fit(line, torch.zeros(50, 2), dimensions=1)
    assert score(torch.tensor([[0.5, 0.0]]), torch.zeros(1, 2)).item() == pytest.approx(
        -math.log(2), abs=1e-3
    )


def test_all_tell_far_inputs_from_near_ones():
    far = TRAIN.mean(0) + torch.tensor([0.0, 0, 0, 0, 0, 90.0]) + 0.1 * NEW
    near = TRAIN[:25] + 0.1 * NEW
    logits_near, logits_far = near @ WEIGHT.T, 0.01 * far @ WEIGHT.T
    vim = ViMScore.fit(TRAIN, TRAIN @ WEIGHT.T, WEIGHT, dimensions=5)
    pairs = {
        "mahalanobis": (MahalanobisScore.fit(TRAIN, LABELS)(near), MahalanobisScore.fit(TRAIN, LABELS)(far)),
        "vim": (vim(near, logits_near), vim(far, logits_far)),
    }
    for name, function in LOGIT_SCORES.items():
        pairs[name] = (function(logits_near), function(logits_far))
    for name, (known, ood) in pairs.items():
        assert detection(known, ood).auroc > 0.9, name


# -------------------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize("function", LOGIT_SCORES.values(), ids=LOGIT_SCORES)
def test_refuses_what_are_no_logits(function):
    with pytest.raises(InputError, match="logits must be a tensor of floating point numbers, got int64"):
        function(torch.ones(2, 2, dtype=torch.long))
    with pytest.raises(InputError, match="logits must have two or more classes"):
        function(torch.ones(2, 1))
    with pytest.raises(NotFiniteError, match="logits must be finite, got NaN or infinity"):
        function(torch.tensor([[math.nan, 1.0]]))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: energy_score(LOGITS, 0), "temperature must be above 0, got 0"),
        (lambda: energy_score(LOGITS, -1), "temperature must be a number from 0 on, got -1"),
        (lambda: KNNScore.fit(TRAIN, 201), "k must be a whole number from 1 to 200, got 201"),
        (lambda: KNNScore.fit(TRAIN[0]), r"features must be a tensor of floating point numbers \(N, F\)"),
        (lambda: KNNScore.fit(TRAIN[:0]), r"features must be one row or more, got float64 \(0, 6\)"),
        (lambda: KNNScore.fit(TRAIN)(NEW[:, :2]), r"features must be \(N, 6\) like those of training"),
        (lambda: MahalanobisScore.fit(TRAIN, LABELS[:9]), r"labels must be whole numbers \(200,\)"),
        (lambda: MahalanobisScore.fit(TRAIN, LABELS.float()), "labels must be whole numbers .* got float32"),
        (
            lambda: MahalanobisScore.fit(torch.ones(8, 3), torch.arange(8) % 2),
            "features must differ within a class, got the same for all samples of each",
        ),
        (lambda: ViMScore.fit(TRAIN, LOGITS), "logits must be 200, one for each row of features, got 30"),
        (
            lambda: ViMScore.fit(TRAIN[:30], LOGITS, dimensions=6),
            "dimensions must be a whole number from 0 to 5, got 6",
        ),
        (
            lambda: ViMScore.fit(TRAIN[:30], LOGITS, WEIGHT.T),
            r"weight must be \(K, 6\), got float64 \(6, 4\)",
        ),
        (
            lambda: ViMScore.fit(TRAIN[:30], LOGITS, WEIGHT, BIAS[:1]),
            r"bias must be \(4,\), got float64 \(1,\)",
        ),
        (lambda: ViMScore.fit(TRAIN[:30], LOGITS)(NEW, LOGITS), "logits must be 25, one for each row"),
    ],
)
def test_refuses_what_does_not_fit(call, message):
    with pytest.raises(InputError, match=message):
        call()


@pytest.mark.parametrize("offset", [10.0, 1000.0])
def test_mahalanobis_loses_few_digits_far_from_zero(offset):
    # Ten of 64 directions vary: what whitening makes of rounding in the others must not count.
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(500, 10, generator=generator) @ torch.randn(10, 64, generator=generator) + offset
    labels = torch.arange(500) % 4
    expected = MahalanobisScore.fit(features.double(), labels)(features.double())
    found = MahalanobisScore.fit(features, labels)(features)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("fit", [KNNScore.fit, lambda f: MahalanobisScore.fit(f, LABELS)])
def test_refuses_features_that_are_not_finite(fit):
    broken = TRAIN.clone()
    broken[4, 2] = math.inf
    with pytest.raises(NotFiniteError, match="features must be finite, got NaN or infinity"):
        fit(broken)
    with pytest.raises(NotFiniteError, match="features must be finite"):
        fit(TRAIN)(broken)
