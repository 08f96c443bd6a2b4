import math
from dataclasses import replace

import pytest
import torch
from tests.reports.cases import corners, images, trained

from nescio.data import Texts
from nescio.opinions import Categorical, Opinion
from nescio.posthoc import AbstentionRule
from nescio.posthoc.state import Posthoc
from nescio.posthoc.temperature import Temperature
from nescio.reports import _words as words
from nescio.reports._results import measure


@pytest.fixture(scope="module")
def data():
    return corners(60)


@pytest.fixture(scope="module")
def model(data):
    return trained(data)


def results_of(model, rows, labels, ood=None):
    return measure(model, Opinion(torch.tensor(rows)), torch.tensor(labels), ood)


MIXED = ([[90.0, 0, 0], [0, 80.0, 0], [0, 1.0, 0], [1.0, 0, 0]], [0, 1, 1, 1])


@pytest.fixture(scope="module")
def mixed(model):
    return results_of(model, *MIXED)


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0%"), (1.0, "100%"), (0.9994, "99.9%"), (1 / 3, "33.3%"), (1e-5, "0.0%")]
)
def test_percent(value, text):
    assert words.percent(value) == words.share(value) == text


def test_what_can_not_be_said_is_a_dash():
    assert words.share(math.nan) == words.number(math.nan) == "-"
    assert words.number(0.456) == "0.46"


def test_the_summary(model, data, mixed):
    first, second = words.summary_sentences(model, data, mixed)
    assert first.startswith("Of 4 rows, 3 were answered rightly: 75.0%.")
    assert "Always giving the same answer, “green”, would be right for 75.0%." in first
    assert "uncertainty is 0.5 or more. Here it is 50.0% of the rows" in second
    assert "100% are right" in second


def test_no_evidence_is_said(model, data):
    silent = results_of(model, [[0.0, 0, 0], [9.0, 0, 0]], [0, 0])
    assert "For 1 of them there is no evidence at all" in words.summary_sentences(model, data, silent)[-1]


@pytest.mark.parametrize(
    ("row", "ending"), [([0.1, 0, 0], "Here that is always."), ([99.0, 0, 0], "Here that is never.")]
)
def test_always_and_never(model, data, row, ending):
    found = results_of(model, [row], [0])
    assert words.summary_sentences(model, data, found)[1].endswith(ending)


def test_a_rule_is_said(model, data, mixed):
    rule = AbstentionRule.for_coverage(mixed.prediction, mixed.labels, 0.5)
    ruled = model.with_rule(rule)
    assert f"by a rule, which {rule.describe()}" in words.summary_sentences(ruled, data, mixed)[1]
    assert words.Fact("Rule", rule.describe()) in words.facts(ruled, data, "")


def test_by_what_the_model_answers(model, mixed):
    assert words.rule_text(model) == "the default (uncertainty < 0.5)"
    rule = AbstentionRule.for_coverage(mixed.prediction, mixed.labels, 0.5, "entropy")
    assert words.rule_text(model.with_rule(rule)) == f"its rule (doubt by entropy < {rule.threshold:.4g})"
    promised = {"max_error": 0.1, "confidence": 0.9, "target_coverage": None}
    nothing = replace(rule, threshold=-math.inf, met=False, **promised)
    assert words.rule_text(model.with_rule(nothing)) == "its rule, which accepts nothing"


def test_what_uncertainty_is(model, mixed):
    assert "evidence for each class" in words.uncertainty_sentence(mixed)
    softmax = measure(model, Categorical(torch.tensor([[0.5, 0.3, 0.2]])), torch.tensor([0]), None)
    assert "no evidence, only probabilities" in words.uncertainty_sentence(softmax)
    assert words.doubt_measure(softmax) == "entropy"


@pytest.mark.parametrize(
    ("right", "verdict"),
    [(5, "too sure of itself"), (8, "on average that fits"), (10, "more often right than it says")],
)
def test_calibration_in_words(model, right, verdict):
    prediction = Categorical(torch.tensor([[0.8, 0.1, 0.1]] * 10))
    labels = torch.tensor([0] * right + [1] * (10 - right))
    explained, found = words.calibration_sentences(measure(model, prediction, labels, None))
    assert explained.startswith("Of 100 answers with probability 0.8 about 80 should be right.")
    assert verdict in found
    assert "80.0% on average" in found


