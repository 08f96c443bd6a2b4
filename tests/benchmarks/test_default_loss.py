"""The benchmark of the default loss: what its file keeps, and when it trains again."""

import json
import threading

import pytest
import torch
from benchmarks import default_loss

from nescio import TrainingSettings
from nescio._locks import one_at_a_time
from nescio.data import Table
from nescio.functional import annealing


@pytest.fixture
def results(tmp_path, monkeypatch):
    path = tmp_path / "default_loss.json"
    monkeypatch.setattr(default_loss, "RESULTS", path)
    return path


@pytest.fixture
def tiny(monkeypatch):
    """A set of 40 classes, so that the weight follows from the rule, with two rows each."""
    labels = torch.arange(80) % 40
    classes = tuple(f"class {number}" for number in range(40))
    table = Table(torch.eye(40)[labels], labels, classes, "tiny")
    comparison = default_loss.Comparison(
        table, table, torch.ones(5, 40), lambda: None, TrainingSettings(epochs=1, precision="float32")
    )
    monkeypatch.setitem(default_loss.CHOSEN_ON, "tiny", lambda: comparison)


@pytest.fixture
def trained(monkeypatch):
    """The trainings that were asked for; none takes place."""
    asked = []

    def measure(comparison, loss, seed):
        asked.append((loss, seed))
        return {"accuracy": 0.5, "ece": 0.25}

    monkeypatch.setattr(default_loss, "measure", measure)
    return asked


def test_a_row_has_figures_and_the_settings_of_its_method(results, tiny):
    default_loss.train_missing("tiny", ["edl"], 1)
    rows = json.loads(results.read_text())
    assert list(rows) == ["tiny edl 0"]
    row = rows["tiny edl 0"]
    assert 0 <= row["accuracy"] <= 1
    assert 0 <= row["ood_auroc"] <= 1
    assert row["num_classes"] == 40
    assert row["method"] == {
        "name": "edl",
        "risk": "cross_entropy",
        "evidence": "exp",
        "divergence_weight": 0.003125,  # 0.1 (10 / 40)^2.5
        "annealing_epochs": 10,
        "weight_decay": 0.0,
        "output_bias": 0.0,
    }
    assert [path.name for path in results.parent.iterdir()] == [results.name]  # neither lock nor leftovers


def test_what_is_there_is_not_trained_again(results, tiny, trained):
    default_loss.train_missing("tiny", ["softmax", "edl"], 2)
    default_loss.train_missing("tiny", ["softmax", "edl"], 3)
    assert trained == [
        ("softmax", 0),
        ("softmax", 1),
        ("edl", 0),
        ("edl", 1),
        ("softmax", 2),
        ("edl", 2),
    ]


def test_a_changed_rule_for_the_weight_is_said_and_trained_again(results, tiny, trained, monkeypatch, capsys):
    default_loss.train_missing("tiny", ["softmax", "edl"], 1)
    monkeypatch.setitem(annealing.EXPONENTS, "cross_entropy", 2)
    capsys.readouterr()
    default_loss.print_table(["tiny"])
    assert "no longer have, train them again: tiny edl 0\n" in capsys.readouterr().out
    default_loss.train_missing("tiny", ["softmax", "edl"], 1)
    said = capsys.readouterr().out
    assert "tiny edl 0: measured with " in said
    assert "'divergence_weight': 0.003125" in said
    assert "'divergence_weight': 0.00625" in said
    assert "tiny softmax 0: measured with " not in said
    assert trained == [("softmax", 0), ("edl", 0), ("edl", 0)]
    rows = json.loads(results.read_text())
    assert rows["tiny edl 0"]["method"]["divergence_weight"] == 0.00625
    default_loss.print_table(["tiny"])
    assert "train them again" not in capsys.readouterr().out


def test_a_row_without_settings_is_kept(results, tiny, trained):
    results.write_text(json.dumps({"tiny cross_entropy:0.5 0": {"accuracy": 0.75}}))
    default_loss.train_missing("tiny", ["cross_entropy:0.5"], 1)
    assert trained == []
    assert json.loads(results.read_text()) == {"tiny cross_entropy:0.5 0": {"accuracy": 0.75}}


