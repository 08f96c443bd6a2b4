"""`nescio calibrate`, `threshold` and `sets`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from nescio.data import open_source
from nescio.inference.model import TrainedModel

FEW = ("--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01)


def test_an_existing_model_is_calibrated(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 2, "--posthoc", "none")[0] == 0
    assert run("threshold", tmp_path / "run", "--data", clouds[1], "--coverage", 0.5)[0] == 0
    code, _, err = run("calibrate", tmp_path / "run", "--data", clouds[1])
    assert code == 1
    assert "--training must name what the model was trained on" in err
    code, out, err = run("calibrate", tmp_path / "run", "--data", clouds[1], "--training", clouds[0])
    assert code == 0
    assert "the rule that the model had was taken away" in err
    assert "trust: by the distance to Gaussians of 2 classes, measured on 700 inputs" in out
    code, out, _ = run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "temperature")
    assert code == 0
    assert "trust" not in out
    assert run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "none")[1].endswith(
        "no temperature, no trust\n"
    )


def test_a_model_is_calibrated_with_what_train_held_out(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 2, "--posthoc", "none")[0] == 0
    code, out, _ = run("calibrate", tmp_path / "run", "--data", "held-out", "--training", clouds[0])
    assert code == 0
    assert "by the distance to Gaussians of 2 classes, measured on 140 inputs" in out
    # The held-out part is no part of what distances are measured to: known inputs stay usual.
    code, out, _ = run("predict", tmp_path / "run", clouds[1], "--json")
    p_values = np.array([json.loads(line)["p_value"] for line in out.splitlines()])
    assert np.mean(p_values <= 0.1) < 0.2
    # No promise from the data that temperature and trust were fitted to; others are taken.
    code, _, err = run("threshold", tmp_path / "run", "--data", "held-out", "--coverage", 0.5)
    assert code == 1
    assert "held-out: temperature and trust of the model were fitted to these data, or to a part" in err
    code, _, err = run("evaluate", tmp_path / "run", "--data", "held-out")
    assert code == 0
    assert "to a part of them; what is measured on them is a little too good" in err
    assert run("sets", tmp_path / "run", "--data", clouds[1])[0] == 0
    assert run("calibrate", tmp_path / "run", "--data", "held-out", "--posthoc", "temperature")[0] == 0


def test_calibration_data_are_known_again_in_any_order_and_in_part(run, clouds, tmp_path):
    once = ("--epochs", 1, "--posthoc", "none")
    assert run("train", clouds[0], "--out", tmp_path / "run", *once)[0] == 0
    first = changed(tmp_path / "first.csv", clouds[1], lambda rows: rows[:300])
    words = ("--data", first, "--posthoc", "temperature")
    assert run("calibrate", tmp_path / "run", *words)[0] == 0
    # A training with nothing left to do forgets nothing of it.
    assert run("train", clouds[0], "--out", tmp_path / "run", *once)[0] == 0
    same = {
        "reversed": lambda rows: rows[300::-1],
        "one fewer": lambda rows: rows[:299],
        "a third": lambda rows: rows[:100],
        "among others": lambda rows: rows[200:500],
        "other labels": lambda rows: [row[:-1] + "a" for row in rows[:300]],
    }
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    for name, change in same.items():
        table = changed(tmp_path / f"{name}.csv", clouds[1], change)
        for command in ("threshold", "sets"):
            code, out, err = run(command, tmp_path / "run", "--data", table, "--coverage", 0.5)
            assert (code, out) == (1, ""), (name, command)
            assert "were fitted to these data, or to a part of them, and no promise" in err
        code, out, err = run("evaluate", tmp_path / "run", "--data", table)
        assert (code, "what is measured on them is a little too good" in err) == (0, True), name
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before
    other = changed(tmp_path / "other.csv", clouds[1], lambda rows: rows[300:])
    assert run("evaluate", tmp_path / "run", "--data", other)[2] == ""
    assert run("threshold", tmp_path / "run", "--data", other, "--coverage", 0.5)[0] == 0
    assert run("sets", tmp_path / "run", "--data", other)[0] == 0


@pytest.mark.parametrize("column", ["group", "split"])
def test_the_held_out_part_of_a_table_that_says_itself_how_to_split(run, clouds, tmp_path, column):
    header, *rows = clouds[0].read_text().splitlines()
    values = [f"p{number // 5}" for number in range(len(rows))]
    options = ["--group", "group"]
    if column == "split":
        values = ["test" if number % 5 == 0 else "train" for number in range(len(rows))]
        options = []
    lines = [f"{value},{row}" for value, row in zip(values, rows, strict=True)]
    table = tmp_path / "own.csv"
    table.write_text("\n".join([f"{column},{header}", *lines]) + "\n")
    once = ("--epochs", 1, "--posthoc", "none")
    assert run("train", table, "--out", tmp_path / "run", *once, *options)[0] == 0
    assert run("evaluate", tmp_path / "run", "--data", "held-out")[0] == 0
    copy = tmp_path / "copy.csv"
    copy.write_bytes(table.read_bytes())
    for training in (table, copy):  # what was held out is known again in a copy too
        code, out, err = run("calibrate", tmp_path / "run", "--data", "held-out", "--training", training)
        assert code == 0, err
        assert f"measured on {len(rows) // 5} inputs held out" in out


def test_labels_of_every_command_are_in_the_column_named(run, clouds, tmp_path):
    """The column called y, which holds numbers here, is not taken for that of the labels."""
    tables = []
    for number, path in enumerate(clouds):
        _, *rows = path.read_text().splitlines()
        moved = [",".join([row[-1], row[:-2]]) for row in rows]
        table = tmp_path / f"moved{number}.csv"
        table.write_text("\n".join(["kind,x,y,z", *moved]) + "\n")
        tables.append(table)
    once = ("--epochs", 1, "--posthoc", "none")
    assert run("train", clouds[0], "--out", tmp_path / "run", *once)[0] == 0
    commands = {
        "calibrate": ("--training", tables[0]),
        "threshold": ("--coverage", 0.5),
        "sets": ("--coverage", 0.9),
    }
    data = changed(tmp_path / "first.csv", tables[1], lambda rows: rows[:400])
    for command, options in commands.items():
        words = (command, tmp_path / "run", "--data", data, *options)
        code, out, err = run(*words)
        assert (code, out) == (1, ""), command
        assert f"{data.name} has no column 'label', which held the labels in training" in err
        code, out, err = run(*words, "--label", "kind")
        assert code == 0, err
        if command == "calibrate":  # promises need others than those it was fitted to
            assert "measured on 400 inputs" in out
            data = changed(tmp_path / "other.csv", tables[1], lambda rows: rows[400:])
    trained = TrainedModel.load(tmp_path / "run")
    assert (trained.rule.held_out, trained.sets.held_out) == (300, 300)


def changed(path, source, change):
    """A copy of a table whose rows, without the header, are changed."""
    header, *rows = source.read_text().splitlines()
    path.write_text("\n".join([header, *change(rows)]) + "\n")
    return path


def of_other_classes(rows):
    return [row[:-1] + {"a": "c", "b": "d"}[row[-1]] for row in rows]


def with_nan(rows):
    return [*rows[:-1], "nan,inf,1.0,a"]


def test_calibration_data_that_do_not_fit_are_refused_and_the_model_stays(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 1, "--posthoc", "none")[0] == 0
    file = tmp_path / "run" / "model.safetensors"
    before = file.read_bytes()
    refused = {
        "other.csv": (of_other_classes, "classes that the model never saw: c, d"),
        "nan.csv": (with_nan, "nan"),
    }
    for name, (change, reason) in refused.items():
        data = changed(tmp_path / name, clouds[1], change)
        code, out, err = run("calibrate", tmp_path / "run", "--data", data, "--training", clouds[0])
        assert (code, out) == (1, ""), name
        assert reason in err.lower(), err
        assert file.read_bytes() == before, name
    # With few rows trust is measured on the training data, and a model that exists is not trained again.
    few = changed(tmp_path / "few.csv", clouds[1], lambda rows: rows[:20])
    code, out, err = run("calibrate", tmp_path / "run", "--data", few, "--training", clouds[0])
    assert code == 0
    assert "measured on themselves, a tenth at a time" in out
    assert "temperature was not fitted: it needs 25 held-out inputs, got 20" in err
    # Training rows that are all the same have no distances, and the trust of now would be lost.
    same = changed(tmp_path / "same.csv", clouds[0], lambda rows: ["1,1,1,a", "1,1,1,b"] * 50)
    code, out, err = run("calibrate", tmp_path / "run", "--data", clouds[1], "--training", same)
    assert (code, out) == (1, "")
    assert err.endswith("rows that are all the same. The model keeps the trust that it has\n")
    # Where there is none, the temperature is fitted all the same.
    assert run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "none")[0] == 0
    code, out, err = run("calibrate", tmp_path / "run", "--data", clouds[1], "--training", same)
    assert code == 0
    assert "rows that are all the same" in out + err
    assert "trust: by" not in out


def test_data_of_one_class_are_measured_on_and_not_trained_on(run, clouds, tmp_path):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 2, "--posthoc", "none")[0] == 0
    half = changed(tmp_path / "half.csv", clouds[1], lambda rows: [row for row in rows if row[-1] == "a"])
    code, out, err = run("evaluate", tmp_path / "run", "--data", half, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["accuracy"] > 0.9
    first = changed(tmp_path / "first.csv", half, lambda rows: rows[:150])
    code, out, _ = run("calibrate", tmp_path / "run", "--data", first, "--training", clouds[0])
    assert code == 0
    assert "measured on 150 inputs" in out
    other = changed(tmp_path / "other.csv", half, lambda rows: rows[150:])
    for words in (("threshold", "--coverage", 0.5), ("sets", "--coverage", 0.9)):
        code, out, _ = run(words[0], tmp_path / "run", "--data", other, *words[1:])
        assert code == 0, words
        assert "held-out" in out
    code, out, err = run("sets", tmp_path / "run", "--data", other, "--by-class")
    assert (code, out) == (1, "")
    assert "needs 19 held-out samples of each: b has 0" in err
    # A label that the model does not know is answered by that.
    unknown = changed(tmp_path / "unknown.csv", half, lambda rows: [row[:-1] + "q" for row in rows])
    for command in ("evaluate", "threshold", "sets"):
        code, out, err = run(command, tmp_path / "run", "--data", unknown)
        assert (code, out) == (1, "")
        assert "unknown has classes that the model never saw: q" in err
    code, out, err = run("train", half, "--out", tmp_path / "half")
    assert (code, out) == (1, "")
    assert err == "error: half.csv: labels must be of two or more classes, got a only\n"
    assert not (tmp_path / "half").exists()


def test_threshold_is_kept_in_the_model(run, model, photos, unseen):
    code, out, _ = run("threshold", model, "--data", unseen, "--max-error", 0.2, "--confidence", 0.9)
    assert code == 0
    assert "error among them at most 20% with 90% confidence" in out
    rule = TrainedModel.load(model).rule
    assert (rule.max_error, rule.confidence) == (0.2, 0.9)
    assert run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)[0] == 0
    assert TrainedModel.load(model).rule.max_error == 0.2  # a training with nothing left to do keeps it


@pytest.mark.parametrize("measure", ["entropy", "max_probability"])
def test_threshold_by_another_measure(run, model, unseen, measure):
    code, _, _ = run("threshold", model, "--data", unseen, "--coverage", 0.5, "--measure", measure)
    assert code == 0
    assert TrainedModel.load(model).rule.measure == measure
    code, _, err = run("threshold", model, "--data", unseen, "--measure", "mood")
    assert code == 1
    assert "measure must be" in err


def test_threshold_by_coverage(run, model, unseen):
    code, out, _ = run("threshold", model, "--data", unseen, "--coverage", 0.5)
    rule = TrainedModel.load(model).rule
    assert code == 0
    assert (rule.target_coverage, rule.held_out_coverage, rule.held_out) == (0.5, 0.5, 120)
    assert "accepts 50% of held-out inputs" in out
    answers = [json.loads(line) for line in run("predict", model, unseen, "--json")[1].splitlines()]
    assert sum(row["answer"] != "I do not know" for row in answers) == 60
    assert run("predict", model, unseen)[2] == ""  # nothing to be said: it has a threshold


@pytest.mark.parametrize(
    ("target", "promise"),
    [
        (("--max-error", 0.001), "0.1% with 95%"),
        (("--risk", 0.001), "0.1% with 95%"),
        (("--max-error", 0.001, "--confidence", 0.8), "0.1% with 80%"),
        ((), "1% with 95%"),
    ],
)
def test_a_threshold_out_of_reach_leaves_the_file(run, model, unseen, target, promise):
    assert run("threshold", model, "--data", unseen, "--coverage", 0.8)[0] == 0
    before = model.read_bytes()
    code, out, err = run("threshold", model, "--data", unseen, *target)
    assert (code, out) == (1, "")
    said = f"error: no threshold promises an error of at most {promise} confidence from 120 held-out samples"
    assert err.startswith(said)
    assert err.endswith(
        f"which answers the surest nine in ten and promises nothing. {model} stays as it was\n"
    )
    # Of 5% it is silent: that could not be promised either.
    assert ("; 1% is the default; or --coverage" in err) is (not target)
    assert len(err.splitlines()) == 1
    assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--coverage", 0.5, "--max-error", 0.1), "it goes without --max-error and --confidence"),
        (("--coverage", 0.5, "--confidence", 0.9), "it goes without --max-error and --confidence"),
        (("--coverage", 0.5, "--risk", 0.1), "it goes without --max-error and --confidence"),
        (("--coverage", 0), "--coverage must be above 0 and at most 1, got 0"),
        (("--max-error", 0.5, "--risk", 0.01), "--risk is the former name of --max-error; give one of them"),
    ],
)
def test_options_of_threshold_that_contradict_each_other(run, model, unseen, words, reason):
    before = model.read_bytes()
    code, out, err = run("threshold", model, "--data", unseen, *words)
    assert (code, out) == (1, "")
    assert reason in err
    assert model.read_bytes() == before


@pytest.mark.parametrize("words", [(), ("--confidence", 0.2), ("--max-error", 0.1)])
def test_threshold_says_that_the_error_is_the_default_one(run, clouds, tmp_path, words):
    """700 rows, nearly all of them right: 1% can be promised."""
    assert run("train", clouds[0], "--out", tmp_path / "run", *FEW, "--posthoc", "none")[0] == 0
    code, out, err = run("threshold", tmp_path / "run", "--data", clouds[1], *words)
    assert (code, err) == (0, "")
    note = (
        "1% is the default; --max-error 0.05 asks for 5%, --coverage 0.9 for the surest nine in ten without "
        "a promise"
    )
    expected = [] if "--max-error" in words else [note]
    assert out.splitlines()[1:] == expected


def test_a_coverage_out_of_reach_is_not_offered_again(run, clouds, tmp_path):
    """With ReLU evidence half of the rows have none: no rule answers nine in ten."""
    words = ("--method", "edl", "--set", "evidence=relu", "--epochs", 1, "--posthoc", "none")
    assert run("train", clouds[0], "--out", tmp_path / "run", *words)[0] == 0
    model = TrainedModel.load(tmp_path / "run")
    head = [layer for layer in model.module.modules() if isinstance(layer, torch.nn.Linear)][-1]
    with torch.no_grad():
        head.weight.copy_(head.weight[:1].repeat(2, 1))  # both classes have the same evidence
        head.bias.zero_()
        inputs = open_source(clouds[1]).labelled(model.preprocess).inputs
        head.bias.fill_(-float(model.module(model.preprocess(inputs))[:, 0].median()))
    model.save(tmp_path / "half.safetensors")
    assert model.predict(inputs).is_vacuous.double().mean() == pytest.approx(0.5, abs=0.01)
    before = (tmp_path / "half.safetensors").read_bytes()
    words = ("threshold", tmp_path / "half.safetensors", "--data", clouds[1])
    code, out, err = run(*words, "--coverage", 0.8)
    assert (code, out) == (1, "")
    assert "no threshold accepts 80% of the 700 held-out inputs" in err
    assert "--coverage" not in err
    code, out, err = run(*words, "--max-error", 0.001)
    assert (code, out) == (1, "")
    assert "no threshold promises an error of at most 0.1%" in err
    assert "--coverage" not in err
    assert (tmp_path / "half.safetensors").read_bytes() == before
    assert run(*words, "--coverage", 0.4)[0] == 0


def test_sets_are_kept_in_the_model_and_shown(run, model, photos, unseen):
    code, out, err = run("sets", model, "--data", unseen, "--coverage", 0.9, "--score", "raps", "--by-class")
    assert (code, err) == (0, "")
    first, second = out.splitlines()
    assert first.startswith(
        f"{model}: the set holds the true class of 90% of inputs of each class like the 120 "
    )
    assert second.startswith("for 95% of all draws of so many held-out samples, that share is in truth ")
    sets = TrainedModel.load(model).sets
    assert (sets.score, sets.coverage, sets.by_class, sets.held_out, sets.fewest) == (
        "raps",
        0.9,
        True,
        120,
        40,
    )
    assert run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)[0] == 0
    assert TrainedModel.load(model).sets == sets  # a training with nothing left to do keeps them
    answers = [json.loads(line) for line in run("predict", model, unseen, "--json")[1].splitlines()]
    truth = [Path(answer["name"]).parent.name for answer in answers]
    covered = [name in answer["set"] for name, answer in zip(truth, answers, strict=True)]
    assert sum(covered) >= 108
    assert all(answer["set"][0] == answer["best"] for answer in answers if len(answer["set"]) > 1)
    table = run("predict", model, unseen)[1]
    assert table.split("\n")[1].split()[-1] == "set", table
    cells = run("predict", model, unseen, "--csv")[1].splitlines()
    assert cells[0].endswith(",set,error")
    assert ',"[""' in cells[1]


def test_an_empty_set_is_said(run, rows_model, flowers):
    code, out, _ = run("sets", rows_model, "--data", "held-out", "--coverage", 0.5, "--allow-empty")
    assert code == 0
    assert "which are unlike all classes" in out
    assert "none: unlike all classes" in run("predict", rows_model, flowers)[1]
    run("sets", rows_model, "--data", "held-out", "--coverage", 0.5)
    assert "none: unlike all classes" not in run("predict", rows_model, flowers)[1]


@pytest.mark.parametrize("command", [("threshold", "--max-error", 0.3), ("sets", "--coverage", 0.8)])
def test_training_data_are_noticed_and_refused(run, model, photos, command):
    before = model.read_bytes()
    code, out, err = run(command[0], model, "--data", photos, *command[1:])
    assert (code, out) == (1, "")
    assert f"{photos}: 80% of these data were trained on, and what is fitted to them or promised by" in err
    assert err.endswith("or --data held-out for the part that `nescio train` held out\n")
    assert model.read_bytes() == before


def test_the_held_out_part_of_training_is_found_again(run, model, rows_model):
    code, out, _ = run("threshold", model, "--data", "held-out", "--max-error", 0.3)
    assert code == 0
    assert TrainedModel.load(model).rule.held_out == 24
    code, out, _ = run("sets", rows_model, "--data", "held-out", "--coverage", 0.8)
    assert code == 0
    assert "like the 30 held-out ones" in out


def test_a_held_out_part_that_is_gone_or_changed_is_refused(run, flowers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = tmp_path / "table.csv"
    table.write_text(flowers.read_text())
    assert run("train", "table.csv", "--out", "run", *FEW)[0] == 0
    assert run("threshold", "run", "--data", "held-out", "--coverage", 0.5)[0] == 0
    lines = table.read_text().splitlines()
    table.write_text("\n".join([*lines[:-1], lines[1]]))
    code, _, err = run("threshold", "run", "--data", "held-out", "--coverage", 0.5)
    assert code == 1
    assert "held-out can't be had again: table.csv has changed since the training. Give other data" in err
    table.unlink()
    code, _, err = run("sets", "run", "--data", "held-out")
    assert code == 1
    assert "held-out was a part of table.csv, which is not here; call it from the folder in which" in err
    former = TrainedModel.load("run")
    training = {name: value for name, value in former.training.items() if name != "held_out"}
    replace(former, training=training, seen=None).save("former.safetensors")
    code, _, err = run("sets", "former.safetensors", "--data", "held-out")
    assert code == 1
    assert "held-out is not known: the model file does not say what was held out" in err
    # From before there were digests: nothing is noticed, and nothing refused.
    assert run("threshold", "former.safetensors", "--data", flowers, "--coverage", 0.5)[0] == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--coverage", 0.999), "a coverage of 99.9% needs 999 held-out samples or more, got 120."),
        (
            ("--coverage", 0.99, "--by-class"),
            "of each class needs 99 held-out samples of each: one has 40, two has 40, zero has 40.",
        ),
        (("--coverage", 1), "--coverage must be between 0 and 1, got 1"),
        (("--score", "margin"), "score must be one of lac, aps, raps, got 'margin'"),
        (("--randomized",), "randomized is for aps and raps"),
    ],
)
def test_sets_out_of_reach_leave_the_file(run, model, unseen, words, reason):
    before = model.read_bytes()
    code, out, err = run("sets", model, "--data", unseen, *words)
    assert (code, out) == (1, "")
    assert reason in err
    assert len(err.splitlines()) == 1
    assert model.read_bytes() == before


@pytest.mark.parametrize("command", [("threshold", "--coverage", 0.5), ("sets", "--coverage", 0.5)])
def test_copies_and_absent_classes_are_told_where_a_promise_is_made(run, clouds, tmp_path, command):
    assert run("train", clouds[0], "--out", tmp_path / "run", "--epochs", 1, "--posthoc", "none")[0] == 0
    name, *words = command
    copies = changed(tmp_path / "copies.csv", clouds[1], lambda rows: rows[:20] * 15)
    code, _, err = run(name, tmp_path / "run", "--data", copies, *words)
    assert code == 0
    assert "copies.csv: 100% of the inputs are equal to another one. A promise counts each as a new" in err
    one = changed(tmp_path / "one.csv", clouds[1], lambda rows: [row for row in rows if row.endswith("a")])
    code, _, err = run(name, tmp_path / "run", "--data", one, *words)
    assert code == 0
    assert "one.csv: 1 of 2 classes are absent: b; the promise is about inputs like these" in err
    code, _, err = run(name, tmp_path / "run", "--data", clouds[1], *words)
    assert (code, err) == (0, "")
