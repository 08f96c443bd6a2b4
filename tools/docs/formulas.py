"""Formulas as MathML, which browsers draw themselves: no script, and nothing to fetch."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

# What pymdownx.arithmatex leaves of `$...$` and `$$...$$`.
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


def render(page: str) -> str:
    """The HTML of a page with its formulas drawn."""

    def drawn(found: re.Match[str]) -> str:
        latex = html.unescape(found[2]).strip()
        if found[1] == "span":
            return convert(latex)
        return f'<div class="formula">{convert(latex, display="block")}</div>'

    return FORMULA.sub(drawn, page)
