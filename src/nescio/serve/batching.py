"""Batcher: requests that arrive together share a forward pass."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nescio.serve.errors import Refusal
from nescio.serve.reading import Values

Compute = Callable[[str, Tensor], list[Any]]
Outcome = list[Any] | Exception
QUIET_TURNS = 3  # of the event loop, some microseconds each


class Question:
    """One request: until when it may wait, how many of its jobs are open, and where their end is awaited."""

    __slots__ = ("deadline", "done", "open")

    def __init__(self, deadline: float, done: asyncio.Future[None]) -> None:
        self.deadline, self.done, self.open = deadline, done, 0


class Job:
    """Inputs (N, ...) of a question for one model, as many as fit a batch, and then the answers."""

    __slots__ = ("answers", "inputs", "question", "size")

    def __init__(self, inputs: Values, question: Question) -> None:
        self.inputs, self.size, self.question = inputs, len(inputs), question
        self.answers: list[Any] = []
        question.open += 1


class Batcher:
    """Bounded queues, one for each model, before one thread that computes.

    While the thread works, requests gather; then all that wait for the same model go together, the oldest
    first. A lone request waits for company no longer than some turns of the event loop.
    compute: for the model of a name and inputs (N, ...), one answer for each; called in the thread.
    batch: inputs that go together; limit: inputs that may wait; watch: told how many do when that changes.
    """

    def __init__(
        self,
        compute: Compute,
        *,
        batch: int,
        limit: int,
        watch: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._compute, self._batch, self._limit, self._watch = compute, batch, limit, watch
        self._queues: dict[str, deque[Job]] = {}
        self._thread = ThreadPoolExecutor(1, "batch")
        self._work: asyncio.Task[None] | None = None
        self.waiting = 0

    @property
    def busy(self) -> bool:
        """Whether there is work under way."""
        return self._work is not None

    @property
    def full(self) -> bool:
        """Whether there is no room for even one more."""
        return self.waiting >= self._limit

    async def ask(self, inputs: Mapping[str, Values], deadline: float) -> dict[str, list[Any]]:
        """For each model an answer for each of its inputs (N, ...).

        Refused where the queue is full or the time, by the monotonic clock, is over.
        """
        question, jobs = self._put(inputs, deadline)
        try:
            await question.done
        finally:
            _forget(question)
        return {model: _together(parts) for model, parts in jobs.items()}

    def _put(self, inputs: Mapping[str, Values], deadline: float) -> tuple[Question, dict[str, list[Job]]]:
        """Into the queues, in parts that fit a batch. An empty queue takes a request of any size."""
        size = sum(map(len, inputs.values()))
        if self.waiting and self.waiting + size > self._limit:
            raise busy()
        loop = asyncio.get_running_loop()
        question = Question(deadline, loop.create_future())
        jobs = {
            model: [Job(part, question) for part in self._parts(whole)] for model, whole in inputs.items()
        }
        for model, parts in jobs.items():
            self._queues.setdefault(model, deque()).extend(parts)
        self.waiting += size
        self._watch(self.waiting)
        if self._work is None:
            self._work = loop.create_task(self._run())
        return question, jobs

    def _parts(self, whole: Values) -> Sequence[Values]:
        size = self._batch
        return (
            (whole,) if len(whole) <= size else [whole[at : at + size] for at in range(0, len(whole), size)]
        )

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
            self._watch(self.waiting)
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
        queue, jobs, size, now = self._queues[model], [], 0, time.monotonic()
        while queue and size + queue[0].size <= self._batch:
            job = queue.popleft()
            self.waiting -= job.size
            if job.question.done.done():
                continue
            if job.question.deadline < now:
                job.question.done.set_exception(late())
                continue
            jobs.append(job)
            size += job.size
        return jobs

    def _outcomes(self, batches: Mapping[str, list[Job]]) -> list[tuple[Job, Outcome]]:
        return [one for model, jobs in batches.items() for one in self._outcomes_of(model, jobs)]

    def _outcomes_of(self, model: str, jobs: list[Job]) -> list[tuple[Job, Outcome]]:
        inputs = jobs[0].inputs if len(jobs) == 1 else np.concatenate([job.inputs for job in jobs])
        try:
            answers = iter(self._compute(model, torch.from_numpy(inputs)))
        except Exception as error:  # noqa: BLE001 - it belongs to the one who asked, the queue goes on
            if len(jobs) == 1:
                return [(jobs[0], error)]
            # One input that a model can't take must not cost the others their answers.
            half = len(jobs) // 2
            return self._outcomes_of(model, jobs[:half]) + self._outcomes_of(model, jobs[half:])
        return [(job, list(itertools.islice(answers, job.size))) for job in jobs]


def busy() -> Refusal:
    """For a request that there is no room for now."""
    return Refusal(503, "too many requests are waiting; try again", retry_after=1)


def late() -> Refusal:
    """For a request whose time is over."""
    return Refusal(503, "the answer took too long; try again", retry_after=1)


def _settle(job: Job, outcome: Outcome) -> None:
    question = job.question
    if question.done.done():
        return
    if isinstance(outcome, Exception):
        question.done.set_exception(outcome)
        return
    job.answers = outcome
    question.open -= 1
    if not question.open:
        question.done.set_result(None)


def _forget(question: Question) -> None:
    """What nobody awaits any more is not computed, and its error is nobody's."""
    if not question.done.cancel() and not question.done.cancelled():
        question.done.exception()


def _together(jobs: list[Job]) -> list[Any]:
    return jobs[0].answers if len(jobs) == 1 else [answer for job in jobs for answer in job.answers]
