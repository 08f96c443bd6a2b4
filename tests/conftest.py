import json
import os
import random
import re
import shutil
from pathlib import Path

import pytest

# Some virtual machines announce AMX instructions that end the process: the tests of bfloat16 do without.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before scipy loads, or scikit-learn skips one of its checks

# Beside other workers one has one thread, and so have the programs that it starts.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch loads, which reads it once

import hypothesis
import numpy as np
import torch
from coverage import Coverage

# The same examples in every run and no deadline, as Hypothesis has it by itself where CI is set.
hypothesis.settings.load_profile("ci")

# Another package: tests/test_plugin.py installs it and runs its tests.
collect_ignore = ["plugin_package"]
# Folders whose tests share a fixture of the session that takes long to compute: a study, a demo.
TOGETHER = ("tests/studies/", "tests/demo/")
SLOWEST = (
    "studies/test_runner.py",
    "_kernels/test_traced.py",
    "inference/test_bulk.py",
    "inference/test_calibration.py",
    "posthoc/test_abstention.py",
    "tests/test_plugin.py",
    "training/test_run.py",
    "training/test_loop.py",
    "serve/test_page.py",
    "cli/test_reproduce.py",
    "methods/test_contract.py",
    "integrations/test_sklearn.py",
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def pytest_collection_modifyitems(config, items):
    """The slowest files go first: one that begins last is waited for by an idle worker."""
    if config.pluginmanager.has_plugin("xdist"):
        items.sort(key=lambda item: not item.path.as_posix().endswith(SLOWEST))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With `--dist loadfile`, the tests of a file go to one worker, and so do those of some folders.

    Not by `--dist loadgroup`: xdist 3.8 marks the groups in a field that pytest 9.2 no longer reads, and
    silently sends each test by itself, so that both workers set up what a file shares.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileOrFolder(LoadFileScheduling):
        def _split_scope(self, nodeid):
            shared = (folder for folder in TOGETHER if nodeid.startswith(folder))
            return next(shared, super()._split_scope(nodeid))

    return ByFileOrFolder(config, log)


def pytest_addoption(parser):
    parser.addoption(
        "--cov-within",
        action="append",
        default=[],
        metavar="PATH",
        help="with --cov: measure only in tests below this path, and in imports; may be repeated",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Stop measuring the coverage in a test where nobody asked for it: measured, most take twice as long.

    By `unmeasured`, not by the mark of pytest-cov, `no_cover`: in a worker of xdist, pytest-cov starts two
    measurements, one within the other, and stops one of them.
    """
    paths = [Path(path).resolve() for path in item.config.getoption("cov_within")]
    is_within = not paths or any(path in (item.path, *item.path.parents) for path in paths)
    stopped = []
    if not is_within or item.get_closest_marker("unmeasured"):
        while measuring := Coverage.current():
            measuring.stop()
            stopped.append(measuring)
    try:
        return (yield)
    finally:
        for measuring in reversed(stopped):
            measuring.start()


def _fix_seeds():
    """Start the global generators afresh: weights that a test draws are the same in every run."""
    random.seed(0)
    np.random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed asks for GPUs too, slowly


def pytest_collectstart(collector):
    """What a module draws when it is imported does not depend on those imported before."""
    if isinstance(collector, pytest.Module):
        _fix_seeds()


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef):
    """A fixture that several tests share does not depend on which of them is the first."""
    if fixturedef.scope != "function":
        _fix_seeds()


@pytest.fixture(autouse=True)
def _fixed_seeds():
    """Every test draws the same, whatever ran before it in its worker."""
    _fix_seeds()


@pytest.fixture(scope="session", autouse=True)
def session_cache(tmp_path_factory):
    """One cache for the whole run: the tests neither trust nor fill the user's own.

    Set before any other fixture, as those of a session or a module load data and train too. It says that
    bfloat16 does not pay here: otherwise a trial would decide by its speed, differently on a busy machine, in
    which precision the trainings of the tests run.
    """
    from nescio.training._runtime import SLOWER, bfloat16_conditions

    folder = tmp_path_factory.mktemp("cache")
    answer = {"conditions": bfloat16_conditions(), "answer": SLOWER}
    (folder / "bfloat16.json").write_text(json.dumps(answer))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NESCIO_CACHE", str(folder))
        patch.delenv("NESCIO_DATA", raising=False)
        yield folder


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    folder = tmp_path / "empty-cache"
    monkeypatch.setenv("NESCIO_CACHE", str(folder))
    return folder


# What is said where a registry is out of reach: by ourselves, by pip, npm and apt.
OUT_OF_REACH = re.compile(
    r"can't be reached|no answer within|not done within|is not installed here|5\d\d Server Error"
    r"|from versions: none|No matching distribution"
    r"|ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|npm (error|ERR!) network"
    r"|Unable to locate package|Could not resolve|Failed to fetch"
)


def is_out_of_reach(reason):
    """Whether nothing but the network is to blame; of several origins that were tried, for each of them."""
    tried = [line for line in reason.splitlines() if line.startswith("  - ")]
    return all(OUT_OF_REACH.search(text) for text in tried or [reason])


@pytest.fixture
def registry():
    """A network test fails where CI is set; elsewhere a machine without a network skips it.

    What fails for another reason, such as a package with other bytes than it should have, fails anywhere.
    """

    def not_had(reason: str) -> None:
        if os.environ.get("CI") or not is_out_of_reach(reason):
            pytest.fail(reason)
        pytest.skip(reason)

    return not_had


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
