"""Slow and plain references that the tests hold the library against; nothing here imports nescio.

`exact_*` work in mpmath on plain lists of evidence, one sample at a time. Floats are taken as they are; `y`
is a class index or a list with the soft label. `naive_*` are the formulas as printed, in torch float64: the
losses have the class axis at 1, opinions have it last.

Equation numbers are those of Sensoy, Kaplan, Kandemir (2018); the measures and the fusion rules are not in
that paper and name their own source.
"""

import math
from collections import Counter
from functools import lru_cache

import mpmath as mp
import torch

# ----------------------------------------------------------------------------------------------- exact, parts


def exact_digits(evidence):
    """50 digits, and as many more as the terms of a divergence lose when they cancel.

    Near e = 0 terms of size e leave a sum of size e^2; for large e, terms of size S log S leave a small one.
    """
    largest = float(max(evidence))
    return 50 if largest == 0 else 50 + 2 * math.ceil(abs(math.log10(largest)))


def exact_trigamma(x):
    """psi'(x) = sum_{i<n} 1/(x+i)^2 + 1/z + 1/(2 z^2) + sum_k B_2k / z^(2k+1), z = x + n, for x >= 1.

    In integers with a fixed binary point: mpmath.psi(1, x) takes too long for 21841 classes.
    """
    magnitude = max(0, mp.mag(x))
    bits = 2 * mp.mp.prec + 2 * magnitude  # half of them guard against the growth of the Bernoulli numbers
    one = 1 << bits
    z = int(mp.floor(mp.ldexp(mp.mpf(x), bits)))
    total = 0
    while z < mp.mp.dps << bits:
        total += (one**3) // (z * z)
        z += one
    power, square = one * one // z, z * z
    total += power + (one * one * one) // (2 * square)
    for numerator, denominator in _bernoulli_numbers(mp.mp.dps):
        power = power * one * one // square
        term = power * numerator // denominator
        total += term
        if abs(term) <= 1:
            break
    return mp.ldexp(mp.mpf(total), -bits)


@lru_cache
def _bernoulli_numbers(count):
    return [mp.bernfrac(2 * k) for k in range(1, count + 1)]


@lru_cache(maxsize=200_000)
def _log_gamma(evidence, digits):
    with mp.workdps(digits):
        return mp.loggamma(1 + mp.mpf(evidence))


@lru_cache(maxsize=200_000)
def _digamma(evidence, digits):
    with mp.workdps(digits):
        return mp.digamma(1 + mp.mpf(evidence))


@lru_cache(maxsize=200_000)
def _trigamma(evidence, digits):
    with mp.workdps(digits):
        return exact_trigamma(1 + mp.mpf(evidence))


def _label(y, K):
    """The label as K values: a one-hot list for an index, the soft label itself otherwise."""
    if isinstance(y, int):
        return [1 if k == y else 0 for k in range(K)]
    return [mp.mpf(value) for value in y]


def _alpha(evidence):
    return _each(lambda e: 1 + mp.mpf(e), evidence)


def _strength(evidence):
    return len(evidence) + _total(mp.mpf, evidence)


def _mean(evidence):
    S = _strength(evidence)
    return _each(lambda e: (1 + mp.mpf(e)) / S, evidence)


def _each(function, *columns):
    """The function of every class; of classes that are alike it is computed once, for rows of thousands."""
    rows = list(zip(*columns, strict=True))
    known = {row: function(*row) for row in set(rows)}
    return [known[row] for row in rows]


def _total(function, *columns):
    """The sum of a function over the classes, those that are alike at once."""
    counts = Counter(zip(*columns, strict=True))
    return mp.fsum(count * function(*row) for row, count in counts.items())


# ---------------------------------------------------------------------------------------------- exact, losses


def exact_type2(evidence, y):
    """sum_j y_j (log S - log alpha_j), eq. 3."""
    with mp.workdps(exact_digits(evidence)):
        label = _label(y, len(evidence))
        log_S = mp.log(_strength(evidence))
        return _total(lambda t, e: t * (log_S - mp.log(1 + mp.mpf(e))) if t else 0, label, evidence)


