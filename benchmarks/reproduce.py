"""What `evidentia reproduce --preset quick` promises: its time, and the same numbers wherever it runs.

python -m benchmarks.reproduce [FOLDER]

Three runs: here, here again in another process, and on a Ray cluster of two nodes of which one is killed.
Results are kept in the folder, by default a new temporary one; half an hour on two cores.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MOST_MINUTES = 10
COMMANDS = {
    "here": ("-m", "evidentia", "reproduce", "--preset", "quick", "--out"),
    "again": ("-m", "evidentia", "reproduce", "--preset", "quick", "--out"),
    "ray": ("-m", "tests.paper.two_nodes"),
}


def run(name: str, folder: Path) -> float:
    """Minutes that a run took."""
    arguments = [sys.executable, *COMMANDS[name], str(folder), *(["quick"] if name == "ray" else [])]
    start = time.perf_counter()
    subprocess.run(arguments, check=True, env={"RAY_DEDUP_LOGS": "0", **os.environ})
    return (time.perf_counter() - start) / 60


def numbers(folder: Path) -> dict[str, object]:
    """Every result, by its name, without when and where it was made."""
    found = {
        path.stem: json.loads(path.read_text()) for path in sorted((folder / "results").glob("*/*.json"))
    }
    return {name: {key: each[key] for key in each if key != "made"} for name, each in found.items()}


def main() -> None:
    """Run, compare, print; end with 1 where a promise is missed."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp())
    minutes = {name: run(name, folder / name) for name in COMMANDS}
    results = {name: numbers(folder / name) for name in COMMANDS}
    print(f"quick: {minutes['here']:.1f} minutes   (at most {MOST_MINUTES})")
    alike = {name: results[name] == results["here"] for name in ("again", "ray")}
    for name, same in alike.items():
        count = len(results[name])
        print(
            f"{name}: {count} results in {minutes[name]:.1f} minutes, {'the same' if same else 'OTHER'} numbers"
        )
    sys.exit(not (minutes["here"] <= MOST_MINUTES and all(alike.values())))


if __name__ == "__main__":
    main()
