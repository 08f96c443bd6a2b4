import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from tests.data.made import raw_png

from nescio.data import Dataset, Table, from_csv, from_folder, from_npz, from_path
from nescio.data._user_data import inputs_from_csv, inputs_from_npz
from nescio.errors import DataError, InputError, NescioWarning


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
        ({"features": np.array([[1e39], [0]]), "labels": [0, 1]}, "finite"),
        ({"features": np.eye(2), "labels": [0, np.nan]}, r"labels\[1\]: a label expected, got 'nan'"),
        ({"features": np.eye(2), "labels": ["a", ""]}, r"labels\[1\]: a label expected, got ''"),
        ({"features": np.eye(2), "labels": [b"\xff", b"a"]}, "is not UTF-8"),
        ({"features": np.eye(2), "labels": [1j, 0]}, "labels must be one-dimensional numbers or names"),
        ({"features": np.eye(2), "labels": [0.0, 1.0], "classes": ["a", "b"]}, r"labels must be 0\.\.1"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": [7, 8]}, "classes must be two or more names"),
        ({"features": np.eye(2), "labels": [0, 0], "classes": ["a"]}, "classes must be two or more names"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": [["a", "b"]]}, "classes must be two or more"),
        ({"features": np.eye(2), "labels": [0, 1], "classes": "ab"}, "classes must be two or more names"),
    ],
)
def test_npz_that_does_not_fit(tmp_path, arrays, reason):
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=reason):
        from_npz(tmp_path / "d.npz")


@pytest.mark.parametrize(
    ("labels", "classes", "numbers"),
    [
        ([b"dog", b"cat"], ("cat", "dog"), [1, 0]),
        ([10.0, 9.0], ("9", "10"), [1, 0]),
        ([0.5, 2.0], ("0.5", "2"), [0, 1]),
        ([True, False], ("False", "True"), [1, 0]),
    ],
)
def test_npz_labels_of_every_kind(tmp_path, labels, classes, numbers):
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=labels)
    data = from_npz(tmp_path / "d.npz")
    assert (data.classes, data.labels.tolist()) == (classes, numbers)


def test_npz_class_names_in_bytes(tmp_path):
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[1, 0], classes=[b"x", b"y"])
    assert from_npz(tmp_path / "d.npz").classes == ("x", "y")


def test_npz_reads_only_what_is_needed(tmp_path):
    pickled = np.array([{"a": 1}])
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1], notes=pickled)
    assert len(from_npz(tmp_path / "d.npz")) == 2


def test_npz_that_claims_more_than_there_is_memory(tmp_path):
    header = io.BytesIO()
    form = {"descr": "|u1", "fortran_order": False, "shape": (1 << 45, 28, 28)}
    np.lib.format.write_array_header_1_0(header, form)
    np.savez(tmp_path / "d.npz", labels=[0, 1])
    with zipfile.ZipFile(tmp_path / "d.npz", "a") as packed:
        packed.writestr("images.npy", header.getvalue())
    with pytest.raises(DataError, match=r"d\.npz is not an \.npz file of plain arrays"):
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


@pytest.mark.parametrize("cell", ["nan", "inf", "", "four", "1e39", "-1e39"])
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
        ("x,label\n1,1\n2,1.0\n", "two or more classes"),
        ("1,2,0\n3,4,1\n", "needs a header"),
        ("x,label\n1,a\n2,\n", r"line 3, column label: a label expected, got ''"),
        ("x,label\n1,a\n2, NaN\n", r"line 3, column label: a label expected, got 'NaN'"),
        ("x,label\n\n1,a\n , \nfour,b\n", r"line 5, column x: a finite number"),
        ('x,label\n1,"a\nb"\nfour,b\n', r"line 4, column x: a finite number"),
    ],
)
def test_csv_that_does_not_fit(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=reason):
        from_csv(tmp_path / "a.csv")


def test_csv_labels_that_are_numbers_are_told_apart_by_value(tmp_path):
    long = ("12345678901234567890", "12345678901234567891")
    rows = ["1", "1.0", "1e0", "2.50", "2.5", *long, "1_0", "b"]
    (tmp_path / "a.csv").write_text("x,label\n" + "".join(f"0,{row}\n" for row in rows))
    table = from_csv(tmp_path / "a.csv")
    assert set(table.classes) == {"1", "2.5", *long, "1_0", "b"}
    assert len(set(table.labels[:3].tolist())) == len(set(table.labels[3:5].tolist())) == 1


