"""Mutated files: models and data, for `python -m benchmarks.faults`.

Each mutation is decided by its number. It is read in a fork of this process; what may come is an answer or
one of nescio's own errors, in a few seconds and with little memory, and no warning of anybody else's.
"""

import copy
import io
import json
import math
import os
import random
import re
import resource
import signal
import struct
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image

from nescio._files import read_tensors, write_tensors
from nescio.data import Dataset, ImagePreprocess, open_source
from nescio.encoders import LeNetSpec, MLPSpec
from nescio.errors import NescioError, NescioWarning
from nescio.inference.model import TrainedModel
from nescio.training import TrainingSettings

from .faults_kills import rows

MOST_SECONDS = 5.0  # of the processor, for one file
MOST_BYTES = 1_000_000_000  # beyond what the process had
HANGS_AFTER = 120.0  # seconds on the wall: a process that waits uses no processor
BATCH = 40  # files that a process reads: to start one takes longer than to read a file
TABLE_METHODS = ("edl", "softmax", "dropout", "ensemble", "edl-ensemble", "natpn", "daedl", "f-edl")
IMAGE_METHODS = ("edl", "ffgu")

NASTY: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2, 7, 1000, 10**6, 10**9, 10**18, 10**30, -(10**9)),
    *(0.5, -0.5, 1e-300, 1e300, math.nan, math.inf, -math.inf),
    *("", "x", "x" * 10_000, "\0", "\ud800", "../../etc", "auto", "edl", "softmax", "lenet", "mlp"),
    *([], {}, [0], [1, 2, 3], [[1]], [None], ["a", "a"], {"name": "edl"}, {"kind": "mlp"}, list(range(3000))),
    [[[[[[[[]]]]]]]],
)


class Outcome(NamedTuple):
    """Of one mutated file."""

    number: int
    kind: str
    said: str  # "answer", "refused", or what came instead
    seconds: float
    megabytes: float

    @property
    def fault(self) -> str | None:
        """What is wrong with it; None for nothing."""
        if self.said not in ("answer", "refused"):
            return self.said
        if self.seconds > MOST_SECONDS:
            return f"{self.seconds:.1f} s"
        if self.megabytes * 1e6 > MOST_BYTES:
            return f"{self.megabytes:.0f} MB"
        return None


class Mutated(NamedTuple):
    """How a number becomes a file, and how that is read."""

    write: Callable[[int, Path], tuple[str, Path]]  # gives the kind of mutation and the file
    read: Callable[[Path], None]


