"""How densely a tree is written, and how much of it is public: the rates of our style, per 1,000 lines.

python tools/style_rates.py [FOLDER OR FILE]...
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def main() -> None:
    """Print one line for each folder or file named, by default for src/nescio."""
    roots = [Path(word) for word in sys.argv[1:]] or [Path("src/nescio")]
    print(f"{'':40} {'lines':>7} {'compr.':>7} {'cond.':>7} {'tuples':>7} {'comm.':>7} {'public':>7}")
    for root in roots:
        counts = counts_of(root)
        lines = max(counts["lines"], 1)
        rates = [
            counts[kind] * 1000 / lines for kind in ("comprehensions", "conditionals", "tuples", "comments")
        ]
        figures = " ".join(f"{rate:7.1f}" for rate in rates)
        print(f"{root!s:40} {counts['lines']:7,} {figures} {counts['public names']:7}")


def counts_of(root: Path) -> Counter[str]:
    """Counts over a file, or over all Python files below a folder."""
    files = [root] if root.is_file() else sorted(root.rglob("*.py"))
    total: Counter[str] = Counter()
    for file in files:
        source = file.read_text(encoding="utf-8")
        tree = ast.parse(source)
        total.update(counts_of_source(source, tree))
        if is_public(file):
            total["public names"] += len(public_names(tree))
    return total


def counts_of_source(source: str, tree: ast.Module) -> Counter[str]:
    """Lines, and how often each dense form stands in them."""
    counts: Counter[str] = Counter()
    counts["lines"] = len(source.splitlines())
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and not is_for_machines(token.string):
            counts["comments"] += 1
    for node in ast.walk(tree):
        if isinstance(node, COMPREHENSIONS):
            counts["comprehensions"] += 1
        elif isinstance(node, ast.IfExp):
            counts["conditionals"] += 1
        elif isinstance(node, ast.Assign) and is_tuple_assignment(node):
            counts["tuples"] += 1
    return counts


def is_for_machines(comment: str) -> bool:
    """Whether a comment is there for a linter or a type checker, not for a reader."""
    return comment.startswith(("# noqa", "# type:", "#!"))


def is_tuple_assignment(node: ast.Assign) -> bool:
    """Whether several values are written out and given several names: a, b = 1, 2."""
    return isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)


def is_public(file: Path) -> bool:
    """Whether no part of the path below the package begins with an underscore; __init__ counts as public."""
    parts = [part for part in file.with_suffix("").parts if part != "__init__"]
    return not any(part.startswith("_") for part in parts)


def public_names(tree: ast.Module) -> set[str]:
    """Functions and classes that a module defines, without an underscore before them."""
    names = {node.name for node in tree.body if isinstance(node, DEFINITIONS)}
    return {name for name in names if not name.startswith("_")}


if __name__ == "__main__":
    main()
