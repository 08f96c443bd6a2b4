"""Training on a folder of pictures that does not fit into memory, against the same pictures resident.

python -m benchmarks.pictures make FOLDER [COUNT]    COUNT pictures (20,000) of varied sizes, ten classes
python -m benchmarks.pictures measure FOLDER         epoch times, memory and decoding; ends with 1 where a
                                                     limit is not kept
python -m benchmarks.pictures kill FOLDER            killed while pictures are decoded and while it trains, a
                                                     training must end with the weights of one left alone

The streamed training runs in a process of its own whose private memory the system limits to 2 GB
(RLIMIT_DATA: the heap and every writable private mapping, threads' stacks included). The network is small, so
that an epoch is mostly reading: with a larger one, where the pictures lie matters less.
"""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from PIL import Image
from torch import nn

from nescio.data import Dataset, StoredArray, load, open_source
from nescio.errors import FetchError
from nescio.inference.model import TrainedModel
from nescio.training import TrainingSettings

SIZE = 256
EPOCHS = 2  # the least that shows a second one, and leaves one to go on with
ROUNDS = 2
LIMIT = 2 * 2**30  # bytes of private memory of the streamed training
LEAST_SPEED = 0.8  # of the resident training's
CLASSES = 10
SIDES = (160, 480)  # of the pictures, least and greatest


def small_images(count: int) -> tuple[np.ndarray, np.ndarray]:
    """CIFAR-10 where it can be had, else noise: uint8 (N, 32, 32, 3), and labels (N,)."""
    try:
        data = load("cifar10", "train")
    except FetchError:
        random = np.random.default_rng(0)
        return random.integers(0, 256, (count, 32, 32, 3), dtype=np.uint8), np.arange(count) % CLASSES
    images = data.images[:].permute(0, 2, 3, 1).numpy()
    places = np.arange(count) % len(images)
    return images[places], data.labels.numpy()[places]


def make(folder: Path, count: int) -> None:
    """Enlarge small images to varied sizes, three quarters of them as JPEG and the others as PNG."""
    images, labels = small_images(count)
    for label in range(CLASSES):
        (folder / str(label)).mkdir(parents=True, exist_ok=True)
    tasks = [range(first, min(first + 250, count)) for first in range(0, count, 250)]
    Parallel(n_jobs=-1)(
        delayed(_make_some)(
            folder, images[task.start : task.stop], labels[task.start : task.stop], task.start
        )
        for task in tasks
    )
    print(f"{count:,} pictures in {folder}")


def _make_some(folder: Path, images: np.ndarray, labels: np.ndarray, first: int) -> None:
    random = np.random.default_rng(first)
    for index, (image, label) in enumerate(zip(images, labels, strict=True), start=first):
        height, width = random.integers(SIDES[0], SIDES[1] + 1, 2)
        large = Image.fromarray(image).resize((int(width), int(height)), Image.Resampling.BICUBIC)
        noisy = np.asarray(large, np.int16) + random.integers(-6, 7, (height, width, 1))
        picture = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
        if index % 4:
            picture.save(folder / str(label) / f"{index:06}.jpg", quality=85)
        else:
            picture.save(folder / str(label) / f"{index:06}.png", compress_level=1)


def network() -> nn.Module:
    """A few convolutions with large strides."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 8, stride=8),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, CLASSES),
    )


def opened(folder: Path, size: int) -> Dataset:
    """The pictures as training reads them."""
    data = open_source(folder, size=size, resize="crop").labelled()
    assert isinstance(data, Dataset)
    return data


def train(data: Dataset, run_dir: Path | None = None) -> dict[str, Any]:
    """Train, and say how long the epochs took, how much memory was used, and how good the last one was."""
    torch.manual_seed(0)
    settings = TrainingSettings(epochs=EPOCHS, batch_size=128, precision="float32")
    start = time.process_time()
    model = TrainedModel.train(data, network=network(), settings=settings, run_dir=run_dir)
    cpu_seconds = time.process_time() - start
    history = model.training["history"]
    weights = torch.cat([parameter.detach().flatten() for parameter in model.module.parameters()])
    return {
        "seconds": [epoch["seconds"] for epoch in history],
        "cpu_seconds": cpu_seconds / EPOCHS,
        "accuracy": history[-1]["accuracy"],
        "weights": hashlib.sha256(weights.numpy().tobytes()).hexdigest(),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def train_streamed(folder: Path, size: int) -> None:
    """In a process of its own, under the limit: open the folder twice and train. Prints JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    opening = []
    for _ in range(2):
        start = time.perf_counter()
        data = opened(folder, size)
        opening.append(time.perf_counter() - start)
    assert isinstance(data.images, StoredArray), "the folder is too small: its pictures are held in memory"
    written = _cache_state()
    found = train(data)
    print(json.dumps({**found, "opening": opening, "decoded_again": _cache_state() != written}))


def train_in_run_folder(folder: Path, size: int, run_dir: Path) -> None:
    """In a process of its own, under the limit: as users train, who may have to start again. Prints JSON."""
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    print(json.dumps(train(opened(folder, size), run_dir)))


