import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from tests import references as ref

import nescio as ev

SCALARS = ["entropy", "expected_entropy", "mutual_information", "differential_entropy", "dissonance"]
SAMPLES = 200_000


def tensor(rows):
    return torch.tensor(rows, dtype=torch.float64)


@st.composite
def evidence_rows(draw, smallest=-6, largest=6):
    """A batch of 1 to 3 rows over 2 to 6 classes; each element zero or 10^x."""
    K = draw(st.integers(2, 6))
    element = st.one_of(st.just(0.0), st.floats(smallest, largest).map(lambda x: 10.0**x))
    return draw(st.lists(st.lists(element, min_size=K, max_size=K), min_size=1, max_size=3))


@pytest.fixture
def evidence():
    """(2, 3, 4): two batch axes."""
    return torch.rand(2, 3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 30


@pytest.fixture
def opinion(evidence):
    return ev.Opinion.from_evidence(evidence)


def assert_near(actual, expected, rtol=1e-10, atol=1e-12):
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


# ------------------------------------------------------------------------------------------------- quantities


def test_the_papers_example():
    opinion = ev.Opinion.from_evidence(tensor([40.0] + [0.0] * 9))
    assert opinion.strength.item() == 50
    assert opinion.uncertainty.item() == pytest.approx(0.2)
    assert opinion.belief.tolist() == pytest.approx([0.8] + [0.0] * 9)
    assert opinion.alpha.tolist() == [41.0] + [1.0] * 9
    assert opinion.labels.item() == 0


def test_masses_are_those_of_the_reference(opinion, evidence):
    assert_near(opinion.evidence, evidence)
    assert_near(opinion.alpha, evidence + 1)
    assert_near(opinion.strength, ref.naive_strength(evidence))
    assert_near(opinion.belief, ref.naive_belief(evidence))
    assert_near(opinion.uncertainty, ref.naive_uncertainty(evidence))
    assert_near(opinion.probabilities, ref.naive_probabilities(evidence))
    assert opinion.num_classes == 4


def test_measures_are_those_of_the_reference(opinion, evidence):
    assert_near(opinion.entropy(), ref.naive_entropy(evidence))
    assert_near(opinion.entropy(normalized=True), ref.naive_entropy(evidence) / math.log(4))
    assert_near(opinion.expected_entropy(), ref.naive_expected_entropy(evidence))
    assert_near(opinion.mutual_information(), ref.naive_mutual_information(evidence))
    assert_near(opinion.differential_entropy(), ref.naive_differential_entropy(evidence), rtol=1e-9)
    assert_near(opinion.max_probability(), ref.naive_probabilities(evidence).amax(-1))


@given(evidence_rows())
@settings(deadline=None)
def test_dissonance_is_the_double_loop(rows):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    expected = [ref.naive_dissonance(row) for row in ref.naive_belief(tensor(rows)).tolist()]
    assert_near(opinion.dissonance(), tensor(expected), rtol=1e-9)


@pytest.mark.parametrize("belief", [[0.5, 0.5, 0.0], [0.4, 0.4, 0.0], [0.8, 0.0, 0.0], [0.3, 0.3, 0.3]])
def test_dissonance_of_known_beliefs(belief):
    """Beliefs that agree in size conflict wholly: dissonance is the mass of the classes that share it."""
    u = 1 - sum(belief) or 1e-9
    opinion = ev.Opinion.from_evidence(3 * tensor(belief) / u)
    shared = sum(belief) if sum(b > 0 for b in belief) > 1 else 0.0
    assert opinion.dissonance().item() == pytest.approx(shared, abs=1e-8)


@pytest.mark.parametrize("name", ["relu", "softplus", "exp"])
def test_logits_become_evidence(name):
    logits = tensor([[-20.0, -3.0, 0.0, 0.5, 4.0, 29.0, 35.0]])
    opinion = ev.Opinion.from_logits(logits, evidence=name)
    assert_near(opinion.evidence, ref.naive_evidence(logits, name), rtol=1e-9, atol=0)


def test_exponential_evidence_is_the_default_and_bounded():
    logits = torch.tensor([[-1e4, 1e4, 0.0]])
    opinion = ev.Opinion.from_logits(logits)
    assert opinion.evidence[0].tolist() == pytest.approx([math.exp(-10), math.exp(30), 1.0], rel=1e-5)


# ------------------------------------------------------------------------------------------------- properties


@given(evidence_rows())
@settings(deadline=None)
def test_masses_are_masses(rows):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    ones = torch.ones(len(rows), dtype=torch.float64)
    assert_near(opinion.belief.sum(-1) + opinion.uncertainty, ones)
    assert_near(opinion.probabilities.sum(-1), ones)
    assert ((opinion.uncertainty >= 0) & (opinion.uncertainty <= 1)).all()
    assert (opinion.belief >= 0).all()


@given(evidence_rows())
@settings(deadline=None)
def test_masses_are_masses_in_single_precision(rows):
    opinion = ev.Opinion.from_evidence(torch.tensor(rows, dtype=torch.float32))
    assert_near(opinion.belief.sum(-1) + opinion.uncertainty, torch.ones(len(rows)), rtol=0, atol=1e-6)
    assert_near(opinion.probabilities.sum(-1), torch.ones(len(rows)), rtol=0, atol=1e-6)
    assert ((opinion.uncertainty >= 0) & (opinion.uncertainty <= 1)).all()


@given(evidence_rows(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_classes_does_not_matter(rows, random):
    order = random.sample(range(len(rows[0])), len(rows[0]))
    opinion = ev.Opinion.from_evidence(tensor(rows))
    shuffled = ev.Opinion.from_evidence(tensor(rows)[:, order])
    assert_near(shuffled.belief, opinion.belief[:, order])
    assert_near(shuffled.probabilities, opinion.probabilities[:, order])
    assert_near(shuffled.uncertainty, opinion.uncertainty)
    for name in SCALARS:
        assert_near(getattr(shuffled, name)(), getattr(opinion, name)(), rtol=1e-8, atol=1e-9)


@given(evidence_rows())
@settings(deadline=None)
def test_measures_stay_within_their_bounds(rows):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    most = math.log(opinion.num_classes) * (1 + 1e-12)
    assert ((opinion.entropy() >= 0) & (opinion.entropy() <= most)).all()
    assert ((opinion.entropy(normalized=True) >= 0) & (opinion.entropy(normalized=True) <= 1 + 1e-12)).all()
    assert ((opinion.expected_entropy() >= 0) & (opinion.expected_entropy() <= opinion.entropy())).all()
    assert (opinion.mutual_information() >= 0).all()
    assert ((opinion.dissonance() >= 0) & (opinion.dissonance() <= 1)).all()
    assert (opinion.differential_entropy() <= -math.lgamma(opinion.num_classes) + 1e-9).all()


@given(evidence_rows())
@settings(deadline=None)
def test_mutual_information_is_total_less_expected(rows):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    assert_near(
        opinion.mutual_information(), opinion.entropy() - opinion.expected_entropy(), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize("K", [2, 3, 10, 1000])
def test_no_evidence_is_total_uncertainty(K):
    opinion = ev.Opinion.from_evidence(torch.zeros(K, dtype=torch.float64))
    assert opinion.uncertainty.item() == 1
    assert opinion.entropy().item() == pytest.approx(math.log(K))
    assert opinion.entropy(normalized=True).item() == pytest.approx(1)
    assert opinion.dissonance().item() == 0
    assert opinion.differential_entropy().item() == pytest.approx(-math.lgamma(K))


# -------------------------------------------------------------------------------------- sampling and accuracy

ROWS = [[0.0, 0.0, 0.0], [0.5, 2.0, 7.0], [40.0, 0.1, 3.0]]


@pytest.mark.parametrize("row", ROWS)
def test_expected_entropy_is_the_mean_over_samples(row):
    p = np.random.default_rng(3).dirichlet(np.array(row) + 1, SAMPLES)
    values = stats.entropy(p, axis=1)
    error = values.std(ddof=1) / math.sqrt(SAMPLES)
    assert abs(ev.Opinion.from_evidence(tensor(row)).expected_entropy().item() - values.mean()) < 5 * error


@pytest.mark.parametrize("row", ROWS[1:])
def test_differential_entropy_is_the_mean_over_samples(row):
    p = np.random.default_rng(4).dirichlet(np.array(row) + 1, SAMPLES).T
    values = -stats.dirichlet.logpdf(p / p.sum(0), np.array(row) + 1)
    error = values.std(ddof=1) / math.sqrt(SAMPLES)
    assert (
        abs(ev.Opinion.from_evidence(tensor(row)).differential_entropy().item() - values.mean()) < 5 * error
    )


@pytest.mark.parametrize("row", ROWS)
def test_differential_entropy_is_that_of_scipy(row):
    expected = stats.dirichlet.entropy(np.array(row) + 1)
    assert ev.Opinion.from_evidence(tensor(row)).differential_entropy().item() == pytest.approx(
        expected, rel=1e-9
    )


def single_precision(rows):
    evidence = torch.tensor(rows, dtype=torch.float32)
    return ev.Opinion.from_evidence(evidence), evidence.tolist()


@pytest.mark.parametrize("shape", [[1, 1, 1], [1, 0, 0], [1, 0.5, 0.01], [1, 1e-3, 0]])
@pytest.mark.parametrize("exponent", range(-6, 10))
def test_accuracy_in_single_precision(exponent, shape):
    """Mutual information to four digits; expected entropy also, or to 1e-6 nats where little is left."""
    opinion, [row] = single_precision([[factor * 10.0**exponent for factor in shape]])
    mutual = float(ref.exact_mutual_information(row))
    assert opinion.mutual_information().item() == pytest.approx(mutual, rel=1e-4)
    expected = float(ref.exact_expected_entropy(row))
    assert opinion.expected_entropy().item() == pytest.approx(expected, rel=1e-4, abs=1e-6)


@given(evidence_rows(largest=9))
@settings(deadline=None)
def test_mutual_information_in_single_precision(rows):
    opinion, rows = single_precision(rows)
    exact = [float(ref.exact_mutual_information(row)) for row in rows]
    assert opinion.mutual_information().tolist() == pytest.approx(exact, rel=1e-4)
    assert (opinion.mutual_information() >= 0).all()


@given(evidence_rows(largest=9))
@settings(deadline=None)
def test_expected_entropy_in_single_precision(rows):
    opinion, rows = single_precision(rows)
    exact = [float(ref.exact_expected_entropy(row)) for row in rows]
    assert opinion.expected_entropy().tolist() == pytest.approx(exact, rel=1e-4, abs=1e-6)


# ---------------------------------------------------------------------------------------------- the container


@pytest.mark.parametrize("name", ["evidence", "alpha", "belief", "uncertainty", "labels"])
def test_an_opinion_is_frozen(opinion, name):
    with pytest.raises(AttributeError):
        setattr(opinion, name, torch.zeros(2, 3, 4))


@pytest.mark.parametrize("index", [0, -1, slice(1, 2), (1, 2), (slice(None), 1), torch.tensor([1, 0])])
def test_an_index_goes_to_the_batch_axes(opinion, evidence, index):
    chosen = opinion[index]
    assert isinstance(chosen, ev.Opinion)
    assert_near(chosen.evidence, evidence[index])
    assert chosen.num_classes == 4


def test_a_mask_goes_to_the_batch_axes(opinion, evidence):
    mask = opinion.uncertainty < opinion.uncertainty.median()
    assert_near(opinion[mask].evidence, evidence[mask])


def test_an_ellipsis_stops_before_the_classes():
    """As many classes as rows: the shape alone would not tell a class axis from a batch axis."""
    evidence = torch.arange(32.0).reshape(2, 4, 4)
    assert_near(ev.Opinion.from_evidence(evidence)[..., 0].evidence, evidence[:, 0])


def test_an_index_never_reaches_the_classes(opinion):
    with pytest.raises(IndexError, match="too many indices"):
        opinion[:, :, [3, 2, 1, 0]]


def test_the_length_is_that_of_the_first_axis(opinion):
    assert len(opinion) == 2
    assert len(opinion[:1]) == 1


def test_numpy_gives_all_arrays(opinion):
    arrays = opinion.numpy()
    assert set(arrays) == {"evidence", "belief", "uncertainty", "probabilities", "labels", "is_vacuous"}
    for name, array in arrays.items():
        assert isinstance(array, np.ndarray)
        np.testing.assert_allclose(array, getattr(opinion, name).numpy())


def test_numpy_of_what_still_has_a_gradient():
    opinion = ev.Opinion.from_logits(torch.zeros(1, 3, requires_grad=True))
    assert opinion.numpy()["evidence"].tolist() == [[1.0, 1.0, 1.0]]


def test_to_changes_the_precision():
    opinion = ev.Opinion.from_evidence(torch.tensor([[1.0, 2.5]]))
    moved = opinion.to(torch.float64)
    assert moved.evidence.dtype == torch.float64
    assert moved.uncertainty.dtype == torch.float64
    assert opinion.evidence.dtype == torch.float32
    assert moved.evidence.tolist() == [[1.0, 2.5]]


def test_dirichlet_has_the_opinions_mean(opinion):
    dirichlet = opinion.dirichlet()
    assert isinstance(dirichlet, torch.distributions.Dirichlet)
    assert_near(dirichlet.mean, opinion.probabilities)
    assert_near(dirichlet.concentration, opinion.alpha)
    assert_near(dirichlet.entropy(), opinion.differential_entropy(), rtol=1e-9)


def test_labels_and_rejection():
    opinion = ev.Opinion.from_evidence(tensor([[0.0, 3.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1e-6]]))
    assert opinion.labels.tolist() == [
        1,
        0,
        2,
    ]  # arg-max all the same; `is_vacuous` tells that it means nothing
    assert opinion.is_vacuous.tolist() == [False, True, False]
    assert opinion.labels.dtype == torch.int64
    assert opinion.is_vacuous.dtype == torch.bool


def test_evidence_too_small_for_a_probability_still_has_a_label():
    """1 + 1e-9 is 1 in float32: the arg-max has to be that of the evidence."""
    opinion = ev.Opinion.from_evidence(torch.tensor([0.0, 1e-9, 0.0]))
    assert opinion.labels.item() == 1
    assert not opinion.is_vacuous.item()


def test_repr_is_short():
    opinion = ev.Opinion.from_evidence(torch.rand(500, 100))
    assert "Opinion" in repr(opinion)
    assert len(repr(opinion)) < 200


def test_gradients_pass_through(evidence):
    evidence.requires_grad_()
    ev.Opinion.from_evidence(evidence).uncertainty.sum().backward()
    strength = ref.naive_strength(evidence.detach())
    assert_near(evidence.grad, (-4 / strength**2).unsqueeze(-1).expand(2, 3, 4))


# ------------------------------------------------------------------------------------------------ discounting


def test_discount_is_that_of_the_reference(opinion, evidence):
    trust = tensor([[0.0, 0.2, 0.5], [0.7, 0.9, 1.0]])
    belief, u = ref.naive_discount(ref.naive_belief(evidence), ref.naive_uncertainty(evidence), trust)
    discounted = opinion.discount(trust)
    assert_near(discounted.belief, belief)
    assert_near(discounted.uncertainty, u)


@given(evidence_rows(), st.floats(0, 1))
@settings(deadline=None)
def test_discount_by_a_number(rows, trust):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    belief, u = ref.naive_discount(opinion.belief, opinion.uncertainty, trust)
    discounted = opinion.discount(trust)
    assert_near(discounted.belief, belief)
    assert_near(discounted.uncertainty, u)


@given(evidence_rows())
@settings(deadline=None)
def test_full_trust_changes_nothing_and_no_trust_leaves_nothing(rows):
    opinion = ev.Opinion.from_evidence(tensor(rows))
    assert_near(opinion.discount(1.0).evidence, opinion.evidence)
    assert (opinion.discount(0.0).evidence == 0).all()
    assert (opinion.discount(0.0).uncertainty == 1).all()


@pytest.mark.parametrize("shape", [(2,), (3, 2), (5, 2, 3)])
def test_trust_of_another_shape_is_refused(opinion, shape):
    with pytest.raises(ev.InputError, match="trust"):
        opinion.discount(torch.full(shape, 0.5))


@pytest.mark.parametrize("trust", [-0.1, 1.1, math.nan, torch.tensor([[0.5, 0.5, 2.0], [0.0, 0.0, 0.0]])])
def test_trust_outside_the_unit_interval_is_refused(opinion, trust):
    with pytest.raises(ev.InputError, match="trust"):
        opinion.discount(trust)


# ----------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("evidence", "reason"),
    [
        (torch.tensor([1.0, -0.5]), "evidence must be finite and zero or more, got -0.5 to 1"),
        (torch.tensor([[1.0, 2.0], [math.nan, 0.0]]), "evidence must be finite and zero or more, .* got nan"),
        (torch.tensor([1, 2, 3]), r"evidence must be a tensor of floating point numbers, got int64 \(3,\)"),
        (torch.tensor([[1.0], [2.0]]), r"evidence must have two or more classes, got float32 \(2, 1\)"),
    ],
    ids=["negative", "not a number", "integers", "one class"],
)
def test_bad_evidence_is_refused(evidence, reason):
    with pytest.raises(ev.InputError, match=reason):
        ev.Opinion.from_evidence(evidence)


def test_unknown_evidence_is_refused_by_name():
    with pytest.raises(ev.InputError, match="tanh"):
        ev.Opinion.from_logits(torch.zeros(1, 3), evidence="tanh")


@pytest.mark.parametrize(
    ("logits", "reason"),
    [
        (torch.zeros(2, 1), r"logits must have two or more classes, got float32 \(2, 1\)"),
        (torch.tensor([[math.nan, 1.0]]), "logits must be numbers, got NaN"),
        (torch.tensor([[1, 2]]), r"logits must be a tensor of floating point numbers, got int64 \(1, 2\)"),
    ],
)
def test_bad_logits_are_refused(logits, reason):
    with pytest.raises(ev.InputError, match=reason):
        ev.Opinion.from_logits(logits)


def test_opinions_are_in_single_or_double_precision():
    assert ev.Opinion.from_evidence(torch.ones(2, 3, dtype=torch.float16)).evidence.dtype == torch.float32
    with pytest.raises(ev.InputError, match="evidence must be float32 or float64, got float16"):
        ev.Opinion.from_evidence(torch.ones(2, 3)).to(torch.float16)


def test_a_single_opinion():
    opinion = ev.Opinion.from_evidence(torch.tensor([8.0, 0.0]))
    assert repr(opinion) == "Opinion(class 0, belief 0.800, uncertainty 0.200)"
    assert repr(ev.Opinion.from_evidence(torch.zeros(2))) == (
        "Opinion(I do not know, belief 0.000, uncertainty 1.000)"
    )
    with pytest.raises(TypeError, match="a single opinion has no length"):
        len(opinion)
    with pytest.raises(ev.InputError, match="a single opinion can't be indexed"):
        opinion[0]


def test_an_empty_batch_has_a_repr():
    assert repr(ev.Opinion.from_evidence(torch.zeros(0, 3))) == "Opinion(batch (0,), 3 classes)"
    assert ev.Opinion.from_evidence(torch.zeros(0, 3)).dissonance().shape == (0,)


def test_negative_evidence_of_the_users_function_is_named():
    with pytest.raises(ev.InputError, match="evidence must be finite and zero or more, got -2"):
        ev.Opinion.from_logits(torch.tensor([-2.0, 1.0]), evidence=lambda z: z)


# ------------------------------------------------------------------------------------------------- any prior

PRIORS = [0.1, 0.8, 10.0]


@pytest.mark.parametrize("prior", PRIORS)
@given(rows=evidence_rows())
@settings(deadline=None, max_examples=30)
def test_masses_are_masses_with_any_prior(prior, rows):
    opinion = ev.Opinion.from_evidence(tensor(rows), prior=prior)
    K, ones = opinion.num_classes, torch.ones(len(rows), dtype=torch.float64)
    assert_near(opinion.alpha, tensor(rows) + prior)
    assert_near(opinion.strength, opinion.alpha.sum(-1))
    assert_near(opinion.uncertainty, K * prior / opinion.alpha.sum(-1))
    assert_near(opinion.belief.sum(-1) + opinion.uncertainty, ones)
    assert_near(opinion.probabilities.sum(-1), ones)
    assert_near(opinion.probabilities, opinion.belief + opinion.uncertainty.unsqueeze(-1) / K)


@pytest.mark.parametrize("prior", PRIORS)
def test_measures_follow_the_prior(evidence, prior):
    opinion = ev.Opinion(evidence, prior)
    for name in ("entropy", "expected_entropy", "mutual_information", "differential_entropy"):
        expected = [float(ref.exact_with_prior(row, prior)[name]) for row in evidence.view(6, 4).tolist()]
        assert_near(getattr(opinion, name)().view(6), tensor(expected), rtol=1e-9)
    beliefs = (evidence / (evidence + prior).sum(-1, keepdim=True)).view(6, 4).tolist()
    assert_near(
        opinion.dissonance().view(6), tensor([ref.naive_dissonance(row) for row in beliefs]), rtol=1e-9
    )
    assert_near(opinion.dirichlet().concentration, evidence + prior)


@pytest.mark.parametrize("prior", PRIORS)
@given(rows=evidence_rows(), trust=st.floats(0, 1))
@settings(deadline=None, max_examples=30)
def test_discount_follows_the_prior(prior, rows, trust):
    opinion = ev.Opinion.from_evidence(tensor(rows), prior=prior)
    discounted = opinion.discount(trust)
    assert discounted.prior == prior
    assert_near(discounted.belief, trust * opinion.belief)
    assert_near(discounted.uncertainty, 1 - trust * (1 - opinion.uncertainty))


def test_the_prior_goes_along(evidence):
    opinion = ev.Opinion(evidence, 0.1, evidence.argmin(-1))
    for other in (opinion[1], opinion.to(torch.float32), opinion.discount(0.5)):
        assert other.prior == 0.1
        assert other.raw_labels is not None
    assert opinion[1].raw_labels.tolist() == evidence[1].argmin(-1).tolist()
    assert opinion.numpy()["uncertainty"] == pytest.approx((0.4 / (evidence.sum(-1) + 0.4)).numpy())
    assert repr(opinion).endswith(", prior 0.1)")
    assert repr(ev.Opinion(torch.zeros(2), 2)) == (
        "Opinion(I do not know, belief 0.000, uncertainty 1.000, prior 2)"
    )


def test_raw_labels_that_do_not_fit_the_evidence_are_refused():
    with pytest.raises(
        ev.InputError, match=r"raw_labels must be a tensor of whole numbers of shape \(2,\), got int64 \(5,\)"
    ):
        ev.Opinion(torch.ones(2, 3), raw_labels=torch.zeros(5, dtype=torch.long))


@pytest.mark.parametrize("prior", [0, -1.0, float("nan"), float("inf"), 1e-7, 1e7, True, "1", None])
def test_a_prior_that_is_none_is_refused(prior):
    with pytest.raises(ev.InputError, match=r"prior must be a number from 1e-06 to 1e\+06, got "):
        ev.Opinion(torch.zeros(2), prior)


# -------------------------------------------------------------------------------------------- the class axis


@pytest.mark.parametrize("dim", [1, -3])
def test_the_classes_of_a_segmentation_network_are_on_axis_one(dim):
    logits = torch.randn(2, 3, 5, 7, generator=torch.Generator().manual_seed(0))
    opinion = ev.Opinion.from_logits(logits, dim=dim, prior=0.1)
    assert opinion.evidence.shape == (2, 5, 7, 3)
    assert opinion.num_classes == 3
    assert opinion.prior == 0.1
    pixel = ev.Opinion.from_logits(logits[1, :, 4, 6], prior=0.1)
    assert torch.equal(opinion[1, 4, 6].evidence, pixel.evidence)
    assert torch.equal(opinion.labels, logits.argmax(1))
    softmax = ev.Categorical.from_logits(logits, dim=dim)
    assert softmax.probabilities.shape == (2, 5, 7, 3)
    assert_near(softmax.probabilities, logits.softmax(1).permute(0, 2, 3, 1), rtol=1e-6)


@pytest.mark.parametrize("dim", [2, -3])
def test_an_axis_that_is_not_there_is_refused(dim):
    with pytest.raises(ev.InputError, match=rf"logits must have a class axis {dim}, got float32 \(2, 3\)"):
        ev.Opinion.from_logits(torch.zeros(2, 3), dim=dim)


def test_an_evidence_function_keeps_the_shape():
    with pytest.raises(ev.InputError, match=r"must keep the shape \(2, 3\), gave float32 \(2, 2\)"):
        ev.Opinion.from_logits(torch.zeros(2, 3), evidence=lambda z: z[:, :2])


def test_the_repr_of_an_opinion_with_a_gradient_is_the_same():
    evidence = torch.tensor([[8.0, 0.0]], requires_grad=True)
    assert repr(ev.Opinion(evidence)) == "Opinion(batch (1,), 2 classes, mean uncertainty 0.200)"
    assert repr(ev.Opinion(evidence[0])) == "Opinion(class 0, belief 0.800, uncertainty 0.200)"


# ------------------------------------------------------------------------------------------------- base rates


def shares_like(evidence, seed=1):
    """Base rates (..., K) that differ from class to class; one class of each row has none."""
    drawn = torch.rand(evidence.shape, generator=torch.Generator().manual_seed(seed), dtype=evidence.dtype)
    drawn[..., 0] = 0
    return drawn / drawn.sum(-1, keepdim=True)


def naive_measures(alpha):
    """Of a Dirichlet distribution by its parameters (K,), from scipy, as printed."""
    alpha = alpha.numpy()
    strength = alpha.sum()
    p = alpha / strength
    entropy = stats.entropy(p)
    expected = -(p * (special.digamma(alpha + 1) - special.digamma(strength + 1))).sum()
    return {
        "entropy": entropy,
        "expected_entropy": expected,
        "mutual_information": entropy - expected,
        "differential_entropy": stats.dirichlet.entropy(alpha),
    }


@pytest.mark.parametrize("prior", [1.0, 0.1])
def test_base_rates_share_the_uncertainty_and_leave_it_what_it_is(evidence, prior):
    rates = shares_like(evidence)
    equal = ev.Opinion(evidence, prior)
    opinion = ev.Opinion.from_evidence(evidence, prior=prior, base_rates=rates)
    assert_near(opinion.belief, equal.belief)
    assert_near(opinion.uncertainty, equal.uncertainty)
    assert_near(opinion.strength, equal.strength)
    assert_near(opinion.probabilities, equal.belief + equal.uncertainty.unsqueeze(-1) * rates)
    assert_near(opinion.alpha.sum(-1), opinion.strength)
    assert_near(opinion.dirichlet().mean[..., 1:], opinion.probabilities[..., 1:])


def test_equal_base_rates_are_none_at_all(evidence):
    equal = ev.Opinion(evidence, base_rates=torch.full_like(evidence, 1 / 4))
    for name in ("alpha", "probabilities", "belief", "uncertainty", "labels"):
        assert_near(getattr(equal, name), getattr(ev.Opinion(evidence), name))
    for name in SCALARS:
        assert_near(getattr(equal, name)(), getattr(ev.Opinion(evidence), name)(), rtol=1e-6)


def test_measures_are_those_of_the_dirichlet_with_base_rates(evidence):
    rates = (shares_like(evidence) + 0.25) / 2  # every class has some: scipy wants it
    opinion = ev.Opinion(evidence, 0.5, base_rates=rates)
    for row in range(6):
        for name, expected in naive_measures(opinion.alpha.view(6, 4)[row]).items():
            actual = float(getattr(opinion, name)().view(6)[row])
            assert actual == pytest.approx(expected, rel=1e-5, abs=1e-7), name


def test_measures_are_finite_where_a_class_has_neither_evidence_nor_a_base_rate():
    sure = ev.Opinion(torch.tensor([[9.0, 0.0, 0.0]]), base_rates=torch.tensor([[1.0, 0.0, 0.0]]))
    assert sure.probabilities.tolist() == [[1.0, 0.0, 0.0]]
    for name in SCALARS:
        assert getattr(sure, name)().isfinite().all(), name
    assert float(sure.entropy()) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("trust", [0.0, 0.3, 1.0])
def test_what_a_discount_adds_is_shared_equally(evidence, trust):
    opinion = ev.Opinion(evidence, 0.7, base_rates=shares_like(evidence))
    discounted = opinion.discount(trust)
    assert_near(discounted.belief, trust * opinion.belief)
    assert_near(discounted.uncertainty, 1 - trust * (1 - opinion.uncertainty))
    assert_near(discounted.probabilities, trust * opinion.probabilities + (1 - trust) / 4)
    assert_near(discounted.base_rates.sum(-1), torch.ones(2, 3, dtype=torch.float64))


def test_base_rates_go_along(evidence):
    opinion = ev.Opinion(evidence, 1.0, evidence.argmin(-1), shares_like(evidence))
    assert_near(opinion[1].base_rates, opinion.base_rates[1])
    assert_near(opinion[:, 0].probabilities, opinion.probabilities[:, 0])
    assert opinion[1].labels.tolist() == evidence[1].argmin(-1).tolist()
    single = opinion.to(torch.float32)
    assert single.base_rates.dtype == torch.float32
    assert_near(single.probabilities.double(), opinion.probabilities, rtol=1e-6)
    assert opinion.numpy()["probabilities"] == pytest.approx(opinion.probabilities.numpy())


@pytest.mark.parametrize(
    ("rates", "message"),
    [
        ([0.5, 0.5], "sum 1"),
        ([0.6, 0.6, -0.2], "zero or more"),
        ([0.5, 0.6, 0.1], "sum 1"),
        ([math.nan, 0.5, 0.5], "sum 1"),
    ],
)
def test_base_rates_that_are_no_shares_are_refused(rates, message):
    with pytest.raises(ev.InputError, match=message if len(rates) == 3 else "like the evidence"):
        ev.Opinion.from_evidence(torch.ones(3), base_rates=torch.tensor(rates))


@pytest.mark.parametrize("rates", [[0.5, 0.5], torch.ones(2, dtype=torch.int64), torch.ones(2).double() / 2])
def test_base_rates_of_another_form_are_refused(rates):
    with pytest.raises(
        ev.InputError, match=r"base_rates must be a tensor like the evidence, float32 \(2,\), got"
    ):
        ev.Opinion(torch.ones(2), base_rates=rates)


def test_base_rates_are_looked_at_unless_it_is_said_otherwise():
    no_shares = torch.tensor([0.9, 0.9])
    unseen = ev.Opinion.from_evidence(torch.ones(2), base_rates=no_shares, validate=False)
    assert torch.equal(unseen.base_rates, no_shares)
    empty = ev.Opinion.from_evidence(torch.ones(0, 2), base_rates=torch.ones(0, 2))
    assert len(empty) == 0
