import pytest

from nescio._fetch.files import File, FileSet


class Pair(FileSet):
    files = (File("a", "0" * 64, 3), File("b", "1" * 64, 4))


def test_sizes_of_the_files():
    assert Pair().sizes == {"a": 3, "b": 4}
    assert Pair().size == 7


def test_files_must_be_named():
    class Nothing(FileSet):
        pass

    with pytest.raises(TypeError, match="files"):
        Nothing()
