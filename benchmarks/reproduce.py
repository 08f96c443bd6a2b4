"""What `nescio reproduce --preset quick` promises: its time, and the same numbers wherever it runs.

python -m benchmarks.reproduce [FOLDER]

Three runs: here, here again in another process, and on a Ray cluster of two nodes of which one is killed.
Results are kept in the folder, by default a new temporary one; half an hour on two cores.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from nescio.studies.store import PROVENANCE

MOST_MINUTES = 10
QUICK = (str(Path(sys.executable).with_name("nescio")), "reproduce", "--preset", "quick", "--out", "{}")
RAY = (sys.executable, "-m", "tests.studies.two_nodes", "{}", "quick")
RUNS = {"here": QUICK, "again": QUICK, "ray": RAY}


def run(command: tuple[str, ...], folder: Path) -> float:
    """Minutes that a run took."""
    start = time.perf_counter()
    done = subprocess.run(
        [word.format(folder) for word in command], check=True, stdout=subprocess.PIPE, text=True
    )
    if command is RAY and json.loads(done.stdout.splitlines()[-1])["alive"] != 1:
        sys.exit("no node was killed")
    return (time.perf_counter() - start) / 60


def numbers(folder: Path) -> dict[str, dict[str, object]]:
    """Every record, by its name, without when and where it was made."""
    found = {}
    for path in sorted((folder / "store").glob("*.json")):
        record = json.loads(path.read_text())
        del record[PROVENANCE]
        found[path.name] = record
    return found


def main() -> None:
    """Run, compare, print; end with 1 where a promise is missed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    if folder.exists() and any(folder.iterdir()):
        sys.exit(f"{folder} is not empty")
    minutes = {name: run(command, folder / name) for name, command in RUNS.items()}
    results = {name: numbers(folder / name) for name in RUNS}
    print(f"quick: {minutes['here']:.1f} minutes   (at most {MOST_MINUTES})")
    alike = {name: results[name] == results["here"] for name in ("again", "ray")}
    for name, same in alike.items():
        words = "the same numbers" if same else "OTHER NUMBERS"
        print(f"{name}: {len(results[name])} results in {minutes[name]:.1f} minutes, {words}")
    sys.exit(not (minutes["here"] <= MOST_MINUTES and all(alike.values())))


if __name__ == "__main__":
    main()