def exact_type2_gradient(evidence, y):
    """d/de_k = (sum_j y_j) / S - y_k / alpha_k, from eq. 3."""
    with mp.workdps(exact_digits(evidence)):
        label = _label(y, len(evidence))
        common = mp.fsum(label) / _strength(evidence)
        return _each(lambda t, e: common - t / (1 + mp.mpf(e)), label, evidence)


def exact_cross_entropy(evidence, y):
    """sum_j y_j (psi(S) - psi(alpha_j)), eq. 4."""
    digits = exact_digits(evidence)
    with mp.workdps(digits):
        label = _label(y, len(evidence))
        psi_S = mp.digamma(_strength(evidence))
        return _total(lambda t, e: t * (psi_S - _digamma(e, digits)) if t else 0, label, evidence)


def exact_cross_entropy_gradient(evidence, y):
    """d/de_k = (sum_j y_j) psi'(S) - y_k psi'(alpha_k), from eq. 4."""
    digits = exact_digits(evidence)
    with mp.workdps(digits):
        label = _label(y, len(evidence))
        common = mp.fsum(label) * exact_trigamma(_strength(evidence))
        return _each(lambda t, e: common - (t * _trigamma(e, digits) if t else 0), label, evidence)


def exact_squared_error(evidence, y):
    """sum_j (y_j - p_j)^2 + p_j (1 - p_j) / (S + 1), eq. 5."""
    with mp.workdps(exact_digits(evidence)):
        label, p, S = _label(y, len(evidence)), _mean(evidence), _strength(evidence)
        return _total(lambda t, q: (t - q) ** 2 + q * (1 - q) / (S + 1), label, p)


def exact_squared_error_gradient(evidence, y):
    """With Q = sum_j p_j^2 and R = sum_j (y_j - p_j) p_j, from eq. 5.

    d/de_k = -2 (y_k - p_k - R) / S - 2 (p_k - Q) / (S (S + 1)) - (1 - Q) / (S + 1)^2.
    """
    with mp.workdps(exact_digits(evidence)):
        label, p, S = _label(y, len(evidence)), _mean(evidence), _strength(evidence)
        Q = _total(lambda q: q * q, p)
        R = _total(lambda t, q: (t - q) * q, label, p)
        common = (1 - Q) / (S + 1) ** 2
        return _each(lambda t, q: -2 * (t - q - R) / S - 2 * (q - Q) / (S * (S + 1)) - common, label, p)


def exact_brier(evidence, y):
    """sum_j (y_j - p_j)^2, eq. 5 without its variance; Chen et al. 2024 (R-EDL)."""
    with mp.workdps(exact_digits(evidence)):
        return _total(lambda t, q: (t - q) ** 2, _label(y, len(evidence)), _mean(evidence))


def exact_brier_gradient(evidence, y):
    """With R = sum_j (y_j - p_j) p_j: d/de_k = -2 (y_k - p_k - R) / S."""
    with mp.workdps(exact_digits(evidence)):
        label, p, S = _label(y, len(evidence)), _mean(evidence), _strength(evidence)
        R = _total(lambda t, q: (t - q) * q, label, p)
        return _each(lambda t, q: -2 * (t - q - R) / S, label, p)


def exact_divergence(evidence):
    """KL[D(alpha) || D(1)] = lnG(S) - lnG(K) - sum lnG(alpha_k) + sum (alpha_k - 1)(psi(alpha_k) - psi(S)).

    The unnumbered equation after eq. 5, there with alpha~.
    """
    digits = exact_digits(evidence)
    with mp.workdps(digits):
        S = _strength(evidence)
        psi_S = mp.digamma(S)
        gammas = (
            mp.loggamma(S) - mp.loggamma(len(evidence)) - _total(lambda e: _log_gamma(e, digits), evidence)
        )
        return gammas + _total(lambda e: mp.mpf(e) * (_digamma(e, digits) - psi_S), evidence)


