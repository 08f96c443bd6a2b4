"""A data set of one file, and sources in memory, to fetch from in tests."""

import hashlib
import struct
import zlib

from nescio.data._catalog import Entry, File

CONTENT = b"the right bytes " * 1000
WANTED = {"file": len(CONTENT)}


class Fixed:
    """A source that delivers what it is told to."""

    def __init__(self, content=CONTENT, label="a fixed source", error=None, needs_network=True):
        self.content, self.label, self.error, self.asked = content, label, error, 0
        self.needs_network = needs_network

    def deliver(self, wanted, folder, report):
        self.asked += 1
        for name in wanted:
            (folder / name).write_bytes(self.content)
        if self.error:
            raise self.error


def entry(*from_sources, name="made", **more):
    file = File("file", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    return Entry(name, "", 1, "", ("a", "b"), {"train": (file,)}, tuple(from_sources), **more)


def left_in(cache):
    """All files but the locks, which stay."""
    return sorted(p.name for p in cache.rglob("*") if p.is_file() and p.parent.name != ".locks")


def png_chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def raw_png(width, height, colour, packed):
    """A PNG with good checksums around whatever stands for its pixels; colour 0 is grey, 2 is RGB."""
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", packed), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, body) for kind, body in chunks)


def huge_png(width=50_000, height=50_000):
    return raw_png(width, height, 2, b"")
