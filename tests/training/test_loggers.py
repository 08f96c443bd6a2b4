"""Each logger has every row once: in one go, gone on with, and after a failure."""

import csv
import json
import sys

import pytest
from tests.training.small import blobs

import nescio
from nescio.errors import InputError, MissingExtraError, NescioWarning, TrainingError
from nescio.training import Run, loggers
from nescio.training.loggers import LOGGERS, CSVLogger, Logger, RowLog, logging_to, make_loggers

ROWS = [{"epoch": epoch, "loss": 1 / epoch, "accuracy": 0.5} for epoch in range(1, 6)]


def table(samples):
    return nescio.data.Table(samples.inputs, samples.labels, ("a", "b", "c"), "blobs")


def train(folder, epochs, log):
    settings = nescio.TrainingSettings(epochs=epochs, batch_size=64, schedule="constant")
    return nescio.TrainedModel.train(table(blobs(120)), settings=settings, run_dir=folder, log=log)


def rows_of_csv(folder):
    with (folder / "metrics.csv").open() as file:
        return list(csv.DictReader(file))


def rows_of_json(folder):
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def rows_of_tensorboard(folder, name="loss"):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_training_that_goes_on_has_every_row_once(tmp_path):
    train(tmp_path, 2, ["csv", "tensorboard"])
    train(tmp_path, 4, ["csv", "tensorboard"])
    train(tmp_path, 4, ["csv", "tensorboard"])  # nothing left to do
    kept = rows_of_json(tmp_path)
    assert [row["epoch"] for row in kept] == [1, 2, 3, 4]
    found = rows_of_csv(tmp_path)
    assert [float(row["loss"]) for row in found] == [row["loss"] for row in kept]
    events = rows_of_tensorboard(tmp_path)
    assert [step for step, _ in events] == [1, 2, 3, 4]
    assert [value for _, value in events] == pytest.approx([row["loss"] for row in kept])
    assert len(list((tmp_path / "tensorboard").iterdir())) == 2  # none for the third


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_what_was_killed_between_checkpoint_and_log_is_caught_up(tmp_path):
    for name in ("csv", "tensorboard"):
        with logging_to(make_loggers(name), tmp_path, {}, []) as rows:
            rows.write(ROWS[0], 1)
            rows.write(ROWS[1], 2)
    # The row of epoch 2 was written, but not remembered; that of epoch 3 was not even written.
    (tmp_path / loggers.KEPT).write_text(json.dumps({"tensorboard": {"rows": 1}}))
    for name in ("csv", "tensorboard"):
        with logging_to(make_loggers(name), tmp_path, {}, ROWS[:3]) as rows:
            rows.write(ROWS[3], 4)
    assert [row["epoch"] for row in rows_of_csv(tmp_path)] == ["1", "2", "3", "4"]
    assert [step for step, _ in rows_of_tensorboard(tmp_path)] == [1, 2, 3, 4]


def test_mlflow(tmp_path, monkeypatch):
    from mlflow import MlflowClient

    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "store").as_uri())
    settings = {"method": {"name": "edl"}, "settings": {"epochs": 3}}
    with logging_to(make_loggers("mlflow"), tmp_path, settings, []) as rows:
        rows.write(ROWS[0], 1)
        rows.write(ROWS[1], 2)
    (tmp_path / loggers.KEPT).write_text(
        json.dumps(
            {
                "mlflow": {
                    "rows": 1,
                    "run_id": json.loads((tmp_path / loggers.KEPT).read_text())["mlflow"]["run_id"],
                }
            }
        )
    )
    with logging_to(make_loggers("mlflow"), tmp_path, settings, ROWS[:2]) as rows:
        rows.write(ROWS[2], 3)
    client = MlflowClient()
    (run,) = client.search_runs([client.get_experiment_by_name("nescio").experiment_id])
    assert run.info.run_name == tmp_path.name
    assert run.info.status == "FINISHED"
    assert run.data.params == {"method.name": "edl", "settings.epochs": "3"}
    history = client.get_metric_history(run.info.run_id, "loss")
    assert sorted((one.step, one.value) for one in history) == [(1, 1.0), (2, 0.5), (3, 1 / 3)]


class FakeWandbRun:
    def __init__(self, options):
        self.options = options
        self.id = options["id"] or "made-up"
        self.rows = []
        self.is_finished = False

    def log(self, row, step):
        self.rows.append((step, row["loss"]))

    def finish(self):
        self.is_finished = True


