"""`nescio evaluate`: measures, and what it warns of."""

import json

import pytest

from nescio.cli._evaluate import _print_measures


@pytest.mark.parametrize("order", [("edl", "softmax"), ("softmax", "edl")])
def test_an_evidential_model_beside_softmax(capsys, order):
    measured = {
        "edl": {"accuracy": 0.5, "ood": {"entropy_auroc": 0.75, "uncertainty_auroc": 0.875}},
        "softmax": {"accuracy": 0.25, "ood": {"entropy_auroc": 0.625}},
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
