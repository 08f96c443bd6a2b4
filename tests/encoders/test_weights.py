import hashlib
import io
import pickle

import pytest
import torch
from safetensors.torch import save
from tests.data.made import Fixed

from nescio._fetch.files import File
from nescio._fetch.unpack import zip_members
from nescio._fetch.weights import Weights
from nescio.encoders._weights import (
    converted_path,
    fetch_again,
    renamed,
    tensors_of_pickle,
    tensors_of_safetensors,
    verified_file,
)
from nescio.errors import DataError, FetchError, NescioWarning

TENSORS = {"theirs.weight": torch.arange(6.0).reshape(2, 3), "theirs.bias": torch.ones(2)}


def pickled(tensors):
    content = io.BytesIO()
    torch.save(tensors, content)
    return content.getvalue()


def made(content, name, origin=None, **more):
    file = File(name, hashlib.sha256(content).hexdigest(), len(content))
    return Weights("made", "made here", "MIT", (file,), (origin or Fixed(content),), **more)


def by_our_names(tensors):
    return {name.replace("theirs", "ours"): tensor for name, tensor in tensors.items()}


def flip_a_bit(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(bytes(content))


@pytest.fixture
def as_pickle(empty_cache):
    return made(pickled(TENSORS), "made.pth")


def test_a_pickle_is_read_once_and_kept_as_safetensors(as_pickle, monkeypatch):
    first = tensors_of_pickle(as_pickle, by_our_names)
    assert set(first) == {"ours.weight", "ours.bias"}
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("it must not be unpickled again"))
    again = tensors_of_pickle(as_pickle, by_our_names)
    assert torch.equal(again["ours.weight"], TENSORS["theirs.weight"])
    assert as_pickle.origins[0].asked == 1


def test_what_would_run_code_is_refused(empty_cache):
    class Harmful:
        def __reduce__(self):
            return print, ("this ran",)

    weights = made(pickled({"a": Harmful()}), "made.pth")
    with pytest.raises(pickle.UnpicklingError, match="print"):
        tensors_of_pickle(weights, by_our_names)


def test_a_flipped_bit_in_the_published_file(as_pickle, capsys):
    path = verified_file(as_pickle, "made.pth")
    flip_a_bit(path, 300)
    with pytest.raises(
        DataError, match=r"weights of made in .*made.pth can't be used: its SHA-256 is not"
    ) as told:
        tensors_of_pickle(as_pickle, by_our_names)
    assert "fetch them again with: nescio data fetch made" in str(told.value)
    with pytest.warns(NescioWarning, match=r"made.pth is damaged; it is fetched anew"):
        fetch_again(as_pickle)
    assert set(tensors_of_pickle(as_pickle, by_our_names)) == {"ours.weight", "ours.bias"}


def test_a_flipped_bit_in_the_converted_file(as_pickle):
    tensors_of_pickle(as_pickle, by_our_names)
    flip_a_bit(converted_path(as_pickle), -3)
    with pytest.raises(
        DataError, match=r"converted.safetensors can't be used: .* does not have its digest; fetch"
    ):
        tensors_of_pickle(as_pickle, by_our_names)
    fetch_again(as_pickle)
    assert torch.equal(tensors_of_pickle(as_pickle, by_our_names)["ours.bias"], torch.ones(2))


def test_the_cache_of_another_encoder(as_pickle, empty_cache):
    tensors_of_pickle(as_pickle, by_our_names)
    other = Weights("other", "", "MIT", as_pickle.parts, as_pickle.origins)
    converted_path(other).parent.mkdir()
    converted_path(as_pickle).rename(converted_path(other))
    with pytest.raises(DataError, match=r"weights of other in .* can't be used: it holds those of 'made'"):
        tensors_of_pickle(other, by_our_names)


def test_safetensors_are_verified_at_each_load(empty_cache):
    weights = made(save(TENSORS), "model.safetensors")
    assert torch.equal(tensors_of_safetensors(weights)["theirs.bias"], torch.ones(2))
    flip_a_bit(verified_file(weights, "model.safetensors"), -1)
    with pytest.raises(DataError, match=r"its SHA-256 is not the one it should have"):
        tensors_of_safetensors(weights)


def test_a_cache_that_is_full(as_pickle, monkeypatch):
    """What was read is given, and read again the next time."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nescio._files.write_atomically", full)
    for _ in range(2):
        with pytest.warns(
            NescioWarning, match=r"converted.safetensors can't be written: No space.*NESCIO_CACHE"
        ):
            found = tensors_of_pickle(as_pickle, by_our_names)
        assert torch.equal(found["ours.weight"], TENSORS["theirs.weight"])
    assert not converted_path(as_pickle).exists()


def test_a_folder_of_the_users_own_is_honoured(tmp_path, empty_cache, monkeypatch):
    (tmp_path / "data" / "made").mkdir(parents=True)
    content = pickled(TENSORS)
    (tmp_path / "data" / "made" / "made.pth").write_bytes(content)
    monkeypatch.setenv("NESCIO_DATA", str(tmp_path / "data"))
    origin = Fixed(b"", "nowhere", OSError("out of reach"))
    weights = made(content, "made.pth", origin, subfolders=("made",), archives={"made.whl": zip_members})
    assert set(tensors_of_pickle(weights, by_our_names)) == {"ours.weight", "ours.bias"}
    assert origin.asked == 0


def test_weights_that_can_not_be_had(empty_cache):
    weights = made(b"right", "made.pth", Fixed(b"wrong"))
    with pytest.raises(FetchError, match=r"made can't be had(.|\n)*SHA-256 differs(.|\n)*NESCIO_DATA"):
        tensors_of_pickle(weights, by_our_names)


def test_names_and_shapes_are_checked():
    expected = {"ours.weight": torch.empty(2, 3), "ours.bias": torch.empty(2)}
    names = {"theirs.weight": "ours.weight", "theirs.bias": "ours.bias"}
    found = renamed({**TENSORS, "head": torch.ones(1)}, names.get, expected)
    assert found.keys() == expected.keys()
    with pytest.raises(DataError, match=r"the weights hold no ours.bias"):
        renamed({"ours.weight": torch.ones(2, 3)}, str, expected)
    with pytest.raises(DataError, match=r"must hold ours.bias as \(2,\), got \(3,\)"):
        renamed({"ours.weight": torch.ones(2, 3), "ours.bias": torch.ones(3)}, str, expected)
    with pytest.raises(DataError, match=r"the weights hold more, which the network does not have"):
        renamed({**expected, "more": torch.ones(1)}, str, expected)
