"""The OpenAPI document: what the service takes and what it answers, as plain JSON Schema."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from nescio import __version__
from nescio._kinds import InputKind
from nescio.data import ImagePreprocess, Preprocess, RowPreprocess, TableSchema
from nescio.data._columns import LARGEST_NUMBER
from nescio.inference.records import FIELDS
from nescio.serve._models import ServedModel
from nescio.serve.limits import Limits

Schema = dict[str, Any]

_ABOUT = "Opinions of classifiers that know when they do not know."
_ERRORS = {
    400: "The body is empty or can't be read.",
    404: "There is no such model.",
    408: "The body took too long to arrive.",
    413: "Too large: the body, or its files once they are read.",
    401: "The service has a token, and the request has not.",
    415: "Neither JSON, nor a form, nor an array.",
    421: "The service is not to be asked under this host.",
    431: "The headers are too large.",
    422: "The inputs are malformed or too many, or there is one that a model can't answer.",
    503: "Too busy; the header Retry-After says when to try again.",
}
_RAW = (
    "Inputs one after the other, each in the shape that the models take, in the order of C: bytes, or with "
    "dtype=float32 in the query floating-point numbers, little-endian."
)
_NPY = "A .npy file with inputs along its first axis, of whole or floating-point numbers."
_ROUNDING = 1e-5
_STRING: Schema = {"type": "string"}
_NUMBER_OR_TEXT: Schema = {"type": ["number", "string"]}
_SHARE: Schema = {"type": "number", "minimum": 0, "maximum": 1 + _ROUNDING}


def openapi_document(models: Collection[ServedModel], limits: Limits, root_path: str = "") -> Schema:
    """The document for a service of these models; root_path: where a proxy in front shows it."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "nescio", "version": __version__, "description": _ABOUT},
        "servers": [{"url": root_path or "/"}],
        "paths": {
            "/v1/opinions": {
                "post": {
                    "operationId": "opinions",
                    "description": "Ask models for their opinions of one or many inputs: files (pictures, "
                    ".npz, .npy, .csv), texts, rows or arrays of numbers. An array may be the body itself.",
                    "parameters": _parameters(models),
                    "requestBody": _request_body(models, limits),
                    "responses": _responses("Opinions", "What each model that was asked says.", *_ERRORS),
                }
            },
            "/v1/models": {
                "get": {
                    "operationId": "list_models",
                    "description": "Say what is served.",
                    "responses": _responses("Models", "The models."),
                }
            },
            "/healthz": {
                "get": {
                    "operationId": "health",
                    "description": "Say that the process lives.",
                    "responses": _responses("State", "It lives."),
                }
            },
            "/readyz": {
                "get": {
                    "operationId": "ready",
                    "description": "Say whether there is room in the queue.",
                    "responses": _responses("State", "There is room.", 503),
                }
            },
        },
        "components": {"schemas": _SCHEMAS},
    }


def _parameters(models: Collection[ServedModel]) -> list[Schema]:
    names = {"type": "string", "enum": [model.name for model in models]}
    return [
        _parameter("models", _list_of(names), "The models to ask, where the body does not name them."),
        _parameter(
            "fields",
            _list_of({"type": "string", "enum": list(FIELDS)}),
            "Those of an opinion that are wanted, where the body does not say; default: all.",
        ),
    ]


def _parameter(name: str, schema: Schema, description: str) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def _responses(schema: str, description: str, *errors: int) -> Schema:
    responses = {"200": _response(schema, description)}
    for status in errors:
        responses[str(status)] = _response("Error", _ERRORS[status])
    return responses