def test_risk_in_words(model, mixed):
    assert "the uncertainty tells where to be careful" in words.risk_sentences(mixed)[1]
    useless = results_of(model, [[9.0, 0, 0], [1.0, 0, 0]], [1, 0])
    assert "does not tell where the mistakes are" in words.risk_sentences(useless)[1]
    (alone,) = words.risk_sentences(results_of(model, [[9.0, 0, 0]], [0]))
    assert alone.startswith("No answer was wrong")
    rows = [(row.label, row.text) for row in words.risk_rows(mixed)]
    assert rows[0] == ("the surest 50%", "0%")
    assert rows[-1] == ("all", "25.0%")


def test_out_of_distribution_in_words(model):
    found = results_of(model, [[9.0, 0, 0]], [0], Opinion(torch.zeros(3, 3)))
    said, answered = words.ood_sentences(found, "letters")
    assert said.startswith("3 inputs of letters are of none of these classes.")
    assert "with a chance of 100%" in said
    assert answered.endswith("answers all the same: that is 0% of them.")
    half = Opinion(torch.tensor([[9.0, 0, 0], [0.0, 0, 0]]))
    assert "that is 50.0% of them" in words.ood_sentences(results_of(model, [[9.0, 0, 0]], [0], half), "x")[1]


def test_facts_of_a_table(model, data):
    found = {fact.label: fact.text for fact in words.facts(model, data, "held out")}
    assert found["Trained on"] == "60 rows from corners"
    assert found["Measured on"] == "60 rows from corners; held out"
    assert found["Inputs"] == "column 0, column 1, column 2"
    assert found["Classes"] == "3: red, green, blue"
    assert found["Network"].startswith("mlp, ")
    assert found["Method"].startswith("edl (")
    assert "Rule" not in found


def test_a_model_that_does_not_say_how_it_was_trained(model, data):
    silent = replace(model, training={})
    assert "Trained on" not in {fact.label for fact in words.facts(silent, data, "")}
    assert words.settings_facts(silent)


def test_facts_of_images_and_of_texts(model):
    pictures = images()
    found = {fact.label: fact.text for fact in words.facts(trained(pictures, epochs=1), pictures, "")}
    assert found["Inputs"] == "images of 16 x 16 pixels, colour"
    talk = Texts(("hello",), torch.tensor([0]), ("red", "green", "blue"), "talk")
    found = {fact.label: fact.text for fact in words.facts(model, talk, "")}
    assert found["Inputs"] == "texts of up to 3 tokens; what is longer is cut"


def test_long_lists_are_cut(model, data):
    many = replace(model, classes=tuple(str(place) for place in range(500)))
    found = {fact.label: fact.text for fact in words.facts(many, data, "")}
    assert found["Classes"].startswith("500: 0, 1, ")
    assert found["Classes"].endswith("29 and 470 more")


def test_a_module_of_ones_own(model):
    own = replace(model, network=None)
    assert words.network_text(own).startswith(type(model.module).__name__)


def test_settings_that_are_off_are_left_out(model):
    found = {fact.label: fact.text for fact in words.settings_facts(model)}
    assert found["epochs"] == "15"
    assert found["learning rate"] == "0.01"
    assert found["seed"] == "0"
    assert found["risk"] == "cross_entropy"
    assert "patience" not in found
    assert "mixup" not in found


def test_names_are_cut_and_on_one_line():
    assert words.short_name("a\n b\x07c") == "a bc"
    assert words.short_name("n" * 41) == "n" * 39 + "…"
    assert words.short_name("n" * 40) == "n" * 40


def test_what_the_model_is_for(model, data):
    assert words.purpose_sentence(model, data) == (
        "This model says of a row whether it is “red”, “green” or “blue”."
    )
    many = replace(model, classes=tuple(str(place) for place in range(1500)))
    assert words.purpose_sentence(many, data) == "This model says of a row which of 1,500 classes it is of."


def test_what_was_fitted_after_the_training(model, data):
    skipped = {"trust": "it needs 50 held-out inputs, got 48"}
    training = {**model.training, "posthoc": {"samples": 48, "skipped": skipped}}
    fitted = replace(model, posthoc=Posthoc(Temperature(1.5), None), training=training)
    found = {fact.label: fact.text for fact in words.facts(fitted, data, "")}
    assert found["Fitted after training"] == (
        "temperature: scale 1.5, by 48 rows that had no part in the training; "
        "no trust: it needs 50 held-out inputs, got 48"
    )
    nothing = {"posthoc": {"samples": 0, "skipped": {"all": "40 samples are too few to set some aside"}}}
    found = {fact.label: fact.text for fact in words.facts(replace(model, training=nothing), data, "")}
    assert found["Fitted after training"] == (
        "no temperature and no trust: 40 samples are too few to set some aside"
    )
    assert "Fitted after training" not in {fact.label for fact in words.facts(model, data, "")}
