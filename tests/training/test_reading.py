"""Reading ahead: in order, by threads, and errors where they belong."""

import threading
import time

import pytest

from nescio.training._reading import read_ahead


@pytest.mark.parametrize("readers", [0, 1, 3])
def test_results_come_in_order(readers):
    def task(number):
        time.sleep(0.002 * (number % 3))
        return number

    tasks = (lambda number=number: task(number) for number in range(20))
    assert list(read_ahead(tasks, readers)) == list(range(20))


def test_the_next_is_read_while_one_is_used():
    started = [threading.Event() for _ in range(3)]
    tasks = [lambda number=number: started[number].set() or number for number in range(3)]
    for number, result in enumerate(read_ahead(tasks, 1)):
        assert result == number
        if number < 2:
            assert started[number + 1].wait(timeout=10)  # though nobody has asked for it yet


def test_an_error_is_raised_when_its_result_is_due():
    def fails():
        raise OSError("the disk is gone")

    results = read_ahead([lambda: 1, fails, lambda: 3], 2)
    assert next(results) == 1
    with pytest.raises(OSError, match="the disk is gone"):
        next(results)


def test_no_thread_is_left_when_it_is_given_up():
    results = read_ahead((lambda: 1 for _ in range(100)), 2)
    assert next(results) == 1
    results.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("nescio-reader")]
