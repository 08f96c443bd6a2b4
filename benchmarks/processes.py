"""Memory of a training on two processes, against one.

python -m benchmarks.processes [MB]    a training on MB (240) megabytes by `nescio train` in one process,
                                       and in two that torchrun starts; ends with 1 where one of the two needs
                                       more than 60 % of what one alone needs at most

240 MB is what one process holds in memory just yet; two read it from the disk. What does not depend on
the data, Python and torch themselves, is printed too: every process has it, so that with few data no share
of 60 % can be had.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

FEATURES = 1280
CLASSES = 10
LARGEST_SHARE = 0.6
PROCESSES = 2
_PEAKS = "NESCIO_PEAKS"  # where the processes of a training write theirs


def make_rows(path: Path, megabytes: int) -> None:
    """Rows of ten classes, with a little noise, as an .npz file without compression."""
    random = np.random.default_rng(0)
    count = megabytes * 2**20 // (4 * FEATURES)
    labels = np.arange(count) % CLASSES
    centres = random.normal(size=(CLASSES, FEATURES)).astype(np.float32)
    rows = centres[labels]
    for first in range(0, count, 1000):
        noise = random.normal(size=(min(1000, count - first), FEATURES))
        rows[first : first + 1000] += 0.5 * noise.astype(np.float32)
    np.savez(path, features=rows, labels=labels)


def train_and_say_peak(words: list[str]) -> None:
    """Run the command line in this process; its greatest memory is written under its number."""
    from nescio.cli.app import main as run_command_line

    try:
        sys.argv = ["nescio", *words]
        run_command_line()
    finally:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        Path(os.environ[_PEAKS], os.environ.get("RANK", "0")).write_text(str(peak))


def peaks_of(start: list[str], words: list[str], folder: Path) -> list[float]:
    """The greatest memory of each process of a training, in MB."""
    peaks = folder / "peaks"
    peaks.mkdir()
    environment = {**os.environ, _PEAKS: str(peaks), "NESCIO_CACHE": str(folder / "cache")}
    subprocess.run([*start, "-m", "benchmarks.processes", "child", *words], env=environment, check=True)
    return [float(path.read_text()) for path in sorted(peaks.iterdir())]


def memory_without_data() -> float:
    """What a process has that has read nothing yet, in MB."""
    code = "import resource, nescio.cli.app, nescio.inference.model, lightning_fabric; "
    code += "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    return float(subprocess.check_output([sys.executable, "-c", code], text=True))


def measure(megabytes: int) -> dict[str, object]:
    """Both trainings, one after the other."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(PROCESSES)]
    found: dict[str, object] = {"data_mb": megabytes, "without_data_mb": memory_without_data()}
    with tempfile.TemporaryDirectory(prefix="benchmark-processes-") as place:
        data = Path(place, "rows.npz")
        make_rows(data, megabytes)
        for name, start in (("one", [sys.executable]), ("two", torchrun)):
            folder = Path(place, name)
            folder.mkdir()
            words = ["train", str(data), "--out", str(folder / "run"), "--epochs", "1"]
            found[name] = peaks_of(start, words, folder)
    return found


def main() -> None:
    """Measure, and end with 1 where the share is too large."""
    if sys.argv[1:2] == ["child"]:
        train_and_say_peak(sys.argv[2:])
        return
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 240
    found = measure(megabytes)
    print(json.dumps(found))
    share = max(found["two"]) / found["one"][0]  # type: ignore[call-overload, index]
    print(f"a process of two needs at most {share:.0%} of the memory of one alone")
    sys.exit(share > LARGEST_SHARE)


if __name__ == "__main__":
    main()
