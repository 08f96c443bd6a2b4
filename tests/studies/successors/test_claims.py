import dataclasses

import pytest
from tests.studies.successors.made import EMPTY, result, results_of

from nescio.studies._claims import NOT_MEASURED, NOT_REPRODUCED, PARTLY, REPRODUCED
from nescio.studies.successors._arms import label
from nescio.studies.successors._claims import CLAIMS, check_all
from nescio.studies.successors._sets import ALL_ARMS

SETS = ("letter", "clinc150", "20newsgroups")


def claim(start):
    (found,) = [each for each in CLAIMS if each.says.startswith(start)]
    return found


def verdict(start, results, subject=""):
    return claim(start).check(results, subject)


def compared(method, other, name, pairs):
    """Results of two methods with these values on the data sets."""
    made = []
    for study_set, (mine, theirs) in zip(SETS, pairs, strict=False):
        made.append(result(method, study_set, **{name: mine}))
        made.append(result(other, study_set, **{name: theirs}))
    return results_of(made)


def test_without_results_nothing_is_said():
    for checked in check_all(EMPTY):
        assert {each.mark for each in checked.verdicts.values()} == {NOT_MEASURED}


def test_every_claim_has_a_rule_and_all_arms_are_checked_where_it_says_every():
    for each in CLAIMS:
        assert each.rule
        assert each.shown_in in ("ranks", "trust", "letter-known")
    (trust,) = [each for each in check_all(EMPTY) if "help every method" in each.claim.says]
    assert list(trust.verdicts) == [label(arm) for arm in ALL_ARMS]


@pytest.mark.parametrize(
    ("start", "method", "other"),
    [
        ("I-EDL beats", "i-edl", "edl-paper"),
        ("R-EDL beats", "r-edl", "edl-paper"),
        ("Re-EDL beats", "re-edl", "r-edl"),
        ("DAEDL beats", "daedl", "edl-paper"),
        ("F-EDL beats", "f-edl", "daedl"),
        ("Of this library: the default loss is better", "edl", "edl-paper"),
    ],
)
@pytest.mark.parametrize(
    ("pairs", "mark"),
    [
        ([(0.9, 0.8), (0.9, 0.8), (0.9, 0.899)], REPRODUCED),
        ([(0.9, 0.8), (0.9, 0.8), (0.8, 0.9)], PARTLY),
        ([(0.9, 0.8), (0.9, 0.899), (0.9, 0.899)], PARTLY),
        ([(0.9, 0.8), (0.8, 0.9), (0.9, 0.899)], NOT_REPRODUCED),
        ([(0.9, 0.899), (0.9, 0.901)], NOT_REPRODUCED),
    ],
)
def test_one_method_beats_another(start, method, other, pairs, mark):
    found = verdict(start, compared(method, other, "auroc", pairs))
    assert found.mark == mark
    assert "0.9" in found.found


def test_means_are_over_the_seeds_that_both_have():
    made = []
    for study_set in SETS[:2]:
        for seed, auroc in enumerate((0.8, 0.9, 0.1)):
            made.append(result("i-edl", study_set, seed, auroc=auroc))
        for seed, auroc in enumerate((0.8, 0.8)):
            made.append(result("edl-paper", study_set, seed, auroc=auroc))
    found = verdict("I-EDL beats", results_of(made))
    assert found.mark == REPRODUCED  # with the third seed it would be lost
    assert found.found == (
        "2 of 2 won, 0 lost: letter, A to T / letter U to Z 0.850 against 0.800 (2 of 3 seeds), "
        "CLINC150 / out of scope 0.850 against 0.800 (2 of 3 seeds)"
    )


def test_all_seeds_are_not_counted_and_seeds_of_one_method_alone_are_left_out():
    made = []
    for seed in range(3):
        for arm in ("edl", "softmax"):
            made.append(result(arm, seed=seed))
            made.append(result(arm, "mnist", seed=seed))
    made.append(result("edl", "clinc150"))
    made.append(result("softmax", "clinc150", seed=1))
    found = verdict("Of this library: the default loss is as accurate", results_of(made))
    assert found.found == "below on 0 of 2: letter, A to T 95.0 against 95.0, MNIST 95.0 against 95.0"


def test_one_data_set_is_not_enough():
    assert verdict("I-EDL beats", compared("i-edl", "edl-paper", "auroc", [(0.9, 0.8)])) is None


@pytest.mark.parametrize(
    ("pairs", "mark"),
    [
        ([(0.95, 0.90), (0.80, 0.75)], REPRODUCED),
        ([(0.95, 0.90), (0.951, 0.95)], PARTLY),
        ([(0.951, 0.95), (0.951, 0.95)], NOT_REPRODUCED),
    ],
)
def test_red_is_more_accurate(pairs, mark):
    assert verdict("RED is", compared("red", "edl-paper", "accuracy", pairs)).mark == mark


@pytest.mark.parametrize(
    ("aurocs", "aurcs", "mark"),
    [
        ([(0.9, 0.8)] * 3, [(0.01, 0.02)] * 3, REPRODUCED),
        ([(0.9, 0.8)] * 3, [(0.02, 0.01)] * 3, PARTLY),
        ([(0.8, 0.9)] * 3, [(0.01, 0.02)] * 3, PARTLY),
        ([(0.8, 0.9)] * 3, [(0.02, 0.01)] * 3, NOT_REPRODUCED),
    ],
)
def test_ensembles_mend(aurocs, aurcs, mark):
    made = []
    for place, study_set in enumerate(SETS):
        made.append(result("edl-ensemble", study_set, auroc=aurocs[place][0], aurc=aurcs[place][0]))
        made.append(result("edl", study_set, auroc=aurocs[place][1], aurc=aurcs[place][1]))
    assert verdict("Fused", results_of(made), "edl-ensemble").mark == mark
    assert verdict("Fused", results_of(made), "edl-distilled") is None


