"""Limits: what the service accepts at most."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from nescio.errors import InputError

MEBIBYTE = 2**20
# What a class of an answer counts among values: a pixel is a byte, a number of an answer an object and text.
VALUES_PER_CLASS = 16


@dataclass(frozen=True)
class Limits:
    """What the service accepts at most. All numbers are positive; sizes are whole, times are seconds.

    Args:
        max_body: bytes of one request's body.
        max_total_body: bytes of the bodies of all requests under way; at least `max_body`.
        max_total_answer: bytes of all large answers (above 64 KiB) that clients have not taken yet. One alone
            may be larger.
        max_inputs: inputs in one request.
        max_pixels: pixels of all pictures of one request, as they come, before they are scaled.
        max_values: numbers that the inputs of a request become in memory, for each model that is asked, and
            16 for each class of an answer. All requests under way together have the same limit.
        max_decoding: requests that wait for their pictures, or a large JSON body, to be decoded.
        max_queue: inputs in the queue before the models.
        batch_size: inputs that share a forward pass.
        read_timeout: seconds within which a body must arrive.
        answer_timeout: seconds within which a request must be computed, from the time its body is there.
        write_timeout: seconds within which a client must take an answer.
        max_connections: open connections of one process.

    Raises:
        InputError: a limit is not a positive number of its kind, or `max_body` is more than `max_total_body`.

    Example:
        >>> from nescio.serve import Limits
        >>> Limits(max_inputs=100).max_inputs
        100
        >>> Limits(batch_size=0)
        Traceback (most recent call last):
        ...
        nescio.errors.InputError: batch_size must be a whole number from 1 on, got 0
    """

    max_body: int = 32 * MEBIBYTE
    max_total_body: int = 256 * MEBIBYTE
    max_total_answer: int = 256 * MEBIBYTE
    max_inputs: int = 10_000
    max_pixels: int = 64_000_000
    max_values: int = 64_000_000
    max_decoding: int = 64
    max_queue: int = 20_000
    batch_size: int = 256
    read_timeout: float = 20.0
    answer_timeout: float = 20.0
    write_timeout: float = 20.0
    max_connections: int = 1000

    def __post_init__(self) -> None:
        # Not above: the command line's help and a starting worker need this class, and not torch.
        from nescio._checks import require_whole

        for field in fields(self):
            value = getattr(self, field.name)
            if field.name.endswith("_timeout"):
                _require_seconds(field.name, value)
            else:
                require_whole(field.name, value)
        if self.max_body > self.max_total_body:
            raise InputError(
                f"max_body must be at most max_total_body, {self.max_total_body}, got {self.max_body}: "
                "such a body would never be accepted"
            )


def _require_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise InputError(f"{name} must be a positive number of seconds, got {value!r}")
