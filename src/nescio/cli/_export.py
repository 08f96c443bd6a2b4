"""`nescio export`: a model for production, as ONNX or a torch.export program."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nescio.cli._console import logs_kept_quiet
from nescio.cli._options import ModelFile
from nescio.errors import InputError

if TYPE_CHECKING:
    from nescio.data import ImagePreprocess, Preprocess, TableSchema
    from nescio.data._columns import Column

LISTED_NUMBERS = 40  # of a row; the model file has all


def export(
    model: ModelFile,
    onnx: Annotated[Path | None, typer.Option(help="Write an ONNX file.")] = None,
    program: Annotated[Path | None, typer.Option(help="Write a torch.export program, .pt2.")] = None,
) -> None:
    """Write the model for production: arrays to probabilities, belief and uncertainty.

    Scaling is in the file; reading is not. It takes the pixels of an image in its size, the ids of a text's
    tokens, or a table's row as numbers: what they are is printed.
    """
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
    for line in inputs_in_words(trained.preprocess):
        typer.echo(line)


def inputs_in_words(preprocess: Preprocess) -> list[str]:
    """What an exported file takes, in lines for people: the shape, and what the numbers are."""
    from nescio.data import ImagePreprocess, RowPreprocess

    shape = ", ".join(str(size) for size in preprocess.input_shape)
    dtype = str(preprocess.example().dtype).removeprefix("torch.")
    begin = f"inputs: {dtype} (batch, {shape}), "
    if isinstance(preprocess, ImagePreprocess):
        return [begin + _pixels_in_words(preprocess)]
    if not isinstance(preprocess, RowPreprocess):
        return [
            f"{begin}the ids of each text's tokens by the model's tokenizer, which is in nescio.preprocess "
            "of the ONNX file's metadata"
        ]
    schema = preprocess.schema
    if schema is None:
        return [f"{begin}the numbers of a row in the order of training, not scaled"]
    first = f"{begin}a row as these numbers in this order, not scaled; with = or is: 1 where it is so, else 0"
    return [first, *_numbers_in_words(schema)]


def _pixels_in_words(preprocess: ImagePreprocess) -> str:
    where = "channels before height and width"
    if preprocess.pixel_range is not None:
        least, most = preprocess.pixel_range
        return f"pixels from {least:g} to {most:g}, {where}"
    if preprocess.white is not None:
        return f"pixels from 0 to {preprocess.white:g}, {where}"
    return f"numbers like those of training, {where}"


def _numbers_in_words(schema: TableSchema) -> list[str]:
    """A line for each of the first numbers of a row, and one that says where the others are named."""
    lines: list[str] = []
    for column in schema.columns:
        names = list(column.features)
        names[0] += _coding_of(column)
        for name in names:
            lines.append(f"  {len(lines) + 1} {name}")
    if len(lines) > LISTED_NUMBERS:
        count = len(lines)
        lines = lines[:LISTED_NUMBERS]
        lines.append(
            f"  ... {count} in all, in Python: TrainedModel.load(FILE).preprocess.schema.features; with the "
            "coding: nescio.preprocess of the ONNX file's metadata"
        )
    return lines


def _coding_of(column: Column) -> str:
    """What else is to be known of the first number of a column."""
    from nescio.data._columns import DateColumn, NumberColumn

    words = ""
    if isinstance(column, NumberColumn) and column.offset:
        words = f" minus {column.offset!r}"
    elif isinstance(column, DateColumn):
        words = f" since 1970-01-01 minus {column.origin!r}"
    if isinstance(column, NumberColumn | DateColumn) and column.filled is not None:
        words += f"; {column.filled!r} where it is missing"
    return words


def _require_place(option: str, file: Path, suffix: str) -> None:
    if not file.parent.is_dir():
        raise InputError(f"{file} can't be written: there is no folder {file.parent}")
    if file.is_dir():
        raise InputError(f"{file} can't be written: it is a folder")
    if file.suffix.lower() != suffix:
        raise InputError(f"{option} must name a file that ends in {suffix}, got {file}")
