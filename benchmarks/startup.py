"""What starting costs: import nescio beside import torch, and the command line's help.

python -m benchmarks.startup
"""

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPETITIONS = 7
MOST_OVER_TORCH, MOST_FOR_HELP = 0.3, 0.5
PUBLIC = "import nescio as ev; [getattr(ev, name) for name in ev.__all__]"


def seconds(*command: str) -> float:
    """How long one process takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure in turns, print the medians, fail where one is over its limit."""
    script = shutil.which("nescio", path=str(Path(sys.executable).parent)) or "nescio"
    commands = {
        "import torch": (sys.executable, "-c", "import torch"),
        "import torch, nescio": (sys.executable, "-c", "import torch, nescio"),
        "... and use every public name": (sys.executable, "-c", PUBLIC),
        "nescio --help": (script, "--help"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPETITIONS):
        for name, command in commands.items():
            times[name].append(seconds(*command))
    medians = {name: statistics.median(measured) for name, measured in times.items()}
    torch = medians["import torch"]
    for name, median in medians.items():
        print(f"{name:32s} {median:6.2f} s   {median - torch:+6.2f} s against import torch")
    over, answer = medians["import torch, nescio"] - torch, medians["nescio --help"]
    print(f"limits: {MOST_OVER_TORCH} s over import torch, {MOST_FOR_HELP} s for --help")
    if over > MOST_OVER_TORCH or answer > MOST_FOR_HELP:
        sys.exit(1)


if __name__ == "__main__":
    main()
