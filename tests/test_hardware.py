import platform
from pathlib import Path

import pytest

from nescio._hardware import processor_name


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("processor: 0\nmodel name\t: Fast CPU: 9\nmodel name\t: other\n", "Fast CPU: 9"),
        ("cpu : 0\n", "arch"),
    ],
)
def test_the_name_of_the_processor(monkeypatch, content, name):
    monkeypatch.setattr(Path, "read_text", lambda self: content)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "arch")
    assert processor_name() == name


def test_a_system_that_does_not_tell(monkeypatch):
    def refuse(self):
        raise OSError

    monkeypatch.setattr(Path, "read_text", refuse)
    monkeypatch.setattr(platform, "processor", lambda: "some")
    assert processor_name() == "some"