def exact_divergence_gradient(evidence):
    """d/de_k = e_k psi'(alpha_k) - (S - K) psi'(S), from the divergence above."""
    digits = exact_digits(evidence)
    with mp.workdps(digits):
        total = _total(mp.mpf, evidence)
        common = total * exact_trigamma(total + len(evidence))
        return _each(lambda e: mp.mpf(e) * _trigamma(e, digits) - common, evidence)


def exact_misleading(evidence, y):
    """The evidence against the label, (1 - y) * e: alpha~ - 1 of the paper's alpha~ = y + (1 - y) * alpha."""
    with mp.workdps(50):
        return _each(lambda t, e: (1 - t) * mp.mpf(e), _label(y, len(evidence)), evidence)


def exact_misleading_divergence(evidence, y):
    """KL[D(alpha~) || D(1)], alpha~ = y + (1 - y) * alpha, the unnumbered equation after eq. 5."""
    return exact_divergence(exact_misleading(evidence, y))


def exact_misleading_divergence_gradient(evidence, y):
    """d/de_k = (1 - y_k) dKL/dalpha~_k."""
    inner = exact_divergence_gradient(exact_misleading(evidence, y))
    with mp.workdps(50):
        return _each(lambda t, d: (1 - t) * d, _label(y, len(evidence)), inner)


# -------------------------------------------------------------------------------------------- exact, measures


def exact_entropy(evidence):
    """-sum p ln p of the mean p = alpha / S (eq. 2)."""
    with mp.workdps(exact_digits(evidence)):
        alpha = _alpha(evidence)
        S = mp.fsum(alpha)
        return -mp.fsum(a / S * mp.log(a / S) for a in alpha)


def exact_expected_entropy(evidence):
    """-sum p (psi(alpha + 1) - psi(S + 1)): the mean of the entropy under the Dirichlet."""
    with mp.workdps(exact_digits(evidence)):
        alpha = _alpha(evidence)
        S = mp.fsum(alpha)
        psi_S = mp.digamma(S + 1)
        return -mp.fsum(a / S * (mp.digamma(a + 1) - psi_S) for a in alpha)


def exact_mutual_information(evidence):
    """Entropy of the mean less the expected entropy."""
    with mp.workdps(exact_digits(evidence)):
        return exact_entropy(evidence) - exact_expected_entropy(evidence)


# ---------------------------------------------------------------------------------------------- naive, losses


def naive_evidence(logits, name):
    """relu: max(z, 0); softplus: log(1 + exp z); exp: exp z, z held within [-10, 30]."""
    if name == "relu":
        return torch.where(logits > 0, logits, torch.zeros_like(logits))
    if name == "softplus":
        return torch.log1p(torch.exp(logits))
    return torch.exp(torch.minimum(torch.maximum(logits, torch.tensor(-10.0)), torch.tensor(30.0)))


def naive_one_hot(targets, K):
    """Class indices (N, d1, ...) as a matrix of zeros and ones (N, K, d1, ...)."""
    classes = torch.arange(K).reshape(1, K, *[1] * (targets.ndim - 1))
    return (targets.unsqueeze(1) == classes).double()


def naive_type2(evidence, y):
    """sum_j y_j (log S - log alpha_j), eq. 3; evidence and label y (N, K, ...)."""
    alpha = evidence + 1
    S = alpha.sum(1, keepdim=True)
    return (y * (S.log() - alpha.log())).sum(1)


def naive_cross_entropy(evidence, y):
    """sum_j y_j (psi(S) - psi(alpha_j)), eq. 4; evidence and label y (N, K, ...)."""
    alpha = evidence + 1
    S = alpha.sum(1, keepdim=True)
    return (y * (torch.digamma(S) - torch.digamma(alpha))).sum(1)


def naive_error_part(evidence, y):
    """(y_j - alpha_j / S)^2 per class, L^err of the form of eq. 5 that the propositions speak of."""
    alpha = evidence + 1
    return (y - alpha / alpha.sum(1, keepdim=True)) ** 2


def naive_variance_part(evidence):
    """alpha_j (S - alpha_j) / (S^2 (S + 1)) per class, L^var of the form of eq. 5 for the propositions."""
    alpha = evidence + 1
    S = alpha.sum(1, keepdim=True)
    return alpha * (S - alpha) / (S**2 * (S + 1))


