"""Service: from a request to the opinions of the models that it asks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send
from torch import Tensor

from nescio._kinds import InputKind
from nescio.data.preprocess import Preprocess
from nescio.inference.records import FIELDS, Record, answers_of
from nescio.serve._answers import (
    Answer,
    encode_records,
    encode_result,
    encode_results,
    require_answer,
)
from nescio.serve._batching import Batcher
from nescio.serve._bodies import BodyReader
from nescio.serve._errors import RequestError, too_busy, too_late
from nescio.serve._memory import release_memory
from nescio.serve._metrics import Metrics
from nescio.serve._models import ServedModel
from nescio.serve._one_input import OneInput
from nescio.serve._parsing import (
    ArrayInputs,
    FileInputs,
    RawInputs,
    SentFiles,
    parse_form,
    parse_json,
    parse_npy,
    parse_query,
    parse_raw,
)
from nescio.serve._preparing import Prepared, prepare, refuse_other_kinds, require_pixels
from nescio.serve.limits import Limits

MEDIA_TYPES = ("application/json", "multipart/form-data", "application/octet-stream", "application/x-npy")
_SMALL_BODY = 2**16  # bytes; a smaller body is parsed faster than handed to a thread
_PIECE = 2**16  # bytes of an answer that are handed to the server at a time
_RELEASE = 2**24  # bytes of bodies and large answers after which free memory is given back

Result = TypeVar("Result")
_encode_whole = partial(encode_records, wanted=FIELDS)


class Service:
    """The models, the limits, and the queue between requests and models."""

    def __init__(self, models: Mapping[str, ServedModel], limits: Limits, metrics: Metrics) -> None:
        self._limits = limits
        self.serve(models)
        self._metrics = metrics
        self._bodies = BodyReader(limits)
        self._batcher = Batcher(
            self._predict,
            batch_size=limits.batch_size,
            max_queue=limits.max_queue,
            on_change=metrics.set_waiting,
        )
        self._decoder = _new_decoder()
        self._num_decoding = 0
        self._reserved_values = 0
        self._unsent = 0  # bytes of large answers that clients have not taken
        self._num_freed = 0  # bytes of bodies and large answers since free memory was given back

    def serve(self, models: Mapping[str, ServedModel]) -> None:
        """Ask these from the next request on."""
        self._models = models
        self._one_input = OneInput(list(models.values()), self._limits)

    @property
    def is_full(self) -> bool:
        """Whether a request would be refused now: no room in the queue, before the decoder, or in memory."""
        return (
            self._batcher.is_full
            or self._num_decoding >= self._limits.max_decoding
            or self._reserved_values >= self._limits.max_values
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """POST /v1/opinions, as an ASGI application of its own: the one route that must be quick."""
        try:
            await self._send(await self._answer(scope, receive), send)
        finally:
            # Here body and answer are gone, also of a client that went before.
            if self._num_freed >= _RELEASE:
                self._num_freed = 0
                self._decoder.submit(release_memory)

    def begin_one(self, content_type: bytes, body: bytes, end: Callable[[bytes | Exception], None]) -> bool:
        """Ask all models for one small array; whether that is what the body is, and there is room for it.

        end: called in the event loop with the answer, or the error, later. Raises RequestError where the
        body can't be read, or too many wait.
        """
        one_input = self._one_input
        needed = one_input.num_values
        if not one_input.is_possible or self._reserved_values + needed > self._limits.max_values:
            return False
        values = one_input.values_of(content_type, body)
        if values is None:
            return False

        def on_end(error: Exception | None) -> None:
            self._reserved_values -= needed
            if error is not None:
                end(error)
                return
            try:
                answer = one_input.encode(waiting)
            except RequestError as refusal:
                end(refusal)
            else:
                end(answer)

        deadline = time.monotonic() + self._limits.answer_timeout
        waiting = self._batcher.enqueue(values, deadline, _encode_whole, on_end)
        self._reserved_values += needed
        return True

    async def _answer(self, scope: Scope, receive: Receive) -> bytes:
        """What each model that is asked says of each input, as JSON. Raises RequestError where it can't."""
        headers = dict(scope["headers"])
        content_length = headers.get(b"content-length", b"")
        announced = int(content_length) if content_length.isdigit() else 0
        body = await self._bodies.read(announced, receive)
        deadline = time.monotonic() + self._limits.answer_timeout
        try:
            query = parse_query(scope.get("query_string", b""))
            content_type = headers.get(b"content-type", b"").decode("latin-1")
            parsed = await self._parse(content_type, body, query.dtype, deadline)
            options = query.joined(parsed.options)
            models = self._select(options.models)
            if isinstance(parsed, RawInputs):
                parsed = parsed.shaped(_common_shape(models), self._limits)
            inputs: ArrayInputs | FileInputs = parsed
            names = inputs.names
            fields: tuple[str, ...] = FIELDS
            if options.fields is not None:
                fields = tuple(field for field in FIELDS if field in options.fields)
            reserved = self._reserve(len(names), models)
            try:
                prepared = await self._prepare(inputs, names, models, len(body), deadline)
                answers = await self._answers(prepared, len(names), fields, deadline, receive)
            finally:
                self._reserved_values -= reserved
        finally:
            self._bodies.release(body)
            self._num_freed += len(body)
        results = []
        for model, one in prepared.items():
            in_order = _in_order(model.name, names, one, answers.get(model, []), fields)
            results.append(encode_result(model.name, names, in_order, fields, one.notes))
        return encode_results(results)

    async def _send(self, answer: bytes, send: Send) -> None:
        """In pieces: the server waits with the next until the client has taken the last ones."""
        head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(answer))]
        if len(answer) <= _PIECE:
            await send({"type": "http.response.start", "status": 200, "headers": head})
            await send({"type": "http.response.body", "body": answer})
            return
        if self._unsent and self._unsent + len(answer) > self._limits.max_total_answer:
            raise RequestError(503, "too many large answers are being taken; try again", retry_after=1)
        self._unsent += len(answer)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": head})
            for start in range(0, len(answer), _PIECE):
                piece = answer[start : start + _PIECE]
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            self._unsent -= len(answer)
            self._num_freed += len(answer)

    async def close(self) -> None:
        """Finish what was accepted. An application may be started again."""
        await self._batcher.close()
        self._decoder.shutdown()
        self._decoder = _new_decoder()

    async def _parse(
        self, content_type: str, body: bytes, dtype: str | None, deadline: float
    ) -> ArrayInputs | FileInputs | RawInputs:
        media_type = content_type.partition(";")[0].strip().lower()
        if media_type not in MEDIA_TYPES:
            raise RequestError(415, f"send {', '.join(MEDIA_TYPES[:-1])} or {MEDIA_TYPES[-1]}")
        if not body:
            raise RequestError(400, "the body is empty")
        if media_type == "application/octet-stream":
            return parse_raw(body, dtype)
        if dtype is not None:
            raise RequestError(422, "dtype is for application/octet-stream alone")

        def parse() -> ArrayInputs | FileInputs | SentFiles:
            if media_type == "application/json":
                return parse_json(body, self._limits)
            if media_type == "application/x-npy":
                return parse_npy(body, self._limits)
            return parse_form(content_type, body, self._limits)

        parsed = parse() if len(body) <= _SMALL_BODY else await self._decode(parse, deadline)
        if not isinstance(parsed, SentFiles):
            return parsed
        files = parsed
        if files.are_pictures:
            return files.open(self._limits)
        return await self._decode(lambda: files.open(self._limits), deadline)

    def _select(self, names: Sequence[str] | None) -> list[ServedModel]:
        if names is None:
            return list(self._models.values())
        selected = {}
        for name in names:
            if name not in self._models:
                raise RequestError(404, f"there is no such model; there are: {', '.join(self._models)}")
            selected[name] = self._models[name]
        return list(selected.values())

    def _reserve(self, num_inputs: int, models: Sequence[ServedModel]) -> int:
        """Memory for a request, before anything is built: so many values. Alone it may take all there is."""
        per_input = sum(model.num_values for model in models)
        needed = num_inputs * per_input
        if needed > self._limits.max_values:
            most = self._limits.max_values // per_input
            raise RequestError(413, f"too many inputs for models of this size; at most {most:,} at once")
        if self._reserved_values + needed > self._limits.max_values:
            raise too_busy()
        self._reserved_values += needed
        return needed

    async def _prepare(
        self,
        inputs: ArrayInputs | FileInputs,
        names: Sequence[str],
        models: Sequence[ServedModel],
        body_size: int,
        deadline: float,
    ) -> dict[ServedModel, Prepared]:
        """The inputs as each model takes them. Models that take the same share one array."""
        by_kind: dict[str, Prepared] = {}
        by_model: dict[ServedModel, Prepared] = {}
        for model in models:
            preprocess = model.model.preprocess
            refuse_other_kinds(inputs, model.name, preprocess)
            kind = model.preparation
            if kind not in by_kind:
                by_kind[kind] = await self._prepare_for(inputs, preprocess, body_size, deadline)
            by_model[model] = by_kind[kind]
            if len(names) == 1:
                require_answer(model.name, names[0], by_kind[kind].errors.get(0))
        return by_model

    async def _prepare_for(
        self,
        inputs: ArrayInputs | FileInputs,
        preprocess: Preprocess,
        body_size: int,
        deadline: float,
    ) -> Prepared:
        if isinstance(inputs, ArrayInputs) and body_size <= _SMALL_BODY:
            return prepare(inputs, preprocess)

        def decode() -> Prepared:
            if isinstance(inputs, FileInputs):
                require_pixels(inputs, self._limits.max_pixels)
            return prepare(inputs, preprocess)

        return await self._decode(decode, deadline)

    async def _decode(self, work: Callable[[], Result], deadline: float) -> Result:
        """In the thread that decodes, unless too many wait for it already or the time is over."""
        if self._num_decoding >= self._limits.max_decoding:
            raise too_busy()

        def work_in_time() -> Result:
            if deadline < time.monotonic():
                raise too_late()
            return work()

        self._num_decoding += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._decoder, work_in_time)
        finally:
            self._num_decoding -= 1

    async def _answers(
        self,
        prepared: Mapping[ServedModel, Prepared],
        num_inputs: int,
        fields: Sequence[str],
        deadline: float,
        receive: Receive,
    ) -> dict[ServedModel, list[Answer]]:
        """By model, an answer for each input that could be prepared; a model without any is left out."""
        values = {model: one.values for model, one in prepared.items() if one.values is not None}
        if not values:
            return {}
        answers = self._batcher.submit(values, deadline, partial(encode_records, wanted=fields))
        if num_inputs <= self._limits.batch_size:
            return await answers  # computed sooner than it would be stopped
        return await _unless_disconnected(receive, answers)

    def _predict(self, model: ServedModel, inputs: Tensor) -> list[Record]:
        """In the batcher's thread."""
        answers = answers_of(model.model, inputs)
        accepted = [answer["accepted"] for answer in answers if answer["error"] is None]
        self._metrics.count_batch(model.name, accepted)
        return answers


