"""Pictures on the disk: read one by one, and with labels by their folders."""

import io
import os

import numpy as np
import pytest
from PIL import Image
from tests.data.made import raw_png

from nescio.data import ImagePreprocess, RowPreprocess, open_source, split
from nescio.data.dataset import PARTS
from nescio.data.sources import _pictures as sources_pictures
from nescio.errors import DataError, InputError, NescioWarning


def from_folder(folder, size=None, strict=False):
    return open_source(folder, size=size, strict=strict).labelled()


def picture(path, value=100, size=(10, 8), mode="L"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (size[1], size[0]), value).save(path)


@pytest.fixture
def photos(tmp_path):
    for name, value in (("cat", 10), ("dog", 200)):
        for index in range(3):
            picture(tmp_path / "photos" / name / f"{index}.png", value + index)
    return tmp_path / "photos"


def test_folder_of_class_folders(photos):
    data = from_folder(photos)
    assert data.classes == ("cat", "dog")
    assert data.name == "photos"
    assert data.images.shape == (6, 1, 10, 8)
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.images[:, 0, 0, 0].tolist() == [10, 11, 12, 200, 201, 202]


def test_a_class_folder_whose_name_is_no_text_gets_one_that_is(tmp_path):
    picture(tmp_path / "photos" / os.fsdecode(b"caf\xe9") / "0.png")
    picture(tmp_path / "photos" / "tea" / "0.png")
    assert from_folder(tmp_path / "photos").classes == ("caf\\udce9", "tea")
    assert open_source(tmp_path / "photos").labels.classes == ("caf\\udce9", "tea")


def test_one_colour_picture_makes_all_colour_and_mixed_sizes_make_32(photos):
    picture(photos / "dog" / "x.jpg", (255, 0, 0), (70, 90), "RGB")
    data = from_folder(photos)
    assert data.images.shape == (7, 3, 32, 32)
    assert data.images[0].unique().tolist() == [10]


def test_the_size_asked_for(photos):
    assert from_folder(photos, size=(28, 20)).images.shape == (6, 1, 28, 20)


def test_a_text_file_named_png_is_named_counted_and_passed_over(photos):
    (photos / "cat" / "notes.png").write_text("not a picture")
    with pytest.warns(NescioWarning, match=r"1 of 7 files .* cat/notes\.png .*passed over"):
        data = from_folder(photos)
    assert len(data) == 6


def test_strict_refuses_it(photos):
    (photos / "cat" / "notes.png").write_text("not a picture")
    with pytest.raises(DataError, match=r"1 of 7 files .* cat/notes\.png"):
        from_folder(photos, strict=True)


def damaged(kind):
    """A picture whose header is good and whose pixels are not."""
    if kind == "bad zlib":
        return "bad.png", raw_png(8, 10, 0, b"no zlib stream")
    pixels = np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)
    whole = io.BytesIO()
    Image.fromarray(pixels).save(whole, kind)
    return f"cut.{kind.lower()}", whole.getvalue()[:2000]


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "BMP", "WEBP", "bad zlib"])
def test_a_damaged_picture_is_named_counted_and_passed_over(photos, kind):
    name, content = damaged(kind)
    (photos / "cat" / name).write_bytes(content)
    with pytest.warns(NescioWarning, match=rf"1 of 7 files .* cat/{name} .*passed over") as told:
        data = from_folder(photos)
    assert len(told) == 1
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert data.images.float().mean((1, 2, 3)).tolist() == [10, 11, 12, 200, 201, 202]
    with pytest.raises(DataError, match=rf"1 of 7 files .* cat/{name}"):
        from_folder(photos, strict=True)


def test_one_warning_for_all_that_is_no_picture(photos):
    (photos / "cat" / "0.gif").write_bytes(b"GIF89a")
    (photos / "cat" / "notes.txt").write_text("not a picture")
    (photos / "dog" / "text.png").write_text("not a picture")
    (photos / "dog" / "bad.png").write_bytes(raw_png(8, 10, 0, b"x"))
    for hidden in (".DS_Store", "Thumbs.db", "desktop.ini"):
        (photos / "dog" / hidden).touch()
    picture(photos / "dog" / ".checkpoints" / "0.png")
    with pytest.warns(NescioWarning, match="4 of 10 files") as told:
        assert len(from_folder(photos)) == 6
    assert len(told) == 1
    for name in ("cat/0.gif", "cat/notes.txt", "dog/text.png", "dog/bad.png"):
        assert name in str(told[0].message)
    with pytest.raises(DataError, match="4 of 10 files"):
        from_folder(photos, strict=True)


def test_hidden_files_are_not_looked_at(photos):
    (photos / "dog" / ".DS_Store").touch()
    assert len(from_folder(photos, strict=True)) == 6


def test_a_class_whose_only_picture_is_damaged(photos):
    (photos / "owl").mkdir()
    (photos / "owl" / "0.png").write_bytes(raw_png(8, 10, 0, b"x"))
    with pytest.warns(NescioWarning), pytest.raises(DataError, match=r"class folder owl .* no readable"):
        from_folder(photos)


