"""Options that several commands have, each with one wording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[str, typer.Argument(help="A model file, .safetensors, or the folder of a run.")]
Label = Annotated[
    str | None,
    typer.Option(
        help="The labels' column of a table. Default: label, class, target or y, else the last; where a "
        "model is measured, that of its training."
    ),
]
UnseenData = Annotated[
    str,
    typer.Option(help="Data that the model was not trained on; held-out for the part that train held out."),
]
DataDir = Annotated[
    Path | None,
    typer.Option(help="A folder that holds the files of data sets already. Default: NESCIO_DATA."),
]
