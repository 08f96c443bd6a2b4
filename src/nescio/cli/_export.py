"""`nescio export`: a model for production, as ONNX or a torch.export program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nescio.cli._console import logs_kept_quiet
from nescio.cli._options import ModelFile
from nescio.errors import InputError


def export(
    model: ModelFile,
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file.")] = None,
    program: Annotated[Path | None, typer.Option(help="Write a torch.export program, .pt2.")] = None,
) -> None:
    """Write the model for production: raw inputs to probabilities, belief and uncertainty."""
    from nescio.inference.model import TrainedModel

    if onnx is None and program is None:
        raise InputError("say what to write: --onnx FILE or --program FILE")
    for option, file, suffix in (("--onnx", onnx, ".onnx"), ("--program", program, ".pt2")):
        if file is not None:
            _require_place(option, file, suffix)
    trained = TrainedModel.load(model)
    for file, write in ((onnx, trained.export_onnx), (program, trained.export_program)):
        if file is not None:
            with logs_kept_quiet():
                write(file)
            typer.echo(f"{file}: written")


def _require_place(option: str, file: Path, suffix: str) -> None:
    if not file.parent.is_dir():
        raise InputError(f"{file} can't be written: there is no folder {file.parent}")
    if file.is_dir():
        raise InputError(f"{file} can't be written: it is a folder")
    if file.suffix.lower() != suffix:
        raise InputError(f"{option} must name a file that ends in {suffix}, got {file}")