def test_no_picture_at_all(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with pytest.raises(DataError, match=r"class folder a .* holds no readable picture"):
        from_folder(tmp_path)


def test_the_name_of_the_current_folder(photos, monkeypatch):
    monkeypatch.chdir(photos)
    assert from_folder(".").name == "photos"


def test_one_number_is_a_square(photos):
    assert from_folder(photos, size=20).images.shape == (6, 1, 20, 20)


@pytest.mark.parametrize("size", [0, -1, 2.5, "28", (28,), (28, 28, 3), (0, 28), (28, 2.5), True])
def test_size_is_checked(photos, size):
    with pytest.raises(InputError, match="size"):
        from_folder(photos, size=size)


def test_an_empty_class_folder(photos):
    (photos / "empty").mkdir()
    with pytest.raises(DataError, match=r"class folder empty .* holds no readable picture"):
        from_folder(photos)


def test_a_single_class_and_none(tmp_path):
    picture(tmp_path / "one" / "cat" / "0.png")
    alone = from_folder(tmp_path / "one")
    assert (alone.classes, alone.labels.tolist()) == (("cat",), [0])
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="two or more class folders, got none"):
        from_folder(tmp_path / "none")


def test_pictures_are_read_one_by_one_at_any_depth(photos, monkeypatch):
    picture(photos / "dog" / "deep" / "er" / "z.PNG", 7)
    (photos / "top.png").write_text("no picture")
    (photos / "notes.txt").write_text("passed over")
    (photos / ".hidden.png").write_text("passed over")
    picture(photos / ".checkpoints" / "0.png")
    monkeypatch.chdir(photos.parent)
    source = open_source("photos")
    inputs = source.read(range(len(source)))
    expected = [f"cat/{index}.png" for index in range(3)] + [f"dog/{index}.png" for index in range(3)]
    assert [one.name for one in inputs] == [
        f"photos/{name}" for name in (*expected, "dog/deep/er/z.PNG", "top.png")
    ]
    assert inputs[6].value.pixels(1, (10, 8)).unique().tolist() == [7]
    with pytest.raises(DataError, match=r"top\.png is not a PNG"):
        inputs[7].value.header()
    assert source.labels is None


def test_the_folders_are_the_labels(photos):
    labels = open_source(photos).labels
    assert (labels.classes, labels.indices.tolist()) == (("cat", "dog"), [0, 0, 0, 1, 1, 1])


def test_a_changed_folder_has_another_fingerprint(photos):
    before = open_source(photos).fingerprint()
    assert open_source(photos).fingerprint() == before
    picture(photos / "cat" / "0.png", 99, (20, 20))
    assert open_source(photos).fingerprint() != before


def test_pictures_as_a_model_takes_them(photos):
    picture(photos / "dog" / "x.jpg", (255, 0, 0), (70, 90), "RGB")
    (photos / "cat" / "bad.png").write_text("no picture")
    preprocess = ImagePreprocess((1, 4, 4), (0.0,), (255.0,))
    with pytest.warns(NescioWarning, match="1 of 8 files"):
        data = open_source(photos).labelled(preprocess)
    assert data.images.shape == (7, 1, 4, 4)
    with pytest.raises(DataError, match=r"model takes rows, photos holds pictures"):
        open_source(photos).labelled(RowPreprocess((2,), (0.0,) * 2, (1.0,) * 2))


def test_a_single_picture_whatever_its_name(tmp_path):
    Image.new("L", (4, 3), 8).save(tmp_path / "picture", "PNG")
    (one,) = open_source(tmp_path / "picture").read([0])
    assert one.name == str(tmp_path / "picture")
    assert one.value.pixels(1, (3, 4)).unique().tolist() == [8]
    (sent,) = open_source("sent.png", (tmp_path / "picture").read_bytes()).read([0])
    assert sent.value.pixels(1, (3, 4)).unique().tolist() == [8]
    with pytest.raises(DataError, match="has no labels"):
        open_source(tmp_path / "picture").labelled()


def test_what_the_headers_say(photos):
    summary = open_source(photos).header_summary()
    assert str(summary) == "6 pictures of 10 x 8 pixels, grey"
    picture(photos / "dog" / "x.jpg", (255, 0, 0), (70, 90), "RGB")
    picture(photos / "dog" / "y.png", 7, (20, 4))
    (photos / "dog" / "z.png").write_text("no picture")
    summary = open_source(photos).header_summary()
    assert (summary.count, summary.smallest, summary.median, summary.largest) == (
        9,
        (10, 8),
        (10, 8),
        (70, 90),
    )
    assert (summary.channels, summary.has_one_size) == (3, False)
    assert str(summary) == "9 pictures of 10 x 8 to 70 x 90 pixels, the median 10 x 8, colour"


def test_no_header_at_all(tmp_path):
    (tmp_path / "a.png").write_text("no picture")
    with pytest.raises(DataError, match="holds no readable picture"):
        open_source(tmp_path).header_summary()


