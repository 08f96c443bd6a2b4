"""Models by name."""

import pytest

from nescio.errors import InputError, ModelFileError
from nescio.inference.named import is_named, named_model, named_models


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    return folder


def test_a_name_is_given_or_taken_from_the_path(run, tmp_path):
    inside = run / "model.safetensors"
    assert named_model(f"small={inside}") == ("small", inside)
    assert named_model(f"small={run}") == ("small", inside)
    assert named_model(run) == ("run", inside)
    assert named_model(inside) == ("model", inside)
    assert named_model("x=y=z.safetensors").name == "x"


def test_a_path_with_an_equals_sign_is_no_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a=b.safetensors").touch()
    assert named_model("a=b.safetensors").name == "a=b"
    assert [is_named(text) for text in ("a=b.safetensors", "runs/a=b", "a=b", "=b")] == [
        False,
        False,
        True,
        False,
    ]


def test_two_of_one_name_are_refused(run, tmp_path):
    assert [one.name for one in named_models([f"a={run}", f"b={run}"])] == ["a", "b"]
    with pytest.raises(
        InputError, match=r"two models are named model; give them names of their own: NAME=.*model"
    ):
        named_models([run / "model.safetensors", tmp_path / "model.safetensors"])


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ModelFileError, match=r"is a folder without a model\.safetensors"):
        named_model(tmp_path)
