"""Batcher: requests that arrive together share a forward pass."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nescio.serve._errors import too_busy, too_late

Values = NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.int64]
Predict = Callable[[Any, Tensor], list[Any]]
Finish = Callable[[list[Any]], list[Any]]
OnEnd = Callable[[Exception | None], None]
Model = TypeVar("Model")
_QUIET_TURNS = 3  # of the event loop, some microseconds each
_QUIET_SECONDS = 0.001  # as finely as the event loop measures
_MAX_GATHERING = 1.0  # times what the last batch took

_log = logging.getLogger(__name__)


class Waiting:
    """A request in the queues: until when it may wait, and what is called once it is over.

    finish: what is to be made of the answers to some of the inputs, one for each. on_end: called in the event
    loop, with the error where there is one; then the answers are there, or never will be.
    """

    __slots__ = ("deadline", "finish", "is_over", "jobs", "num_open", "on_end")

    def __init__(self, deadline: float, finish: Finish, on_end: OnEnd) -> None:
        self.deadline = deadline
        self.finish = finish
        self.on_end = on_end
        self.is_over = False
        self.jobs: dict[Any, list[_Job]] = {}
        self.num_open = 0

    @property
    def answers(self) -> dict[Any, list[Any]]:
        """By model, an answer for each of its inputs."""
        return {model: _joined_answers(jobs) for model, jobs in self.jobs.items()}

    def end(self, error: Exception | None = None) -> None:
        """Say so, unless nobody awaits it any more."""
        if self.is_over:
            return
        self.is_over = True
        try:
            self.on_end(error)
        except Exception:  # noqa: BLE001 - it belongs to the request, the queue goes on
            _log.exception("unforeseen error at the end of a request")


class _Job:
    """Inputs (N, ...) of a request for one model, as many as fit a batch, and then their answers."""

    __slots__ = ("answers", "inputs", "size", "waiting")

    def __init__(self, inputs: Values, waiting: Waiting) -> None:
        self.inputs = inputs
        self.size = len(inputs)
        self.waiting = waiting
        self.answers: list[Any] = []
        waiting.num_open += 1


class _Company(NamedTuple):
    """Inputs that may be there again soon, and until when that is worth waiting for."""

    num_inputs: int
    until: float


class Batcher:
    """Bounded queues, one for each model, before one thread that computes.

    While the thread works, requests gather; then all that wait for the same model go together, the oldest
    first. A lone request waits for company no longer than some turns of the event loop. Clients who were just
    answered mostly ask again at once: a batch that takes long is worth waiting for them a little.

    predict: for a model and inputs (N, ...), one answer for each; called in the thread.
    batch_size: inputs that go together. max_queue: inputs that may wait.
    on_change: called with the number of waiting inputs when it changes.
    """

    def __init__(
        self,
        predict: Predict,
        *,
        batch_size: int,
        max_queue: int,
        on_change: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._predict = predict
        self._batch_size = batch_size
        self._max_queue = max_queue
        self._on_change = on_change
        self._queues: dict[Any, deque[_Job]] = {}
        self._thread = _new_thread()
        self._task: asyncio.Task[None] | None = None
        self._company = _Company(0, until=0.0)
        self.num_waiting = 0

    @property
    def is_working(self) -> bool:
        return self._task is not None

    @property
    def is_full(self) -> bool:
        return self.num_waiting >= self._max_queue

    async def submit(
        self, inputs: Mapping[Model, Values], deadline: float, finish: Finish = list
    ) -> dict[Model, list[Any]]:
        """By model, an answer for each of its inputs (N, ...).

        finish: what is to be made of the answers to some of the inputs, one for each; called in the thread
        as soon as they are there, so that no more than a batch of them is held as they come.
        Raises RequestError where the queue is full or the deadline, by the monotonic clock, has passed.
        """
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def end(error: Exception | None) -> None:
            if done.done():  # cancelled, and the task has had no turn yet to say so
                return
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)

        waiting = self.enqueue(inputs, deadline, finish, end)
        try:
            await done
        finally:
            waiting.is_over = True  # what nobody awaits any more is not computed
        return waiting.answers

    async def close(self) -> None:
        """Finish what waits, then end the thread; another request starts another."""
        if self._task is not None:
            await self._task
        self._thread.shutdown()
        self._thread = _new_thread()

    def enqueue(
        self, inputs: Mapping[Model, Values], deadline: float, finish: Finish, on_end: OnEnd
    ) -> Waiting:
        """In parts that fit a batch. An empty queue takes a request of any size.

        As `submit`, for those who have something else to do than to wait.
        """
        size = sum(map(len, inputs.values()))
        if self.num_waiting and self.num_waiting + size > self._max_queue:
            raise too_busy()
        waiting = Waiting(deadline, finish, on_end)
        for model, values in inputs.items():
            jobs = [_Job(part, waiting) for part in self._split(values)]
            waiting.jobs[model] = jobs
            self._queues.setdefault(model, deque()).extend(jobs)
        self.num_waiting += size
        self._on_change(self.num_waiting)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._work())
        return waiting

    def _split(self, values: Values) -> list[Values]:
        size = self._batch_size
        if len(values) <= size:
            return [values]
        return [values[start : start + size] for start in range(0, len(values), size)]

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self.num_waiting:
            await self._gather()
            batches = {model: self._next_batch(model) for model in self._queues}
            # A model that nobody asks for any more, as another is served in its place, is not held.
            self._queues = {model: queue for model, queue in self._queues.items() if queue}
            self._on_change(self.num_waiting)
            start = time.monotonic()
            outcomes = await loop.run_in_executor(self._thread, self._compute, batches)
            end = time.monotonic()
            num_waiting = self.num_waiting
            for job, outcome in outcomes:
                _settle(job, outcome)
            num_answered = sum(job.size for job, _ in outcomes if job.waiting.is_over)
            self._company = _Company(num_waiting + num_answered, until=end + _MAX_GATHERING * (end - start))
        self._task = None

    async def _gather(self) -> None:
        """Let requests that are arriving now come in."""
        if time.monotonic() + _QUIET_SECONDS >= self._company.until:
            await self._gather_turns()
            return
        num_expected = min(self._company.num_inputs, self._batch_size * len(self._queues))
        while self.num_waiting < num_expected and time.monotonic() + _QUIET_SECONDS < self._company.until:
            before = self.num_waiting
            await asyncio.sleep(_QUIET_SECONDS)
            if self.num_waiting == before:
                return

    async def _gather_turns(self) -> None:
        """Until a few turns of the event loop bring no more."""
        quiet_turns = 0
        while quiet_turns < _QUIET_TURNS:
            before = self.num_waiting
            await asyncio.sleep(0)
            if self.num_waiting == before:
                quiet_turns += 1
            else:
                quiet_turns = 0

    def _next_batch(self, model: Any) -> list[_Job]:
        """The oldest jobs that fit a batch; those that nobody awaits any more are left out."""
        queue = self._queues[model]
        now = time.monotonic()
        jobs: list[_Job] = []
        size = 0
        while queue and size + queue[0].size <= self._batch_size:
            job = queue.popleft()
            self.num_waiting -= job.size
            if job.waiting.is_over:
                continue
            if job.waiting.deadline < now:
                job.waiting.end(too_late())
                continue
            jobs.append(job)
            size += job.size
        return jobs

    def _compute(self, batches: Mapping[Any, list[_Job]]) -> list[tuple[_Job, list[Any] | Exception]]:
        """In the thread: for each job its answers, or the error that it met."""
        outcomes = []
        for model, jobs in batches.items():
            if jobs:
                outcomes += self._compute_batch(model, jobs)
        return outcomes

    def _compute_batch(self, model: Any, jobs: list[_Job]) -> list[tuple[_Job, list[Any] | Exception]]:
        try:
            # Also of one: what came as bytes can't be written to, and torch wants what can.
            inputs = np.concatenate([job.inputs for job in jobs])
            answers = self._predict(model, torch.from_numpy(inputs))
        except Exception as error:  # noqa: BLE001 - it belongs to the request, the queue goes on
            if len(jobs) == 1:
                return [(jobs[0], error)]
            # One input that a model can't take must not cost the others their answers.
            half = len(jobs) // 2
            return self._compute_batch(model, jobs[:half]) + self._compute_batch(model, jobs[half:])
        outcomes: list[tuple[_Job, list[Any] | Exception]] = []
        start = 0
        for job in jobs:
            outcomes.append((job, _finished(job, answers[start : start + job.size])))
            start += job.size
        return outcomes


def _new_thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1, "batch")


def _finished(job: _Job, answers: list[Any]) -> list[Any] | Exception:
    try:
        return job.waiting.finish(answers)
    except Exception as error:  # noqa: BLE001 - it belongs to the request, the queue goes on
        return error


def _settle(job: _Job, outcome: list[Any] | Exception) -> None:
    waiting = job.waiting
    if isinstance(outcome, Exception):
        waiting.end(outcome)
        return
    job.answers = outcome
    waiting.num_open -= 1
    if waiting.num_open == 0:
        waiting.end()


def _joined_answers(jobs: list[_Job]) -> list[Any]:
    if len(jobs) == 1:
        return jobs[0].answers
    answers = []
    for job in jobs:
        answers += job.answers
    return answers
