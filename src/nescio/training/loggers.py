"""Loggers: the metrics of every epoch, also where people look at those of other trainings.

A run keeps its metrics in metrics.jsonl at any rate. A logger is given the same rows, in the folder of the
run: "csv" writes metrics.csv, "tensorboard" event files; "mlflow" and "wandb" write where these are set up
to. When a training goes on, a logger goes on behind the last row that it has: no row comes twice. Other
packages bring theirs by an entry point of the group `nescio.loggers`.
"""

from __future__ import annotations

import csv
import io
import json
import os
import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from nescio._files import write_atomically
from nescio._registry import Registry
from nescio.errors import InputError, MissingExtraError, NescioError, NescioWarning, TrainingError

__all__ = [
    "LOGGERS",
    "CSVLogger",
    "Logger",
    "MLflowLogger",
    "TensorBoardLogger",
    "WandbLogger",
    "make_loggers",
]

KEPT = "loggers.json"  # in the folder of a run: what a logger must know to go on
PROJECT = "nescio"


class Logger(ABC):
    """Takes the metrics of every epoch somewhere.

    One that is registered, by `LOGGERS.register` or by an entry point of the group `nescio.loggers`, is known
    by its name, also to the command line.

    Attributes:
        name: Name by which users ask for it.
        package: The package that must be installed; "" for none.

    Example:
        >>> from nescio.training.loggers import Logger
        >>> class Printed(Logger):
        ...     name = "printed"
        ...
        ...     def log(self, metrics, step):
        ...         print(f"{step}: {metrics['loss']:.2f}")
        >>> Printed().log({"loss": 0.5}, step=1)
        1: 0.50
    """

    name: ClassVar[str]
    package: ClassVar[str] = ""

    def require(self) -> None:
        """Refuse to start where the package is not there.

        Raises:
            MissingExtraError: If it is not installed.
        """
        if not self.package:
            return
        try:
            import_module(self.package)
        except ImportError as error:
            raise MissingExtraError(self.name, self.package.partition(".")[0]) from error

    def start(
        self, folder: Path, settings: Mapping[str, Any], history: Sequence[Mapping[str, float]]
    ) -> None:
        """Begin, or go on.

        Args:
            folder: The folder of the run.
            settings: All that the training depends on, plain data.
            history: The metrics of the epochs so far; not empty where a training goes on.
        """
        self.folder = folder
        done = min(int(self.kept().get("rows", 0)), len(history))
        self.begin(settings, done)
        # What was killed after the checkpoint of an epoch had not come to log it.
        for step in range(done + 1, len(history) + 1):
            self.write(history[step - 1], step)

    def begin(self, settings: Mapping[str, Any], done: int) -> None:  # noqa: B027 - most need it, not all
        """What there is to do before the first row.

        Args:
            settings: All that the training depends on.
            done: How many rows were logged before.
        """

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Log a row, and remember that it was.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is, from 1 on.
        """
        self.log(metrics, step)
        self.keep(rows=step)

    @abstractmethod
    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of an epoch.

        Args:
            metrics: The metrics by name; with several members "member" too.
            step: Which row of the history it is, from 1 on: the epoch, where there is one member.
        """

    def close(self) -> None:  # noqa: B027 - most need it, not all
        """After the last epoch, or where the training ends with an error."""

    def kept(self) -> dict[str, Any]:
        """What this logger kept in the folder of the run."""
        found: dict[str, Any] = _read_kept(self.folder).get(self.name, {})
        return found

    def keep(self, **values: Any) -> None:
        """Keep values in the folder of the run.

        Args:
            values: Plain data by name.
        """
        kept = _read_kept(self.folder)
        kept[self.name] = {**kept.get(self.name, {}), **values}
        write_atomically(self.folder / KEPT, json.dumps(kept, indent=1).encode())


