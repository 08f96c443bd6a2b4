"""What mkdocs calls while it builds the site: `make docs`."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tools.docs import api, formulas, outside, requests, tutorials

log = logging.getLogger("mkdocs.hooks.nescio")  # a warning here fails a strict build


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List the decisions, which are too many to list by hand."""
    entries: list[Any] = ["decisions/index.md"]
    for path in sorted((outside.ROOT / "docs" / "decisions").glob("0*.md")):
        entries.append(f"decisions/{path.name}")
    assert config.nav is not None
    for section in config.nav:
        if "Project" in section:
            section["Project"].insert(0, {"Decisions": entries})
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what is not written by hand: executed tutorials, and files from outside docs/."""
    for path in outside.outside_files():
        files.append(File.generated(config, path, abs_src_path=str(outside.ROOT / path)))
    for name in tutorials.names():
        for path, content in tutorials.site_files(name).items():
            files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Fill in the names of the reference, and the links that lead out of docs/."""
    path = page.file.src_uri
    if path.startswith("api/"):
        markdown = api.expand(markdown)
    if path == "decisions/index.md":
        markdown += _list_of_decisions(files)
    if path == "tutorials/index.md":
        markdown = markdown.replace("<!-- gallery -->", tutorials.gallery())
    return outside.rewrite(markdown, path)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the formulas."""
    return formulas.render(html)


def on_post_build(config: MkDocsConfig) -> None:
    """Warn of what is public and not documented, and of what would be fetched from elsewhere."""
    for missing in api.missing_names():
        log.warning(missing)
    for request in requests.requests_of_site(Path(config.site_dir)):
        log.warning(request)


def _list_of_decisions(files: Files) -> str:
    lines = []
    for file in sorted(files.documentation_pages(), key=lambda file: file.src_uri):
        if file.src_uri.startswith("decisions/0"):
            title = file.content_string.partition("\n")[0].removeprefix("# ")
            lines.append(f"- [{title}]({file.src_uri.removeprefix('decisions/')})")
    return "\n" + "\n".join(lines) + "\n"
