"""Training data are known again by short digests."""

import numpy as np
import pytest
import torch

from nescio.data import StoredArray, Table, load
from nescio.errors import InputError
from nescio.inference._seen import MOST_SAMPLES, SeenSamples, _digests_of
from nescio.inference.model import TrainedModel
from nescio.training import TrainingSettings


def rows(count, seed=0, values=None):
    """Rows of four numbers; values: how many different ones there are of each number."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(count, 4, generator=generator)
    return drawn if values is None else (drawn * values / 4).round().clamp(-values / 2, values / 2)


def test_training_data_are_seen_and_others_are_not():
    seen = SeenSamples.of(rows(500))
    assert seen.share_of(rows(500)) == 1
    assert seen.are_seen(rows(500)[:5])
    assert seen.share_of(rows(500, seed=1)) == 0
    assert not seen.are_seen(rows(500, seed=1))
    mixed = torch.cat([rows(500)[:150], rows(350, seed=1)])
    assert seen.share_of(mixed) == pytest.approx(0.3, abs=0.01)
    assert seen.are_seen(mixed)


def test_a_few_are_said_and_not_refused():
    seen = SeenSamples.of(rows(2000))
    few = torch.cat([rows(2000)[:20], rows(980, seed=1)])
    assert seen.share_of(few) == pytest.approx(0.02, abs=0.005)
    assert not seen.are_seen(few)


@pytest.mark.parametrize("with_new", [True, False])
def test_data_with_many_equal_rows_are_not_taken_for_training_data(with_new):
    train = rows(2000, values=4)
    new = rows(500, seed=1, values=4)
    seen = SeenSamples.of(train, new if with_new else None)
    assert seen.chance > 0.3
    for seed in range(2, 12):
        other = rows(400, seed=seed, values=4)
        assert seen.share_of(other) == 0
        assert not seen.are_seen(other)


def test_held_out_data_that_were_trained_on_do_not_hide_it():
    train = rows(500)
    assert SeenSamples.of(train, train).are_seen(train)
    assert SeenSamples.of(train, torch.cat([train[:50], rows(50, seed=1)])).are_seen(train[:100])


def test_training_data_are_seen_among_some_equal_rows():
    train = rows(2000, values=16)
    seen = SeenSamples.of(train)
    assert 0.01 < seen.chance < 0.7
    assert seen.are_seen(train)
    assert seen.share_of(train) == pytest.approx(1)


def test_where_all_samples_are_equal_nothing_can_be_told():
    seen = SeenSamples.of(torch.ones(100, 3))
    assert seen.chance == 1
    assert not seen.are_seen(torch.ones(50, 3))
    assert seen.share_of(torch.ones(50, 3)) == 0


@pytest.mark.parametrize("with_new", [True, False])
def test_of_many_samples_some_are_kept_and_tell_enough(with_new):
    train = rows(3 * MOST_SAMPLES)
    seen = SeenSamples.of(train, rows(300, seed=1) if with_new else None)
    assert len(seen.digests) <= MOST_SAMPLES
    assert seen.share == pytest.approx(1 / 3)
    assert seen.share_of(train[:3000]) == pytest.approx(1, abs=0.1)
    assert seen.share_of(train) == pytest.approx(1, abs=0.1)
    assert seen.are_seen(train[:100])
    assert not seen.are_seen(rows(3000, seed=1))


def test_the_type_of_numbers_and_where_they_are_do_not_matter(tmp_path):
    pictures = torch.randint(0, 256, (60, 1, 4, 4), generator=torch.Generator().manual_seed(0))
    np.save(tmp_path / "stored.npy", pictures.to(torch.uint8).numpy())
    stored = StoredArray.open(tmp_path / "stored.npy")
    expected = _digests_of(pictures.float())
    assert np.array_equal(_digests_of(pictures.to(torch.uint8)), expected)
    assert np.array_equal(_digests_of(stored), expected)
    assert len(set(expected.tolist())) == 60
    assert expected.min() >= 0
    assert expected.max() < 2**32
    assert SeenSamples.of(stored).are_seen(pictures)
    assert np.array_equal(_digests_of(torch.tensor([[-0.0]])), _digests_of(torch.tensor([[0.0]])))


def test_is_kept_in_the_model_file(tmp_path):
    table = Table(rows(300), torch.arange(300) % 2, ("a", "b"), "rows")
    settings = TrainingSettings(epochs=1, batch_size=32)
    model = TrainedModel.train(table, settings=settings)
    model.save(tmp_path / "m.safetensors")
    again = TrainedModel.load(tmp_path / "m.safetensors")
    assert torch.equal(again.seen.digests, model.seen.digests)
    assert again.seen.to_dict() == model.seen.to_dict()
    assert again.seen.are_seen(table.inputs)
    assert again.seen.digests.min() >= 0
    watched = Table(rows(50, seed=1), torch.arange(50) % 2, ("a", "b"), "others")
    assert TrainedModel.train(table, settings=settings, held_out=watched).seen.compared == 50


def test_images_of_a_data_set_are_known_again():
    digits = load("digits").subset(400, torch.Generator().manual_seed(0))
    seen = SeenSamples.of(digits.inputs)
    assert seen.are_seen(digits.images[:50])
    assert not seen.are_seen(load("digits", "test").images)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((torch.zeros(2), 1.0, 0.0, 1), r"digests must be int64 \(M,\), got float32 \(2,\)"),
        ((torch.zeros(2, dtype=torch.int64), -1.0, 0.0, 1), "share must be a number from 0 on, got -1.0"),
        ((torch.zeros(2, dtype=torch.int64), 1.0, "0", 1), "chance must be a number from 0 on, got '0'"),
        ((torch.zeros(2, dtype=torch.int64), 1.0, 0.0, -1), "compared must be a whole number from 0 on"),
    ],
)
def test_refuses_what_no_training_wrote(fields, message):
    with pytest.raises(InputError, match=message):
        SeenSamples(*fields)