def naive_squared_error(evidence, y):
    """sum_j y_j^2 - 2 y_j E[p_j] + E[p_j^2], eq. 5, E[p_j^2] = alpha_j (alpha_j + 1) / (S (S + 1))."""
    alpha = evidence + 1
    S = alpha.sum(1, keepdim=True)
    return (y**2 - 2 * y * alpha / S + alpha * (alpha + 1) / (S * (S + 1))).sum(1)


def naive_brier(evidence, y):
    """sum_j (y_j - alpha_j / S)^2; Chen et al. 2024 (R-EDL)."""
    return naive_error_part(evidence, y).sum(1)


def naive_divergence(evidence):
    """lnG(S) - lnG(K) - sum lnG(alpha_k) + sum (alpha_k - 1)(psi(alpha_k) - psi(S)), below eq. 5."""
    alpha = evidence + 1
    S = alpha.sum(1, keepdim=True)
    normaliser = torch.lgamma(S).squeeze(1) - math.lgamma(alpha.shape[1]) - torch.lgamma(alpha).sum(1)
    return normaliser + ((alpha - 1) * (torch.digamma(alpha) - torch.digamma(S))).sum(1)


def naive_misleading_divergence(evidence, y):
    """The divergence of alpha~ = y + (1 - y) * alpha, unnumbered after eq. 5."""
    alpha = evidence + 1
    return naive_divergence(y + (1 - y) * alpha - 1)


def naive_annealing(epoch, annealing_epochs=10):
    """lambda_t = min(1, t / 10), below eq. 5."""
    return min(1.0, epoch / annealing_epochs)


def naive_total(risk, divergence, epoch, annealing_epochs=10, weight=1.0):
    """L_i + lambda_t KL, the total loss after eq. 5, per sample."""
    return risk + weight * naive_annealing(epoch, annealing_epochs) * divergence


# ------------------------------------------------------------------------------------ naive, opinions (.., K)


def naive_strength(evidence):
    """S = sum_k (e_k + 1), below eq. 1."""
    return (evidence + 1).sum(-1)


def naive_belief(evidence):
    """b_k = e_k / S, eq. 1."""
    return evidence / naive_strength(evidence).unsqueeze(-1)


def naive_uncertainty(evidence):
    """u = K / S, eq. 1."""
    return evidence.shape[-1] / naive_strength(evidence)


def naive_probabilities(evidence):
    """p_k = alpha_k / S, eq. 2."""
    return (evidence + 1) / naive_strength(evidence).unsqueeze(-1)


def naive_entropy(evidence):
    """-sum p ln p of the mean (eq. 2)."""
    p = naive_probabilities(evidence)
    return -(p * p.log()).sum(-1)


def naive_expected_entropy(evidence):
    """-sum p (psi(alpha + 1) - psi(S + 1)); Malinin and Gales 2018."""
    S = naive_strength(evidence).unsqueeze(-1)
    return -(naive_probabilities(evidence) * (torch.digamma(evidence + 2) - torch.digamma(S + 1))).sum(-1)


def naive_mutual_information(evidence):
    """Entropy of the mean less the expected entropy; Malinin and Gales 2018."""
    return naive_entropy(evidence) - naive_expected_entropy(evidence)


def naive_differential_entropy(evidence):
    """sum lnG(alpha) - lnG(S) + (S - K) psi(S) - sum (alpha - 1) psi(alpha), of the Dirichlet density."""
    alpha, S = evidence + 1, naive_strength(evidence)
    log_beta = torch.lgamma(alpha).sum(-1) - torch.lgamma(S)
    return log_beta + (S - alpha.shape[-1]) * torch.digamma(S) - ((alpha - 1) * torch.digamma(alpha)).sum(-1)


def naive_balance(b_i, b_j):
    """Bal(i, j) = 1 - |b_i - b_j| / (b_i + b_j), 0 where both are 0; Josang, Cho, Chen 2018."""
    return 0.0 if b_i + b_j == 0 else 1 - abs(b_i - b_j) / (b_i + b_j)


