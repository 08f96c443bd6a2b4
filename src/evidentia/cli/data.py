"""`evidentia data`: what data sets there are, fetching them, looking at them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evidentia.data import Dataset

app = typer.Typer(help="Data sets: list, fetch, show.", no_args_is_help=True)

DataDir = Annotated[
    Path | None,
    typer.Option(help="A folder that holds the files already. Default: EVIDENTIA_DATA."),
]


@app.command("list")
def list_() -> None:
    """Say what is here, what can be had, how large it is and under which licence."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from evidentia.data.catalog import ENTRIES, MADE
    from evidentia.data.store import cache_dir, is_cached

    table = Table(box=box.SIMPLE_HEAD)
    for heading in ("name", "state", "size", "what it is", "licence"):
        table.add_column(heading, overflow="fold")
    for entry in ENTRIES.values():
        state = "here" if is_cached(entry) else "to fetch"
        table.add_row(entry.name, state, f"{entry.size / 1e6:.0f} MB", entry.about, entry.licence)
    for made in MADE:
        table.add_row(made.name, "made on use", "-", made.about, made.licence)
    console = Console()
    console.print(table)
    console.print(f"Files are kept in {cache_dir()}", soft_wrap=True, highlight=False)


@app.command()
def fetch(names: Annotated[list[str], typer.Argument()], data_dir: DataDir = None) -> None:
    """Bring data sets here and verify them."""
    from evidentia.data import load
    from evidentia.data.catalog import ENTRIES
    from evidentia.data.store import fetch as fetch_files
    from evidentia.errors import InputError

    unknown = [name for name in names if name not in ENTRIES]
    if unknown:
        raise InputError(f"can't fetch {', '.join(unknown)}; to fetch: {', '.join(ENTRIES)}")
    for name in names:
        folder = fetch_files(ENTRIES[name], data_dir)
        parts = dict.fromkeys(ENTRIES[name].splits.values())
        splits = [split for split, part in ENTRIES[name].splits.items() if parts.pop(part, 0) is None]
        count = sum(len(load(name, split, download=False)) for split in splits)
        typer.echo(f"{name}: {count:,} images, verified, in {folder}")


@app.command()
def show(
    name: str,
    out: Annotated[Path | None, typer.Option(help="The PNG to write. Default: NAME.png.")] = None,
    split: str = "train",
    data_dir: DataDir = None,
    strict: Annotated[bool, typer.Option(help="Refuse files that are no pictures.")] = False,
) -> None:
    """Draw a contact sheet of a data set, or of a folder of class folders, as PNG."""
    from evidentia.data import contact_sheet

    dataset = _open(name, split, data_dir, strict)
    out = out or Path(f"{dataset.name}.png")
    out.parent.mkdir(parents=True, exist_ok=True)
    contact_sheet(dataset).save(out)
    typer.echo(f"{dataset}: samples in {out}")


def _open(name: str, split: str, data_dir: Path | None, strict: bool) -> Dataset:
    from evidentia.data import from_folder, load

    if Path(name).is_dir():
        return from_folder(name, strict=strict)
    return load(name, split, data_dir=data_dir)
