"""Tutorials: scripts in jupytext's percent format, run cell by cell; a page and a notebook of each.

python -m tools.docs.tutorials NAME          run one and keep what it gave under build/tutorials
python -m tools.docs.tutorials NAME --keep   where data are on no registry: keep it in the repository

A cell tagged "parameters" holds what tests make small. A cell of lines that begin with "!" (in the script
"# !") is run by the shell, as Jupyter does. Decision 30 says why this is not an extension of mkdocs.
"""

from __future__ import annotations

import argparse
import ast
import base64
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import lru_cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbformat import NotebookNode

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "tutorials"
KEPT = SCRIPTS / "executed"  # committed
MADE = ROOT / "build" / "tutorials"
LONGEST = 900  # seconds for one
DPI = 110


def names() -> list[str]:
    """All tutorials."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py"))


def title_and_lead(name: str) -> tuple[str, str]:
    """The heading of a tutorial and the paragraph below it."""
    text = jupytext.read(SCRIPTS / f"{name}.py").cells[0].source
    heading, _, rest = text.partition("\n")
    lead = rest.strip().split("\n\n")[0]
    return heading.removeprefix("# "), " ".join(lead.split())


def gallery() -> str:
    """A card for each tutorial, in the order of the navigation."""
    lines = ['<div class="grid cards" markdown>', ""]
    for name in ORDER:
        title, lead = title_and_lead(name)
        lines.append(f"-   **[{title}]({name}.md)**\n\n    {lead}\n")
    return "\n".join([*lines, "</div>", ""])


# From a first model to one of your own method.
ORDER = (
    "own_loop",
    "softmax_model",
    "photos",
    "text",
    "trainer",
    "table",
    "which_doubt",
    "many_classes",
    "segmentation",
    "serving",
    "own_method",
)


def site_files(name: str) -> dict[str, str | bytes]:
    """The page of a tutorial, its pictures and its notebook, by their paths on the site; run if need be."""
    notebook = executed(name)
    files: dict[str, str | bytes] = {
        f"tutorials/{name}.md": page_of(name, notebook),
        f"tutorials/{name}.ipynb": nbformat.writes(notebook),
    }
    for number, picture in enumerate(_pictures(notebook), start=1):
        files[f"tutorials/{name}/{number}.png"] = base64.b64decode(picture["image/png"])
    return files


def executed(name: str) -> NotebookNode:
    """The notebook of a tutorial with its outputs: the committed one, the one made before, or a new run."""
    kept = KEPT / f"{name}.ipynb"
    if kept.exists():
        notebook = nbformat.read(kept, as_version=4)
        if notebook.metadata["script"] != script_digest(name):
            raise SystemExit(
                f"{kept} is not of the present script: python -m tools.docs.tutorials {name} --keep"
            )
        return notebook
    made = MADE / f"{name}-{_digest_of_all(name)}.ipynb"
    if not made.exists():
        command = [sys.executable, "-m", "tools.docs.tutorials", name]
        done = subprocess.run(command, cwd=ROOT, timeout=LONGEST, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the tutorial {name} failed:\n{done.stderr}")
    return nbformat.read(made, as_version=4)


def script_digest(name: str) -> str:
    """What tells that a script is the one that outputs belong to."""
    return hashlib.sha256((SCRIPTS / f"{name}.py").read_bytes()).hexdigest()[:16]


@lru_cache
def _digest_of_package() -> str:
    digest = hashlib.sha256()
    for path in sorted((ROOT / "src").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _digest_of_all(name: str) -> str:
    return f"{script_digest(name)}-{_digest_of_package()}"


def run(name: str, replaced: Mapping[str, Any] | None = None) -> tuple[NotebookNode, dict[str, Any]]:
    """Run a tutorial in the current folder.

    Args:
        name: Name of the script.
        replaced: Other values for names of the cell tagged "parameters".

    Returns:
        The notebook with its outputs, and the names that the code leaves behind.
    """
    from matplotlib import pyplot

    pyplot.switch_backend("Agg")
    pyplot.close("all")
    _find_own_commands()
    digest = script_digest(name)
    notebook = jupytext.read(SCRIPTS / f"{name}.py")
    nbformat.validator.normalize(notebook)
    module = types.ModuleType(f"tutorial_{name}")
    sys.modules[module.__name__] = module  # where dataclasses look for the classes of a cell
    variables = module.__dict__
    count = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = _run_cell(cell.source, variables, f"{name}, cell {count}", count)
        if "parameters" in cell.metadata.get("tags", []):
            _replace(variables, replaced or {})
    # Of the notebook, what a reader needs; the rest is jupytext's own.
    notebook.metadata = nbformat.from_dict(
        {"kernelspec": {"name": "python3", "display_name": "Python 3"}, "script": digest}
    )
    return notebook, variables


def _replace(variables: dict[str, Any], replaced: Mapping[str, Any]) -> None:
    unknown = set(replaced) - set(variables)
    if unknown:
        raise KeyError(f"the parameters have no {', '.join(sorted(unknown))}")
    variables.update(replaced)


def _run_cell(source: str, variables: dict[str, Any], place: str, count: int) -> list[NotebookNode]:
    if source.startswith("!"):
        return [_stream(_run_in_shell(source))]
    tree = ast.parse(source, place)
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)  # type: ignore[attr-defined]
    printed = io.StringIO()
    value = None
    with redirect_stdout(printed), redirect_stderr(printed), _warnings_without_places():
        exec(compile(tree, place, "exec"), variables)
        if last is not None:
            value = eval(compile(last, place, "eval"), variables)
    outputs = []
    if printed.getvalue():
        outputs.append(_stream(printed.getvalue()))
    if value is not None and not _is_of_a_figure(value):
        data = {"text/plain": repr(value)}
        outputs.append(nbformat.v4.new_output("execute_result", data, execution_count=count))
    return outputs + _drawn_figures()


@contextmanager
def _warnings_without_places() -> Iterator[None]:
    """A page says what is warned of, not in which folder of this machine."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, category, *_, **__: f"{category.__name__}: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before


