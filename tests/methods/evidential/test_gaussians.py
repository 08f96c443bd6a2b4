import math

import pytest
import torch
from torch.distributions import MultivariateNormal

from nescio.methods import FeatureBatch
from nescio.methods.evidential._gaussians import ClassGaussians


def samples(count=400, size=4, classes=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % classes
    mixing = torch.randn(classes, size, size, generator=generator)
    noise = torch.randn(count, 1, size, generator=generator)
    features = (noise @ mixing[labels]).squeeze(1) + 5 * torch.randn(classes, size, generator=generator)[
        labels
    ]
    return features, labels


def batches_of(features, labels, weights=None, size=64):
    parts = []
    for index in torch.split(torch.arange(len(labels)), size):
        part = None if weights is None else weights[index]
        parts.append(FeatureBatch(features[index], labels[index], part))
    return parts


def fitted(batches, size=4, classes=3, is_shared=False, ridge=0.0):
    gaussians = ClassGaussians(classes, size, is_shared).double()
    gaussians.fit(batches, ridge)
    return gaussians


def test_the_density_is_the_sum_of_the_gaussians_of_the_classes():
    features, labels = samples()
    gaussians = fitted(batches_of(features, labels))
    wide = features.double()
    logs = []
    for label in range(3):
        of_class = wide[labels == label]
        normal = MultivariateNormal(of_class.mean(0), of_class.T.cov(correction=0))
        logs.append(normal.log_prob(wide))
    expected = torch.stack(logs, 1).logsumexp(1)
    found = gaussians.log_density(features)
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6)
    assert float(gaussians.least) == pytest.approx(float(expected.min()), rel=1e-6)
    assert float(gaussians.most) == pytest.approx(float(expected.max()), rel=1e-6)
    share = (expected - expected.min()) / (expected.max() - expected.min())
    torch.testing.assert_close(gaussians.trust(features), share, rtol=1e-5, atol=1e-5)


def test_a_shared_covariance_is_that_around_the_means_of_the_classes():
    features, labels = samples()
    gaussians = fitted(batches_of(features, labels), is_shared=True)
    wide = features.double()
    away = torch.zeros_like(wide)
    for label in range(3):
        away[labels == label] = wide[labels == label] - wide[labels == label].mean(0)
    covariance = away.T @ away / len(labels)
    logs = []
    for label in range(3):
        logs.append(MultivariateNormal(wide[labels == label].mean(0), covariance).log_prob(wide))
    torch.testing.assert_close(
        gaussians.log_density(features), torch.stack(logs, 1).logsumexp(1), rtol=1e-6, atol=1e-6
    )


def test_weights_count_like_repetition():
    features, labels = samples(120)
    weights = torch.arange(120) // 3 % 3
    repeated = batches_of(features.repeat_interleave(weights, 0), labels.repeat_interleave(weights))
    weighted = fitted(batches_of(features, labels, weights.float()), ridge=0.01)
    expected = fitted(repeated, ridge=0.01)
    torch.testing.assert_close(weighted.log_density(features), expected.log_density(features))
    torch.testing.assert_close(weighted.least, expected.least)


@pytest.mark.parametrize("is_shared", [False, True])
def test_weights_count_by_their_proportions(is_shared):
    features, labels = samples(120)
    weights = torch.rand(120, generator=torch.Generator().manual_seed(1))
    whole = fitted(batches_of(features, labels, weights), is_shared=is_shared, ridge=0.01)
    small = fitted(batches_of(features, labels, weights / 1000), is_shared=is_shared, ridge=0.01)
    torch.testing.assert_close(small.log_density(features), whole.log_density(features))


def test_features_far_from_zero_lose_no_digits_in_single_precision():
    features, labels = samples()
    gaussians = fitted(batches_of(features + 1000, labels), is_shared=True)
    expected = gaussians.log_density(features + 1000).float()
    torch.testing.assert_close(gaussians.float().log_density(features + 1000), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("is_shared", [False, True])
def test_what_is_far_away_has_no_trust_however_far(is_shared):
    features, labels = samples()
    gaussians = fitted(batches_of(features, labels), is_shared=is_shared, ridge=1e-3).float()
    far = torch.tensor([[1e3], [1e20], [-3e38]]).expand(3, 4)
    assert gaussians.trust(far).tolist() == [0.0, 0.0, 0.0]


def test_features_without_variance_and_classes_without_samples():
    features, labels = samples(classes=2)
    features[:, 1] = 7.0
    gaussians = fitted(batches_of(features, labels), ridge=1e-3)
    assert gaussians.log_scale[2] == -math.inf
    trust = gaussians.trust(features)
    assert bool(trust.isfinite().all())
    assert float(trust.max()) == pytest.approx(1)
    assert float(trust.min()) == pytest.approx(0)


def test_samples_that_are_all_alike():
    same = torch.ones(10, 4)
    gaussians = fitted(batches_of(same, torch.arange(10) % 3))
    assert gaussians.trust(same).tolist() == [1.0] * 10
    assert gaussians.trust(same + 1).tolist() == [0.0] * 10


def test_a_class_of_one_sample_does_not_set_the_range_of_all():
    features, labels = samples(count=200, size=8, classes=2)
    alone = torch.cat([features, features.mean(0, keepdim=True) + 3])
    of_alone = torch.cat([labels, torch.tensor([2])])
    before = fitted(batches_of(features, labels), 8, 2, ridge=1e-3)
    after = fitted(batches_of(alone, of_alone), 8, 3, ridge=1e-3)
    torch.testing.assert_close(after.trust(features), before.trust(features), rtol=0, atol=0.1)
