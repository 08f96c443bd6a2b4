"""Batcher: requests that arrive together share a forward pass."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from evidentia.serve.refusals import Refusal

Compute = Callable[[str, Tensor], list[Any]]
Outcome = list[Any] | Exception
QUIET_TURNS = 3  # of the event loop, some microseconds each


@dataclass(frozen=True, eq=False)
class Job:
    """Inputs (N, ...) of one request for one model, until when, and where the answers are awaited."""

    inputs: Tensor
    deadline: float
    answers: asyncio.Future[list[Any]]


class Batcher:
    """Bounded queues, one for each model, before one thread that computes.

    While the thread works, requests gather; then all that wait for the same model go together, the oldest
    first. A lone request waits for company no longer than some turns of the event loop.
    compute: for the model of a name and inputs (N, ...), one answer for each; called in the thread.
    batch: inputs that go together; limit: inputs that may wait; seconds: how long one may wait.
    """

    def __init__(self, compute: Compute, *, batch: int, limit: int, seconds: float) -> None:
        self._compute, self._batch, self._limit, self._seconds = compute, batch, limit, seconds
        self._queues: dict[str, deque[Job]] = {}
        self._thread = ThreadPoolExecutor(1, "batch")
        self._work: asyncio.Task[None] | None = None
        self.waiting = 0

    @property
    def busy(self) -> bool:
        """Whether there is work under way."""
        return self._work is not None

    async def ask(self, inputs: Mapping[str, Tensor]) -> dict[str, list[Any]]:
        """For each model an answer for each of its inputs (N, ...).

        Refused where the queue is full or the time is over.
        """
        jobs = self._put(inputs)
        try:
            return {
                model: [answer for job in parts for answer in await job.answers]
                for model, parts in jobs.items()
            }
        finally:
            for parts in jobs.values():
                _forget(parts)

    def _put(self, inputs: Mapping[str, Tensor]) -> dict[str, list[Job]]:
        """Into the queues, in parts that fit a batch. An empty queue takes a request of any size."""
        size = sum(map(len, inputs.values()))
        if self.waiting and self.waiting + size > self._limit:
            raise Refusal(503, "too many requests are waiting; try again", retry_after=1)
        loop, deadline = asyncio.get_running_loop(), time.monotonic() + self._seconds
        jobs = {
            model: [Job(part, deadline, loop.create_future()) for part in self._parts(whole)]
            for model, whole in inputs.items()
        }
        for model, parts in jobs.items():
            self._queues.setdefault(model, deque()).extend(parts)
        self.waiting += size
        if self._work is None:
            self._work = loop.create_task(self._run())
        return jobs

    def _parts(self, whole: Tensor) -> Sequence[Tensor]:
        return (whole,) if len(whole) <= self._batch else torch.split(whole, self._batch)

    async def close(self) -> None:
        """Finish what waits, then end the thread; another question starts another."""
        if self._work is not None:
            await self._work
        self._thread.shutdown()
        self._thread = ThreadPoolExecutor(1, "batch")

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self.waiting:
            await self._gather()
            batches = {model: jobs for model in self._queues if (jobs := self._next(model))}
            for job, outcome in await loop.run_in_executor(self._thread, self._outcomes, batches):
                _settle(job, outcome)
        self._work = None

    async def _gather(self) -> None:
        """Let requests that are arriving now come in: until a few turns of the loop bring no more."""
        quiet = 0
        while quiet < QUIET_TURNS:
            before = self.waiting
            await asyncio.sleep(0)
            quiet = quiet + 1 if self.waiting == before else 0

    def _next(self, model: str) -> list[Job]:
        """The oldest jobs that fit a batch; those that nobody awaits any more are left out."""
        queue, jobs, size = self._queues[model], [], 0
        while queue and size + len(queue[0].inputs) <= self._batch:
            job = queue.popleft()
            self.waiting -= len(job.inputs)
            if job.answers.done():
                continue
            if job.deadline < time.monotonic():
                job.answers.set_exception(Refusal(503, "the answer took too long; try again", retry_after=1))
                continue
            jobs.append(job)
            size += len(job.inputs)
        return jobs

    def _outcomes(self, batches: Mapping[str, list[Job]]) -> list[tuple[Job, Outcome]]:
        return [one for model, jobs in batches.items() for one in self._outcomes_of(model, jobs)]

    def _outcomes_of(self, model: str, jobs: list[Job]) -> list[tuple[Job, Outcome]]:
        try:
            answers = iter(self._compute(model, torch.cat([job.inputs for job in jobs])))
        except Exception as error:  # noqa: BLE001 - it belongs to the one who asked, the queue goes on
            if len(jobs) == 1:
                return [(jobs[0], error)]
            # One input that a model can't take must not cost the others their answers.
            return [one for job in jobs for one in self._outcomes_of(model, [job])]
        return [(job, list(itertools.islice(answers, len(job.inputs)))) for job in jobs]


def _settle(job: Job, outcome: Outcome) -> None:
    if job.answers.done():
        return
    if isinstance(outcome, Exception):
        job.answers.set_exception(outcome)
    else:
        job.answers.set_result(outcome)


def _forget(jobs: list[Job]) -> None:
    """What nobody awaits any more is not computed, and its error is nobody's."""
    for job in jobs:
        if not job.answers.cancel() and not job.answers.cancelled():
            job.answers.exception()