def train_resident(folder: Path, size: int) -> None:
    """In a process of its own, without a limit: the same pictures in memory. Prints JSON."""
    data = opened(folder, size)
    print(json.dumps(train(replace(data, images=data.images[:]))))


def _cache_state() -> list[tuple[str, int]]:
    """Every file of the cache with its time of change."""
    cache = Path(os.environ["NESCIO_CACHE"])
    return sorted((str(path), path.stat().st_mtime_ns) for path in cache.rglob("*.npy"))


def run(what: str, folder: Path, size: int, cache: Path) -> dict[str, Any]:
    """One training in a process of its own; what it printed."""
    command = [sys.executable, "-m", "benchmarks.pictures", what, str(folder), str(size)]
    environment = {**os.environ, "NESCIO_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def kill(folder: Path, size: int) -> bool:
    """Whether a training that is killed twice ends with the same weights as one that is left alone."""
    with tempfile.TemporaryDirectory(prefix="benchmark-kill-") as place:
        alone = _finished(_started(folder, size, Path(place, "alone")))
        print("left alone", json.dumps(alone), flush=True)
        killed = Path(place, "killed")
        process = _started(folder, size, killed)
        rows = _kill_when(process, lambda: _rows_kept(killed / "cache"))
        print(f"killed while pictures were decoded: {rows:,} of them are kept", flush=True)
        process = _started(folder, size, killed)
        epochs = _kill_when(process, lambda: _epochs_done(killed / "run"))
        print(f"killed while it trained: {epochs} of {EPOCHS} epochs are kept", flush=True)
        resumed = _finished(_started(folder, size, killed))
        print("started again", json.dumps(resumed), flush=True)
    is_same: bool = alone["weights"] == resumed["weights"]
    return is_same


def _started(folder: Path, size: int, place: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "benchmarks.pictures", "run", str(folder), str(size), str(place / "run")]
    environment = {**os.environ, "NESCIO_CACHE": str(place / "cache")}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def _finished(process: subprocess.Popen[str]) -> dict[str, Any]:
    printed, _ = process.communicate()
    assert process.returncode == 0, f"a training ended with {process.returncode}"
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def _kill_when(process: subprocess.Popen[str], progress: Callable[[], int]) -> int:
    """Kill a process without a warning once there is some progress; returns how much there was."""
    done = 0
    while done == 0:
        assert process.poll() is None, "the training ended before it could be killed; make more pictures"
        time.sleep(0.05)
        done = progress()
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Not read to its end: the workers that decoded for it have it open too, and leave minutes later.
    assert process.stdout is not None
    process.stdout.close()
    return done


def _rows_kept(cache: Path) -> int:
    """How many pictures of a cache that is being written are safe."""
    for record in cache.rglob("*.npy.part.json"):
        kept: int = json.loads(record.read_text())["rows"]
        return kept
    return 0


def _epochs_done(run_dir: Path) -> int:
    metrics = run_dir / "metrics.jsonl"
    return len(metrics.read_text().splitlines()) if metrics.exists() else 0


def measure(folder: Path, size: int = SIZE) -> dict[str, Any]:
    """Both trainings in turn, with a cache of their own; the quickest epoch of each counts.

    Whatever else runs on the machine slows some epochs down, and rarely all of them.
    """
    seconds: dict[str, list[float]] = {"streamed": [], "resident": []}
    cpu_seconds: dict[str, list[float]] = {"streamed": [], "resident": []}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="benchmark-cache-") as cache:
        for _ in range(ROUNDS):
            for what in seconds:
                one = run(what, folder, size, Path(cache))
                print(what, json.dumps(one), flush=True)
                seconds[what] += one["seconds"]
                cpu_seconds[what].append(one["cpu_seconds"])
                found.setdefault(what, one)
    found["speed"] = min(seconds["resident"]) / min(seconds["streamed"])
    found["cpu_speed"] = min(cpu_seconds["resident"]) / min(cpu_seconds["streamed"])
    return found


def main() -> None:
    """Make pictures, or measure and end with 1 where a limit is not kept."""
    if len(sys.argv) < 3 or sys.argv[1] not in ("make", "measure", "kill", "streamed", "resident", "run"):
        sys.exit(__doc__)
    what = sys.argv[1]
    folder = Path(sys.argv[2])
    number = int(sys.argv[3]) if len(sys.argv) > 3 else None
    if what == "make":
        make(folder, number or 20_000)
    elif what == "streamed":
        train_streamed(folder, number or SIZE)
    elif what == "resident":
        train_resident(folder, number or SIZE)
    elif what == "run":
        train_in_run_folder(folder, number or SIZE, Path(sys.argv[4]))
    elif what == "kill":
        is_same = kill(folder, number or SIZE)
        print("the same bits" if is_same else "OTHER weights")
        sys.exit(not is_same)
    else:
        found = measure(folder, number or SIZE)
        print(f"speed of the streamed training: {found['speed']:.2f} times the resident one's by the clock, ")
        print(f"{found['cpu_speed']:.2f} times by the processor's time, threads that read ahead included")
        sys.exit(found["streamed"]["decoded_again"] or found["speed"] < LEAST_SPEED)


if __name__ == "__main__":
    main()