def _in_order(
    model: str, names: Sequence[str], prepared: Prepared, answers: Sequence[Answer], fields: Sequence[str]
) -> Sequence[Answer]:
    """An answer for each input: the model's, or why it could not be asked."""
    if not prepared.errors:
        in_order = answers
    else:
        remaining = iter(answers)
        in_order = []
        for position in range(len(names)):
            error = prepared.errors.get(position)
            if error is None:
                in_order.append(next(remaining))
            else:
                in_order += encode_records([{"error": " ".join(str(error).split())}], fields)
    if len(names) == 1:
        require_answer(model, names[0], in_order[0].error)
    return in_order


def _common_shape(models: Sequence[ServedModel]) -> tuple[int, ...]:
    """Of the inputs that these models take, for an array that does not say its own."""
    shape = models[0].input_shape
    for model in models:
        if model.model.preprocess.kind == InputKind.TEXTS:
            raise RequestError(422, f"the model {model.name} takes texts, not numbers")
    for model in models:
        if model.input_shape != shape:
            raise RequestError(
                422, "the models take inputs of different shapes; name those of one with models="
            )
    return shape


async def _unless_disconnected(receive: Receive, work: Coroutine[Any, Any, Result]) -> Result:
    """The result, unless the client goes before: then the work is stopped."""
    answer = asyncio.ensure_future(work)
    disconnect = asyncio.ensure_future(receive())
    try:
        await asyncio.wait((answer, disconnect), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ClientDisconnect
        return answer.result()
    finally:
        answer.cancel()
        disconnect.cancel()


def _new_decoder() -> ThreadPoolExecutor:
    # One at a time: the memory that large bodies and pictures take has a bound.
    return ThreadPoolExecutor(1, "decode")
