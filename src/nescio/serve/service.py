"""Service: from a request to the opinions of the models that it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pydantic_core import to_json
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope
from torch import Tensor

from nescio.errors import NescioError
from nescio.serve.batching import Batcher, busy, late
from nescio.serve.errors import Refusal
from nescio.serve.limits import Bodies, Limits
from nescio.serve.metrics import Metrics
from nescio.serve.reading import (
    Numbers,
    Pictures,
    Shape,
    Values,
    read_form,
    read_json,
    require_pixels,
)
from nescio.serve.served import ServedModel

SMALL = 2**16  # bytes; a smaller body is read faster than handed to a thread

Result = TypeVar("Result")


class Service:
    """The models, the limits, the queue."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics) -> None:
        self._models, self._limits, self._metrics = models, limits, metrics
        self._bodies = Bodies(limits)
        self._batcher = Batcher(
            self._compute,
            batch=limits.batch,
            limit=limits.waiting,
            watch=metrics.waiting,
        )
        self._reader = _reader()
        self._reading = self._taken = 0

    @property
    def full(self) -> bool:
        """Whether a request would be refused now: no room in the queue, before the reader, or in memory."""
        limits = self._limits
        return self._batcher.full or self._reading >= limits.readers or self._taken >= limits.values

    async def answer(self, scope: Scope, receive: Receive) -> Response:
        """What each model that is asked says of each input, or why it can't."""
        try:
            headers = dict(scope["headers"])
            return Response(to_json(await self._opinions(headers, receive)), media_type="application/json")
        except Refusal as refusal:
            return refusal.response()

    async def _opinions(self, headers: dict[bytes, bytes], receive: Receive) -> dict[str, Any]:
        announced = headers.get(b"content-length", b"")
        body = await self._bodies.read(int(announced) if announced.isdigit() else 0, receive)
        deadline, weight = time.monotonic() + self._limits.answering, 0
        try:
            asked = await self._read(headers.get(b"content-type", b"").decode("latin-1"), body, deadline)
            chosen = self._chosen(asked.models)
            weight = self._take_room(asked.count, chosen)
            shapes = dict.fromkeys(model.input_shape for model in chosen)
            inputs = {shape: await self._shaped(asked, shape, len(body), deadline) for shape in shapes}
            answering = self._batcher.ask(
                {model.name: inputs[model.input_shape] for model in chosen}, deadline
            )
            # A small request is computed sooner than it would be stopped.
            small = asked.count <= self._limits.batch
            answers = await (answering if small else _while_there(receive, answering))
        finally:
            self._taken -= weight
            self._bodies.give_back(body)
        return {"results": [{"model": name, "opinions": opinions} for name, opinions in answers.items()]}

    def _take_room(self, count: int, models: list[ServedModel]) -> int:
        """What a request takes of the memory, before anything is built. Alone it may take all there is."""
        each = sum(model.weight for model in models)
        if count * each > self._limits.values:
            most = self._limits.values // each
            raise Refusal(413, f"too many inputs for models of this size; at most {most:,} at once")
        if self._taken + count * each > self._limits.values:
            raise busy()
        self._taken += count * each
        return count * each

    async def close(self) -> None:
        """Finish what was accepted. An application may be started again."""
        await self._batcher.close()
        self._reader.shutdown()
        self._reader = _reader()

    def _compute(self, name: str, inputs: Tensor) -> list[dict[str, Any]]:
        try:
            opinions = self._models[name].opinions(inputs)
        except NescioError as error:
            raise Refusal(422, f"the model {name} can't take the inputs: {error}") from error
        self._metrics.batch(name, [opinion["accepted"] for opinion in opinions])
        return opinions

    async def _read(self, content_type: str, body: bytes, deadline: float) -> Numbers | Pictures:
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in ("application/json", "multipart/form-data"):
            raise Refusal(415, "send application/json or multipart/form-data")
        if not body:
            raise Refusal(400, "the body is empty")
        if kind == "multipart/form-data":
            return await read_form(content_type, body, self._limits)
        if len(body) <= SMALL:
            return read_json(body, self._limits)
        return await self._aside(lambda: read_json(body, self._limits), deadline)

    def _chosen(self, names: tuple[str, ...] | None) -> list[ServedModel]:
        if names is None:
            return list(self._models.values())
        if any(name not in self._models for name in names):
            raise Refusal(404, f"there is no such model; there are: {', '.join(self._models)}")
        return [self._models[name] for name in dict.fromkeys(names)]

    async def _shaped(self, asked: Numbers | Pictures, shape: Shape, size: int, deadline: float) -> Values:
        if isinstance(asked, Pictures):
            return await self._aside(lambda: _decoded(asked, shape, self._limits), deadline)
        if size <= SMALL:
            return asked.shaped(shape)
        return await self._aside(lambda: asked.shaped(shape), deadline)

    async def _aside(self, work: Callable[[], Result], deadline: float) -> Result:
        """In the thread that reads, unless too many wait for it already or the time is over."""
        if self._reading >= self._limits.readers:
            raise busy()

        def in_time() -> Result:
            if deadline < time.monotonic():
                raise late()
            return work()

        self._reading += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, in_time)
        finally:
            self._reading -= 1


async def _while_there(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result, unless the client goes before: then the work is stopped."""
    answer, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        gone.cancel()


def _reader() -> ThreadPoolExecutor:
    # One at a time: the memory that large bodies and pictures take has a bound.
    return ThreadPoolExecutor(1, "read")


def _decoded(pictures: Pictures, shape: Shape, limits: Limits) -> Values:
    require_pixels(pictures, limits)
    return pictures.shaped(shape)
