"""Make a checkout ready to be built for an index: whole links in the README, and the project's addresses.

python tools/release_links.py https://example.org/owner/nescio v0.2.0

An index shows the README by itself, where a link to docs/guide.md leads nowhere and a picture is missing.
This writes them out with the address of the repository at the tag, and puts [project.urls] into
pyproject.toml. It is run by the release workflow, which knows the address; what is committed names none.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# A picture is [shown](there) with a ! before it. Links to elsewhere and within the page stay.
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\((?!https?:|#|mailto:)([^)\s]+)\)")
ADDRESS = re.compile(r"https://[\w.-]+(/[\w.-]+){2}")


def main(repository: str, tag: str, root: Path = ROOT) -> None:
    """Rewrite README.md and pyproject.toml of a checkout."""
    if not ADDRESS.fullmatch(repository):
        sys.exit(f"the repository must be https://HOST/OWNER/NAME, got {repository!r}")
    project = root / "pyproject.toml"
    declared = re.search(r'^version = "(.+)"$', project.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if declared is None:
        sys.exit(f"{project} has no version")
    version = declared[1]
    if tag != f"v{version}":
        sys.exit(f"the tag must be v{version}, the version of pyproject.toml, got {tag!r}")
    readme = root / "README.md"
    readme.write_text(
        whole_links(readme.read_text(encoding="utf-8"), repository, tag, root), encoding="utf-8"
    )
    project.write_text(with_urls(project.read_text(encoding="utf-8"), repository), encoding="utf-8")


def whole_links(text: str, repository: str, tag: str, root: Path) -> str:
    """A document with every relative link written out; one that leads nowhere ends the program."""

    def whole(found: re.Match[str]) -> str:
        is_picture, words, place = found.groups()
        path, _, anchor = place.partition("#")
        if not (root / path).exists():
            sys.exit(f"README.md links to {place}, which is not there")
        kind = "raw" if is_picture else "blob"
        target = f"{repository}/{kind}/{tag}/{path}"
        if anchor:
            target += f"#{anchor}"
        return f"{is_picture}[{words}]({target})"

    return LINK.sub(whole, text)


def with_urls(text: str, repository: str) -> str:
    """pyproject.toml with the project's addresses."""
    if "[project.urls]" in text:
        sys.exit("pyproject.toml has [project.urls] already")
    urls = {
        "Repository": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }
    lines = ["[project.urls]", *(f'{name} = "{address}"' for name, address in urls.items())]
    block = "\n".join(lines)
    return text.replace("[project.scripts]", f"{block}\n\n[project.scripts]", 1)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
