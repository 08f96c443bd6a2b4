"""What starting costs: import evidentia beside import torch, and the command line's help.

python -m benchmarks.startup
"""

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

REPETITIONS = 7
PUBLIC = "import evidentia as ev; [getattr(ev, name) for name in ev.__all__]"


def seconds(*command: str) -> float:
    """How long one process takes."""
    start = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - start


def main() -> None:
    """Measure in turns, print the medians."""
    script = shutil.which("evidentia", path=str(Path(sys.executable).parent)) or "evidentia"
    commands = {
        "import torch": (sys.executable, "-c", "import torch"),
        "import torch, evidentia": (sys.executable, "-c", "import torch, evidentia"),
        "... and use every public name": (sys.executable, "-c", PUBLIC),
        "evidentia --help": (script, "--help"),
    }
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(REPETITIONS):
        for name, command in commands.items():
            times[name].append(seconds(*command))
    torch = statistics.median(times["import torch"])
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:32s} {median:6.2f} s   {median - torch:+6.2f} s against import torch")


if __name__ == "__main__":
    main()
