"""Forms: what is in them, and what they may cost."""

import time

import pytest

from nescio.serve import _forms
from nescio.serve._errors import RequestError
from nescio.serve._forms import parse_parts

FORM = "multipart/form-data; boundary=x"


def part(head, content):
    return b"--x\r\n%b\r\n\r\n%b\r\n" % (head, content)


def field(content, name=b"models"):
    return part(b'Content-Disposition: form-data; name="%b"' % name, content)


def file(content, name=b"a.png"):
    return part(b'content-disposition: form-data; name="files"; filename="%b"' % name, content)


def test_fields_and_files_come_in_their_order():
    content = bytes(range(256)) * 300 + b"\r\n--y"  # what looks like a boundary is none
    body = field(b"edl") + file(content, "gr\u00fcn.png".encode()) + file(b"") + b"--x--\r\n"
    parts = parse_parts(FORM, body, max_files=2)
    assert [(one.name, one.file_name, one.content) for one in parts] == [
        ("models", None, b"edl"),
        ("files", "gr\u00fcn.png", content),
        ("files", "a.png", b""),
    ]


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", '"utf-8"'])
def test_utf8_by_any_of_its_names(charset):
    (one,) = parse_parts(f"{FORM}; charset={charset}", field(b"edl") + b"--x--\r\n", max_files=1)
    assert one.content == b"edl"


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "idna", "undefined", "no-such", "zip", "\u00e9"])
def test_another_charset_is_refused_at_once(charset):
    body = field(b"a" * 2_000_000) + b"--x--\r\n"
    start = time.process_time()
    with pytest.raises(RequestError, match="say charset=utf-8, or nothing") as refused:
        parse_parts(f"{FORM}; charset={charset}", body, max_files=1)
    assert refused.value.status == 400
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (field(b"a" * (_forms.MAX_FIELD + 1)), 413, "a field of more than 1,024 bytes"),
        (field(b"a") * (_forms.MAX_FIELDS + 1), 422, "too many fields; at most 1,000"),
        (file(b"a") * 3, 422, "there must be 1 to 2 inputs, got more"),
        (part(b"x-long: " + b"a" * 4000 + b"\r\nx-other: " + b"a" * 4200, b""), 400, "form"),
        (part(b"x-other: 1", b""), 400, "a part without a name"),
        (b"no form at all", 400, "no multipart/form-data"),
    ],
)
def test_what_is_too_much_or_no_form(body, status, words):
    with pytest.raises(RequestError, match=words) as refused:
        parse_parts(FORM, body + b"--x--\r\n", max_files=2)
    assert refused.value.status == status
