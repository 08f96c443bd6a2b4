"""The web application: opinions, models, health, metrics, documentation and the page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from pydantic_core import to_json
from starlette.staticfiles import StaticFiles
from torch import Tensor

from evidentia import __version__
from evidentia.serve.batching import Batcher
from evidentia.serve.limits import Bodies, Limits
from evidentia.serve.reading import Numbers, Pictures, Shape, read_form, read_json, require_pixels
from evidentia.serve.refusals import Refusal
from evidentia.serve.served import HERE, ServedModel

SMALL = 2**16  # bytes; a smaller body is read faster than handed to a thread


class Service:
    """The models and their queue: from a request to opinions."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits) -> None:
        self.models, self.limits = models, limits
        self.bodies = Bodies(limits)
        self.batcher = Batcher(
            lambda name, inputs: models[name].opinions(inputs),
            batch=limits.batch,
            limit=limits.waiting,
            seconds=limits.answering,
        )

    async def opinions(self, request: Request) -> dict[str, Any]:
        """What each model that is asked says of each input."""
        async with self.bodies.read(request) as body:
            asked = await self._read(request.headers.get("content-type", ""), body)
            chosen = self._chosen(asked.models)
            shapes = {model.model.input_shape for model in chosen}
            inputs = {shape: await self._shaped(asked, shape, len(body)) for shape in shapes}
        answers = await self.batcher.ask({model.name: inputs[model.model.input_shape] for model in chosen})
        return {"results": [{"model": name, "opinions": opinions} for name, opinions in answers.items()]}

    async def _read(self, content_type: str, body: bytes) -> Numbers | Pictures:
        kind = content_type.partition(";")[0].strip().lower()
        if not body:
            raise Refusal(400, "the body is empty")
        if kind == "application/json":
            if len(body) <= SMALL:
                return read_json(body, self.limits)
            return await asyncio.to_thread(read_json, body, self.limits)
        if kind == "multipart/form-data":
            return await read_form(content_type, body, self.limits)
        raise Refusal(415, "send application/json or multipart/form-data")

    def _chosen(self, names: tuple[str, ...] | None) -> list[ServedModel]:
        if names is None:
            return list(self.models.values())
        unknown = [name for name in names if name not in self.models]
        if unknown:
            raise Refusal(404, f"there is no such model; there are {', '.join(self.models)}")
        return [self.models[name] for name in dict.fromkeys(names)]

    async def _shaped(self, asked: Numbers | Pictures, shape: Shape, size: int) -> Tensor:
        if isinstance(asked, Numbers) and size <= SMALL:
            return asked.shaped(shape)
        return await asyncio.to_thread(self._shaped_slowly, asked, shape)

    def _shaped_slowly(self, asked: Numbers | Pictures, shape: Shape) -> Tensor:
        if isinstance(asked, Pictures):
            require_pixels(asked, self.limits)
        return asked.shaped(shape)


def create_app(models: Mapping[str, ServedModel], limits: Limits = Limits()) -> FastAPI:  # noqa: B008
    """The application for these models."""
    service = Service(models, limits)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.batcher.close()

    app = FastAPI(title="evidentia", version=__version__, lifespan=life, docs_url=None, redoc_url=None)

    @app.exception_handler(Refusal)
    async def refuse(_: Request, refusal: Refusal) -> Response:
        return refusal.response()

    @app.post("/v1/opinions")
    async def opinions(request: Request) -> Response:
        return Response(to_json(await service.opinions(request)), media_type="application/json")

    @app.get("/v1/models")
    async def list_models() -> dict[str, Any]:
        return {"models": [model.describe() for model in models.values()]}

    app.mount("/", StaticFiles(directory=HERE / "page", html=True, check_dir=False))
    return app
