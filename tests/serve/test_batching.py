import asyncio
import concurrent.futures
import heapq
import itertools
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from nescio.serve import _batching
from nescio.serve._batching import Batcher
from nescio.serve._errors import RequestError


class Recorder:
    """Computes the sum of each input; remembers the batches, and can be held."""

    def __init__(self):
        self.batches = []
        self.free = threading.Event()
        self.free.set()

    def __call__(self, model, inputs):
        assert self.free.wait(10)
        self.batches.append((model, len(inputs)))
        if model == "broken" and bool((inputs == 13).any()):
            raise ArithmeticError("no sum")
        return inputs.sum(1).tolist()


def batcher(compute, **changes):
    return Batcher(compute, **{"batch_size": 8, "max_queue": 100} | changes)


def soon(seconds=10.0):
    return time.monotonic() + seconds


def rows(*values):
    return np.array([[value, 1] for value in values], np.float32)


async def held(queue, compute):
    """A first question that the thread is busy with, so that the next ones gather."""
    compute.free.clear()
    first = asyncio.create_task(queue.submit({"a": rows(0)}, soon()))
    while queue.num_waiting or not queue.is_working:
        await asyncio.sleep(0.001)
    return first


def test_a_lone_question_is_answered_at_once():
    compute = Recorder()
    assert asyncio.run(batcher(compute).submit({"a": rows(1, 2), "b": rows(5)}, soon())) == {
        "a": [2, 3],
        "b": [6],
    }
    assert sorted(compute.batches) == [("a", 2), ("b", 1)]


def test_questions_that_gather_share_a_pass_and_get_their_own_answers():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        others = [
            asyncio.create_task(queue.submit({"a": rows(n, n + 1), "b": rows(n)}, soon()))
            for n in range(1, 4)
        ]
        await asyncio.sleep(0)
        assert queue.num_waiting == 9
        compute.free.set()
        answers = await asyncio.gather(first, *others)
        await queue.close()
        return compute.batches, answers

    batches, answers = asyncio.run(scenario())
    assert batches == [("a", 1), ("a", 6), ("b", 3)]
    assert answers == [{"a": [1]}, *({"a": [n + 1, n + 2], "b": [n + 1]} for n in range(1, 4))]


class Clock:
    """Time for the batcher and its clients, which passes while a batch is computed or all of them sleep."""

    def __init__(self):
        self.now = 0.0
        self._sleepers = []
        self._numbers = itertools.count()  # who sleeps until the same moment wakes up in turn

    async def sleep(self, seconds):
        if seconds == 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._numbers), woken))
        await woken

    async def run(self):
        while True:
            for _ in range(30):  # turns of the event loop, in which all goes on that can
                await asyncio.sleep(0)
            if self._sleepers:
                moment, _, woken = heapq.heappop(self._sleepers)
                self.now = max(self.now, moment)
                woken.set_result(None)


class AtOnce(concurrent.futures.Executor):
    """In place of the thread: what is to be computed is computed now."""

    def submit(self, function, *arguments):
        done = concurrent.futures.Future()
        done.set_result(function(*arguments))
        return done


class Timed(Recorder):
    """Computes for so many seconds of the clock, and knows when each batch was begun."""

    def __init__(self, clock, seconds):
        super().__init__()
        self.clock = clock
        self.seconds = seconds
        self.begun = []

    def __call__(self, model, inputs):
        self.begun.append(self.clock.now)
        self.clock.now += self.seconds
        return super().__call__(model, inputs)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(_batching, "time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr(_batching, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": clock.sleep}))
    monkeypatch.setattr(_batching, "_new_thread", AtOnce)
    return clock


async def timed(clock, scenario):
    passing = asyncio.create_task(clock.run())
    try:
        return await scenario
    finally:
        passing.cancel()