def naive_dissonance(belief):
    """sum_i b_i [sum_{j != i} b_j Bal(i, j)] / [sum_{j != i} b_j] of one list; Josang, Cho, Chen 2018."""
    total = 0.0
    for i, b_i in enumerate(belief):
        others = [b_j for j, b_j in enumerate(belief) if j != i]
        if sum(others) > 0:
            total += b_i * sum(b_j * naive_balance(b_i, b_j) for b_j in others) / sum(others)
    return total


# ------------------------------------------------- naive, fusion of belief masses: [(belief (.., K), u (..))]


def _products_of_the_others(opinions):
    """prod_{j != i} u_j for every i, each (.., 1)."""
    uncertainties = [u.unsqueeze(-1) for _, u in opinions]
    return [math.prod(uncertainties[:i] + uncertainties[i + 1 :]) for i in range(len(opinions))]


def naive_cumulative_fusion(opinions):
    """b = sum_i b_i prod_{j!=i} u_j / D, u = prod u_i / D, D = sum_i prod_{j!=i} u_j - (n - 1) prod u_i.

    For two: b = (b1 u2 + b2 u1) / (u1 + u2 - u1 u2). Josang 2016, chapter 12.
    """
    others = _products_of_the_others(opinions)
    product = math.prod(u for _, u in opinions).unsqueeze(-1)
    denominator = sum(others) - (len(opinions) - 1) * product
    belief = sum(b * rest for (b, _), rest in zip(opinions, others, strict=True)) / denominator
    return belief, (product / denominator).squeeze(-1)


def naive_averaging_fusion(opinions):
    """b = sum_i b_i prod_{j!=i} u_j / D, u = n prod u_i / D, D = sum_i prod_{j!=i} u_j.

    For two: b = (b1 u2 + b2 u1) / (u1 + u2), u = 2 u1 u2 / (u1 + u2). Josang 2016, chapter 12.
    """
    others = _products_of_the_others(opinions)
    product = math.prod(u for _, u in opinions).unsqueeze(-1)
    belief = sum(b * rest for (b, _), rest in zip(opinions, others, strict=True)) / sum(others)
    return belief, (len(opinions) * product / sum(others)).squeeze(-1)


def naive_weighted_fusion(opinions):
    """b = sum_i b_i (1 - u_i) prod_{j!=i} u_j / D, u = (n - sum u_i) prod u_i / D.

    D = sum_i prod_{j!=i} u_j - n prod u_i.
    For two: b = (b1 (1 - u1) u2 + b2 (1 - u2) u1) / (u1 + u2 - 2 u1 u2).
    Undefined where every opinion is vacuous. Josang 2016, chapter 12.
    """
    others = _products_of_the_others(opinions)
    product = math.prod(u for _, u in opinions).unsqueeze(-1)
    denominator = sum(others) - len(opinions) * product
    confidence = [(1 - u).unsqueeze(-1) for _, u in opinions]
    weighted = [b * c * rest for (b, _), c, rest in zip(opinions, confidence, others, strict=True)]
    return sum(weighted) / denominator, (sum(confidence) * product / denominator).squeeze(-1)


def naive_constraint_fusion(opinions):
    """b = (b1 b2 + b1 u2 + b2 u1) / (1 - C), u = u1 u2 / (1 - C), C = sum_{i != j} b1_i b2_j, pair by pair.

    Dempster's rule on singletons and the whole frame; Josang 2016, chapter 12.
    """
    belief, u = opinions[0]
    for b2, u2 in opinions[1:]:
        pairs = belief.unsqueeze(-1) * b2.unsqueeze(-2)
        agreement = 1 - (pairs.sum((-1, -2)) - pairs.diagonal(dim1=-2, dim2=-1).sum(-1))
        joint = belief * b2 + belief * u2.unsqueeze(-1) + b2 * u.unsqueeze(-1)
        belief, u = joint / agreement.unsqueeze(-1), u * u2 / agreement
    return belief, u