def _response(schema: str, description: str) -> Schema:
    return {"description": description, "content": {"application/json": {"schema": _reference(schema)}}}


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _request_body(models: Collection[ServedModel], limits: Limits) -> Schema:
    names = {"type": "string", "enum": [model.name for model in models]}
    count = {"minItems": 1, "maxItems": limits.max_inputs}
    lists: list[Schema] = []
    for model in models:
        for schema in _input_schemas(model.model.preprocess):
            # All of one sort: texts, rows by name or arrays of one shape.
            list_of_them = {"type": "array", **count, "items": schema}
            if list_of_them not in lists:
                lists.append(list_of_them)
    inputs = lists[0] if len(lists) == 1 else {"anyOf": lists}
    chosen = {"type": "array", "items": names, "description": "Default: all."}
    fields = {"type": "array", "minItems": 1, "items": {"type": "string", "enum": list(FIELDS)}}
    body = _body_schema("inputs", inputs, chosen | {"minItems": 1})
    body["properties"]["fields"] = fields | {"description": "Those of an opinion that are wanted."}
    content = {"application/json": {"schema": body}}
    if any(model.model.preprocess.kind != InputKind.TEXTS for model in models):
        binary = {"type": "string", "format": "binary"}
        content["application/octet-stream"] = {"schema": binary | {"description": _RAW}}
        content["application/x-npy"] = {"schema": binary | {"description": _NPY}}
    if any(len(model.input_shape) == 3 for model in models):
        files = {"type": "array", **count, "items": {"type": "string", "format": "binary"}}
        # In a form a list without items is no field at all: nothing can be said of its length.
        content["multipart/form-data"] = {"schema": _body_schema("files", files, chosen)}
    # The page asks for it before it sends a large file: the reason may be lost where a connection is closed.
    return {"required": True, "content": content, "x-max-bytes": limits.max_body}


def _body_schema(field: str, inputs: Schema, models: Schema) -> Schema:
    return {
        "type": "object",
        "properties": {field: inputs, "models": models},
        "required": [field],
        "additionalProperties": False,
    }


def _input_schemas(preprocess: Preprocess) -> list[Schema]:
    """A model's input as JSON: a text; a row by the names of its columns; or an array."""
    if preprocess.kind == InputKind.TEXTS:
        return [{"type": "string", "pattern": r"\S"}]
    if isinstance(preprocess, RowPreprocess):
        arrays = [] if preprocess.shifted_columns else _array_schemas(preprocess)
        return [_row_schema(preprocess.row_schema), *arrays]
    return _array_schemas(preprocess)


def _row_schema(schema: TableSchema) -> Schema:
    """Further columns are allowed, and ignored."""
    anything: Schema = {"type": ["string", "number", "boolean", "null"]}
    something: Schema = {"type": ["string", "number", "boolean"]}
    properties: dict[str, Schema] = {}
    for column in schema.columns:
        properties[column.name] = anything if column.takes_gaps else something
        if column.kind == "number":
            number = {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER}
            properties[column.name] = _or_null(number) if column.takes_gaps else number
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": anything,
    }


def _array_schemas(preprocess: Preprocess) -> list[Schema]:
    """With its channels, and without where there is one."""
    shape = preprocess.input_shape
    least, most = (-LARGEST_NUMBER, LARGEST_NUMBER)
    if isinstance(preprocess, ImagePreprocess) and preprocess.pixel_range is not None:
        least, most = preprocess.pixel_range
    number = {"type": "number", "minimum": least, "maximum": most}
    schemas = [_nested_array(shape, number)]
    if len(shape) == 3 and shape[0] == 1:
        schemas.append(_nested_array(shape[1:], number))
    return schemas


def _nested_array(sizes: tuple[int, ...], item: Schema) -> Schema:
    for size in reversed(sizes):
        item = {"type": "array", "minItems": size, "maxItems": size, "items": item}
    return item


