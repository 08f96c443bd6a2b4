"""A Gaussian for each class on features, fitted to all training samples; kept in buffers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

from nescio._precision import to_float64
from nescio.methods.base import FeatureBatch

# Features that never change have no variance at all: a share of all variance is added to each.
_LEAST_VARIANCE = 1e-12
_LEAST_WEIGHT = 1e-30  # of a class: without samples it has none
_LEAST_SHARE = 1e-6  # of the variance within all classes that one class has, or else it is a point


class ClassGaussians(nn.Module):
    """N(f; mu_c, Sigma_c) for each class c, and how dense the training samples lie.

    Args:
        num_classes: K.
        num_features: F.
        is_shared: Whether all classes have one covariance, as few samples or many classes ask for.
    """

    means: Tensor
    whitening: Tensor
    log_scale: Tensor
    least: Tensor
    most: Tensor

    def __init__(self, num_classes: int, num_features: int, is_shared: bool) -> None:
        super().__init__()
        covariances = 1 if is_shared else num_classes
        self.is_shared = is_shared
        self.register_buffer("means", torch.zeros(num_classes, num_features))
        # The inverse of the Cholesky factor of each covariance: |whitening (f - mu)|^2 is the distance.
        self.register_buffer("whitening", torch.eye(num_features).repeat(covariances, 1, 1))
        # -1/2 ln |2 pi Sigma_c|; -infinity for a class without samples.
        self.register_buffer("log_scale", torch.zeros(num_classes))
        # The least and the greatest log-density of a training sample.
        self.register_buffer("least", torch.tensor(-1.0))
        self.register_buffer("most", torch.tensor(0.0))

    @property
    def covariance(self) -> str:
        """As the setting of the method has it: "shared" or "class"."""
        return "shared" if self.is_shared else "class"

    def log_density(self, features: Tensor) -> Tensor:
        """ln sum_c N(f; mu_c, Sigma_c) of features (N, F), (N,)."""
        distances = [away.square().sum(1) for away in self._away(features.to(self.means.dtype))]
        return (self.log_scale - 0.5 * torch.stack(distances, 1)).logsumexp(1)

    def _away(self, features: Tensor) -> Iterator[Tensor]:
        """whitening (f - mu_c) of features (N, F) for each class c, (N, F)."""
        if not self.is_shared:
            for mean, whitening in zip(self.means, self.whitening, strict=True):
                yield (features - mean) @ whitening.T
            return
        # Features are whitened once for all classes. Around the centre, a difference loses few digits.
        centre = self.means.mean(0)
        whitened = (features - centre) @ self.whitening[0].T
        for whitened_mean in (self.means - centre) @ self.whitening[0].T:
            yield whitened - whitened_mean

    def trust(self, features: Tensor) -> Tensor:
        """s = (l - min) / (max - min) of the log-density l, held within [0, 1], (N,)."""
        log_density = self.log_density(features)
        share = (log_density - self.least) / (self.most - self.least)
        # Features beyond all bounds have a density that is no number any more, and no trust.
        return torch.where(log_density > self.least, share.clamp_max(1), 0.0)

    def fit(self, batches: Iterable[FeatureBatch], ridge: float) -> None:
        """Fit all to the features of the training samples, which are gone through three times.

        ridge: this share of the mean variance is added to the variance of every feature.
        """
        counts, means = self._means(batches)
        scatter = self._scatter(batches, means)
        weight = counts.sum().view(1) if self.is_shared else counts
        # The likeliest covariance, without the correction n / (n - 1): weights count by their proportions.
        covariance = scatter / weight.clamp_min(_LEAST_WEIGHT).view(-1, 1, 1)
        variances = covariance.diagonal(dim1=1, dim2=2).mean(1)
        # A class of one sample has no covariance, and would be infinitely dense there: it gets that of all.
        pooled = scatter.sum(0) / counts.sum().clamp_min(_LEAST_WEIGHT)
        variance = pooled.diagonal().mean()
        is_point = variances <= _LEAST_SHARE * variance
        covariance = torch.where(is_point.view(-1, 1, 1), pooled, covariance)
        variances = torch.where(is_point, variance, variances)
        added = (ridge * variances).clamp_min(_LEAST_VARIANCE)
        eye = to_float64(torch.eye(means.shape[1], device=self.means.device))
        factor = torch.linalg.cholesky(covariance + added.view(-1, 1, 1) * eye)
        whitening = torch.linalg.solve_triangular(factor, eye, upper=False)
        log_roots = factor.diagonal(dim1=1, dim2=2).log().sum(1)
        log_scale = -log_roots - 0.5 * means.shape[1] * math.log(2 * math.pi)
        log_scale = log_scale.expand(len(counts)).masked_fill(counts == 0, -math.inf)
        self.means.copy_(means)
        self.whitening.copy_(whitening)
        self.log_scale.copy_(log_scale)
        self._fit_range(batches)

    def _means(self, batches: Iterable[FeatureBatch]) -> tuple[Tensor, Tensor]:
        """The weight (K,) and the mean (K, F) of each class, in float64."""
        counts = to_float64(torch.zeros_like(self.log_scale))
        sums = to_float64(torch.zeros_like(self.means))
        for batch in batches:
            weights = _weights_of(batch)
            labels = batch.labels.to(counts.device)
            counts.index_add_(0, labels, weights)
            sums.index_add_(0, labels, to_float64(batch.features) * weights.unsqueeze(1))
        return counts, sums / counts.clamp_min(_LEAST_WEIGHT).unsqueeze(1)

    def _scatter(self, batches: Iterable[FeatureBatch], means: Tensor) -> Tensor:
        """sum w (f - mu_c)(f - mu_c)' of each class, or of all together, (K or 1, F, F), in float64."""
        scatter = to_float64(torch.zeros_like(self.whitening))
        for batch in batches:
            labels = batch.labels.to(means.device)
            away = (to_float64(batch.features) - means[labels]) * _weights_of(batch).sqrt().unsqueeze(1)
            if self.is_shared:
                scatter[0].addmm_(away.T, away)
                continue
            for label in range(len(means)):
                of_class = away[labels == label]
                scatter[label].addmm_(of_class.T, of_class)
        return scatter

    def _fit_range(self, batches: Iterable[FeatureBatch]) -> None:
        least = math.inf
        most = -math.inf
        for batch in batches:
            found = self.log_density(batch.features)
            found = found[_weights_of(batch).to(found.device) > 0]
            if len(found):
                least = min(least, float(found.min()))
                most = max(most, float(found.max()))
        # Where all samples are alike there is no range; what is less dense has no trust then.
        self.least.fill_(min(least, most - 1e-3 * max(abs(most), 1.0)))
        self.most.fill_(most)


def _weights_of(batch: FeatureBatch) -> Tensor:
    """The weight of each sample (N,) in float64."""
    if batch.weights is None:
        return to_float64(torch.ones_like(batch.labels))
    return to_float64(batch.weights)
