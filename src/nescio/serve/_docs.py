"""The OpenAPI document as a plain page: no script, nothing from another server."""

from __future__ import annotations

import json
from html import escape
from typing import Any

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{title}: the API</title>
<link rel="stylesheet" href="docs.css">
</head>
<body>
<main>
<h1>{title} {version}: the API</h1>
<p>{description}</p>
<p>For programs: <a href="openapi.json">openapi.json</a>. For people: <a href="./">the page</a>.</p>
{operations}
<h2>Schemas</h2>
{schemas}
</main>
</body>
</html>
"""
_OPERATION = """<section><h2><code>{method} {path}</code></h2>
<p>{description}</p>
{bodies}
<table><thead><tr><th>status</th><th>answer</th></tr></thead><tbody>{rows}</tbody>
</table></section>"""


def docs_page(document: dict[str, Any]) -> str:
    """HTML for an OpenAPI document."""
    operations = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operations.append(_operation(method, path, operation))
    schemas = [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    return _PAGE.format(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        description=escape(document["info"]["description"]),
        operations="\n".join(operations),
        schemas="\n".join(schemas),
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    content_types = operation.get("requestBody", {}).get("content", {})
    bodies = [_body(name, content["schema"]) for name, content in content_types.items()]
    rows = [_row(status, response) for status, response in operation["responses"].items()]
    return _OPERATION.format(
        method=method.upper(),
        path=escape(path),
        description=escape(operation["description"]),
        bodies="\n".join(bodies),
        rows="".join(rows),
    )


def _body(content_type: str, schema: dict[str, Any]) -> str:
    return f"<details><summary>Body as {escape(content_type)}</summary>{_as_json(schema)}</details>"


def _row(status: str, response: dict[str, Any]) -> str:
    links = ""
    for content in response.get("content", {}).values():
        name = escape(content["schema"]["$ref"].rpartition("/")[2])
        links += f' <a href="#{name}">{name}</a>'
    return f"<tr><td>{escape(status)}</td><td>{escape(response['description'])}{links}</td></tr>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    description = f"<p>{escape(schema['description'])}</p>"
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{description}{_as_json(schema)}</section>'


def _as_json(schema: dict[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2))}</pre>"