@pytest.mark.parametrize(
    ("accuracies", "mark"),
    [
        ([(0.95, 0.954), (0.95, 0.9)], REPRODUCED),
        ([(0.94, 0.95), (0.95, 0.95), (0.95, 0.95)], PARTLY),
        ([(0.94, 0.95), (0.95, 0.95)], NOT_REPRODUCED),
    ],
)
def test_the_default_loses_nothing(accuracies, mark):
    results = compared("edl", "softmax", "accuracy", accuracies)
    assert verdict("Of this library: the default loss is as accurate", results).mark == mark


@pytest.mark.parametrize(
    ("after", "mark"),
    [((0.9, 0.9), REPRODUCED), ((0.9, 0.75), NOT_REPRODUCED), ((0.9, 0.801), PARTLY)],
)
def test_trust_helps(after, mark):
    made = []
    for study_set, auroc in zip(SETS, after, strict=False):
        made.append(result("red", study_set, auroc=0.8, posthoc={"auroc": auroc}))
    assert verdict("Of this library: temperature and trust help", results_of(made), "red").mark == mark


@pytest.mark.parametrize(
    ("after", "mark"),
    [((0.9, 1.004, 0.5), REPRODUCED), ((0.9, 1.1, 0.5), PARTLY), ((1.1, 1.1, 0.5), NOT_REPRODUCED)],
)
def test_the_temperature_raises_no_nll(after, mark):
    made = []
    for study_set, nll in zip(SETS, after, strict=True):
        made.append(result("red", study_set, nll=1.0, posthoc={"nll": 9.0}, temperature={"nll": nll}))
    assert verdict("Of this library: the temperature", results_of(made), "red").mark == mark


def test_the_nll_is_said_with_digits_enough_for_the_rule():
    made = []
    for study_set in SETS[:2]:
        made.append(result("red", study_set, nll=0.02, posthoc={}, temperature={"nll": 0.02012}))
    found = verdict("Of this library: the temperature", results_of(made), "red")
    assert found.found.startswith("raised on 2 of 2: letter, A to T 0.0201 against 0.0200 (+0.60 %, 1 of 3")


@pytest.mark.parametrize(
    ("ece", "mark"),
    [((0.012, 0.005, 0.01), REPRODUCED), ((0.02, 0.01, 0.01), PARTLY), ((0.02, 0.02, 0.01), NOT_REPRODUCED)],
)
def test_calibrated_about_as_softmax(ece, mark):
    with_both = []
    with_temperature = []
    for study_set, value in zip(SETS, ece, strict=True):
        for made, names in (
            (with_both, ("posthoc", "temperature")),
            (with_temperature, ("temperature", "posthoc")),
        ):
            counted, other = names
            made.append(result("red", study_set, ece=0.2, **{counted: {"ece": value}, other: {"ece": 0.9}}))
            made.append(
                result("softmax", study_set, ece=0.3, **{counted: {"ece": 0.01}, other: {"ece": 0.9}})
            )
    assert verdict("Of this library: with temperature and", results_of(with_both), "red").mark == mark
    assert verdict("Of this library: with the temperature", results_of(with_temperature), "red").mark == mark


def scored(study_set, ours, scores, ood):
    """The default's u beside softmax's scores of one OOD set."""
    softmax = result("softmax", study_set)
    of_scores = {score: {"auroc": value} for score, value in scores.items()}
    numbers = {**softmax.numbers, "scores": {"ood": {ood: of_scores}}}
    return [result("edl", study_set, posthoc={}, auroc=ours), dataclasses.replace(softmax, numbers=numbers)]


BETTER = "Of this library: the default's u tells OOD inputs better than softmax's best score"
OUT_OF_SCOPE = "out of scope"
UNSEEN_LETTERS = "letter U to Z"


@pytest.mark.parametrize("variant", ["as trained", "with temperature and trust"])
@pytest.mark.parametrize(
    ("of_letter", "of_clinc", "mark"),
    [
        (0.9, 0.9, REPRODUCED),
        (0.9, 0.796, PARTLY),
        (0.9, 0.79, NOT_REPRODUCED),
        (0.8, 0.8, NOT_REPRODUCED),
        (0.7, 0.7, NOT_REPRODUCED),
    ],
)
def test_u_is_compared_with_the_best_of_the_scores_of_softmax(variant, of_letter, of_clinc, mark):
    # By its energy softmax is best here; distances are no scores of its outputs, and do not count.
    scores = {"max_probability": 0.5, "energy": 0.8, "knn": 0.99}
    made = scored("letter", of_letter, scores, UNSEEN_LETTERS)
    made += scored("clinc150", of_clinc, scores, OUT_OF_SCOPE)
    found = verdict(f"{BETTER}, {variant}", results_of(made))
    assert found.mark == mark
    assert f"out of scope {of_clinc:.4f} against 0.8000" in found.found


def test_u_is_compared_with_nothing_where_softmax_has_no_scores():
    made = [result("edl", "letter"), result("softmax", "letter"), result("edl", "clinc150")]
    assert verdict(f"{BETTER}, as trained", results_of(made)) is None