def test_clients_who_ask_again_at_once_are_waited_for(clock):
    """Whoever is quick must not start a batch alone while the others are about to ask."""
    compute = Timed(clock, seconds=0.05)

    async def client(queue, place):
        for _ in range(5):
            await queue.submit({"a": rows(place), "b": rows(place)}, deadline=1000.0)
            await clock.sleep(0.0005 * place)

    async def scenario():
        queue = batcher(compute)
        await asyncio.gather(*(client(queue, place) for place in range(8)))
        await queue.close()

    asyncio.run(timed(clock, scenario()))
    assert [size for model, size in compute.batches if model == "a"] == [8] * 5


def test_one_who_does_not_ask_again_is_not_waited_for_long(clock):
    """A quiet millisecond, not as long as the batch took."""
    compute = Timed(clock, seconds=0.4)

    async def scenario():
        queue = batcher(compute)
        await asyncio.gather(*(queue.submit({"a": rows(place)}, deadline=1000.0) for place in range(2)))
        asked = clock.now
        assert await queue.submit({"a": rows(2)}, deadline=1000.0) == {"a": [3]}
        await queue.close()
        return asked

    asked = asyncio.run(timed(clock, scenario()))
    assert compute.batches == [("a", 2), ("a", 1)]
    assert compute.begun[1] - asked == pytest.approx(_batching._QUIET_SECONDS)


def test_a_batch_has_a_size():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute, batch_size=8)
        first = await held(queue, compute)
        whole = asyncio.create_task(queue.submit({"a": rows(*range(20))}, soon()))
        await asyncio.sleep(0)
        compute.free.set()
        await first
        return compute.batches, await whole

    batches, answers = asyncio.run(scenario())
    assert batches == [("a", 1), ("a", 8), ("a", 8), ("a", 4)]
    assert answers == {"a": [n + 1 for n in range(20)]}


def test_a_full_queue_refuses_and_says_when_to_come_again():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute, max_queue=4)
        first = await held(queue, compute)
        second = asyncio.create_task(queue.submit({"a": rows(1, 2, 3)}, soon()))
        await asyncio.sleep(0)
        with pytest.raises(RequestError, match="waiting") as refused:
            await queue.submit({"a": rows(4), "b": rows(4)}, soon())
        compute.free.set()
        await first
        return refused.value, await second, await queue.submit({"b": rows(9)}, soon())

    refused, second, after = asyncio.run(scenario())
    assert (refused.status, refused.retry_after) == (503, 1)
    assert second == {"a": [2, 3, 4]}
    assert after == {"b": [10]}


def test_every_change_of_the_queue_is_counted():
    async def scenario():
        compute, counts = Recorder(), []
        queue = batcher(compute, on_change=counts.append)
        first = await held(queue, compute)
        others = [asyncio.create_task(queue.submit({"a": rows(1, 2)}, soon())) for _ in range(2)]
        await asyncio.sleep(0)
        compute.free.set()
        await asyncio.gather(first, *others)
        await queue.close()
        return counts

    assert asyncio.run(scenario()) == [1, 0, 2, 4, 0]


def test_an_empty_queue_takes_a_question_of_any_size():
    answers = asyncio.run(batcher(Recorder(), max_queue=4).submit({"a": rows(*range(10))}, soon()))
    assert answers == {"a": [n + 1 for n in range(10)]}


def test_what_waits_too_long_is_refused_and_not_computed():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        late = asyncio.create_task(queue.submit({"a": rows(1), "b": rows(1)}, soon(0.02)))
        await asyncio.sleep(0.05)
        compute.free.set()
        await first
        with pytest.raises(RequestError, match="too long") as refused:
            await late
        return refused.value.status, compute.batches

    assert asyncio.run(scenario()) == (503, [("a", 1)])


def test_what_nobody_awaits_any_more_is_not_computed():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        gone = asyncio.create_task(queue.submit({"a": rows(1)}, soon()))
        await asyncio.sleep(0)
        gone.cancel()
        stays = asyncio.create_task(queue.submit({"a": rows(2)}, soon()))
        await asyncio.sleep(0)
        compute.free.set()
        await first
        assert await stays == {"a": [3]}
        return compute.batches, queue.num_waiting

    assert asyncio.run(scenario()) == ([("a", 1), ("a", 1)], 0)


