import pytest

from nescio.data._encodings import decode, looks_binary
from nescio.errors import DataError, NescioWarning


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_what_says_its_encoding_or_needs_not(encoding):
    assert decode("Käse für 3 €".encode(encoding), "a.txt") == "Käse für 3 €"


def test_what_is_no_utf_8_is_latin_1_and_said():
    with pytest.warns(NescioWarning, match=r"a\.txt is not in UTF-8 and is read as Latin-1"):
        assert decode("Käse “3 €”".encode("cp1252"), "a.txt") == "Käse “3 €”"
    with pytest.warns(NescioWarning, match="read as Latin-1"):
        assert decode(b"K\xe4se\x81", "a.txt") == "Käse\x81"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x89PNG\0\0", b"\xff\xfe\0\0\1"])
def test_what_is_no_text(content):
    with pytest.raises(DataError, match=r"a\.txt can't be read"):
        decode(content, "a.txt")


def test_a_look_at_the_beginning():
    assert not looks_binary(b"")
    assert not looks_binary("Käse".encode("utf-16"))
    assert not looks_binary(b"K\xe4se")
    assert looks_binary(b"\x89PNG")
    assert looks_binary(b"BM\x36\0\0")