def naive_discount(belief, u, trust):
    """b' = t b, u' = 1 - t (1 - u); Josang 2016, chapter 14 (trust discounting)."""
    trust = torch.as_tensor(trust, dtype=belief.dtype)
    return trust.unsqueeze(-1) * belief, 1 - trust * (1 - u)


# -------------------------------------------------------------------------------------------------- any prior

# alpha = e + prior instead of e + 1; R-EDL (Chen et al., 2024) has the formulas of the losses. 90 digits:
# with evidence of 1e-9 and a prior of 1e6 the terms of the divergence are 1e30 times what is left of them.
PRIOR_DIGITS = 90


def exact_with_prior(evidence, prior):
    """Measures of one opinion: entropy, expected_entropy, mutual_information, differential_entropy."""
    with mp.workdps(PRIOR_DIGITS):
        alpha = [mp.mpf(e) + mp.mpf(prior) for e in evidence]
        S, K = mp.fsum(alpha), len(alpha)
        p = [a / S for a in alpha]
        entropy = -mp.fsum(q * mp.log(q) for q in p)
        expected = -mp.fsum(
            q * (mp.digamma(a + 1) - mp.digamma(S + 1)) for q, a in zip(p, alpha, strict=True)
        )
        log_beta = mp.fsum(mp.loggamma(a) for a in alpha) - mp.loggamma(S)
        psi = mp.fsum((a - 1) * mp.digamma(a) for a in alpha)
        return {
            "entropy": entropy,
            "expected_entropy": expected,
            "mutual_information": entropy - expected,
            "differential_entropy": log_beta + (S - K) * mp.digamma(S) - psi,
        }


def exact_divergence_from(evidence, prior):
    """KL[D(e + prior) || D(prior)]."""
    with mp.workdps(PRIOR_DIGITS):
        prior, e = mp.mpf(prior), [mp.mpf(value) for value in evidence]
        K, E = len(e), mp.fsum(e)
        S = E + K * prior
        gammas = mp.loggamma(S) - mp.loggamma(K * prior) + K * mp.loggamma(prior)
        return (
            gammas
            - mp.fsum(mp.loggamma(x + prior) for x in e)
            + mp.fsum(x * (mp.digamma(x + prior) - mp.digamma(S)) for x in e)
        )


def exact_divergence_from_gradient(evidence, prior):
    """d/de_k = e_k psi'(e_k + prior) - E psi'(S)."""
    with mp.workdps(PRIOR_DIGITS):
        prior, e = mp.mpf(prior), [mp.mpf(value) for value in evidence]
        E = mp.fsum(e)
        common = E * mp.psi(1, E + len(e) * prior)
        return [x * mp.psi(1, x + prior) - common for x in e]


def exact_risk_with_prior(risk, evidence, y, prior):
    """Equations 3, 4 and 5, and 5 without its variance, with alpha = e + prior."""
    with mp.workdps(PRIOR_DIGITS):
        alpha, label = [mp.mpf(e) + mp.mpf(prior) for e in evidence], _label(y, len(evidence))
        S = mp.fsum(alpha)
        if risk == "type2":
            return mp.fsum(t * (mp.log(S) - mp.log(a)) for t, a in zip(label, alpha, strict=True))
        if risk == "cross_entropy":
            return mp.fsum(t * (mp.digamma(S) - mp.digamma(a)) for t, a in zip(label, alpha, strict=True))
        p = [a / S for a in alpha]
        if risk == "brier":
            return mp.fsum((t - q) ** 2 for t, q in zip(label, p, strict=True))
        return mp.fsum((t - q) ** 2 + q * (1 - q) / (S + 1) for t, q in zip(label, p, strict=True))


# ------------------------------------------------------------------------------------------- conformal sets


def naive_conformal_scores(row, score, penalty=0.0, free_ranks=0, shares=None):
    """Of each class of one input, from a list of probabilities; shares: how much of its own each counts."""
    order = sorted(range(len(row)), key=lambda k: -row[k])
    result = [0.0] * len(row)
    before = 0.0
    for rank, k in enumerate(order, start=1):
        if score == "lac":
            result[k] = 1 - row[k]
        else:
            own = 0.0 if shares is None else shares
            result[k] = before + own * row[k]
            if score == "raps":
                result[k] += penalty * max(rank - free_ranks, 0)
        before += row[k]
    return result


