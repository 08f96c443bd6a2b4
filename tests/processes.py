"""Other processes: what they need to import the tests' own modules, and what became of them."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def environment(**more):
    """For a process that imports modules of the tests, wherever pytest was started."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


def is_running(pid):
    """Whether a process is there, and not dead and only not yet collected; Linux and macOS say it alike."""
    asked = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")
