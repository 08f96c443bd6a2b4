"""Model files by name, as `nescio serve` takes them."""

from pathlib import Path

import pytest

from nescio import InputError, ModelFileError
from nescio.inference._named_paths import has_name, is_named_model, named_paths


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two run folders, each with its model."""
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(b"")


def test_the_name_of_the_file_or_of_the_folder(runs):
    assert named_paths(["first/model.safetensors"]) == {"model": Path("first/model.safetensors")}
    assert named_paths(["first", "second/"]) == {
        "first": Path("first/model.safetensors"),
        "second": Path("second/model.safetensors"),
    }


def test_a_name_of_ones_own(runs):
    assert named_paths(["new=first", "old=second/model.safetensors"]) == {
        "new": Path("first/model.safetensors"),
        "old": Path("second/model.safetensors"),
    }


def test_what_has_a_slash_before_its_equals_sign_is_a_path():
    assert named_paths(["./lr=0.1.safetensors"]) == {"lr=0.1": Path("lr=0.1.safetensors")}
    assert named_paths(["low=runs/lr=0.1.safetensors"]) == {"low": Path("runs/lr=0.1.safetensors")}


def test_two_of_one_name_and_what_to_do(runs):
    with pytest.raises(InputError, match=r"two models are named model: .* give them names, as in first="):
        named_paths(["first/model.safetensors", "second/model.safetensors"])


@pytest.mark.parametrize("text", ["=first", "first=", "="])
def test_half_of_it(text):
    with pytest.raises(InputError, match="must be PATH or NAME=PATH, got"):
        named_paths([text])


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelFileError, match=r"is a folder without a model\.safetensors"):
        named_paths([str(tmp_path)])


def test_what_has_a_name():
    texts = ("a=b", "a=b/c=d", "./a=b", "runs/a=b", "a")
    assert [has_name(text) for text in texts] == [True, True, False, False, False]


def test_a_text_with_an_equals_sign_is_no_model(tmp_path):
    (tmp_path / "my model.safetensors").touch()
    assert is_named_model(f"new={tmp_path}/my model.safetensors")
    assert is_named_model("new=mistyped.safetensors")
    for text in (
        "is x=5 right?",
        "a=b " * 2000,
        "a=\0 b",
        "a picture.png",
        f"{tmp_path}/my model.safetensors",
    ):
        assert not is_named_model(text)