def test_a_row_without_settings_whose_weight_follows_a_rule_is_trained_again(results, tiny, trained, capsys):
    results.write_text(json.dumps({"tiny squared_error:auto 0": {"accuracy": 0.75, "ece": 0.1}}))
    default_loss.print_table(["tiny"])
    assert "train them again: tiny squared_error:auto 0\n" in capsys.readouterr().out
    default_loss.train_missing("tiny", ["squared_error:auto"], 1)
    assert "measured with settings that were not kept, now " in capsys.readouterr().out
    assert trained == [("squared_error:auto", 0)]
    row = json.loads(results.read_text())["tiny squared_error:auto 0"]
    assert row["method"]["divergence_weight"] == 0.0625  # (10 / 40)^2


def test_no_committed_row_has_settings_that_its_method_no_longer_has():
    for key, row in default_loss.read_rows().items():
        assert not default_loss.is_outdated(row, key.split(" ")[1]), key


def test_a_row_that_another_process_adds_is_not_lost(results, monkeypatch):
    default_loss.add_row("tiny softmax 0", {"accuracy": 0.25})
    is_waiting = threading.Event()
    monkeypatch.setattr(default_loss, "print", lambda *said, **_: is_waiting.set(), raising=False)
    adding = threading.Thread(target=default_loss.add_row, args=("tiny edl 0", {"accuracy": 0.5}))
    with one_at_a_time(results.with_name(f".{results.name}.lock"), lambda _: None):
        adding.start()
        assert is_waiting.wait(60)
        rows = json.loads(results.read_text())
        assert list(rows) == ["tiny softmax 0"]
        rows["tiny softmax 1"] = {"accuracy": 0.75}
        results.write_text(json.dumps(rows))
    adding.join()
    assert json.loads(results.read_text()) == {
        "tiny edl 0": {"accuracy": 0.5},
        "tiny softmax 0": {"accuracy": 0.25},
        "tiny softmax 1": {"accuracy": 0.75},
    }


def test_a_write_that_fails_leaves_what_was_there(results, monkeypatch):
    default_loss.add_row("tiny softmax 0", {"accuracy": 0.25})

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("nescio._files.os.replace", fail)
        with pytest.raises(OSError, match="No space left"):
            default_loss.add_row("tiny edl 0", {"accuracy": 0.5})
    assert json.loads(results.read_text()) == {"tiny softmax 0": {"accuracy": 0.25}}
    assert [path.name for path in results.parent.iterdir()] == [results.name]


def test_the_committed_rows_of_the_default_are_those_of_today():
    rows = default_loss.read_rows()
    of_default = [key for key in rows if key.split(" ")[1] == "edl"]
    assert len(of_default) >= 19
    for key in of_default:
        row = rows[key]
        assert row["method"] == default_loss.settings_of("edl", row["num_classes"]), key


def test_tables_are_measured_on_a_quarter_of_their_training_part(monkeypatch):
    table = Table(torch.rand(40, 3), torch.arange(40) % 5, tuple("abcde"), "forty rows")
    asked = []

    def load(*given):
        asked.append(given)
        return table

    monkeypatch.setattr(default_loss, "load", load)
    comparison = default_loss.table_with_ood("letter", 2)
    assert asked == [("letter",)]  # the training part
    assert comparison.train.classes == ("a", "b", "c")
    assert len(comparison.train) == 18
    assert len(comparison.test) == 6
    assert len(comparison.ood) == 16


def test_rendered_characters_that_are_trained_on_are_none_of_the_ood_data():
    comparison = default_loss.glyphs(20, 0)
    assert len(comparison.train) == 20 * 40
    assert len(comparison.test) == 20 * 10
    assert len(comparison.ood) == 10 * default_loss.NUM_OOD_GLYPHS
    assert comparison.test.classes == comparison.train.classes
    assert int(comparison.test.labels.max()) == 19
