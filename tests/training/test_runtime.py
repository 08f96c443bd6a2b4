import json
import subprocess
import sys

import pytest
import torch
from tests.training.small import trained

import nescio as ev
from nescio.training import _runtime
from nescio.training._runtime import (
    allow_gradients_inside_a_loss,
    make_fabric,
    native_bfloat16,
    require_device,
)


def test_bfloat16_is_chosen_where_the_hardware_has_it(monkeypatch):
    monkeypatch.setattr(_runtime, "bfloat16_on_cpu", lambda: _runtime.FASTER)
    probes = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    for probe in probes:
        monkeypatch.setattr(torch.cpu, probe, bool, raising=False)
    assert not native_bfloat16("cpu")
    assert make_fabric("cpu", "auto")._precision.precision == "32-true"
    monkeypatch.setattr(torch.cpu, probes[1], lambda: True, raising=False)
    assert native_bfloat16("cpu")
    assert make_fabric("cpu", "auto")._precision.precision == "bf16-mixed"
    assert make_fabric("cpu", "float32")._precision.precision == "32-true"
    assert not native_bfloat16("mps")


@pytest.mark.parametrize("answer", [_runtime.SLOWER, _runtime.BROKEN])
def test_bfloat16_is_not_chosen_where_it_does_not_pay(monkeypatch, answer):
    monkeypatch.setattr(_runtime, "cpu_announces_bfloat16", lambda: True)
    monkeypatch.setattr(_runtime, "bfloat16_on_cpu", lambda: answer)
    assert make_fabric("cpu", "auto")._precision.precision == "32-true"


def test_bfloat16_that_would_end_the_process_is_refused(monkeypatch):
    monkeypatch.setattr(_runtime, "cpu_announces_bfloat16", lambda: True)
    monkeypatch.setattr(_runtime, "bfloat16_on_cpu", lambda: _runtime.BROKEN)
    with pytest.raises(ev.InputError, match="do not work; use float32"):
        make_fabric("cpu", "bfloat16")


@pytest.fixture
def forgotten():
    """This process remembers no answer, before the test and after it."""
    _runtime.bfloat16_on_cpu.cache_clear()
    yield
    _runtime.bfloat16_on_cpu.cache_clear()


def test_bfloat16_is_tried_in_another_process_and_the_answer_kept(monkeypatch, empty_cache, forgotten):
    monkeypatch.setattr(_runtime, "BFLOAT16_TRIAL", "import os, signal; os.kill(os.getpid(), signal.SIGILL)")
    assert _runtime.bfloat16_on_cpu() == _runtime.BROKEN
    monkeypatch.setattr(_runtime, "BFLOAT16_TRIAL", "print('faster')")
    _runtime.bfloat16_on_cpu.cache_clear()
    assert _runtime.bfloat16_on_cpu() == _runtime.BROKEN
    (empty_cache / "bfloat16.json").write_text("not JSON")
    _runtime.bfloat16_on_cpu.cache_clear()
    assert _runtime.bfloat16_on_cpu() == _runtime.FASTER


def test_the_tests_train_in_float32_wherever_they_run(monkeypatch, forgotten):
    """Of the answer that the cache of the tests holds: a trial would decide by its speed."""
    monkeypatch.setattr(_runtime, "BFLOAT16_TRIAL", "print('faster')")
    assert _runtime.bfloat16_on_cpu() == _runtime.SLOWER


@pytest.mark.parametrize("condition", ["torch", "limit", "processor"])
def test_an_answer_kept_under_another_condition_is_not_used(monkeypatch, empty_cache, forgotten, condition):
    """Of another torch, of other instructions, or of another machine that shares the folder."""
    monkeypatch.setattr(_runtime, "BFLOAT16_TRIAL", "print('faster')")
    now = _runtime.bfloat16_conditions()
    then = {**now, condition: "another"}
    empty_cache.mkdir()
    path = empty_cache / "bfloat16.json"
    path.write_text(json.dumps({"conditions": then, "answer": _runtime.SLOWER}))
    assert _runtime.bfloat16_on_cpu() == _runtime.FASTER
    assert json.loads(path.read_text()) == {"conditions": now, "answer": _runtime.FASTER}


def test_devices(monkeypatch):
    require_device("auto")
    require_device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ev.InputError, match="there is no cuda device here; use auto or cpu"):
        require_device("cuda")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    require_device("cuda")
    with pytest.raises(ev.InputError, match="device must be one of auto, cpu, cuda, mps, got 'gpu0'"):
        require_device("gpu0")
    with pytest.raises(ev.InputError, match="device must be one of auto, cpu, cuda, mps, got 'gpu0'"):
        trained(device="gpu0")


def test_fabric_is_loaded_without_what_it_only_compares_the_version_of():
    asked = (
        "import sys\n"
        "from nescio.training._runtime import make_fabric\n"
        "make_fabric('cpu', 'float32')\n"
        "print('torchmetrics' in sys.modules, 'transformers' in sys.modules)\n"
        "from lightning_fabric.utilities.imports import _TORCHMETRICS_GREATER_EQUAL_1_0_0 as is_new\n"
        "import torchmetrics\n"
        "print(is_new, hasattr(torchmetrics, 'Metric'))\n"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False", "True", "True"]


def test_gradients_inside_a_loss_are_allowed_in_bfloat16():
    """Fabric refuses them by a hook that is its own: where it changes, this says so."""
    fabric = make_fabric("cpu", "bfloat16")
    module = torch.nn.Linear(3, 2)
    wrapped = fabric.setup(module, torch.optim.SGD(module.parameters(), lr=0.1))[0]
    inputs = torch.ones(4, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="fabric"):
        torch.autograd.grad(wrapped(inputs).sum(), inputs)
    allow_gradients_inside_a_loss(wrapped)
    (slope,) = torch.autograd.grad(wrapped(inputs).sum(), inputs)
    torch.testing.assert_close(slope, module.weight.sum(0).expand(4, 3), rtol=0.02, atol=0.02)


@pytest.mark.parametrize(
    ("rank", "size", "is_first"),
    [(None, None, True), ("0", "2", True), ("1", "2", False), ("1", None, True), ("3", "1", True)],
)
def test_one_process_speaks_for_all(monkeypatch, rank, size, is_first):
    """A RANK that something else left in the environment does not silence a process that is alone."""
    for name, value in (("RANK", rank), ("WORLD_SIZE", size)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    assert _runtime.is_first_process() is is_first
