from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tests.inference.pretrained import TinySpec
from torch import nn

from nescio import MLPSpec
from nescio.data import Dataset, Table, open_source
from nescio.errors import InputError
from nescio.inference._choice import choose_network


def images(channels: int, side: int) -> Dataset:
    pixels = torch.zeros(4, channels, side, side, dtype=torch.uint8)
    return Dataset(pixels, torch.tensor([0, 1, 0, 1]), ("a", "b"), "pictures")


ROWS = Table(torch.eye(4), torch.tensor([0, 1, 0, 1]), ("a", "b"), "rows")


def test_small_grey_images_get_a_lenet_and_rows_a_perceptron() -> None:
    lenet = choose_network(images(1, 28))
    assert (lenet.network, lenet.is_frozen, lenet.preprocess) == ("lenet", False, None)
    assert (
        lenet.reason == "pictures: 4 images of 28 x 28 pixels, grey, 2 classes: lenet, trained from the start"
    )
    rows = choose_network(ROWS)
    assert (rows.network, rows.label_column) == ("mlp", None)
    assert rows.reason == "rows: 4 rows, 2 classes: mlp, trained from the start"


def test_the_column_of_the_labels_is_said_as_it_may_have_been_guessed() -> None:
    choice = choose_network(ROWS, label_column="outcome")
    assert choice.label_column == "outcome"
    assert choice.reason == "rows: 4 rows, 2 classes in column outcome: mlp, trained from the start"
    assert "2 classes in column (no name): mlp" in choose_network(ROWS, label_column="").reason


def test_pictures_without_classes_have_none_to_tell(tmp_path: Path) -> None:
    Image.fromarray(np.zeros((300, 400, 3), np.uint8)).save(tmp_path / "1.png")
    assert " classes:" not in choose_network(open_source(tmp_path), TinySpec.kind, size=64).reason


@pytest.mark.parametrize(("channels", "side", "expected"), [(3, 32, 160), (1, 160, 160), (3, 161, 224)])
def test_photos_get_a_pretrained_encoder_at_a_fitting_size(channels: int, side: int, expected: int) -> None:
    choice = choose_network(images(channels, side))
    assert choice.network == "efficientnet-lite0"
    assert choice.is_frozen
    assert choice.spec is not None
    assert choice.spec.input_shape == (3, expected, expected)
    assert choice.preprocess is not None
    assert choice.preprocess.input_shape == (channels, side, side)
    assert f"brought to {expected} x {expected}" in choice.reason
    assert "--fine-tune" in choice.reason


def test_of_a_folder_only_the_headers_are_read_and_the_size_can_be_set(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        Image.fromarray(np.zeros((300, 400, 3), np.uint8)).save(tmp_path / name / "1.png")
    folder = open_source(tmp_path)
    choice = choose_network(folder, TinySpec.kind, size=64)
    assert choice.preprocess is not None
    assert choice.preprocess.input_shape == (3, 64, 64)
    assert choice.preprocess.resize == "crop"
    assert ", 2 classes: brought to 64 x 64" in choice.reason
    assert "300 x 400" in choice.reason or "400 x 300" in choice.reason


def test_fields_of_a_pretrained_encoder() -> None:
    """What they leave open is as without them."""
    photos = images(3, 32)
    plain = choose_network(photos, "efficientnet-lite0").spec
    assert choose_network(photos, "efficientnet-lite0", fields={"dropout": 0.3}).spec == replace(
        plain, dropout=0.3
    )
    tuned = choose_network(photos, "efficientnet-lite0", fine_tune=True, fields={"dropout": 0.3}).spec
    assert tuned is not None
    assert tuned.input_shape == (3, 32, 32)
    wide = choose_network(photos, None, fields={"height": 96, "width": 128}).spec
    assert wide is not None
    assert wide.input_shape == (3, 96, 128)
    with pytest.raises(InputError, match="nonsense"):
        choose_network(photos, "efficientnet-lite0", fields={"nonsense": 3})
    with pytest.raises(InputError, match="size and the height and width of efficientnet-lite0 can't both be"):
        choose_network(photos, "efficientnet-lite0", size=64, fields={"height": 96})


def test_what_the_user_gives_is_taken() -> None:
    module = nn.Linear(4, 2)
    assert choose_network(ROWS, module).network is module
    spec = MLPSpec(4, 2)
    assert choose_network(ROWS, spec).network is spec
    tuned = choose_network(images(3, 200), TinySpec.kind, fine_tune=True)
    assert not tuned.is_frozen
    assert "all of tiny-pretrained is trained" in tuned.reason


def test_fine_tuning_takes_images_as_they_are() -> None:
    tuned = choose_network(images(3, 48), "efficientnet-lite0", fine_tune=True)
    assert tuned.spec is not None
    assert tuned.spec.input_shape == (3, 48, 48)
    with pytest.raises(InputError, match="takes images in 3 channels"):
        choose_network(images(1, 48), "efficientnet-lite0", fine_tune=True)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="takes images, got rows: 4 rows"):
        choose_network(ROWS, TinySpec.kind)
    with pytest.raises(InputError, match="fine_tune needs an encoder with pretrained weights, got mlp"):
        choose_network(ROWS, fine_tune=True)
