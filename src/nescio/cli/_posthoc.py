"""`nescio calibrate`, `threshold`, `sets`: what held-out data add to a model file."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Annotated

import typer

from nescio.cli._console import counting_progress
from nescio.cli._options import DataDir, Label, ModelFile, UnseenData
from nescio.errors import DataError, InputError, NescioWarning

if TYPE_CHECKING:
    from torch import Tensor

    from nescio.opinions.categorical import Prediction

USUAL_MAX_ERROR = 0.01
USUAL_CONFIDENCE = 0.95
OFFERED_COVERAGE = 0.9  # where no promise can be made
OFFERED_MAX_ERROR = 0.05


def calibrate(
    model: ModelFile,
    data: UnseenData,
    training: Annotated[
        str | None, typer.Option(help="What the model was trained on; needed for trust, not for temperature.")
    ] = None,
    posthoc: Annotated[
        str,
        typer.Option(help="What is fitted to --data: temperature, trust or all; none takes both away."),
    ] = "all",
    label: Label = None,
    data_dir: DataDir = None,
) -> None:
    """Fit temperature and trust of a model to held-out data, and keep them in its file.

    A rule and sets that the model had are taken away: they promise for what the model said before. New ones
    need other data than these.
    """
    from nescio.cli._sources import open_training, open_unseen
    from nescio.inference._calibration import require_wanted
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel

    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_unseen(trained, data, data_dir, label)
    if require_wanted(posthoc) in ("all", "trust") and training is None:
        raise InputError(
            "--training must name what the model was trained on: trust is by the distance to it; "
            "--posthoc temperature needs none, and takes a trust of the model away"
        )
    known = held_out
    if training is not None:
        known = open_training(trained, training, data_dir, label)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NescioWarning)
        calibrated = trained.calibrated(known, held_out, posthoc)
    calibrated.save(path)
    for warning in said:
        typer.echo(str(warning.message), err=True)
    fitted = "no temperature, no trust"
    if calibrated.posthoc is not None:
        fitted = calibrated.posthoc.describe()
    typer.echo(f"{path}: {fitted}")


def threshold(
    model: ModelFile,
    data: UnseenData,
    max_error: Annotated[
        float | None, typer.Option(help="The error allowed among accepted inputs. Default: 0.01.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="How sure that promise is to be. Default: 0.95.")
    ] = None,
    coverage: Annotated[
        float | None, typer.Option(help="Instead: the share of inputs to accept, without a promise.")
    ] = None,
    measure: Annotated[str, typer.Option(help="The measure of doubt that decides.")] = "uncertainty",
    label: Label = None,
    data_dir: DataDir = None,
    risk: Annotated[float | None, typer.Option(hidden=True, help="The former name of --max-error.")] = None,
) -> None:
    """Take a threshold with a promise from held-out data, and keep it in the model file."""
    from nescio.cli._sources import open_for_promise
    from nescio.inference._layers import predict_kept
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel
    from nescio.posthoc.abstention import AbstentionRule

    if max_error is not None and risk is not None:
        raise InputError("--risk is the former name of --max-error; give one of them")
    if risk is not None:
        max_error = risk
    if coverage is not None:
        if max_error is not None or confidence is not None:
            raise InputError("--coverage makes no promise; it goes without --max-error and --confidence")
        if not 0 < coverage <= 1:
            raise InputError(f"--coverage must be above 0 and at most 1, got {coverage:g}")
    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_for_promise(trained, data, data_dir, label)
    # As `predict` and the service will ask it: the promise is about their answers.
    prediction = predict_kept(trained, trained.preprocess.inputs_of(held_out), counting_progress("features"))
    labels = trained.labels_of(held_out)
    is_by_default = coverage is None and max_error is None
    if max_error is None:
        max_error = USUAL_MAX_ERROR
    if confidence is None:
        confidence = USUAL_CONFIDENCE
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NescioWarning)
        if coverage is not None:
            rule = AbstentionRule.for_coverage(prediction, labels, coverage, measure)
        else:
            rule = AbstentionRule.for_error(prediction, labels, max_error, confidence, measure)
    if not rule.met:
        reason = str(said[-1].message)
        if is_by_default:
            reason += f"; {USUAL_MAX_ERROR:.0%} is the default"
            if _can_be_promised(prediction, labels, confidence, measure):
                reason += f", --max-error {OFFERED_MAX_ERROR:g} asks for {OFFERED_MAX_ERROR:.0%}"
        if coverage is None and _can_be_covered(prediction, labels, measure):
            reason += (
                f"; or --coverage {OFFERED_COVERAGE:g}, which answers the surest nine in ten and promises "
                "nothing"
            )
        raise DataError(f"{reason}. {path} stays as it was")
    trained.with_rule(rule).save(path)
    typer.echo(f"{path}: {rule.describe()}")
    if is_by_default:
        typer.echo(
            f"{USUAL_MAX_ERROR:.0%} is the default; --max-error {OFFERED_MAX_ERROR:g} asks for "
            f"{OFFERED_MAX_ERROR:.0%}, --coverage {OFFERED_COVERAGE:g} for the surest nine in ten without a "
            "promise"
        )


def _can_be_promised(prediction: Prediction, labels: Tensor, confidence: float, measure: str) -> bool:
    """Whether a rule can promise the error that is offered in place of the default."""
    from nescio.posthoc.abstention import AbstentionRule

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NescioWarning)
        return AbstentionRule.for_error(prediction, labels, OFFERED_MAX_ERROR, confidence, measure).met


def _can_be_covered(prediction: Prediction, labels: Tensor, measure: str) -> bool:
    """Whether a rule can answer the share that is offered in place of a promise."""
    from nescio.posthoc.abstention import AbstentionRule

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NescioWarning)
        return AbstentionRule.for_coverage(prediction, labels, OFFERED_COVERAGE, measure).met


def sets(
    model: ModelFile,
    data: UnseenData,
    coverage: Annotated[
        float, typer.Option(help="The share of inputs whose set is to hold the true class.")
    ] = 0.95,
    score: Annotated[
        str, typer.Option(help="lac: the smallest sets; aps: larger ones for harder inputs; raps: between.")
    ] = "lac",
    by_class: Annotated[
        bool, typer.Option("--by-class", help="Promise it for the inputs of each class, not only on average.")
    ] = False,
    randomized: Annotated[
        bool,
        typer.Option("--randomized", help="Smaller sets of aps and raps, drawn by a digest of the input."),
    ] = False,
    allow_empty: Annotated[
        bool,
        typer.Option("--allow-empty", help="Leave the set of an input that is unlike all classes empty."),
    ] = False,
    label: Label = None,
    data_dir: DataDir = None,
) -> None:
    """Make sets of classes that hold the true one as often as promised, and keep them in the model file."""
    from nescio.cli._sources import open_for_promise
    from nescio.inference._layers import predict_kept
    from nescio.inference._model_file import model_path
    from nescio.inference.model import TrainedModel
    from nescio.posthoc.conformal import ConformalSets

    if not 0 < coverage < 1:
        raise InputError(f"--coverage must be between 0 and 1, got {coverage:g}")
    path = model_path(model)
    trained = TrainedModel.load(path)
    held_out = open_for_promise(trained, data, data_dir, label)
    # As `predict` and the service will ask it: the promise is about their answers.
    prediction = predict_kept(trained, trained.preprocess.inputs_of(held_out), counting_progress("features"))
    try:
        made = ConformalSets.fit(
            prediction,
            trained.labels_of(held_out),
            coverage,
            score,
            by_class=by_class,
            randomized=randomized,
            allow_empty=allow_empty,
            classes=trained.classes,
        )
    except DataError as error:
        raise DataError(f"{error}. {path} stays as it was") from error
    trained.with_sets(made).save(path)
    low, high = made.coverage_interval()
    typer.echo(f"{path}: {made.describe()}")
    typer.echo(
        f"for 95% of all draws of so many held-out samples, that share is in truth {low:.1%} to {high:.1%}"
    )
