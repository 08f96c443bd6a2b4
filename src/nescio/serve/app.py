"""The web application: opinions, models, health, metrics, documentation and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from nescio import __version__
from nescio.serve import schemas
from nescio.serve.docs import docs_page
from nescio.serve.errors import UNFORESEEN, Refusal
from nescio.serve.limits import Limits
from nescio.serve.metrics import Metrics
from nescio.serve.middleware import Guard
from nescio.serve.served import HERE, ServedModel
from nescio.serve.service import Service

OPINIONS = "/v1/opinions"
ABOUT = "Opinions of classifiers that know when they do not know."


class Application:
    """FastAPI, and beside it the one path that must be quick.

    FastAPI takes longer over a request than a small network over an image. It still documents the path, and
    answers there when mounted under another application.
    """

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits) -> None:
        metrics = Metrics()
        self._service = Service(models, limits, metrics)
        self._fastapi = _fastapi(self._service, models, limits, metrics)
        self._guarded = Guard(self._route, metrics)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI wants it."""
        await self._guarded(scope, receive, send)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] == OPINIONS and scope["method"] == "POST":
            response = await self._service.answer(scope, receive)
            await response(scope, receive, send)
        else:
            await self._fastapi(scope, receive, send)


def create_app(models: Mapping[str, ServedModel], limits: Limits | None = None) -> Application:
    """The application for these models, by name."""
    return Application(models, limits or Limits())


def _fastapi(
    service: Service, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics
) -> FastAPI:
    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        await service.close()

    app = FastAPI(
        title="nescio",
        version=__version__,
        description=ABOUT,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # it would send clients to whatever their Host header says
        generate_unique_id_function=lambda route: route.name,
    )
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(HTTPException, _not_found)
    app.add_exception_handler(Exception, _failed)
    _add_opinions(app, service, models, limits)
    _add_health(app, service, metrics)
    _add_docs(app)
    # Not mounted: a mount at the root would take a path's other methods, which are 405, for missing files.
    app.router.default = StaticFiles(directory=HERE / "page", html=True, check_dir=False)
    return app


def _add_opinions(app: FastAPI, service: Service, models: Mapping[str, ServedModel], limits: Limits) -> None:
    described = {"models": [model.describe() for model in models.values()]}

    @app.post(
        OPINIONS,
        response_model=schemas.Opinions,
        responses=schemas.refusals(*schemas.REASONS),
        openapi_extra={"requestBody": schemas.opinions_body(models.values(), limits)},
    )
    async def opinions(request: Request) -> Response:
        """Ask models for their opinions of one or many inputs: pictures as files, or arrays of numbers."""
        return await service.answer(request.scope, request.receive)

    @app.get("/v1/models", response_model=schemas.Models)
    async def list_models() -> Response:
        """Say what is served."""
        return JSONResponse(described)


def _add_health(app: FastAPI, service: Service, metrics: Metrics) -> None:
    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", response_model=schemas.State)
    async def health() -> Response:
        """Say that the process lives."""
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", response_model=schemas.State, responses=schemas.refusals(503))
    async def ready() -> Response:
        """Say whether there is room in the queue."""
        if service.full:
            raise Refusal(503, "too many requests are waiting; try again", retry_after=1)
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", include_in_schema=False)
    async def counted() -> Response:
        return Response(metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _add_docs(app: FastAPI) -> None:
    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return HTMLResponse(docs_page(app.openapi()))

    @app.get("/docs.css", include_in_schema=False)
    async def docs_style() -> Response:
        return FileResponse(HERE / "docs.css")


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return error.response()


async def _failed(_: Request, __: Exception) -> Response:
    return Refusal(500, UNFORESEEN).response()


async def _not_found(_: Request, error: Exception) -> Response:
    """What the router refuses: an unknown path, another method than the path has."""
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": str(error.detail).lower()}, error.status_code, error.headers)