def _is_of_a_figure(value: object) -> bool:
    """Whether a value is what drawing gives back, such as a legend: it says nothing to a reader."""
    parts = value if isinstance(value, list | tuple) else [value]
    return any(type(part).__module__.startswith("matplotlib.") for part in parts)


def _stream(text: str) -> NotebookNode:
    return nbformat.v4.new_output("stream", name="stdout", text=text)


def _find_own_commands() -> None:
    """Let the commands of a tutorial be those that belong to this Python."""
    own = str(Path(sys.executable).parent)
    if own not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = f"{own}{os.pathsep}{os.environ.get('PATH', '')}"


def _run_in_shell(source: str) -> str:
    environment = {**os.environ, "COLUMNS": "100"}
    printed = []
    for line in source.splitlines():
        command = line.removeprefix("!")
        done = subprocess.run(
            command,
            shell=True,
            env=environment,
            stdout=-1,
            stderr=-2,
            text=True,
            timeout=LONGEST,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command!r} ended with code {done.returncode}:\n{done.stdout}")
        printed.append(done.stdout)
    return "".join(printed)


def _drawn_figures() -> list[NotebookNode]:
    """The figures that a cell left open, as pictures; what they show stands in their titles."""
    from matplotlib import pyplot

    outputs = []
    for number in pyplot.get_fignums():
        figure = pyplot.figure(number)
        said = [figure.get_suptitle()]
        for axes in figure.axes:
            said.append(axes.get_title())
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=DPI, bbox_inches="tight", metadata={"Software": None})
        pyplot.close(figure)
        shown = "; ".join(dict.fromkeys(text.replace("\n", " ") for text in said if text))
        data = {"image/png": base64.b64encode(file.getvalue()).decode("ascii"), "text/plain": shown}
        outputs.append(nbformat.v4.new_output("display_data", data))
    return outputs


def page_of(name: str, notebook: NotebookNode) -> str:
    """The notebook as Markdown."""
    heading, _, rest = notebook.cells[0].source.partition("\n")
    offered = (
        f'<p class="downloads"><a href="../{name}.ipynb" download>Notebook</a> '
        f'<a href="../{name}.py" download>Script</a></p>'
    )
    parts = [heading, offered, rest.strip()]
    number = 0
    for cell in notebook.cells[1:]:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(_fenced(cell.source))
        for output in cell.outputs:
            if output.output_type == "display_data":
                number += 1
                parts.append(f"![{output.data['text/plain']}]({name}/{number}.png)")
            else:
                text = output.text if output.output_type == "stream" else output.data["text/plain"]
                parts.append(f"``` {{ .text .output }}\n{text.rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _fenced(source: str) -> str:
    if source.startswith("!"):
        commands = "\n".join(line.removeprefix("!") for line in source.splitlines())
        return f"```bash\n{commands}\n```"
    return f"```python\n{source}\n```"


def _pictures(notebook: NotebookNode) -> list[NotebookNode]:
    found = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.output_type == "display_data":
                found.append(output.data)
    return found


def main() -> None:
    """Run one tutorial in an empty folder, and keep its notebook."""
    parser = argparse.ArgumentParser(description="Run a tutorial, and keep its notebook.")
    parser.add_argument("name", choices=names())
    parser.add_argument(
        "--keep", action="store_true", help="in the repository, as its data are on no registry"
    )
    options = parser.parse_args()
    path = MADE / f"{options.name}-{_digest_of_all(options.name)}.ipynb"
    if options.keep:
        path = KEPT / f"{options.name}.ipynb"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        notebook, _ = run(options.name)
        os.chdir(ROOT)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
