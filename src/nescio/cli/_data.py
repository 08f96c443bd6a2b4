"""`nescio data`: what data sets there are, fetching them, looking at them."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nescio.cli._options import DataDir
from nescio.errors import DataError, InputError

if TYPE_CHECKING:
    from PIL.Image import Image

    from nescio.data import LabelledData

MARK = ("Software", "nescio data show")  # in the PNGs that are written here
app = typer.Typer(help="Data sets: list, fetch, show.", no_args_is_help=True)


@app.command("list")
def list_() -> None:
    """Say what is here, what can be had, how large it is and under which licence."""
    from rich.console import Console
    from rich.table import Table

    from nescio._fetch.store import cache_dir, is_cached, state
    from nescio._fetch.weights import WEIGHTS
    from nescio.data._catalog import ENTRIES, GENERATED

    table = Table(box=None, padding=(0, 1, 0, 0))
    for heading in ("name", "kind", "state", "size", "what it is", "licence"):
        table.add_column(heading, overflow="fold")
    for entry in ENTRIES.values():
        size = f"{entry.size / 1e6:.0f} MB"
        table.add_row(entry.name, entry.kind.value, state(entry), size, entry.about, entry.licence)
    for generated in GENERATED:
        lacks = generated.needs and not is_cached(ENTRIES[generated.needs])
        how = f"needs {generated.needs}" if lacks else "generated"
        table.add_row(generated.name, generated.kind.value, how, "-", generated.about, generated.licence)
    for weights in WEIGHTS.values():
        size = f"{weights.size / 1e6:.0f} MB"
        table.add_row(weights.name, "weights", state(weights), size, weights.about, weights.licence)
    console = Console()
    console.print(table)
    console.print(f"Files are kept in {cache_dir()}", soft_wrap=True, highlight=False)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(help="Names of data sets, or of encoders with weights.")],
    data_dir: DataDir = None,
) -> None:
    """Bring data sets and weights here and verify them; verify again those that are here."""
    from nescio._fetch.store import fetch as fetch_files
    from nescio._fetch.weights import WEIGHTS
    from nescio.data._catalog import ENTRIES

    known = [*ENTRIES, *WEIGHTS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InputError(f"can't fetch {', '.join(unknown)}; to fetch: {', '.join(known)}")
    for name in names:
        if name in WEIGHTS:
            # Imported here: it waits for torch.
            from nescio.encoders._weights import fetch_again

            folder = fetch_again(WEIGHTS[name], data_dir)
            typer.echo(f"{name}: weights, verified, in {folder}")
        else:
            folder = fetch_files(ENTRIES[name], data_dir, recheck=True)
            typer.echo(f"{name}: {ENTRIES[name].count:,} {ENTRIES[name].kind.value}, verified, in {folder}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A data set, a folder of class folders or an .npz file.")],
    out: Annotated[Path | None, typer.Option(help="The PNG to write. Default: NAME.png.")] = None,
    split: Annotated[str | None, typer.Option(help="train or test. Default: train.")] = None,
    data_dir: DataDir = None,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse files that are no pictures.")] = False,
) -> None:
    """Draw a contact sheet of a data set, or of images of your own, as PNG.

    A name of the catalog wins over a folder of the same name; ./NAME is the folder.
    """
    from nescio.data import Dataset, contact_sheet

    if out is not None and (out.suffix.lower() != ".png" or out.is_dir()):
        raise InputError(f"--out must name a .png file, got {out}")
    dataset = _open(name, split, data_dir, strict)
    if not isinstance(dataset, Dataset):
        raise InputError(f"a contact sheet needs images, got {dataset}")
    if out is None:
        out = Path(f"{dataset.name}.png")
        if out.exists() and not _is_contact_sheet(out):
            raise InputError(f"there is another {out} here already; --out names the file to write")
    _write(contact_sheet(dataset), out)
    typer.echo(f"{dataset}: samples in {out}")


def _open(name: str, split: str | None, data_dir: Path | None, strict: bool) -> LabelledData:
    from nescio.data import open_source
    from nescio.data._catalog import in_catalog

    if in_catalog(name):
        split = split or "train"
    return open_source(name, split=split, data_dir=data_dir, strict=strict).labelled()


def _is_contact_sheet(path: Path) -> bool:
    """Whether it is one of ours, which may be written over."""
    from PIL import Image

    name, value = MARK
    try:
        with Image.open(path) as picture:
            return bool(picture.info.get(name) == value)
    except (OSError, Image.DecompressionBombError):
        return False


def _write(picture: Image, path: Path) -> None:
    """Write a PNG in one step: whatever fails, there is never half a file."""
    from PIL.PngImagePlugin import PngInfo

    from nescio._files import write_atomically

    marked = PngInfo()
    marked.add_text(*MARK)
    content = io.BytesIO()
    picture.save(content, "PNG", pnginfo=marked)
    try:
        write_atomically(path, content.getvalue())
    except OSError as error:
        raise DataError(f"{path} can't be written: {error.strerror or error}") from error
