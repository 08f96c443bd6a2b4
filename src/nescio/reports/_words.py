"""What a model card says in sentences, for someone who sees it first, and the facts about the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from nescio._kinds import InputKind
from nescio.data import LabelledData, Table, Texts
from nescio.inference.model import DEFAULT_MAX_UNCERTAINTY, TrainedModel
from nescio.methods import method_to_dict
from nescio.reports._results import Results

NOTHING = "-"
LISTED_CLASSES = 30
LONGEST_NAME = 40
COVERAGES = (0.5, 0.8, 0.9, 1.0)
AS_EXPECTED = 0.02  # how far the mean probability of answers may be from the share that is right
NOT_USED = (None, False, 0, 0.0, ())
NAMED_CLASSES = 6  # that one sentence can name
ONE_OF = {InputKind.IMAGES: "an image", InputKind.ROWS: "a row", InputKind.TEXTS: "a text"}


@dataclass(frozen=True)
class Fact:
    """A line of a table of facts: a label and what is so."""

    label: str
    text: str


def percent(share: float) -> str:
    """A share in percent with one decimal; whole where it is exactly all or nothing."""
    if share in (0, 1):
        return f"{100 * share:.0f}%"
    return f"{100 * share:.1f}%"


def number(value: float) -> str:
    """Two decimals; a dash for what can't be said."""
    return NOTHING if math.isnan(value) else f"{value:.2f}"


def share(value: float) -> str:
    """In percent; a dash for what can't be said."""
    return NOTHING if math.isnan(value) else percent(value)


def on_one_line(text: object) -> str:
    """A text on one line, without characters that do not print."""
    words = " ".join(str(text).split())
    return "".join(character for character in words if character.isprintable())


def short_name(text: str, length: int = LONGEST_NAME) -> str:
    """A name on one line, cut where it is long."""
    plain = on_one_line(text)
    if len(plain) <= length:
        return plain
    return plain[: length - 1] + "…"


def purpose_sentence(model: TrainedModel, data: LabelledData) -> str:
    """What the model is for, in one sentence."""
    one = ONE_OF[data.kind]
    if len(model.classes) > NAMED_CLASSES:
        return f"This model says of {one} which of {len(model.classes):,} classes it is of."
    names = [f"“{short_name(name)}”" for name in model.classes]
    return f"This model says of {one} whether it is {', '.join(names[:-1])} or {names[-1]}."


def summary_sentences(model: TrainedModel, data: LabelledData, results: Results) -> list[str]:
    """How good it is, in two or three sentences."""
    kind = data.kind.value
    label, share_of_most = results.most_frequent
    always = short_name(model.classes[label])
    right = int(results.right.sum())
    sentences = [
        f"Of {results.count:,} {kind}, {right:,} were answered rightly: {percent(right / results.count)}. "
        f"With other {kind} of the same sort the share would lie between {percent(results.interval.low)} and "
        f"{percent(results.interval.high)} (95% interval). Always giving the same answer, “{always}”, would "
        f"be right for {percent(share_of_most)}."
    ]
    sentences.append(_abstention_sentence(model, results, kind))
    if results.num_unanswered:
        sentences.append(
            f"For {results.num_unanswered:,} of them there is no evidence at all, and so no answer: they "
            "count as wrong."
        )
    return sentences


def _abstention_sentence(model: TrainedModel, results: Results, kind: str) -> str:
    if model.rule is None:
        begin = f"The model says “I do not know” where its uncertainty is {DEFAULT_MAX_UNCERTAINTY} or more"
    else:
        begin = f"The model says “I do not know” by a rule, which {model.rule.describe()}"
    answered = results.accepted_share
    accuracy = results.accepted_accuracy
    if accuracy is None:
        return f"{begin}. Here that is always."
    if answered == 1:
        return f"{begin}. Here that is never."
    return (
        f"{begin}. Here it is {percent(1 - answered)} of the {kind}; of the answers that are left, "
        f"{percent(accuracy)} are right."
    )


