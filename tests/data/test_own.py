import io

import numpy as np
import pytest
from PIL import Image

from evidentia.data import Dataset, Table, from_csv, from_folder, from_npz, from_path
from evidentia.errors import DataError, EvidentiaWarning, InputError


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


def test_one_colour_picture_makes_all_colour_and_mixed_sizes_make_32(photos):
    picture(photos / "dog" / "x.jpg", (255, 0, 0), (70, 90), "RGB")
    data = from_folder(photos)
    assert data.images.shape == (7, 3, 32, 32)
    assert data.images[0].unique().tolist() == [10]


def test_the_size_asked_for(photos):
    assert from_folder(photos, size=(28, 20)).images.shape == (6, 1, 28, 20)


def test_a_text_file_named_png_is_named_counted_and_passed_over(photos):
    (photos / "cat" / "notes.png").write_text("not a picture")
    with pytest.warns(EvidentiaWarning, match=r"1 of 7 files .* cat/notes\.png .*passed over"):
        data = from_folder(photos)
    assert len(data) == 6


def test_strict_refuses_it(photos):
    (photos / "cat" / "notes.png").write_text("not a picture")
    with pytest.raises(DataError, match=r"1 of 7 files .* cat/notes\.png"):
        from_folder(photos, strict=True)


def test_a_picture_cut_short_is_passed_over_too(photos):
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(256, size=(64, 64), dtype=np.uint8)).save(whole, "PNG")
    (photos / "dog" / "cut.png").write_bytes(whole.getvalue()[:2000])
    with pytest.warns(EvidentiaWarning, match=r"dog/cut\.png"):
        assert len(from_folder(photos)) == 6


def test_an_empty_class_folder(photos):
    (photos / "empty").mkdir()
    with pytest.raises(DataError, match=r"class folder empty .* holds no readable picture"):
        from_folder(photos)


def test_a_single_class_and_none(tmp_path):
    picture(tmp_path / "one" / "cat" / "0.png")
    with pytest.raises(DataError, match="two or more class folders, got only cat"):
        from_folder(tmp_path / "one")
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="two or more class folders, got none"):
        from_folder(tmp_path / "none")


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((4, 6, 5), (4, 1, 6, 5)), ((4, 6, 5, 3), (4, 3, 6, 5)), ((4, 1, 6, 5), (4, 1, 6, 5))],
)
def test_npz_of_images(tmp_path, shape, expected):
    images = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    np.savez(tmp_path / "d.npz", images=images, labels=["b", "a", "b", "a"])
    data = from_npz(tmp_path / "d.npz")
    assert isinstance(data, Dataset)
    assert data.images.shape == expected
    assert (data.classes, data.labels.tolist()) == (("a", "b"), [1, 0, 1, 0])


def test_npz_of_features_with_class_names(tmp_path):
    np.savez(tmp_path / "d.npz", features=np.eye(3), labels=[2, 0, 2], classes=["x", "y", "z"])
    data = from_npz(tmp_path / "d.npz")
    assert isinstance(data, Table)
    assert (data.classes, data.labels.tolist()) == (("x", "y", "z"), [2, 0, 2])


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": [0, 1]}, "must hold labels and images or features, got labels"),
        ({"images": np.zeros((2, 3, 3)), "labels": [0, 1]}, "must be uint8"),
        ({"images": np.zeros((2, 3), np.uint8), "labels": [0, 1]}, "must be .N, H, W."),
        ({"images": np.zeros((3, 3, 3), np.uint8), "labels": [0, 1]}, "3 samples but 2 labels"),
        ({"features": np.zeros((2, 3)), "labels": [0, 0]}, "two or more classes"),
        ({"features": np.array([[np.nan], [0]]), "labels": [0, 1]}, "finite"),
        ({"features": np.zeros((2, 3)), "labels": [0, 3], "classes": ["a", "b"]}, r"labels must be 0\.\.1"),
        ({"features": np.zeros((2, 3)), "labels": [[0], [1]]}, r"labels must be one-dimensional"),
        ({"features": np.array([["a"], ["b"]]), "labels": [0, 1]}, "features must be numbers"),
    ],
)
def test_npz_that_does_not_fit(tmp_path, arrays, reason):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=reason):
        from_npz(tmp_path / "d.npz")


def test_npz_never_unpickles(tmp_path):
    np.savez(tmp_path / "d.npz", images=np.array([{"a": 1}, None]), labels=[0, 1])
    with pytest.raises(DataError, match=r"not an .npz file of plain arrays"):
        from_npz(tmp_path / "d.npz")


def test_npz_that_is_something_else(tmp_path):
    (tmp_path / "d.npz").write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(DataError, match=r"not an .npz file"):
        from_npz(tmp_path / "d.npz")
    np.save(tmp_path / "one.npy", np.eye(2))
    with pytest.raises(DataError, match=r"must hold labels"):
        from_npz(tmp_path / "one.npy")


def test_csv_with_named_and_last_label_column(tmp_path):
    (tmp_path / "a.csv").write_text("label,x,y2\n10,1,2\n9,3,4\n")
    table = from_csv(tmp_path / "a.csv")
    assert table.features.tolist() == [[1, 2], [3, 4]]
    assert (table.classes, table.labels.tolist()) == (("9", "10"), [1, 0])
    (tmp_path / "b.csv").write_text("x,kind\n1,cat\n2,dog\n")
    assert from_csv(tmp_path / "b.csv").classes == ("cat", "dog")
    assert from_csv(tmp_path / "a.csv", label="x").classes == ("1", "3")


@pytest.mark.parametrize("cell", ["nan", "inf", "", "four"])
def test_csv_with_what_is_no_finite_number(tmp_path, cell):
    (tmp_path / "a.csv").write_text(f"x,z,label\n1,2,a\n3,{cell},b\n")
    with pytest.raises(DataError, match=r"a\.csv, line 3, column z: a finite number expected"):
        from_csv(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "needs a header"),
        ("x,label\n", "needs a header"),
        ("label\na\nb\n", "needs a header"),
        ("x,label\n1,a\n2\n", "line 3: 2 columns expected, got 1"),
        ("x,label\n1,a\n2,a\n", "two or more classes"),
    ],
)
def test_csv_that_does_not_fit(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=reason):
        from_csv(tmp_path / "a.csv")


def test_csv_without_the_column_asked_for(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    with pytest.raises(InputError, match="no column 'kind'; its columns: x, label"):
        from_csv(tmp_path / "a.csv", label="kind")


def test_csv_that_is_binary(tmp_path):
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="can't be read"):
        from_csv(tmp_path / "a.csv")


def test_from_path_tells_them_apart(photos, tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1])
    kinds = [type(from_path(path)) for path in (photos, tmp_path / "a.csv", tmp_path / "d.npz")]
    assert kinds == [Dataset, Table, Table]
    with pytest.raises(DataError, match=r"must be a folder of class folders, an \.npz file or a \.csv"):
        from_path(tmp_path / "missing.txt")
