"""Rendered images: reproducible, balanced, legible, and told apart."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from nescio.data._rendered import glyphs, letters, max_glyphs
from nescio.errors import InputError


def extents(images: Tensor) -> Tensor:
    """Height and width of the bright part of every image, (N, 2)."""
    bright = images[:, 0] > 100
    places = torch.arange(1, 29)
    sides = []
    for axis in (2, 1):
        used = bright.any(axis) * places
        first = 29 - (bright.any(axis) * places.flip(0)).amax(1)
        sides.append(used.amax(1) - first + 1)
    return torch.stack(sides, 1)


def nearest_mean_accuracy(train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor]) -> float:
    images, labels = train[0].flatten(1).float(), train[1]
    means = torch.stack([images[labels == k].mean(0) for k in range(int(labels.max()) + 1)])
    guesses = torch.cdist(test[0].flatten(1).float(), means).argmin(1)
    return float((guesses == test[1]).float().mean())


def test_letters_have_the_promised_form() -> None:
    images, labels = letters(1003, seed=0)
    assert images.shape == (1003, 1, 28, 28)
    assert images.dtype == torch.uint8
    assert labels.shape == (1003,)
    assert labels.dtype == torch.int64
    counts = labels.bincount(minlength=10)
    assert len(counts) == 10
    assert set(counts.tolist()) == {100, 101}
    assert len(set(labels[:100].tolist())) == 10, "the order must be shuffled"


def test_glyphs_have_the_promised_form() -> None:
    images, labels, characters = glyphs(30, 7, seed=0)
    assert images.shape == (210, 1, 28, 28)
    assert images.dtype == torch.uint8
    assert labels.dtype == torch.int64
    assert labels.bincount().tolist() == [7] * 30
    assert len(set(characters)) == 30
    assert all(len(character) == 1 for character in characters)
    assert len(set(labels[:30].tolist())) > 10, "the order must be shuffled"


def test_same_seed_same_bytes() -> None:
    for first, second in zip(letters(1500, seed=5), letters(1500, seed=5), strict=True):
        assert torch.equal(first, second)
    first_glyphs, second_glyphs = glyphs(20, 60, seed=5), glyphs(20, 60, seed=5)
    assert torch.equal(first_glyphs[0], second_glyphs[0])
    assert torch.equal(first_glyphs[1], second_glyphs[1])
    assert first_glyphs[2] == second_glyphs[2]


def test_other_seed_other_images() -> None:
    assert not torch.equal(letters(50, seed=1)[0], letters(50, seed=2)[0])
    one, two = glyphs(20, 5, seed=1), glyphs(20, 5, seed=2)
    assert not torch.equal(one[0], two[0])
    assert one[2] == two[2], "the seed must not change the classes"


def test_no_image_comes_twice() -> None:
    # A full-frame "I" is a white square in many fonts, as it is in the set imitated.
    images, labels = letters(2000, seed=0)
    others = images[labels != 8].numpy()
    assert len({image.tobytes() for image in others}) == len(others)


def test_thread_count_does_not_matter() -> None:
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        single = letters(300, seed=3)[0], glyphs(20, 10, seed=3)[0]
        torch.set_num_threads(3)
        several = letters(300, seed=3)[0], glyphs(20, 10, seed=3)[0]
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(single[0], several[0])
    assert torch.equal(single[1], several[1])


def test_letters_fill_the_frame_with_bright_strokes_on_black() -> None:
    images, _ = letters(3000, seed=0)
    assert (extents(images).float().mean(0) > 26).all()
    assert 90 < images.float().mean() < 130
    assert (images < 15).float().mean() > 0.4, "most of the frame is black"
    assert (images > 240).float().mean() > 0.25, "strokes are white, not grey"
    assert (images.flatten(1).amax(1) > 150).float().mean() > 0.98, "hardly any blank image"


def test_some_letters_are_inverted_and_most_are_not() -> None:
    images, labels = letters(3000, seed=0)
    corners = images[labels != 8, 0][:, [0, 0, -1, -1], [0, -1, 0, -1]] > 200
    assert 0.02 < corners.all(1).float().mean() < 0.1


def test_glyphs_stay_inside_the_frame() -> None:
    images, _, _ = glyphs(200, 10, seed=0)
    longest = extents(images).amax(1).float()
    assert longest.min() >= 15
    assert 20 < longest.mean() < 26
    border = torch.cat([images[:, 0, 0], images[:, 0, -1], images[:, 0, :, 0], images[:, 0, :, -1]])
    assert (border > 100).float().mean() < 0.001


def test_characters_for_fewer_classes_are_a_prefix() -> None:
    _, _, few = glyphs(10, 1, seed=0)
    _, _, many = glyphs(300, 1, seed=1)
    assert many[:10] == few


def normalised(character: str) -> npt.NDArray[np.float64]:
    """The character cropped, its longer side scaled to 24 pixels, centred, as a unit vector."""
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    font = ImageFont.truetype(str(folder / "DejaVuSans.ttf"), 100)
    canvas = Image.new("L", (400, 400))
    ImageDraw.Draw(canvas).text((150, 100), character, fill=255, font=font)
    box = canvas.getbbox()
    assert box is not None, f"{character!r} is blank"
    canvas = canvas.crop(box)
    scale = 24 / max(canvas.size)
    wide, tall = (max(1, round(side * scale)) for side in canvas.size)
    small = canvas.resize((wide, tall))
    frame = Image.new("L", (24, 24))
    frame.paste(small, ((24 - wide) // 2, (24 - tall) // 2))
    pixels = np.asarray(frame, np.float64).ravel()
    return np.asarray(pixels / np.linalg.norm(pixels))


def test_no_two_of_500_characters_look_alike() -> None:
    _, _, characters = glyphs(500, 1, seed=0)
    shapes = np.stack([normalised(character) for character in characters])
    likeness = shapes @ shapes.T - np.eye(500)
    worst = np.unravel_index(likeness.argmax(), likeness.shape)
    assert likeness.max() < 0.95, [characters[int(k)] for k in worst]


def test_lookalikes_and_missing_characters_are_left_out() -> None:
    count = max_glyphs()
    characters = glyphs(count, 1, seed=0)[2]
    assert count >= 1000
    assert len(set(characters)) == count
    # Latin with its Greek, Cyrillic and other lookalikes, and pairs that differ by size only.
    zero, a, x, dash = (
        "0Oo\u039f\u041e\u0585",
        "A\u0391\u0410",
        "xX\u0445\u0425\u00d7",
        "-\u2212\u2013",
    )
    for group in (zero, a, "cC\u0441\u0421", x, "H\u041d\u0397", dash, "sS", "zZ"):
        assert len(set(group) & set(characters)) <= 1, group


def test_characters_fit_the_images_of_their_label() -> None:
    images, labels, characters = glyphs(50, 40, seed=0)
    means = torch.stack([images[labels == k, 0].float().mean(0) for k in range(50)])
    crops = torch.from_numpy(np.stack([normalised(c) for c in characters])).view(-1, 24, 24)
    likeness = means[:, 2:-2, 2:-2].flatten(1) @ crops.flatten(1).T.float()
    assert (likeness.argmax(1) == torch.arange(50)).float().mean() > 0.8


def test_a_simple_classifier_carries_over_to_other_seeds() -> None:
    train, test = glyphs(50, 40, seed=0), glyphs(50, 10, seed=1)
    assert nearest_mean_accuracy(train[:2], test[:2]) > 0.8
    assert nearest_mean_accuracy(letters(4000, seed=0), letters(1000, seed=1)) > 0.6


@pytest.mark.parametrize("num_classes", [1, 0, -3, 100_000])
def test_number_of_classes_is_checked(num_classes: int) -> None:
    expected = f"num_classes must be a whole number from 2 to {max_glyphs()}, got {num_classes}"
    with pytest.raises(InputError, match=expected):
        glyphs(num_classes, 1, seed=0)


def test_counts_are_checked() -> None:
    with pytest.raises(InputError, match="per_class must be a whole number from 1 on, got 0"):
        glyphs(2, 0, seed=0)
    with pytest.raises(InputError, match="count must be a whole number from 1 on, got -1"):
        letters(-1, seed=0)
    with pytest.raises(InputError, match=r"count must be a whole number from 1 on, got 1\.5"):
        letters(1.5, seed=0)  # type: ignore[arg-type]
    for draw in (lambda: letters(1, seed=-1), lambda: glyphs(2, 1, seed=-1)):
        with pytest.raises(InputError, match="seed must be a whole number from 0 on, got -1"):
            draw()


def test_matplotlib_is_needed_only_when_drawing() -> None:
    script = """
import sys
sys.modules["matplotlib"] = None  # makes its import fail
from nescio.data._rendered import glyphs, letters
from nescio.errors import MissingExtraError
for draw in (lambda: letters(1, 0), lambda: glyphs(2, 1, 0)):
    try:
        draw()
    except MissingExtraError as error:
        print(error)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("matplotlib") >= 2
    assert done.stdout.count("demo") >= 2
