"""The batches of an epoch: every sample once, shares that add up, and reads of nothing but the share."""

import pytest
import torch
from tests.training.small import blobs, squares, stored

from nescio.training import Samples, TrainingSettings
from nescio.training._batches import EpochBatches, ProcessPlace, split_evenly, watched_parts


def epoch_of(train, place=ProcessPlace(), **settings):  # noqa: B008
    chosen = TrainingSettings(**{"batch_size": 32, **settings}).resolved(len(train))
    return EpochBatches(train, chosen, torch.Generator().manual_seed(3), place)


def test_one_sample_left_over_joins_a_batch():
    assert [len(part) for part in split_evenly(torch.arange(9), 4)] == [4, 5]
    assert [len(part) for part in split_evenly(torch.arange(10), 4)] == [4, 4, 2]
    assert [len(part) for part in split_evenly(torch.arange(1), 4)] == [1]


def test_every_sample_comes_once():
    train = Samples(torch.arange(100.0).unsqueeze(1), torch.arange(100) % 2)
    batches = epoch_of(train)
    seen = torch.cat([share.samples.inputs for share in batches]).flatten()
    assert len(batches) == 4
    assert seen.sort().values.tolist() == list(range(100))
    assert seen.tolist() != sorted(seen.tolist())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"shift": 1, "flip": True},
        {"sampler": "balanced"},
        {"augment": "light"},
        {"augment": "strong", "flip": True},
    ],
)
def test_shares_of_processes_are_the_batch_of_one(settings):
    train = squares(97, weighted=True)
    whole = list(epoch_of(train, **settings))
    shares = [list(epoch_of(train, ProcessPlace(rank, 3), **settings)) for rank in range(3)]
    for number, batch in enumerate(whole):
        parts = [share[number] for share in shares]
        for rank, part in enumerate(parts):
            assert torch.equal(part.samples.inputs, batch.samples.inputs[rank::3])
            assert part.mix == batch.mix
        # The mean over processes of their scaled losses is the weighted mean of the batch.
        assert sum(part.scale for part in parts) / 3 == pytest.approx(batch.scale, rel=1e-5)


def test_a_process_without_samples_borrows_one_that_does_not_count():
    last = list(epoch_of(blobs(34), ProcessPlace(2, 3)))[-1]
    assert (len(last.samples), last.counts, last.scale) == (1, False, 0)


def test_the_batches_of_a_step_weigh_as_much_as_their_samples():
    train = blobs(100)
    batches = epoch_of(train, accumulate=2)
    assert [batches.is_end_of_step(number) for number in range(4)] == [False, True, False, True]
    assert [share.scale for share in batches] == pytest.approx([0.5, 0.5, 32 / 36, 4 / 36])


def test_stored_inputs_are_read_in_shares_and_give_the_same_batches():
    train = squares(97)
    from_disk, rows = stored(train)
    settings = {"shift": 1, "flip": True}
    expected = list(epoch_of(train, ProcessPlace(1, 2), **settings))
    found = list(epoch_of(from_disk, ProcessPlace(1, 2), **settings))
    for one, other in zip(expected, found, strict=True):
        assert torch.equal(one.samples.inputs, other.samples.inputs)
        assert torch.equal(one.samples.labels, other.samples.labels)
    assert max(rows.counts) == 16  # half a batch
    assert sum(rows.counts) == sum(len(share.samples) for share in expected)


@pytest.mark.parametrize(("size", "expected"), [(20, [64, 36]), (80, [16] * 6 + [4])])
def test_large_inputs_are_watched_in_batches_of_the_training(size, expected):
    samples = Samples(torch.zeros(100, 1, size, size, dtype=torch.uint8), torch.arange(100) % 2)
    settings = TrainingSettings(batch_size=16).resolved(100)
    parts = [len(part) for part in watched_parts(samples, settings, ProcessPlace())]
    assert parts == expected