def _list_of(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(description: str, required: tuple[str, ...] | None = None, **properties: Schema) -> Schema:
    """With these properties, all of them unless it is said which, and no others."""
    return {
        "type": "object",
        "description": description,
        "properties": properties,
        "required": list(properties) if required is None else list(required),
        "additionalProperties": False,
    }


_SCHEMAS: dict[str, Schema] = {
    "Model": _object(
        "A model that is served.",
        name=_STRING,
        kind={"type": "string", "enum": [kind.value for kind in InputKind]}
        | {"description": "Of its inputs."},
        method=_STRING,
        about=_STRING,
        encoder=_or_null(_STRING)
        | {"description": "What makes features of its inputs; null for a network that has no name."},
        trained_on=_or_null(_STRING) | {"description": "The name of the training data, where it is known."},
        classes=_list_of(_STRING),
        input_shape=_list_of({"type": "integer"})
        | {"description": "Channels, height, width; or how many features a row, how many tokens a text."},
        resize=_or_null(_STRING)
        | {"description": "How it resizes pictures: stretch, crop or pad; null for other kinds."},
        max_length=_or_null({"type": "integer"})
        | {"description": "How many tokens of a text it reads; null for other kinds."},
        columns=_or_null(_list_of(_reference("Column")))
        | {"description": "Of a table, those that it reads; null for other kinds."},
        evidential={"type": "boolean", "description": "Whether it has belief, not probabilities alone."},
        prior=_or_null({"type": "number"})
        | {
            "description": "Of each of the K classes: alpha = probabilities * K * prior / uncertainty. Null "
            "where it is not evidential."
        },
        posthoc=_or_null(_STRING) | {"description": "What was fitted after the training; null for nothing."},
        rule=_or_null(_STRING) | {"description": "When it does not answer, where a rule was set."},
        sets=_or_null(_STRING) | {"description": "What its sets of classes promise, where it has some."},
        threshold=_or_null({"type": "number"})
        | {
            "description": "The uncertainty from which on it does not answer; null where its rule is another."
        },
        runtime={"type": "string", "enum": ["torch", "onnx"]} | {"description": "What computes its network."},
    ),
    "Column": _object(
        "A column of a table that a model reads.",
        name=_STRING,
        kind={"type": "string", "enum": ["number", "category", "date"]},
        style=_or_null(_STRING) | {"description": "How numbers or dates are written; null for categories."},
        values=_or_null(_list_of(_STRING)) | {"description": "Of a category; null for other kinds."},
        usual=_or_null(_NUMBER_OR_TEXT) | {"description": "The mean of the training data; a category of it."},
        least=_or_null(_NUMBER_OR_TEXT)
        | {"description": "One standard deviation below the mean; null for categories."},
        most=_or_null(_NUMBER_OR_TEXT)
        | {"description": "One standard deviation above the mean; null for categories."},
        has_time={"type": "boolean", "description": "Whether the time of the day of a date matters."},
        may_be_empty={"type": "boolean", "description": "Whether the training data had gaps here."},
    ),
    "Models": _object("All models that are served.", models=_list_of(_reference("Model"))),
    "Opinion": _object(
        "What a model says of one input: all fields, or those that were asked for. With an error, all but "
        "the name is null, and the error is always there.",
        required=(),
        name=_STRING | {"description": "Of the file; of an array, its number from 1 on."},
        answer=_or_null(_STRING) | {"description": 'The class, or "I do not know".'},
        label=_or_null(_STRING) | {"description": "The class, or null where the model does not know."},
        best=_or_null(_STRING) | {"description": "The most probable class, whatever the doubt."},
        accepted=_or_null({"type": "boolean"}) | {"description": "Whether the model stands by its answer."},
        probability=_or_null(_SHARE) | {"description": "Of the most probable class."},
        probabilities=_or_null(_list_of(_SHARE)) | {"description": "In the order of the model's classes."},
        belief=_or_null(_list_of(_SHARE)) | {"description": "Null for a model without evidence."},
        uncertainty=_or_null(_SHARE),
        entropy=_or_null(_SHARE)
        | {"description": "Of the probabilities, as a part of the most there can be."},
        p_value=_or_null(_SHARE)
        | {
            "description": "How usual the input is: of inputs like the training data, at most a share a "
            "has a p-value of a or less. Null for a model without trust."
        },
        set=_or_null(_list_of(_STRING))
        | {
            "description": "The classes it may be of, the most probable first; null for a model without sets."
        },
        error=_or_null(_STRING) | {"description": "Why there is no answer, in one line."},
    ),
    "ModelOpinions": _object(
        "What one model says, input by input.",
        model=_STRING,
        opinions=_list_of(_reference("Opinion")),
        notes=_list_of(_reference("Note")),
    ),
    "Note": _object(
        "What is to be known of an opinion, such as that its text was longer than the model reads.",
        name=_STRING | {"description": "Of the input, as its opinion has it."},
        note=_STRING,
    ),
    "Opinions": _object(
        "What each model that was asked says.", results=_list_of(_reference("ModelOpinions"))
    ),
    "State": _object("Of the service.", status=_STRING),
    "Error": _object("Why there is no answer, in one line.", error=_STRING),
}
