"""A real server in a process of its own, and a real browser, for the tests that need them."""

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
START = [sys.executable, "-c", "from nescio.cli.app import main; main()", "serve"]


@contextmanager
def _serving(*models, port=0):
    words = [*START, *map(str, models), "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            told = process.stdout.readline()
            assert " at http://" in told, told
            yield told.split(" at ")[1].split()[0]
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def serving():
    """`nescio serve` until the block ends; gives its address, told once it listens."""
    return _serving


@pytest.fixture(scope="session")
def address(serving):
    """The bundled pair, served."""
    with serving() as there:
        yield there


# Playwright holds an event loop while it runs: with the module it ends, so that others can have theirs.
@pytest.fixture(scope="module")
def browser():
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        reason = f"needs a browser: one of {', '.join(BROWSERS)} (Debian: apt install chromium)"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found)
        yield chromium
        chromium.close()