def test_wandb_goes_on_with_its_run(tmp_path, monkeypatch):
    import wandb

    runs = []

    def init(**options):
        import inspect

        inspect.signature(real).bind(**options)  # the options of today's wandb
        runs.append(FakeWandbRun(options))
        return runs[-1]

    real = wandb.init
    monkeypatch.setattr(wandb, "init", init)
    with logging_to(make_loggers("wandb"), tmp_path, {"seed": 0}, []) as rows:
        rows.write(ROWS[0], 1)
    with logging_to(make_loggers("wandb"), tmp_path, {"seed": 0}, ROWS[:2]) as rows:
        rows.write(ROWS[2], 3)
    first, second = runs
    assert first.options["id"] is None
    assert first.options["config"] == {"seed": 0}
    assert second.options["id"] == "made-up"
    assert second.options["resume"] == "allow"
    assert first.rows + second.rows == [(1, 1.0), (2, 0.5), (3, 1 / 3)]
    assert first.is_finished
    assert second.is_finished


def test_unknown_names_and_missing_packages_are_said_in_one_line(monkeypatch):
    with pytest.raises(
        InputError, match=r"^log must be one of tensorboard, csv, mlflow, wandb, got 'excel'$"
    ):
        make_loggers(["csv", "excel"])
    for name in ("tensorboard", "mlflow", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
        expected = rf"^{name} is not installed; install it with: pip install 'nescio\[{name}\]'$"
        with pytest.raises(MissingExtraError, match=expected):
            make_loggers(name)
    assert make_loggers(None) == []


def test_a_log_needs_a_folder():
    with pytest.raises(InputError, match="log needs run_dir"):
        nescio.TrainedModel.train(table(blobs(30)), log="csv")


class Broken(Logger):
    name = "broken"

    def __init__(self, at):
        self.at = at

    def begin(self, settings, done):
        if self.at == 0:
            raise OSError("no connection\nand more")

    def log(self, metrics, step):
        if step == self.at:
            raise OSError("no connection")


def test_a_logger_that_fails_does_not_end_the_training(tmp_path):
    with pytest.warns(
        NescioWarning, match="log broken failed in row 2 and is left out from here on: no conn"
    ):
        model = train(tmp_path, 3, [Broken(at=2), "csv"])
    assert len(model.training["history"]) == len(rows_of_csv(tmp_path)) == 3


def test_a_logger_that_can_not_start_ends_it_before_it_begins(tmp_path):
    with pytest.raises(TrainingError, match=r"^log broken can't be started: no connection$"):
        train(tmp_path, 3, Broken(at=0))


def test_loggers_that_were_started_or_failed_are_closed(tmp_path):
    class Closed(Broken):
        name = "closed"

        def close(self):
            closed.append(self.at)

    closed = []
    with pytest.raises(TrainingError, match="can't be started"):
        train(tmp_path, 3, [Closed(at=7), Broken(at=0)])
    with pytest.warns(NescioWarning, match="log closed failed in row 2"):
        train(tmp_path, 3, Closed(at=2))
    assert closed == [7, 2]


def test_columns_that_come_later_are_columns_too(tmp_path):
    logger = CSVLogger()
    logger.start(tmp_path, {}, [{"epoch": 1}])
    RowLog([logger]).write({"epoch": 2, "is_guessing": 1.0}, 2)
    assert rows_of_csv(tmp_path) == [{"epoch": "1", "is_guessing": ""}, {"epoch": "2", "is_guessing": "1.0"}]


def test_one_of_another_package_is_known_by_its_name(monkeypatch):
    monkeypatch.setattr(LOGGERS, "_items", dict(LOGGERS._items))
    with pytest.raises(InputError, match="must be a class of Logger of this name"):
        LOGGERS.register("other", Broken)

    class Plain(Logger):
        name = "plain"

        def log(self, metrics, step):
            pass

    LOGGERS.register("plain", Plain)
    assert isinstance(make_loggers("plain")[0], Plain)


def test_the_settings_of_a_run_are_what_loggers_are_given(tmp_path):
    run = Run(tmp_path, {"settings": {"epochs": 3}})
    assert run.settings == {"settings": {"epochs": 3}}