def rule_text(model: TrainedModel) -> str:
    """By what the model decides which answers it stands by, part of a sentence."""
    if model.rule is None:
        return f"the default (uncertainty < {DEFAULT_MAX_UNCERTAINTY:g})"
    if model.rule.threshold == -math.inf:
        return "its rule, which accepts nothing"
    return f"its rule (doubt by {model.rule.measure} < {model.rule.threshold:.4g})"


def uncertainty_sentence(results: Results) -> str:
    """What the uncertainty of this model is."""
    if results.has_evidence:
        return (
            "The model gathers evidence for each class; uncertainty is the part that no evidence covers, "
            "from 0 (sure) to 1 (it has seen nothing like this)."
        )
    return (
        "This model has no evidence, only probabilities. Its uncertainty is how evenly they are spread "
        "over the classes, from 0 (all on one) to 1 (all alike)."
    )


def calibration_sentences(results: Results) -> list[str]:
    """How to read the calibration, and what it shows."""
    confidence = float(results.prediction.max_probability().double().mean())
    accuracy = results.measures["raw_accuracy"]
    if confidence > accuracy + AS_EXPECTED:
        verdict = "it is too sure of itself"
    elif confidence < accuracy - AS_EXPECTED:
        verdict = "it is more often right than it says"
    else:
        verdict = "on average that fits"
    return [
        "Of 100 answers with probability 0.8 about 80 should be right. Each point stands for the answers "
        "of one range of probability. On the dashed line the model is as right as it says; below it, it "
        "is too sure of itself; above it, it is right more often than it says. The bars below say how "
        "many inputs each point stands for: where there are few, it says little.",
        f"Here answers have a probability of {percent(confidence)} on average, and {percent(accuracy)} are "
        f"right: {verdict}. Over all ranges, the two differ by {percent(results.measures['ece'])} "
        "(expected calibration error).",
    ]


def risk_sentences(results: Results) -> list[str]:
    """How to read the risk-coverage curve, and what it shows."""
    if bool(results.right.all()):
        return ["No answer was wrong, so nothing is gained by leaving doubtful inputs out."]
    half = results.risk_at(0.5)
    everything = results.risk_at(1.0)
    if half < everything:
        found = (
            f"Of the surer half {percent(half)} are wrong, of all {percent(everything)}: the uncertainty "
            "tells where to be careful."
        )
    else:
        found = (
            f"Of the surer half {percent(half)} are wrong, of all {percent(everything)}: here the "
            "uncertainty does not tell where the mistakes are."
        )
    return [
        "From left to right more and more inputs are answered, those first of which the model is surest; "
        "the line says how many of these answers are wrong. A useful uncertainty stays low for long and "
        "rises at the right.",
        found,
    ]


def risk_rows(results: Results) -> list[Fact]:
    """How many answers are wrong where only the surest inputs are answered."""
    rows = []
    for coverage in COVERAGES:
        label = "all" if coverage == 1 else f"the surest {coverage:.0%}"
        rows.append(Fact(label, percent(results.risk_at(coverage))))
    return rows


def ood_sentences(results: Results, name: str) -> list[str]:
    """What out-of-distribution inputs are, and how well they are noticed."""
    assert results.ood is not None
    assert results.ood_accepted_share is not None
    auroc = results.ood_measures[doubt_measure(results) + "_auroc"]
    return [
        f"{len(results.ood):,} inputs of {name} are of none of these classes. A good model is more "
        "uncertain of them than of inputs that it knows. Take one of each: with a chance of "
        f"{percent(auroc)} the one that is out of distribution is the more uncertain one (AUROC; 50% is a "
        "guess, 100% is perfect).",
        f"Where the model does not say “I do not know” it answers all the same: that is "
        f"{percent(results.ood_accepted_share)} of them.",
    ]


def doubt_measure(results: Results) -> str:
    """The measure by which out-of-distribution inputs are told: the uncertainty, or what stands in for it."""
    return "uncertainty" if results.has_evidence else "entropy"