def damaged(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Bytes with something done to them."""
    kind = chance.choice(("flip", "cut", "remove", "repeat", "insert", "numbers", "zeros"))
    data = bytearray(content)
    first = chance.randrange(len(data))
    length = min(len(data) - first, chance.choice((1, 2, 4, 8, 64, 1024)))
    if kind == "flip":
        for _ in range(chance.choice((1, 1, 2, 8, 64))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    elif kind == "cut":
        del data[first:]
    elif kind == "remove":
        del data[first : first + length]
    elif kind == "repeat":
        data[first:first] = data[first : first + length] * chance.choice((1, 3, 100))
    elif kind == "insert":
        data[first:first] = chance.randbytes(length)
    elif kind == "zeros":
        data[first : first + length] = bytes(length) if chance.random() < 0.5 else b"\xff" * length
    else:
        large = chance.choice(
            (b"99999999", b"-1", b"1e999", b"nan", b"0", b"9" * 5000, b"18446744073709551616")
        )
        places = [match.span() for match in re.finditer(rb"[0-9]+", bytes(data[: 1 << 16]))]
        if places:
            begin, end = chance.choice(places)
            data[begin:end] = large
    return kind, bytes(data)


class Models:
    """Model files of several methods, with rules, sets, temperature and trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        settings = TrainingSettings(epochs=1, batch_size=64, device="cpu")
        table = rows(240)
        self.files: list[Path] = []
        for name in TABLE_METHODS:
            model = TrainedModel.train(table, name, MLPSpec(4, 3, (8,), dropout=0.2), settings)
            if name in ("edl", "softmax"):
                model = model.calibrated(table, rows(150, seed=5), "all")
            self.files.append(folder / f"{name}.safetensors")
            model.save(self.files[-1])
        pixels = torch.randint(0, 256, (60, 1, 12, 12), generator=torch.Generator().manual_seed(0))
        images = Dataset(pixels.to(torch.uint8), torch.arange(60) % 2, ("even", "odd"), "made")
        for name in IMAGE_METHODS:
            spec = LeNetSpec(height=12, width=12, num_classes=2, filters=(2, 2), hidden=4, padding="same")
            model = TrainedModel.train(images, name, spec, settings)
            self.files.append(folder / f"images-{name}.safetensors")
            model.save(self.files[-1])

    def write(self, number: int, folder: Path) -> tuple[str, Path]:
        """Bytes, header or tensors of one of the models changed; the digest of the last two fits."""
        chance = random.Random(number)
        source = chance.choice(self.files)
        path = folder / "m.safetensors"
        if number % 3 == 0:
            kind, content = damaged(source.read_bytes(), chance)
            path.write_bytes(content)
            return f"bytes: {kind}", path
        tensors, header = read_tensors(source)
        if number % 3 == 1:
            kind = "header"
            header = copy.deepcopy(header)
            for _ in range(chance.choice((1, 1, 2, 4))):
                change_somewhere(header, chance)
        else:
            kind = change_tensors(tensors, chance)
        write_tensors(path, tensors, header)
        return f"{source.stem}: {kind}", path

    def read(self, path: Path) -> None:
        """Load it and ask it."""
        model = TrainedModel.load(path)
        model.predict(torch.zeros(2, *model.preprocess.input_shape))


def change_somewhere(tree: Any, chance: random.Random) -> None:
    """One place of a nested header: replaced, removed, doubled or grown."""
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        if not keys:
            return
        key = chance.choice(keys)
        inner = tree[key]
        if not isinstance(inner, dict | list) or not inner or chance.random() < 0.25:
            break
        tree = inner
    what = chance.random()
    if what < 0.15:
        del tree[key]
    elif what < 0.3 and isinstance(inner, int | float) and not isinstance(inner, bool):
        tree[key] = inner * chance.choice((-1, 2, 10, 1000, 10**6))
    elif what < 0.4 and isinstance(inner, list):
        tree[key] = inner * chance.choice((0, 2, 1000))
    else:
        tree[key] = chance.choice(NASTY)


def change_tensors(tensors: dict[str, torch.Tensor], chance: random.Random) -> str:
    """One tensor of another shape, type or content, gone, or one more."""
    name = chance.choice(sorted(tensors))
    tensor = tensors[name]
    kind = chance.choice(("gone", "more", "shape", "type", "nan", "huge", "empty", "named"))
    if kind == "gone":
        del tensors[name]
    elif kind == "more":
        tensors[f"{name}.more"] = tensor.clone()
    elif kind == "shape":
        tensors[name] = tensor.flatten().repeat(2)
    elif kind == "type":
        types = (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.bool, torch.float8_e4m3fn)
        tensors[name] = tensor.to(chance.choice(types))
    elif kind == "nan":
        tensors[name] = torch.full_like(tensor, math.nan) if tensor.is_floating_point() else -tensor
    elif kind == "huge":
        tensors[name] = (tensor.double() * 1e30).to(tensor.dtype)
    elif kind == "empty":
        tensors[name] = tensor.flatten()[:0]
    else:
        tensors["\u2028" * 3] = tensors.pop(name)
    return f"tensor {kind}"


class Data:
    """Data files of every kind that is read."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        generator = np.random.default_rng(0)
        self.files: list[tuple[str, bytes]] = []
        lines = ["size,colour,weight,label"]
        records = []
        for number in range(60):
            record = {
                "size": round(float(generator.normal()), 3),
                "colour": ("red", "green", "blue")[number % 3],
                "weight": int(generator.integers(100)),
                "label": ("cat", "dog")[number % 2],
            }
            records.append(record)
            lines.append(",".join(str(value) for value in record.values()))
        table = "\n".join(lines) + "\n"
        self.files.append(("rows.csv", table.encode()))
        self.files.append(("rows.tsv", table.replace(",", "\t").encode()))
        self.files.append(("rows.jsonl", "".join(json.dumps(each) + "\n" for each in records).encode()))
        self.files.append(("rows.parquet", _parquet(records)))
        images = generator.integers(0, 256, (20, 8, 8), dtype=np.uint8)
        labels = np.arange(20) % 2
        for name, save in (("stored.npz", np.savez), ("packed.npz", np.savez_compressed)):
            out = io.BytesIO()
            save(out, images=images, labels=labels, classes=np.array(["cat", "dog"]))
            self.files.append((name, out.getvalue()))
        out = io.BytesIO()
        np.save(out, images)
        self.files.append(("rows.npy", out.getvalue()))
        colours = Image.fromarray(generator.integers(0, 256, (40, 30, 3), dtype=np.uint8))
        for name, kind, mode in (
            ("p.png", "PNG", "RGB"),
            ("palette.png", "PNG", "P"),
            ("alpha.png", "PNG", "RGBA"),
            ("p.jpg", "JPEG", "RGB"),
            ("p.bmp", "BMP", "RGB"),
            ("p.webp", "WEBP", "RGB"),
        ):
            out = io.BytesIO()
            colours.convert(mode).save(out, kind)
            self.files.append((name, out.getvalue()))

    def write(self, number: int, folder: Path) -> tuple[str, Path]:
        """Bytes of one of the files changed; of some PNGs the header, with a check sum that fits."""
        chance = random.Random(number)
        name, content = chance.choice(self.files)
        if name.endswith("png") and chance.random() < 0.4:
            kind = "header"
            content = _changed_png(content, chance)
        elif name.endswith((".npz", ".npy")) and chance.random() < 0.3:
            kind = "shape"
            content = _changed_shape(content, chance)
        else:
            kind, content = damaged(content, chance)
        path = folder / name
        path.write_bytes(content)
        return f"{name}: {kind}", path

    def read(self, path: Path) -> None:
        """Open it, read rows, labels and pictures."""
        source = open_source(path)
        source.read(range(min(len(source), 16)))
        if path.suffix in (".png", ".jpg", ".bmp", ".webp"):
            source.prepared(ImagePreprocess((3, 8, 8), (0.0,) * 3, (255.0,) * 3))
            return
        source.fingerprint()
        source.labelled()


def _parquet(records: list[dict[str, Any]]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    out = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), out)
    return out.getvalue()


def _changed_png(content: bytes, chance: random.Random) -> bytes:
    """Another size, depth or kind of colours, and the check sum of that."""
    header = list(struct.unpack(">IIBBBBB", content[16:29]))
    place = chance.randrange(7)
    header[place] = chance.choice((0, 1, 2, 3, 4, 6, 8, 16, 255))
    if place < 2:
        header[place] = chance.choice((0, 1, 8, 1000, 8000, 60_000, 2**31 - 1, 2**32 - 1))
    packed = b"IHDR" + struct.pack(">IIBBBBB", *header)
    return content[:12] + packed + struct.pack(">I", zlib.crc32(packed)) + content[33:]


def _changed_shape(content: bytes, chance: random.Random) -> bytes:
    """Another shape or type in an .npy header, of the same length, wherever one is."""
    old = chance.choice((b"(20, 8, 8)", b"'|u1'", b"'<i8'", b"False", b"'shape'"))
    news = {
        b"(20, 8, 8)": (
            b"(99,9999,)",
            b"(-1, 8, 8)",
            b"(0, 0, 8) ",
            b"()        ",
            b"(9**9**9,)",
            b"(1<<40, 8)",
        ),
        b"'|u1'": (b"'|O1'", b"'<f2'", b"'<M8'", b"'|V9'", b"'|S0'"),
        b"'<i8'": (b"'<U9'", b"'>i8'", b"'<c8'", b"'|O8'"),
        b"False": (b"True ", b"None ", b"'abc'"),
        b"'shape'": (b"'shap3'", b"[[[[[[["),
    }
    return content.replace(old, chance.choice(news[old]))


def read_all(mutated: Mutated, count: int, folder: Path) -> list[Outcome]:
    """Write and read so many mutated files."""
    folder.mkdir(parents=True)
    log = folder / "log.jsonl"
    log.touch()
    outcomes: list[Outcome] = []
    while len(outcomes) < count:
        _batch(mutated, len(outcomes), min(count, len(outcomes) + BATCH), folder, log)
        lines = log.read_text().splitlines()
        log.write_text("")
        for line in lines:
            if line.endswith("]"):
                outcomes.append(Outcome(*json.loads(line)))
        if lines and not lines[-1].endswith("]"):  # begun and not ended
            kind = lines[-1].partition(" ")[2]
            outcomes.append(Outcome(len(outcomes), kind, "the process died or hung", 0.0, 0.0))
    return outcomes


def _batch(mutated: Mutated, first: int, last: int, folder: Path, log: Path) -> None:
    """Read the files of these numbers in a process of its own, which writes what came of each."""
    process = os.fork()
    if process == 0:
        try:
            _read_here(mutated, first, last, folder, log)
        finally:
            os._exit(0)
    end = time.monotonic() + HANGS_AFTER
    size = 0
    while True:
        done, _ = os.waitpid(process, os.WNOHANG)
        if done:
            return
        if log.stat().st_size != size:  # another file
            size = log.stat().st_size
            end = time.monotonic() + HANGS_AFTER
        if time.monotonic() > end:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            return
        time.sleep(0.01)


def _read_here(mutated: Mutated, first: int, last: int, folder: Path, log: Path) -> None:
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 2)  # what libraries print of damaged files
    base = _most_memory()
    with log.open("a", buffering=1) as lines:
        for number in range(first, last):
            kind, path = mutated.write(number, folder)
            lines.write(f"{number} {kind}\n")
            start = time.process_time()
            said = _said_of(mutated.read, path)
            seconds = time.process_time() - start
            grown = _most_memory() - base
            lines.write(json.dumps([number, kind, said, round(seconds, 3), round(grown / 1e6, 1)]) + "\n")
            path.unlink()
            if grown > MOST_BYTES / 2:
                return  # a new process: the most that this one took says nothing of the next file


def _said_of(read: Callable[[Path], None], path: Path) -> str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", NescioWarning)
            read(path)
    except NescioError as error:
        return "refused" if str(error).strip() and "\n" not in str(error) else f"no message: {error!r}"
    except BaseException as error:  # noqa: BLE001 - which is what is looked for
        return f"{type(error).__name__}: {error}"[:300]
    return "answer"


def _most_memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def mutate_models(count: int, place: Path) -> list[Outcome]:
    """Model files."""
    models = Models(place / "originals")
    return read_all(Mutated(models.write, models.read), count, place / "mutated")


def mutate_data(count: int, place: Path) -> list[Outcome]:
    """Data files."""
    data = Data(place / "originals")
    return read_all(Mutated(data.write, data.read), count, place / "mutated")


MUTATED: dict[str, Callable[[int, Path], list[Outcome]]] = {"models": mutate_models, "data": mutate_data}
