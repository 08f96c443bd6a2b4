"""What the service says and takes, for its OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field

Share = Annotated[float, Field(ge=0, le=1.000001)]


class ModelDescription(BaseModel):
    """A model that is served."""

    name: str
    method: str
    about: str
    classes: list[str]
    input_shape: Annotated[list[int], Field(description="Channels, height, width; or the number of columns.")]
    evidential: Annotated[bool, Field(description="Whether it has belief, not probabilities alone.")]
    rule: Annotated[str | None, Field(description="When it does not answer, if a rule was set.")]
    threshold: Annotated[float, Field(description="The uncertainty from which on it does not answer.")]


class Models(BaseModel):
    """All models that are served."""

    models: list[ModelDescription]


class OpinionOut(BaseModel):
    """What a model says of one input."""

    label: Annotated[str | None, Field(description="The class, or null where the model does not know.")]
    answer: Annotated[str, Field(description='The class, or "I do not know".')]
    best: Annotated[str, Field(description="The most probable class, whatever the doubt.")]
    accepted: Annotated[bool, Field(description="Whether the model stands by its answer.")]
    probabilities: list[Share]
    belief: Annotated[list[Share] | None, Field(description="Null for a model without evidence.")]
    uncertainty: Share
    entropy: Annotated[Share, Field(description="Of the probabilities, as a part of the most there can be.")]
