"""`nescio train` on real digits and flowers."""

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from nescio.cli import _sources
from nescio.data import Dataset, open_source, split
from nescio.encoders import make_encoder
from nescio.errors import InputError
from nescio.inference._choice import Choice
from nescio.inference.model import TrainedModel
from nescio.methods import METHODS, make_method
from nescio.training import TrainingSettings
from nescio.training.loggers import CSVLogger

FEW = ("--epochs", 12, "--batch-size", 8, "--learning-rate", 0.01)


def test_help_lists_the_methods_there_are(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    code, out, _ = run("train", "--help")
    assert code == 0
    assert f"One of {', '.join(METHODS)}." in " ".join(out.split())


def test_train_leaves_model_metrics_and_checkpoint(model):
    names = {path.name for path in model.parent.iterdir()}
    run_files = {"model.safetensors", "metrics.jsonl", "settings.json", "checkpoint.safetensors"}
    assert names == run_files | {"card.md", "report.html", "card"}
    lines = [json.loads(line) for line in (model.parent / "metrics.jsonl").read_text().splitlines()]
    assert len(lines) == 12
    assert lines[-1]["held_out_accuracy"] > 0.8


def test_train_again_has_nothing_left_to_do(run, photos, model):
    before = model.read_bytes()
    code, out, _ = run("train", photos, "--out", model.parent, "--epochs", 12, "--batch-size", 16)
    assert code == 0
    assert "held-out accuracy" in out
    assert model.read_bytes() == before


def test_train_with_other_settings_is_refused(run, photos, model):
    code, _, err = run("train", photos, "--out", model.parent, "--epochs", 13, "--batch-size", 8)
    assert code == 1
    assert "holds another training: --epochs was 12 and is now 13, --batch-size was 16 and is now 8;" in err


def test_a_training_that_learned_nothing_ends_with_an_error_that_says_what_to_do(run, tmp_path):
    rows = "".join(f"{number // 2 % 2},{number // 4 % 2},{'ab'[number % 2]}\n" for number in range(100))
    (tmp_path / "alike.csv").write_text(f"a,b,label\n{rows}")
    words = ("--epochs", 20, "--batch-size", 8, "--learning-rate", 0.5)
    code, out, err = run("train", tmp_path / "alike.csv", "--out", tmp_path / "run", *words)
    assert code == 1
    assert "held-out accuracy" in out
    assert out.splitlines()[1].startswith(
        "No better than guessing: on the held-out data, always giving the most"
    )
    *_, last = err.splitlines()
    assert last.startswith(f"error: {tmp_path / 'run'} has learned nothing: an accuracy of 0.")
    assert (
        "as good as guessing. Train again in another folder with a lower --learning-rate (it was 0.5)" in last
    )
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_run_is_lengthened(run, flowers, tmp_path):
    for epochs in (3, 5):
        code, _, err = run("train", flowers, "--out", tmp_path, "--epochs", epochs)
        assert code == 0
    assert "is lengthened from 3 to 5 epochs" in err
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 5


def test_what_train_says_is_what_the_file_does(run, photos, model):
    words = ("--epochs", 12, "--batch-size", 16)
    out = run("train", photos, "--out", model.parent, *words)[1]
    _, held_out = split(open_source(photos).labelled(), 0.2, 0)
    opinion = TrainedModel.load(model).predict(held_out.images)
    accuracy = (opinion.labels == held_out.labels).double().mean()
    doubt = opinion.uncertainty.mean()
    assert out == f"{model}: held-out accuracy {accuracy:.4f}, mean uncertainty {doubt:.3f}\n"


def test_train_with_a_network_a_schedule_and_settings(run, flowers, tmp_path):
    network = '{"kind": "mlp", "hidden": [9]}'
    words = ("--network", network, "--schedule", "constant", "--set", "evidence=relu", "--set", "risk=type2")
    code, _, _ = run("train", flowers, "--out", tmp_path / "run", "--epochs", 1, *words)
    trained = TrainedModel.load(tmp_path / "run" / "model.safetensors")
    assert code == 0
    assert (trained.network.hidden, trained.network.in_features, trained.network.num_classes) == ((9,), 4, 3)
    assert (trained.method.evidence, trained.method.risk) == ("relu", "type2")
    assert trained.training["settings"]["schedule"] == "constant"


def test_patience_watches_a_part_of_the_training_data(run, flowers, tmp_path):
    # A rate this high makes the watched loss go up and down, so that the last epoch is not the best.
    words = ("--epochs", 60, "--patience", 3, "--batch-size", 8, "--learning-rate", 0.05, "--seed", 4)
    code, out, _ = run("train", flowers, "--out", tmp_path / "run", *words)
    known, test = split(open_source(flowers).labelled(), 0.2, 4)
    train, watched = split(known, 0.1, 4)
    path = tmp_path / "run" / "model.safetensors"
    trained = TrainedModel.load(path)
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [json.loads(line)["held_out_loss"] for line in lines]
    best = json.loads(lines[losses.index(min(losses))])

    def accuracy(data):
        return float((trained.predict(data.features).labels == data.labels).double().mean())

    assert code == 0
    assert best["epoch"] == len(lines) - 3 < 57
    assert trained.training["data"]["samples"] == len(train) == 108
    assert accuracy(watched) == pytest.approx(best["held_out_accuracy"])
    first, second = out.splitlines()
    assert first.startswith(f"{path}: held-out accuracy {accuracy(test):.4f}, ")
    assert second.startswith(
        f"kept epoch {best['epoch']} of {len(lines)}, the best on the tenth of the train"
    )
    assert f"loss {min(losses):.4f}, accuracy {accuracy(watched):.4f}" in second


def test_more_networks_are_announced_where_they_are_trained(run, clouds, tmp_path):
    """Of 424 samples a tenth is set aside for the temperature, of the 382 beside a watched part nothing."""
    table = tmp_path / "some.csv"
    table.write_text("\n".join(clouds[0].read_text().splitlines()[:531]) + "\n")
    for words, more in (((), False), (("--patience", 2), True)):
        out = tmp_path / f"run{more}"
        code, _, err = run("train", table, "--out", out, "--epochs", 2, *words)
        assert code == 0
        assert ("Then, for the temperature, 5 more networks" in err) is more
        assert ("fitted to 5 networks" in err) is more


def test_train_calibrates_and_says_so(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 3)
    code, _, err = run(*words)
    assert code == 0
    assert "56 training inputs set aside for calibration: trust by the distance to Gaussians of 2" in err
    assert "temperature scale" in err
    (tmp_path / "far.csv").write_text("x,y,z\n900,-900,900\n")
    code, out, _ = run("predict", tmp_path / "run", tmp_path / "far.csv", "--json")
    record = json.loads(out)
    assert record["answer"] == "I do not know"
    assert record["p_value"] == pytest.approx(1 / 57)
    assert "Fitted after training" in (tmp_path / "run" / "card.md").read_text()
    # The same again changes nothing, and keeps a rule that was set meanwhile.
    assert run("threshold", tmp_path / "run", "--data", clouds[1], "--coverage", 0.5)[0] == 0
    before = (tmp_path / "run" / "model.safetensors").read_bytes()
    assert run(*words)[0] == 0
    assert (tmp_path / "run" / "model.safetensors").read_bytes() == before


def test_what_was_fitted_since_is_kept(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 3)
    assert run(*words)[0] == 0
    assert run("calibrate", tmp_path / "run", "--data", clouds[1], "--posthoc", "temperature")[0] == 0
    assert run("sets", tmp_path / "run", "--data", "held-out", "--coverage", 0.5)[0] == 0
    before = TrainedModel.load(tmp_path / "run")
    assert run(*words)[0] == 0
    after = TrainedModel.load(tmp_path / "run")
    assert after.posthoc.same_as(before.posthoc)
    assert (after.sets, after.training) == (before.sets, before.training)


def test_a_rule_is_kept_where_what_is_fitted_again_differs_by_rounding(run, clouds, tmp_path):
    """On another machine, or with other threads, the same training rounds otherwise."""
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 3)
    assert run(*words)[0] == 0
    model = TrainedModel.load(tmp_path / "run")
    fitted = model.posthoc.temperature
    rounded = dataclasses.replace(fitted, scale=fitted.scale * 1.000001)
    almost = dataclasses.replace(model.posthoc, temperature=rounded)
    dataclasses.replace(model, posthoc=almost).save(tmp_path / "run" / "model.safetensors")
    assert run("threshold", tmp_path / "run", "--data", "held-out", "--coverage", 0.5)[0] == 0
    before = TrainedModel.load(tmp_path / "run")
    assert run(*words)[0] == 0
    after = TrainedModel.load(tmp_path / "run")
    assert before.rule is not None
    assert after.rule == before.rule
    assert after.posthoc.same_as(almost)


