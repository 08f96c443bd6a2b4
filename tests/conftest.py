import json
import os

import pytest

# Some virtual machines announce AMX instructions that end the process: the tests of bfloat16 do without.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
os.environ.setdefault("SCIPY_ARRAY_API", "1")  # before scipy loads, or scikit-learn skips one of its checks

import torch

# Another package: tests/test_plugin.py installs it and runs its tests.
collect_ignore = ["plugin_package"]


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory):
    """One cache for the whole run: the tests neither trust nor fill the user's own.

    It says that bfloat16 does not pay here: otherwise a trial would decide by its speed, differently on a
    busy machine, in which precision the trainings of the tests run.
    """
    folder = tmp_path_factory.mktemp("cache")
    conditions = {"torch": torch.__version__, "limit": os.environ["ONEDNN_MAX_CPU_ISA"]}
    answer = {"conditions": conditions, "answer": "slower"}
    (folder / "bfloat16.json").write_text(json.dumps(answer))
    return folder


@pytest.fixture(autouse=True)
def _own_cache(session_cache, monkeypatch):
    monkeypatch.setenv("NESCIO_CACHE", str(session_cache))
    monkeypatch.delenv("NESCIO_DATA", raising=False)


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    folder = tmp_path / "empty-cache"
    monkeypatch.setenv("NESCIO_CACHE", str(folder))
    return folder


@pytest.fixture
def registry():
    """A network test fails where CI is set; elsewhere a machine without a network skips it."""

    def out_of_reach(reason: str) -> None:
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

    return out_of_reach
