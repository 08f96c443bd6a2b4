import runpy
from pathlib import Path

import mpmath as mp
import pytest
import torch

from nescio.functional._kernels import coefficients, divergence


@pytest.mark.unmeasured  # of mpmath it would take three times as long
def test_the_coefficients_are_what_the_tool_fits(capsys):
    with mp.workdps(mp.mp.dps):  # which the tool changes
        runpy.run_path(str(Path(__file__).parents[3] / "tools/fit_divergence.py"), run_name="__main__")
    fitted: dict = {}
    exec(capsys.readouterr().out, fitted)
    assert tuple(fitted["FLOAT32"]) == tuple(coefficients.FLOAT32)
    assert tuple(fitted["FLOAT64"]) == tuple(coefficients.FLOAT64)


@pytest.mark.parametrize(("classes", "threads", "rows"), [(10, 1, 13200), (21841, 1, 6), (10**6, 2, 1)])
def test_blocks_fit_the_cache(monkeypatch, classes, threads, rows):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    assert divergence.block_rows(classes, torch.device("cpu")) == rows


def test_other_devices_do_all_rows_at_once_and_keep_no_buffers():
    assert divergence.block_rows(10, torch.device("meta")) > 10**12
    like = torch.empty(4, 3, device="meta")
    assert divergence.buffers_for(like, 4).v is not divergence.buffers_for(like, 4).v


def test_a_thread_keeps_its_last_buffers():
    like = torch.empty(4, 3)
    first = divergence.buffers_for(like, 4)
    assert divergence.buffers_for(like, 4).v is first.v
    assert divergence.buffers_for(like.double(), 4).v.dtype == torch.float64


def test_few_classes_are_computed_in_float64():
    assert divergence.work_type(torch.float32, 7) == torch.float64
    assert divergence.work_type(torch.float32, 8) == torch.float32
    assert divergence.work_type(torch.float64, 8) == torch.float64


def test_constants_are_kept_and_not_without_end():
    made = []
    kept = divergence._kept(lambda key: made.append(key) or torch.tensor(key))
    assert kept(1) is kept(1)
    for key in range(2 * divergence.MOST_KEPT):
        kept(key)
    assert made.count(1) == 1
    assert kept(1) is not None
    assert made.count(1) == 2
