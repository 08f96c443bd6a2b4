"""The web application: opinions, models, health, metrics, documentation and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router
from starlette.staticfiles import StaticFiles

from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.serve._docs import docs_page
from nescio.serve._errors import too_busy
from nescio.serve._metrics import Metrics
from nescio.serve._middleware import ServiceMiddleware
from nescio.serve._models import ServedModel
from nescio.serve._openapi import openapi_document
from nescio.serve._service import Service
from nescio.serve.limits import Limits

_PAGE = Path(__file__).parent / "page"


def create_app(models: Mapping[str, TrainedModel], limits: Limits | None = None) -> Router:
    """An ASGI application that serves these models, for uvicorn or any other server.

    `nescio serve` runs it with settings that suit it. It can also be mounted in an application of your own;
    then call its lifespan, or what it has accepted is not finished when the server ends.

    Args:
        models: the models by the names under which clients ask for them, one or more.
        limits: what is accepted at most; the usual limits where there are none.

    Returns:
        The application: `POST /v1/opinions`, `GET /v1/models`, health, metrics, `/docs` and the page at `/`.

    Raises:
        InputError: there is no model, or one of them is not a TrainedModel under a name.

    Example:
        >>> import torch, nescio
        >>> from nescio.serve import Limits, create_app
        >>> table = nescio.data.Table(torch.eye(2).repeat(8, 1), torch.arange(16) % 2, ("a", "b"), "eye")
        >>> model = nescio.TrainedModel.train(table, settings=nescio.TrainingSettings(epochs=1))
        >>> app = create_app({"eye": model}, Limits(max_inputs=100))
        >>> app.url_path_for("opinions")
        '/v1/opinions'
    """
    limits = limits or Limits()
    served = _served(models)
    metrics = Metrics()
    service = Service(served, limits, metrics)
    endpoints = _Endpoints(served, service, metrics, openapi_document(served.values(), limits))
    routes = [
        Route("/v1/opinions", service, methods=["POST"], name="opinions"),
        Route("/v1/models", endpoints.models),
        Route("/healthz", endpoints.health),
        Route("/readyz", endpoints.ready),
        Route("/metrics", endpoints.metrics),
        Route("/openapi.json", endpoints.openapi),
        Route("/docs", endpoints.docs),
    ]
    counted_paths = ["/", *(route.path for route in routes)]
    return Router(
        routes,
        # Not a mount at the root: it would take other methods of a path, which are 405, for missing files.
        default=StaticFiles(directory=_PAGE, html=True),
        redirect_slashes=False,  # it would send clients to whatever their Host header says
        middleware=[Middleware(ServiceMiddleware, metrics=metrics, known_paths=counted_paths)],
        lifespan=endpoints.lifespan,
    )


class _Endpoints:
    """What is answered beside opinions."""

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        service: Service,
        metrics: Metrics,
        document: dict[str, Any],
    ) -> None:
        self._descriptions = [model.describe() for model in models.values()]
        self._service = service
        self._metrics = metrics
        self._document = document

    async def models(self, _: Request) -> Response:
        return JSONResponse({"models": self._descriptions})

    async def health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(self, _: Request) -> Response:
        if self._service.is_full:
            raise too_busy()
        return JSONResponse({"status": "ready"})

    async def metrics(self, _: Request) -> Response:
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def openapi(self, _: Request) -> Response:
        return JSONResponse(self._document)

    async def docs(self, _: Request) -> Response:
        return HTMLResponse(docs_page(self._document))

    @asynccontextmanager
    async def lifespan(self, _: object) -> AsyncIterator[None]:
        yield
        await self._service.close()


def _served(models: Mapping[str, TrainedModel]) -> dict[str, ServedModel]:
    if not models:
        raise InputError("models must be one or more models by name, got none")
    served = {}
    for name, model in models.items():
        if not isinstance(name, str) or not name:
            raise InputError(f"models must be named by texts, got the name {name!r}")
        if not isinstance(model, TrainedModel):
            raise InputError(f"models must be of TrainedModel, got {type(model).__name__} for {name!r}")
        served[name] = ServedModel(name, model)
    return served
