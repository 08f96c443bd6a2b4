"""What becomes of work that is killed, and of files that somebody changed.

python -m benchmarks.faults [--kills N] [--files N] [--only PART ...] [--out FILE.json]

By default 100 kills each of a training, of saving, of predicting in bulk and of a study: same bits, same
rows, same results, nothing left behind. And 5,000 model files and 5,000 data files with something changed:
nescio's own errors alone, none after more than 5 s of the processor or with more than 1 GB. Ends with 1 where
something else is found. The same numbers make the same files; moments of kills differ with the machine.
"""

import argparse
import collections
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from .faults_files import MUTATED
from .faults_kills import KILLED

SHOWN = 12  # faults of a part that are printed


def report(part: str, done: str, faults: list[str], seconds: float) -> None:
    """One line, and what was found."""
    verdict = f"{len(faults)} FAULTS" if faults else "no fault"
    print(f"{part:20} {done}   {verdict}   ({seconds:.0f} s)", flush=True)
    for fault in faults[:SHOWN]:
        print(f"    {fault}", flush=True)


def run_kills(part: str, count: int, place: Path) -> dict[str, Any]:
    """Kill so often; what came of it."""
    start = time.monotonic()
    result = KILLED[part](count, place)
    done = f"{result.kills} kills, {result.ended} brought to their end"
    report(part, done, result.faults, time.monotonic() - start)
    return {"kills": result.kills, "ended": result.ended, "faults": result.faults}


def run_files(part: str, count: int, place: Path) -> dict[str, Any]:
    """Read so many changed files; what came of it."""
    start = time.monotonic()
    outcomes = MUTATED[part](count, place)
    faults = []
    said: collections.Counter[str] = collections.Counter()
    for outcome in outcomes:
        said[outcome.said if outcome.fault is None else "fault"] += 1
        if outcome.fault is not None:
            faults.append(f"{outcome.number} ({outcome.kind}): {outcome.fault}")
    longest = max(outcome.seconds for outcome in outcomes)
    most = max(outcome.megabytes for outcome in outcomes)
    done = (
        f"{len(outcomes)} files: {said['refused']} refused, {said['answer']} answered; "
        f"longest {longest:.2f} s, most {most:.0f} MB"
    )
    report(f"mutated {part}", done, faults, time.monotonic() - start)
    return {"files": len(outcomes), **said, "longest": longest, "megabytes": most, "faults": faults}


def main() -> None:
    """Run all parts, print a line for each, write JSON; end with 1 where there was a fault."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--only", nargs="+", choices=[*KILLED, *MUTATED], default=[*KILLED, *MUTATED])
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/faults.json"))
    given = parser.parse_args()
    torch.set_num_threads(1)  # a process with threads of its own can't be forked
    results: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for part in given.only:
            place = Path(folder) / part.replace(" ", "-")
            if part in KILLED:
                results[part] = run_kills(part, given.kills, place)
            else:
                results[part] = run_files(part, given.files, place)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps({"torch": torch.__version__, "parts": results}, indent=1) + "\n")
    sys.exit(any(result["faults"] for result in results.values()))


if __name__ == "__main__":
    main()