def test_of_a_large_folder_some_headers_tell(photos, monkeypatch):
    read = []
    monkeypatch.setattr(sources_pictures, "SAMPLED_HEADERS", 3)
    real = sources_pictures.Picture.header
    monkeypatch.setattr(sources_pictures.Picture, "header", lambda self: read.append(self.name) or real(self))
    summary = open_source(photos).header_summary()
    assert len(read) == 3 + 6  # that all are grey and of one size is known of all only
    assert (summary.channels, summary.has_one_size) == (1, True)
    read.clear()
    for name in ("cat", "dog"):
        picture(photos / name / "0.png", (1, 2, 3), (12, 12), "RGB")
    assert open_source(photos).header_summary().channels == 3
    assert len(read) == 3
    picture(photos / "dog" / "1.png", (1, 2, 3), (12, 12), "RGB")  # one that the sample passes over
    for name in ("cat", "dog"):
        picture(photos / name / "0.png", 10)
    assert open_source(photos).labelled().images.shape[1] == 3


@pytest.mark.parametrize("resize", ["crop", "pad"])
def test_the_way_to_resize(photos, resize):
    data = open_source(photos, size=16, resize=resize).labelled()
    assert data.images.shape == (6, 1, 16, 16)
    black = (data.images[0, 0] == 0).sum()
    assert black == (16 * 3 if resize == "pad" else 0)  # 10 x 8 becomes 16 x 13
    with pytest.raises(InputError, match="resize must be one of stretch, crop, pad, got 'zoom'"):
        open_source(photos, resize="zoom")
    with pytest.raises(InputError, match="resize goes with a folder of pictures"):
        open_source("rows.csv", b"1,2", resize="crop")


@pytest.fixture
def parts(tmp_path):
    """train/ and val/ and test/ above the class folders."""
    for part, count in (("train", 4), ("val", 2), ("Test", 3)):
        for name, value in (("cat", 10), ("dog", 200)):
            for index in range(count):
                picture(tmp_path / "parts" / part / name / f"{part}{index}.png", value + index)
    return tmp_path / "parts"


def test_folders_that_say_what_the_pictures_are_for(parts):
    data = from_folder(parts)
    assert data.classes == ("cat", "dog")
    assert data.parts.bincount().tolist() == [8, 4, 6]
    rest, test = split(data, 0.2, seed=0)
    train, watched = split(rest, 0.1, seed=0)
    assert [len(train), len(watched), len(test)] == [8, 4, 6]
    assert (test.parts == PARTS.index("test")).all()
    for part in (train, watched, test):
        assert part.images[part.labels == 0].max() < 20
        assert part.images[part.labels == 1].min() >= 200
    labels = open_source(parts).labels
    assert (labels.classes, labels.indices.bincount().tolist()) == (("cat", "dog"), [9, 9])


def test_one_of_them(parts):
    test = open_source(parts, split="test").labelled()
    assert (len(test), test.classes) == (6, ("cat", "dog"))
    assert len(open_source(parts, split="test")) == 6
    assert len(open_source(parts, split="validation").labelled()) == 4
    with pytest.raises(InputError, match="split must be one of train, validation, test, got 'half'"):
        open_source(parts, split="half")
    with pytest.raises(DataError, match="has no folder test of class folders; it has none"):
        open_source(parts / "train", split="test")


def test_a_part_without_class_folders_is_not_trained_on(parts):
    picture(parts / "test" / "unknown.png", 77)
    assert len(from_folder(parts)) == 18
    assert open_source(parts).labels is None
    assert len(open_source(parts)) == 19


def test_classes_may_be_called_train_and_test(tmp_path):
    for name in ("train", "test"):
        picture(tmp_path / name / "0.png")
    data = from_folder(tmp_path)
    assert (data.classes, data.parts) == (("test", "train"), None)


def test_a_class_beside_the_parts_means_that_they_are_classes(parts):
    picture(parts / "owl" / "0.png")
    data = from_folder(parts)
    assert (data.classes, data.parts) == (("Test", "owl", "train", "val"), None)


def test_groups_by_the_names_of_sub_folders(tmp_path):
    for name in ("cat", "dog"):
        for garden in range(6):
            for index in range(3):
                picture(tmp_path / "photos" / name / f"garden{garden}" / f"{index}.png")
    data = open_source(tmp_path / "photos", group=2).labelled()
    assert data.groups.bincount().tolist() == [6] * 6  # cats and dogs of one garden are one group
    rest, held_out = split(data, 0.2, seed=3)
    assert not set(rest.groups.tolist()) & set(held_out.groups.tolist())
    assert len(held_out) == 6
    with pytest.raises(DataError, match=r"group: .*0\.png does not lie 3 sub-folders deep"):
        open_source(tmp_path / "photos", group="3")
    with pytest.raises(InputError, match="group: the level of sub-folders must be a whole number"):
        open_source(tmp_path / "photos", group="garden")
