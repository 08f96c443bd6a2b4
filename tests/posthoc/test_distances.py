import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from nescio.errors import InputError
from nescio.posthoc import _distances
from nescio.posthoc._distances import FARTHEST, Gaussians, Neighbours, distance_from, fit_distance


def drawn(count, features, seed=0):
    return torch.randn(count, features, generator=torch.Generator().manual_seed(seed)) + 1


def unit(values):
    return values / values.norm(dim=1, keepdim=True)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("is_unit", [True, False])
def test_with_all_directions_the_distance_is_that_to_the_neighbour(k, is_unit):
    known, new = drawn(200, 6), drawn(30, 6, seed=1)
    distance = Neighbours.fit(known, k, is_unit)
    left, right = (unit(new), unit(known)) if is_unit else (new, known)
    expected = np.sort(cdist(left.numpy(), right.numpy()), axis=1)[:, k - 1]
    np.testing.assert_allclose(distance(new).numpy(), expected, atol=6e-3)  # of prototypes in half precision


def test_what_a_projection_leaves_out_makes_an_input_farther(monkeypatch):
    monkeypatch.setattr(_distances, "DIRECTIONS", 2)
    known = torch.cat([drawn(100, 2), torch.zeros(100, 3)], 1)
    inside = torch.tensor([[1.0, 1.0, 0.0, 0.0, 0.0]])
    outside = torch.tensor([[1.0, 1.0, 2.0, 0.0, 0.0]])
    for distance in (Neighbours.fit(known), Gaussians.fit(known, torch.arange(100) % 2)):
        assert distance(outside) > distance(inside) + 0.1


def test_the_projection_keeps_what_an_exact_decomposition_keeps():
    points = unit(drawn(500, 100) * torch.linspace(3, 0.01, 100))
    kept = (points @ _distances._directions(points, 64)).square().sum()
    exact = torch.linalg.svdvals(points)[:64].square().sum()
    assert float(kept / exact) == pytest.approx(1.0, abs=1e-3)


def test_gaussians_are_those_of_scipy():
    """From the data alone: what all directions keep has the density that it had before they were turned."""
    sizes = (300, 90, 12)
    classes = []
    for label, size in enumerate(sizes):
        classes.append((label + 1) * drawn(size, 4, seed=label) + 2 * label)
    new = drawn(20, 4, seed=3) * 4
    labels = torch.repeat_interleave(torch.arange(3), torch.tensor(sizes))
    distance = Gaussians.fit(torch.cat(classes), labels, is_unit=False)

    # The fifth value is the length that is left out: 0 where all four directions are kept.
    points = [np.pad(known.double().numpy(), ((0, 0), (0, 1))) for known in classes]
    covariances = [np.cov(known.T, bias=True) for known in points]
    pooled = np.average(covariances, axis=0, weights=sizes)
    ridge = 1e-4 * np.trace(pooled) / 5 * np.eye(5)
    asked = np.pad(new.double().numpy(), ((0, 0), (0, 1)))
    logs = []
    for size, known, own in zip(sizes, points, covariances, strict=True):
        shrunk = (size * own + 5 * pooled) / (size + 5) + ridge
        density = multivariate_normal(known.mean(0), shrunk).logpdf(asked)
        logs.append(math.log(size / 402) + density + 2.5 * math.log(2 * math.pi))
    expected = -logsumexp(np.stack(logs), axis=0)
    np.testing.assert_allclose(distance(new).numpy(), expected, rtol=2e-3, atol=2e-3)


def test_a_class_of_one_sample_takes_its_form_from_the_others():
    labels = torch.zeros(50, dtype=torch.int64)
    labels[0] = 7
    distance = Gaussians.fit(drawn(50, 5), labels)
    assert len(distance.centres) == 2
    assert distance(drawn(10, 5, seed=2)).isfinite().all()


def test_many_classes_get_fewer_directions_each():
    count = 400
    distance = Gaussians.fit(drawn(4 * count, 80), torch.arange(4 * count) % count)
    assert distance.whitening.numel() <= _distances.MOST_ENTRIES
    assert distance.projection.shape[1] < 64


