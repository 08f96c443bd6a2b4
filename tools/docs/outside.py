"""Files of the repository that are pages of the site too, and links that lead to them.

The documents are read in the repository as well, where a link says `../results/paper/report.md`. On the site
those files lie beside the pages of docs/, under the same path. A link to the script of a tutorial leads to
its page there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATTERNS = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "results/*/report.md",
    "results/*/figures/*.png",
)
TUTORIAL = re.compile(r"docs/tutorials/\w+\.py")
# The target of a link or of a picture, without what follows it: an anchor, a title.
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)([^)]*)\)")


def outside_files() -> list[str]:
    """The paths of all files that are shown and do not lie in docs/."""
    found = []
    for pattern in PATTERNS:
        for path in sorted(ROOT.glob(pattern)):
            found.append(path.relative_to(ROOT).as_posix())
    return found


def rewrite(markdown: str, page: str) -> str:
    """Let links of a page, named by its path on the site, lead to where their targets lie on the site.

    A file of the repository that the site does not have is named and not linked.
    """
    outside = set(outside_files())
    is_outside = page in outside
    in_repository = page if is_outside else f"docs/{page}"

    def replaced(found: re.Match[str]) -> str:
        sign, text, target, rest = found.groups()
        if "://" in target or target.startswith(("/", "mailto:")):
            return found[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(in_repository), target))
        is_in_docs = path.startswith("docs/")
        if path in outside:
            on_site = path
        elif TUTORIAL.fullmatch(path):
            on_site = path.removeprefix("docs/").removesuffix(".py") + ".md"
        elif is_outside and is_in_docs:
            on_site = path.removeprefix("docs/")
        elif not is_in_docs and (ROOT / path).exists():
            return text
        else:
            return found[0]
        return f"{sign}[{text}]({posixpath.relpath(on_site, posixpath.dirname(page) or '.')}{rest})"

    return LINK.sub(replaced, markdown)
