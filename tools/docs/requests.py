"""What a page would fetch from elsewhere: nothing, and this looks for it."""

from __future__ import annotations

import re
from pathlib import Path

# A script, style, font, picture or frame from another host. What people may follow is not fetched.
FETCHED = re.compile(
    r"<(?:script|link|img|iframe|source|video|audio)\b[^>]*?"
    r"\b(?:src|href|srcset)=[\"']?(?:https?:)?//[^\"'\s>]+"
)
IN_STYLE = re.compile(r"(?:@import\s+|url\()[\"']?(?:https?:)?//[^\"')\s]+")
NOT_FETCHED = re.compile(r'<link rel="?(?:canonical|next|prev)')


def requests_of(text: str) -> list[str]:
    """The elements and rules of a page or a style sheet that ask another host."""
    found = []
    for element in FETCHED.findall(text):
        if not NOT_FETCHED.match(element):
            found.append(element)
    return found + IN_STYLE.findall(text)


def requests_of_site(folder: Path) -> list[str]:
    """The same of all files of a built site, each with its file."""
    found = []
    for path in sorted([*folder.rglob("*.html"), *folder.rglob("*.css")]):
        for request in requests_of(path.read_text(encoding="utf-8")):
            found.append(f"{path.relative_to(folder)} asks another host: {request}")
    return found