def test_csv_rows_of_blanks_are_skipped(tmp_path):
    (tmp_path / "a.csv").write_text("x,label\n\n1,a\n , \n2,b\n,\n")
    assert from_csv(tmp_path / "a.csv").features.tolist() == [[1], [2]]


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


def test_from_path_takes_what_goes_with_each(photos, tmp_path):
    (tmp_path / "A.CSV").write_text("x,label\n1,3\n2,4\n")
    assert from_path(tmp_path / "A.CSV", label="x").classes == ("1", "2")
    assert from_path(photos, size=5, strict=True).images.shape == (6, 1, 5, 5)


@pytest.mark.parametrize(
    ("name", "options", "reason"),
    [
        ("photos", {"label": "x"}, r"label goes with a \.csv file, not with photos"),
        ("a.csv", {"size": 5}, r"size and strict go with a folder of pictures, not with a\.csv"),
        ("a.csv", {"strict": True}, "size and strict go with a folder"),
        ("d.npz", {"strict": True}, "size and strict go with a folder"),
        ("d.npz", {"label": "x"}, r"label goes with a \.csv file"),
    ],
)
def test_from_path_refuses_what_would_be_ignored(photos, tmp_path, name, options, reason):
    (tmp_path / "a.csv").write_text("x,label\n1,a\n2,b\n")
    np.savez(tmp_path / "d.npz", features=np.eye(2), labels=[0, 1])
    with pytest.raises(InputError, match=reason):
        from_path(tmp_path / name, **options)


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", "a,label,b\n1,x,2\n3,y,4\n", "a,b,kind\n1,2,\n3,4,x\n"])
def test_inputs_of_a_csv_with_labels_or_without(tmp_path, text):
    (tmp_path / "a.csv").write_text(text)
    assert inputs_from_csv(tmp_path / "a.csv", 2).tolist() == [[1, 2], [3, 4]]


def test_inputs_of_a_csv_with_one_column(tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n3\n")
    assert inputs_from_csv(tmp_path / "a.csv", 1).tolist() == [[1], [3]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,b,c,d\n1,2,3,4\n", "a.csv must have 2 columns of numbers, got 4 columns"),
        ("a\n1\n", "must have 2 columns of numbers, got 1 columns"),
        ("a,b\n1,x\n", "a.csv, line 2, column b: a finite number expected"),
        ("a,b\n1,nan\n", "a finite number expected that float32 can hold, got 'nan'"),
        ("a,b\n1,2\n3\n", "a.csv, line 3: 2 columns expected, got 1"),
        ("1,2\n3,4\n", "a.csv needs a header, numbers and one or more rows"),
        ("a,b\n", "needs a header, numbers and one or more rows"),
    ],
)
def test_inputs_of_a_csv_that_do_not_fit(tmp_path, text, reason):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(DataError, match=reason):
        inputs_from_csv(tmp_path / "a.csv", 2)


def test_inputs_of_an_npz_need_no_labels(tmp_path):
    images = np.arange(2 * 4 * 5, dtype=np.uint8).reshape(2, 4, 5)
    np.savez(tmp_path / "i.npz", images=images)
    np.savez(tmp_path / "f.npz", features=np.eye(3), labels=[0, 0, 0])
    assert inputs_from_npz(tmp_path / "i.npz").tolist() == images[:, None].tolist()
    assert inputs_from_npz(tmp_path / "f.npz").tolist() == np.eye(3).tolist()


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"labels": [0, 1]}, "a.npz must hold images or features, got labels"),
        ({"images": np.full((2, 4, 4), np.nan)}, "images must be uint8 0..255, got float64 with NaN"),
        ({"features": np.full((2, 4), np.nan)}, "features must be finite, got NaN or infinity"),
        ({"features": np.zeros(4)}, r"features must be \(N, F\), got \(4,\)"),
        ({"features": np.array(["a"])}, "features must be numbers"),
    ],
)
def test_inputs_of_an_npz_that_do_not_fit(tmp_path, arrays, reason):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=reason):
        inputs_from_npz(tmp_path / "a.npz")
