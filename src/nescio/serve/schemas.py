"""What the service takes and says, for its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from pydantic import BaseModel, Field

from nescio.data._user_data import LARGEST_NUMBER
from nescio.serve.limits import Limits
from nescio.serve.served import ServedModel

ROUNDING = 1e-5
Share = Annotated[float, Field(ge=0, le=1 + ROUNDING)]
REASONS = {
    400: "The body is empty or can't be read.",
    404: "There is no such model.",
    408: "The body took too long to arrive.",
    413: "Too large: the body, or the pictures once they are decoded.",
    415: "Neither JSON nor a form.",
    422: "The inputs do not fit the models, or are too many.",
    503: "Too busy; the header Retry-After says when to try again.",
}


class Model(BaseModel):
    """A model that is served."""

    name: str
    method: str
    about: str
    classes: list[str]
    input_shape: Annotated[list[int], Field(description="Channels, height, width; or the number of columns.")]
    evidential: Annotated[bool, Field(description="Whether it has belief, not probabilities alone.")]
    rule: Annotated[str | None, Field(description="When it does not answer, where a rule was set.")]
    threshold: Annotated[
        float | None,
        Field(
            description="The uncertainty from which on it does not answer; null where its rule is another."
        ),
    ]


class Models(BaseModel):
    """All models that are served."""

    models: list[Model]


class Opinion(BaseModel):
    """What a model says of one input."""

    label: Annotated[str | None, Field(description="The class, or null where the model does not know.")]
    answer: Annotated[str, Field(description='The class, or "I do not know".')]
    best: Annotated[str, Field(description="The most probable class, whatever the doubt.")]
    accepted: Annotated[bool, Field(description="Whether the model stands by its answer.")]
    probabilities: list[Share]
    belief: Annotated[list[Share] | None, Field(description="Null for a model without evidence.")]
    uncertainty: Share
    entropy: Annotated[Share, Field(description="Of the probabilities, as a part of the most there can be.")]


class ModelOpinions(BaseModel):
    """What one model says, input by input."""

    model: str
    opinions: list[Opinion]


class Opinions(BaseModel):
    """What each model that was asked says."""

    results: list[ModelOpinions]


class Error(BaseModel):
    """Why there is no answer, in one line."""

    error: str


class State(BaseModel):
    """Of the service."""

    status: str


def refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """These statuses with their reasons, for the document."""
    return {status: {"model": Error, "description": REASONS[status]} for status in statuses}


def opinions_body(models: Iterable[ServedModel], limits: Limits) -> dict[str, Any]:
    """The body of a question to these models."""
    models = list(models)
    names = {"type": "array", "minItems": 1, "items": {"type": "string", "enum": [m.name for m in models]}}
    kinds = [kind for shape in sorted({m.input_shape for m in models}) for kind in _array_kinds(shape)]
    count = {"minItems": 1, "maxItems": limits.inputs}
    numbers = {"type": "array", **count, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds}}
    files = {"type": "array", **count, "items": {"type": "string", "format": "binary"}}
    content = {"application/json": {"schema": _table("inputs", numbers, names)}}
    if any(len(model.input_shape) == 3 for model in models):
        # In a form a list without items is no field at all.
        named = {key: value for key, value in names.items() if key != "minItems"}
        content["multipart/form-data"] = {"schema": _table("files", files, named)}
    return {"required": True, "content": content}


def _table(name: str, content: dict[str, Any], names: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: content, "models": names | {"description": "Default: all."}},
        "required": [name],
        "additionalProperties": False,
    }


def _array_kinds(shape: tuple[int, ...]) -> list[dict[str, Any]]:
    """A model's input as JSON: with its channels, and without where there is one."""
    if len(shape) == 1:
        return [_array(shape, {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER})]
    pixel = {"type": "number", "minimum": 0, "maximum": 255}
    return [_array(sizes, pixel) for sizes in ((shape[1:], shape) if shape[0] == 1 else (shape,))]


def _array(sizes: tuple[int, ...], item: dict[str, Any]) -> dict[str, Any]:
    for size in reversed(sizes):
        item = {"type": "array", "minItems": size, "maxItems": size, "items": item}
    return item
