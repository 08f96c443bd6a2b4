"""The OpenAPI document as a plain page: no script, nothing from another server."""

from __future__ import annotations

import json
from html import escape
from typing import Any

PAGE = """<!doctype html>
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


def docs_page(document: dict[str, Any]) -> str:
    """HTML for an OpenAPI document."""
    operations = [
        _operation(method, path, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = [_schema(name, schema) for name, schema in document["components"]["schemas"].items()]
    return PAGE.format(
        title=escape(document["info"]["title"]),
        version=escape(document["info"]["version"]),
        description=escape(document["info"]["description"]),
        operations="\n".join(operations),
        schemas="\n".join(schemas),
    )


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    body = operation.get("requestBody", {}).get("content", {})
    answers = operation["responses"].items()
    rows = [f"<tr><td>{escape(code)}</td><td>{_answer(answer)}</td></tr>" for code, answer in answers]
    return "\n".join(
        [
            f"<section><h2><code>{method.upper()} {escape(path)}</code></h2>",
            f"<p>{escape(operation.get('description', ''))}</p>",
            *(_body(kind, content["schema"]) for kind, content in body.items()),
            f"<table><thead><tr><th>status</th><th>answer</th></tr></thead><tbody>{''.join(rows)}</tbody>",
            "</table></section>",
        ]
    )


def _body(kind: str, schema: dict[str, Any]) -> str:
    return f"<details><summary>Body as {escape(kind)}</summary>{_as_json(schema)}</details>"


def _answer(answer: dict[str, Any]) -> str:
    schemas = [content.get("schema", {}) for content in answer.get("content", {}).values()]
    names = [schema["$ref"].rpartition("/")[2] for schema in schemas if "$ref" in schema]
    links = "".join(f' <a href="#{escape(name)}">{escape(name)}</a>' for name in names)
    return escape(answer["description"]) + links


def _schema(name: str, schema: dict[str, Any]) -> str:
    about = f"<p>{escape(schema.get('description', ''))}</p>"
    return f'<section id="{escape(name)}"><h3>{escape(name)}</h3>{about}{_as_json(schema)}</section>'


def _as_json(schema: dict[str, Any]) -> str:
    return f"<pre>{escape(json.dumps(schema, indent=2))}</pre>"
