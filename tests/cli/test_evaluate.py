"""`nescio evaluate`: measures, and what it warns of."""

import json
from pathlib import Path

import pytest
import torch

from nescio import TrainedModel
from nescio.cli._evaluate import _print_measures
from nescio.cli._sources import open_inputs
from nescio.posthoc import AbstentionRule

DEFAULT = "the default (uncertainty < 0.5)"


@pytest.mark.parametrize("order", [("edl", "softmax"), ("softmax", "edl")])
def test_an_evidential_model_beside_softmax(capsys, order):
    measured = {
        "edl": {
            "accuracy": 0.5,
            "accepted_by": DEFAULT,
            "ood": {"entropy_auroc": 0.75, "uncertainty_auroc": 0.875},
        },
        "softmax": {"accuracy": 0.25, "accepted_by": DEFAULT, "ood": {"entropy_auroc": 0.625}},
    }
    _print_measures({name: measured[name] for name in order})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    expected = {"edl": "0.8750", "softmax": "-"}
    assert ["uncertainty_auroc", *(expected[name] for name in order)] in lines


def test_evaluate_with_out_of_distribution_data(run, model, photos):
    code, out, _ = run("evaluate", model, "--data", photos, "--ood", "letters", "--json")
    result = json.loads(out)
    assert code == 0
    assert result["accuracy"] > 0.8
    assert 0.5 < result["ood"]["entropy_auroc"] <= 1
    code, out, _ = run("evaluate", model, "--data", photos)
    assert code == 0
    assert "accuracy" in out


def test_evaluate_warns_of_training_data(run, model, photos, unseen):
    code, out, err = run("evaluate", model, "--data", photos)
    assert code == 0
    assert "accuracy" in out
    assert "80.0% of these data were trained on; what is measured on them is too good" in err
    assert "trained on" not in run("evaluate", model, "--data", unseen)[2]
    code, out, err = run("evaluate", model, "--data", "held-out", "--json")
    assert (code, err) == (0, "")
    assert 0.8 < json.loads(out)["accuracy"] <= 1


def answers_of(out):
    return [json.loads(line) for line in out.splitlines()]


def test_what_the_model_answers_is_measured_as_predict_decides_it(run, model, unseen):
    """Without a rule by the default, then by a rule; of both data sets."""
    words = ("evaluate", model, "--data", unseen, "--ood", "letters")
    for rule in (False, True):
        if rule:
            assert run("threshold", model, "--data", unseen, "--coverage", 0.5)[0] == 0
        answers = answers_of(run("predict", model, unseen, "--json")[1])
        accepted = [answer for answer in answers if answer["accepted"]]
        wrong = [answer for answer in accepted if answer["label"] != Path(answer["name"]).parent.name]
        code, out, _ = run(*words, "--json")
        found = json.loads(out)
        assert code == 0
        assert found["accepted_share"] == pytest.approx(len(accepted) / len(answers))
        assert found["accepted_error"] == pytest.approx(len(wrong) / len(accepted))
        trained = TrainedModel.load(model)
        letters = trained.predict(open_inputs(trained, "letters", None), independent=True)
        share = trained.accepts(letters).double().mean()
        assert found["ood"]["accepted_share"] == pytest.approx(float(share))
        by = f"its rule (doubt by uncertainty < {trained.rule.threshold:.4g})" if rule else DEFAULT
        assert found["accepted_by"] == by
        lines = [" ".join(line.split()) for line in run(*words)[1].splitlines()]
        assert f"accepted_share: inputs answered by {by} {found['accepted_share']:.4f}" in lines
        assert f"accepted_error: wrong ones among these answers {found['accepted_error']:.4f}" in lines
        assert f"accepted_share: OOD inputs answered by {by} {float(share):.4f}" in lines
        assert "answered: inputs with any evidence at all 1.0000" in lines
        assert any(line.startswith("answered_accuracy: right where there is any evidence") for line in lines)


def test_models_with_another_rule_each(run, model, rows_model, tmp_path, flowers):
    ruled = tmp_path / "ruled.safetensors"
    ruled.write_bytes(rows_model.read_bytes())
    assert run("threshold", ruled, "--data", "held-out", "--coverage", 0.5)[0] == 0
    code, out, _ = run("evaluate", f"plain={rows_model}", f"ruled={ruled}", "--data", flowers)
    assert code == 0
    assert "accepted_share: inputs answered by its rule or the default" in out
    rule = TrainedModel.load(ruled).rule
    assert out.splitlines()[-2:] == [
        f"plain answers by {DEFAULT}",
        f"ruled answers by its rule (doubt by uncertainty < {rule.threshold:.4g})",
    ]
    code, out, _ = run("evaluate", f"a={rows_model}", f"b={rows_model}", "--data", flowers)
    assert f"accepted_share: inputs answered by {DEFAULT}" in out
    assert "answers by" not in out


def test_where_nothing_is_answered_there_are_no_wrong_answers(run, flowers, rows_model, tmp_path):
    trained = TrainedModel.load(rows_model)
    held_out = trained.predict(torch.randn(50, 4, generator=torch.Generator().manual_seed(0)))
    nothing = AbstentionRule(
        threshold=0.0, held_out=50, held_out_coverage=0.0, met=False, target_coverage=0.5
    )
    assert not nothing.accept(held_out).any()
    trained.with_rule(nothing).save(tmp_path / "silent.safetensors")
    words = ("evaluate", tmp_path / "silent.safetensors", "--data", flowers)
    found = json.loads(run(*words, "--json")[1])
    assert (found["accepted_share"], found["accepted_error"]) == (0, None)
    lines = [" ".join(line.split()) for line in run(*words)[1].splitlines()]
    assert "accepted_error: wrong ones among these answers -" in lines
