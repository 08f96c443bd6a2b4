"""The measures as loops over plain lists, and batches to try them on; nescio.metrics is not used."""

import math

import torch
from hypothesis import strategies as st

from nescio.opinions.categorical import Categorical
from nescio.opinions.opinion import Opinion

# ------------------------------------------------------------------------------------------------- batches


def predicted(rows):
    return Categorical(torch.tensor(rows, dtype=torch.float64))


def opinions(rows):
    return Opinion.from_evidence(torch.tensor(rows, dtype=torch.float64))


def random_prediction(count, num_classes, seed, dtype=torch.float64, sharpness=2.0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(count, num_classes, generator=generator, dtype=dtype) * sharpness
    return Categorical(logits.softmax(-1))


def random_opinion(count, num_classes, seed, scale=20.0, dtype=torch.float64):
    """One row in five has no evidence at all."""
    generator = torch.Generator().manual_seed(seed)
    evidence = torch.rand(count, num_classes, generator=generator, dtype=dtype) ** 3 * scale
    evidence[::5] = 0
    return Opinion.from_evidence(evidence)


def random_labels(count, num_classes, seed):
    return torch.randint(num_classes, (count,), generator=torch.Generator().manual_seed(seed))


@st.composite
def ranked(draw, most=30):
    """Uncertainties with many ties, and which answers are right."""
    pairs = draw(st.lists(st.tuples(st.integers(0, 8), st.booleans()), min_size=1, max_size=most))
    uncertainty = torch.tensor([u / 8 for u, _ in pairs], dtype=torch.float64)
    return uncertainty, torch.tensor([right for _, right in pairs])


@st.composite
def score_pairs(draw):
    """Scores of the known and of the ood with ties."""
    scores = st.lists(st.integers(-5, 5), min_size=1, max_size=40)
    return tuple(torch.tensor(draw(scores), dtype=torch.float64) for _ in range(2))


@st.composite
def evidence_batches(draw):
    """Rows of evidence, zeros among them, and their labels."""
    K = draw(st.integers(2, 5))
    element = st.one_of(st.just(0.0), st.floats(0.0, 1e4))
    rows = draw(st.lists(st.lists(element, min_size=K, max_size=K), min_size=1, max_size=12))
    labels = draw(st.lists(st.integers(0, K - 1), min_size=len(rows), max_size=len(rows)))
    return opinions(rows), torch.tensor(labels)


# ------------------------------------------------------------------------------------------------- measures


def naive_risk_coverage(uncertainty, correct):
    """(coverage, risk) at every distinct uncertainty."""
    points = []
    for threshold in sorted(set(uncertainty)):
        accepted = [right for u, right in zip(uncertainty, correct, strict=True) if u <= threshold]
        points.append((len(accepted) / len(correct), accepted.count(False) / len(accepted)))
    return points


def naive_aurc(uncertainty, correct):
    """Mean over the samples of the error rate among all that are no more uncertain."""
    total = 0.0
    for limit in uncertainty:
        accepted = [right for u, right in zip(uncertainty, correct, strict=True) if u <= limit]
        total += accepted.count(False) / len(accepted)
    return total / len(uncertainty)


def naive_augrc(uncertainty, correct):
    """Pairs of a right and a wrong answer in the wrong order, ties half, and pairs of two wrong ones."""
    samples = list(zip(uncertainty, correct, strict=True))
    count = len(samples)
    disordered = 0.0
    errors = 0
    for doubt, is_right in samples:
        if is_right:
            continue
        errors += 1
        for other, other_is_right in samples:
            if other_is_right and other > doubt:
                disordered += 1
            if other_is_right and other == doubt:
                disordered += 0.5
    return disordered / count**2 + (errors / count) ** 2 / 2


def naive_perfect_aurc(correct):
    """1/N sum_k max(0, k - C) / k, C right answers."""
    N, C = len(correct), sum(correct)
    return sum(max(0, k - C) / k for k in range(1, N + 1)) / N


def naive_worst_aurc(correct):
    """1/N sum_k min(k, W) / k, W wrong answers."""
    N, W = len(correct), correct.count(False)
    return sum(min(k, W) / k for k in range(1, N + 1)) / N


def naive_reliability(confidence, correct, bins):
    """(mean confidence, accuracy, count) per bin; None for the means of nothing."""
    rows = []
    for b in range(bins):
        last = b == bins - 1
        inside = [
            (c, right)
            for c, right in zip(confidence, correct, strict=True)
            if b / bins <= c and (last or c < (b + 1) / bins)
        ]
        n = len(inside)
        rows.append(
            (sum(c for c, _ in inside) / n, sum(r for _, r in inside) / n, n) if n else (None, None, 0)
        )
    return rows


def naive_auroc(known, ood):
    """Share of pairs in which the ood scores higher; a tie is half a pair."""
    wins = [1.0 if u > k else 0.5 if u == k else 0.0 for k in known for u in ood]
    return sum(wins) / len(wins)


def naive_average_precision(known, ood):
    """sum_t (recall_t - recall_{t-1}) precision_t over the falling thresholds."""
    total, before = 0.0, 0.0
    for threshold in sorted(set(known + ood), reverse=True):
        hits = sum(u >= threshold for u in ood)
        alarms = sum(k >= threshold for k in known)
        total += (hits / len(ood) - before) * hits / (hits + alarms)
        before = hits / len(ood)
    return total


def naive_fpr95(known, ood):
    """The highest threshold that 95% of the ood reach, found by trying each."""
    for threshold in sorted(set(ood), reverse=True):
        if 100 * sum(u >= threshold for u in ood) >= 95 * len(ood):
            return sum(k >= threshold for k in known) / len(known)
    raise AssertionError("the lowest threshold catches all")


def naive_entropy(row):
    return -sum(p * math.log(p) for p in row if p > 0)


def naive_rotation(plane, degrees):
    """One plane as a list of lists: each pixel from where a turn back about the centre leads, y up."""
    H, W = len(plane), len(plane[0])
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))

    def pixel(row, column):
        return plane[row][column] if 0 <= row < H and 0 <= column < W else 0

    turned = []
    for row in range(H):
        line = []
        for column in range(W):
            x, y = column - (W - 1) / 2, (H - 1) / 2 - row
            from_x, from_y = c * x + s * y, -s * x + c * y
            at_row, at_column = (H - 1) / 2 - from_y, from_x + (W - 1) / 2
            top, left = math.floor(at_row), math.floor(at_column)
            down, right = at_row - top, at_column - left
            upper = (1 - right) * pixel(top, left) + right * pixel(top, left + 1)
            lower = (1 - right) * pixel(top + 1, left) + right * pixel(top + 1, left + 1)
            line.append((1 - down) * upper + down * lower)
        turned.append(line)
    return turned
