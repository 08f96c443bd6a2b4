import numpy as np
import pytest
import torch

from nescio._fetch.formats import idx_bytes
from nescio.data import load
from nescio.data._catalog import CIFAR10, CIFAR10_NAMES, ENTRIES
from nescio.errors import DataError, FetchError, InputError


def test_digits_are_stratified_and_the_splits_apart():
    train, test = load("digits"), load("digits", "test")
    assert (train.images.shape, test.images.shape) == ((4000, 1, 28, 28), (1000, 1, 28, 28))
    assert torch.bincount(train.labels).tolist() == [400] * 10
    assert torch.bincount(test.labels).tolist() == [100] * 10
    shared = {i.numpy().tobytes() for i in train.images} & {i.numpy().tobytes() for i in test.images}
    assert shared == set()


def test_digits_are_upright_digits():
    train, test = load("digits"), load("digits", "test")
    means = torch.stack([train.images[train.labels == k].float().mean(0) for k in range(10)])  # (10, 1, H, W)
    nearest = torch.cdist(test.images.float().flatten(1), means.flatten(1)).argmin(1)
    assert (nearest == test.labels).float().mean() > 0.75
    one = means[1, 0]
    assert one.amax(1).gt(60).sum() > 1.5 * one.amax(0).gt(60).sum()  # a one is taller than wide


@pytest.fixture
def small_cifar(empty_cache):
    """Files of the right names and sizes; the loader trusts what is in the cache."""
    home = empty_cache / "cifar10"
    home.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for file in CIFAR10.files:
        rows = np.zeros((10_000, 3073), np.uint8)
        rows[:, 0] = rng.permutation(10_000) % 10
        rows[:, 1] = rows[:, 0]
        rows.tofile(home / file.name)
    return home


def test_cifar5_is_the_papers_split_by_default(small_cifar):
    known, unseen = load("cifar5", "test"), load("cifar5-unseen", "test")
    assert known.classes == ("dog", "frog", "horse", "ship", "truck")
    assert unseen.classes == ("airplane", "automobile", "bird", "cat", "deer")
    assert (known.name, unseen.name) == ("cifar5", "cifar5-unseen")
    assert torch.equal(known.images[:, 0, 0, 0].long(), known.labels + 5)
    assert torch.equal(unseen.images[:, 0, 0, 0].long(), unseen.labels)


def test_cifar5_the_other_way_round(small_cifar):
    assert load("cifar5", known=range(5)).classes == CIFAR10_NAMES[:5]
    assert load("cifar5-unseen", known=range(5)).classes == CIFAR10_NAMES[5:]
    assert len(load("cifar10")) == 50_000


@pytest.mark.parametrize("known", [[0, 1], [0, 1, 2, 3, 3], [6, 7, 8, 9, 10]])
def test_known_must_be_five_labels(small_cifar, known):
    with pytest.raises(InputError, match="five different labels"):
        load("cifar5", known=known)


def test_settings_that_would_be_ignored_are_refused():
    with pytest.raises(InputError, match="known goes with cifar5"):
        load("digits", known=range(5))
    with pytest.raises(InputError, match="seed goes with letters"):
        load("digits", seed=1)
    with pytest.raises(InputError, match="split must be 'train' or 'test', got 'val'"):
        load("digits", "val")


def test_an_unknown_name_is_answered_with_the_names_there_are():
    with pytest.raises(InputError, match=r"no data set 'imagenet'; there are digits, mnist, .*letters"):
        load("imagenet")


def test_letters_and_glyphs_are_drawn_apart_for_each_split_and_seed():
    train, test, other = load("letters"), load("letters", "test"), load("letters", "test", seed=1)
    assert (len(train), len(test)) == (10_000, 5_000)
    assert train.classes == tuple("ABCDEFGHIJ")
    assert not torch.equal(train.images[:5000], test.images)
    assert not torch.equal(test.images, other.images)
    glyphs = load("glyphs-20", "test")
    assert (len(glyphs), len(glyphs.classes), glyphs.name) == (200, 20, "glyphs-20")
    with pytest.raises(InputError, match="num_classes must be"):
        load("glyphs-100000")


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_seed_must_be_a_whole_number_from_0(seed):
    with pytest.raises(InputError, match="seed must be"):
        load("letters", seed=seed)


def test_a_name_must_be_text():
    with pytest.raises(InputError, match="name must be the name of a data set, got 5"):
        load(5)


def test_digits_come_without_downloading(empty_cache):
    assert len(load("digits", "test", download=False)) == 1000


def test_notmnist_that_cannot_be_had_names_letters(empty_cache):
    with pytest.raises(FetchError, match="data set 'letters'"):
        load("notmnist", download=False)


def _fill(home, images, labels):
    home.mkdir(parents=True)
    for file in ENTRIES["notmnist"].files:
        content = idx_bytes(images if "images" in file.name else labels)
        (home / file.name).write_bytes(content.ljust(file.size, b"\0")[: file.size])


def test_damage_in_the_cache_is_noticed(empty_cache):
    _fill(empty_cache / "notmnist", np.zeros((3, 28, 28), np.uint8), np.zeros(18_724, np.uint8))
    with pytest.raises(DataError, match="the header promises") as caught:
        load("notmnist", download=False)
    assert f"delete {empty_cache / 'notmnist'} or run: nescio data fetch notmnist" in str(caught.value)


def test_a_label_out_of_range_in_the_cache_is_noticed(empty_cache):
    _fill(empty_cache / "notmnist", np.zeros((18_724, 28, 28), np.uint8), np.full(18_724, 10, np.uint8))
    with pytest.raises(DataError, match=r"labels must be 0\.\.9, got 10\.\.10"):
        load("notmnist", download=False)
