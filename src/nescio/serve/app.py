"""The web application: opinions, models, health, metrics, documentation and the page."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.routing import Route, Router
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from nescio.errors import InputError
from nescio.inference.model import TrainedModel
from nescio.serve._access import PAGE, Access, host_names
from nescio.serve._connection import STATE, Address, ConnectionSettings, Headers
from nescio.serve._docs import docs_page
from nescio.serve._errors import RequestError, too_busy, too_many_connections
from nescio.serve._logs import log_access
from nescio.serve._metrics import Metrics
from nescio.serve._middleware import HEADERS, ServiceMiddleware
from nescio.serve._models import ServedModel
from nescio.serve._openapi import openapi_document
from nescio.serve._service import Service
from nescio.serve._shortcut import PATH as OPINIONS
from nescio.serve._shortcut import Shortcut
from nescio.serve.limits import Limits


def create_app(
    models: Mapping[str, TrainedModel],
    limits: Limits | None = None,
    *,
    token: str | None = None,
    allowed_hosts: Collection[str] = (),
    root_path: str = "",
    access_log: bool = False,
) -> Router:
    """An ASGI application that serves these models, for uvicorn or any other server.

    `nescio serve` runs it with settings that suit it. It can also be mounted in an application of your own;
    then call its lifespan, or what it has accepted is not finished when the server ends.

    Args:
        models: the models by the names under which clients ask for them, one or more.
        limits: what is accepted at most; the usual limits where there are none.
        token: what clients must send, as `Authorization: Bearer TOKEN`, for all but health and
            the files of the page; None for nothing.
        allowed_hosts: the hosts under which it may be asked, without ports, for all but health; none for any.
        root_path: the path under which a proxy in front shows it, such as "/models".
        access_log: whether each request is logged, by the logger "nescio.serve.access".

    Returns:
        The application: `POST /v1/opinions`, `GET /v1/models`, health, metrics, `/docs` and the page at `/`.

    Raises:
        InputError: there is no model, one of them is not a TrainedModel under a name, or token, host or path
            are not as they must be.

    Example:
        >>> import torch, nescio
        >>> from nescio.serve import Limits, create_app
        >>> table = nescio.data.Table(torch.eye(2).repeat(8, 1), torch.arange(16) % 2, ("a", "b"), "eye")
        >>> model = nescio.TrainedModel.train(table, settings=nescio.TrainingSettings(epochs=1))
        >>> app = create_app({"eye": model}, Limits(max_inputs=100))
        >>> app.url_path_for("opinions")
        '/v1/opinions'
    """
    access = Access(token, host_names(allowed_hosts), root_path)
    return Application(models, limits or Limits(), access, access_log=access_log).router


class Application:
    """The application, and the way to give it other models while it serves."""

    def __init__(
        self,
        models: Mapping[str, TrainedModel],
        limits: Limits,
        access: Access,
        *,
        access_log: bool = False,
    ) -> None:
        self._limits = limits
        self._access = access
        self._metrics = Metrics()
        self._shown = self.prepare(models)
        self._service = Service(self._shown.models, limits, self._metrics)
        self.router = self._router(access_log)

    def prepare(self, models: Mapping[str, TrainedModel]) -> Shown:
        """All that is made of models before they can be served; in any thread. Raises InputError."""
        return Shown(_served(models), self._limits, self._access.root_path)

    def show(self, shown: Shown) -> None:
        """Serve these from now on; requests that are under way are answered by the models they began with."""
        self._shown = shown
        self._service.serve(shown.models)

    def _router(self, access_log: bool) -> Router:
        routes = [
            Route(OPINIONS, self._service, methods=["POST"], name="opinions"),
            Route("/v1/models", self._list_models),
            Route("/healthz", self._health),
            Route("/readyz", self._ready),
            Route("/metrics", self._show_metrics),
            Route("/openapi.json", self._openapi),
            Route("/docs", self._docs),
            Route("/", self._page),
        ]
        middleware = partial(
            ServiceMiddleware,
            metrics=self._metrics,
            known_paths=[route.path for route in routes],
            access=self._access,
            is_logged=access_log,
            direct={("POST", OPINIONS): self._service},
        )
        shortcut = Shortcut(self._service, self._access, self._metrics, access_log)
        connections = ConnectionSettings(
            self._limits,
            middleware(_refuse, direct={}),
            partial(self._refusal, is_logged=access_log),
            shortcut,
        )
        return Router(
            routes,
            # Not a mount at the root: it would take other methods of a path, which are 405, for missing
            # files. And not with html=True: that would send clients to whatever their Host header says.
            default=StaticFiles(directory=PAGE),
            redirect_slashes=False,  # it would send clients to whatever their Host header says
            middleware=[Middleware(middleware)],
            lifespan=partial(self._lifespan, connections),
        )

    async def _list_models(self, _: Request) -> Response:
        return JSONResponse({"models": self._shown.descriptions})

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _ready(self, _: Request) -> Response:
        if self._service.is_full:
            raise too_busy()
        return JSONResponse({"status": "ready"})

    async def _show_metrics(self, _: Request) -> Response:
        return Response(self._metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _openapi(self, _: Request) -> Response:
        return JSONResponse(self._shown.document)

    async def _docs(self, _: Request) -> Response:
        return HTMLResponse(docs_page(self._shown.document))

    async def _page(self, _: Request) -> Response:
        return FileResponse(PAGE / "index.html")

    @asynccontextmanager
    async def _lifespan(self, connections: ConnectionSettings, _: object) -> AsyncIterator[dict[str, Any]]:
        yield {STATE: connections}
        await self._service.close()

    def _refusal(
        self, error: RequestError, client: Address | None, *, is_logged: bool
    ) -> tuple[Headers, bytes]:
        """The headers and the body of what the server refuses before there is a request; it is counted."""
        self._metrics.count_request("other", error.status, 0.0)
        if is_logged:
            log_access({"client": client, "method": "-", "path": "-"}, error.status, 0.0)
        response = error.response()
        return [*response.raw_headers, *HEADERS], bytes(response.body)


class Shown:
    """Models as they are served: with their descriptions and the document about them."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits, root_path: str) -> None:
        self.models = models
        self.descriptions = [model.describe() for model in models.values()]
        self.document = openapi_document(models.values(), limits, root_path)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    raise too_many_connections()


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
