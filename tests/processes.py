"""What became of other processes, asked in a way that Linux and macOS answer alike."""

import subprocess


def is_running(pid):
    """Whether a process is there, and not dead and only not yet collected."""
    asked = ["ps", "-o", "stat=", "-p", str(pid)]
    state = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return state != "" and not state.startswith("Z")
