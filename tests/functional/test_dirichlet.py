import math

import pytest
import torch
from scipy import stats
from tests import references as ref

from nescio.functional import _dirichlet as dirichlet

PRIORS = [1e-6, 0.1, 0.8, 10.0, 1e6]
ROWS = {
    "none": [0.0, 0.0, 0.0],
    "small": [1e-6, 1e-6, 2e-6],
    "mixed": [1e-6, 1.0, 1e6],
    "large": [1e6, 1e6, 1e6],
    "one": [1e6, 0.0, 0.0],
    "two": [0.3, 7.0],
}
MEASURES = ["entropy", "expected_entropy", "mutual_information", "differential_entropy"]


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_measures_with_any_prior_are_exact(row, prior):
    exact = ref.exact_with_prior(row, prior)
    for name in MEASURES:
        found = getattr(dirichlet, name)(torch.tensor([row], dtype=torch.float64), prior=prior)
        assert found.item() == pytest.approx(float(exact[name]), rel=1e-9, abs=1e-9), name


@pytest.mark.parametrize("prior", PRIORS[1:4])
def test_measures_in_single_precision_are_near(prior):
    row = [0.25, 3.0, 40.0]
    exact = ref.exact_with_prior(row, prior)
    for name in MEASURES:
        found = getattr(dirichlet, name)(torch.tensor([row]), prior=prior)
        assert found.dtype == torch.float32
        assert found.item() == pytest.approx(float(exact[name]), rel=1e-6), name


@pytest.mark.parametrize("prior", PRIORS[1:4])
def test_differential_entropy_is_that_of_scipy(prior):
    row = torch.tensor([0.25, 3.0, 40.0], dtype=torch.float64)
    expected = stats.dirichlet.entropy((row + prior).numpy())
    assert dirichlet.differential_entropy(row, prior).item() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("prior", PRIORS)
def test_without_evidence_all_is_the_prior(prior):
    none = torch.zeros(2, 5, dtype=torch.float64)
    assert dirichlet.divergence(none, prior).tolist() == [0.0, 0.0]
    assert dirichlet.entropy(none, True, prior).tolist() == pytest.approx([1.0, 1.0])
    assert dirichlet.entropy(none, False, prior).tolist() == pytest.approx([math.log(5)] * 2)