def naive_conformal_set(calibration, labels, row, coverage, score, **parameters):
    """The classes whose p-value, (1 + number of scores at least as large) / (n + 1), exceeds 1 - coverage.

    Without a threshold: another route to the same sets.
    """
    known = []
    for one, label in zip(calibration, labels, strict=True):
        known.append(naive_conformal_scores(one, score, **parameters)[label])
    members = []
    for k, value in enumerate(naive_conformal_scores(row, score, **parameters)):
        at_least = sum(other >= value for other in known)
        if (1 + at_least) / (len(known) + 1) > 1 - coverage + 1e-12:
            members.append(k)
    return members


# ---------------------------------------------------------------------------------------------- OOD scores


def naive_knn(train, row, k):
    """Cosine distance to the k-th nearest of the training features, one after the other."""

    def length(vector):
        return math.sqrt(sum(x * x for x in vector))

    distances = []
    for other in train:
        product = sum(a * b for a, b in zip(row, other, strict=True))
        distances.append(1 - product / (length(row) * length(other)))
    return sorted(distances)[k - 1]


def naive_mahalanobis(train, labels, row):
    """The least of (f - mu_c)^T S^-1 (f - mu_c) over classes c, S the covariance within classes; float64."""
    classes = sorted(set(labels.tolist()))
    means = {c: train[labels == c].mean(0) for c in classes}
    covariance = torch.zeros(train.shape[1], train.shape[1], dtype=torch.float64)
    for feature, label in zip(train, labels.tolist(), strict=True):
        difference = (feature - means[label])[:, None]
        covariance += difference @ difference.T / len(train)
    inverse = torch.linalg.inv(covariance)
    return min(float((row - mean) @ inverse @ (row - mean)) for mean in means.values())


def naive_vim(train, train_logits, weight, bias, row, logits, dimensions):
    """Wang et al. (2022), equation 5 and 6: alpha |x^R| - log sum exp z, x = f + pinv(W) b."""
    origin = -torch.linalg.pinv(weight) @ bias
    centred = train - origin
    _, vectors = torch.linalg.eigh(centred.T @ centred / len(train))
    residual_space = vectors[:, : train.shape[1] - dimensions]  # eigh: the smallest first
    alpha = train_logits.max(1).values.sum() / (centred @ residual_space).norm(dim=1).sum()
    return float(alpha * ((row - origin) @ residual_space).norm() - torch.logsumexp(logits, 0))


# -------------------------------------------------------------------------------------- exact, the successors


def exact_fisher_log_determinant(evidence, prior):
    """ln det [diag(psi'(alpha)) - psi'(S) 1 1^T] by elimination; Deng et al. 2023 (I-EDL)."""
    with mp.workdps(PRIOR_DIGITS):
        alpha = [mp.mpf(e) + mp.mpf(prior) for e in evidence]
        information = mp.diag([mp.psi(1, a) for a in alpha])
        common = mp.psi(1, mp.fsum(alpha))
        size = len(alpha)
        return mp.log(mp.det(information - common * mp.ones(size, size)))


def exact_fisher_risk(evidence, y, prior):
    """sum_j psi'(alpha_j) [(y_j - p_j)^2 + p_j (1 - p_j) / (S + 1)]; Deng et al. 2023 (I-EDL)."""
    with mp.workdps(PRIOR_DIGITS):
        alpha, label = [mp.mpf(e) + mp.mpf(prior) for e in evidence], _label(y, len(evidence))
        S = mp.fsum(alpha)
        total = mp.mpf(0)
        for t, a in zip(label, alpha, strict=True):
            p = a / S
            total += mp.psi(1, a) * ((t - p) ** 2 + p * (1 - p) / (S + 1))
        return total


def exact_softplus(logits):
    """log(1 + exp z) of every logit."""
    with mp.workdps(PRIOR_DIGITS):
        return [mp.log1p(mp.exp(mp.mpf(z))) for z in logits]