@pytest.mark.parametrize("what", ["temperature", "trust"])
def test_what_is_fitted_anew_to_other_data_is_kept_and_no_promise_about_the_former(run, tmp_path, what):
    """The weights are the same: only the validation part has changed."""
    generator = torch.Generator().manual_seed(0)
    rows = 2 * torch.randn(400, 2, generator=generator)
    labels = (rows.sum(1) + torch.randn(400, generator=generator) > 0).tolist()

    def write(is_changed):
        lines = ["x,y,split,label"]
        for place, (row, label) in enumerate(zip(rows.tolist(), labels, strict=True)):
            part = ("train", "validation", "test", "train")[place % 4]
            x, y = row
            if is_changed and part == "validation":
                label = label if what == "trust" else place % 8 == 1
                x = 3 * x if what == "trust" else x
            lines.append(f"{x},{y},{part},{label}")
        (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")

    words = ("train", tmp_path / "data.csv", "--epochs", 3)
    write(False)
    assert run(*words, "--out", tmp_path / "run")[0] == 0
    assert run("threshold", tmp_path / "run", "--data", "held-out", "--coverage", 0.5)[0] == 0
    write(True)
    assert run(*words, "--out", tmp_path / "run")[0] == 0
    again = TrainedModel.load(tmp_path / "run")
    assert run(*words, "--out", tmp_path / "fresh")[0] == 0
    fresh = TrainedModel.load(tmp_path / "fresh")
    assert again.posthoc.is_fitted_like(fresh.posthoc)
    assert again.rule is None


def test_another_posthoc_of_the_same_training_is_fitted(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 3, "--posthoc")
    assert run(*words, "temperature")[0] == 0
    assert TrainedModel.load(tmp_path / "run").posthoc.trust is None
    assert run(*words, "all")[0] == 0
    assert TrainedModel.load(tmp_path / "run").posthoc.trust is not None


@pytest.mark.parametrize("name", ["model.safetensors", "report.html", "card.md"])
def test_files_that_no_training_put_there_are_not_written_over(run, flowers, tmp_path, name):
    (tmp_path / name).write_text("precious")
    code, _, err = run("train", flowers, "--out", tmp_path, *FEW)
    assert code == 1
    assert err == f"error: --out {tmp_path} holds a {name} that no training put there; use another folder\n"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_as_many_class_weights_as_classes(run, flowers, tmp_path):
    code, _, err = run("train", flowers, "--out", tmp_path / "run", "--class-weight", "1,5,2,7", *FEW)
    assert code == 1
    assert "--class-weight must have a number for each of 3 classes, got 4" in err


def test_posthoc_can_be_left_out(run, clouds, tmp_path):
    words = ("train", clouds[0], "--out", tmp_path / "run", "--epochs", 1)
    code, _, err = run(*words, "--posthoc", "none")
    assert code == 0
    assert "calibration" not in err
    code, _, err = run(*words, "--posthoc", "some")
    assert code == 1
    assert "--posthoc must be all, temperature, trust or none, got 'some'" in err


def test_patience_of_members_is_told_for_each(run, flowers, tmp_path):
    words = ("--method", "ensemble", "--set", "num_members=2", "--epochs", 2, "--patience", 2)
    code, out, _ = run("train", flowers, "--out", tmp_path / "run", *words)
    assert code == 0
    assert [line.partition(" of ")[0] for line in out.splitlines()[1:]] == [
        "member 1: kept epoch 2",
        "member 2: kept epoch 2",
    ]


def test_a_damaged_model_does_not_stop_a_training(run, flowers, rows_model):
    whole = rows_model.read_bytes()
    rows_model.write_bytes(whole[:-9])
    assert run("train", flowers, "--out", rows_model.parent, *FEW)[0] == 0
    assert rows_model.read_bytes() == whole


def test_a_label_column_by_its_name(run, flowers, tmp_path):
    lines = flowers.read_text().splitlines()
    header = lines[0].replace("label", "kind")
    moved = [",".join([row.rpartition(",")[2], row.rpartition(",")[0]]) for row in lines[1:]]
    path = tmp_path / "moved.csv"
    path.write_text("\n".join(["kind,a,b,c,d", *moved]))
    assert header == "a,b,c,d,kind"
    out = tmp_path / "run"
    code, _, _ = run("train", path, "--out", out, "--label", "kind", "--epochs", 2)
    assert code == 0
    assert TrainedModel.load(out).classes == ("setosa", "versicolor", "virginica")
    assert TrainedModel.load(out).preprocess.schema.names == ("a", "b", "c", "d")
    code, named, _ = run("evaluate", out, "--data", path, "--label", "kind", "--json")
    assert code == 0
    code, known, _ = run("evaluate", out, "--data", path, "--json")
    assert (code, known) == (0, named)
    (tmp_path / "bare.csv").write_text("a,b,c,d\n1,2,3,4\n")
    code, _, err = run("evaluate", out, "--data", tmp_path / "bare.csv")
    assert (code, err) == (
        1,
        "error: bare.csv has no column 'kind', which held the labels in training (--label names another); "
        "its columns: a, b, c, d\n",
    )
    code, _, err = run("evaluate", out, "--data", path, "--label", "sort")
    assert (code, err) == (1, "error: moved.csv has no column 'sort'; its columns: kind, a, b, c, d\n")


@pytest.mark.parametrize("words", [(), ("--label", "outcome")])
def test_the_column_of_the_labels_is_named_in_the_first_line(run, clouds, tmp_path, words):
    path = tmp_path / "customers.csv"
    path.write_text(clouds[0].read_text().replace("x,y,z,label", "age,income,calls,outcome"))
    code, _, err = run("train", path, "--out", tmp_path / "run", "--epochs", 1, *words)
    assert code == 0
    expected = "customers: 700 rows, 2 classes in column outcome: mlp, trained from the start"
    assert err.splitlines()[0] == expected
    assert TrainedModel.load(tmp_path / "run").training["held_out"]["label_column"] == "outcome"


def test_a_column_of_measured_numbers_is_not_taken_for_classes(run, tmp_path):
    rows = "".join(f"{number},{number % 7},{0.37 * number:.2f}\n" for number in range(60))
    (tmp_path / "houses.csv").write_text(f"size,floor,price\n{rows}")
    code, _, err = run("train", tmp_path / "houses.csv", "--out", tmp_path / "run")
    assert code == 1
    assert "the labels were taken from column price, which has 60 different values in 60 rows" in err
    assert "name the column of the labels with --label" in err


def test_metrics_go_where_they_are_asked_to(run, photos, tmp_path):
    code, _, err = run("train", photos, "--out", tmp_path, "--log", "excel")
    assert code == 1
    assert "log must be one of tensorboard, csv, mlflow, wandb, got 'excel'" in err
    code, _, _ = run(
        "train",
        photos,
        "--out",
        tmp_path,
        "--epochs",
        2,
        "--posthoc",
        "none",
        "--log",
        "csv",
        "--encoder",
        "lenet",
    )
    assert code == 0
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert rows[0].startswith("epoch,loss,accuracy,uncertainty")
    assert len(rows) == 3
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2


@pytest.fixture
def recorded(run, monkeypatch):
    """The command, with what data would be opened and what would be trained instead of both."""

    def call(*words, is_frozen=False):
        asked, given = {}, {}
        images = torch.zeros(200, 1, 32, 32, dtype=torch.uint8)
        data = Dataset(images, torch.arange(200) % 2, ("a", "b"), "made")
        spec = make_encoder("lenet", (1, 32, 32), 2)

        def open_to_train(name, seed, encoder, fine_tune, size, **options):
            asked.update(options, name=name, seed=seed, encoder=encoder, fine_tune=fine_tune, size=size)
            choice = Choice("lenet", is_frozen, spec, None, "because")
            return _sources.Opened(data, data.take(torch.arange(50)), choice)

        def train(data, method, network, settings, **options):
            given.update(options, data=data, method=method, network=network, settings=settings)
            raise InputError("recorded")  # so that nothing comes after it

        monkeypatch.setattr(_sources, "open_to_train", open_to_train)
        monkeypatch.setattr(TrainedModel, "train", train)
        code, _, err = run("train", *words)
        assert (code, err.splitlines()[-1]) == (1, "error: recorded")
        return asked, given, spec

    return call


def test_every_option_reaches_the_training(recorded, tmp_path):
    """None has its default, so that one that is forgotten, or taken for another, is seen."""
    words = (
        "made.csv --method ensemble --set num_members=2 --encoder lenet --fine-tune --epochs 2 "
        "--batch-size 3 --learning-rate 0.04 --schedule constant --size 5 --patience 6 --posthoc trust "
        "--log csv --label kind --text words --drop id --drop name --group who --seed 7 --data-dir files "
        "--optimizer sgd --weight-decay 0.08 --warmup 0.09 --clip-norm 0.1 --accumulate 11 --ema 0.12 "
        "--encoder-rate 0.13 --freeze-epochs 14 --class-weight 1.5,16 --sampler balanced --shift 17 --flip "
        "--augment strong --mixup 0.18 --device cpu --precision float64"
    )
    asked, given, spec = recorded(*words.split(), "--out", tmp_path)
    assert asked == {
        "name": "made.csv",
        "seed": 7,
        "encoder": ("lenet", {}),
        "fine_tune": True,
        "size": 5,
        "label": "kind",
        "text": "words",
        "drop": ["id", "name"],
        "group": "who",
        "data_dir": Path("files"),
    }
    settings = TrainingSettings(
        epochs=2,
        batch_size=3,
        learning_rate=0.04,
        schedule="constant",
        shift=17,
        flip=True,
        patience=6,
        seed=7,
        device="cpu",
        precision="float64",
        optimizer="sgd",
        weight_decay=0.08,
        warmup=0.09,
        clip_norm=0.1,
        accumulate=11,
        ema=0.12,
        class_weight=(1.5, 16.0),
        sampler="balanced",
        encoder_rate=0.13,
        freeze_epochs=14,
        augment="strong",
        mixup=0.18,
    )
    for field in dataclasses.fields(settings):
        assert getattr(settings, field.name) != field.default, field.name
    assert given["settings"] == settings
    assert given["method"] == make_method("ensemble", num_members=2)
    assert given["network"] is spec
    assert (given["fine_tune"], given["run_dir"], given["posthoc"]) == (True, tmp_path, "trust")
    assert [type(logger) for logger in given["log"]] == [CSVLogger]
    assert (len(given["data"]), len(given["held_out"])) == (180, 20)  # a tenth of 200 is watched


def test_what_is_not_said_is_chosen_for_the_data(recorded, tmp_path):
    asked, given, _ = recorded("made.csv", "--out", tmp_path)
    options = dict.fromkeys(("label", "text", "drop", "group", "data_dir", "size"))
    assert asked == {**options, "name": "made.csv", "seed": 0, "encoder": (None, {}), "fine_tune": False}
    assert given["settings"] == TrainingSettings().resolved(200)
    assert given["method"] == make_method("edl")
    assert (given["fine_tune"], given["posthoc"], given["log"]) == (False, "all", [])
    assert (len(given["data"]), len(given["held_out"])) == (200, 50)
    _, given, _ = recorded("made.csv", "--out", tmp_path, "--fine-tune")
    assert given["settings"] == TrainingSettings().resolved(200, fine_tuned=True)
    _, given, _ = recorded("made.csv", "--out", tmp_path, is_frozen=True)
    assert given["settings"] == TrainingSettings().resolved(200, head_classes=2)


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), ("adamw", 1.0)),
        (("--weight-decay", "0.5"), ("adamw", 0.5)),
        (("--optimizer", "adam"), ("adam", 0.0)),
        (("--set", "weight_decay=0.01"), ("adam", 0.0)),
        (("--method", "natpn"), ("adam", 0.0)),
    ],
)
def test_rows_are_trained_with_weight_decay(run, tmp_path, words, found):
    rows = "".join(f"{number % 7},{number % 2},{'ab'[number % 2]}\n" for number in range(40))
    (tmp_path / "rows.csv").write_text(f"x,y,label\n{rows}")
    options = ("--out", tmp_path / "run", "--epochs", "1", "--posthoc", "none")
    code, _, err = run("train", tmp_path / "rows.csv", *options, *words)
    assert code == 0, err
    settings = TrainedModel.load(tmp_path / "run").training["settings"]
    assert (settings["optimizer"], settings["weight_decay"]) == found


def test_of_too_few_rows_it_says_what_is_missing_and_what_that_may_do(run, tmp_path):
    rows = "\n".join(f"{number},{number % 7},{'ab'[number % 2]}" for number in range(20))
    (tmp_path / "few.csv").write_text(f"one,two,label\n{rows}\n")
    code, _, err = run("train", tmp_path / "few.csv", "--out", tmp_path / "run", "--epochs", 2)
    assert code == 0
    (said,) = [line for line in err.splitlines() if "no trust: " in line]
    assert "no temperature: it needs 25 held-out inputs, and 16 training inputs are too few" in said
    assert said.endswith("; without trust, inputs unlike all that it was trained on may be answered surely")
