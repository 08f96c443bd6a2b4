"""`nescio export`."""

import logging

import pytest


@pytest.mark.filterwarnings("ignore")
def test_export_says_what_it_wrote_and_nothing_else(run, model, tmp_path, caplog):
    onnx, program = tmp_path / "m.onnx", tmp_path / "m.pt2"
    code, out, err = run("export", model, "--onnx", onnx, "--program", program)
    assert (code, out, err) == (0, f"{onnx}: written\n{program}: written\n", "")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert min(onnx.stat().st_size, program.stat().st_size) > 1000