def test_an_error_belongs_to_the_one_who_asked_and_the_queue_goes_on():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        others = [asyncio.create_task(queue.submit({"broken": rows(n)}, soon())) for n in (1, 13, 2, 3)]
        await asyncio.sleep(0)
        compute.free.set()
        await first
        with pytest.raises(ArithmeticError, match="no sum"):
            await others[1]
        answers = (
            await others[0],
            await others[2],
            await others[3],
            await queue.submit({"a": rows(1)}, soon()),
        )
        return answers, compute.batches

    answers, batches = asyncio.run(scenario())
    assert answers == ({"broken": [2]}, {"broken": [3]}, {"broken": [4]}, {"a": [2]})
    assert [size for model, size in batches if model == "broken"] == [4, 2, 1, 1, 2]  # halved, not one by one


def test_too_little_memory_costs_one_request_and_not_the_service(monkeypatch):
    joined = np.concatenate

    def without_memory(arrays):
        monkeypatch.setattr(_batching.np, "concatenate", joined)
        raise MemoryError("no room")

    async def scenario():
        queue = batcher(Recorder())
        monkeypatch.setattr(_batching.np, "concatenate", without_memory)
        with pytest.raises(MemoryError, match="no room"):
            await queue.submit({"a": rows(1)}, soon())
        return await queue.submit({"a": rows(2)}, soon())

    assert asyncio.run(scenario()) == {"a": [3]}


def test_close_finishes_what_waits():
    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        second = asyncio.create_task(queue.submit({"a": rows(1)}, soon()))
        await asyncio.sleep(0)
        closing = asyncio.create_task(queue.close())
        compute.free.set()
        await closing
        return await first, await second

    assert asyncio.run(scenario()) == ({"a": [1]}, {"a": [2]})


def test_answers_are_finished_in_the_thread_a_batch_at_a_time():
    threads = []
    sizes = []

    def finish(answers):
        threads.append(threading.current_thread())
        sizes.append(len(answers))
        return [str(answer) for answer in answers]

    queue = batcher(Recorder())
    answers = asyncio.run(queue.submit({"a": rows(*range(20))}, soon(), finish))
    assert answers == {"a": [f"{value + 1:.1f}" for value in range(20)]}
    assert sizes == [8, 8, 4]
    assert threading.main_thread() not in threads


def test_answers_that_can_not_be_finished_cost_the_others_nothing():
    def fail(_):
        raise UnicodeError("no text")

    async def scenario():
        compute = Recorder()
        queue = batcher(compute)
        first = await held(queue, compute)
        bad = asyncio.create_task(queue.submit({"a": rows(1)}, soon(), fail))
        good = asyncio.create_task(queue.submit({"a": rows(2)}, soon()))
        await asyncio.sleep(0)
        compute.free.set()
        await first
        with pytest.raises(UnicodeError, match="no text"):
            await bad
        return await good

    assert asyncio.run(scenario()) == {"a": [3]}


def test_a_request_that_is_cancelled_in_the_turn_of_its_answer_leaves_the_queue_working():
    async def scenario():
        queue = batcher(Recorder())
        task = asyncio.create_task(queue.submit({"a": rows(1)}, soon()))
        await asyncio.sleep(0)
        (job,) = queue._queues["a"]
        task.cancel()
        job.waiting.end()  # before the task has had a turn
        with pytest.raises(asyncio.CancelledError):
            await task
        answers = await queue.submit({"a": rows(2)}, soon())
        await queue.close()
        return answers

    assert asyncio.run(scenario()) == {"a": [3]}


def test_an_error_at_the_end_of_a_request_costs_no_other_its_answer(caplog):
    def end(error):
        raise ArithmeticError("nobody can be told")

    async def scenario():
        queue = batcher(Recorder())
        queue.enqueue({"a": rows(1)}, soon(), list, end)
        answers = await queue.submit({"a": rows(2)}, soon())
        await queue.close()
        return answers

    assert asyncio.run(scenario()) == {"a": [3]}
    assert "nobody can be told" in caplog.text