@pytest.mark.parametrize("offset", [0.0, 100.0, 1e4])
@pytest.mark.parametrize("is_unit", [True, False])
def test_neighbours_are_told_apart_far_from_zero(offset, is_unit):
    known = drawn(500, 8) + offset
    new = drawn(50, 8, seed=1) + offset
    found = Neighbours.fit(known, 3, is_unit)(new)
    known, new = known.double(), new.double()
    if is_unit:
        known, new = unit(known), unit(new)
    expected = torch.cdist(new, known).sort(1).values[:, 2]
    torch.testing.assert_close(found.double(), expected, rtol=5e-3, atol=0)


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e4, 1e9])
@pytest.mark.parametrize("kind", ["neighbours", "gaussians"])
def test_the_scale_of_features_does_not_matter(kind, scale):
    known, labels = drawn(300, 5), torch.arange(300) % 3
    new = torch.cat([drawn(50, 5, seed=1), drawn(50, 5, seed=2) + 9])
    usual = fit_distance(kind, known, labels, None, is_unit=False)
    scaled = fit_distance(kind, scale * known, labels, None, is_unit=False)
    assert scaled(scale * new).argsort()[:50].sort().values.equal(torch.arange(50))
    assert "scale" not in usual.settings()
    again = distance_from(scaled.settings(), scaled.tensors())
    torch.testing.assert_close(again(scale * new), scaled(scale * new))


def test_a_file_of_before_has_no_centre():
    distance = Neighbours.fit(drawn(50, 3))
    kept = distance.tensors()
    del kept["centre"]
    before = distance_from(distance.settings(), kept)
    assert before.centre is None
    assert "centre" not in before.tensors()
    assert before(drawn(5, 3)).isfinite().all()


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e30])
@pytest.mark.parametrize("is_unit", [True, False])
def test_what_can_not_be_measured_is_farthest_or_finite(value, is_unit):
    labels = torch.arange(50) % 2
    for distance in (Neighbours.fit(drawn(50, 3), 1, is_unit), Gaussians.fit(drawn(50, 3), labels, is_unit)):
        found = distance(torch.tensor([[value, 1.0, 1.0]]))
        assert found.isfinite().all()
        if is_unit or not math.isfinite(value):
            assert float(found) == pytest.approx(FARTHEST)


def test_an_input_without_length_can_be_measured():
    assert Neighbours.fit(drawn(50, 3))(torch.zeros(1, 3)).isfinite().all()


@pytest.mark.parametrize("kind", ["neighbours", "gaussians"])
def test_kept_and_made_again_it_is_the_same(kind):
    distance = fit_distance(kind, drawn(300, 70), torch.arange(300) % 4, None, True)
    again = distance_from(distance.settings(), distance.tensors())
    new = drawn(20, 70, seed=3)
    assert torch.equal(again(new), distance(new))
    assert again.num_features == 70


def test_what_is_none_is_refused():
    with pytest.raises(InputError, match="kind must be neighbours or gaussians, got 'trees'"):
        fit_distance("trees", drawn(10, 2), None, 1, True)
    with pytest.raises(InputError, match="labels must be given"):
        fit_distance("gaussians", drawn(10, 2), None, None, True)
    with pytest.raises(InputError, match="k is for kind neighbours alone"):
        fit_distance("gaussians", drawn(10, 2), torch.arange(10) % 2, 3, True)
    with pytest.raises(InputError, match="k must be a whole number"):
        fit_distance("neighbours", drawn(10, 2), None, 11, True)
    with pytest.raises(InputError, match="the kind of trust must be"):
        distance_from({"kind": "trees"}, {})
    with pytest.raises(InputError, match="prototypes must have 2 columns"):
        Neighbours(torch.eye(2), torch.eye(3), torch.ones(3))
    with pytest.raises(InputError, match=r"centre must be \(2,\), got \(3,\)"):
        Neighbours(torch.eye(2), torch.eye(2), torch.ones(2), centre=torch.ones(3))
    with pytest.raises(InputError, match="squares must be"):
        Neighbours(torch.eye(2), torch.eye(2), torch.ones(3))
    with pytest.raises(InputError, match="whitening must be"):
        Gaussians(torch.eye(2), torch.ones(1, 2, 2), torch.ones(1, 3), torch.ones(1))
    with pytest.raises(InputError, match="log_weights must be"):
        Gaussians(torch.eye(2), torch.ones(1, 3, 3), torch.ones(1, 3), torch.ones(2))
    with pytest.raises(InputError, match="projection must be a matrix"):
        Neighbours(torch.ones(2), torch.eye(2), torch.ones(2))