def facts(model: TrainedModel, data: LabelledData, split: str) -> list[Fact]:
    """What was trained on what, and measured on what."""
    trained_on = model.training.get("data", {})
    rows = []
    if trained_on:
        text = f"{trained_on['samples']:,} {data.kind.value} from {trained_on['name']}"
        rows.append(Fact("Trained on", text))
    measured_on = f"{len(data):,} {data.kind.value} from {data.name}"
    rows.append(Fact("Measured on", f"{measured_on}; {split}" if split else measured_on))
    rows.append(Fact("Inputs", _inputs_text(model, data)))
    rows.append(Fact("Classes", _classes_text(model)))
    rows.append(Fact("Network", network_text(model)))
    rows.append(Fact("Method", f"{model.method.name} ({model.method.about})"))
    fitted = _posthoc_text(model, data.kind.value)
    if fitted:
        rows.append(Fact("Fitted after training", fitted))
    if model.rule is not None:
        rows.append(Fact("Rule", model.rule.describe()))
    if model.sets is not None:
        rows.append(Fact("Sets", model.sets.describe()))
    return rows


def _posthoc_text(model: TrainedModel, kind: str) -> str:
    """What was fitted after the training, to how much, and what could not be; empty where nothing was."""
    parts = []
    summary = model.training.get("posthoc", {})
    if model.posthoc is not None:
        said = model.posthoc.describe()
        if model.posthoc.trust is None and summary.get("samples"):  # trust says it itself
            said = f"{said}, by {summary['samples']:,} {kind} that had no part in the training"
        parts.append(said)
    for name, reason in summary.get("skipped", {}).items():
        what = "temperature and no trust" if name == "all" else name
        parts.append(f"no {what}: {reason}")
    return "; ".join(parts)


def _inputs_text(model: TrainedModel, data: LabelledData) -> str:
    shape = model.input_shape
    if model.preprocess.kind is InputKind.IMAGES:
        colour = {1: "grey", 3: "colour"}.get(shape[0], f"{shape[0]} channels")
        return f"images of {shape[1]} x {shape[2]} pixels, {colour}"
    if isinstance(data, Texts):
        return f"texts of up to {shape[0]} tokens; what is longer is cut"
    schema = data.schema if isinstance(data, Table) else None
    if schema is None:
        return f"rows of {shape[0]} numbers"
    listed = ", ".join(short_name(name) for name in schema.names[:LISTED_CLASSES])
    more = len(schema.names) - LISTED_CLASSES
    return f"{listed} and {more} more columns" if more > 0 else listed


def _classes_text(model: TrainedModel) -> str:
    listed = ", ".join(short_name(name) for name in model.classes[:LISTED_CLASSES])
    more = len(model.classes) - LISTED_CLASSES
    if more > 0:
        listed = f"{listed} and {more} more"
    return f"{len(model.classes)}: {listed}"


def network_text(model: TrainedModel) -> str:
    """The network in words."""
    size = _parameters(model.module)
    if model.encoder is not None:
        fixed = _parameters(model.encoder.module)
        return (
            f"a head of {size:,} parameters, trained on the features of {model.encoder.spec.kind} "
            f"({fixed:,} parameters, pretrained, left as they are)"
        )
    if model.network is None:
        return f"{type(model.module).__name__}, {size:,} parameters"
    return f"{model.network.kind}, {size:,} parameters, all trained"


def _parameters(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def settings_facts(model: TrainedModel) -> list[Fact]:
    """The settings of the method and of the training that say something: not those that are off."""
    rows = []
    of_method = method_to_dict(model.method)
    del of_method["name"]
    for settings in (of_method, model.training.get("settings", {})):
        for name, value in settings.items():
            is_off = any(value is off or value == off for off in NOT_USED)
            if not is_off or name == "seed":
                rows.append(Fact(name.replace("_", " "), _setting_text(value)))
    return rows


def _setting_text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        return ", ".join(_setting_text(one) for one in value)
    return str(value)
