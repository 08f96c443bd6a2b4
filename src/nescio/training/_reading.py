"""Reading ahead: while a batch is computed, threads get the next ones ready."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def read_ahead(tasks: Iterable[Callable[[], Result]], readers: int) -> Iterator[Result]:
    """What the tasks give, in their order; so many are done ahead, each in a thread of its own.

    The tasks themselves are taken one after the other by the thread that asks for results: what is drawn at
    random while they are made is drawn in order. An error of a task is raised when its result is due. With 0
    readers each is done when its result is asked for.
    """
    if readers == 0:
        for task in tasks:
            yield task()
        return
    waiting: deque[Future[Result]] = deque()
    with ThreadPoolExecutor(readers, thread_name_prefix="nescio-reader") as executor:
        try:
            for task in tasks:
                waiting.append(executor.submit(task))
                if len(waiting) > readers:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
