"""The batches of an epoch: which samples, what is drawn for them, and what of it is this process's part.

Inputs that lie on the disk are read ahead, by threads, while the batch before is computed. Processes that
share a batch draw the same for all of it, and each reads and changes only its own samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from nescio.training._augment import Moves, apply_moves, draw_moves
from nescio.training._mixup import draw_share
from nescio.training._policies import NONE, Changes, apply_changes, draw_changes
from nescio.training._reading import read_ahead
from nescio.training._samples import Samples
from nescio.training._sampling import balanced_order
from nescio.training._totals import TINY
from nescio.training.settings import BALANCED, TrainingSettings

# Samples of larger inputs are watched by batches of the training's size, which fit into memory.
SMALL_INPUT = 4096
WATCHED_BATCHES = 4


class BatchShare(NamedTuple):
    """One process's samples of a batch, and whether they count: a process without any borrows one.

    scale: of its loss, so that the mean over the processes, summed over the batches of a step, is the loss
    of all samples of the step. mix: how much of each sample mixup keeps; 1 for all.
    """

    samples: Samples
    counts: bool
    scale: float
    mix: float = 1.0


class _Draws(NamedTuple):
    """What is drawn for a whole batch: moves, changes and how much mixup keeps."""

    moves: Moves | None
    changes: Changes | None
    mix: float


class ProcessPlace(NamedTuple):
    """Which of how many processes this is."""

    rank: int = 0
    world_size: int = 1

    def positions(self, count: int) -> Tensor:
        """Of so many samples, those of this process."""
        return torch.arange(self.rank, count, self.world_size)


class EpochBatches:
    """The batches of one epoch, each as this process's share.

    Args:
        train: What is learned from.
        settings: Resolved settings, which have a batch size.
        generator: What the order of the samples and their augmentation are drawn from.
        place: Which process this is.
    """

    def __init__(
        self,
        train: Samples,
        settings: TrainingSettings,
        generator: torch.Generator,
        place: ProcessPlace,
    ) -> None:
        assert settings.batch_size is not None
        self._train = train
        self._settings = settings
        self._generator = generator
        self._place = place
        if settings.sampler == BALANCED:
            order = balanced_order(train.labels, generator)
        else:
            order = torch.randperm(len(train), generator=generator)
        self._batches = split_evenly(order, settings.batch_size)

    def __len__(self) -> int:
        return len(self._batches)

    def is_end_of_step(self, number: int) -> bool:
        """Whether the weights are changed after the batch of this number."""
        return (number + 1) % self._settings.accumulate == 0 or number == len(self) - 1

    def __iter__(self) -> Iterator[BatchShare]:
        readers = self._train.readers
        if self._settings.augment != NONE:
            readers = max(readers, 1)  # to change images takes its time too
        return read_ahead(self._tasks(), readers)

    def _tasks(self) -> Iterator[Callable[[], BatchShare]]:
        """What reads each share; what is drawn for it is drawn already, in the order of the batches."""
        for number, index in enumerate(self._batches):
            yield partial(self._read, index, self._weight_of_step(number), self._draw(len(index)))

    def _draw(self, count: int) -> _Draws:
        settings = self._settings
        moves = None
        if settings.shift or settings.flip:
            moves = draw_moves(count, settings.shift, settings.flip, self._generator)
        changes = None
        if settings.augment != NONE:
            height, width = self._train.inputs.shape[2:]
            changes = draw_changes(count, settings.augment, width / height, self._generator)
        mix = 1.0
        if settings.mixup:
            mix = draw_share(settings.mixup, self._generator)
        return _Draws(moves, changes, mix)

    def _weight_of_step(self, number: int) -> float:
        """Of all samples that the step learns from to which the batch of this number belongs."""
        first = number - number % self._settings.accumulate
        batches = self._batches[first : first + self._settings.accumulate]
        return sum(self._train.weight_at(index) for index in batches)

    def _read(self, index: Tensor, weight_of_step: float, draws: _Draws) -> BatchShare:
        place = self._place.positions(len(index))
        counts = len(place) > 0
        if not counts:
            place = torch.zeros(1, dtype=torch.long)  # all processes must take part in every step
        samples = self._train.take(index[place])
        if draws.moves is not None:
            samples = replace(samples, inputs=apply_moves(samples.read(), draws.moves.take(place)))
        if draws.changes is not None:
            samples = replace(samples, inputs=apply_changes(samples.read(), draws.changes.take(place)))
        scale = counts * self._place.world_size * samples.total_weight / max(weight_of_step, TINY)
        return BatchShare(samples, counts, scale, draws.mix)


def watched_parts(samples: Samples, settings: TrainingSettings, place: ProcessPlace) -> Iterator[Samples]:
    """This process's part of held-out samples, in batches; where inputs are small, in larger ones."""
    assert settings.batch_size is not None
    size = settings.batch_size
    if samples.input_size <= SMALL_INPUT:
        size = size * WATCHED_BATCHES
    size = max(size // place.world_size, 1)
    return parts_in_order(samples, place.positions(len(samples)), size)


def parts_in_order(samples: Samples, positions: Tensor, size: int) -> Iterator[Samples]:
    """The samples at these positions, so many at a time; from the disk they are read ahead."""
    tasks = [partial(samples.take, index) for index in torch.split(positions, size) if len(index)]
    return read_ahead(tasks, samples.readers)


def split_evenly(order: Tensor, size: int) -> list[Tensor]:
    """Batches of this size; one sample left over joins the last of them, as some layers need two."""
    batches = list(torch.split(order, size))
    if len(batches) > 1 and len(batches[-1]) == 1:
        batches[-2:] = [torch.cat(batches[-2:])]
    return batches