def _read_kept(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / KEPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # none, or none that can be read: begin anew
    return found if isinstance(found, dict) else {}


class CSVLogger(Logger):
    """metrics.csv in the folder of the run: a row for each epoch, written whole after every one.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from nescio.training.loggers import CSVLogger
        >>> folder = Path(tempfile.mkdtemp())
        >>> logger = CSVLogger()
        >>> logger.start(folder, {}, [{"epoch": 1, "loss": 0.5}])
        >>> logger.write({"epoch": 2, "loss": 0.25}, step=2)
        >>> (folder / "metrics.csv").read_text().splitlines()
        ['epoch,loss', '1,0.5', '2,0.25']
    """

    name = "csv"

    def start(
        self, folder: Path, settings: Mapping[str, Any], history: Sequence[Mapping[str, float]]
    ) -> None:
        """Write the epochs so far: the history is the truth, whatever the file held.

        Args:
            folder: The folder of the run.
            settings: Not used.
            history: The metrics of the epochs so far.
        """
        self.folder = folder
        self._rows = [dict(row) for row in history]
        if self._rows:
            self._write_file()

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Log a row; the file itself remembers.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is.
        """
        self.log(metrics, step)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Add a row.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is; the rows come in their order.
        """
        self._rows.append(dict(metrics))
        self._write_file()

    def _write_file(self) -> None:
        columns: dict[str, None] = {}  # in the order in which they come
        for row in self._rows:
            columns.update(dict.fromkeys(row))
        text = io.StringIO()
        writer = csv.DictWriter(text, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._rows)
        write_atomically(self.folder / "metrics.csv", text.getvalue().encode())


class TensorBoardLogger(Logger):
    """Event files in the folder tensorboard of the run, for `tensorboard --logdir`.

    Example:
        >>> from nescio.training.loggers import TensorBoardLogger
        >>> TensorBoardLogger().package
        'tensorboard'
    """

    name = "tensorboard"
    package = "tensorboard"
    _writer: Any = None

    def begin(self, settings: Mapping[str, Any], done: int) -> None:
        """Nothing yet: a training that has nothing left to do leaves no empty file."""
        self._writer = None

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Write the metrics as scalars.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is.
        """
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter

            # What an earlier process wrote from this step on, and did not come to remember, does not count.
            self._writer = SummaryWriter(str(self.folder / "tensorboard"), purge_step=step)
        for name, value in metrics.items():
            self._writer.add_scalar(name, value, global_step=step)
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflowLogger(Logger):
    """A run of MLflow, at its tracking URI (MLFLOW_TRACKING_URI) and in the experiment nescio.

    MLFLOW_EXPERIMENT_NAME names another experiment.

    Example:
        >>> from nescio.training.loggers import MLflowLogger
        >>> MLflowLogger().package
        'mlflow'
    """

    name = "mlflow"
    package = "mlflow"

    def begin(self, settings: Mapping[str, Any], done: int) -> None:
        """Begin a run, or go on with the one that the folder names.

        Args:
            settings: What the training depends on; these are the parameters of the run.
            done: How many rows were logged before.
        """
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = MlflowClient()
        kept = self.kept().get("run_id")
        if kept is not None:
            self._run_id = str(kept)
            self._client.update_run(self._run_id, status="RUNNING")
            return
        run = self._client.create_run(self._experiment(), run_name=self.folder.resolve().name)
        self._run_id = str(run.info.run_id)
        parameters = []
        for name, value in _flat(settings):
            parameters.append(Param(name, str(value)[:500]))
        self._client.log_batch(self._run_id, params=parameters[:100])
        self.keep(run_id=self._run_id)

    def _experiment(self) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT)
        found = self._client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        return str(self._client.create_experiment(name))

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics in one request; a step that the run has already is left out.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is.
        """
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        rows = []
        for name, value in metrics.items():
            logged = {one.step for one in self._client.get_metric_history(self._run_id, name)}
            if step not in logged:
                rows.append(Metric(name, float(value), now, step))
        self._client.log_batch(self._run_id, metrics=rows)

    def close(self) -> None:
        """Say that the run has ended."""
        self._client.set_terminated(self._run_id)


class WandbLogger(Logger):
    """A run of Weights & Biases, in the project nescio; WANDB_PROJECT and WANDB_MODE count as usual.

    Example:
        >>> from nescio.training.loggers import WandbLogger
        >>> WandbLogger().package
        'wandb'
    """

    name = "wandb"
    package = "wandb"

    def begin(self, settings: Mapping[str, Any], done: int) -> None:
        """Begin a run, or go on with the one that the folder names.

        Args:
            settings: What the training depends on; this is the configuration of the run.
            done: How many rows were logged before.
        """
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=self.folder.resolve().name,
            dir=str(self.folder),
            id=self.kept().get("id"),
            resume="allow",
            config=dict(settings),
            reinit="create_new",
            settings=wandb.Settings(console="off"),
        )
        self.keep(id=self._run.id)

    def log(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics.

        Args:
            metrics: The metrics of an epoch.
            step: Which row it is.
        """
        self._run.log(dict(metrics), step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by dotted names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _check(name: str, logger: type[Logger]) -> None:
    if not isinstance(logger, type) or not issubclass(logger, Logger) or logger.name != name:
        raise InputError(f"the logger {name!r} must be a class of Logger of this name, got {logger!r}")


LOGGERS: Registry[type[Logger]] = Registry("log", "nescio.loggers", check=_check)
"""The loggers by name; `LOGGERS.register(name, logger)` adds one for this process."""
for _ours in (TensorBoardLogger, CSVLogger, MLflowLogger, WandbLogger):
    LOGGERS.register(_ours.name, _ours)


def make_loggers(log: str | Logger | Sequence[str | Logger] | None) -> list[Logger]:
    """The loggers that are asked for; what is missing for one is said before the training, not after it.

    Args:
        log: Names ("tensorboard", "csv", "mlflow", "wandb"), loggers, or both; None for none.

    Returns:
        The loggers, each once.

    Raises:
        InputError: If there is no logger of a name.
        MissingExtraError: If its package is not installed.

    Example:
        >>> from nescio.training.loggers import make_loggers
        >>> [logger.name for logger in make_loggers("csv")]
        ['csv']
        >>> make_loggers("excel")
        Traceback (most recent call last):
        ...
        nescio.errors.InputError: log must be one of tensorboard, csv, mlflow, wandb, got 'excel'
    """
    if log is None:
        return []
    asked = [log] if isinstance(log, str | Logger) else list(log)
    found: dict[str, Logger] = {}
    for one in asked:
        logger = one if isinstance(one, Logger) else LOGGERS.get(one)()
        logger.require()
        found[logger.name] = logger
    return list(found.values())


@contextmanager
def logging_to(
    loggers: Sequence[Logger],
    folder: Path,
    settings: Mapping[str, Any],
    history: Sequence[Mapping[str, float]],
) -> Iterator[RowLog]:
    """Loggers that are started, for as long as a training runs.

    Raises:
        TrainingError: If one of them can't be started.
    """
    rows = RowLog([])
    try:
        for logger in loggers:
            rows.add(logger, folder, settings, history)
        yield rows
    finally:
        rows.close()


class RowLog:
    """Gives rows to all loggers. One that fails is left out from then on: the training is worth more."""

    def __init__(self, loggers: Sequence[Logger]) -> None:
        self._loggers = list(loggers)

    def add(
        self,
        logger: Logger,
        folder: Path,
        settings: Mapping[str, Any],
        history: Sequence[Mapping[str, float]],
    ) -> None:
        """Start another one.

        Raises:
            TrainingError: If it can't be started.
        """
        try:
            logger.start(folder, settings, history)
        except NescioError:
            raise
        except Exception as error:
            reason = str(error).strip().partition("\n")[0] or type(error).__name__
            raise TrainingError(f"log {logger.name} can't be started: {reason}") from error
        self._loggers.append(logger)

    def write(self, metrics: Mapping[str, float], step: int) -> None:
        """Log the metrics of an epoch."""
        for logger in list(self._loggers):
            try:
                logger.write(metrics, step)
            except Exception as error:  # noqa: BLE001 - another package's code: anything may come
                self._loggers.remove(logger)
                with suppress(Exception):
                    logger.close()
                warnings.warn(
                    f"log {logger.name} failed in row {step} and is left out from here on: {error}; the rows "
                    "are in metrics.jsonl, and come when the training is started again",
                    NescioWarning,
                    stacklevel=3,
                )

    def close(self) -> None:
        """End all of them."""
        for logger in self._loggers:
            try:
                logger.close()
            except Exception as error:  # noqa: BLE001 - another package's code: anything may come
                warnings.warn(f"log {logger.name} can't be closed: {error}", NescioWarning, stacklevel=3)
