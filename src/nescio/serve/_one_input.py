"""OneInput: the request that comes most, one small array for all models; what is known before it comes."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from nescio._kinds import InputKind
from nescio.inference.records import FIELDS
from nescio.serve._answers import Answer, encode_result, encode_results, require_answer
from nescio.serve._batching import Values, Waiting
from nescio.serve._models import ServedModel
from nescio.serve._parsing import NOTHING_SAID, ArrayInputs, parse_json
from nescio.serve._preparing import as_they_are
from nescio.serve.limits import Limits

_NAME = "1"
_MARK = b"\0"  # is in no JSON
_MOST_CLASSES = 500  # of all models together: the answer stays below the 64 KiB of a piece


class OneInput:
    """The models that are asked, and all of the answer but what they say.

    num_values: what a request takes in memory, see Limits.max_values. is_possible: whether one array suits
    all models, and their answer is small: a large one goes out in pieces, and is counted.
    """

    def __init__(self, models: Sequence[ServedModel], limits: Limits) -> None:
        self._limits = limits
        self._shape = models[0].input_shape
        self._size = math.prod(self._shape)  # bytes
        self._by_preparation = {model.preparation: model.model.preprocess for model in models}
        self._frames = [(model, *_frame(model)) for model in models]
        self.num_values = sum(model.num_values for model in models)
        takes_texts = any(model.model.preprocess.kind == InputKind.TEXTS for model in models)
        num_classes = sum(len(model.model.classes) for model in models)
        self.is_possible = (
            not takes_texts
            and num_classes <= _MOST_CLASSES
            and all(model.input_shape == self._shape for model in models)
        )

    def values_of(self, content_type: bytes, body: bytes) -> dict[ServedModel, Values] | None:
        """By model, what it takes of a body; None where that is anything but one plain input.

        Raises RequestError where it can't be read.
        """
        inputs: Values
        if content_type == b"application/octet-stream":
            if len(body) != self._size:
                return None
            inputs = np.frombuffer(body, np.uint8).reshape(1, *self._shape)
        elif content_type == b"application/json":
            parsed = parse_json(body, self._limits)
            if not isinstance(parsed, ArrayInputs) or parsed.options is not NOTHING_SAID:
                return None
            inputs = parsed.values
        else:
            return None
        if len(inputs) != 1:
            return None
        prepared = {}
        for preparation, preprocess in self._by_preparation.items():
            values = as_they_are(inputs, preprocess)
            if values is None:
                return None
            prepared[preparation] = values
        return {model: prepared[model.preparation] for model, _, _ in self._frames}

    def encode(self, waiting: Waiting) -> bytes:
        """The answer as `encode_result` has it. Raises RequestError where a model has none."""
        answers = waiting.answers
        results = []
        for model, before, behind in self._frames:
            answer: Answer = answers[model][0]
            require_answer(model.name, _NAME, answer.error)
            results.append(before + answer.fields + behind)
        return encode_results(results)


def _frame(model: ServedModel) -> tuple[bytes, bytes]:
    """What stands before and behind the fields of an opinion."""
    before, behind = encode_result(model.name, [_NAME], [Answer(_MARK, None)], FIELDS, {}).split(_MARK)
    return before, behind
